"""A program that joins its stdin and stdout to a Unix socket, whose path it is given.

Started for each test, so it imports nothing but what it needs, not even its own package.
"""

from __future__ import annotations

import _socket  # these two without what the modules of the same name would load: that takes longer than all the rest
import _thread
import fcntl
import os
import select
import sys
import termios

PID_BYTES = 4  # sent first; the exit code is left in a file that is named after it
_CHUNK = 1 << 16
_LOOKS, _PAUSE = 1000, 0.0005  # seconds: half of one at the most to wait for a client to read


def main(path: str) -> int:
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        server.connect(path)
    except OSError as error:
        sys.stderr.write(f"mcp-tape: the tape is no longer in use ({error.strerror}); start this within the test\n")
        return 4
    server.sendall(os.getpid().to_bytes(PID_BYTES, "big"))
    _thread.start_new_thread(_pass_to_server, (0, server))
    _pass_to_client(server, 1)
    return _exit_code(os.path.dirname(path))


def _pass_to_server(source: int, server: _socket.socket) -> None:
    """Pass the client's messages on to the server, even while the client reads nothing."""
    try:
        while data := os.read(source, _CHUNK):
            server.sendall(data)
        server.shutdown(_socket.SHUT_WR)
    except OSError:
        pass  # the server has ended


def _pass_to_client(server: _socket.socket, target: int) -> None:
    """Pass the server's messages on to the client, each piece once the last was read, within bounds.

    TypeScript clients forget a call's progress when its answer comes in the same read.
    """
    reads = True  # the client does, as far as we know
    while data := server.recv(_CHUNK):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
        looks = _LOOKS if reads else 1
        while _unread(target) and looks:
            looks -= 1
            select.select([], [], [], _PAUSE)
        reads = looks > 0


def _unread(target: int) -> int:
    """Bytes that lie there for the client to read; 0 where the system does not say.

    As in serve.py, which this program cannot import: `-I -S` gives it no package, and it has no time for one.
    """
    for question in (termios.TIOCOUTQ, termios.FIONREAD):  # of a socket, of a pipe
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
