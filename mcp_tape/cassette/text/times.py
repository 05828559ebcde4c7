"""Times of an older text, kept where the rest is unchanged: then a line of a new recording equals the old one.

A session with unchanged content keeps everything that is ignored in the comparison, including its header's times. In a
changed session, unchanged frames keep their times; frames between them keep their distance to the previous frame, as
far as there is room. So the times of a session never decrease.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import takewhile

from ...wire.frames import Frame
from ..change.same import facts
from ..reader import Cassette, Session

_MOST = 4_000_000  # comparisons of frames that have moved

Look = tuple[str, str, str, bytes, bytes, bytes | None]
Pair = tuple[Session, Callable[[Iterator[Frame]], Iterator[Frame]]]


class Kept:
    """The sessions of an older text, each for the one at its place in the new text."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self._sessions = cassette.sessions()

    def of(self, new: Cassette, session: Session, place: int) -> Pair:
        """Return the facts of a session, and a function that sets the times of its frames."""
        if place >= len(self._sessions):
            return session, lambda frames: frames
        old = self._sessions[place]
        before = [(_look(frame), frame.at) for frame in self._cassette.frames(old.id)]
        now = [_look(frame) for frame in new.frames(session.id)]
        if [look for look, _ in before] == now and facts(old) == facts(session):
            session = old._replace(id=session.id, extends=session.extends)
        places = _places([look for look, _ in before], now)
        return session, lambda frames: _timed(
            frames, {place: before[was][1] for place, was in places.items()}, len(now)
        )


def _look(frame: Frame) -> Look:
    return frame.sender, frame.channel, frame.kind, frame.text, frame.eol, frame.head


def _places(before: list[Look], now: list[Look]) -> dict[int, int]:
    """Return, by the place of each unchanged frame, its old place."""
    first = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))
    left, right = before[first:], now[first:]
    last = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left[::-1], right[::-1], strict=False)))
    found = {place: place for place in range(first)}
    found |= {len(now) - place: len(before) - place for place in range(1, last + 1)}
    left, right = left[: len(left) - last], right[: len(right) - last]
    if len(left) * len(right) <= _MOST:
        for block in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
            found |= {first + block.b + step: first + block.a + step for step in range(block.size)}
    return found


def _timed(frames: Iterator[Frame], kept: dict[int, int], count: int) -> Iterator[Frame]:
    """Give unchanged frames their old times, and those between them times that never decrease."""
    until, limits = sys.maxsize, [0] * count
    for place in reversed(range(count)):
        limits[place] = until = kept.get(place, until)
    at = was = 0
    for frame, (place, limit) in zip(frames, enumerate(limits), strict=True):
        step, was = max(0, frame.at - was), frame.at
        at = kept.get(place, min(at + step, max(at, limit)))
        yield frame._replace(at=at)
