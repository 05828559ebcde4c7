"""What the relay has handed over and the writer has not stored yet.

Nothing heavy is imported here: the pipe is drained while the writer still loads its modules.
"""

from __future__ import annotations

import os
import select
import threading
from time import sleep

from .recorder import PIPE_BYTES

_QUEUE_BYTES = 64 << 20
_LINE_BYTES = 4096  # a line weighs this much more: what waits here must be stored soon after a kill, however short
_NAP = 0.02  # between two looks at the pipe, so that the writer wakes rarely
_BUSY = 1 << 14  # bytes at one look: so much comes that the next look needs no nap


class Backlog:
    """Bounded by weight. Draining the pipe and storing are two threads: a slow disk stops only one."""

    def __init__(self, reader: int) -> None:
        self._ready = threading.Condition()
        self._chunks: list[bytes] = []
        self._weight = 0  # of the chunks and of what was taken last, which is not stored yet
        self._taken = 0
        self.closed = False
        threading.Thread(target=self._drain, args=(reader,), daemon=True).start()

    def _drain(self, reader: int) -> None:
        readable = select.poll()
        readable.register(reader, select.POLLIN)
        busy = False
        while True:
            if not busy and readable.poll() == [(reader, select.POLLIN)]:
                sleep(_NAP)  # let some more come together
            chunk = os.read(reader, PIPE_BYTES)
            busy = len(chunk) > _BUSY
            with self._ready:
                self._ready.wait_for(lambda: self._weight < _QUEUE_BYTES)
                if chunk:
                    self._chunks.append(chunk)
                    self._weight += len(chunk) + _LINE_BYTES * chunk.count(b"\n")
                self.closed = not chunk
                self._ready.notify_all()
            if not chunk:
                return

    def take(self) -> list[bytes]:
        """What has come, waiting for it; nothing at the end. What was taken before is done with."""
        with self._ready:
            self._weight -= self._taken
            self._ready.notify_all()
            self._ready.wait_for(lambda: self._chunks or self.closed)
            chunks, self._chunks, self._taken = self._chunks, [], self._weight
            return chunks
