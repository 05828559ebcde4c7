"""Windows: the names of `posix_calls`.

Its pipes cannot be polled, so a thread reads each of them ahead, and a write may block. Documentation of the calls:
https://learn.microsoft.com/en-us/windows/win32/api/
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"  # so that type checkers skip the rest elsewhere

import ctypes
import errno
import msvcrt
import os
import threading
from collections import deque
from ctypes import wintypes
from time import monotonic, sleep

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    T = TypeVar("T")

HAS_FORK = HAS_PROC = REPLACES_OPEN_FILES = SHARES_PORTS = False
REBIND = ~4, 1  # SO_EXCLUSIVEADDRUSE: no other program may take the port
_LOCK_NAME = ".lock"
_NO_SUCH_PROCESS_READS = (errno.EPIPE, errno.EINVAL)  # of a write: which of them depends on how the reader left
_BUSY = (5, 32, 33)  # access denied, sharing violation, lock violation
_TRIES, _PAUSE = 100, 0.05  # of a change of a file that another process has open
_LOOK_AGAIN = 0.1  # seconds, in which Python handles Ctrl-C
_AHEAD = 64 << 20  # most bytes read ahead
_CHUNK = 1 << 16
_SECRET = 32  # bytes

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_kernel.LockFileEx.argtypes = (
    wintypes.HANDLE, wintypes.DWORD, wintypes.DWORD, wintypes.DWORD, wintypes.DWORD, ctypes.c_void_p,
)  # fmt: skip
_kernel.PeekNamedPipe.argtypes = (
    wintypes.HANDLE, ctypes.c_void_p, wintypes.DWORD, ctypes.c_void_p, ctypes.POINTER(wintypes.DWORD), ctypes.c_void_p,
)  # fmt: skip

# -- waiting for descriptors

POLLIN, POLLOUT, _POLLHUP = 1, 4, 16
PIPE_BYTES = _CHUNK
_arrived = threading.Condition()
_readers: dict[int, _Reader] = {}
_sockets: dict[int, socket.socket] = {}


class _Reader:
    """A thread that reads a descriptor ahead."""

    def __init__(self, descriptor: int) -> None:
        self._source = _sockets.get(descriptor, descriptor)
        self.pieces: deque[bytes] = deque()
        self._size = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        data = b"-"
        while data:
            try:
                data = os.read(self._source, _CHUNK) if isinstance(self._source, int) else self._source.recv(_CHUNK)
            except OSError:  # closed
                data = b""
            with _arrived:
                self.pieces.append(data)
                self._size += len(data)
                _arrived.notify_all()
                _arrived.wait_for(lambda: self._size < _AHEAD)

    def take(self) -> bytes:
        with _arrived:
            _arrived.wait_for(lambda: self.pieces)
            data = self.pieces.popleft()
            self._size -= len(data)
            _arrived.notify_all()
            return data


class poll:  # noqa: N801 - as select.poll
    """Waits for descriptors as select.poll does; all can be written to."""

    def __init__(self) -> None:
        self._events: dict[int, int] = {}

    def register(self, descriptor: int, event: int) -> None:
        self._events[descriptor] = event
        if event == POLLIN and descriptor not in _readers:
            _readers[descriptor] = _Reader(descriptor)

    def unregister(self, descriptor: int) -> None:
        del self._events[descriptor]

    def poll(self, milliseconds: float | None = None) -> list[tuple[int, int]]:
        end = None if milliseconds is None else monotonic() + milliseconds / 1000
        with _arrived:
            while not (ready := self._ready()):
                left = _LOOK_AGAIN if end is None else min(_LOOK_AGAIN, end - monotonic())
                if left <= 0:
                    return []
                _arrived.wait(left)
        return ready

    def _ready(self) -> list[tuple[int, int]]:
        return [(one, event) for one, event in self._events.items() if event == POLLOUT or _readers[one].pieces]


def read(descriptor: int, size: int) -> bytes:
    """Read from a descriptor that is polled; at most 64 KiB, and nothing at its end."""
    reader = _readers.get(descriptor)
    data = os.read(descriptor, size) if reader is None else reader.take()
    if not data:
        _readers.pop(descriptor, None)  # its number may be given to another
    return data


def write(descriptor: int, data: bytes | memoryview) -> int:
    """Write to a descriptor; may block."""
    connection = _sockets.get(descriptor)
    if connection is not None:
        return connection.send(data)
    try:
        return os.write(descriptor, data[:_CHUNK])
    except OSError as error:
        if is_gone(error):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
        raise


def descriptor_of(connection: socket.socket) -> int:
    """A number for a socket, for `poll`, `read` and `write`."""
    number = -2 - connection.fileno()  # no descriptor is negative
    _sockets[number] = connection
    _readers.pop(number, None)
    return number


def wait(descriptor: int, event: int, milliseconds: int | None = None) -> bool:
    """Wait for a pipe that others may read meanwhile; return whether it is ready."""
    end = None if milliseconds is None else monotonic() + milliseconds / 1000
    while event == POLLIN and _readable_bytes(descriptor) == 0:
        if end is not None and monotonic() >= end:
            return False
        sleep(0.01)
    return True


def _readable_bytes(descriptor: int) -> int | None:
    """The number of bytes that can be read now; None at the end, or if the system does not report it."""
    found = wintypes.DWORD()
    if _kernel.PeekNamedPipe(msvcrt.get_osfhandle(descriptor), None, 0, None, ctypes.byref(found), None):
        return found.value
    return None


def gather(reader: int, naps: Sequence[int], enough: int, busy_until: float) -> None:
    """Nothing to wait for: the next read does."""


def unread(target: int) -> int:
    """The number of unread bytes in a pipe that we write to, which the system does not report."""
    return 0


def point_at_null(descriptor: int) -> None:
    """Close a descriptor but keep its number taken, so that the next file does not get it."""
    null = os.open(os.devnull, os.O_RDWR | os.O_BINARY)
    os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def prepare_command() -> None:
    """Prepare this process to run a command: its output is UTF-8, and its lines end as elsewhere."""
    for output in (sys.stdout, sys.stderr):
        output.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]


def is_gone(error: OSError) -> bool:
    """Return whether the reader of a pipe that was written to is gone."""
    return error.errno in _NO_SUCH_PROCESS_READS


# -- files


def open_safely(path: str) -> int:
    """Open a file to read it. One that another process is removing is refused until it is gone."""
    return patiently(lambda: os.open(path, os.O_RDONLY | os.O_BINARY))


class _Overlapped(ctypes.Structure):
    _fields_ = (
        ("internal", ctypes.c_void_p),
        ("internal_high", ctypes.c_void_p),
        ("offset", wintypes.DWORD),
        ("offset_high", wintypes.DWORD),
        ("event", wintypes.HANDLE),
    )


def open_lock(path: str) -> int:
    """Open a file to lock it, or make it."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_BINARY | os.O_NOINHERIT)


