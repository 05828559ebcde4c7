"""Sessions of a cassette replaced by others. They keep their numbers, so references to them stay valid.

Either all at once, in a copy that replaces the cassette (`replace_sessions`) or waits beside it for a review
(`propose`); or one session in place, in a transaction (`put_back`), even while the cassette is in use.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from ...errors import CassetteError, TapeError
from ...wire.frames import Frame
from .. import batch, file, replace, schema, writer
from ..functions import answer_of
from ..reader import OF_SESSION, Cassette, Session
from . import derive, write_access

# A session keeps its place among the others; everything else comes from the new recording.
_KEPT = ("id", "extends", "run", "label", "note")
_TAKEN = ", ".join(name for name in Session._fields if name not in _KEPT)
_NOTED = "CREATE TABLE verified (session INTEGER PRIMARY KEY, look TEXT NOT NULL)"
_WAITS = "the request in frame {} waits for its answer; edit it when that has come"

Replacements = Mapping[int, tuple[str, int]]  # by session, the cassette with its replacement, and the number there
Digests = Mapping[int, str]  # by session


class ChangedError(TapeError):
    """A session changed before it could be replaced."""


def digest(frames: Iterable[Frame], of: str = "") -> str:
    """A digest of frames, and of a text `of` their session."""
    found = hashlib.sha256(of.encode())
    for frame in frames:
        found.update(repr(frame).encode())
    return found.hexdigest()


def session_digest(cassette: Cassette, session: int) -> str:
    return digest(cassette.frames(session), repr(cassette.session(session)))


def count_until(cassette: Cassette, session: int, last: int) -> int:
    sql = f"SELECT count(*) FROM facts WHERE {OF_SESSION}"
    return int(cassette.rows(sql, (schema.row_id(session, 0), schema.row_id(session, last)))[0][0])


def expect(cassette: Cassette, digests: Digests, name: str) -> None:
    """Refuse a cassette whose sessions have other digests."""
    there = {session.id for session in cassette.each_session()}
    gone = [f"session {number} is gone" for number in digests if number not in there]
    other = [
        f"session {number} is different"
        for number, known in digests.items()
        if number in there and session_digest(cassette, number) != known
    ]
    if gone or other:
        raise ChangedError(f"{name} has changed since it was verified: {', '.join([*gone, *other])}")


def replace_sessions(path: str, new: Replacements, otherwise: str, digests: Digests | None = None) -> None:
    """Replace sessions that still have these digests. An error begins with `otherwise`."""
    path = os.path.realpath(path)
    with replace.beside(path) as part:
        _make(path, part.file, new, otherwise, digests)
        part.put(keep_times=True)


def propose(path: str, new: Replacements, otherwise: str, to: str) -> None:
    """Put the changed cassette beside the old one, with the digests of the sessions that it replaces."""
    with Cassette(path) as cassette:
        digests = {number: session_digest(cassette, number) for number in new}
    # In the directory of `to`, even if the cassette is a link to elsewhere.
    with replace.beside(path, follow=False) as part:
        _make(path, part.file, new, otherwise)
        with contextlib.closing(file.connect(part.file)) as db:
            db.execute("DROP TABLE IF EXISTS verified")  # of a proposal that was verified itself
            db.execute(_NOTED)
            db.executemany("INSERT INTO verified VALUES (?, ?)", digests.items())
        part.put(to)  # a link with that name is not followed: it is ours


def proposed_digests(new: Cassette) -> dict[int, str]:
    """The digests of the sessions that a proposal replaces; empty if it is not a proposal."""
    noted = new.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'verified'")
    return dict(new.rows("SELECT session, look FROM verified ORDER BY session")) if noted else {}


def withdraw(new: str) -> None:
    """Remove a proposal, if there is one."""
    replace.remove(new)


def _make(path: str, part: str, new: Replacements, otherwise: str, digests: Digests | None = None) -> None:
    """Write a copy with other sessions. Fail if the cassette changes meanwhile, because that change would be lost."""
    with Cassette(path):
        pass  # opening removes the remains of a killed recorder
    before = file.file_state(path)
    try:
        replace.copy(path, part)
        if digests:
            with Cassette(part) as copy:
                expect(copy, digests, os.path.relpath(path))
        with write_access.connect_private(part) as db:
            for session, (source, number) in new.items():
                with attach(db, source):
                    take_over(db, session, number)
    except sqlite3.Error as error:
        raise CassetteError(f"{path} was not changed: {error}") from None
    if file.file_state(path) != before:
        raise CassetteError(f"{otherwise}: another process has changed {path} meanwhile")


def put_back(path: str, session: int, new: str, known: str, last: int | None, unfounded: Iterable[str]) -> None:
    """Replace a session by the one in `new`, if it still has this digest.

    `last`: its last frame when it was read, if it is still being recorded; later frames stay. `unfounded`: facts that
    its frames no longer state.
    """
    with write_access.connect_in_place(path) as db, attach(db, new):
        if digest(derive.stored_frames(db, session, last)) != known:
            raise CassetteError(f"{path} was not changed: another process has changed session {session} meanwhile")
        if last is None:
            take_over(db, session, session)
            return
        waiting = _amend(db, session, last)
        if waiting:
            raise CassetteError(f"{path} was not changed: {_WAITS.format(waiting[0])}")
        if unfounded:
            writer.update_session(db, session, dict.fromkeys(unfounded))
        derive.rebuild_session(db, session)


@contextlib.contextmanager
def attach(db: sqlite3.Connection, source: str) -> Iterator[None]:
    """Attach another cassette as `new`, for one transaction.

    https://www.sqlite.org/lang_attach.html
    """
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
    """Replace a session by one of `new`."""
    for table in ("derived", "facts"):
        db.execute(f"DELETE FROM {table} WHERE {OF_SESSION}", schema.row_ids(session))
    db.execute(
        f"UPDATE sessions SET ({_TAKEN}) = (SELECT {_TAKEN} FROM new.sessions WHERE id = ?) WHERE id = ?",
        (number, session),
    )
    note = "UPDATE sessions SET note = coalesce((SELECT note FROM new.sessions WHERE id = ?), note) WHERE id = ?"
    db.execute(note, (number, session))
    shift = schema.row_id(session - number, 0)
    for table, columns in ("facts", batch.FACTS), ("derived", batch.DERIVED):
        sql = f"INSERT INTO {table} (id, {columns}) SELECT id + ?, {columns} FROM new.{table} WHERE {OF_SESSION}"
        db.execute(sql, (shift, *schema.row_ids(number)))


def _amend(db: sqlite3.Connection, session: int, last: int) -> list[int]:
    """Replace the frames of a session by those in `new`, each in its place, up to the last; delete their messages.

    More frames may be recorded meanwhile, so none gets another number. Return the changed frames with a request that
    waits for its answer: the recorder will look for the original, so the caller must refuse.
    """
    values = {"first": schema.row_id(session, 0), "last": schema.row_id(session, last)}
    place = "id BETWEEN :first AND :last AND id NOT IN "
    new = f"SELECT {batch.FACTS} FROM new.facts n WHERE n.id = facts.id"
    same = f"SELECT id FROM facts WHERE id BETWEEN :first AND :last AND ({batch.FACTS}) IS ({new})"
    waiting = f"""SELECT DISTINCT q.seq FROM messages q {answer_of("q")}
        WHERE q.id BETWEEN :first AND :last AND q.frame NOT IN ({same})
        AND q.kind = 'request' AND q.status IS NULL AND a.id IS NULL"""
    found = [seq for (seq,) in db.execute(waiting, values)]
    db.execute(f"DELETE FROM derived WHERE id BETWEEN :first AND :last AND id - part NOT IN ({same})", values)
    db.execute(f"DELETE FROM facts WHERE {place} (SELECT id FROM new.facts)", values)
    db.execute(f"UPDATE facts SET ({batch.FACTS}) = ({new}) WHERE {place} ({same})", values)
    return found
