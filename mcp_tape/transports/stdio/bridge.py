"""A program that joins its stdin and stdout to the local address that it is given.

Started for each test, so it imports as little as it can, not even its own package.
"""

from __future__ import annotations

import _socket  # the public modules load more, which takes longer than everything else here
import _thread
import os
import sys
from time import sleep

try:
    import fcntl
    import termios

    QUESTIONS: tuple[int, ...] = (termios.TIOCOUTQ, termios.FIONREAD)  # of a socket, of a pipe
except ImportError:  # Windows has no such question
    QUESTIONS = ()

PID_BYTES = 4  # sent first; a file named after the process id holds the exit code
_CHUNK = 1 << 16
_LOOKS, _PAUSE = 1000, 0.0005  # seconds; waits at most half a second for a client to read


def main(path: str) -> int:
    try:
        server = _connect(path)
    except OSError as error:
        sys.stderr.write(f"mcp-tape: the tape is no longer in use ({error.strerror}); start this within the test\n")
        return 4
    server.sendall(os.getpid().to_bytes(PID_BYTES, "big"))
    _thread.start_new_thread(_pass_to_server, (0, server))
    _pass_to_client(server, 1)
    return _exit_code(os.path.dirname(path))


def _connect(path: str) -> _socket.socket:
    """Connect to a Unix socket; on Windows, to the port in a file, with the secret beside it.

    A copy of `connect_locally` in `system`: with `-I -S` this program can't import the package, and that would be slow.
    """
    if hasattr(_socket, "AF_UNIX"):
        server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        server.connect(path)
        return server
    with open(path, "rb") as file:
        port, secret = file.read().split()
    server = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    server.connect(("127.0.0.1", int(port)))
    server.sendall(secret)
    return server


def _pass_to_server(source: int, server: _socket.socket) -> None:
    """Pass the client's messages to the server, even while the client reads nothing."""
    try:
        while data := os.read(source, _CHUNK):
            server.sendall(data)
        server.shutdown(_socket.SHUT_WR)
    except OSError:
        pass  # the server has ended


def _pass_to_client(server: _socket.socket, target: int) -> None:
    """Pass the server's messages to the client, each piece once the client has read the one before, within bounds.

    TypeScript clients lose a call's progress if its answer comes in the same read.
    """
    reads = True  # the client reads, as far as we know
    while data := server.recv(_CHUNK):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
        looks = _LOOKS if reads else 1
        while _unread(target) and looks:
            looks -= 1
            sleep(_PAUSE)
        reads = looks > 0


def _unread(target: int) -> int:
    """The number of bytes that the client has not read yet; 0 if the system does not report it.

    A copy of `unread` in `system`, for the same reason.
    """
    for question in QUESTIONS:
        try:
            return int.from_bytes(fcntl.ioctl(target, question, bytes(4)), sys.byteorder)
        except OSError:
            continue
    return 0


def _exit_code(directory: str) -> int:
    try:
        with open(os.path.join(directory, str(os.getpid()))) as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        sys.exit(0)
