"""Rotation with the whole command: kills, several recorders, readers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support.messages import call, result
from tests.support.rows import cassettes, parts
from tests.support.running import MCP_TAPE, WAIT, in_background, python, receive_line, run, send, started, until

SERVER = python(
    "import json, sys\n"
    "for line in sys.stdin:\n"
    "    print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': {'value': 'ok'}}), flush=True)"
)
FILLING = "x" * 3000


def recorder(directory: Path, *words: str) -> list[str]:
    return [*MCP_TAPE, "record", "-q", "-o", str(directory / "t.db"), "--rotate", "60k", *words, "--", *SERVER]


def talk(process: subprocess.Popen[bytes], name: str, calls: int) -> list[str]:
    """Make calls in turn; return the lines sent and received."""
    said = []
    for number in range(calls):
        said.append(call(f"{name}-{number}", text=FILLING))
        send(process.stdin, said[-1].encode() + b"\n")
        assert process.stdout
        said.append(receive_line(process.stdout).decode().strip())
        assert said[-1] == result(f"{name}-{number}")
    return said


def kept(directory: Path) -> list[str]:
    return [frame.text.decode() for part in parts(directory) for frame in part if frame.kind == "message"]


@pytest.mark.slow
@pytest.mark.parametrize("calls", [25, 60, 111])
def test_after_a_kill_everything_that_was_received_is_in_the_row(tmp_path: Path, calls: int) -> None:
    with started(recorder(tmp_path), start_new_session=True) as process:
        said = talk(process, "a", calls)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait(WAIT) == -signal.SIGKILL
    until(lambda: Counter(kept(tmp_path)) == Counter(said), "all that was received, on the tapes")
    assert kept(tmp_path) == said and len(cassettes(tmp_path)) > 1


@pytest.mark.slow
def test_two_recorders_share_a_row_and_lose_nothing(tmp_path: Path) -> None:
    said: list[list[str]] = [[], []]
    with started(recorder(tmp_path)) as one, started(recorder(tmp_path)) as two:
        with in_background(lambda: said[0].extend(talk(one, "a", 60))):
            said[1] += talk(two, "b", 60)
        for process in (one, two):
            assert process.stdin and process.stderr
            process.stdin.close()
            assert process.wait(WAIT) == 0 and not process.stderr.read()
    assert Counter(kept(tmp_path)) == Counter(said[0] + said[1]) and len(said[0]) == 120
    for name, expected in zip("ab", said, strict=True):
        assert [text for text in kept(tmp_path) if f'"{name}-' in text] == expected


@pytest.mark.slow
def test_ls_and_show_say_where_a_session_goes_on(tmp_path: Path) -> None:
    with started(recorder(tmp_path, "--keep", "3")) as process:
        talk(process, "a", 40)
        assert process.stdin
        process.stdin.close()
        assert process.wait(WAIT) == 0
    done = run([*MCP_TAPE, "ls", str(tmp_path / "t.db"), "--json"])
    facts = json.loads(done.stdout)
    assert (facts["continues"], facts["continued"], facts["incomplete"]) == (None, "t-2.db", None)
    assert b"continues t.db" in run([*MCP_TAPE, "ls", str(tmp_path / "t-2.db")]).stdout
    shown = run([*MCP_TAPE, "show", str(tmp_path / "t-2.db")]).stdout.splitlines()
    assert b"continues t.db" in shown[0]


@pytest.mark.slow
def test_a_reader_of_a_cassette_that_fills_up_reads_on(tmp_path: Path) -> None:
    with started(recorder(tmp_path, "--keep", "2")) as process:
        said = talk(process, "a", 2)
        until(lambda: kept(tmp_path) == said, "the first calls on the tape")
        with Cassette(tmp_path / "t.db") as reader:
            said += talk(process, "b", 80)
            until(lambda: len(cassettes(tmp_path)) > 2, "more cassettes")
            found = [frame.text.decode() for frame in reader.frames(1) if frame.kind == "message"]
            assert found == said[: len(found)] and len(found) > 4
            assert (tmp_path / "t.db").exists()  # it is being read
        assert process.stdin
        process.stdin.close()
        assert process.wait(WAIT) == 0
