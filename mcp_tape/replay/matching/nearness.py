"""How similar two JSON values are, from 0 to 1: the same for the same values, in a time that is bounded.

Objects and lists are as similar as their members are on average, texts as far as they have the same pairs of
characters (https://en.wikipedia.org/wiki/Dice-S%C3%B8rensen_coefficient), numbers by their ratio. What is not equal is
less than 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import Any

from ...wire import protocol

_MOST = 2_000  # leaves that are looked at closely; those behind them are equal or not
_LONG = 8_192  # characters of a text that are, half of them at its start, half at its end
_ALMOST = 0.999
_ABSENT = object()

Read = Callable[[Any, Any, str], tuple[Any, Any]]  # what is to be compared of two leaves under a key


def arguments(method: str, asked: Any) -> Any:
    """Return the part of a request whose similarity counts: not the name of a tool or prompt, which is the same."""
    if isinstance(asked, dict) and protocol.is_addressed(method):
        return {key: value for key, value in asked.items() if key != "name"}
    return asked


def similarity(recorded: Any, live: Any, read: Read = lambda one, other, key: (one, other)) -> float:
    return _Comparison(read).of(recorded, live, "")


class _Comparison:
    def __init__(self, read: Read) -> None:
        self._read = read
        self._left = _MOST

    def of(self, one: Any, other: Any, key: str) -> float:
        if isinstance(one, dict) and isinstance(other, dict):
            names = sorted({*one, *other})
            return self._mean([(one.get(name, _ABSENT), other.get(name, _ABSENT), name) for name in names])
        if isinstance(one, list) and isinstance(other, list):
            return self._mean([(*pair, key) for pair in zip_longest(one, other, fillvalue=_ABSENT)])
        self._left -= 1
        if one is _ABSENT or other is _ABSENT:
            return 0.0
        if not isinstance(one, dict | list) and not isinstance(other, dict | list):
            one, other = self._read(one, other, key)
        if _equal(one, other):
            return 1.0
        return min(_leaves(one, other), _ALMOST) if self._left > 0 else 0.0

    def _mean(self, pairs: list[tuple[Any, Any, str]]) -> float:
        if not pairs:
            return 1.0
        found = sum(self.of(*pair) for pair in pairs) / len(pairs)
        return found if found == 1.0 else min(found, _ALMOST)


def _equal(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _leaves(one: Any, other: Any) -> float:
    if isinstance(one, str) and isinstance(other, str):
        return _texts(one, other)
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in (one, other)):
        return 0.0
    try:
        return float(max(0, 1 - abs(one - other) / max(abs(one), abs(other))))
    except OverflowError:  # an integer that no float comes near
        return 0.0


def _texts(one: str, other: str) -> float:
    ours, theirs = _pairs(one), _pairs(other)
    found = 2 * sum((ours & theirs).values()) / (sum(ours.values()) + sum(theirs.values()))
    shorter, longer = sorted((len(one), len(other)))
    return found * shorter / longer if longer > _LONG else found


@lru_cache(256)
def _pairs(text: str) -> Counter[str]:
    """The pairs of characters in a text, and how often each occurs; its ends count as characters."""
    if len(text) > _LONG:
        text = text[: _LONG // 2] + "\0" + text[-_LONG // 2 :]
    framed = f"\x01{text}\x02"
    return Counter(map("".join, pairwise(framed)))
