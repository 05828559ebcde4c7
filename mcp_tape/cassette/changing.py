"""A cassette changed so that nothing is left of what was taken out, also while others use it.

Where nobody does, a copy is changed, and takes its place at once. Where somebody records into it or reads it, that
would part them from their file: then it is changed in its place, and all of its pages are written anew.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from time import monotonic, sleep

from ..errors import CassetteError, pasted
from . import file
from .remaking import InUseError, NoChange, only_ours, remade

_PATIENCE = 30.0  # seconds
_A_MOMENT = 0.1  # seconds
_SPARE = 16 << 20  # bytes, for what is recorded meanwhile


@contextmanager
def changed(path: str) -> Iterator[sqlite3.Connection]:
    """A connection to change a cassette by. Of one that is in use, each transaction counts at once: keep them short."""
    with ExitStack() as stack:
        try:
            db = stack.enter_context(remade(path, only_ours))
        except InUseError as error:
            db = stack.enter_context(_in_place(os.path.realpath(path), error))
        yield db


def still_open(db: sqlite3.Connection) -> set[int]:
    """The sessions that somebody may be recording: none of a copy, which is made where nobody uses the cassette."""
    if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        return set()
    return {number for (number,) in db.execute("SELECT id FROM sessions WHERE ended_at IS NULL")}


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
        raise CassetteError(f"{path}: {error}; what is not changed yet stays as it was, so try again") from None
    finally:
        file.tidy(path)  # whoever used it may have left meanwhile


def _shared(path: str, in_use: InUseError) -> sqlite3.Connection:
    """A connection beside those of others. For as long as it is there, nobody can make the cassette anew."""
    before = file.identity(path)
    db = file.connect(path)
    try:
        file.guard(db)
        only_ours(db, path)
        if not file.switch_to_wal(db):
            raise in_use
        db.execute("SELECT 1 FROM sessions").fetchone()
        if file.identity(path) != before:  # somebody made it anew just now
            raise in_use
        _expect_room(db, path)
        db.execute("PRAGMA secure_delete = ON")
    except BaseException:
        db.close()
        raise
    return db


def _expect_room(db: sqlite3.Connection, path: str) -> None:
    """A full disk would stop the recorder, too. SQLite writes a file anew elsewhere, and then into its journal."""
    size = db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()[0]
    free, needed = shutil.disk_usage(os.path.dirname(path)).free, 2 * size + _SPARE
    if free < needed:
        raise CassetteError(
            f"{path} stays as it was: to change it while it is in use, {needed:,} bytes must be free beside it, "
            f"and {free:,} are; make room, or end what uses it, then try again"
        )


def _write_anew(db: sqlite3.Connection, path: str) -> None:
    """No page of the file, and none of its journal, may hold what was taken out."""
    said = f"it is gone from what {path} says, but may still be in its file"
    try:
        _patiently(lambda: db.execute("VACUUM"))
        is_read = not _until(lambda: _is_checkpointed(db))
    except sqlite3.Error as error:
        with suppress(sqlite3.Error):
            _is_checkpointed(db)  # the journal may have filled the disk
        hint = f"when that is mended, run: sqlite3 {pasted(path)} VACUUM"
        raise CassetteError(f"{said}, which could not be written anew ({error}); {hint}") from None
    if is_read:
        hint = f"sqlite3 {pasted(path)} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        raise CassetteError(
            f"{said}, as somebody is reading old pages of it; they go when those who read and record have ended.\n"
            f"To be sure of it, as soon as nobody reads: {hint}"
        )


def _is_checkpointed(db: sqlite3.Connection) -> bool:
    """Whether the journal is empty. Who waits for readers keeps recorders waiting, so each try is short."""
    db.execute(f"PRAGMA busy_timeout = {round(_A_MOMENT * 1000)}")
    return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]


def _patiently(act: Callable[[], object]) -> None:
    """Others may write for longer than SQLite waits."""
    errors: list[sqlite3.OperationalError] = []

    def is_done() -> bool:
        try:
            act()
        except sqlite3.OperationalError as error:
            if not file.is_locked(error):
                raise
            errors.append(error)
            return False
        return True

    if not _until(is_done):
        raise errors[-1]


def _until(is_done: Callable[[], bool]) -> bool:
    """Try until it is done, or for as long as a person waits."""
    end = monotonic() + _PATIENCE
    while not is_done():
        if monotonic() >= end:
            return False
        sleep(_A_MOMENT)
    return True
