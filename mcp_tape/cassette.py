"""Cassettes on disk: create, append, read, recover. Knows SQLite and nothing of processes.

Sessions are appended and never truncated; several recorders may share one file.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from . import match, schema
from .errors import CassetteError
from .frames import Entry, Frame

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

Batch = list[tuple[Frame, list[Entry]]]

_MOST_BYTES = 1 << 30  # per value: a cassette may come from a stranger
_NEVER_CLOSED = "never closed: still being recorded, or the recorder was stopped"
_BEFORE_ALL = -(1 << 63)
_BLOCK_FRAMES, _BLOCK_BYTES = 1_000, 4 << 20
_TABLES = {"sessions", "frames", "messages"}
_MESSAGE_COLUMNS = "frame, part, session, seq, sender, kind, method, rpc_id, name, status, answers, key, exchange, cue"


class Session(NamedTuple):
    """One recorded connection, as its row says."""

    id: int
    started_at: str
    ended_at: str | None
    transport: str
    target: str
    protocol_version: str | None
    client_name: str | None
    client_version: str | None
    server_name: str | None
    server_version: str | None
    exit_code: int | None
    recorder: str
    note: str | None
    extends: int | None
    run: str | None
    incomplete: str | None
    key_version: int


class Writer:
    """One session being recorded. Raises sqlite3.Error when it cannot write; nothing is half written."""

    def __init__(self, path: str, facts: dict[str, Any]) -> None:
        self._path = path
        self._db = _connect(path)
        try:
            self.warning = self._prepare(path)
            self._file = _identity(path)
            row = facts | {"incomplete": _NEVER_CLOSED, "key_version": match.KEY_VERSION}
            row["target"] = orjson.dumps(row["target"]).decode()
            self._db.execute("BEGIN IMMEDIATE")
            self.session = _insert(self._db, "sessions", row)
            self._db.execute("COMMIT")
        except BaseException:
            self._db.close()
            raise

    def append(self, batch: Batch, facts: dict[str, str]) -> None:
        """Frames and their messages, and what they told about the session, in one transaction."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            first: int = db.execute("SELECT coalesce(max(id), 0) + 1 FROM frames").fetchone()[0]
            db.executemany(
                "INSERT INTO frames VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((first + n, self.session, *_frame_row(frame)) for n, (frame, _) in enumerate(batch)),
            )
            db.executemany(
                f"INSERT INTO messages ({_MESSAGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                _message_rows(first, self.session, batch),
            )
            if facts:
                _update(db, self.session, facts)
            db.execute("COMMIT")
        except BaseException:
            _rollback(db)
            raise

    def finish(self, facts: dict[str, Any]) -> None:
        """Close the session."""
        _update(self._db, self.session, {"incomplete": None} | facts)

    def is_in_place(self) -> bool:
        """Whether the cassette is still where it was: nobody moved, deleted or replaced it."""
        return _identity(self._path) == self._file

    def close(self) -> None:
        """Leave one file behind, if nobody else is using it."""
        _settle(self._db)
        self._db.close()
        _tidy(self._path)  # of two that leave at once, each may have been in the other's way

    def _prepare(self, path: str) -> str | None:
        # The schema is written before WAL is switched on, so that the file's own header tells what it is.
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone()[0] == 0 and not _objects(db):
            for statement in schema.SCHEMA.split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {schema.VERSION}")
        db.execute("COMMIT")
        _check(db, path)
        if _switch_to_wal(db):
            db.execute("PRAGMA synchronous = NORMAL")
            return None
        db.execute("PRAGMA journal_mode = TRUNCATE")
        return "this file system does not allow SQLite's WAL; recording works, readers may have to wait"


def mark_incomplete(path: str, session: int, why: str) -> None:
    """Say why a session is not whole, when the writer no longer can."""
    db = _connect(path)
    try:
        _update(db, session, {"incomplete": why})
        _settle(db)
    finally:
        db.close()


