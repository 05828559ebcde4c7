"""Cassettes stay whole, and secrets hidden, despite concurrent processes and interruptions."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mcp_tape.cassette.change import write_access
from mcp_tape.cassette.writer import Writer
from mcp_tape.errors import CassetteError
from mcp_tape.record.recording_process import retry_while_locked
from tests.support.decks import alter
from tests.support.reading import Frames, call, invoke, make, said
from tests.support.running import ECHO, MCP_TAPE, WAIT, frames, record, run, sessions, started, until

NOTE = b"# Cassettes in git diff; every clone runs once: mcp-tape git-setup"
SECRET = "hunter2-hunter2"
# A function for --redact-with that reports its call, and then takes a while.
SLOW = (
    "import pathlib, time\ndef slow(text):\n    pathlib.Path('reached').touch()\n    time.sleep(60)\n    return text\n"
)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    talk = Frames().client(call(1, "login", password=SECRET)).server(said(1, "hello"))
    return make(tmp_path / "tape.db", talk, talk)


def another(path: Path) -> None:
    """Replace the cassette by an equal file, as redaction does.

    Another process copies it: closing the file here would drop the locks that our own connection holds.
    https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
    """
    copy = path.with_suffix(".new")
    assert run(["cp", str(path), str(copy)]).returncode == 0
    os.replace(copy, path)


@pytest.mark.slow
def test_a_recorder_that_waited_for_a_redaction_records_into_the_new_file(tape: Path) -> None:
    with closing(sqlite3.connect(tape, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with started(record(tape, ECHO)) as process:
            until(lambda: holds(process, tape), "the recorder has opened the cassette")
            another(tape)
            db.execute("COMMIT")
            _, said = process.communicate(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', WAIT)
    assert process.returncode == 0 and b"INCOMPLETE" not in said
    assert [session.incomplete for session in sessions(tape)][2:] == [None]


def test_a_recorder_that_waits_for_its_first_client_keeps_its_file(tape: Path) -> None:
    with closing(Writer(str(tape))):  # without a session
        before = os.stat(tape).st_ino
        assert invoke("rm", tape, "--session", 1).exit_code == 0
        assert os.stat(tape).st_ino == before
    assert [session.id for session in sessions(tape)] == [2]


def test_a_recorder_waits_for_a_cassette_that_is_held_for_long() -> None:
    tries: list[int] = []

    def write() -> str:
        tries.append(len(tries))
        if len(tries) < 12:
            raise sqlite3.OperationalError("database is locked")
        return "written"

    waits: list[int] = []
    assert retry_while_locked(write, waits.append) == "written"
    assert waits == list(range(1, 12))


def holds(process: subprocess.Popen[bytes], path: Path) -> bool:
    """Whether a process or one of its children has a file open."""
    tree = run(["ps", "-o", "pid=", "--ppid", str(process.pid)]).stdout.split()
    return any(path in links(pid) for pid in [str(process.pid), *(pid.decode() for pid in tree)])


def links(pid: str) -> list[Path]:
    try:
        return [Path(os.readlink(f"/proc/{pid}/fd/{name}")) for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def test_a_writer_does_not_take_a_file_that_was_replaced_under_it(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Writer._prepare

    def late(self: Writer, path: str) -> str | None:
        another(tape)
        return prepare(self, path)

    monkeypatch.setattr(Writer, "_prepare", late)
    with pytest.raises(sqlite3.OperationalError, match="lock"):
        Writer(str(tape))


def test_a_cassette_that_was_replaced_is_not_remade(tape: Path) -> None:
    def late(db: sqlite3.Connection, path: str) -> None:
        another(tape)

    before = tape.read_bytes()
    with (
        pytest.raises(CassetteError, match="in use"),
        write_access.connect_for_changes(str(tape), late, also_in_use=False),
    ):
        pytest.fail("it holds a file that nobody can see")
    assert tape.read_bytes() == before


def test_a_file_that_took_its_place_is_not_replaced(tape: Path) -> None:
    def late() -> None:
        with write_access.connect_for_changes(str(tape)) as db:
            db.execute("DELETE FROM facts")
            another(tape)

    with pytest.raises(CassetteError, match="in use"):
        late()
    assert len(sessions(tape)) == 2 and len(frames(tape, 1)) == 2


@pytest.mark.parametrize("words", [("redact",), ("rm", "--session", "1")])
def test_tables_that_may_hold_the_same_are_no_reason_to_say_it_is_gone(tape: Path, words: tuple[str, ...]) -> None:
    alter(tape, "CREATE VIRTUAL TABLE found USING fts5(text)", "INSERT INTO found SELECT text FROM frames")
    before = tape.read_bytes()
    result = invoke(words[0], tape, *words[1:])
    assert result.exit_code == 3 and "found" in result.stderr and "drop-table" in result.stderr
    assert tape.read_bytes() == before
    alter(tape, "DROP TABLE found")
    assert invoke(words[0], tape, *words[1:]).exit_code == 0


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_redaction_that_is_stopped_leaves_no_copy_behind(tape: Path, number: signal.Signals) -> None:
    (tape.parent / "slowly.py").write_text(SLOW)
    before = tape.read_bytes()
    command = [*MCP_TAPE, "redact", str(tape), "--redact-with", "slowly:slow"]
    with started(command, cwd=tape.parent, env=os.environ | {"PYTHONPATH": str(tape.parent)}) as process:
        until((tape.parent / "reached").exists, "the redaction is under way")
        assert [*tape.parent.glob(".tape.db.*.part/tape.db")]
        process.send_signal(number)
        assert process.wait(WAIT) != 0
    assert sorted(file.name for file in tape.parent.glob("tape*")) == ["tape.db"]
    assert tape.read_bytes() == before


def ended(command: list[str], *, first: bytes, reached: Callable[[], bool]) -> None:
    """Kill a process once it has reached a state."""
    with started(command) as process:
        assert process.stdin
        process.stdin.write(first)
        process.stdin.flush()
        until(reached, "the process is where it is to be killed")
        process.kill()
        process.wait(WAIT)


@pytest.mark.parametrize("command", ["convert", "merge"])
def test_leftovers_of_a_killed_command_are_removed_by_the_next(tape: Path, command: str) -> None:
    out, lines = tape.with_name("out.db"), tape.with_name("tape.jsonl")
    lines.write_text(invoke("convert", tape).stdout)
    load = [*MCP_TAPE, "convert", "-", str(out)]
    ended(load, first=lines.read_bytes(), reached=lambda: any(tape.parent.glob(".out.db.*.part/out.db-wal")))
    assert [*tape.parent.glob(".out.db.*.part")] and not [*tape.parent.glob("out.db*")]
    words = [lines, out] if command == "convert" else [tape, "-o", out]
    assert invoke(command, *words).exit_code == 0
    assert [file.name for file in tape.parent.glob("*out.db*")] == ["out.db"]


def test_an_editor_that_empties_the_text_does_not_empty_the_session(
    tape: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tape.parent))
    before = tape.read_bytes()
    empties = f"{sys.executable} -c 'import sys; open(sys.argv[1], \"w\")'"
    result = invoke("edit", tape, "--editor", empties)
    assert result.exit_code == 1 and "mcp-tape rm" in result.stderr
    assert tape.read_bytes() == before


def test_convert_keeps_a_link_and_the_permissions_of_its_target(tape: Path) -> None:
    lines, link = tape.with_suffix(".jsonl"), tape.with_name("link.db")
    lines.write_text(invoke("convert", tape).stdout)
    link.symlink_to(tape)
    tape.chmod(0o600)
    assert invoke("convert", lines, link, "--force").exit_code == 0
    assert link.is_symlink() and tape.stat().st_mode & 0o777 == 0o600
    assert len(sessions(tape)) == 2


def test_markdown_of_a_stranger_moves_no_cursor_and_leaves_no_heading(tape: Path) -> None:
    escape = "char(27) || '[2J' || char(10) || '# no'"
    alter(tape, f"UPDATE derived SET status = {escape} WHERE status IS NOT NULL")
    alter(tape, f"UPDATE facts SET sender = {escape}, kind = {escape}")
    alter(tape, f"UPDATE derived SET method = {escape}, name = {escape} WHERE method IS NOT NULL")
    text = invoke("convert", tape, "--to", "md").stdout
    assert "\x1b" not in text and "\n# no" not in text


def test_undoing_git_setup_keeps_other_attributes_of_the_line(tmp_path: Path) -> None:
    run(["git", "init", "-q", str(tmp_path)])
    attributes = tmp_path / ".gitattributes"
    attributes.write_text("a.db diff=mcp-tape -text\n*.x  text\n*.db diff=mcp-tape\n")
    assert invoke("git-setup", tmp_path, "--undo").exit_code == 0
    assert attributes.read_text() == "a.db -text\n*.x  text\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"*.png binary\r\n*.x text\n", b"*.png binary\r\n*.x text\n{note}\r\n*.db diff=mcp-tape\r\n"),
        (b"*.png binary\n*.x text", b"*.png binary\n*.x text\n{note}\n*.db diff=mcp-tape"),
        (b"\r\n*.x text", b"\r\n*.x text\r\n{note}\r\n*.db diff=mcp-tape"),
        (b"# \xff\x0c\n", b"# \xff\x0c\n{note}\n*.db diff=mcp-tape\n"),
    ],
    ids=["mixed", "no newline at the end", "CRLF and no newline", "odd bytes"],
)
def test_git_setup_keeps_line_ends(tmp_path: Path, before: bytes, after: bytes) -> None:
    run(["git", "init", "-q", str(tmp_path)])
    attributes = tmp_path / ".gitattributes"
    attributes.write_bytes(before)
    assert invoke("git-setup", tmp_path).exit_code == 0
    assert attributes.read_bytes() == after.replace(b"{note}", NOTE)
    assert invoke("git-setup", tmp_path).stderr == "mcp-tape: git already shows cassettes as text here\n"
    assert run(["git", "-C", str(tmp_path), "check-attr", "diff", "a.db"]).stdout == b"a.db: diff: mcp-tape\n"
    assert invoke("git-setup", tmp_path, "--undo").exit_code == 0
    assert attributes.read_bytes() == before
