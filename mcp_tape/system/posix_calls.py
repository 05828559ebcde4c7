"""Linux and macOS: locks, private files, the user's directories, polling, local connections.

Imports nothing heavy: a replay loads this before its first reply.
"""

from __future__ import annotations

import os
import select
import sys
from time import monotonic

from ..light import NamedTuple

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

HAS_PROC = os.path.isdir("/proc/self")  # as on Linux
HAS_FORK = REPLACES_OPEN_FILES = True
SHARES_PORTS = sys.platform == "linux"  # evenly, with SO_REUSEPORT
REBIND = (2 if SHARES_PORTS else 4), 1  # SO_REUSEADDR: a port whose last connections are still closing
PLACES = (f"/run/user/{os.getuid()}", "/tmp", "/var/tmp")  # for a private directory
_LONGEST = 100  # most bytes of a socket's path; systems allow 104 or 108, see sun_path in unix(7)
_SOCKET = "socket"

# -- waiting for descriptors

POLLIN, POLLOUT = select.POLLIN, select.POLLOUT
poll = select.poll  # select() takes no descriptor above 1023
read, write = os.read, os.write  # of descriptors that are polled
PIPE_BYTES = 4096  # that a writable pipe takes without blocking


def descriptor_of(connection: socket.socket) -> int:
    """The number of a socket for `poll`, `read` and `write`."""
    return connection.fileno()


def wait(descriptor: int, event: int, milliseconds: int | None = None) -> bool:
    """Wait for a descriptor that others may read meanwhile; return whether it is ready."""
    ready = select.poll()
    ready.register(descriptor, event)
    return bool(ready.poll(milliseconds))


def gather(reader: int, naps: Sequence[int], enough: int, busy_until: float) -> None:
    """Wait until a pipe is readable. Then nap, some milliseconds each, until enough waits in it, it ends or is busy."""
    readable, ended = select.poll(), select.poll()
    readable.register(reader, select.POLLIN)
    ended.register(reader, 0)  # reports only the end of the pipe, after which nothing more can come
    readable.poll()
    if monotonic() > busy_until:
        any(ended.poll(nap) or _question(reader, "FIONREAD") >= enough for nap in naps)


def unread(target: int) -> int:
    """The number of unread bytes in a pipe or socket that we write to; 0 if the system does not report it."""
    for question in ("TIOCOUTQ", "FIONREAD"):  # of a socket, of a pipe
        try:
            return _question(target, question)
        except OSError:
            continue
    return 0


def _question(descriptor: int, name: str) -> int:
    import fcntl
    import termios

    return int.from_bytes(fcntl.ioctl(descriptor, getattr(termios, name), bytes(4)), sys.byteorder)


def point_at_null(descriptor: int) -> None:
    """Close a descriptor but keep its number taken, so that the next file does not get it."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def prepare_command() -> None:
    """Prepare this process to run a command."""
    from ..light import signal

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, as some parents do, exit codes are lost


def is_gone(error: OSError) -> bool:
    """Return whether the reader of a pipe that was written to is gone."""
    return isinstance(error, BrokenPipeError)


# -- files


def open_safely(path: str) -> int:
    """Open a file that may be anything, to read it."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)


def open_lock(path: str) -> int:
    """Open a file to lock it, or make it."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def lock_of_directory(path: str) -> str:
    """The path to lock for a directory."""
    return path


def open_directory_lock(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def flock(descriptor: int, *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file; BlockingIOError if it would have to wait and must not."""
    import fcntl

    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))


def drop_lock(path: str, descriptor: int) -> None:
    """Remove the file of a lock, and with it the lock."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    os.close(descriptor)


def sync(path: str) -> None:
    """Write a file or a directory to the disk."""
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def inherit_owner(file: str, was: os.stat_result) -> None:
    """Give a file the mode of another and, for root, its owner: a user of sudo still wants to read it."""
    is_root = os.geteuid() == 0
    os.chown(file, was.st_uid if is_root else -1, was.st_gid if is_root else -1)
    os.chmod(file, was.st_mode & 0o7777)


def patiently(change: Callable[[], None]) -> None:
    """Change a file that other processes may have open. They hinder nobody here."""
    change()


def is_ours(found: os.stat_result) -> bool:
    """Return whether a file belongs to this user, and only they can write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def uri_path(path: str) -> str:
    """The path of a file in its URI, not quoted."""
    return f"//{os.path.abspath(path)}"


