"""A stdio server that is somewhere else: run as a program with the path of a Unix socket, it joins the two.

Started for each test, so it imports nothing but what it needs, not even its own package.
"""

from __future__ import annotations

import os
import select
import socket
import sys


def main(path: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.connect(path)
        except OSError as error:
            sys.stderr.write(f"mcp-tape: the tape is no longer in use ({error.strerror}); start this within the test\n")
            return 4
        return join(0, server, 1)


def join(source: int, server: socket.socket, target: int) -> int:
    """Pass bytes both ways until the server has ended; the exit code that it may have sent last."""
    sources = [source, server.fileno()]
    while True:
        for ready in select.select(sources, [], [])[0]:
            data = os.read(ready, 1 << 16)
            if ready == source:
                if data:
                    server.sendall(data)
                else:
                    sources.remove(source)
                    server.shutdown(socket.SHUT_WR)
            elif data:
                _write(target, data)
            else:
                return 0


def _write(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        sys.exit(0)
