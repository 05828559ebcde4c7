"""mcp-tape migrate: cassettes of older schemas are brought up to date, and what was made once stays readable."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlite_utils import Database, Migrations

from mcp_tape.cassette import schema
from mcp_tape.cassette.change.migrate import STEPS, migrate
from mcp_tape.cassette.derive import rebuild_session
from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from tests.support.decks import alter
from tests.support.reading import Frames, Recording, call, invoke, lines, make, said
from tests.support.running import MCP_TAPE, frames, run
from tests.support.texts import everything

SCHEMAS = Path(__file__).parents[3] / "cassettes" / "schemas"
VERSIONS = range(1, schema.VERSION + 1)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return make(tmp_path / "tape.db", Frames().client(call(1, "add", a=1)).server(said(1, "two")))


def make_older(tape: Path) -> None:
    """As a version before the first might have been: without what is played by, and without a view."""
    alter(
        tape,
        "DROP VIEW stderr",
        "DROP INDEX messages_exchange",
        "DROP INDEX messages_cue",
        "ALTER TABLE messages DROP COLUMN exchange",
        "ALTER TABLE messages DROP COLUMN cue",
        "PRAGMA user_version = 0",
    )


def steps(*functions: Callable[[Database], None]) -> Migrations:
    """From version 0 on."""
    found = Migrations("test")
    for number, function in enumerate(functions):
        found(name=str(number))(function)
    return found


def from_0(db: Database) -> None:
    """A step as a new schema would bring it."""
    db.execute("ALTER TABLE messages ADD COLUMN exchange INTEGER")
    db.execute("ALTER TABLE messages ADD COLUMN cue INTEGER")
    for statement in schema.SCHEMA.split(";\n"):
        if "messages_exchange" in statement or "messages_cue" in statement or "VIEW stderr" in statement:
            db.execute(statement)
    for (session,) in db.conn.execute("SELECT id FROM sessions").fetchall():
        rebuild_session(db.conn, session)


def version(tape: Path) -> int:
    with contextlib.closing(sqlite3.connect(tape)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 35), reason="this SQLite cannot drop columns")
def test_an_older_cassette_becomes_what_todays_would_be(tape: Path) -> None:
    before = everything(tape)
    make_older(tape)
    assert migrate(str(tape), steps(from_0)) == [0, 1]
    assert version(tape) == schema.VERSION
    assert everything(tape) == before
    assert invoke("check", tape).exit_code == 0


def test_steps_are_taken_one_after_the_other(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alter(tape, "PRAGMA user_version = 1")
    monkeypatch.setattr(schema, "VERSION", 3)
    taken: list[str] = []
    known = steps(lambda _: taken.append("0 to 1"), lambda _: taken.append("1 to 2"), lambda _: taken.append("2 to 3"))
    assert migrate(str(tape), known, 3) == [1, 2, 3]
    assert taken == ["1 to 2", "2 to 3"]
    assert version(tape) == 3


def test_what_sqlite_utils_counts_steps_by_does_not_stay(tape: Path) -> None:
    alter(tape, "PRAGMA user_version = 0")
    migrate(str(tape), steps(lambda _: None))
    assert invoke("check", tape).exit_code == 0
    assert invoke("rm", tape, "--session", "1").exit_code == 0


def test_the_same_table_of_somebody_else_is_not_touched(tape: Path) -> None:
    alter(tape, "PRAGMA user_version = 0", "CREATE TABLE _sqlite_migrations (name TEXT)")
    before = tape.read_bytes()
    with pytest.raises(CassetteError, match=f"drop-table {tape} _sqlite_migrations"):
        migrate(str(tape), steps(lambda _: None))
    assert tape.read_bytes() == before


def test_a_step_that_fails_leaves_the_cassette_as_it_was(tape: Path) -> None:
    alter(tape, "PRAGMA user_version = 0")
    before = tape.read_bytes()

    def broken(db: Database) -> None:
        db.execute("DELETE FROM frames")
        db.execute("SELECT * FROM nowhere")

    with pytest.raises(CassetteError, match="stays as it was: no such table"):
        migrate(str(tape), steps(broken))
    assert [file.name for file in tape.parent.iterdir()] == ["tape.db"]
    assert tape.read_bytes() == before


@pytest.mark.parametrize("words", [["ls"], ["show"], ["query", "SELECT 1"], ["check"], ["replay"], ["redact"]])
def test_an_older_cassette_says_how_to_bring_it_up_to_date(tape: Path, words: list[str]) -> None:
    alter(tape, "PRAGMA user_version = 0")
    result = invoke(words[0], tape, *words[1:])
    assert result.exit_code == 3
    assert f"made by an older mcp-tape (schema 0, this one reads {schema.VERSION})" in result.output
    assert f"mcp-tape migrate {tape}" in result.output


def test_nothing_is_recorded_onto_an_older_cassette(tape: Path) -> None:
    alter(tape, "PRAGMA user_version = 0")
    with pytest.raises(CassetteError, match="older mcp-tape"):
        Recording(tape)


def test_a_version_that_no_release_has_made_is_told(tape: Path) -> None:
    alter(tape, "PRAGMA user_version = 0")
    result = invoke("migrate", tape)
    assert result.exit_code == 3
    assert "schema 0, which no mcp-tape has made" in result.stderr


def test_a_cassette_of_today_stays_as_it_is(tape: Path) -> None:
    before = tape.read_bytes()
    result = invoke("migrate", tape)
    assert (result.exit_code, result.stderr) == (0, f"mcp-tape: {tape} is up to date: schema {schema.VERSION}\n")
    assert json.loads(lines("migrate", tape, "--json")[0]) == {"file": str(tape), "from": 1, "to": schema.VERSION}
    assert tape.read_bytes() == before


def test_triggers_of_a_stranger_do_not_run(tape: Path) -> None:
    alter(
        tape,
        "PRAGMA user_version = 0",
        "CREATE TRIGGER t AFTER UPDATE ON sessions BEGIN DELETE FROM frames; END",
    )
    with pytest.raises(CassetteError, match="SQL triggers"):
        migrate(str(tape), steps(lambda _: None))


def test_there_is_a_step_from_every_version_and_a_cassette_of_each() -> None:
    assert [step.name for step in STEPS.pending(Database(memory=True))] == [str(number) for number in VERSIONS[:-1]]
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
