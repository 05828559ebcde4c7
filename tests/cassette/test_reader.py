"""Reading a cassette in any state and from any source."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest

from mcp_tape.cassette.schema import APPLICATION_ID
from mcp_tape.cassette.text import write as _write  # noqa: F401
from mcp_tape.cli import cli
from mcp_tape.cli.commands import ls as _ls  # noqa: F401  (loaded here, as another user may not be able to)
from tests.support.decks import alter, make_cassette
from tests.support.running import ECHO, MCP_TAPE, WAIT, as_another_user, python, record, run, started

READERS = ["ls", "show", "convert"]
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}\n'


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cassette with one session of a thousand messages."""
    tape = tmp_path_factory.mktemp("reading") / "whole.db"
    assert run(record(tape, python("import sys; sys.stdin.read()"), "--no-redact"), CALL * 1000).returncode == 0
    return tape


def changed(tape: Path, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(tape)) as db:
        db.executescript(sql)


def missing(tape: Path) -> None:
    tape.unlink()


def directory(tape: Path) -> None:
    tape.unlink()
    tape.mkdir()


def pipe(tape: Path) -> None:
    tape.unlink()
    os.mkfifo(tape)


def empty(tape: Path) -> None:
    tape.write_bytes(b"")


def text(tape: Path) -> None:
    tape.write_text("Dear diary, " * 50)


def other_database(tape: Path) -> None:
    tape.unlink()
    changed(tape, "CREATE TABLE sessions (id); CREATE TABLE frames (id); CREATE TABLE messages (id)")


