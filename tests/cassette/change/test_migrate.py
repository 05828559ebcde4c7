"""Cassettes of older schemas: they are read as they are, and brought up to date where they are changed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcp_tape.cassette import schema
from mcp_tape.cassette.change import connect
from mcp_tape.cassette.change.migrate import migrate
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cassette.writer import Writer
from mcp_tape.cli import cli
from mcp_tape.errors import CassetteError
from tests.support.decks import alter
from tests.support.http_facts import Http, cassette
from tests.support.older import make_old
from tests.support.reading import Frames, Recording, call, invoke, lines, make, message, said
from tests.support.running import MCP_TAPE, WAIT, as_another_user, frames, receive, run, started
from tests.support.texts import everything, hidden, odd, over_http, several

SCHEMAS = Path(__file__).parents[3] / "cassettes" / "schemas"
VERSIONS = range(1, schema.VERSION + 1)
Make = Callable[[Path], Path]
READS = [
    ["ls"], ["show"], ["show", "--json"], ["show", "--filter", "status:error"], ["export"], ["stats"],
    ["search", "name"],
    ["check", "--json"], ["query", "SELECT * FROM exchanges"], ["query", "SELECT * FROM tool_calls"],
    ["query", "SELECT * FROM messages"], ["query", "SELECT * FROM notifications"],
]  # fmt: skip


def two_calls(path: Path) -> Path:
    asked = Frames().client(call(1, "add", a=1)).server(said(1, "three"))
    return make(path, asked, Frames().client(call(2, "sub", a=1)).stderr("bye").server(said(2, "four")))


def batches(path: Path) -> Path:
    """Batches of either side, one behind the other, with what is answered and cancelled among them."""
    asked = b"[%s,%s,%s]" % (call(1, "add"), message(method="notifications/x"), call(2, "add", a=1))
    answers = b"[%s,%s]" % (said(2, "two"), said(1, "one"))
    questions = b"[%s,%s]" % (message(id=1, method="roots/list"), message(id=2, method="ping"))
    talk = Frames().client(call(0, "first")).server(said(0, "zero")).client(asked).server(questions)
    talk.client(b"[%s,%s]" % (message(id=2, result={}), message(id=1, result={"roots": []}))).server(answers)
    talk.client(message(method="notifications/cancelled", params={"requestId": 1})).client(call(3, "last"))
    return make(path, talk.server(said(3, "three")), Frames().client(call(1, "alone")))


def retried_batch(path: Path) -> Path:
    """A batch that is refused, then made again; and one whose response answers nothing that was asked."""
    both = f"[{call(1, 'a').decode()},{call(2, 'b').decode()}]"

    def talk(http: Http) -> None:
        http.post("post-1", both)
        http.answer("post-1", "", 401)
        http.post("post-2", both)
        http.respond("post-2")
        http.event("post-2", said(2, "two").decode(), "7")
        http.event("post-2", said(1, "one").decode(), "8")
        http.end("server", "post-2")
        http.post("post-3", both.replace('"id": 1', '"id": 3').replace('"id": 2', '"id": 4'))
        http.answer("post-3", '{"go":"away"}', 400)
        http.post("post-4", call(5, "c").decode())
        http.control("client", "post-4", event="failed")
        http.post("post-5", call(5, "c").decode())
        http.answer("post-5", said(5, "five").decode())

    return cassette(path, talk)


IN_USE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA journal_mode = WAL")
db.execute("SELECT * FROM sessions").fetchone()
print(".", end="", flush=True)
sys.stdin.read()
"""
MAKES = [two_calls, odd, hidden, over_http, several, batches, retried_batch]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """A cassette of schema 1, alone in its directory."""
    return make_old(two_calls(tmp_path / "tape.db"))


