"""Cassettes on disk: their content, several writers at once, and the state after a kill."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tape import light
from mcp_tape.cassette.file import connect, header_says_wal, recover, switch_to_wal
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cassette.writer import Writer, mark_incomplete
from mcp_tape.errors import CassetteError
from mcp_tape.wire.frames import LEFT_OUT, Side
from tests.support.decks import OneSession
from tests.support.running import MCP_TAPE, WAIT, frames, is_one_file, python, run, sessions, without_roots_powers
from tests.support.streams import recorded

FACTS = {
    "started_at": "2026-01-01T00:00:00.000000Z",
    "transport": "stdio",
    "target": {"command": ["x"]},
    "recorder": "test",
}
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="uses Linux's own calls")


def write(writer: OneSession, data: bytes, side: Side = "client") -> None:
    writer.append(recorded([(side, "stdio", data)])[1], {})


@contextlib.contextmanager
def raw_sql(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=WAIT)) as db:
        yield db


def written(path: Path, data: bytes = b"hello\n") -> Path:
    writer = OneSession(path, FACTS)
    write(writer, data)
    writer.finish({"ended_at": "later"})
    writer.close()
    return path


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"plain", "text"),
        ("ünï ☃ 𝄞 \ufeff".encode(), "text"),
        (b"", "text"),
        (b"nul\0", "data"),
        (b"\xff", "data"),
        (b"\xed\xa0\x80", "data"),  # a surrogate, which UTF-8 does not allow
    ],
)
def test_text_is_text_where_sqlite_can_hold_it_and_else_data(tmp_path: Path, line: bytes, kind: str) -> None:
    path = written(tmp_path / "tape.db", line + b"\n")
    with raw_sql(path) as db:
        types = db.execute("SELECT typeof(text), typeof(data) FROM frames").fetchall()
    assert types == [("text", "null") if kind == "text" else ("null", "blob")]
    assert [frame.text for frame in frames(path)] == [line]


def test_a_method_that_sqlite_cannot_hold_does_not_lose_its_frame(tmp_path: Path) -> None:
    line = b'{"jsonrpc":"2.0","id":"\\ud800","method":"\\udfff","params":{"name":"\\ud800"}}'
    path = written(tmp_path / "tape.db", line + b"\n")
    assert [(frame.text, frame.kind) for frame in frames(path)] == [(line, "message")]


def test_a_batch_that_fails_leaves_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    writer = OneSession(path, FACTS)
    twice = recorded([("client", "stdio", b"one\n")])[1] * 2
    with pytest.raises(sqlite3.IntegrityError):
        writer.append(twice, {"server_name": "half"})
    write(writer, b"whole\n")
    writer.finish({})
    writer.close()
    assert [frame.text for frame in frames(path)] == [b"whole"]
    assert sessions(path)[0].server_name is None


@pytest.mark.slow
def test_frames_read_in_blocks_are_whole_and_in_order(tmp_path: Path) -> None:
    data = (
        b"".join(b"%d\n" % n for n in range(2_500))
        + b"x" * 5_000_000
        + b"\n"
        + b"".join(b"%d\n" % n for n in range(1_500))
    )
    path = written(tmp_path / "tape.db", data)
    got = frames(path)
    assert [frame.seq for frame in got] == list(range(1, 4_002))
    assert b"".join(frame.text + frame.eol for frame in got) == data


def test_a_cassette_is_recognized_by_its_header_from_the_first_moment(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    writer = OneSession(path, FACTS)
    assert path.read_bytes()[68:72] == b"MCPT" and path.read_bytes()[18:20] == b"\2\2"
    writer.close()
    assert is_one_file(path)


@pytest.mark.parametrize("name", ["ta?pe.db", "ta#pe.db", "100%20.db", "with space.db", "-dash.db", "ünïcode.db"])
def test_a_cassette_may_have_any_name(tmp_path: Path, name: str) -> None:
    assert [frame.text for frame in frames(written(tmp_path / name))] == [b"hello"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


# Several writers at once --------------------------------------------------------------------------------


def test_of_two_writers_the_last_one_out_leaves_one_file(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    one, two = OneSession(path, FACTS), OneSession(path, FACTS)
    write(one, b"1\n2\n")
    write(two, b"3\n4\n", "server")
    one.finish({})
    one.close()
    assert not is_one_file(path)
    two.finish({})
    two.close()
    assert is_one_file(path)
    assert [[frame.text for frame in frames(path, session)] for session in (1, 2)] == [[b"1", b"2"], [b"3", b"4"]]


@pytest.mark.slow
def test_a_writer_waits_for_a_reader(tmp_path: Path) -> None:
    path = written(tmp_path / "tape.db")
    warnings = []

    def open_another() -> None:
        writer = OneSession(path, FACTS)
        warnings.append(writer.warning)
        writer.finish({})
        writer.close()

    with raw_sql(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM frames").fetchall()
        thread = threading.Thread(target=open_another, daemon=True)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()  # it cannot have succeeded yet
        reader.execute("COMMIT")
        thread.join(WAIT)
    assert warnings == [None]
    assert len(sessions(path)) == 2 and is_one_file(path)


@pytest.mark.slow
def test_a_writer_that_starts_while_another_writes_waits_for_it(tmp_path: Path) -> None:
    path = written(tmp_path / "tape.db")
    switched = []

    with raw_sql(path) as other, contextlib.closing(connect(str(path))) as db:
        other.execute("BEGIN IMMEDIATE")
        thread = threading.Thread(target=lambda: switched.append(switch_to_wal(db)), daemon=True)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()  # SQLite itself would have given up at once
        other.execute("COMMIT")
        thread.join(WAIT)
    assert switched == [True]


def test_tidying_up_while_a_writer_starts_disturbs_neither(tmp_path: Path) -> None:
    path = written(tmp_path / "tape.db")
    tidied = []

    def tidy_once(statement: str) -> None:
        if statement.startswith("SELECT") and not tidied:  # the mode has changed, but nothing is locked yet
            tidied.append(statement)
            recover(str(path))

    with contextlib.closing(connect(str(path))) as db:
        db.set_trace_callback(tidy_once)
        assert switch_to_wal(db) and tidied
        recover(str(path))
        assert header_says_wal(str(path))  # it could not switch back: the writer has it open


def test_a_session_that_is_not_whole_says_why(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    writer = OneSession(path, FACTS)
    assert "never closed" in (sessions(path)[0].incomplete or "")
    mark_incomplete(str(path), [writer.session], "somebody tripped over the cable")
    assert sessions(path)[0].incomplete == "somebody tripped over the cable"
    writer.finish({"ended_at": "now"})
    writer.close()
    assert sessions(path)[0].incomplete is None


def test_a_whole_session_is_not_marked_incomplete(tmp_path: Path) -> None:
    path = written(tmp_path / "tape.db")
    mark_incomplete(str(path), [1], "the recorder of another session that had this number")
    assert sessions(path)[0].incomplete is None


def test_a_frame_left_out_by_a_redaction_stays_noted(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    writer = OneSession(path, FACTS)
    mark_incomplete(str(path), [writer.session], LEFT_OUT)
    writer.finish({"ended_at": "now", "incomplete": None})
    writer.close()
    assert sessions(path)[0].incomplete == LEFT_OUT


def test_a_session_does_not_extend_one_that_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    writer = OneSession(path, FACTS | {"extends": 1})  # which takes its number
    writer.finish({"ended_at": "now"})
    writer.close()
    assert (sessions(path)[0].id, sessions(path)[0].extends) == (1, None)


def test_a_writer_knows_when_its_file_was_moved(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    writer = OneSession(path, FACTS)
    assert writer.is_in_place()
    path.rename(tmp_path / "moved.db")
    assert not writer.is_in_place()
    path.write_bytes((tmp_path / "moved.db").read_bytes())
    assert not writer.is_in_place()
    writer.close()


# Leftovers of a killed recorder -------------------------------------------------------------------------


def left_by_a_killed_recorder(path: Path) -> None:
    run(
        python(f"""
