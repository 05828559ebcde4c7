"""A cassette changed as a whole: in a copy beside it, which then takes its place at once.

The copy is written anew from what is left in it, so that no page of it holds what was taken out. It leaves no
journal behind. While it is made, nobody can record into the cassette.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from ..errors import CassetteError
from . import file, replace

Check = Callable[[sqlite3.Connection, str], None]  # refuses what must not be changed


class InUseError(CassetteError):
    """Somebody records into the cassette, or reads it."""


class NoChange(Exception):  # noqa: N818 - it is none
    """Raised within `remade`: leave the cassette as it is."""


def only_ours(db: sqlite3.Connection, path: str) -> None:
    """Refuse a cassette with tables of others, such as a full-text index: what is taken out may be in there, too."""
    file.check(db, path)
    others = [name for kind, name, _ in file.objects(db) if kind == "table" and not file.is_ours(name)]
    if others:
        raise CassetteError(
            f"{path} stays as it was: its table {others[0]} is none of a cassette's, and may hold what is to go; "
            f"if you do not need it: sqlite-utils drop-table {path} {others[0]}"
        )


@contextmanager
def remade(path: str, check: Check = file.check) -> Iterator[sqlite3.Connection]:
    """A connection to the copy. When all went well, what is left in it is the cassette."""
    path = os.path.realpath(path)  # a link stays one
    if not file.may_write(path):
        raise CassetteError(f"{path} cannot be changed: it, or its directory, may not be written")
    try:
        with closing(_held(path, check)), replace.beside(path) as part:
            # Not by the connection that holds the cassette, for which SQLite would wait.
            replace.copy(path, part)
            held = file.identity(path)
            with closing(changeable(part)) as db:
                yield db
                finish(db)
            if file.identity(path) != held:  # somebody put another file in its place
                raise _in_use(path)
            replace.put(part, path)
    except NoChange:
        pass
    except sqlite3.Error as error:
        raise CassetteError(f"{path} stays as it was: {error}") from None
    except OSError as error:
        raise CassetteError(f"{path} stays as it was: {error.strerror or error}") from None


def changeable(part: str) -> sqlite3.Connection:
    """A connection to a file that nobody else knows: it needs no journal, which would hold what is taken out."""
    db = file.connect(part)
    file.guard(db)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA secure_delete = ON")
    return db


def finish(db: sqlite3.Connection) -> None:
    """Write the file anew, without the pages that are no longer used."""
    if db.in_transaction:
        db.execute("COMMIT")
    db.execute("VACUUM")


def _held(path: str, check: Check) -> sqlite3.Connection:
    """A connection that keeps everybody else from writing to the cassette."""
    if os.path.exists(f"{path}-journal"):
        with suppress(sqlite3.Error):  # somebody writes
            file.drop_journal(path)
    before = file.identity(path)
    db = file.connect(path)
    try:
        file.guard(db)
        check(db, path)
        file.settle(db)
        if file.header_says_wal(path):
            raise _in_use(path)
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise (_in_use(path) if file.is_locked(error) else error) from None
        if file.identity(path) != before:  # somebody else remade it while we waited, and we hold the old one
            raise _in_use(path)
    except BaseException:
        db.close()
        raise
    return db


def _in_use(path: str) -> InUseError:
    return InUseError(f"{path} is in use, so it stays as it was; end what records or reads it, then try again")
