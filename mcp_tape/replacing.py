"""A copy of a cassette in which some sessions are replaced by others. Their numbers stay, so that names of them do."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping

from . import database
from .cassette import Session
from .errors import CassetteError

# A session keeps what places it among the others; all else is the new recording's.
_KEPT = ("id", "extends", "run", "note")
_TAKEN = ", ".join(name for name in Session._fields if name not in _KEPT)
_FRAME = "seq, at, sender, channel, kind, head, eol, redactions, text"
_MESSAGE = "part, seq, sender, kind, method, rpc_id, name, status, answers, key, exchange, cue"


def replace(path: str, part: str, new: Mapping[int, tuple[str, int]]) -> None:
    """Write the copy to `part`. `new`: by session, the cassette that has the one to take its place, and its number."""
    try:
        _copy(path, part)
        db = database.connect(part)
        with contextlib.closing(db):
            db.execute("PRAGMA trusted_schema = OFF")
            for session, (source, number) in new.items():
                _swap(db, session, source, number)
            db.execute("VACUUM")
    except sqlite3.Error as error:
        raise CassetteError(f"{path} stays as it was: {error}") from None
    shutil.copymode(path, part)
    with open(part, "rb") as file:
        os.fsync(file.fileno())


def _copy(path: str, part: str) -> None:
    """Whole, even if somebody is adding to it."""
    source, target = sqlite3.connect(database.read_only_uri(path), uri=True), sqlite3.connect(part)
    with contextlib.closing(source), contextlib.closing(target):
        source.backup(target)


def _swap(db: sqlite3.Connection, session: int, source: str, number: int) -> None:
    with attached(db, source):
        take_over(db, session, number)


@contextlib.contextmanager
def attached(db: sqlite3.Connection, source: str) -> Iterator[None]:
    """A transaction in which another cassette is at hand as `new`."""
    db.execute("ATTACH ? AS new", (source,))
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
        db.execute("DETACH new")


def take_over(db: sqlite3.Connection, session: int, number: int) -> None:
    """Put a session of `new` in the place of one."""
    db.execute("DELETE FROM messages WHERE session = ?", (session,))
    db.execute("DELETE FROM frames WHERE session = ?", (session,))
    db.execute(
        f"UPDATE sessions SET ({_TAKEN}) = (SELECT {_TAKEN} FROM new.sessions WHERE id = ?) WHERE id = ?",
        (number, session),
    )
    note = "UPDATE sessions SET note = coalesce((SELECT note FROM new.sessions WHERE id = ?), note) WHERE id = ?"
    db.execute(note, (number, session))
    shift = _shift(db, number)
    db.execute(
        f"INSERT INTO frames (id, session, {_FRAME}) SELECT id + ?, ?, {_FRAME} FROM new.frames WHERE session = ?",
        (shift, session, number),
    )
    db.execute(
        f"""INSERT INTO messages (frame, session, {_MESSAGE})
            SELECT frame + ?, ?, {_MESSAGE} FROM new.messages WHERE session = ?""",
        (shift, session, number),
    )


def _shift(db: sqlite3.Connection, number: int) -> int:
    """How far the new frames' numbers move, to stand behind all others."""
    sql = (
        "SELECT coalesce((SELECT max(id) FROM frames), 0) + 1 - coalesce(min(id), 1) FROM new.frames WHERE session = ?"
    )
    return int(db.execute(sql, (number,)).fetchone()[0])
