"""A cassette changed so that nothing is left of what was taken out, also while others use it.

Where nobody does, a copy is changed, and takes its place at once. Where somebody records into it or reads it, that
would part them from their file: then it is changed in its place, and all of its pages are written anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

from . import database
from .errors import CassetteError, pasted
from .remaking import InUseError, NoChange, only_ours, remade

_TRIES = 6  # of 5 seconds each, to write a file anew that others write to and read


class NotGoneError(CassetteError):
    """What was taken out is gone from the rows, but not from the file."""


@contextmanager
def changed(path: str) -> Iterator[sqlite3.Connection]:
    """A connection to change a cassette by. Of one that is in use, each transaction counts at once: keep them short."""
    with ExitStack() as stack:
        try:
            db = stack.enter_context(remade(path, only_ours))
        except InUseError as error:
            db = stack.enter_context(_in_place(os.path.realpath(path), error))
        yield db


def is_in_use(db: sqlite3.Connection) -> bool:
    """Whether it is the cassette itself that is changed, and no copy."""
    return bool(db.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Waits for others who write. What goes wrong in it closes the connection, and with that nothing of it counts."""
    _patiently(lambda: db.execute("BEGIN IMMEDIATE"))
    yield
    db.execute("COMMIT")


@contextmanager
def _in_place(path: str, in_use: InUseError) -> Iterator[sqlite3.Connection]:
    try:
        with closing(_shared(path, in_use)) as db:
            try:
                yield db
            except NoChange:
                pass  # but one that was stopped may have left something in the pages
            _write_anew(db, path)
    except sqlite3.Error as error:
        raise CassetteError(f"{path} was not changed, or not all of it: {error}; try again") from None
    finally:
        database.tidy(path)  # whoever used it may have left meanwhile


def _shared(path: str, in_use: InUseError) -> sqlite3.Connection:
    """A connection beside those of others. For as long as it is there, nobody can make the cassette anew."""
    before = database.identity(path)
    db = database.connect(path)
    try:
        database.guard(db)
        only_ours(db, path)
        if not database.switch_to_wal(db):
            raise in_use
        db.execute("SELECT 1 FROM sessions").fetchone()
        if database.identity(path) != before:  # somebody made it anew just now
            raise in_use
        db.execute("PRAGMA secure_delete = ON")
    except BaseException:
        db.close()
        raise
    return db


def _write_anew(db: sqlite3.Connection, path: str) -> None:
    """No page of the file, and none of its journal, may hold what was taken out."""
    try:
        _patiently(lambda: _write(db))
    except sqlite3.Error as error:
        hint = f"when that is mended, run: sqlite3 {pasted(path)} VACUUM"
        raise NotGoneError(f"{_still_there(path)}: it could not be written anew ({error}); {hint}") from None
    for _ in range(_TRIES):
        if not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            return
    raise NotGoneError(f"{_still_there(path)} until those who read it now are done; then run this again to be sure")


def _write(db: sqlite3.Connection) -> None:
    db.execute("VACUUM")


def _still_there(path: str) -> str:
    return f"it is gone from what {path} says, but its file may hold it"


def _patiently(act: Callable[[], object]) -> None:
    """Others may write for longer than SQLite waits."""
    for _ in range(_TRIES - 1):
        try:
            act()
            return
        except sqlite3.OperationalError as error:
            if not database.is_locked(error):
                raise
    act()
