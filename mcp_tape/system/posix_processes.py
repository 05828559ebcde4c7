"""Linux and macOS: servers that end with us, the recording process, signals, ancestors.

Imports nothing heavy, so that a recorded server starts almost as fast as an unrecorded one.
"""

from __future__ import annotations

import os
import select
import sys
from errno import ENOENT
from time import clock_gettime

from ..light import signal
from .posix_calls import point_at_null

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    import socket
    import subprocess
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

IS_LINUX = REPORTS_WORK = sys.platform == "linux"  # the second: the processor time of other processes
PIPE_BYTES = 1 << 17  # of a recording's pipe: small enough to be stored soon after a kill
_PR_SET_PDEATHSIG = 1
_SHELL = "/bin/sh"
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, see ru_maxrss in getrusage(2)
_DESKTOP = {  # the command that prints the PATH of desktop programs, and the default PATH
    "linux": (
        ("systemctl", "--user", "show-environment"),
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    "darwin": (("launchctl", "getenv", "PATH"), "/usr/bin:/bin:/usr/sbin:/sbin"),
}
_PATIENCE = 2.0  # seconds for the system to report the PATH of the desktop
_SHORT_RUN = 1000  # milliseconds, after which all processes have started


# -- a server


class Child:
    """A command with pipes to us, which dies with us. Used instead of subprocess.Popen, which is slow to load.

    `stdin`, `stdout` and `stderr` are our ends of its pipes. OSError if it can't be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None, directory: str | None) -> None:
        die_with_us = die_with_parent()
        source, self.stdin = os.pipe()
        self.stdout, target = os.pipe()
        self.stderr, errors = os.pipe()
        failure, report = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _become(command, environment, directory, die_with_us, (source, target, errors), report)
        for theirs in (source, target, errors, report):
            os.close(theirs)
        reported = os.read(failure, 16)  # end of file once the command runs
        os.close(failure)
        if reported:
            self.wait()
            for ours in (self.stdin, self.stdout, self.stderr):
                os.close(ours)
            raise OSError(int(reported), os.strerror(int(reported)))

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
    environment: Mapping[str, str] | None,
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
        become(command, environment, directory)
    except OSError as error:
        os.write(report, b"%d" % (error.errno or 0))
    except ValueError:
        os.write(report, b"%d" % ENOENT)  # a command without a name
    finally:
        os._exit(255)


def become(command: Sequence[str], environment: Mapping[str, str] | None, directory: str | None) -> int:
    """Become a command, with our streams and process id. Never returns; OSError or ValueError if that fails."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these from its start
        signal.signal(ignored, signal.SIG_DFL)
    if directory is not None:
        os.chdir(directory)
    os.execvpe(command[0], [*command], os.environ if environment is None else environment)


def find_program(command: Sequence[str]) -> Sequence[str]:
    """The command with its program as the system finds it: `exec` looks for it itself."""
    return command


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that dies with us; the options are those of subprocess.Popen."""
    import subprocess

    return subprocess.Popen(command, preexec_fn=die_with_parent(), **options)


class GroupWatch:
    """An idle child in our process group: if a signal ended it, the whole group got that signal.

    Then the server has the signal already, and must not get it twice.
    """

    def __init__(self, ignored: Iterable[int]) -> None:
        """`ignored`: signals that do not count."""
        reader, self._writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _wait_for_end_of_file(reader, ignored)
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


def _wait_for_end_of_file(reader: int, ignored: Iterable[int]) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, ignored)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # no KeyboardInterrupt in the forked copy of our caller
        _close_descriptors_but({reader})
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


def close_inherited() -> None:
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
    if not IS_LINUX:
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


def start_group(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process whose output we read, in a group of its own, which `kill_group` ends."""
    import subprocess

    # The relay's mask blocks some signals, for children too.
    ours = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, ours)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has just ended


def original_environment() -> bytes | None:
    """The environment that this process was started with, where the system shows it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return file.read()
    except OSError:
        return None


# -- signals


def block_signals(numbers: Iterable[int]) -> None:
    """Block signals in every thread, for `next_signal` to take them in one.

    A Python handler would only run when the main thread next executes bytecode, and it may have just started to wait.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


