"""Starts a server that ends with us, and detects whether a signal went to our whole process group.

Imports nothing heavy, so that a recorded server starts almost as fast as an unrecorded one.
"""

from __future__ import annotations

import os
import select
import sys
from errno import EACCES, ENOENT, EPERM

from ..errors import ServerError
from ..light import NamedTuple
from ..record.recorder import close_descriptors_but
from ..record.recorder import point_at_null as point_at_null
from .signals import OTHERS, SIGNALS, signal

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1
_SHELL = "/bin/sh"
_SHORT_RUN = 1000  # milliseconds, after which all processes have started
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # the values that Python may set


class Around(NamedTuple):
    """The environment of a server: variables added to our own, and the working directory."""

    env: Sequence[tuple[str, str]] = ()
    cwd: str | None = None
    missing: Sequence[str] = ()  # required variables that are not set

    def check(self) -> None:
        """Refuse to start a server without its variables or its directory."""
        if self.missing:
            which = ", ".join(self.missing)
            raise ServerError(f"cannot start the server: it needs {which}, which is not set; set it, then try again")
        if self.cwd is not None and not os.path.isdir(self.cwd):
            raise ServerError(
                f"cannot start the server: {self.cwd!r}, where it should start, is not a directory; give one that is"
            )


AS_WE_ARE = Around()


class ServerProcess:
    """A running stdio server. Make it on the main thread, before any other thread runs.

    The reasons: a parent-death signal fires when the thread that started the child ends, see PR_SET_PDEATHSIG(2const),
    and forking is unsafe with threads.
    """

    def __init__(self, command: Sequence[str], around: Around = AS_WE_ARE) -> None:
        open_standard_streams()
        self.process = Child(command, around)
        _close_inherited()
        self.group = GroupWatch()
        # Block signals in every thread; a dedicated thread takes them. A Python handler would only run when the
        # main thread next executes bytecode, and it may have just started to wait.
        signal.pthread_sigmask(signal.SIG_BLOCK, {*SIGNALS, *OTHERS})


class Child:
    """A command with pipes to us, which dies with us. Used instead of subprocess.Popen, which is slow to load.

    `stdin`, `stdout` and `stderr` are our ends of its pipes.
    """

    def __init__(self, command: Sequence[str], around: Around = AS_WE_ARE) -> None:
        around.check()
        environment, die_with_us = given_environment(around), die_with_parent()
        source, self.stdin = os.pipe()
        self.stdout, target = os.pipe()
        self.stderr, errors = os.pipe()
        failure, report = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _become(command, environment, around.cwd, die_with_us, (source, target, errors), report)
        for theirs in (source, target, errors, report):
            os.close(theirs)
        reported = os.read(failure, 16)  # end of file once the command runs
        os.close(failure)
        if reported:
            self.wait()
            for ours in (self.stdin, self.stdout, self.stderr):
                os.close(ours)
            raise ServerError(start_failure(command[0], int(reported)))

    def wait(self) -> None:
        """Wait for it to end and set `returncode` to its exit code, or to a negative signal number."""
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass  # it has just ended

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _become(
    command: Sequence[str],
    environment: dict[str, str] | None,
    directory: str | None,
    die_with_us: Callable[[], None] | None,
    streams: tuple[int, int, int],
    report: int,
) -> None:
    """Become the command, in the forked process, with these streams. Never returns."""
    try:
        if die_with_us:
            die_with_us()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these from its start
            signal.signal(ignored, signal.SIG_DFL)
        if directory is not None:
            os.chdir(directory)
        os.execvpe(command[0], [*command], os.environ if environment is None else environment)
    except OSError as error:
        os.write(report, b"%d" % (error.errno or 0))
    except ValueError:
        os.write(report, b"%d" % ENOENT)  # a command without a name
    finally:
        os._exit(255)


def given_environment(around: Around = AS_WE_ARE) -> dict[str, str] | None:
    """The environment for a server; None for our own, as it was given to us."""
    inherited = _remove_coerced_locale()
    return inherited if not around.env else {**(os.environ if inherited is None else inherited), **dict(around.env)}


def _remove_coerced_locale() -> dict[str, str] | None:
    """Our environment without the LC_CTYPE that Python adds in the C locale; None if Python did not add it.

    https://peps.python.org/pep-0538/. Only Linux shows the environment that a process was started with; elsewhere the
    user may have set the variable.
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
    """An idle child in our process group: if a signal ended it, the whole group got that signal.

    Then the server has the signal already, and must not get it twice.
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
        signal.pthread_sigmask(signal.SIG_BLOCK, OTHERS)  # only signals that ask us to stop count here
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # no KeyboardInterrupt in the forked copy of our caller
        close_descriptors_but({reader})
        ended = select.poll()
        ended.register(reader, select.POLLIN)
        if not ended.poll(_SHORT_RUN):
            _become_small(reader)
        os.read(reader, 1)
    finally:
        os._exit(0)


def _become_small(reader: int) -> None:
    """Wait as a shell, which takes a tenth of the memory of our copy. Without a shell, go on unchanged."""
    os.dup2(reader, 0)
    for _ in (1, 2):
        os.open(os.devnull, os.O_RDWR)
    try:
        os.execv(_SHELL, [_SHELL, "-c", "read _"])
    except OSError:
        pass


def _close_inherited() -> None:
    """Close descriptors that our caller passes to the server: a pipe that we also held would stay open after it."""
    for name in os.listdir("/dev/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):  # descriptors that Python opens are not
                os.close(int(name))
        except OSError:
            pass  # the descriptor that listed the directory


def open_standard_streams() -> None:
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one


def die_with_parent() -> Callable[[], None] | None:
    """Return a function for a forked child to call: Linux then kills it when we die, however we die."""
    if sys.platform != "linux":
        return None
    prctl = _prctl()
    parent = os.getpid()

    def set_death_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before this was set
            os._exit(1)

    return set_death_signal


def _prctl() -> Callable[..., object]:
    from ..light import ctypes

    if hasattr(ctypes, "CDLL"):  # not CPython
        return ctypes.CDLL(None).prctl  # type: ignore[no-any-return]
    address = ctypes.dlsym(ctypes.dlopen(None, 0), "prctl")
    return lambda *arguments: ctypes.call_function(address, arguments)


def is_running(process: int) -> bool:
    """Return whether a process of this user with this id is running."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def start_failure(name: str, number: int) -> str:
    """Describe why a command can't be started, by error number."""
    from shutil import which

    if os.path.isdir(name):
        return f"cannot start the server: {name!r} is a directory; give the command that runs it"
    if number == ENOENT or not name:
        if which(name):
            return f"cannot start the server {name!r}: the interpreter in its first line does not exist"
        return f"cannot start the server: there is no command {name!r}; check its spelling and the PATH"
    if number in (EACCES, EPERM):
        return f"cannot start the server: {name!r} is not executable; try: chmod +x {name}"
    return f"cannot start the server {name!r}: {os.strerror(number)}"
