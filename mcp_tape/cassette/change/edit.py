"""A copy of a cassette in which some sessions are replaced by others. Their numbers stay, so that names of them do."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping

from ...errors import CassetteError, TapeError
from .. import file, replace
from ..reader import Cassette, Session

# A session keeps what places it among the others; all else is the new recording's.
_KEPT = ("id", "extends", "run", "note")
_TAKEN = ", ".join(name for name in Session._fields if name not in _KEPT)
_FRAME = "seq, at, sender, channel, kind, head, eol, redactions, text"
_MESSAGE = "part, seq, sender, kind, method, rpc_id, name, status, answers, key, exchange, cue"


New = Mapping[int, tuple[str, int]]  # by session, the cassette that has the one to take its place, and its number
Looks = Mapping[int, str]  # by session, what it holds


class ChangedError(TapeError):
    """A session is not what it was when it was to be replaced."""


def look(cassette: Cassette, session: int) -> str:
    """A digest of all that a session holds."""
    digest = hashlib.sha256(repr(cassette.session(session)).encode())
    for frame in cassette.frames(session):
        digest.update(repr(frame).encode())
    return digest.hexdigest()


def expect(cassette: Cassette, looks: Looks, name: str) -> None:
    """Refuse a cassette whose sessions are not those that are known."""
    there = {session.id for session in cassette.each_session()}
    gone = [f"session {number} is gone" for number in looks if number not in there]
    other = [
        f"session {number} is not what it was"
        for number, known in looks.items()
        if number in there and look(cassette, number) != known
    ]
    if gone or other:
        raise ChangedError(f"{name} has changed since it was verified: {', '.join([*gone, *other])}")


def note(path: str, looks: Looks) -> None:
    """Write into a new recording which sessions it has anew, and what they were."""
    with contextlib.closing(file.connect(path)) as db:
        db.execute("CREATE TABLE verified (session INTEGER PRIMARY KEY, look TEXT NOT NULL)")
        db.executemany("INSERT INTO verified VALUES (?, ?)", looks.items())


def noted(cassette: Cassette) -> dict[int, str]:
    """What was noted on a recording; nothing where it is no new one."""
    tables = cassette.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'verified'")
    return dict(cassette.rows("SELECT session, look FROM verified ORDER BY session")) if tables else {}


@contextlib.contextmanager
def beside(path: str, new: New, otherwise: str, looks: Mapping[int, str] = {}, to: str | None = None) -> Iterator[str]:
    """The copy, beside the cassette or what it is put `to`. `otherwise` is what an error begins with."""
    with Cassette(path):
        pass  # opening it tidies up what a killed recorder left
    with replace.beside(to or path) as part:
        before = file.look(path)
        _make(path, part, new, looks)
        if file.look(path) != before:
            raise CassetteError(f"{otherwise}: somebody else has changed {path} meanwhile")
        yield part


def _make(path: str, part: str, new: New, looks: Mapping[int, str]) -> None:
    """Write the copy to `part`. `looks`: what must not have changed."""
    try:
        replace.copy(path, part)
        if looks:
            with Cassette(part) as copy:
                expect(copy, looks, os.path.relpath(path))
        with contextlib.closing(file.connect(part)) as db:
            db.execute("PRAGMA trusted_schema = OFF")
            for session, (source, number) in new.items():
                _swap(db, session, source, number)
            db.execute("VACUUM")
    except sqlite3.Error as error:
        raise CassetteError(f"{path} stays as it was: {error}") from None


def _swap(db: sqlite3.Connection, session: int, source: str, number: int) -> None:
    with attached(db, source):
        take_over(db, session, number)


@contextlib.contextmanager
def attached(db: sqlite3.Connection, source: str) -> Iterator[None]:
    """A transaction in which another cassette is at hand as `new`."""
    file.attach_to_read(db, source)
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
    shift = _shift(db, number)
    db.execute("DELETE FROM messages WHERE session = ?", (session,))
    db.execute("DELETE FROM frames WHERE session = ?", (session,))
    db.execute(
        f"UPDATE sessions SET ({_TAKEN}) = (SELECT {_TAKEN} FROM new.sessions WHERE id = ?) WHERE id = ?",
        (number, session),
    )
    note = "UPDATE sessions SET note = coalesce((SELECT note FROM new.sessions WHERE id = ?), note) WHERE id = ?"
    db.execute(note, (number, session))
    db.execute(
        f"INSERT INTO frames (id, session, {_FRAME}) SELECT id + ?, ?, {_FRAME} FROM new.frames WHERE session = ?",
        (shift, session, number),
    )
    db.execute(
        f"""INSERT INTO messages (frame, session, {_MESSAGE})
            SELECT frame + ?, ?, {_MESSAGE} FROM new.messages WHERE session = ?""",
        (shift, session, number),
    )


def amend(db: sqlite3.Connection, session: int, last: int) -> list[int]:
    """Make the frames of a session those that `new` has of it, each in its place, up to the last; their messages go.

    More may be recorded behind them meanwhile, so none gets another number. Gives back which of the changed ones hold a
    request that waits for its answer: the recorder will look for it as it was, so that the caller must not let it be.
    """
    values = {"session": session, "last": last}
    place = "session = :session AND seq <= :last AND seq NOT IN "
    new = "SELECT {} FROM new.frames n WHERE n.session = :session AND n.seq = frames.seq"
    same = f"SELECT seq FROM frames WHERE session = :session AND ({_FRAME}) IS ({new.format(_FRAME)})"
    unanswered = """kind = 'request' AND NOT EXISTS (SELECT 1 FROM messages a WHERE a.session = q.session
        AND a.answers = q.seq AND (a.rpc_id = q.rpc_id OR a.status = 'retry'))"""
    waiting = db.execute(f"SELECT DISTINCT seq FROM messages q WHERE {place} ({same}) AND {unanswered}", values)
    found = [seq for (seq,) in waiting]
    db.execute(f"DELETE FROM messages WHERE {place} ({same})", values)
    db.execute(f"DELETE FROM frames WHERE {place} (SELECT seq FROM new.frames WHERE session = :session)", values)
    db.execute(f"UPDATE frames SET ({_FRAME}) = ({new.format(_FRAME)}) WHERE {place} ({same})", values)
    return found


def _shift(db: sqlite3.Connection, number: int) -> int:
    """How far the new frames' numbers move, to stand behind all others, also those that they replace.

    Who reads the frames by their numbers meanwhile does not miss them.
    """
    sql = (
        "SELECT coalesce((SELECT max(id) FROM frames), 0) + 1 - coalesce(min(id), 1) FROM new.frames WHERE session = ?"
    )
    row = db.execute(sql, (number,)).fetchone()
    file.expect_types(row, ((int,),), "frames")  # else beyond SQLite's numbers
    return int(row[0])
