"""Cassettes on disk, for recording. Sessions are appended; several recorders may share one file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain
from typing import Any

from ..wire import jsontext, match
from ..wire.frames import LEFT_OUT, Entry, Frame
from . import file, schema

Batch = list[tuple[int, Frame, list[Entry]]]  # with the session that each belongs to

_NEVER_CLOSED = "never closed: still being recorded, or the recorder was stopped"

_INSERT_FRAME = (
    f"INSERT INTO frames (id, session, {', '.join(Frame._fields)}) VALUES (?, ?{', ?' * len(Frame._fields)})"
)
INSERT_MESSAGE = """INSERT INTO messages
    (frame, part, session, seq, sender, kind, method, rpc_id, name, status, answers, key, exchange, cue)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_FORGET = "UPDATE messages SET key = NULL WHERE session = :session AND sender = 'client' AND seq = :seq"
# What waited for it waits for the client's last message before it that is still to be found.
_WAIT_FOR_EARLIER = """UPDATE messages SET cue = coalesce((
        SELECT seq FROM messages WHERE session = :session AND sender = 'client' AND seq < :seq
        AND (kind <> 'request' OR key IS NOT NULL) ORDER BY seq DESC LIMIT 1), 0)
    WHERE session = :session AND cue = :seq AND exchange IS NOT :seq"""


class RemovedError(sqlite3.IntegrityError):
    """Somebody removed a session while it was being recorded."""

    def __init__(self, session: int) -> None:
        super().__init__(f"session {session} was removed while it was being recorded")
        self.session = session


class Writer:
    """Writes sessions onto one cassette. Raises sqlite3.Error when it cannot; nothing is half written."""

    def __init__(self, path: str) -> None:
        self._path = path
        before = file.identity(path)
        self._db = file.connect(path)
        try:
            self.warning = self._prepare(path)
            self._file = file.identity(path)
            self._began: dict[int, str | None] = {}  # by session: when
            if before not in (None, self._file):  # while we waited for those who made it anew: ours is the old one
                raise sqlite3.OperationalError("database is locked: another file has taken its place; try again")
        except BaseException:
            self._db.close()
            raise

    def begin(self, facts: dict[str, Any]) -> int:
        """Begin a session; its number."""
        row = facts | {"incomplete": _NEVER_CLOSED, "key_version": match.KEY_VERSION}
        row["target"] = jsontext.dumps(row["target"])
        with self._transaction() as db:
            extended = db.execute("SELECT 1 FROM sessions WHERE id = ?", (row.get("extends"),)).fetchone()
            if extended is None:  # it was removed since it was chosen
                row["extends"] = None
            session = _insert(db, "sessions", row)
        self._began[session] = file.storable(row["started_at"])
        return session

    def append(self, batch: Batch, facts: dict[int, dict[str, str]]) -> None:
        """Add frames, their messages and the facts that they gave of their sessions, in one transaction."""
        with self._transaction() as db:
            self._expect({session for session, _, _ in batch})
            first: int = db.execute("SELECT coalesce(max(id), 0) + 1 FROM frames").fetchone()[0]
            rows = ((first + n, session, *_frame_row(frame)) for n, (session, frame, _) in enumerate(batch))
            db.executemany(_INSERT_FRAME, rows)
            messages = (message_rows(first + n, *entered) for n, entered in enumerate(batch))
            db.executemany(INSERT_MESSAGE, chain.from_iterable(messages))
            forget(db, [(session, seq) for session, _, new in batch for seq in to_be_retried(new)])
            for session, found in facts.items():
                update_session(db, session, found)

    def finish(self, session: int, facts: dict[str, Any]) -> None:
        with self._transaction() as db:
            self._expect({session})
            (why,) = db.execute("SELECT incomplete FROM sessions WHERE id = ?", (session,)).fetchone()
            kept = LEFT_OUT if why == LEFT_OUT else None  # by a redaction meanwhile, and still true
            update_session(db, session, facts | {"incomplete": facts.get("incomplete") or kept})

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite has already rolled back, as it does when the disk is full
                db.execute("ROLLBACK")
            raise

    def _expect(self, sessions: Iterable[int]) -> None:
        """Refuse to go on where somebody removed a session of ours; its number may have gone to another."""
        for session in sessions:
            found = self._db.execute("SELECT started_at FROM sessions WHERE id = ?", (session,)).fetchone()
            if found != (self._began[session],):
                raise RemovedError(session)

    def is_in_place(self) -> bool:
        """True if the cassette is still where it was: nobody moved, deleted or replaced it."""
        return file.identity(self._path) == self._file

    def close(self) -> None:
        """Leave one file behind, if nobody else is using it."""
        file.settle(self._db)
        self._db.close()
        file.tidy(self._path)  # of two that leave at once, each may have been in the other's way

    def _prepare(self, path: str) -> str | None:
        # The schema is written before WAL is switched on, so that the file's own header shows what it is.
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone()[0] == 0 and not file.objects(db):
            for statement in schema.SCHEMA.split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {schema.VERSION}")
        db.execute("COMMIT")
        file.check(db, path)
        if file.switch_to_wal(db):
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("SELECT 1 FROM sessions").fetchone()  # from the first look on, nobody can make it anew under us
            return None
        db.execute("PRAGMA journal_mode = TRUNCATE")
        return "this file system does not allow SQLite's WAL; recording works, readers may have to wait"


