"""The requests of a session with their answers and times, for formats that are about calls."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..cassette.query import filters
from ..cassette.query.exchanges import exchanges
from ..cassette.query.filters import EVERYTHING, Filter
from ..cassette.reader import Cassette, Session
from ..wire import frames, jsontext, protocol
from ..wire.frames import Exchange
from ..wire.times import read_time


class Call(NamedTuple):
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


def calls(cassette: Cassette, session: int, kept: Filter = EVERYTHING) -> Iterator[Call]:
    """Every request of a session that a filter keeps, in order; some megabytes of them at a time."""
    places = [(frame.seq, frame.at, frame.channel) for frame in filters.frames(cassette, session, kept)]
    numbers = [seq for seq, _, _ in places]
    wanted = set(numbers)
    every = numbers if not kept.terms else [frame.seq for frame in cassette.frames(session)]
    for exchange in exchanges(cassette, session):
        # A message of a batch has a number of its own, behind that of its frame.
        frame = every[bisect_right(every, exchange.seq or 0) - 1] if every else 0
        if frame in wanted:
            _, at, channel = places[bisect_right(numbers, frame) - 1]
            yield Call(exchange, at, exchange.microseconds, channel)


def started(session: Session) -> int:
    """Microseconds since 1970 at which a session began; 0 if nobody can tell."""
    return moment(session.started_at) or 0


def moment(text: str | None) -> int | None:
    """Microseconds since 1970 of a time as text; None where it is none."""
    found = read_time(text)
    return None if found is None else max(int(found.timestamp() * 1_000_000), 0)


def server_url(session: Session) -> str | None:
    url = protocol.member(frames.facts(session.target), "url")
    return url if isinstance(url, str) else None


def text(value: Any) -> str:
    return jsontext.dumps(value)
