"""What the tests share: running the real command, and reading what it recorded."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mcp_tape.cassette import Cassette, Session
from mcp_tape.frames import Frame

MCP_TAPE = [sys.executable, "-m", "mcp_tape"]
WAIT = 60  # seconds; bounds every wait, and is never reached where things work


def python(source: str) -> list[str]:
    """The command of a small server written in place."""
    return [sys.executable, "-c", source]


ECHO = python("import os\nwhile data := os.read(0, 65536): os.write(1, data)")


def record(cassette: Path, server: Sequence[str], *options: str) -> list[str]:
    """The command line that records a server."""
    return [*MCP_TAPE, "record", "-o", str(cassette), *options, "--", *server]


def run(command: Sequence[str], stdin: bytes = b"", **more: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, within bounds."""
    return subprocess.run(command, input=stdin, capture_output=True, timeout=WAIT, **more)  # type: ignore[call-overload,no-any-return]


@contextlib.contextmanager
def started(command: Sequence[str], **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A running process with pipes, ended at the end whatever happens."""
    options: dict[str, object] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, bufsize=0, **(options | more))  # type: ignore[call-overload]
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if process.poll() is None:
            process.kill()
        process.wait(WAIT)


def frames(cassette: Path, session: int | None = None) -> list[Frame]:
    """Every frame of a session; the newest session when none is named."""
    with Cassette(cassette) as tape:
        return list(tape.frames(tape.session(session).id))


def sessions(cassette: Path) -> list[Session]:
    with Cassette(cassette) as tape:
        return tape.sessions()


def stream(cassette: Path, side: str, session: int | None = None) -> bytes:
    """One side's byte stream, as export gives it back."""
    more = [] if session is None else ["--session", str(session)]
    done = run([*MCP_TAPE, "export", str(cassette), "--format", "raw", "--side", side, *more])
    assert done.returncode == 0, done.stderr
    return done.stdout


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