# -- the user's directories


def data_home() -> str:
    return _home("XDG_DATA_HOME", "~/.local/share", "~/Library/Application Support")


def cache_home() -> str:
    return _home("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches")


def config_homes(environ: Mapping[str, str], platform: str | None = None) -> dict[str, str]:
    """The home directory, and where desktop programs, others, and some that differ on Windows have their settings."""
    home = environ.get("HOME") or os.path.expanduser("~")
    xdg = config = os.path.join(home, ".config")
    if (platform or sys.platform) == "darwin":
        config = os.path.join(home, "Library", "Application Support")
    elif os.path.isabs(environ.get("XDG_CONFIG_HOME") or ""):  # relative paths are invalid by its specification
        xdg = config = environ["XDG_CONFIG_HOME"]
    return {"home": home, "config": config, "xdg": xdg, "zed": f"{xdg}/zed", "goose": f"{xdg}/goose"}


def _home(variable: str, usual: str, on_mac: str) -> str:
    if sys.platform == "darwin":
        return os.path.expanduser(on_mac)
    base = os.environ.get(variable) or ""
    return base if os.path.isabs(base) else os.path.expanduser(usual)  # as in the XDG specification


def private_place() -> str:
    """A directory that belongs to this user alone, even inside a world-writable one."""
    base = next((place for place in PLACES if os.access(place, os.W_OK)), PLACES[-1])
    place = os.path.join(base, f"mcp-tape-{os.getuid()}")
    try:
        os.mkdir(place, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(place)
    if found.st_uid != os.getuid() or found.st_mode & 0o170077 != 0o040000:
        raise PermissionError(f"{place} is not a directory of yours alone")
    return place


# -- connections between processes of this user


def listen_locally() -> tuple[socket.socket, str]:
    """Listen for processes of this user; return the listener and its address, a path in a directory of its own."""
    import socket
    import tempfile

    directory = tempfile.mkdtemp(prefix="mcp-tape-")  # only this user can enter it
    if len(os.fsencode(directory)) + len(_SOCKET) >= _LONGEST:
        os.rmdir(directory)
        directory = tempfile.mkdtemp(prefix="mcp-tape-", dir="/tmp")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.path.join(directory, _SOCKET))
    listener.listen(64)
    return listener, listener.getsockname()


def accept_locally(listener: socket.socket, address: str) -> socket.socket:
    """Accept the next connection. OSError if the listener was closed."""
    return listener.accept()[0]


def connect_locally(address: str, seconds: float) -> socket.socket:
    """Connect to a listener, and wait no longer than this for each answer."""
    from ..light import socket

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


# -- other processes


class Relative(NamedTuple):
    """A process: its program, parent and start time. The start time and the process id identify it."""

    program: str
    parent: int
    began: str


def look_at(number: int) -> Relative | None:
    """Look at a process; None if it is another user's, or gone."""
    try:
        return _read_proc(number) if HAS_PROC else _ask_ps(number)
    except (OSError, ValueError, IndexError):
        return None


def _read_proc(number: int) -> Relative:
    """See proc_pid_stat(5): the command in parentheses may contain anything, so read after the last `)`."""
    with open(f"/proc/{number}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    program = os.path.basename(os.readlink(f"/proc/{number}/exe")).removesuffix(" (deleted)")
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read(8)
    return Relative(program, int(fields[1]), f"{int(fields[19])}-{boot}")


def _ask_ps(number: int) -> Relative:
    import subprocess

    words = ["ps", "-o", "ppid=,lstart=,comm=", "-p", str(number)]
    listed = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    parent, *began = listed.stdout.split(maxsplit=6)  # the parent's id, five words of a date, and the command
    return Relative(os.path.basename(began.pop().strip()).lstrip("-"), int(parent), "".join(began).replace(":", ""))
