"""Whether two recordings have the same content, so that a new one need not replace the old one.

Times, numbers, the run and the recorder are ignored. Everything else counts, verbatim: a newly minted id is a change.
Frames are compared in order within each channel, because channels are not ordered among each other, and neither are the
ends that each side reports. Sessions are compared in order within each server: two servers that a client starts at once
may begin in either order.
"""

from __future__ import annotations

import hashlib
from typing import Any

from .. import schema
from ..reader import Cassette, Session

_ASIDE = {"id", "started_at", "ended_at", "recorder", "run", "extends", "key_version"}
_FACTS = [name for name in Session._fields if name not in _ASIDE]


def has_same_content(new: str, old: str, label: str | None = None) -> bool:
    """Return whether two cassettes have the same content; with a label, only that server's sessions of the old one."""
    if not schema.is_there(old):
        return False
    with Cassette(new) as one, Cassette(old, label) as other:
        pairs = [sorted(cassette.sessions(), key=_server) for cassette in (one, other)]
        said = [[(facts(session), _extended_index(session, sessions)) for session in sessions] for sessions in pairs]
        return said[0] == said[1] and all(
            _streams(one, first.id) == _streams(other, second.id) for first, second in zip(*pairs, strict=True)
        )


def _server(session: Session) -> tuple[bool, str]:
    """A sort key that keeps the sessions of each server in order."""
    return session.label is not None, session.label or ""


def facts(session: Session) -> list[Any]:
    """The facts of a session that count, besides its frames."""
    return [getattr(session, name) for name in _FACTS]


def _extended_index(session: Session, sessions: list[Session]) -> int | None:
    """The index of the session that this one extends."""
    return next((place for place, other in enumerate(sessions) if other.id == session.extends), None)


def _streams(cassette: Cassette, session: int) -> dict[tuple[str, str | None], str]:
    """Digests of the frames of a session, by channel."""
    found: dict[tuple[str, str | None], Any] = {}
    for frame in cassette.frames(session):
        stream = frame.channel, frame.sender if frame.kind == "control" else None
        said = frame.sender, frame.kind, frame.text, frame.eol, frame.head
        found.setdefault(stream, hashlib.sha256()).update(repr(said).encode())
    return {stream: digest.hexdigest() for stream, digest in found.items()}
