"""Cassettes on disk, for recording. Sessions are appended; several recorders may share one file.

Frames are facts, and are stored at once. Messages follow from them and may be stored later: `sessions.pending` is the
number of the first frame whose messages are missing, and NULL if none are. Only this column counts: messages that
another process derived meanwhile are not stored twice, and the next process to open the cassette derives those that a
killed recorder left (see `complete`). So a key that cannot be derived from its frame again is stored with the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress

from ..light import sqlite3
from ..wire import jsontext, match
from ..wire.frames import LEFT_OUT, Frame
from ..wire.ledger import Ledger
from . import file, schema
from .batch import Batch, EnteredFrame, Rows, blocks, insert_frames, insert_messages

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

_NEVER_CLOSED = "never closed: still being recorded, or the recorder was stopped"

_MOST_OWED = 10_000  # messages: they must be there soon after a kill, too
_PAID_AT_ONCE = 4_000  # messages per transaction, because other processes may wait for it
_ALL = 1 << 62
_CACHE = 512  # kibibytes: a recorder writes much and reads little
_CHECKPOINT = 16 << 10  # pages: each checkpoint syncs the disk several times, and the recorder waits
# A repeated request; in a batch, all of them.
_FORGET = f"""UPDATE derived SET key = NULL, status = 'retry' WHERE id >= :frame AND {schema.BY_CLIENT}
    AND id < coalesce((SELECT min(id) FROM facts WHERE id > :frame), :frame + {schema.MOST})
    AND method IS NOT NULL AND rpc_id IS NOT NULL"""
# Messages that waited for it wait for the last client message before it that is still on the tape.
_WAIT_FOR_EARLIER = f"""UPDATE derived SET cue = coalesce((
        SELECT (id - part) & {schema.MOST} FROM derived WHERE id < :frame AND id > :first AND {schema.BY_CLIENT}
        AND (method IS NULL OR rpc_id IS NULL OR key IS NOT NULL) ORDER BY id DESC LIMIT 1), 0)
    WHERE cue = :seq AND exchange IS NOT NULL AND exchange <> :seq AND id BETWEEN :first AND :last"""


class RemovedError(sqlite3.IntegrityError):
    """A session was removed while it was being recorded."""

    def __init__(self, session: int) -> None:
        super().__init__(f"session {session} was removed while it was being recorded")
        self.session = session


class ReplacedError(sqlite3.OperationalError):
    """The file was replaced or removed while it was being opened."""


class Writer:
    """Writes sessions to one cassette. Raises sqlite3.Error if it cannot; nothing is half written."""

    def __init__(self, path: str | None, known: Collection[int] = ()) -> None:
        """Without a path, the cassette is in memory. `known`: sessions elsewhere, after which new numbers continue."""
        self._known = known
        self._began: dict[int, str | None] = {}  # by session, its start
        self._owed: list[Batch] = []  # oldest first
        self._path = path
        if path is None:
            self._db, self.warning = file.connect_in_memory(), None
            file.make_schema(self._db)
            return
        before = file.identity(path)
        self._db = file.connect(path)
        try:
            if before is None:  # it is empty, so a power cut does no harm
                self._db.execute("PRAGMA synchronous = OFF")
            self.warning = self._prepare(path)
            self._file = file.identity(path)
            if before not in (None, self._file):  # it was replaced while we waited: ours is the old one
                raise ReplacedError("database is locked: another file has taken its place; try again")
        except BaseException:
            self._db.close()
            raise

    def begin(self, facts: dict[str, Any]) -> int:
        """Begin a session; return its number."""
        row = facts | {"incomplete": _NEVER_CLOSED, "key_version": match.KEY_VERSION}
        row["target"] = jsontext.dumps(row["target"])
        with self._transaction() as db:
            extended = db.execute("SELECT 1 FROM sessions WHERE id = ?", (row.get("extends"),)).fetchone()
            if extended is None and row.get("extends") not in self._known:  # it was removed since it was chosen
                row["extends"] = None
            if self._known or self._began:  # SQLite would reuse the number of one of ours that was removed
                ((last,),) = db.execute("SELECT coalesce(max(id), 0) FROM sessions")
                row["id"] = max(last, *self._known, *self._began) + 1
            session = _insert(db, "sessions", row)
        self._began[session] = file.storable_text(row["started_at"])
        return session

    def append(self, entered: Iterable[EnteredFrame], facts: dict[int, dict[str, str]], later: bool = False) -> None:
        """Add frames, the session facts that they state, and their messages, in one transaction.

        `later`: more frames are waiting, so the messages of these may be `owed`.
        """
        batch = Batch(entered)
        later = later and not batch.again and not batch.loses_keys and bool(self._owed or batch.messages)
        due = 0 if later else _ALL
        if later and self.owed_messages + len(batch.messages) > _MOST_OWED:
            due = len(batch.messages)
        with self._transaction() as db:
            self._expect(batch.first)
            insert_frames(db, batch.frames)
            left = self._pay(db, due)
            if later:
                sql = "UPDATE sessions SET pending = ? WHERE id = ? AND pending IS NULL"
                db.executemany(sql, [(seq, session) for session, seq in batch.first.items()])
            else:
                insert_messages(db, batch.messages)
                forget(db, batch.again)
            for session, found in facts.items():
                update_session(db, session, found)
        self._owed = [*left, batch] if later else left
        batch.frames = Rows()

    def catch_up(self) -> None:
        """Store some of the messages that are `owed`."""
        with self._transaction() as db:
            left = self._pay(db, _PAID_AT_ONCE)
        self._owed = left

    @property
    def owed_messages(self) -> int:
        """The number of messages still to store, whose frames are stored."""
        return sum(len(owed.messages) for owed in self._owed)

    def _pay(self, db: sqlite3.Connection, least: int) -> list[Batch]:
        """Store at least this many of the messages that are owed, oldest first; return the rest."""
        left, paid = list(self._owed), []
        while left and (least > 0 or not left[0].messages):
            least -= len(left[0].messages)
            paid.append(left.pop(0))
        if not paid:
            return left
        sessions = set().union(*(owed.first for owed in paid))
        self._expect(sessions)
        pending = {session: self._first_pending(session) for session in sessions}
        for owed in paid:
            insert_messages(db, owed.messages_from(pending))
        for session in sessions:
            if pending[session] < schema.row_ids(session)[1]:  # else another process has derived them all
                then = next((owed.first[session] for owed in left if session in owed.first), None)
                db.execute("UPDATE sessions SET pending = ? WHERE id = ?", (then, session))
        return left

    def _first_pending(self, session: int) -> int:
        """The id of the first row of a session that is not derived yet."""
        (seq,) = self._db.execute("SELECT pending FROM sessions WHERE id = ?", (session,)).fetchone()
        return schema.row_ids(session)[1] if seq is None else schema.row_id(session, seq)

    @property
    def size(self) -> int:
        """Bytes of the cassette, including its journal."""
        pages, each = (self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages * each)

    def finish(self, session: int, facts: dict[str, Any]) -> None:
        with self._transaction() as db:
            self._expect({session})
            (why,) = db.execute("SELECT incomplete FROM sessions WHERE id = ?", (session,)).fetchone()
            kept = LEFT_OUT if why == LEFT_OUT else None  # set by a redaction meanwhile, and still true
            update_session(db, session, facts | {"incomplete": facts.get("incomplete") or kept})
        del self._began[session]

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
        """Raise RemovedError if one of our sessions was removed; its number may have been reused."""
        for session in sessions:
            found = self._db.execute("SELECT started_at FROM sessions WHERE id = ?", (session,)).fetchone()
            if found != (self._began[session],):
                others = [owed.without(session) for owed in self._owed]
                self._owed = [owed for owed in others if owed.first]
                raise RemovedError(session)

    @property
    def connection(self) -> sqlite3.Connection:
        return self._db

    def is_in_place(self) -> bool:
        """True if the cassette was not moved, deleted or replaced."""
        return self._path is None or file.identity(self._path) == self._file

    def close(self) -> None:
        """Leave a single file, if no other process uses it."""
        file.settle(self._db)
        self._db.close()
        if self._path is not None:
            file.tidy(self._path)  # of two that leave at once, each may have blocked the other

    def _prepare(self, path: str) -> str | None:
        # The schema is written before the switch to WAL, so that the file's own header identifies it.
        db = self._db
        file.make_schema(db)
        file.check(db, path)
        db.execute(f"PRAGMA cache_size = -{_CACHE}")
        if file.switch_to_wal(db):  # from now on, no process can replace it
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
            return None
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA journal_mode = TRUNCATE")
        return "this file system does not allow SQLite's WAL; recording works, readers may have to wait"


def mark_incomplete(path: str, sessions: Iterable[int], why: str) -> None:
    """Note why sessions are incomplete, if the writer no longer can."""
    with closing(file.connect(path)) as db:
        for session in sessions:
            # Its number may have been reused for a complete session.
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
    return tuple(file.storable_text(value) if isinstance(value, str) else value for value in row.values())


def complete(path: str, read: Callable[[sqlite3.Connection, int], Iterable[Frame]]) -> None:
    """Derive messages that recorders left pending; `read` returns the frames of a session. Safe to run twice."""
    with closing(file.connect(path)) as db, suppress(sqlite3.Error):  # another process is writing, or it cannot be read
        file.guard(db)
        db.execute("PRAGMA cache_spill = OFF")  # other readers then wait for the commit only
        db.execute("BEGIN IMMEDIATE")
        for session, first in db.execute(f"SELECT id, pending FROM sessions WHERE {schema.PENDING}").fetchall():
            known = isinstance(first, int) and 0 <= first <= schema.MOST  # it may be untrusted
            derive_from(db, session, first if known else 0, read(db, session))
        db.execute("COMMIT")
        file.settle(db)


def derive_from(db: sqlite3.Connection, session: int, first: int, frames: Iterable[Frame]) -> Ledger:
    """Derive the messages of a session again, from a frame on; return the ledger of all its frames."""
    _, end = schema.row_ids(session)
    db.execute("DELETE FROM derived WHERE id BETWEEN ? AND ?", (schema.row_id(session, first), end))
    ledger = Ledger()
    again: dict[tuple[int, int], None] = {}
    # Frames are read one by one while rows go into another table: SQLite allows that, and memory stays small.
    entered = ((session, frame, ledger.derive(frame)) for frame in frames)
    for batch in blocks(entered):
        insert_messages(db, batch.messages_from({session: schema.row_id(session, first)}))
        again |= batch.again
    forget(db, again)
    update_session(db, session, {"pending": None})
    return ledger


def forget(db: sqlite3.Connection, requests: Iterable[tuple[int, int]]) -> None:
    """Stop matching requests, each by its session and number; messages that waited for them wait for earlier ones."""
    for session, seq in requests:
        first, last = schema.row_ids(session)
        named = {"frame": schema.row_id(session, seq), "seq": seq, "first": first, "last": last}
        db.execute(_FORGET, named)
        db.execute(_WAIT_FOR_EARLIER, named)
