"""A recorded server starts as it would without a recorder."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import ServerError
from mcp_tape.transports.process import start_child
from tests.support.running import python, receive, record, run

# Writes down its descriptors, signals, variables and directory.
SERVER = """
import json, os, signal
names = sorted(int(name) for name in os.listdir("/dev/fd"))
open_ones = [number for number in names if number != max(names)]  # the last one lists the others
ignored = [number.name for number in signal.valid_signals() if hasattr(number, "name")
           and number not in (signal.SIGPIPE, signal.SIGXFSZ)  # Python itself ignores these
           and signal.getsignal(number) is signal.SIG_IGN]
mask = [line.split()[1] for line in open("/proc/self/status") if line.startswith(("SigBlk", "SigIgn"))]
print(json.dumps([open_ones, ignored, mask, sorted(os.environ), os.getcwd(), os.getpgrp() == os.getpgid(os.getppid())]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_a_server_inherits_the_same_with_and_without_us(tmp_path: Path) -> None:
    leaked, kept = os.pipe()
    os.set_inheritable(leaked, True)
    try:
        direct = run(python(SERVER), cwd=tmp_path, pass_fds=[leaked])
        recorded = run(record(tmp_path / "tape.db", python(SERVER)), cwd=tmp_path, pass_fds=[leaked])
    finally:
        os.close(leaked)
        os.close(kept)
    found, expected = (json.loads(one.stdout) for one in (recorded, direct))
    assert found == expected
    assert len(found[0]) == 4  # including the one passed on


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_known_when_it_has_ended(code: int) -> None:
    child = start_child(python(f"raise SystemExit({code})"))
    child.wait()
    assert child.returncode == code
    child.kill()  # nothing reads its output any more
    close(child)


def test_a_signal_that_ended_it_is_a_negative_number() -> None:
    child = start_child(["sleep", "60"])
    child.send_signal(signal.SIGTERM)
    child.wait()
    assert child.returncode == -signal.SIGTERM
    close(child)


def test_its_streams_are_our_pipes() -> None:
    child = start_child(["sh", "-c", "cat; echo told >&2"])
    os.write(child.stdin, b"said\n")
    os.close(child.stdin)
    for stream, expected in ((child.stdout, b"said\n"), (child.stderr, b"told\n")):
        with open(stream, "rb") as file:
            assert receive(file) == expected
    child.wait()
    assert child.returncode == 0


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-command", "there is no command 'no-such-command'"),
        ("", "there is no command ''"),
        ("/", "'/' is a directory"),
        ("./plain", "'./plain' is not executable"),
        ("./adrift", "the interpreter in its first line does not exist"),
    ],
)
def test_a_command_that_cannot_be_started_is_explained_and_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain").write_text("x")
    Path("adrift").write_text("#!/no/such/interpreter\n")
    Path("adrift").chmod(0o755)
    before = sorted(os.listdir("/dev/fd"))
    with pytest.raises(ServerError, match=why):
        start_child([command])
    assert sorted(os.listdir("/dev/fd")) == before


def close(child: Any) -> None:
    for stream in (child.stdin, child.stdout, child.stderr):
        os.close(stream)
