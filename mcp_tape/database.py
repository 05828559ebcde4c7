"""Opening, checking and tidying up the SQLite file that a cassette is."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Sequence
from typing import Any

from . import schema
from .errors import CassetteError, pasted

_MOST_BYTES = 1 << 30  # per value: a cassette may come from a stranger
_PATIENCE = 5000  # milliseconds that SQLite itself waits for others


def read_only_uri(path: str) -> str:
    """Read-only; never immutable, which a second writer turns into "malformed"."""
    special = str.maketrans({"%": "%25", "?": "%3f", "#": "%23"})
    return f"file:{os.path.abspath(path).translate(special)}?mode=ro"


def connect(path: str) -> sqlite3.Connection:
    """For writing. SQLite itself waits for others, for a while."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
    return db


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


def recover(path: str) -> None:
    """Put a journal that was left behind into the file."""
    db = connect(path)
    try:
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


def tidy(path: str) -> None:
    """The same, if there is one and we may."""
    try:
        if header_says_wal(path) and may_write(path):
            recover(path)
    except OSError:
        pass  # it is no longer there


def may_write(path: str) -> bool:
    return os.access(path, os.W_OK) and os.access(os.path.dirname(path) or ".", os.W_OK)


def identity(path: str) -> tuple[int, int] | None:
    """Which file a path leads to."""
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
