"""Derived rows of a whole cassette, made again."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_tape.cassette.change import write_access
from mcp_tape.cassette.change.derive import rebuild_session


def rebuild_cassette(path: str, sessions: Iterable[int] | None = None) -> None:
    """Derive the messages of a cassette again, of all sessions or of these, in one transaction."""
    with write_access.connect_in_place(path) as db:
        db.execute("BEGIN IMMEDIATE")
        all_of_them = [number for (number,) in db.execute("SELECT id FROM sessions ORDER BY id")]
        for session in all_of_them if sessions is None else sessions:
            rebuild_session(db, session)
        db.execute("COMMIT")