def mark_incomplete(path: str, sessions: Iterable[int], why: str) -> None:
    """Note why sessions are not whole, when the writer no longer can."""
    with closing(file.connect(path)) as db:
        for session in sessions:
            # Its number may be another's by now, which was whole.
            db.execute("UPDATE sessions SET incomplete = ? WHERE id = ? AND ended_at IS NULL", (why, session))
        file.settle(db)


def _insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> int:
    marks = ", ".join("?" * len(row))
    cursor = db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", _values(row))
    return int(cursor.lastrowid or 0)


def update_session(db: sqlite3.Connection, session: int, facts: dict[str, Any]) -> None:
    sets = ", ".join(f"{name} = ?" for name in facts)
    db.execute(f"UPDATE sessions SET {sets} WHERE id = ?", (*_values(facts), session))


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(file.storable(value) if isinstance(value, str) else value for value in row.values())


def _frame_row(frame: Frame) -> tuple[Any, ...]:
    seq, at, sender, channel, kind, text, eol, head, redactions = frame
    return seq, at, sender, channel, kind, column_text(text), eol.decode("latin-1"), head, redactions


def message_rows(number: int, session: int, frame: Frame, entries: list[Entry]) -> Iterable[tuple[Any, ...]]:
    """Rows of the messages in one frame, in the order of INSERT_MESSAGE and of reader.MessageRow."""
    for part, entry in enumerate(entries):
        m = entry.message
        yield (
            number, part, session, frame.seq, frame.sender, m.kind, file.storable(m.method), m.rpc_id,
            file.storable(m.name), m.status, entry.answers, entry.key, entry.exchange, entry.cue,
        )  # fmt: skip


def forget(db: sqlite3.Connection, requests: list[tuple[int, int]]) -> None:
    """Take requests off the tape, each by its session and number; what waited for them waits for earlier ones."""
    named = [{"session": session, "seq": seq} for session, seq in requests]
    db.executemany(_FORGET, named)
    db.executemany(_WAIT_FOR_EARLIER, named)


def to_be_retried(entries: list[Entry]) -> list[int]:
    """Requests that the client had to make again: only the last try is ever found. See `forget`."""
    # All requests of a batch have one number, which is enough to say once.
    return list(dict.fromkeys(e.answers for e in entries if e.message.status == "retry" and e.answers is not None))


def column_text(text: bytes) -> str | bytes:
    """TEXT where SQLite can hold it without loss, else BLOB."""
    if b"\0" in text:
        return text
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text
