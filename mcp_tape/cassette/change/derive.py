"""Derived rows made again from frames, by the function that recording uses: the ledger's.

One value cannot be made again: the key of a request with a value that was hidden because it had appeared under a secret
key before. That key was made from the original text. Where keys differ, the stored one is better.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from ...wire import match
from ...wire.frames import Frame
from .. import schema, writer
from ..reader import FRAME_COLUMNS, MESSAGE_TYPES, OF_SESSION, Cassette, frame_of

# By the number of a frame, the keys of its requests by part.
Keys = Mapping[int, Mapping[int, bytes]]

_FRAMES = f"SELECT {FRAME_COLUMNS} FROM frames WHERE {OF_SESSION} ORDER BY id"
_WITH_HIDDEN = f"""FROM messages m JOIN facts f ON f.id = m.frame
    WHERE m.{OF_SESSION} AND +m.key IS NOT NULL AND f.redactions > 0"""


def rebuild_session(db: sqlite3.Connection, session: int) -> None:
    """Derive the messages of one session again, and its facts, within the caller's transaction.

    Keys of redacted requests stay, if this key version made them.
    """
    span = schema.row_ids(session)
    made_as_ours = "AND (SELECT key_version FROM sessions WHERE id = m.session) = ?"
    keys = db.execute(f"SELECT m.key, m.id {_WITH_HIDDEN} {made_as_ours}", (*span, match.KEY_VERSION)).fetchall()
    ledger = writer.derive_from(db, session, 0, stored_frames(db, session))
    db.executemany("UPDATE derived SET key = ? WHERE id = ? AND key IS NOT NULL", keys)
    writer.update_session(db, session, ledger.facts | {"key_version": match.KEY_VERSION})


def is_pending(db: sqlite3.Connection, session: int, seq: int) -> bool:
    """True if the messages of a frame are not derived yet."""
    found = db.execute("SELECT 1 FROM sessions WHERE id = ? AND pending <= ?", (session, seq))
    return found.fetchone() is not None


def stored_frames(db: sqlite3.Connection, session: int, last: int | None = None) -> Iterator[Frame]:
    """Read the frames of a session, all or up to one, within the caller's transaction."""
    first, end = schema.row_ids(session)
    yield from map(frame_of, db.execute(_FRAMES, (first, end if last is None else first + last)))


def hidden_keys(cassette: Cassette, session: int) -> Keys:
    """Keys that cannot be made from their frames again, because the frames were redacted."""
    keys: dict[int, dict[int, bytes]] = {}
    sql = f"SELECT m.seq, m.part, m.key {_WITH_HIDDEN}"
    types = tuple(MESSAGE_TYPES[name] for name in ("seq", "part", "key"))
    for seq, part, key in cassette.expect_types(cassette.rows(sql, schema.row_ids(session)), types):
        keys.setdefault(seq, {})[part] = key
    return keys
