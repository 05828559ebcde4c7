"""Start a server that ends with us, and find out whether a signal went to our whole process group.

Nothing heavy is imported here: a recorded server is started as soon as an unrecorded one would be, or nearly.
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
_SHORT_RUN = 1000  # milliseconds, after which start-up is over for all
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # what Python may choose


class Around(NamedTuple):
    """What a server gets beside what we have ourselves: variables, and the directory that it starts in."""

    env: Sequence[tuple[str, str]] = ()
    cwd: str | None = None
    missing: Sequence[str] = ()  # variables that it should get, and that nobody has

    def check(self) -> None:
        """Refuse to start a server without what it should have."""
        if self.missing:
            which = ", ".join(self.missing)
            raise ServerError(f"cannot start the server: it needs {which}, which is not set; set it, then try again")
        if self.cwd is not None and not os.path.isdir(self.cwd):
            raise ServerError(
                f"cannot start the server: {self.cwd!r}, where it should start, is not a directory; give one that is"
            )


AS_WE_ARE = Around()


class ServerProcess:
    """A stdio server, started. To be made on the main thread, before any other thread runs.

    A parent-death signal fires when the thread that started the child ends, see PR_SET_PDEATHSIG(2const); and we fork.
    """

    def __init__(self, command: Sequence[str], around: Around = AS_WE_ARE) -> None:
        open_standard_streams()
        self.process = Child(command, around)
        _close_inherited()
        self.group = GroupWatch()
        # Blocked in every thread from here on, and taken by one that does nothing else: a handler would run
        # when the main thread next executes something, and that may have gone to wait just before.
        signal.pthread_sigmask(signal.SIG_BLOCK, {*SIGNALS, *OTHERS})


class Child:
    """A command that was started with pipes to us, and dies with us: subprocess.Popen takes longer to load than to run.

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
        reported = os.read(failure, 16)  # the end of the file when the command runs
        os.close(failure)
        if reported:
            self.wait()
            for ours in (self.stdin, self.stdout, self.stderr):
                os.close(ours)
            raise ServerError(start_failure(command[0], int(reported)))

    def wait(self) -> None:
        """Wait for its end. `returncode` is then its exit code, or a signal's number, negative."""
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
    """Be the command, in the forked process: with these streams, and what was inherited for it. Never returns."""
    try:
        if die_with_us:
            die_with_us()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, at its start
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
    """The environment for a server; None if it is ours, as that was given."""
    inherited = _remove_coerced_locale()
    return inherited if not around.env else {**(os.environ if inherited is None else inherited), **dict(around.env)}


def _remove_coerced_locale() -> dict[str, str] | None:
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
        signal.pthread_sigmask(signal.SIG_BLOCK, OTHERS)  # they say nothing of those that ask us to stop
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # not an exception in a copy of our caller
        close_descriptors_but({reader})
        ended = select.poll()
        ended.register(reader, select.POLLIN)
        if not ended.poll(_SHORT_RUN):
            _become_small(reader)
        os.read(reader, 1)
    finally:
        os._exit(0)


def _become_small(reader: int) -> None:
    """Wait as a shell: a copy of our caller takes ten times the memory. Without one, go on as we are."""
    os.dup2(reader, 0)
    for _ in (1, 2):
        os.open(os.devnull, os.O_RDWR)
    try:
        os.execv(_SHELL, [_SHELL, "-c", "read _"])
    except OSError:
        pass


def _close_inherited() -> None:
    """Close what our caller has given the server beside its streams: a pipe that we held too would outlive it there."""
    for name in os.listdir("/dev/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):  # what Python opens itself is not
                os.close(int(name))
        except OSError:
            pass  # the one that listed the directory


def open_standard_streams() -> None:
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def die_with_parent() -> Callable[[], None] | None:
    """Return what a forked child has to call: on Linux the kernel kills it when we die, however we die."""
    if sys.platform != "linux":
        return None
    prctl = _prctl()
    parent = os.getpid()

    def set_death_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # died before it was set
            os._exit(1)

    return set_death_signal


def _prctl() -> Callable[..., object]:
    from ..light import ctypes

    if hasattr(ctypes, "CDLL"):  # another Python
        return ctypes.CDLL(None).prctl  # type: ignore[no-any-return]
    address = ctypes.dlsym(ctypes.dlopen(None, 0), "prctl")
    return lambda *arguments: ctypes.call_function(address, arguments)


def is_running(process: int) -> bool:
    """Return whether there is a process of ours with this number."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def start_failure(name: str, number: int) -> str:
    """Describe why a command cannot be started, by the number of the error."""
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
