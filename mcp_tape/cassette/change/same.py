"""Whether two recordings say the same: then a new one need not take the old one's place.

Times, numbers and the run do not count, nor who recorded it. All else does, verbatim: also an id that a server has made
up anew is a change. Frames are compared in their order on each channel, as two channels are not ordered to each other;
nor are the ends that each side reports. The sessions of each server are compared in their order: two servers that a
client connects to at once may begin in either.
"""

from __future__ import annotations

import hashlib
from typing import Any

from .. import schema
from ..reader import Cassette, Session

_ASIDE = {"id", "started_at", "ended_at", "recorder", "run", "extends", "key_version"}
_FACTS = [name for name in Session._fields if name not in _ASIDE]


def says_the_same(new: str, old: str, label: str | None = None) -> bool:
    """Return whether a new cassette says what an old one does; with a label, what that does of one server."""
    if not schema.is_there(old):
        return False
    with Cassette(new) as one, Cassette(old, label) as other:
        pairs = [sorted(cassette.sessions(), key=_server) for cassette in (one, other)]
        said = [[(facts(session), _extended(session, sessions)) for session in sessions] for sessions in pairs]
        return said[0] == said[1] and all(
            _streams(one, first.id) == _streams(other, second.id) for first, second in zip(*pairs, strict=True)
        )


def _server(session: Session) -> tuple[bool, str]:
    """What sessions are sorted by, so that those of a server stay in their order."""
    return session.label is not None, session.label or ""


def facts(session: Session) -> list[Any]:
    """All that counts of a session beside its frames."""
    return [getattr(session, name) for name in _FACTS]


def _extended(session: Session, sessions: list[Session]) -> int | None:
    """The place of the session that one extends."""
    return next((place for place, other in enumerate(sessions) if other.id == session.extends), None)


def _streams(cassette: Cassette, session: int) -> dict[tuple[str, str | None], str]:
    """Digests of the frames of a session, by channel."""
    found: dict[tuple[str, str | None], Any] = {}
    for frame in cassette.frames(session):
        stream = frame.channel, frame.sender if frame.kind == "control" else None
        said = frame.sender, frame.kind, frame.text, frame.eol, frame.head
        found.setdefault(stream, hashlib.sha256()).update(repr(said).encode())
    return {stream: digest.hexdigest() for stream, digest in found.items()}
