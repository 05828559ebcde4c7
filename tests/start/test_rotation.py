"""Cassettes in a row: when the next begins, which go, and that no message is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.start.rotation import rotated
from tests.support.messages import call
from tests.support.promises import CASSETTES
from tests.support.running import ECHO, MCP_TAPE, frames, receive_line, run, send, started


def test_the_first_has_the_name_itself(tmp_path: Path) -> None:
    assert rotated(str(tmp_path / "none" / "t.db"), 10, 3) == str(tmp_path / "none" / "t.db")


@pytest.mark.parametrize(("size", "expected"), [(9, "t.db"), (10, "t-2.db"), (11, "t-2.db")])
def test_the_next_begins_when_the_size_is_reached(tmp_path: Path, size: int, expected: str) -> None:
    (tmp_path / "t.db").write_bytes(bytes(size))
    assert rotated(str(tmp_path / "t.db"), 10, 3) == str(tmp_path / expected)


def test_the_journal_counts_too_and_others_files_do_not(tmp_path: Path) -> None:
    for name, size in (("t.db", 50), ("t-2.db", 6), ("t-2.db-wal", 6), ("t-x.db", 0), ("t-99.txt", 0), ("tt-7.db", 0)):
        (tmp_path / name).write_bytes(bytes(size))
    assert rotated(str(tmp_path / "t.db"), 10, 30) == str(tmp_path / "t-3.db")


def test_the_oldest_go_unless_they_are_in_use_or_no_cassettes(tmp_path: Path) -> None:
    demo = (CASSETTES / "demo.db").read_bytes()
    for number in ("", "-2", "-3", "-4"):
        (tmp_path / f"t{number}.db").write_bytes(demo)
    (tmp_path / "t.db").write_text("notes")
    (tmp_path / "t-2.db-wal").touch()
    assert rotated(str(tmp_path / "t.db"), 10, 2) == str(tmp_path / "t-5.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t-2.db", "t-2.db-wal", "t-4.db", "t.db"]


def test_what_is_recorded_into_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "t.db").write_bytes((CASSETTES / "demo.db").read_bytes())
    assert rotated(str(tmp_path / "t.db"), 10**9, 1) == str(tmp_path / "t.db")
    assert (tmp_path / "t.db").exists()


def test_sessions_one_after_the_other_lose_no_message(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    for number in range(4):
        line = call(number, "search", text="x" * 30_000).encode() + b"\n"
        done = run([*MCP_TAPE, "record", "-q", "-o", str(tape), "--rotate", "60k", "--", *ECHO], line)
        assert done.stdout == line
    row = sorted(tmp_path.glob("*.db"), key=lambda path: (len(path.name), path.name))
    assert [path.name for path in row] == ["t.db", "t-2.db", "t-3.db", "t-4.db"]
    assert all(len([frame for frame in frames(path) if frame.kind == "message"]) == 2 for path in row)


def test_two_recorders_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    command = [*MCP_TAPE, "record", "-q", "-o", str(tmp_path / "t.db"), "--rotate", "1k", "--keep", "1", "--", *ECHO]
    with started(command) as first:
        assert first.stdin and first.stdout
        send(first.stdin, b"1\n")
        assert receive_line(first.stdout) == b"1\n"
        done = run(command, b"2\n")
        assert done.stdout == b"2\n" and not done.stderr
        send(first.stdin, b"3\n")
        assert receive_line(first.stdout) == b"3\n"
        first.stdin.close()
        assert first.wait(30) == 0 and first.stderr and not first.stderr.read()


@pytest.mark.parametrize(("words", "said"), [(["--keep", "3"], b"--keep goes with --rotate")])
def test_what_does_not_go_together_is_refused(words: list[str], said: bytes) -> None:
    done = run([*MCP_TAPE, "record", *words, "--", "cat"])
    assert done.returncode == 2 and said in done.stderr