class Cassette:
    """A cassette open for reading. Never writes; a killed recorder's file is tidied up first."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._copy: TemporaryDirectory[str] | None = None
        _check_readable(self.path)
        try:
            self._db = self._open()
        except sqlite3.Error as error:
            self._drop_copy()
            raise CassetteError(_unreadable(self.path, error)) from None
        except CassetteError:
            self._drop_copy()
            raise

    def __enter__(self) -> Cassette:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        self._drop_copy()
        _tidy(self.path)  # a recorder that left while we were reading could not

    def sessions(self) -> list[Session]:
        columns = ", ".join(Session._fields)
        return [Session(*row) for row in self._rows(f"SELECT {columns} FROM sessions ORDER BY id")]

    def session(self, number: int | None = None) -> Session:
        """One session; without a number the newest."""
        found = [s for s in self.sessions() if number in (None, s.id)]
        if found:
            return found[-1]
        which = "a session" if number is None else f"session {number}"
        raise CassetteError(f"{self.path} does not hold {which}; see: mcp-tape ls {self.path}")

    def counts(self, session: int) -> dict[str, int]:
        """Frames, exchanges, open requests and errors of a session."""
        row = next(
            self._rows(
                """SELECT (SELECT count(*) FROM frames WHERE session = :s),
                count(answers), count(CASE WHEN kind = 'request' THEN 1 END),
                count(CASE WHEN status IN ('error', 'tool-error') THEN 1 END)
                FROM messages WHERE session = :s""",
                {"s": session},
            )
        )
        frames, exchanges, requests, errors = row
        return {"frames": frames, "exchanges": exchanges, "open": requests - exchanges, "errors": errors}

    def frames(self, session: int) -> Iterator[Frame]:
        """Every frame of a session, in order, verbatim.

        Read in blocks: a query left open while its reader takes its time would lock recorders out.
        """
        last = _BEFORE_ALL
        while block := self._block(session, last):
            yield from block
            last = block[-1].seq

    def _block(self, session: int, after: int) -> list[Frame]:
        sql = """SELECT seq, at, sender, channel, kind, text, eol, head, redactions
                 FROM frames WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"""
        block: list[Frame] = []
        size = 0
        for seq, at, sender, channel, kind, text, eol, head, redactions in self._rows(
            sql, (session, after, _BLOCK_FRAMES)
        ):
            block.append(Frame(
                seq, at, sender, channel, kind, _bytes(text), _bytes(eol),
                None if head is None else _bytes(head), redactions,
            ))  # fmt: skip
            size += len(text)
            if size >= _BLOCK_BYTES:
                break
        return block

    def rows(self, sql: str, values: Any = ()) -> list[Any]:
        """The rows of a query, as plain tuples."""
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise CassetteError(_unreadable(self.path, error)) from None

    def _rows(self, sql: str, values: Any = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._db.execute(sql, values)
        except sqlite3.Error as error:
            raise CassetteError(_unreadable(self.path, error)) from None

    def _open(self) -> sqlite3.Connection:
        path = self.path
        if _header_says_wal(path):
            if _may_write(path):
                _recover(path)
            else:
                path = self._copy_aside()
        db = sqlite3.connect(_uri(path), uri=True, isolation_level=None)
        try:
            _guard(db)
            _check(db, self.path)
        except BaseException:
            db.close()
            raise
        return db

    def _copy_aside(self) -> str:
        """Reading WAL needs a shared-memory file beside the cassette: where we may not write, use a copy."""
        import shutil
        from tempfile import TemporaryDirectory

        self._copy = TemporaryDirectory(prefix="mcp-tape-")
        copy = os.path.join(self._copy.name, "cassette.db")
        for suffix in ("", "-wal"):
            if os.path.exists(self.path + suffix):
                shutil.copyfile(self.path + suffix, copy + suffix)
        _recover(copy)
        return copy

    def _drop_copy(self) -> None:
        if self._copy:
            self._copy.cleanup()


def _uri(path: str) -> str:
    """Read-only; never immutable, which a second writer turns into "malformed"."""
    special = str.maketrans({"%": "%25", "?": "%3f", "#": "%23"})
    return f"file:{os.path.abspath(path).translate(special)}?mode=ro"


def _connect(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA busy_timeout = 5000")
    return db


def _guard(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA busy_timeout = 5000")
    if sys.version_info >= (3, 11):
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)


def _switch_to_wal(db: sqlite3.Connection) -> bool:
    for _ in range(100):
        try:
            return bool(db.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal")
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                return False
        # Here SQLite does not wait for others, as it does for a transaction.
        db.execute("BEGIN EXCLUSIVE")
        db.execute("COMMIT")
    return False


def is_locked(error: sqlite3.Error) -> bool:
    """Whether somebody else was using the file, so that it is worth trying again."""
    return "lock" in str(error)


def _recover(path: str) -> None:
    db = _connect(path)
    try:
        _settle(db)
    finally:
        db.close()


def _settle(db: sqlite3.Connection) -> None:
    """Back to one file, if nobody else is using it."""
    try:
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:
        pass  # somebody reads or records: the last one out does it


def _tidy(path: str) -> None:
    try:
        if _header_says_wal(path) and _may_write(path):
            _recover(path)
    except OSError:
        pass  # it is no longer there


def _may_write(path: str) -> bool:
    return os.access(path, os.W_OK) and os.access(os.path.dirname(path) or ".", os.W_OK)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        file = os.stat(path)
    except OSError:
        return None
    return file.st_dev, file.st_ino


def _check(db: sqlite3.Connection, path: str) -> None:
    if db.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
        raise CassetteError(f"{path} is a SQLite database, but not a cassette")
    schema.check_version(path, db.execute("PRAGMA user_version").fetchone()[0])
    objects = _objects(db)
    missing = _TABLES - {name for kind, name in objects if kind == "table"}
    if missing:
        raise CassetteError(f"{path} is not a whole cassette: it has no table {', '.join(sorted(missing))}")
    if any(kind == "trigger" for kind, _ in objects):
        raise CassetteError(f"{path} holds SQL triggers, which a cassette never does; it was left alone")


def _objects(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute("SELECT type, name FROM sqlite_master").fetchall()


def _check_readable(path: str) -> None:
    if not os.path.exists(path):
        raise CassetteError(f"there is no cassette at {path}; record one with: mcp-tape record -o {path} -- SERVER")
    if os.path.isfile(path) and not os.path.getsize(path):
        raise CassetteError(f"{path} is empty; record into it with: mcp-tape record -o {path} -- SERVER")
    schema.check_header(path)


def _header_says_wal(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"


def _unreadable(path: str, error: sqlite3.Error) -> str:
    return f"cannot read {path}: {error}; if it is damaged, try: sqlite3 {path} .recover"


def _insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> int:
    marks = ", ".join("?" * len(row))
    cursor = db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    return int(cursor.lastrowid or 0)


def _update(db: sqlite3.Connection, session: int, facts: dict[str, Any]) -> None:
    sets = ", ".join(f"{name} = ?" for name in facts)
    db.execute(f"UPDATE sessions SET {sets} WHERE id = ?", (*facts.values(), session))


def _rollback(db: sqlite3.Connection) -> None:
    try:
        db.execute("ROLLBACK")
    except sqlite3.Error:
        pass  # SQLite has already rolled back, as it does when the disk is full


def _frame_row(frame: Frame) -> tuple[Any, ...]:
    return (
        frame.seq, frame.at, frame.sender, frame.channel, frame.kind, frame.head,
        frame.eol.decode("latin-1"), frame.redactions, _text(frame.text),
    )  # fmt: skip


def _message_rows(first: int, session: int, batch: Batch) -> Iterable[tuple[Any, ...]]:
    for n, (frame, entries) in enumerate(batch):
        for part, entry in enumerate(entries):
            m = entry.message
            yield (
                first + n, part, session, frame.seq, frame.sender, m.kind, _utf8(m.method), m.rpc_id,
                _utf8(m.name), m.status, entry.answers, entry.key, entry.exchange, entry.cue,
            )  # fmt: skip


def _text(text: bytes) -> str | bytes:
    """TEXT where SQLite can hold it without loss, else BLOB."""
    if b"\0" in text:
        return text
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _utf8(text: str | None) -> str | None:
    """A method or a name may hold a lone surrogate, which SQLite cannot store."""
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
