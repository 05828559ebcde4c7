"""A fork of mcp-tape, which most tests run, behaves like the installed command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.forked import SCRIPT, Forked, can_fork, loaded_for_stdio
from tests.support.running import ECHO, MCP_TAPE, WAIT, children, python, receive_line, run, send, started

SEEN = python("import json, os, sys; print(json.dumps([os.getcwd(), dict(os.environ), sys.stdin.read()]))")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")
both = pytest.mark.parametrize("program", [MCP_TAPE, SCRIPT], ids=["fork", "script"])


@linux_only
@pytest.mark.slow
def test_a_fork_gives_its_server_the_same_directory_environment_and_input(tmp_path: Path) -> None:
    words = ["record", "-q", "-o", "tape.db", "--", *SEEN]
    environ = os.environ | {"ODD": "\udcff"}
    fork, script = (run([*program, *words], b"hello\n", cwd=tmp_path, env=environ) for program in (MCP_TAPE, SCRIPT))
    assert (fork.returncode, fork.stdout, fork.stderr) == (script.returncode, script.stdout, script.stderr)
    assert b"hello" in fork.stdout and str(tmp_path).encode() in fork.stdout and b"udcff" in fork.stdout


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("words", [["--version"], ["ls", "nowhere.db"], ["ls"], ["no-command"]], ids=" ".join)
def test_a_fork_says_the_same_with_the_same_exit_code(words: list[str]) -> None:
    fork, script = (run([*program, *words]) for program in (MCP_TAPE, SCRIPT))
    assert (fork.returncode, fork.stdout, fork.stderr) == (script.returncode, script.stdout, script.stderr)


@pytest.mark.slow(quick=2)
@both
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_the_server_that_it_started(tmp_path: Path, program: list[str], number: int) -> None:
    with started([*program, "record", "-q", "-o", str(tmp_path / "tape.db"), "--", *ECHO]) as process:
        assert isinstance(process, Forked) == (sys.platform == "linux" and program is MCP_TAPE)
        assert process.stdout
        send(process.stdin, b"hello\n")
        assert receive_line(process.stdout) == b"hello\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        process.send_signal(number)
        assert process.wait(WAIT) in {-number, 128 + number, 0}
        assert process.stdout.read() == b""  # no process holds it any more
    assert not children(process.pid)


@linux_only
@pytest.mark.parametrize(("end", "code"), [("sys.exit(7)", 7), *((f"os.kill(os.getpid(), {n})", -n) for n in (9, 15))])
def test_forked_programs_end_as_without_a_fork(end: str, code: int) -> None:
    asking = [*warm.command(sys.executable, "-c", loaded_for_stdio()), f"import os, sys; {end}"]
    for command in (asking, python(f"import os, sys; {end}")):
        done = run(command)
        assert (done.returncode, done.stderr) == (code, b"")


@linux_only
@pytest.mark.parametrize("name", ["PYTHONUTF8", "PYTHONHASHSEED", "LC_ALL", "TZ"])
def test_where_python_or_the_system_reads_a_variable_when_it_starts_nothing_is_forked(name: str) -> None:
    assert can_fork([*MCP_TAPE, "ls"])
    assert can_fork([*MCP_TAPE, "ls"], env=os.environ | {"PYTHONPATH": "0"})
    assert not can_fork([*MCP_TAPE, "ls"], env=os.environ | {name: "0"})
    assert not can_fork([*MCP_TAPE, "ls"], preexec_fn=None)
    assert not can_fork([*SCRIPT, "ls"])
