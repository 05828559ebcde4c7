"""Derived rows made anew from the frames, by the function that recording uses: the ledger's.

What cannot be made anew is the key of a request in which a value was hidden because it had been seen under a
secret key before: that key was made of the text as it was. Where it differs, the stored key is the better one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from ..wire import match
from ..wire.frames import Frame
from ..wire.ledger import Ledger
from . import writer
from .reader import FRAME_COLUMNS, MESSAGE_TYPES, Cassette, frame_of

# By the number of a frame, the keys of its requests by part.
Keys = Mapping[int, Mapping[int, bytes]]

_FRAMES = f"SELECT id, {FRAME_COLUMNS} FROM frames WHERE session = ? ORDER BY seq"
_WITH_HIDDEN = """FROM messages m JOIN frames f ON f.id = m.frame
    WHERE m.session = ? AND m.key IS NOT NULL AND f.redactions > 0"""


def rebuild_session(db: sqlite3.Connection, session: int) -> None:
    """Make the messages of one session anew, and its facts, within the caller's transaction.

    Keys of requests in which something was hidden stay, if they were made as ours are.
    """
    made_as_ours = "AND (SELECT key_version FROM sessions WHERE id = m.session) = ?"
    sql = f"SELECT m.key, m.frame, m.part {_WITH_HIDDEN} {made_as_ours}"
    keys = db.execute(sql, (session, match.KEY_VERSION)).fetchall()
    db.execute("DELETE FROM messages WHERE session = ?", (session,))
    ledger = Ledger()
    again: list[int] = []
    db.executemany(writer.INSERT_MESSAGE, _rows(db, session, ledger, again))
    writer.forget(db, [(session, seq) for seq in again])
    db.executemany("UPDATE messages SET key = ? WHERE frame = ? AND part = ? AND key IS NOT NULL", keys)
    writer.update_session(db, session, ledger.facts | {"key_version": match.KEY_VERSION})


def _rows(db: sqlite3.Connection, session: int, ledger: Ledger, again: list[int]) -> Iterator[tuple[Any, ...]]:
    """Rows of the messages of a session; `again` gets the requests that had to be made again."""
    # Frames are read one by one while rows go into another table: SQLite allows that, and memory stays small.
    for number, *values in db.execute(_FRAMES, (session,)):
        frame = frame_of(values)
        entries = ledger.derive(frame)
        again += writer.to_be_retried(entries)
        yield from writer.message_rows(number, session, frame, entries)


def stored_frames(db: sqlite3.Connection, session: int, last: int | None = None) -> Iterator[Frame]:
    """Read the frames of a session, all or up to one, within the caller's transaction."""
    sql = _FRAMES.replace("ORDER", "AND seq <= coalesce(?, seq) ORDER")
    for _, *values in db.execute(sql, (session, last)):
        yield frame_of(values)


def hidden_keys(cassette: Cassette, session: int) -> Keys:
    """Keys that cannot be made of their frames again, because something in these was hidden."""
    keys: dict[int, dict[int, bytes]] = {}
    sql = f"SELECT m.seq, m.part, m.key {_WITH_HIDDEN}"
    types = tuple(MESSAGE_TYPES[name] for name in ("seq", "part", "key"))
    for seq, part, key in cassette.expected(cassette.rows(sql, (session,)), types):
        keys.setdefault(seq, {})[part] = key
    return keys
