"""In which order, and with which ids and tokens, a recording is asked for its answers again: on stdio and over HTTP.

A client numbers its requests as it makes them, so that in any order but the recorded one it uses other ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

_SEED = 15
_OTHER = 7_000_000  # added to every id or token: no request is then, byte for byte, a recorded one
_TIMES = 10  # that a call is made


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its id, the text that a call sends and gets back, and its progress token if it has one."""

    id: int | str
    text: str | None
    token: int | None = None
    method: str = "tools/call"


Order = Callable[[Sequence[Asked]], Sequence[Asked]]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a recording holds."""

    calls: int
    pings: int
    distinct: int  # calls that are made ten times each


@dataclass(frozen=True, slots=True)
class Recording:
    """What was recorded; several patterns ask the same one."""

    name: str
    holds: Callable[[Extent], list[Asked]]


@dataclass(frozen=True, slots=True)
class Pattern:
    """How a recording is asked."""

    name: str
    recording: Recording
    order: Order = lambda calls: calls
    id: Callable[[int], int | str] = int
    tokens_from: int = 0
    pipelined: bool = False

    def asked(self, extent: Extent, count: int) -> list[Asked]:
        """The calls that a client makes, so many at the most."""
        calls = [one for one in self.recording.holds(extent) if one.text is not None]
        return [
            replace(one, id=self.id(number), token=one.token and one.token + self.tokens_from)
            for number, one in enumerate(self.order(calls)[:count], 1)
        ]


TOOLS = Asked("tools", None, method="tools/list")


def _numbered(texts: Sequence[str]) -> list[Asked]:
    return [Asked(number, text) for number, text in enumerate(texts, 1)]


def _texts(count: int) -> list[str]:
    return [f"hello, tape {number}" for number in range(1, count + 1)]


def _shuffled(calls: Sequence[Asked]) -> Sequence[Asked]:
    return Random(_SEED).sample(calls, len(calls))


def _call_by_call(calls: Sequence[Asked]) -> Sequence[Asked]:
    """Each call ten times in a row, where they were recorded in ten rounds."""
    return sorted(calls, key=lambda one: one.text or "")


def _after_pings(extent: Extent) -> list[Asked]:
    pings = [Asked(number, None, method="ping") for number in range(1, extent.pings + 1)]
    return pings + [replace(one, id=number) for number, one in enumerate(CALLS.holds(extent), extent.pings + 1)]


CALLS = Recording("calls", lambda extent: _numbered(_texts(extent.calls)))
_WITH_TOKENS = Recording(
    "tokens", lambda extent: [replace(one, token=number) for number, one in enumerate(CALLS.holds(extent), 1)]
)
_AGAIN = Recording("ten times", lambda extent: _numbered(_texts(extent.distinct) * _TIMES))
_PINGS = Recording("pings", _after_pings)

PATTERNS = (
    Pattern("recorded order", CALLS, pipelined=True),
    Pattern("reversed", CALLS, lambda calls: calls[::-1]),
    Pattern("shuffled", CALLS, _shuffled, pipelined=True),
    Pattern("second half only", CALLS, lambda calls: calls[len(calls) // 2 :]),
    Pattern("every other", CALLS, lambda calls: calls[::2]),
    Pattern("other integer ids", CALLS, id=lambda number: _OTHER + number, pipelined=True),
    Pattern("string ids", CALLS, id=lambda number: f"call-{number}"),
    Pattern("progress tokens", _WITH_TOKENS, tokens_from=_OTHER),
    Pattern("10 identical calls each", _AGAIN, _call_by_call),
    Pattern("pings recorded before", _PINGS),
)
