"""Statistics of each tool and method: calls, errors, durations and bytes.

They are exact, although only durations are kept in memory, eight bytes per call.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, NamedTuple

from ...wire import protocol
from .. import schema
from ..functions import text_of
from ..reader import Cassette, row_maker
from . import filters
from .exchanges import FAILED
from .filters import EVERYTHING, Filter

_PAGE = 10_000  # calls
_MOST_GROUPS = 10_000  # an untrusted recording may use a new name for each call
_NAMED = (protocol.CALL, protocol.GET_PROMPT)  # other methods have no names
_MOST_BARS = 12

CallGroup = tuple[str, str | None, str | None]  # sender, method and tool
_OTHERS: CallGroup = ("client", "(others)", None)

# A repeated request has no key, and does not count.
_CALLS = f"""SELECT m.id, m.sender, m.method, m.name, a.status, {filters.MICROSECONDS},
    {filters.SIZE}, coalesce(length(CAST({text_of("af", "a.part")} AS BLOB)), 0)
    FROM {filters.ROWS_OF_MESSAGES} WHERE m.kind = 'request' AND +m.key IS NOT NULL AND """


class _Call(NamedTuple):
    """A request, and the time and size of its answer."""

    id: int
    sender: str
    method: str | None
    name: str | None
    status: str | None
    microseconds: int | None
    asked: int
    answered: int


_call = row_maker(_Call)


@dataclass(slots=True)
class CallTally:
    """The calls of one group."""

    calls: int = 0
    errors: int = 0
    unanswered: int = 0
    bytes: int = 0
    durations: array[int] = field(default_factory=lambda: array("q"))


class Figures(NamedTuple):
    """The statistics of one group. Times are in microseconds; None without answers."""

    sender: str
    method: str | None
    name: str | None
    calls: int
    errors: int
    unanswered: int
    p50: int | None
    p95: int | None
    max: int | None
    bytes: int

    def as_json(self) -> dict[str, Any]:
        times = {f"{name}_microseconds": getattr(self, name) for name in ("p50", "p95", "max")}
        return {name: value for name, value in self._asdict().items() if name not in ("p50", "p95", "max")} | times


def tallies(
    cassette: Cassette,
    sessions: Iterable[int],
    kept: Filter = EVERYTHING,
    found: dict[CallGroup, CallTally] | None = None,
) -> dict[CallGroup, CallTally]:
    """Count the calls that the filter keeps in some sessions, by sender, method and tool; add them to `found`."""
    found = {} if found is None else found
    for session in sessions:
        for call in _calls(cassette, session, kept):
            group = (call.sender, call.method, call.name if call.method in _NAMED else None)
            if group not in found:
                group = group if len(found) < _MOST_GROUPS else _OTHERS
            tally = found.setdefault(group, CallTally())
            tally.calls += 1
            tally.bytes += call.asked + call.answered
            if call.status is None or call.microseconds is None:
                tally.unanswered += 1
            else:
                tally.errors += call.status in FAILED
                tally.durations.append(call.microseconds)
    return found


def _calls(cassette: Cassette, session: int, kept: Filter) -> Iterator[_Call]:
    where, values = kept.sql()
    bounds = {"within": schema.row_ids(session), "most": _PAGE}
    return chain.from_iterable(cassette.pages(_CALLS + where, values, {"m.id": 0}, _call, **bounds))


def figures(found: dict[CallGroup, CallTally]) -> list[Figures]:
    rows = [_figures(group, tally) for group, tally in found.items()]
    return sorted(rows, key=lambda row: (-row.calls, row.sender, row.method or "", row.name or ""))


def _figures(group: CallGroup, tally: CallTally) -> Figures:
    durations = sorted(tally.durations)
    times = (_rank(durations, 50), _rank(durations, 95), durations[-1] if durations else None)
    return Figures(*group, tally.calls, tally.errors, tally.unanswered, *times, tally.bytes)


def _rank(durations: list[int], percent: int) -> int | None:
    """The percentile by nearest rank: the least value that this share does not exceed."""
    return durations[max(0, -(-percent * len(durations) // 100) - 1)] if durations else None


def histogram(found: dict[CallGroup, CallTally]) -> list[tuple[int, int, int]]:
    """Answers by duration: from, to (exclusive), number. In steps of 1, 2, 5, or of 10 for a wide range."""
    # Arrays by group: as Python integers, all durations would take five times the memory.
    durations = [array("q", sorted(tally.durations)) for tally in found.values() if tally.durations]
    if not durations:
        return []
    least, most = min(group[0] for group in durations), max(group[-1] for group in durations)
    for steps in ((1, 2, 5), (1,)):
        edges = [0, *(step * 10**power for power in range(18) for step in steps)]
        first, last = bisect_right(edges, max(least, 0)) - 1, bisect_right(edges, max(most, 0))
        if last - first <= _MOST_BARS:
            break
    ends = edges[first : last + 1]
    below = [0, *(sum(bisect_right(group, end - 1) for group in durations) for end in ends[1:])]
    return [(*span, more - less) for span, less, more in zip(pairwise(ends), below, below[1:], strict=False)]
