"""Records that the relay has handed over and the writer has not stored yet.

Imports nothing heavy: the pipe is drained while the writer's modules still load.
"""

from __future__ import annotations

import os
import threading
from time import monotonic

from ..system import calls

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable


_CHUNK = 1 << 16  # bytes per read
_LINE_BYTES = 4096  # added to the weight of each line, however short: every line costs time to store
_MOST_WEIGHT = 64 << 20
_LEAST_WEIGHT = 1 << 20  # a few hundred lines may always wait
_MOST_TAKEN, _LEAST_TAKEN = 4 << 20, 1 << 18  # weight per `take`; the pace of smaller batches is not measured
# Seconds of work that may wait here. It must reach the cassette soon after a kill, and the pipe may be full as well.
_AHEAD = 0.15
_AT_ONCE = 0.03  # seconds of work per `take`
_FIRST_PACE = 16 << 20  # weight per second, until it is measured
_NAPS = 1, 4, 16  # milliseconds to wait for more while there is little traffic, so that the writer wakes rarely
_BUSY = 1 << 14  # bytes ready to read that end the nap
_STILL_BUSY = 0.05  # seconds without naps after a large read


class Backlog:
    """A queue bounded by time: it holds what the writer can store in a fraction of a second at its recent pace.

    Draining the pipe and storing are two threads: a slow disk stops only one.
    """

    def __init__(self, reader: int, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._ready = threading.Condition()
        self._chunks: list[tuple[bytes, int]] = []  # each with its weight
        self._weight = 0  # of the chunks, and of the last batch taken, which is not stored yet
        self._taken = 0
        self._taken_at = 0.0
        self._pace = float(_FIRST_PACE)
        self.closed = False
        threading.Thread(target=self._drain, args=(reader,), daemon=True).start()

    def _drain(self, reader: int) -> None:
        busy_until = 0.0
        while not self.closed:
            calls.gather(reader, _NAPS, _BUSY, busy_until)
            with self._ready:
                self._ready.wait_for(self._has_room)
            chunk = os.read(reader, _CHUNK)
            if len(chunk) > _BUSY:
                busy_until = monotonic() + _STILL_BUSY
            with self._ready:
                weight = len(chunk) + _LINE_BYTES * chunk.count(b"\n")
                if chunk:
                    self._chunks.append((chunk, weight))
                    self._weight += weight
                self.closed = not chunk
                self._ready.notify_all()

    def _has_room(self) -> bool:
        return self._weight < min(max(_LEAST_WEIGHT, self._pace * _AHEAD), _MOST_WEIGHT)

    def rest(self, seconds: float) -> None:
        """Wait up to `seconds`; return early if the backlog fills up or the pipe ends."""
        with self._ready:
            self._ready.wait_for(lambda: self.closed or self._weight >= _LEAST_WEIGHT, seconds)

    @property
    def has_more(self) -> bool:
        """True if there is more to take."""
        return bool(self._chunks)

    def take(self) -> list[bytes]:
        """Wait for more and return it; empty at the end. The previous batch now counts as stored."""
        with self._ready:
            self._measure()
            self._weight -= self._taken
            self._ready.notify_all()
            self._ready.wait_for(lambda: self._chunks or self.closed)
            chunks, self._taken = [], 0
            enough = min(max(_LEAST_TAKEN, self._pace * _AT_ONCE), _MOST_TAKEN)
            while self._chunks and self._taken < enough:
                chunk, weight = self._chunks.pop(0)
                chunks.append(chunk)
                self._taken += weight
            self._taken_at = self._clock()
            return chunks

    def _measure(self) -> None:
        """Update the measured pace: a slower one counts at once, a faster one gradually."""
        if self._taken >= _LEAST_TAKEN:
            pace = self._taken / max(self._clock() - self._taken_at, 1e-6)
            self._pace = min(pace, (self._pace + pace) / 2)