def lock_of_directory(path: str) -> str:
    """The path to lock for a directory, which cannot be locked itself."""
    return os.path.join(path, _LOCK_NAME)


def open_directory_lock(path: str) -> int:
    return open_lock(lock_of_directory(path))


def flock(descriptor: int, *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file; BlockingIOError if it would have to wait and must not.

    The locked byte is far behind the end, since others cannot read a locked one. A lock that we hold is given up first.
    """
    handle, where = msvcrt.get_osfhandle(descriptor), _Overlapped(offset_high=1)
    _kernel.UnlockFileEx(wintypes.HANDLE(handle), 0, 1, 0, ctypes.byref(where))
    how = (0 if shared else 2) | (0 if wait else 1)  # LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY
    if not _kernel.LockFileEx(handle, how, 0, 1, 0, ctypes.byref(where)):
        code = ctypes.get_last_error()
        if code in (33, 997):  # ERROR_LOCK_VIOLATION, ERROR_IO_PENDING
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock")
        raise ctypes.WinError(code)


def drop_lock(path: str, descriptor: int) -> None:
    """Remove a lock, and its file unless another process has it open."""
    os.close(descriptor)
    try:
        os.unlink(path)
    except OSError:
        pass


def sync(path: str) -> None:
    """Write a file to the disk; for a directory there is no such call."""
    if os.path.isdir(path or "."):
        return
    descriptor = os.open(path, os.O_RDWR | os.O_BINARY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def inherit_owner(file: str, was: os.stat_result) -> None:
    """Files inherit their owner and rights from their directory."""


def patiently(change: Callable[[], T]) -> T:
    """Open or change a file that other processes may have open: wait for them, and raise OSError if they stay."""
    for _ in range(_TRIES):
        try:
            return change()
        except OSError as error:
            if error.winerror not in _BUSY and error.errno != errno.EACCES:
                raise
        sleep(_PAUSE)
    return change()


def is_ours(found: os.stat_result) -> bool:
    """The user's directories are private by their access control lists."""
    return True


def uri_path(path: str) -> str:
    """The path of a file in its URI, not quoted: `/C:/a` or, of a share, `////server/share/a`."""
    path = os.path.abspath(path).replace("\\", "/")
    return f"//{path}" if path.startswith("//") else f"///{path}"


# -- the user's directories


def data_home() -> str:
    return os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")


def cache_home() -> str:
    return os.path.join(data_home(), "Cache")


def config_homes(environ: Mapping[str, str], platform: str | None = None) -> dict[str, str]:
    """The home directory, and where desktop programs, others, and some that differ on Windows have their settings."""
    home = environ.get("USERPROFILE") or os.path.expanduser("~")
    roaming = environ.get("APPDATA") or f"{home}\\AppData\\Roaming"
    own = {"zed": f"{roaming}\\Zed", "goose": f"{roaming}\\Block\\goose\\config"}
    return {"home": home, "config": roaming, "xdg": f"{home}\\.config", **own}


def private_place() -> str:
    place = os.path.join(data_home(), "mcp-tape", "runs")
    os.makedirs(place, exist_ok=True)
    return place


# -- connections between processes of this user


def listen_locally() -> tuple[socket.socket, str]:
    """Listen for processes of this user; return the listener and its address, a path in a directory of its own.

    The file there has the port, and a secret that the others of this machine do not know.
    """
    import socket
    import tempfile

    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    address = os.path.join(tempfile.mkdtemp(prefix="mcp-tape-"), "socket")
    with open(address, "wb") as file:
        file.write(b"%d %s" % (listener.getsockname()[1], os.urandom(_SECRET // 2).hex().encode()))
    return listener, address


def accept_locally(listener: socket.socket, address: str) -> socket.socket:
    """Accept the next connection that knows the secret. OSError if the listener was closed."""
    with open(address, "rb") as file:
        expected = file.read().split()[1]
    while True:
        connection, _ = listener.accept()
        connection.settimeout(10.0)
        try:
            given = b""
            while len(given) < _SECRET and (data := connection.recv(_SECRET - len(given))):
                given += data
            if given == expected:
                connection.settimeout(None)
                return connection
        except OSError:
            pass
        connection.close()


def connect_locally(address: str, seconds: float) -> socket.socket:
    """Connect to a listener, and wait no longer than this for each answer."""
    import socket

    with open(address, "rb") as file:
        port, secret = file.read().split()
    connection = socket.create_connection(("127.0.0.1", int(port)), seconds)
    connection.sendall(secret)
    return connection


# -- other processes


def look_at(number: int) -> None:
    """Runs are not known by their processes here, since a process may outlive its parent and keep its number."""
    return