def next_signal(wanted: Iterable[int]) -> tuple[int, bool]:
    """Wait for a signal; return it, and whether the terminal sent it (a key, or a resize), if known."""
    if not hasattr(signal, "sigwaitinfo"):  # macOS
        return signal.sigwait(wanted), False
    info = signal.sigwaitinfo(wanted)
    return info.si_signo, info.si_code > 0  # the kernel's own, see sigaction(2)


# -- the recording process


class WriterProcess:
    """A forked process that reads a pipe and reports on another: `pipe` and `status` are our ends."""

    def __init__(self, write: Callable[[int, int], None]) -> None:
        """`write(reader, status)` is its work."""
        reader, self.pipe = os.pipe()
        self.status, status = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            _run_writer(reader, status, write)
        os.close(reader)
        os.close(status)
        _grow(self.pipe)
        os.set_blocking(self.pipe, False)
        os.read(self.status, 1)  # it has left our process group, so signals to the group no longer reach it

    def put(self, head: bytes, data: bytes | memoryview) -> int:
        """Write as much as there is room for; return the number of bytes."""
        try:
            return os.writev(self.pipe, (head, data))
        except BlockingIOError:
            return 0

    def has_room(self, seconds: float) -> bool:
        """Wait for room in the pipe."""
        room = select.poll()
        room.register(self.pipe, select.POLLOUT)
        return bool(room.poll(seconds * 1000))

    def processor_time(self) -> float | None:
        """The processor time that it has used; None if the system does not report it."""
        if not IS_LINUX:
            return None
        try:
            return clock_gettime(~self._process << 3 | 2)  # the clock id that clock_getcpuclockid(3) computes
        except OSError:
            return None

    def wait(self) -> None:
        try:
            os.waitpid(self._process, 0)
        except ChildProcessError:
            pass  # our caller ignores SIGCHLD, so the system has reaped it


def _grow(pipe: int) -> None:
    if IS_LINUX:
        import fcntl

        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            pass  # over this user's allowance: a small pipe is slower, not wrong


def _close_descriptors_but(keep: set[int]) -> None:
    """Close all other inherited descriptors: a pipe held open here would never end for other processes."""
    for name in os.listdir("/dev/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself


def _run_writer(reader: int, status: int, write: Callable[[int, int], None]) -> None:
    """Run the writer in the forked process, outside our process group and without our pipes. Never returns."""
    code = 1
    try:
        os.setsid()
        for descriptor in (0, 1, 2):
            point_at_null(descriptor)
        _close_descriptors_but({0, 1, 2, reader, status})
        os.write(status, b"\n")
        _preempt_nobody()
        write(reader, status)
        code = 0
    except Exception as error:  # top level of this process: report why it ends
        os.write(status, f"failed the recording process has failed ({error!r})\n".encode())
    finally:
        os._exit(code)


def _preempt_nobody() -> None:
    """Let running processes finish their time slice, then take a full share of the processor.

    A lower priority would starve the writer on a busy machine, and traffic would reach the disk many seconds late.
    See SCHED_BATCH in sched(7).
    """
    if IS_LINUX:
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except OSError:
            pass  # not allowed in this container: the default policy stays


# -- related processes


class Peer:
    """The process at the other end of a connection: its number may be reused, its descriptor not."""

    def __init__(self, process: int) -> None:
        self._descriptor = os.pidfd_open(process)

    def stop(self) -> None:
        """Ask it to end."""
        try:
            signal.pidfd_send_signal(self._descriptor, signal.SIGTERM)
        except ProcessLookupError:
            pass

    def close(self) -> None:
        os.close(self._descriptor)


def peers(connection: socket.socket) -> list[Peer]:
    """The process at the other end of a local connection, if the system names it."""
    if not IS_LINUX:
        return []
    import socket
    import struct

    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return [Peer(struct.unpack("3i", credentials)[0])]


def desktop_path() -> str:
    """The PATH of programs that are started from the desktop, without a shell."""
    import subprocess

    asked, default = _DESKTOP.get(sys.platform, _DESKTOP["linux"])
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return default
    found = [line.removeprefix("PATH=") for line in done.stdout.splitlines()]
    found = [line for line in found if line.startswith("/")]
    return found[0] if found and not done.returncode else default
