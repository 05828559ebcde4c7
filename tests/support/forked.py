"""mcp-tape, forked from a process that has loaded it; see `tests/clients/nursery.py`.

Starting Python and loading mcp-tape takes a tenth of a second of CPU, with HTTP or diff three tenths, and the tests do
so some thousand times. A fork takes a hundredth. It is an ordinary process with its own pid, streams, environment and
directory, and can be killed, waited for and inspected. A fork cannot show how Python starts: the command line,
variables that Python or the C library reads at start-up, memory.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import marshal
import os
import pkgutil
import resource
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mcp_tape
from mcp_tape import api
from tests.support import warm

MCP_TAPE = [sys.executable, "-m", "mcp_tape"]
BY_PATH = api.mcp_tape_command()[1]  # the file that a tape starts by itself, and gives to clients
SCRIPT = [os.path.join(sysconfig.get_path("scripts"), "mcp-tape")]  # never forked: as users start it
_HANDED_OVER = {"stdin", "stdout", "stderr", "bufsize", "cwd", "env"}  # everything that a fork can be given
_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_")  # variables that are read at start-up only
_NOT_OURS = (
    "mcp_tape.system.windows_",
    "mcp_tape.__main__",
    "mcp_tape.agent.sdk_server",
    "mcp_tape.demo",
    "mcp_tape.pytest_plugin",
    "mcp_tape.testing",
    "mcp_tape.transports.memory",
)
_THEIRS = ("anyio._backends._asyncio", "httptools")  # imports of third parties at run time
# Modules for most commands: forking takes time in proportion to the loaded code, and this is a fifth of it.
_STDIO = ("record", "replay", "use")
_HTTP = ("--listen", "--otlp", "--url")
_ROOMS = ("api", "cassette", "modes", "record", "redaction", "replay", "start", "transports.stdio", "wire")


_held: list[bool] = []


@contextlib.contextmanager
def none() -> Iterator[None]:
    """Start commands instead of forking them, for state that a process shares only with its children."""
    _held.append(True)
    try:
        yield
    finally:
        _held.pop()


def _limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]


_LIMITS = _limits()


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command: as a fork if it is mcp-tape and makes no difference."""
    return (Forked if can_fork(command, **options) else subprocess.Popen)(command, **options)


def can_fork(command: Sequence[str], env: Mapping[str, str] | None = None, **options: Any) -> bool:
    """Whether a fork is equivalent to the process that the command starts."""
    environ = os.environ if env is None else env
    return (
        sys.platform == "linux"
        and not _held
        and list(command[: len(MCP_TAPE)]) in (MCP_TAPE, api.mcp_tape_command())
        and all(isinstance(word, str) for word in command)
        and options.keys() <= _HANDED_OVER
        and _read_at_start(environ) == _read_at_start(os.environ)
        and _limits() == _LIMITS
        and "MCP_TAPE_RUN" in environ  # otherwise its parent determines its run
    )


def _read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that a fork can no longer apply. The path of modules is not one."""
    return {name: value for name, value in environ.items() if name.startswith(_AT_START) and name != "PYTHONPATH"}


def kept() -> dict[str, str]:
    """The variables that a separate environment needs so that forking a command makes no difference."""
    return _read_at_start(os.environ) | {"MCP_TAPE_RUN": ""}


class Forked(subprocess.Popen[bytes]):
    """A process that is started by a request, and awaited on a connection; otherwise an ordinary Popen."""

    def _execute_child(self, args: Sequence[str], *more: Any) -> None:  # type: ignore[override]
        cwd, env = more[4:6]
        ends = more[9:15]  # stdin, stdout, stderr: for each the child's end and ours
        wanted = {"arguments": args[1:], "environment": dict(env or os.environ), "directory": str(cwd or os.getcwd())}
        text = marshal.dumps(wanted)
        streams = [own if theirs == -1 else theirs for own, theirs in enumerate((ends[0], ends[3], ends[5]))]
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_nursery(args[len(MCP_TAPE) :]))
        socket.send_fds(self._connection, [len(text).to_bytes(4, "big")], streams)
        self._connection.sendall(text)
        self._close_pipe_fds(*ends)
        pid = self._told()
        assert pid, "no process was forked"
        self.pid, self._child_created = pid, True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._listen(0)

    def _wait(self, timeout: float | None) -> int:
        code = self._listen(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _listen(self, timeout: float | None) -> int | None:
        """Its exit code, if it ends in time."""
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            with self._waitpid_lock:
                if self.returncode is None:  # no other thread was faster
                    code = self._told()
                    self._connection.close()
                    self.returncode = -signal.SIGKILL if code is None else code  # the nursery is gone
        return self.returncode

    def _told(self) -> int | None:
        number = self._connection.recv(4, socket.MSG_WAITALL)
        return int.from_bytes(number, "big", signed=True) if number else None


@functools.cache
def loaded() -> tuple[str, ...]:
    """Every module that mcp-tape may load."""
    found = pkgutil.walk_packages(mcp_tape.__path__, "mcp_tape.")
    return (*(module.name for module in found if not module.name.startswith(_NOT_OURS)), *_THEIRS)


@functools.cache
def loaded_for_stdio() -> tuple[str, ...]:
    """The modules that `record`, `replay` and `use` may load unless they listen or connect to a URL."""
    rooms = tuple(f"mcp_tape.{room}" for room in (*_ROOMS, *(f"cli.commands.{name}" for name in _STDIO)))
    found = (name for name in loaded() if name.startswith(rooms) and not name.endswith(".remote"))
    return (*found, "ctypes")


def _nursery(words: Sequence[str]) -> str:
    on_stdio = {*words[:1]} & {*_STDIO} and not any(word.startswith(_HTTP) for word in words)
    return warm.nursery(sys.executable, loaded_for_stdio() if on_stdio else loaded())


@functools.cache
def scripts() -> str:
    """A directory for PATH with a forked `mcp-tape`, for other programs to start."""
    place = tempfile.TemporaryDirectory(prefix="warm-")
    atexit.register(place.cleanup)
    warm.script(Path(place.name), sys.executable, Path(*SCRIPT), loaded())
    return place.name
