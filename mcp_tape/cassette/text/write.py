"""Sessions as JSON lines: one that describes the session, then one per frame, with its text verbatim in a string."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any

import orjson

from ...wire import match
from ...wire.frames import Frame, parse
from ..change.derive import Keys, hidden_keys
from ..change.same import facts
from ..reader import Cassette, Session
from .read import FORMAT, fingerprint
from .safe_lines import json_line


def write(path: str, text: str, before: str | None = None) -> None:
    """Write a cassette as a new text file. `before`: a text whose times are kept where the rest is unchanged."""
    with ExitStack() as stack:
        cassette = stack.enter_context(Cassette(path))
        kept = KeptTimes(stack.enter_context(Cassette(before))) if before else None
        out = stack.enter_context(open(text, "xb"))
        for place, found in enumerate(cassette.each_session()):
            facts, timed = kept.match_session(cassette, found, place) if kept else (found, iter)
            out.write(header(facts))
            out.writelines(lines(timed(cassette.frames(found.id)), hidden_keys(cassette, found.id)))


def lines(frames: Iterable[Frame], keys: Keys | None = None) -> Iterator[bytes]:
    for frame in frames:
        yield json_line(_row(frame) | _keys(frame, keys))


def header(session: Session) -> bytes:
    """The line of a session. It has no sender, so a search for one side's frames skips it."""
    row = {"kind": "session", "sender": None, "format": FORMAT, "session": session.id}
    rest = session._asdict() | {"target": _target(session.target)}
    del rest["id"]
    return json_line(row | rest)


def _target(text: str) -> Any:
    """A target as a value, which is easier to edit, if that gives the same text again."""
    try:
        value = orjson.loads(text)
        return value if isinstance(value, (dict, list)) and orjson.dumps(value).decode() == text else text
    except ValueError:
        return text


def _row(frame: Frame) -> dict[str, Any]:
    seq, at, sender, channel, kind, text, eol, head, redactions = frame
    row: dict[str, Any] = {"seq": seq, "at": at, "sender": sender, "channel": channel, "kind": kind}
    row["eol"] = eol.decode("latin-1")
    if head is not None:
        row |= _data(head, "head", "head_base64")
    if redactions:
        row["redactions"] = redactions
    return row | _data(text, "text", "base64")


def _data(data: bytes, as_text: str, as_base64: str) -> dict[str, str]:
    try:
        return {as_text: data.decode()}
    except UnicodeDecodeError:
        return {as_base64: b64encode(data).decode()}


def _keys(frame: Frame, keys: Keys | None) -> dict[str, Any]:
    """The stored keys of a frame that differ from those made from its text."""
    stored = keys.get(frame.seq) if keys else None
    if not stored:
        return {}
    messages = parse(frame.text)[1]
    made = {n: match.message_key(m, frame.text, n) for n, m in enumerate(messages) if m.kind == "request"}
    others = {str(part): key.hex() for part, key in stored.items() if part in made and made[part] != key}
    return {"keys": {"of": fingerprint(frame.text)} | others} if others else {}


# -- times of an older text, kept where the rest is unchanged: a line of a new recording then equals the old one
#
# A session with unchanged content keeps everything that is ignored in the comparison, including its header's times. In
# a changed session, unchanged frames keep their times; frames between them keep their distance to the previous frame,
# as far as there is room. So the times of a session never decrease.

_MOST = 4_000_000  # comparisons of frames that have moved

Look = tuple[str, str, str, bytes, bytes, bytes | None]
TimedSession = tuple[Session, Callable[[Iterator[Frame]], Iterator[Frame]]]


class KeptTimes:
    """The sessions of an older text, each for the one at its place in the new text."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self._sessions = cassette.sessions()

    def match_session(self, new: Cassette, session: Session, place: int) -> TimedSession:
        """Return the facts of a session, and a function that sets the times of its frames."""
        if place >= len(self._sessions):
            return session, lambda frames: frames
        old = self._sessions[place]
        before = [(_look(frame), frame.at) for frame in self._cassette.frames(old.id)]
        now = [_look(frame) for frame in new.frames(session.id)]
        if [look for look, _ in before] == now and facts(old) == facts(session):
            session = old._replace(id=session.id, extends=session.extends)
        places = _places([look for look, _ in before], now)
        return session, lambda frames: _keep_times(
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


def _keep_times(frames: Iterator[Frame], kept: dict[int, int], count: int) -> Iterator[Frame]:
    """Give unchanged frames their old times, and those between them times that never decrease."""
    until, limits = sys.maxsize, [0] * count
    for place in reversed(range(count)):
        limits[place] = until = kept.get(place, until)
    at = was = 0
    for frame, (place, limit) in zip(frames, enumerate(limits), strict=True):
        step, was = max(0, frame.at - was), frame.at
        at = kept.get(place, min(at + step, max(at, limit)))
        yield frame._replace(at=at)