import os
from tests.support.decks import OneSession
from tests.cassette.test_writer import FACTS, write
writer = OneSession({str(path)!r}, FACTS)
write(writer, b"hello\\n")
os._exit(1)
"""),
        cwd=Path(__file__).parents[2],
    )
    assert not is_one_file(path)


@pytest.mark.slow
def test_a_killed_recorders_cassette_is_read_and_tidied_up(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    left_by_a_killed_recorder(path)
    assert [frame.text for frame in frames(path)] == [b"hello"]
    assert "never closed" in (sessions(path)[0].incomplete or "")
    assert is_one_file(path)


@linux_only
@pytest.mark.slow
def test_a_killed_recorders_cassette_is_read_where_nothing_may_be_written(tmp_path: Path) -> None:
    path = tmp_path / "locked" / "tape.db"
    path.parent.mkdir()
    left_by_a_killed_recorder(path)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    path.parent.chmod(0o500)
    try:
        export = [*MCP_TAPE, "convert", str(path), "--to", "raw", "--side", "client"]
        done = run(export, preexec_fn=without_roots_powers)
    finally:
        path.parent.chmod(0o700)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hello\n", b"")
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


# Incomplete cassettes -----------------------------------------------------------------------------------


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5_000])


def without_a_table(path: Path) -> None:
    with raw_sql(path) as db:
        db.execute("DROP TABLE derived")


def with_a_trigger(path: Path) -> None:
    with raw_sql(path) as db:
        db.execute("CREATE TRIGGER t AFTER INSERT ON sessions BEGIN DELETE FROM facts; END")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (cut_short, "cannot read|malformed"),
        (without_a_table, "has no table derived"),
        (with_a_trigger, "SQL triggers"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.unlink(), "there is no cassette"),
    ],
    ids=["cut short", "no table", "trigger", "empty", "missing"],
)
def test_an_invalid_cassette_is_refused_by_readers(tmp_path: Path, harm: object, says: str) -> None:
    path = written(tmp_path / "tape.db")
    harm(path)  # type: ignore[operator]
    with pytest.raises(CassetteError, match=says), Cassette(path) as cassette:
        list(cassette.frames(cassette.session().id))


@pytest.mark.parametrize("harm", [without_a_table, with_a_trigger], ids=["no table", "trigger"])
def test_an_invalid_cassette_is_not_written_to(tmp_path: Path, harm: object) -> None:
    path = written(tmp_path / "tape.db")
    harm(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(CassetteError):
        OneSession(path, FACTS)
    assert path.read_bytes() == before and is_one_file(path)


@linux_only
@pytest.mark.slow
def test_a_command_line_that_is_no_utf8_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    command = [*MCP_TAPE, "record", "-o", str(path), "--note", b"na\xefve", "--", "cat", "-", b"/no-such-caf\xe9"]
    done = run(command, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert b"INCOMPLETE" not in done.stderr
    (session,) = sessions(path)
    assert json.loads(session.target)["command"][-1] == "/no-such-caf\udce9"
    assert session.note == "na?ve"
    listed = run([*MCP_TAPE, "ls", str(path), "--json"])
    assert json.loads(listed.stdout)["target"]["command"][-1] == "/no-such-caf\udce9"


def test_a_server_that_calls_itself_by_half_a_character_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    name = (
        r'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1","serverInfo":{"name":"a\ud800","version":"\udfff"}}}'
    )
    ask = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
    done = run([*MCP_TAPE, "record", "-o", str(path), "--", *python(f"input(); print({name!r})")], f"{ask}\n".encode())
    assert b"INCOMPLETE" not in done.stderr
    (session,) = sessions(path)
    assert (session.server_name, session.server_version) == ("a?", "?")
    assert [
        frame.text.decode() for frame in frames(path, 1) if frame.sender == "server" and frame.kind == "message"
    ] == [name]


def test_without_a_write_ahead_log_each_commit_is_on_the_disk_and_the_writer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file system without shared memory, which SQLite provides: https://www.sqlite.org/vfs.html
    connect = sqlite3.connect
    monkeypatch.setattr(light.sqlite3, "connect", lambda to, **more: connect(f"{to}&vfs=unix-dotfile", **more))
    made = Writer(str(tmp_path / "tape.db"))
    assert "does not allow SQLite's WAL" in str(made.warning)
    ((mode,),) = made.connection.execute("PRAGMA journal_mode")
    ((level,),) = made.connection.execute("PRAGMA synchronous")
    assert (mode, level) == ("truncate", 2)  # 2: FULL
    made.begin(FACTS)
    made.close()
    monkeypatch.undo()
    assert len(sessions(tmp_path / "tape.db")) == 1 and is_one_file(tmp_path / "tape.db")
    made = Writer(str(tmp_path / "tape.db"))
    ((mode,),) = made.connection.execute("PRAGMA journal_mode")
    assert (mode, made.warning) == ("wal", None)
    made.close()
