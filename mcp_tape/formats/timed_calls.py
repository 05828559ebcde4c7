"""The requests of a session with their answers and times, for formats that show calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..cassette.query import filters
from ..cassette.query.exchanges import exchanges
from ..cassette.query.filters import EVERYTHING, Filter
from ..cassette.reader import Cassette, Session
from ..wire import frames, jsontext, protocol
from ..wire.frames import Exchange, Frame
from ..wire.times import read_time


class TimedCall(NamedTuple):
    """A request of either side. `at`: microseconds since its session began; `took`: None without an answer."""

    exchange: Exchange
    at: int
    took: int | None
    channel: str

    @property
    def status(self) -> str:
        """ok, error, tool-error, input-required or unanswered."""
        if self.took is None:
            return "unanswered"
        return "error" if self.exchange.error is not None else protocol.result_status(self.exchange.result)


def calls(cassette: Cassette, session: int, kept: Filter = EVERYTHING) -> Iterator[TimedCall]:
    """Yield the requests of a session that a filter keeps, in order; reads some megabytes at a time."""
    wanted = _Places(filters.frames(cassette, session, kept))
    every = _Places(cassette.frames(session)) if kept.terms else wanted
    for exchange in exchanges(cassette, session):
        # Each message of a batch has its own number, after that of its frame.
        place = wanted.of(exchange.seq or 0)
        if place is not None and place == every.of(exchange.seq or 0):
            yield TimedCall(exchange, place.at, exchange.microseconds, place.channel)


class _Place(NamedTuple):
    seq: int
    at: int
    channel: str


class _Places:
    """Places of frames, looked up by message numbers in increasing order. No frame is kept."""

    def __init__(self, found: Iterator[Frame]) -> None:
        self._found = (_Place(frame.seq, frame.at, frame.channel) for frame in found)
        self._last: _Place | None = None
        self._next = next(self._found, None)

    def of(self, number: int) -> _Place | None:
        """The last frame up to a number."""
        while self._next is not None and self._next.seq <= number:
            self._last, self._next = self._next, next(self._found, None)
        return self._last


def start_time(session: Session) -> int:
    """Microseconds since 1970 at which a session began; 0 if unknown."""
    return moment(session.started_at) or 0


def moment(text: str | None) -> int | None:
    """A time in text as microseconds since 1970; None if it is not a time."""
    found = read_time(text)
    return None if found is None else max(int(found.timestamp() * 1_000_000), 0)


def server_url(session: Session) -> str | None:
    url = protocol.member(frames.facts(session.target), "url")
    return url if isinstance(url, str) else None


def text(value: Any) -> str:
    return jsontext.dumps(value)
