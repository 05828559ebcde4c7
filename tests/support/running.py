"""Helpers for all tests: running the real command, and reading its recordings."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import IO, Any

from mcp_tape.cassette.reader import Cassette, Session
from mcp_tape.cassette.text import write as _write  # noqa: F401
from mcp_tape.cli.commands import ls as _ls  # noqa: F401  (loaded here, as another user may not be able to)
from mcp_tape.errors import CassetteError
from mcp_tape.wire.frames import Frame
from tests.support.forked import BY_PATH, MCP_TAPE, SCRIPT, start
from tests.support.json_schemas import validate_output
from tests.support.warm import WAIT


def python(source: str) -> list[str]:
    """The command of a small server written in place."""
    return [sys.executable, "-c", source]


ECHO = [sys.executable, "-I", "-S", "-c", "import os\nwhile data := os.read(0, 65536): os.write(1, data)"]


def record(cassette: Path, server: Sequence[str], *options: str) -> list[str]:
    """The command line that records a server."""
    return [*MCP_TAPE, "record", "-o", str(cassette), *options, "--", *server]


def run(command: Sequence[str], stdin: bytes = b"", **more: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, with a time limit."""
    with started(command, **more) as process:
        stdout, stderr = process.communicate(stdin, WAIT)
    for ours in (MCP_TAPE, SCRIPT, [sys.executable, BY_PATH]):
        if list(command[: len(ours)]) == ours:
            validate_output(command[len(ours) :], process.returncode, stdout, str(more.get("cwd") or ""))
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


@contextlib.contextmanager
def started(command: Sequence[str], **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A running process with pipes, always ended on exit."""
    options: dict[str, object] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = start(command, bufsize=0, **(options | more))
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
    """Every frame of a session; by default the newest session."""
    with Cassette(cassette) as tape:
        return list(tape.frames(tape.session(session).id))


def sessions(cassette: Path) -> list[Session]:
    with Cassette(cassette) as tape:
        return tape.sessions()


def stream(cassette: Path, side: str, session: int | None = None) -> bytes:
    """One side's byte stream, as export writes it."""
    more = [] if session is None else ["--session", str(session)]
    done = run([*MCP_TAPE, "convert", str(cassette), "--to", "raw", "--side", side, *more])
    assert done.returncode == 0, done.stderr
    return done.stdout


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for an observable condition, with a time limit.

    A cassette that is missing or has no tables yet counts as False.
    """
    end = monotonic() + WAIT
    pause = threading.Event()  # never set
    while not _holds(condition):
        assert monotonic() < end, f"waited {WAIT} s in vain: {what}"
        pause.wait(0.01)


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except CassetteError:
        return False


def receive(source: IO[bytes] | int, size: int | None = None) -> bytes:
    """This many bytes, or fewer at the end of the stream; all without a size. With a time limit."""
    descriptor = source if isinstance(source, int) else source.fileno()
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    got = bytearray()
    while size is None or len(got) < size:
        assert ready.poll(WAIT * 1000), f"waited {WAIT} s in vain, after {bytes(got[-100:])!r}"
        data = os.read(descriptor, 65536 if size is None else min(65536, size - len(got)))
        if not data:
            break
        got += data
    return bytes(got)


def receive_line(source: IO[bytes]) -> bytes:
    """One line, and not a byte more."""
    got = b""
    while not got.endswith(b"\n"):
        byte = receive(source, 1)
        if not byte:
            break
        got += byte
    return got


def send(target: IO[bytes] | None, data: bytes) -> None:
    """Write everything: an unbuffered pipe may accept less at once."""
    assert target is not None
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target.fileno(), rest) :]


@contextlib.contextmanager
def in_background(work: Callable[[], object]) -> Iterator[threading.Thread]:
    """Run work in a thread, joined on exit with a time limit. A broken pipe ends it quietly."""

    def run_quietly() -> None:
        with contextlib.suppress(OSError):
            work()

    thread = threading.Thread(target=run_quietly, daemon=True)
    thread.start()
    yield thread
    thread.join(WAIT)
    assert not thread.is_alive()


def children(parent: int) -> dict[int, int]:
    """The children of a process without zombies, and the process session of each. Linux only."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, of, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(of) == parent and state != "Z":
                found[int(stat.parent.name)] = int(session)
    return found


def writer_of(relay: int, cassette: Path) -> int:
    """The process that records for this relay, once it has started: the child in another process session."""
    until(lambda: is_recording(cassette), "a session on the cassette")
    mine = os.getsid(relay)
    (writer,) = [child for child, session in children(relay).items() if session != mine]
    return writer


def is_recording(cassette: Path) -> bool:
    """Whether the cassette has a session yet."""
    try:
        return bool(sessions(cassette))
    except CassetteError:
        return False


def is_one_file(cassette: Path) -> bool:
    """Whether no SQLite file is beside the cassette, and its header expects none."""
    beside = [path for path in cassette.parent.iterdir() if path.name.startswith(cassette.name) and path != cassette]
    return not beside and cassette.read_bytes()[18:20] == b"\1\1"


@contextlib.contextmanager
def full_pipe() -> Iterator[int]:
    """The writing end of a full pipe without a reader."""
    reader, full = os.pipe()
    os.set_blocking(full, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, b"x" * 512)
    os.set_blocking(full, True)
    try:
        yield full
    finally:
        os.close(reader)
        os.close(full)


def on_terminal(command: list[str], typed: bytes = b"", **environ: str) -> bytes:
    """The output of a command on a terminal where this was typed."""
    master, slave = pty.openpty()
    os.write(master, typed)
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=os.environ | environ) as process:
        os.close(slave)
        os.write(master, typed)
        output = b""
        try:
            while data := os.read(master, 65536):
                output += data
        except OSError:
            pass  # Linux raises this after the terminal's last user has gone
        process.wait(WAIT)
    os.close(master)
    return output


def without_roots_powers() -> None:
    """Let permissions bind root: drop the capabilities that override them, before exec, in the child."""
    if os.geteuid() == 0:
        prctl_drop_capability, override, search = 24, 1, 2
        for capability in (override, search):
            ctypes.CDLL(None).prctl(prctl_drop_capability, capability, 0, 0, 0)


NOBODY = 65534


def as_another_user(call: Callable[[], Any]) -> str:
    """The output of a call by a user without files (or by us, if we are not root)."""
    with tempfile.TemporaryFile() as out:
        pid = os.fork()
        if pid == 0:
            _become_nobody_and(call, out.fileno())
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        printed = out.read().decode()
    assert os.waitstatus_to_exitcode(status) == 0, printed
    return printed


def _become_nobody_and(call: Callable[[], Any], out: int) -> None:
    code = 1
    try:
        signal.alarm(WAIT)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        sys.stdout = sys.stderr = open(out, "w", closefd=False)  # noqa: SIM115 (the process ends here)
        call()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