def version(tape: Path) -> int:
    with contextlib.closing(sqlite3.connect(tape)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def texts(tape: Path) -> list[list[bytes]]:
    with Cassette(tape) as found:
        return [[frame.text for frame in found.frames(session.id)] for session in found.sessions()]


def record_one(tape: Path, **facts: str) -> int:
    recording = Recording(tape, **facts)
    recording.write(Frames().client(call(9, "new")).server(said(9, "nine")))
    recording.end()
    return recording.session


# What it becomes ----------------------------------------------------------------------------------------


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("made", MAKES)
def test_an_older_cassette_becomes_what_todays_would_be(tmp_path: Path, made: Make) -> None:
    tape = made(tmp_path / "tape.db")
    before = everything(tape)
    make_old(tape)
    assert version(tape) == 1
    assert everything(tape) == before  # read as it is
    assert version(tape) == 1
    assert migrate(str(tape)) == [1, schema.VERSION]
    assert version(tape) == schema.VERSION
    assert everything(tape) == before
    assert os.listdir(tmp_path) == ["tape.db"]


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("made", MAKES)
def test_commands_that_read_say_the_same_of_it(tmp_path: Path, made: Make) -> None:
    tape = made(tmp_path / "tape.db")
    expected = [invoke(words[0], tape, *words[1:]).stdout for words in READS]
    make_old(tape)
    before = tape.read_bytes()
    for words, was in zip(READS, expected, strict=True):
        assert invoke(words[0], tape, *words[1:]).stdout == was, words
    assert tape.read_bytes() == before
    assert os.listdir(tmp_path) == ["tape.db"]


def test_it_is_brought_up_to_date_by_what_records_into_it(tape: Path) -> None:
    old = texts(tape)
    assert record_one(tape) == 3
    assert version(tape) == schema.VERSION
    assert texts(tape) == [*old, [call(9, "new"), said(9, "nine")]]
    assert invoke("check", tape).exit_code == 0


@pytest.mark.parametrize("words", [["rm", "--session", "2"], ["redact"], ["redact", "--dry-run"]])
def test_it_is_brought_up_to_date_by_what_changes_it(tape: Path, words: list[str]) -> None:
    first = texts(tape)[0]
    assert invoke(words[0], tape, *words[1:]).exit_code == 0
    assert version(tape) == (schema.VERSION if words[0] == "rm" else 1)  # there was nothing to hide
    assert texts(tape)[0] == first


def test_its_mode_and_a_link_to_it_stay(tape: Path, tmp_path: Path) -> None:
    tape.chmod(0o640)
    link = tmp_path / "link.db"
    link.symlink_to(tape.name)
    assert migrate(str(link)) == [1, schema.VERSION]
    assert link.is_symlink() and (version(tape), tape.stat().st_mode & 0o777) == (schema.VERSION, 0o640)


def test_a_key_that_no_text_gives_any_more_stays(tmp_path: Path) -> None:
    tape = batches(tmp_path / "tape.db")
    sql = "UPDATE derived SET key = x'00ff' WHERE rpc_id = '2' AND method = 'tools/call'"
    alter(tape, sql, "UPDATE facts SET redactions = 1")
    before = everything(tape)
    make_old(tape)
    migrate(str(tape))
    assert everything(tape) == before


def test_frames_with_gaps_between_them_keep_their_numbers(tape: Path) -> None:
    for table in ("frames", "messages"):
        alter(tape, f"UPDATE {table} SET seq = seq * 10")
    alter(tape, "UPDATE messages SET cue = cue * 10, answers = answers * 10, exchange = exchange * 10")
    assert [frame.seq for frame in frames(tape, 2)] == [10, 20, 30]
    migrate(str(tape))
    assert [frame.seq for frame in frames(tape, 2)] == [10, 20, 30]
    assert invoke("check", tape).exit_code == 0


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("shift", [-1, -5, 1 << 32, 1 << 60])
def test_frames_with_numbers_out_of_bounds_are_counted_anew(tape: Path, shift: int) -> None:
    old = texts(tape)
    for table in ("frames", "messages"):
        alter(tape, f"UPDATE {table} SET seq = seq + {shift}")
    alter(tape, f"UPDATE messages SET cue = cue + {shift}, answers = answers + {shift}, exchange = exchange + {shift}")
    migrate(str(tape))
    assert (texts(tape), [frame.seq for frame in frames(tape, 2)]) == (old, [1, 2, 3])
    assert invoke("check", tape).exit_code == 0


@pytest.mark.parametrize("number", [schema.MOST_SESSIONS + 1, 1 << 40, -1 << 40])
def test_a_session_with_a_number_out_of_bounds_is_not_read(tape: Path, number: int) -> None:
    for table, column in ("sessions", "id"), ("frames", "session"), ("messages", "session"):
        alter(tape, f"UPDATE {table} SET {column} = {number} WHERE {column} = 2")
    before = tape.read_bytes()
    for words in ["ls"], ["migrate"], ["rm", "--session", "1"]:
        result = invoke(words[0], tape, *words[1:])
        assert (result.exit_code, "what does not belong there" in result.stderr) == (3, True), result.output
    assert tape.read_bytes() == before


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE frames SET at = 'x'", "UPDATE frames SET seq = 'x' WHERE seq = 1", "UPDATE frames SET text = 1.5",
        "UPDATE frames SET text = NULL", "UPDATE messages SET seq = 'x'", "UPDATE messages SET cue = 'x'",
        "UPDATE messages SET method = x'ff'", "UPDATE messages SET answers = 'x'", "UPDATE messages SET key = 'x'",
        "UPDATE messages SET exchange = 1.5", "UPDATE frames SET kind = 'batch', text = 7",
        "UPDATE sessions SET key_version = 'x'",
    ],
)  # fmt: skip
def test_an_odd_value_of_a_stranger_is_told_and_no_traceback(tape: Path, change: str) -> None:
    alter(tape, change)
    before = tape.read_bytes()
    for words in READS:
        result = invoke(words[0], tape, *words[1:])  # or it raises
        assert result.exit_code in (0, 1, 3), words
    assert tape.read_bytes() == before
    assert invoke("migrate", tape).exit_code in (0, 3)


