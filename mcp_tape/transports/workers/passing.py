"""Passes connections to another worker, with the data already read, so that a session stays with its worker.

Each worker has a letter box, a Unix socket that all others write to. A letter holds two descriptors: the connection,
and one end of a new socket that carries the data already read, of any size. The boxes are made before the workers and
outlive them, so letters wait while a worker restarts.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

_LETTER = struct.Struct("<Q")  # the number of bytes already read
_DESCRIPTORS = 2
_CHUNK = 1 << 16
_A_MOMENT = 0.005  # seconds
# The box is full, or too many descriptors are in flight: https://man7.org/linux/man-pages/man7/unix.7.html
_BUSY = (errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS)

Take = Callable[[socket.socket, bytes], Coroutine[Any, Any, None]]


class LetterBoxes:
    """The letter boxes of all workers: for each, the end that its owner reads and the end that others write to."""

    def __init__(self, workers: int) -> None:
        self._pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(workers)]
        for one in (end for pair in self._pairs for end in pair):
            one.setblocking(False)

    def of(self, worker: int) -> ConnectionPasser:
        """Return the ends that a worker needs, and close all others. The worker itself must call this."""
        for number, (inside, slot) in enumerate(self._pairs):
            (slot if number == worker else inside).close()
        return ConnectionPasser(self._pairs[worker][0], [slot for _, slot in self._pairs])

    def close(self) -> None:
        for one in (end for pair in self._pairs for end in pair):
            one.close()


class ConnectionPasser:
    """A worker's own box, and the slots of all boxes."""

    def __init__(self, box: socket.socket, slots: Sequence[socket.socket]) -> None:
        self._box = box
        self._slots = slots
        self._take: Take | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, take: Take) -> None:
        """Start to receive connections from other workers."""
        self._take = take
        asyncio.get_running_loop().add_reader(self._box.fileno(), self._read)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._box.fileno())
        self._box.close()

    def pass_on(self, worker: int, connection: socket.socket, data: bytes) -> None:
        """Pass a connection on and close it here. If the other worker is gone, the client sees it close."""
        self._start(self._send(self._slots[worker], connection, data))

    async def _send(self, slot: socket.socket, connection: socket.socket, data: bytes) -> None:
        ours, theirs = socket.socketpair()
        with connection, ours:
            ours.setblocking(False)
            with theirs:
                descriptors = [connection.fileno(), theirs.fileno()]
                while not _post_letter(slot, _LETTER.pack(len(data)), descriptors):
                    await asyncio.sleep(_A_MOMENT)
            await asyncio.get_running_loop().sock_sendall(ours, data)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            letter, descriptors, _, _ = socket.recv_fds(self._box, _LETTER.size, _DESCRIPTORS)
            sockets = [socket.socket(fileno=one) for one in descriptors]
            if len(sockets) < _DESCRIPTORS:  # we are at the limit of open files
                for one in sockets:
                    one.close()
                return
            (size,) = _LETTER.unpack(letter)
            self._start(self._receive(sockets[0], sockets[1], size))

    async def _receive(self, connection: socket.socket, source: socket.socket, size: int) -> None:
        data = bytearray()
        with source:
            source.setblocking(False)
            while more := await asyncio.get_running_loop().sock_recv(source, _CHUNK):
                data += more
        if len(data) < size or self._take is None:
            connection.close()  # the sender has died
            return
        await self._take(connection, bytes(data))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(_ignore_lost(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _ignore_lost(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(OSError):  # the client or either worker has left
        await work


def _post_letter(slot: socket.socket, letter: bytes, descriptors: list[int]) -> bool:
    """Try to send a letter; return whether there was room."""
    try:
        socket.send_fds(slot, [letter], descriptors)
    except OSError as error:
        if error.errno not in _BUSY:
            raise
        return False
    return True
