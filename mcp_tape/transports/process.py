"""Start a server that ends with us, and find out whether a signal went to our whole process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from ..errors import ServerError
from ..record.recorder import close_descriptors_but
from ..record.recorder import point_at_null as point_at_null

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # what Python may choose


class Server:
    """A stdio server, started. To be made on the main thread, before any other thread runs.

    A parent-death signal fires when the thread that started the child ends, see PR_SET_PDEATHSIG(2const); and we fork.
    """

    def __init__(self, command: Sequence[str]) -> None:
        _open_standard_streams()
        self.process = start(command)
        self.group = GroupWatch()
        # Blocked in every thread from here on, and taken by one that does nothing else: a handler would run
        # when the main thread next executes something, and that may have gone to wait just before.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a server with pipes to us, which dies with us."""
    try:
        return subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_as_given(),
            preexec_fn=_die_with_parent(),
        )
    except OSError as error:
        raise ServerError(_not_started(command[0], error)) from None


def _as_given() -> dict[str, str] | None:
    """Our environment without the LC_CTYPE that Python adds where the locale is C; None if it is as it was given.

    https://peps.python.org/pep-0538/. Only Linux keeps the environment that a process was started with; elsewhere a
    person may have set it.
    """
    if os.environ.get("LC_CTYPE") not in _COERCED:
        return None
    try:
        with open("/proc/self/environ", "rb") as file:
            given = file.read()
    except OSError:
        return None
    if any(entry.startswith(b"LC_CTYPE=") for entry in given.split(b"\0")):
        return None
    return {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}


class GroupWatch:
    """A child that does nothing but share our process group: a signal that ended it went to the whole group.

    The server then has that signal already, and must not get it twice.
    """

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _wait_for_end_of_file(reader)
        os.close(reader)

    def was_signalled(self) -> bool:
        if self._pid == 0:
            return True
        ended, _ = os.waitpid(self._pid, os.WNOHANG)
        if ended:
            self._pid = 0
        return bool(ended)

    def close(self) -> None:
        os.close(self._writer)
        if self._pid:
            os.waitpid(self._pid, 0)


def _wait_for_end_of_file(reader: int) -> None:
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # not an exception in a copy of our caller
        close_descriptors_but({reader})
        os.read(reader, 1)
    finally:
        os._exit(0)


def _open_standard_streams() -> None:
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def _die_with_parent() -> Callable[[], None] | None:
    """On Linux the kernel kills the server when we die, however we die."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def set_death_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # died before it was set
            os._exit(1)

    return set_death_signal


def is_running(process: int) -> bool:
    """Return whether there is a process of ours with this number."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def _not_started(name: str, error: OSError) -> str:
    from shutil import which

    if os.path.isdir(name):
        return f"cannot start the server: {name!r} is a directory; give the command that runs it"
    if isinstance(error, FileNotFoundError) or not name:
        if which(name):
            return f"cannot start the server {name!r}: the interpreter in its first line does not exist"
        return f"cannot start the server: there is no command {name!r}; check its spelling and the PATH"
    if isinstance(error, PermissionError):
        return f"cannot start the server: {name!r} is not executable; try: chmod +x {name}"
    return f"cannot start the server {name!r}: {error.strerror}"