# Who else is there --------------------------------------------------------------------------------------


def test_a_table_of_somebody_else_is_in_the_way_of_a_change_only(tape: Path) -> None:
    alter(tape, "CREATE TABLE mine (secret TEXT)")
    before = tape.read_bytes()
    assert len(texts(tape)) == 2
    for words in ["migrate"], ["rm", "--session", "1"], ["redact"]:
        result = invoke(words[0], tape, *words[1:])
        assert (result.exit_code, f"drop-table {tape} mine" in result.stderr) == (3, True)
    with pytest.raises(CassetteError, match="drop-table"):
        Recording(tape)
    assert tape.read_bytes() == before


def test_triggers_of_a_stranger_do_not_run(tape: Path) -> None:
    alter(tape, "CREATE TRIGGER t AFTER UPDATE ON sessions BEGIN DELETE FROM frames; END")
    for act in (migrate, Cassette, Writer):
        with pytest.raises(CassetteError, match="SQL triggers"):
            act(str(tape))


@pytest.mark.parametrize("name", ["sessions", "frames", "messages"])
def test_a_view_in_the_place_of_a_table_is_not_read(tape: Path, name: str) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)"
    alter(tape, f"DROP TABLE {name}", f"CREATE VIEW {name} AS {endless} SELECT * FROM n")
    for act in (migrate, Cassette):
        with pytest.raises(CassetteError, match=f"it has no table {name}"):
            act(str(tape))


