"""Opening, checking and tidying up the SQLite file that a cassette is."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

from ..errors import CassetteError, pasted
from . import journals, schema

_MOST_BYTES = 1 << 30  # per value: a cassette may come from a stranger
_TRIES = 20
_PATIENCE = 5000  # milliseconds that SQLite itself waits for others
_PLAIN = frozenset(b"/._-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def connect(path: str) -> sqlite3.Connection:
    """For writing. SQLite itself waits for others, for a while."""
    db = _connected(path, "rwc")
    db.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
    return db


def connect_to_read(path: str) -> sqlite3.Connection:
    """Read-only, but for a file of a stranger: see `guard`."""
    return _connected(path, "ro")


def _connected(path: str, mode: str) -> sqlite3.Connection:
    """The only way to a file: SQLite is not let near one whose journals may lead it elsewhere."""
    journals.check(path)
    return sqlite3.connect(_uri(path, mode), uri=True, isolation_level=None, check_same_thread=mode == "ro")


def attach_to_read(db: sqlite3.Connection, path: str) -> None:
    """Another file, as `new`. Written together, two would need a super-journal, which a kill leaves behind."""
    journals.check(path)
    db.execute("ATTACH ? AS new", (_uri(path, "ro"),))


def _uri(path: str, mode: str) -> str:
    """Never immutable, which a second writer turns into "malformed"."""
    name = os.fsencode(os.path.abspath(path))
    quoted = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in name)
    return f"file://{quoted}?mode={mode}"


def guard(db: sqlite3.Connection) -> None:
    """Nothing in a stranger's file may run or be endless."""
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
    if sys.version_info >= (3, 11):
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)


def switch_to_wal(db: sqlite3.Connection) -> bool:
    """Whether readers and writers need not wait for each other from now on."""
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


def drop_journal(path: str) -> None:
    """Remove a journal that says nothing: its owner was killed before it was needed. Rolls back one that does."""
    before = identity(path)
    with closing(connect(path)) as db:
        db.execute("BEGIN IMMEDIATE")  # nobody else writes now, so that it is nobody's
        if identity(path) == before:
            with suppress(FileNotFoundError):
                os.unlink(f"{os.path.realpath(path)}-journal")


def is_settled(path: str) -> bool:
    """Whether the file says all, and no journal that somebody uses, or has left behind, has more to say."""
    return not header_says_wal(path) and not journals.is_hot(path)


def recover(path: str) -> None:
    """Put a journal that was left behind into the file, whichever kind it is."""
    db = connect(path)
    try:
        with suppress(sqlite3.Error):  # somebody is writing; what is worse, the next one to read says
            db.execute("PRAGMA schema_version").fetchone()  # a look is enough for SQLite to roll back
        settle(db)
    finally:
        db.close()


def settle(db: sqlite3.Connection) -> None:
    """Back to one file, if nobody else is using it."""
    try:
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:
        pass  # somebody reads or records: the last one out does it


def copy_with_journals(path: str, copy: str) -> None:
    """A copy that tells the same, also while somebody writes."""
    import shutil

    path = os.path.realpath(path)
    journals.check(path)
    if journals.super_journal(path) is not None:  # the copy's would lead SQLite back to the files here
        raise CassetteError(f"{path} cannot be read where it cannot be written: it must be put in order first")
    for _ in range(_TRIES):
        before = look(path)
        shutil.copyfile(path, copy)
        for ending in ("-journal", "-wal"):
            with suppress(FileNotFoundError):
                os.unlink(copy + ending)
            with suppress(FileNotFoundError):
                shutil.copyfile(path + ending, copy + ending)
        # Whoever writes adds to a journal first: while the file itself stays the same, they belong together.
        if look(path) == before:
            return
    raise CassetteError(f"{path} is being written all the time, and cannot be read where it cannot be written")


def look(path: str) -> tuple[int, ...] | None:
    """What changes when a file does."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def tidy(path: str) -> None:
    """The same, if there is one and we may."""
    try:
        if header_says_wal(path) and may_write(path):
            recover(path)
    except (OSError, CassetteError):
        pass  # it is no longer there, or not to be touched


def may_write(path: str) -> bool:
    path = os.path.realpath(path)  # where SQLite keeps its journals
    return os.access(path, os.W_OK) and os.access(os.path.dirname(path) or ".", os.W_OK)


def identity(path: str | int) -> tuple[int, int] | None:
    """Which file a path or a descriptor leads to."""
    try:
        file = os.stat(path)
    except OSError:
        return None
    return file.st_dev, file.st_ino


def check(db: sqlite3.Connection, path: str) -> None:
    """Refuse what is no cassette, or one that a stranger has tampered with."""
    if db.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
        raise CassetteError(f"{path} is a SQLite database, but not a cassette")
    schema.check_version(path, db.execute("PRAGMA user_version").fetchone()[0])
    found = objects(db)
    missing = schema.TABLES - {name for kind, name, _ in found if kind == "table"}
    if missing:
        raise CassetteError(f"{path} is not a whole cassette: it has no table {', '.join(sorted(missing))}")
    if any(kind == "trigger" for kind, _, _ in found):
        raise CassetteError(f"{path} holds SQL triggers, which a cassette never does; it was left alone")
    if not schema.STATEMENTS.issuperset(sql for *_, sql in found if sql is not None):
        from . import foreign_schema  # only where it is not ours word for word

        foreign_schema.check(db, path, found)


def is_ours(table: str) -> bool:
    """Whether a table is a cassette's, or one that SQLite keeps for itself."""
    return table in schema.TABLES or table.startswith("sqlite_")


def objects(db: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    """All that a schema has: type, name and SQL."""
    try:
        return db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    except UnicodeDecodeError:  # SQLite quotes, in its message, a name that a stray byte is in
        raise sqlite3.DatabaseError("malformed database schema") from None


def header_says_wal(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"


def expect_onward(before: Any, now: Any) -> None:
    """Whether one block of rows ends behind the one before; in a damaged file, reading on would never end."""
    if type(now) is not type(before) or now <= before:
        raise sqlite3.DatabaseError("its rows are out of order")


def expect_types(row: Sequence[Any], types: Sequence[tuple[type, ...]], table: str) -> None:
    """Refuse what no recorder has written: SQLite takes any type in any column."""
    if not all(map(isinstance, row, types)):
        raise sqlite3.DatabaseError(f"a row of its table {table} holds what does not belong there")


def unreadable(path: str, error: Exception) -> str:
    """What to tell of a file that SQLite cannot read."""
    return f"cannot read {path}: {error}; if it is damaged, try: sqlite3 {pasted(path)} .recover"


def storable(text: str | None) -> str | None:
    """A method or a name may hold half a character, which SQLite cannot store."""
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()
