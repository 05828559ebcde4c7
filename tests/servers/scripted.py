"""Plays one side of a conversation, as a program: either the server, or the client of a server command.

python -m tests.servers.scripted server NAME
python -m tests.servers.scripted client NAME COMMAND...

Each side sends its next line only after all earlier lines have arrived, and compares them byte for byte. The first
difference ends the program with code 1.
"""

from __future__ import annotations

import subprocess
import sys
from typing import IO

from .conversations import CONVERSATIONS


def main(arguments: list[str]) -> None:
    side, name, *command = arguments
    if side == "server":
        play("server", name, sys.stdin.buffer, sys.stdout.buffer)
        return
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin and server.stdout
        play("client", name, server.stdout, server.stdin)
    sys.exit(server.returncode)


def play(side: str, name: str, reader: IO[bytes], writer: IO[bytes]) -> None:
    for line in CONVERSATIONS[name]:
        if not line.data.endswith(b"\n"):
            leave(side, reader, writer)  # the end of the stream ends an incomplete line
        if line.sender == side:
            writer.write(line.data)
            writer.flush()
        elif line.sender != "stderr":
            expect(line.data, reader.readline())
        elif side == "server":
            sys.stderr.buffer.write(line.data)
            sys.stderr.buffer.flush()
    leave(side, reader, writer)
    expect(b"", reader.read())


def leave(side: str, reader: IO[bytes], writer: IO[bytes]) -> None:
    """The client leaves first; the server waits for that."""
    if side == "client":
        writer.close()
    else:
        expect(b"", reader.read())


def expect(wanted: bytes, got: bytes) -> None:
    if wanted != got:
        sys.exit(f"expected {wanted!r}, got {got!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