@pytest.fixture
def public(tape: Path) -> Iterator[Path]:
    """The same in a directory that every user may enter; those that pytest makes are private."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        yield Path(shutil.copy(tape, place))


def test_it_is_read_where_nothing_may_be_written(public: Path) -> None:
    tape = public
    printed = as_another_user(lambda: cli(["show", str(tape)], standalone_mode=False))
    assert "sub" in printed and "four" in printed
    refused = as_another_user(lambda: print(invoke("migrate", tape).stderr))
    assert "cannot be changed" in refused
    assert version(tape) == 1


def left_in_wal(tape: Path) -> None:
    """Leave a cassette as a recorder does who is killed: its last frame is beside it."""
    with contextlib.closing(sqlite3.connect(tape)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE frames SET text = ? WHERE session = 2 AND seq = 1", (call(2, "later").decode(),))
        db.commit()
        left = {ending: Path(f"{tape}{ending}").read_bytes() for ending in ("", "-wal")}
    for ending, data in left.items():
        Path(f"{tape}{ending}").write_bytes(data)


def left_hot(tape: Path) -> None:
    """Leave a cassette as one does who is killed at its commit: its first frame is gone from it, and in the journal."""
    with contextlib.closing(sqlite3.connect(tape, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")  # so that pages are written before the commit
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE frames SET text = 'by somebody who was killed'")
        db.execute("CREATE TABLE many AS SELECT zeroblob(9999) FROM frames")
        left = {ending: Path(f"{tape}{ending}").read_bytes() for ending in ("", "-journal")}
        db.execute("ROLLBACK")
    for ending, data in left.items():
        Path(f"{tape}{ending}").write_bytes(data)


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(("leave", "tool"), [(left_in_wal, b"later"), (left_hot, b"sub")])
@pytest.mark.parametrize("act", [texts, lambda tape: migrate(str(tape)), record_one], ids=["read", "migrate", "record"])
def test_what_a_killed_recorder_left_is_put_in_order(
    tape: Path, leave: Callable[[Path], None], tool: bytes, act: Callable[[Path], object]
) -> None:
    leave(tape)
    act(tape)
    assert tool in texts(tape)[1][0]
    assert os.listdir(tape.parent) == ["tape.db"]


def test_what_was_left_beside_it_is_read_where_nothing_may_be_written(public: Path) -> None:
    tape = public
    left_in_wal(tape)
    before = sorted(os.listdir(tape.parent))
    assert "later" in as_another_user(lambda: cli(["show", str(tape)], standalone_mode=False))
    assert sorted(os.listdir(tape.parent)) == before


def test_who_records_at_once_waits_until_it_is_done(tape: Path) -> None:
    old = texts(tape)
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(run, [*MCP_TAPE, "record", "-o", str(tape), "-q", "--", "cat"], b"") for _ in range(8)]
    assert [one.result().returncode for one in done] == [0] * 8
    assert not any(b"cannot write" in one.result().stderr for one in done)  # one or the other may say that it waits
    found = texts(tape)
    assert (found[:2], len(found)) == (old, 10)
    assert os.listdir(tape.parent) == ["tape.db"]


def test_one_that_an_older_version_records_stays_as_it_is(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_PATIENCE", 0.3)
    with started([sys.executable, "-c", IN_USE, str(tape)]) as process:
        assert process.stdout and process.stdin
        assert receive(process.stdout, 1) == b"."
        assert "is in use, so it stays as it was" in invoke("migrate", tape).stderr
        with pytest.raises(CassetteError, match="is in use"):
            Recording(tape)
        assert len(texts(tape)) == 2
        process.stdin.close()
        assert process.wait(WAIT) == 0
    assert (migrate(str(tape)), version(tape)) == ([1, schema.VERSION], schema.VERSION)


# Versions -----------------------------------------------------------------------------------------------


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("words", [["ls"], ["show"], ["query", "SELECT 1"], ["replay"], ["redact"], ["migrate"]])
def test_a_version_that_no_release_has_made_is_told(tape: Path, words: list[str]) -> None:
    alter(tape, "PRAGMA user_version = 0")
    result = invoke(words[0], tape, *words[1:])
    assert result.exit_code == 3
    assert "schema 0, which no mcp-tape has made" in result.stderr
    with pytest.raises(CassetteError, match="no mcp-tape has made"):
        Writer(str(tape))


def test_a_cassette_of_today_stays_as_it_is(tape: Path) -> None:
    assert json.loads(lines("migrate", tape, "--json")[0]) == {"file": str(tape), "from": 1, "to": schema.VERSION}
    before = tape.read_bytes()
    result = invoke("migrate", tape)
    assert (result.exit_code, result.stderr) == (0, f"mcp-tape: {tape} is up to date: schema {schema.VERSION}\n")
    now = {"file": str(tape), "from": schema.VERSION, "to": schema.VERSION}
    assert json.loads(lines("migrate", tape, "--json")[0]) == now
    assert tape.read_bytes() == before


def test_there_is_a_cassette_of_each_version() -> None:
    assert sorted(path.name for path in SCHEMAS.glob("*.db")) == sorted(f"{number}.db" for number in VERSIONS)


@pytest.mark.parametrize("number", VERSIONS)
def test_a_cassette_of_each_version_can_be_read_for_ever(tmp_path: Path, number: int) -> None:
    tape = tmp_path / "tape.db"
    shutil.copy(SCHEMAS / f"{number}.db", tape)
    assert version(tape) == number
    assert invoke("migrate", tape).exit_code == 0
    with Cassette(tape) as cassette:
        one, two, three = cassette.sessions()
        counts = [cassette.counts(session.id) for session in (one, two, three)]
        calls = [(e.method, e.name, e.error is None, e.microseconds) for e in cassette.exchanges(1)]
    assert (one.server_name, one.note, one.exit_code, one.incomplete) == ("golden", "golden", 0, None)
    assert (two.transport, two.run, json.loads(two.target)["url"]) == ("http", "run-1", "http://127.0.0.1:8000/mcp")
    assert (three.extends, three.incomplete) == (1, "cut short")
    assert [(c["frames"], c["exchanges"], c["open"], c["errors"]) for c in counts] == [
        (12, 4, 0, 2), (6, 1, 0, 0), (1, 0, 1, 0),
    ]  # fmt: skip
    assert calls == [
        ("initialize", None, True, 1000), ("tools/call", "login", True, 2000),
        ("ping", None, True, 1000), ("prompts/list", None, False, 1000),
    ]  # fmt: skip
    texts = [frame.text for frame in frames(tape, 1)]
    assert texts[3] == b"bytes \xff\x00" and b'"password":"[redacted:key:password]"' in texts[5]
    found = [row["message"] for row in map(json.loads, invoke("check", tape, "--json").stdout.splitlines())]
    assert found == ["is incomplete: cut short"]
    call_again = b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}\n'
    done = run([*MCP_TAPE, "replay", str(tape), "--session", "2", "-q"], call_again)
    assert (done.returncode, done.stdout) == (0, b'{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}\n')