def only_the_mark(tape: Path) -> None:
    tape.unlink()
    changed(tape, f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1; CREATE TABLE x (y)")


def cut_in_half(tape: Path) -> None:
    tape.write_bytes(tape.read_bytes()[: tape.stat().st_size // 2])


def cut_after_a_page(tape: Path) -> None:
    tape.write_bytes(tape.read_bytes()[:4096])


def cut_in_the_header(tape: Path) -> None:
    tape.write_bytes(tape.read_bytes()[:60])


def newer(tape: Path) -> None:
    changed(tape, "PRAGMA user_version = 99")


def of_no_version(tape: Path) -> None:
    changed(tape, "PRAGMA user_version = 0")


def with_a_trigger(tape: Path) -> None:
    changed(tape, "CREATE TRIGGER t AFTER INSERT ON facts BEGIN DELETE FROM facts; END")


def view_for_a_table(tape: Path) -> None:
    changed(tape, "ALTER TABLE facts RENAME TO hidden; CREATE VIEW facts AS SELECT * FROM hidden")


def no_session(tape: Path) -> None:
    changed(tape, "DELETE FROM sessions")


HINTS: dict[Callable[[Path], None], str] = {
    missing: "there is no cassette at",
    directory: "is a directory",
    pipe: "is not a regular file",
    empty: "is empty",
    text: "is not a cassette",
    other_database: "is a SQLite database, but not a cassette",
    only_the_mark: "it has no table",
    cut_in_half: "malformed",
    cut_after_a_page: "malformed",
    cut_in_the_header: "is not a cassette",
    newer: "newer mcp-tape",
    of_no_version: "schema 0, which no version of mcp-tape writes",
    with_a_trigger: "triggers",
    view_for_a_table: "it has no table facts",
}


def refused(command: str, tape: Path, *more: str) -> str:
    """The error of a command that refuses a cassette."""
    done = run([*MCP_TAPE, command, str(tape), *more])
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (3, b""), said
    assert said.startswith("mcp-tape: ")
    assert 1 <= len(said.splitlines()) <= 3
    return said


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("spoil", HINTS, ids=lambda spoil: spoil.__name__)
def test_an_unreadable_file_is_exit_code_3_with_a_reason(
    whole: Path, tmp_path: Path, spoil: Callable[[Path], None], command: str
) -> None:
    tape = tmp_path / "tape.db"
    shutil.copy(whole, tape)
    spoil(tape)
    if (command, spoil) == ("ls", directory):
        return  # it lists the content
    said = refused(command, tape)
    assert HINTS[spoil] in said
    assert str(tape) in said


@pytest.mark.parametrize("command", ["show", "convert"])
def test_a_session_that_is_not_there_points_to_the_list(whole: Path, command: str) -> None:
    assert f"does not hold session 7; see: mcp-tape ls {whole}" in refused(command, whole, "--session", "7")


def test_a_cassette_without_sessions_says_so(whole: Path, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    shutil.copy(whole, tape)
    no_session(tape)
    done = run([*MCP_TAPE, "ls", str(tape)])
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"holds no session yet" in done.stderr
    refused("show", tape)


@pytest.mark.parametrize("command", READERS)
def test_invalid_utf8_in_a_text_column_is_no_crash(whole: Path, tmp_path: Path, command: str) -> None:
    tape = tmp_path / "tape.db"
    shutil.copy(whole, tape)
    changed(
        tape, "UPDATE facts SET text = CAST(x'ff1b5b33316d' AS TEXT); UPDATE sessions SET note = CAST(x'ff1b' AS TEXT)"
    )
    done = run([*MCP_TAPE, command, str(tape)])
    assert done.returncode in (0, 3)
    assert b"Traceback" not in done.stderr
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", READERS)
@pytest.mark.slow
def test_a_target_that_is_not_json_is_no_crash(whole: Path, tmp_path: Path, command: str) -> None:
    tape = tmp_path / "tape.db"
    shutil.copy(whole, tape)
    for target in ("not json", "5", '"x"', '{"command":[1,{}]}', '{"url":"u"}'):
        changed(tape, f"UPDATE sessions SET target = '{target}'")
        for more in ([], ["--json"]) if command == "ls" else ([],):
            assert run([*MCP_TAPE, command, str(tape), *more]).returncode == 0


@pytest.mark.slow
def test_reading_changes_nothing(whole: Path) -> None:
    before = whole.read_bytes()
    for command in READERS:
        assert run([*MCP_TAPE, command, str(whole)]).returncode == 0
    assert whole.read_bytes() == before
    assert os.listdir(whole.parent) == [whole.name]


@pytest.mark.slow
def test_a_cassette_is_read_while_it_is_recorded(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with started(record(tape, ECHO, "--no-redact")) as process:
        assert process.stdin and process.stdout
        process.stdin.write(CALL)
        assert process.stdout.read(len(CALL)) == CALL
        deadline = monotonic() + WAIT
        while not tape.exists() or b"tools/call add" not in (shown := run([*MCP_TAPE, "show", str(tape)])).stdout:
            assert monotonic() < deadline
        assert shown.returncode == 0
        listed = run([*MCP_TAPE, "ls", str(tape)])
        assert b"INCOMPLETE: never closed" in listed.stdout
        process.stdin.close()
        assert process.wait(WAIT) == 0
    assert b"INCOMPLETE" not in run([*MCP_TAPE, "ls", str(tape)]).stdout


@pytest.fixture
def left_behind(whole: Path) -> Iterator[Path]:
    """A cassette as left by a killed recorder, with the last frames in the WAL, in a place that all users may enter."""
    with tempfile.TemporaryDirectory() as place, contextlib.closing(sqlite3.connect(f"{place}/used.db")) as db:
        os.chmod(place, 0o755)
        with contextlib.closing(sqlite3.connect(whole)) as source:
            source.backup(db)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE sessions SET note = 'only in the WAL'")
        db.commit()
        tape = Path(place, "d", "left.db")
        tape.parent.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{place}/used.db{suffix}", f"{tape}{suffix}")
        yield tape
        tape.parent.chmod(0o755)


def test_leftovers_of_a_killed_recorder_are_read_and_tidied_up(left_behind: Path) -> None:
    assert b"only in the WAL" in run([*MCP_TAPE, "ls", str(left_behind)]).stdout
    assert os.listdir(left_behind.parent) == ["left.db"]


def test_leftovers_of_a_killed_recorder_are_read_without_write_permission(left_behind: Path) -> None:
    left_behind.parent.chmod(0o555)
    printed = as_another_user(lambda: cli(["ls", str(left_behind)], standalone_mode=False))
    assert "only in the WAL" in printed
    assert sorted(os.listdir(left_behind.parent)) == ["left.db", "left.db-wal"]


def test_a_finished_cassette_is_read_without_write_permission(left_behind: Path, whole: Path) -> None:
    tape = left_behind.parent / "finished.db"
    shutil.copy(whole, tape)
    tape.chmod(0o444)
    left_behind.parent.chmod(0o555)
    assert "1000 open" in as_another_user(lambda: cli(["ls", str(tape)], standalone_mode=False))


def test_a_cassette_that_may_not_be_read_says_so(left_behind: Path, whole: Path) -> None:
    tape = left_behind.parent / "private.db"
    shutil.copy(whole, tape)
    tape.chmod(0)

    def read() -> None:
        with pytest.raises(SystemExit) as ended:
            cli(["ls", str(tape)])
        assert ended.value.code == 3

    assert "Permission denied" in as_another_user(read)


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize(
    ("change", "command"),
    [
        ("UPDATE facts SET elapsed = 'x'", "show"),
        ("UPDATE facts SET sender = x'ff'", "convert"),
        ("UPDATE facts SET text = NULL, data = 7", "show"),
        ("UPDATE sessions SET transport = x'ff'", "ls"),
        ("UPDATE sessions SET target = x'00'", "ls"),
    ],
)
def test_a_column_with_an_invalid_value_is_reported_without_a_traceback(
    tmp_path: Path, change: str, command: str
) -> None:
    tape = make_cassette(tmp_path / "tape.db", [("client", '{"jsonrpc":"2.0","id":1,"method":"ping"}')])
    alter(tape, change)
    done = run([*MCP_TAPE, command, str(tape)])
    assert done.returncode == 3
    assert b"has an invalid value" in done.stderr
    assert b"Traceback" not in done.stderr
