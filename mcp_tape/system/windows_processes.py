"""Windows: the names of `posix_processes`.

A process that must end with us is in a job object that is closed, and so killed, with us. Ctrl-C and the end of a
console go to all processes of the console; a handler of ours takes them in a thread of the system's.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"  # so that type checkers skip the rest elsewhere

import ctypes
import os
import pickle
import queue
import signal
import subprocess
import threading
from ctypes import wintypes
from shutil import which
from time import monotonic, sleep

from .windows_calls import is_gone, point_at_null

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

REPORTS_WORK = False  # wine does not, and a writer that starts loads its modules first
_STUCK = 30.0  # seconds that a write to an idle recording process may take
_NEW_GROUP, _DETACHED, _BREAKAWAY = 0x200, 0x8, 0x01000000
_KILL_ON_CLOSE, _LIMITS = 0x2000, 9  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JobObjectExtendedLimitInformation
_LIMITS_BYTES, _FLAGS_AT = 144, 16  # of JOBOBJECT_EXTENDED_LIMIT_INFORMATION
_EVENTS = {0: signal.SIGINT, 1: signal.SIGBREAK, 2: signal.SIGTERM, 5: signal.SIGTERM, 6: signal.SIGTERM}
_START = (
    "import sys; sys.path[:] = sys.argv[1:]; from mcp_tape.system.windows_processes import run_writer; run_writer()"
)

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_kernel.CreateJobObjectW.restype = wintypes.HANDLE
_kernel.CreateJobObjectW.argtypes = (ctypes.c_void_p, wintypes.LPCWSTR)
_kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD)
_kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
_kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
_kernel.GetProcessTimes.argtypes = (wintypes.HANDLE, *[ctypes.c_void_p] * 4)
_kernel.OpenProcess.restype = wintypes.HANDLE
_kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
_kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
_kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
_HANDLER = ctypes.WINFUNCTYPE(wintypes.BOOL, wintypes.DWORD)


# -- a server


class _Job:
    """Processes that are killed when this process ends."""

    def __init__(self) -> None:
        self._handle = _kernel.CreateJobObjectW(None, None)
        limits = ctypes.create_string_buffer(_LIMITS_BYTES)
        limits[_FLAGS_AT : _FLAGS_AT + 4] = _KILL_ON_CLOSE.to_bytes(4, "little")  # type: ignore[call-overload]
        _kernel.SetInformationJobObject(self._handle, _LIMITS, limits, _LIMITS_BYTES)

    def take(self, process: subprocess.Popen[bytes]) -> None:
        """Take a process, with the children that it starts from now on."""
        _kernel.AssignProcessToJobObject(self._handle, int(process._handle))  # type: ignore[attr-defined]

    def kill(self) -> None:
        _kernel.TerminateJobObject(self._handle, 1)


class _Process(subprocess.Popen[bytes]):
    """A process that is killed with its children, such as the server behind a script, and dies with us."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        environment = options.get("env")
        super().__init__(find_program(command, environment and environment.get("PATH")), **options)
        self._job = _Job()
        self._job.take(self)

    def kill(self) -> None:
        self._job.kill()

    terminate = kill


def find_program(command: Sequence[str], path: str | None = None) -> list[str]:
    """The command with the whole path of its program, of the PATH and with an ending of PATHEXT, as in a console."""
    program, *rest = command
    return [which(program, path=path) or program, *rest]


def start(command: Sequence[str], *, start_new_session: bool = False, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that dies with us; the options are those of subprocess.Popen."""
    return _Process(command, creationflags=_NEW_GROUP if start_new_session else 0, **options)


def start_group(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process whose output we read, which `kill_group` ends with all its children."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return _Process(command, creationflags=_NEW_GROUP, **streams)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    process.kill()


class Child:
    """A command with pipes to us, which dies with us. `stdin`, `stdout` and `stderr` are our ends of its pipes."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None, directory: str | None) -> None:
        pipe = subprocess.PIPE
        self._process = process = start(
            command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=directory
        )
        assert process.stdin and process.stdout and process.stderr
        # The process keeps its objects of these, and closes none of them.
        self.stdin, self.stdout, self.stderr = (
            os.dup(one.fileno()) for one in (process.stdin, process.stdout, process.stderr)
        )
        for one in (process.stdin, process.stdout, process.stderr):
            one.close()
        self.returncode: int | None = None

    def wait(self) -> None:
        """Wait for it to end and set `returncode` to its exit code."""
        self.returncode = self._process.wait()

    def send_signal(self, number: int) -> None:
        """End it: Windows has no signals except console events, which the process gets itself."""
        self.kill()

    def kill(self) -> None:
        self._process.kill()


def become(command: Sequence[str], environment: Mapping[str, str] | None, directory: str | None) -> int:
    """Run a command to its end, with our streams; return its exit code. A process cannot become another."""
    process = start(command, env=environment, cwd=directory)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            pass  # it has got that, too


class GroupWatch:
    """Shows whether a signal went to the server, too: console events do."""

    def __init__(self, ignored: Iterable[int]) -> None:
        pass

    def was_signalled(self) -> bool:
        return True

    def close(self) -> None:
        pass


def close_inherited() -> None:
    """Nothing to close: servers inherit the handles that are listed for them."""


def open_standard_streams() -> None:
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR | os.O_BINARY)  # gets the lowest free number, which is this one


