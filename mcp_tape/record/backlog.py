"""Records that the relay has handed over and the writer has not stored yet.

Nothing heavy is imported here: the pipe is drained while the writer still loads its modules.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from time import monotonic, sleep

_CHUNK = 1 << 16  # bytes that are read at once
_LINE_BYTES = 4096  # a line weighs this much more, however short: each takes its time to store
_MOST_WEIGHT = 64 << 20
_LEAST_WEIGHT = 4 << 20  # a thousand lines may always wait
_TAKEN_WEIGHT = 4 << 20  # that is worked on between two looks at the pace
_TELLING_WEIGHT = 1 << 20  # less says nothing about the pace
# Seconds of work that may wait here: it must be on the cassette soon after a kill, and the pipe may be full then too.
_AHEAD = 0.3
_FIRST_PACE = 32 << 20  # weight in a second, before it is known
_NAP = 0.02  # between two looks at the pipe, so that the writer wakes rarely
_BUSY = 1 << 14  # bytes at one look: so much comes that the next look needs no nap


class Backlog:
    """A queue bounded by the time to store it: as much waits as the writer lately stored in a part of a second.

    Draining the pipe and storing are two threads: a slow disk stops only one.
    """

    def __init__(self, reader: int, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._ready = threading.Condition()
        self._chunks: list[tuple[bytes, int]] = []  # each with its weight
        self._weight = 0  # of the chunks and of what was taken last, which is not stored yet
        self._taken = 0
        self._taken_at = 0.0
        self._pace = float(_FIRST_PACE)
        self.closed = False
        threading.Thread(target=self._drain, args=(reader,), daemon=True).start()

    def _drain(self, reader: int) -> None:
        readable = select.poll()
        readable.register(reader, select.POLLIN)
        busy = False
        while not self.closed:
            if not busy and readable.poll() == [(reader, select.POLLIN)]:
                sleep(_NAP)  # let some more come together
            with self._ready:
                self._ready.wait_for(self._has_room)
            chunk = os.read(reader, _CHUNK)
            busy = len(chunk) > _BUSY
            with self._ready:
                weight = len(chunk) + _LINE_BYTES * chunk.count(b"\n")
                if chunk:
                    self._chunks.append((chunk, weight))
                    self._weight += weight
                self.closed = not chunk
                self._ready.notify_all()

    def _has_room(self) -> bool:
        return self._weight < min(max(_LEAST_WEIGHT, self._pace * _AHEAD), _MOST_WEIGHT)

    def take(self) -> list[bytes]:
        """Wait for more and return it; nothing at the end. What was taken before now counts as stored."""
        with self._ready:
            self._measure()
            self._weight -= self._taken
            self._ready.notify_all()
            self._ready.wait_for(lambda: self._chunks or self.closed)
            chunks, self._taken = [], 0
            while self._chunks and self._taken < _TAKEN_WEIGHT:
                chunk, weight = self._chunks.pop(0)
                chunks.append(chunk)
                self._taken += weight
            self._taken_at = self._clock()
            return chunks

    def _measure(self) -> None:
        """Update the pace of storing: slower counts at once, faster by and by."""
        if self._taken >= _TELLING_WEIGHT:
            pace = self._taken / max(self._clock() - self._taken_at, 1e-6)
            self._pace = min(pace, (self._pace + pace) / 2)
