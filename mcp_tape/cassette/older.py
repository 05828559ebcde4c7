"""Cassettes of schema 1, read as those of today: what was recorded once is read for ever.

There, the messages of a batch shared the number of their frame, and every row said which session it belongs to. A
cassette is never changed where it stands: it is made anew in a file beside it, or in a temporary one to read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from tempfile import TemporaryDirectory
from typing import Any

from . import file, schema

_SESSION = """id, started_at, ended_at, transport, target, protocol_version, client_name, client_version, server_name,
    server_version, exit_code, recorder, note, extends, run, incomplete, key_version"""
_ID = f"(session << {schema.BITS}) + seq"
# Sessions in which rows cannot keep their numbers: several messages share one, or it is out of bounds.
_NUMBERED_ANEW = f"""SELECT DISTINCT session FROM old.messages WHERE part <> 0 AND status IS NOT 'retry'
    UNION SELECT DISTINCT session FROM old.frames WHERE kind = 'batch' OR seq NOT BETWEEN 1 AND {schema.MOST}"""
_FACTS = f"""INSERT INTO facts (id, elapsed, sender, channel, kind, eol, redactions, head, text, data)
    SELECT {_ID}, at, sender, channel, nullif(kind, 'message'), eol, redactions, head,
    CASE typeof(text) WHEN 'blob' THEN NULL ELSE text END, CASE typeof(text) WHEN 'blob' THEN text END
    FROM old.frames WHERE session = ? ORDER BY seq"""
_DERIVED = f"""INSERT INTO derived (id, part, method, rpc_id, name, status, answers, exchange, cue, key)
    SELECT {_ID}, 0, method, rpc_id, name, CASE WHEN kind = 'request' AND seq IN again THEN 'retry' ELSE status END,
    CASE WHEN sender = 'server' AND answers IS exchange AND answers IS cue THEN NULL ELSE answers END,
    CASE WHEN sender = 'client' AND kind = 'request' AND exchange IS seq THEN NULL
        WHEN sender = 'client' OR cue IS NULL THEN exchange
        WHEN exchange IS cue THEN NULL ELSE coalesce(exchange, 0) END,
    CASE WHEN sender = 'server' THEN coalesce(cue, -1) END, key
    FROM old.messages WHERE session = ? AND status IS NOT 'retry' ORDER BY seq"""
_AGAIN = "WITH again AS (SELECT answers FROM old.messages WHERE session = ? AND status = 'retry') "
_FRAMES = """SELECT seq, at, sender, channel, kind, CAST(coalesce(text, '') AS BLOB), CAST(eol AS BLOB),
    CAST(head AS BLOB), redactions FROM old.frames WHERE session = ? ORDER BY seq"""
_KEYS = "SELECT seq, part, key FROM old.messages WHERE session = ? AND key IS NOT NULL"


def copied(path: str, name: str) -> TemporaryDirectory[str]:
    """Make a copy with today's schema, to read. Errors call it by `name`."""
    with closing(file.connect_to_read(path)) as db:
        file.guard(db)
        file.check(db, name)
    return in_a_directory(lambda to: convert(path, to))


def in_a_directory(make: Callable[[str], None]) -> TemporaryDirectory[str]:
    """Make a file to read: `cassette.db` in a directory of its own."""
    place = TemporaryDirectory(prefix="mcp-tape-")
    try:
        make(os.path.join(place.name, "cassette.db"))
    except BaseException:
        place.cleanup()
        raise
    return place


def convert(path: str, to: str) -> None:
    """Write a cassette of today's schema with all that is on an older one. Nobody may know the new file yet."""
    with closing(file.connect(to)) as db:
        file.make_schema(db)
        file.attach_to_read(db, path, "old")
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA main.journal_mode = OFF")  # not that of the old one, which may be in use
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN")
        _expect_bounds(db)
        db.execute(f"INSERT INTO sessions ({_SESSION}) SELECT {_SESSION} FROM old.sessions")
        anew = {session for (session,) in db.execute(_NUMBERED_ANEW)}
        for (session,) in db.execute("SELECT id FROM old.sessions ORDER BY id").fetchall():
            if session in anew:
                _number_anew(db, session)
            else:
                db.execute(_FACTS, (session,))
                db.execute(_AGAIN + _DERIVED, (session, session))
        db.execute("COMMIT")


def _expect_bounds(db: sqlite3.Connection) -> None:
    """Refuse sessions of a stranger whose numbers leave no room for those of their rows."""
    if db.execute(f"SELECT 1 FROM old.sessions WHERE abs(id) > {schema.MOST_SESSIONS} LIMIT 1").fetchone():
        raise file.OddRowError("sessions")


def _number_anew(db: sqlite3.Connection, session: int) -> None:
    """Convert a session with batches: its messages get numbers of their own, and all that names them is made anew."""
    from ..wire.ledger import Ledger  # only where there are batches
    from . import batch, writer

    keys = {(seq, part): key for seq, part, key in db.execute(_KEYS, (session,))}
    again: list[int] = []

    def rows() -> Iterator[tuple[Any, ...]]:
        ledger = Ledger()
        for was, frame in _numbered(db, session):
            entries = ledger.derive(frame)
            again.extend(batch.to_be_retried(entries))
            kept = [entry._replace(key=keys.get((was, part))) for part, entry in enumerate(entries)]
            yield from batch.message_rows(session, frame, kept)

    batch.insert_frames(db, (batch.frame_row(session, frame) for _, frame in _numbered(db, session)))
    batch.insert_messages(db, rows())
    writer.forget(db, [(session, seq) for seq in again])


def _numbered(db: sqlite3.Connection, session: int) -> Iterator[tuple[int, Any]]:
    """Frames with their new numbers, each behind the one that it had."""
    from ..wire import frames

    numbers = frames.Numbers()
    for values in db.execute(_FRAMES, (session,)):
        frame = frames.Frame(*values)
        messages = frames.parse(frame.text)[1] if frame.kind in ("message", "batch") else []
        yield frame.seq, frame._replace(seq=numbers.take(frame.sender, frame.channel, len(messages)))