def is_running(process: int) -> bool:
    """Return whether a process with this id is running."""
    handle = _kernel.OpenProcess(0x100000, False, process)  # SYNCHRONIZE
    if not handle:
        return False
    try:
        return bool(_kernel.WaitForSingleObject(handle, 0))
    finally:
        _kernel.CloseHandle(handle)


def original_environment() -> bytes | None:
    """The environment that this process was started with, which the system does not show."""
    return None


# -- signals

_signals: queue.SimpleQueue[int] = queue.SimpleQueue()


@_HANDLER  # type: ignore[untyped-decorator]
def _handle_event(event: int) -> bool:
    """Take an event of the console, in a thread of the system's. After the end of a console it may not return."""
    _signals.put(_EVENTS.get(event, signal.SIGTERM))
    if event > 1:
        sleep(3600.0)  # the system ends us after some seconds, if we have not ended
    return True


def block_signals(numbers: Iterable[int]) -> None:
    """Take the events of the console, for `next_signal`."""
    _kernel.SetConsoleCtrlHandler(_handle_event, True)


def next_signal(wanted: Iterable[int]) -> tuple[int, bool]:
    """Wait for an event of the console; return its number as a signal, and whether the server gets it, too."""
    return _signals.get(), True


# -- the recording process


class WriterProcess:
    """A process that reads a pipe and reports on another: `pipe` and `status` are our ends.

    It has no console, and leaves the job of our caller if that may be left, so that it can finish after us. Clients may
    end the whole job seconds after they leave, so it loads all its modules before the first message comes.
    """

    def __init__(self, write: Callable[[int, int], None]) -> None:
        """`write(reader, status)` is its work. It can be pickled, and `write.load()` imports its modules."""
        command = [sys.executable, "-c", _START, *map(str, sys.path)]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        try:
            self._process = subprocess.Popen(command, bufsize=0, creationflags=_DETACHED | _BREAKAWAY, **streams)  # type: ignore[call-overload]
        except PermissionError:  # the job may not be left
            self._process = subprocess.Popen(command, bufsize=0, creationflags=_DETACHED, **streams)  # type: ignore[call-overload]
        self.pipe, self.status = os.dup(self._process.stdin.fileno()), os.dup(self._process.stdout.fileno())
        self._process.stdin.close()
        self._process.stdout.close()
        self._since = 0.0  # the time since which a write waits
        task = pickle.dumps(write)
        os.write(self.pipe, len(task).to_bytes(8, "little") + task)
        os.read(self.status, 1)  # it is ready to store
        threading.Thread(target=self._watch, daemon=True).start()

    def put(self, head: bytes, data: bytes | memoryview) -> int:
        """Write everything; may wait. BrokenPipeError if the process has ended."""
        rest = memoryview(head + data)
        size = len(rest)
        self._since = monotonic()
        try:
            while rest:
                rest = rest[os.write(self.pipe, rest) :]
        except OSError as error:
            if is_gone(error):
                raise BrokenPipeError(*error.args) from None
            raise
        finally:
            self._since = 0.0
        return size

    def has_room(self, seconds: float) -> bool:
        return True

    def _watch(self) -> None:
        """End the process if a write waits for it while it does nothing: that breaks the pipe."""
        computed, seen = self.processor_time(), monotonic()
        while self._process.poll() is None:
            sleep(0.5)
            now, since = self.processor_time(), self._since
            if now != computed or not since:
                computed, seen = now, monotonic()
            elif monotonic() - max(seen, since) > _STUCK:
                self._process.kill()

    def processor_time(self) -> float | None:
        """The processor time that it has used."""
        times = [ctypes.c_uint64() for _ in range(4)]  # created, ended, in the kernel, in the program
        handle = int(self._process._handle)
        if not _kernel.GetProcessTimes(handle, *map(ctypes.byref, times)):
            return None
        return float(times[2].value + times[3].value)

    def wait(self) -> None:
        self._process.wait()


def run_writer() -> None:
    """Run as the recording process."""
    reader, status = os.dup(0), os.dup(1)
    for descriptor in (0, 1):
        point_at_null(descriptor)
    try:
        size = int.from_bytes(_read_all(reader, 8), "little")
        write = pickle.loads(_read_all(reader, size))
        try:
            write.load()
        finally:
            os.write(status, b"\n")  # the relay waits for it
        write(reader, status)
    except Exception as error:  # top level of this process: report why it ends
        os.write(status, f"failed the recording process has failed ({error!r})\n".encode())
    os._exit(0)


def _read_all(reader: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := os.read(reader, size - len(data))):
        data += piece
    return data


# -- related processes


class Peer:
    """The process at the other end of a connection. The system does not name it."""

    def stop(self) -> None: ...

    def close(self) -> None: ...


def peers(connection: socket.socket) -> list[Peer]:
    return []


def desktop_path() -> str:
    """The PATH of programs that are started from the desktop: the same as in a console."""
    return os.environ.get("PATH", "")
