"""Recording into text keeps the promises of recording: a database beside it becomes lines when the session ends."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from mcp_tape.cassette import replace
from mcp_tape.cassette.text.recognize import is_text
from tests.support.running import (
    ECHO,
    MCP_TAPE,
    WAIT,
    alive,
    children,
    frames,
    receive_line,
    record,
    run,
    send,
    sessions,
    started,
    until,
    writer_of,
)

ASKED = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add"}}\n'


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.slow
def test_each_recording_adds_its_lines_and_leaves_one_file(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    assert run(record(tape, ECHO), ASKED % 1).returncode == 0
    before = tape.read_bytes()
    assert run(record(tape, ECHO), ASKED % 2).returncode == 0
    assert tape.read_bytes().startswith(before)
    assert names(tmp_path) == ["tape.jsonl"]
    assert is_text(str(tape))
    assert [session.id for session in sessions(tape)] == [1, 2]
    assert [frame.text for frame in frames(tape, 2) if frame.kind == "message"] == [(ASKED % 2).rstrip()] * 2


def test_lines_that_are_there_stay_byte_for_byte(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    by_hand = b'\xef\xbb\xbf{ "text": "{}",  "sender": "client" }\r\n\r\n{"sender":"server","text":"no newline behind"}'
    tape.write_bytes(by_hand)
    assert run(record(tape, ECHO), ASKED % 1).returncode == 0
    assert tape.read_bytes().startswith(by_hand + b"\n{")
    assert [len(frames(tape, session.id)) for session in sessions(tape)] == [2, 6]


@pytest.mark.slow
def test_an_unfinished_recording_is_read_before_it_is_in_the_text(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with started(record(tape, ECHO)) as process:
        send(process.stdin, ASKED % 1)
        assert receive_line(process.stdout) == ASKED % 1  # type: ignore[arg-type]
        until(lambda: (tmp_path / "tape.jsonl.db").exists() and len(frames(tape)) == 2, "both frames on the tape")
        assert not tape.exists()
        done = run([*MCP_TAPE, "show", str(tape)])
        assert b"tools/call add" in done.stdout
        assert b"tape.jsonl.db has sessions that are not in" in done.stderr
        listed = run([*MCP_TAPE, "ls", str(tmp_path)])
        assert listed.stdout.count(b"INCOMPLETE: never closed") == 1
    until(lambda: names(tmp_path) == ["tape.jsonl"], "the text")


def killed(tape: Path, *, text: bytes = ASKED % 1) -> None:
    """Record until the tape has something, and kill the writer, then the rest."""
    with started(record(tape, ECHO), start_new_session=True, stderr=subprocess.DEVNULL) as process:
        send(process.stdin, text)
        receive_line(process.stdout)  # type: ignore[arg-type]
        until(lambda: (tmp := Path(f"{tape}.db")).exists() and len(frames(tmp)) == 2, "both frames on the tape")
        family = children(process.pid)
        os.kill(writer_of(process.pid, tape), signal.SIGKILL)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT)
    until(lambda: not any(map(alive, family)) and is_free(tape), "all of them to end")


def is_free(tape: Path) -> bool:
    """Whether no process records into a text. A killed process may still have ending threads."""
    held = replace.lock(f"{tape}.db-lock")
    if held is not None:
        replace.unlock(f"{tape}.db-lock", held)
    return held is not None


@pytest.mark.slow
def test_leftovers_of_a_killed_recorder_are_read_and_folded_in_by_the_next(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    assert run(record(tape, ECHO), ASKED % 1).returncode == 0
    before = tape.read_bytes()
    killed(tape, text=ASKED % 2)
    assert tape.read_bytes() == before
    assert "tape.jsonl.db" in names(tmp_path)
    done = run([*MCP_TAPE, "convert", str(tape), "--session", "2"])
    assert rb"\"id\":2" in done.stdout
    assert b"from a recorder that is running or was stopped" in done.stderr
    assert run(record(tape, ECHO), ASKED % 3).returncode == 0
    assert names(tmp_path) == ["tape.jsonl"]
    assert tape.read_bytes().startswith(before)
    assert [bool(session.incomplete) for session in sessions(tape)] == [False, True, False]


@pytest.mark.slow
def test_a_command_that_changes_the_text_folds_in_the_leftovers(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    killed(tape)
    assert not tape.exists()
    assert run(record(tape, ECHO), ASKED % 2).returncode == 0
    killed(tape)
    assert run([*MCP_TAPE, "rm", str(tape), "--session", "1"]).returncode == 0
    assert names(tmp_path) == ["tape.jsonl"]
    assert [session.id for session in sessions(tape)] == [2, 3]


def test_a_recorder_that_was_killed_before_it_had_made_its_tables_is_in_nobodys_way(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    assert run(record(tape, ECHO), ASKED % 1).returncode == 0
    before = tape.read_bytes()
    (tmp_path / "tape.jsonl.db").touch()
    assert len(sessions(tape)) == 1
    done = run([*MCP_TAPE, "redact", str(tape)])
    assert (done.returncode, names(tmp_path), tape.read_bytes()) == (0, ["tape.jsonl"], before), done.stderr


@pytest.mark.slow
def test_two_recorders_at_once_both_get_into_the_text(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with started(record(tape, ECHO)) as first:
        send(first.stdin, ASKED % 1)
        receive_line(first.stdout)  # type: ignore[arg-type]
        until(lambda: len(sessions(tape)) == 1, "the first session")
        assert run(record(tape, ECHO), ASKED % 2).returncode == 0
        assert not tape.exists()  # the last recorder creates it
        refused = run([*MCP_TAPE, "rm", str(tape), "--session", "2"])
        assert refused.returncode == 3
        assert b"is in use" in refused.stderr
        assert first.stdin is not None
        first.stdin.close()
        assert first.wait(WAIT) == 0
    until(lambda: names(tmp_path) == ["tape.jsonl"], "the text")
    assert [session.incomplete for session in sessions(tape)] == [None, None]


@pytest.mark.parametrize("at_once", [3])
@pytest.mark.slow
def test_recorders_that_end_together_leave_one_text(tmp_path: Path, at_once: int) -> None:
    tape = tmp_path / "tape.jsonl"
    commands = [
        subprocess.Popen(record(tape, ECHO, "-q"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(at_once)
    ]
    for process in commands:
        send(process.stdin, ASKED % 1)
        receive_line(process.stdout)  # type: ignore[arg-type]
    for process in commands:
        assert process.stdin is not None
        process.stdin.close()
    assert [process.wait(WAIT) for process in commands] == [0] * at_once
    for process in commands:
        assert process.stdout is not None
        process.stdout.close()
    assert names(tmp_path) == ["tape.jsonl"]
    assert sorted(session.id for session in sessions(tape)) == [1, 2, 3]


@pytest.mark.slow
def test_a_session_that_was_folded_in_is_not_read_twice(tmp_path: Path) -> None:
    """A recorder may be killed between writing the text and removing its database."""
    tape = tmp_path / "tape.jsonl"
    killed(tape)
    left = tmp_path / "tape.jsonl.db"
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith(left.name)}
    assert run(record(tape, ECHO), ASKED % 2).returncode == 0
    text = tape.read_bytes()
    for name, data in kept.items():
        (tmp_path / name).write_bytes(data)
    assert [session.id for session in sessions(tape)] == [1, 2]
    assert run(record(tape, ECHO), ASKED % 3).returncode == 0
    assert tape.read_bytes().startswith(text)
    assert [session.id for session in sessions(tape)] == [1, 2, 3]


@pytest.mark.slow
def test_another_text_in_its_place_keeps_its_numbers(tmp_path: Path) -> None:
    """For example, git puts another version there after a recorder was killed."""
    tape = tmp_path / "tape.jsonl"
    killed(tape)
    tape.write_bytes(b'{"kind":"session","session":1,"started_at":"2020-01-01T00:00:00Z"}\n')
    assert sessions(tape)[0].started_at.startswith("2020")
    assert [session.id for session in sessions(tape)] == [1, 2]


def test_a_text_that_is_wrong_is_not_recorded_into(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    tape.write_bytes(b'{"sender":"client","text":"{}"}\n<<<<<<< HEAD\n')
    done = run(record(tape, ECHO), ASKED % 1)
    assert done.returncode == 3
    assert b"line 2" in done.stderr
    assert names(tmp_path) == ["tape.jsonl"]


@pytest.mark.slow
def test_a_recording_that_cannot_become_text_stays_in_the_database(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with started(record(tape, ECHO), stderr=subprocess.PIPE) as process:
        send(process.stdin, ASKED % 1)
        receive_line(process.stdout)  # type: ignore[arg-type]
        until(lambda: len(sessions(tape)) == 1, "the session")
        tape.mkdir()  # prevents a replacement
        (tape / "file").touch()
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(WAIT) == 0
        assert process.stderr is not None
        said = process.stderr.read()
    assert b"the recording stays in" in said, said
    assert len(frames(tmp_path / "tape.jsonl.db")) == 6
