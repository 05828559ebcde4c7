"""Connections to a cassette whose rows will change, in use or not.

If no process uses the cassette, `changed` edits a copy and rewrites it from its remaining rows, so that no page holds
removed data. Meanwhile no process can record into the cassette. If one records or reads, a new file would separate it
from the cassette: then the cassette is changed in place, in transactions, and all of its pages are rewritten. `opened`
changes some rows in place, without rewriting the rest.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from time import monotonic, sleep

from ...errors import CassetteError, quote_path
from ...system import calls
from .. import file, foreign_schema, schema
from ..replace import beside, copy, drop_journal
from ..text import working
from ..text.recognize import is_text

_PATIENCE, _A_MOMENT = 30.0, 0.1  # seconds
_SPARE = 16 << 20  # bytes, for frames recorded meanwhile

Check = Callable[[sqlite3.Connection, str], None]  # refuses files that must not be changed


class InUseError(CassetteError):
    """Another process records into the cassette, or reads it."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is in use, so it was not changed; end the processes that record or read it, then try again"
        )


class NoChange(Exception):  # noqa: N818 - not an error
    """Raised within `changed`: leave the cassette unchanged."""


def expect_only_ours(db: sqlite3.Connection, path: str) -> None:
    """Refuse a cassette with foreign tables, such as a full-text index: they may hold the data to remove."""
    file.check(db, path)
    foreign_schema.expect_no_tables(db, path)


@contextmanager
def connect_for_changes(
    path: str, check: Check = expect_only_ours, *, also_in_use: bool = True
) -> Iterator[sqlite3.Connection]:
    """Connect for changes. In a cassette in use, each transaction takes effect at once: keep them short."""
    schema.expect_local(path)
    path = os.path.realpath(path)
    with ExitStack() as stack:
        if is_text(path):
            yield stack.enter_context(_connect_text(path))
            return
        try:
            db = stack.enter_context(_connect_copy(path, check))
        except InUseError:
            if not also_in_use:
                raise
            db = stack.enter_context(_connect_in_use(path, check))
        yield db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Wait for other writers. An error within it closes the connection, which discards the transaction."""
    _retry(lambda: db.execute("BEGIN IMMEDIATE"))
    yield
    db.execute("COMMIT")


def find_open_sessions(db: sqlite3.Connection) -> set[int]:
    """Sessions that may be recording: none in a copy, which is made only if no process uses the cassette."""
    if not file.may_be_recorded(db):
        return set()
    return {number for (number,) in db.execute("SELECT id FROM sessions WHERE ended_at IS NULL")}


@contextmanager
def connect_in_place(path: str) -> Iterator[sqlite3.Connection]:
    """Connect to a cassette to change some rows in place, in one transaction."""
    if is_text(path):
        with _connect_text(os.path.realpath(path)) as db:
            yield db
        return
    try:
        with closing(file.connect(path)) as db:
            file.guard(db)
            file.check(db, path)
            db.execute("PRAGMA secure_delete = ON")  # removed data may be a secret
            yield db
    except sqlite3.Error as error:
        raise CassetteError(f"{path} was not changed: {error}") from None
    file.tidy(path)


@contextmanager
def connect_private(path: str) -> Iterator[sqlite3.Connection]:
    """Connect to a private file. On exit it is rewritten without unused pages."""
    with closing(file.connect(path)) as db:
        file.guard(db)
        db.execute("PRAGMA journal_mode = OFF")  # a journal would hold the removed data
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA secure_delete = ON")
        yield db
        if db.in_transaction:
            db.execute("COMMIT")
        db.execute("VACUUM")


def _read_only_error(path: str) -> CassetteError:
    places = f"{quote_path(path)} {quote_path(os.path.dirname(path) or '.')}"
    return CassetteError(f"{path} cannot be changed: it or its directory is read-only; to see which: ls -ld {places}")


@contextmanager
def _connect_text(path: str) -> Iterator[sqlite3.Connection]:
    """Connect to a database made from a text. On success, it is written back as text."""
    if os.path.exists(path) and not file.may_write(path):
        raise _read_only_error(path)
    try:
        with working.lock_out_recorders(path) as is_alone, beside(path) as part:
            if not is_alone:
                raise InUseError(path)
            copy(path, part.file)
            with connect_private(part.file) as db:
                yield db
            part.put()
    except NoChange:
        pass
    except (sqlite3.Error, OSError) as error:
        raise CassetteError(f"{path} was not changed: {getattr(error, 'strerror', None) or error}") from None


@contextmanager
def _connect_copy(path: str, check: Check) -> Iterator[sqlite3.Connection]:
    """Connect to a copy. On success, it replaces the cassette."""
    if not file.may_write(path):
        raise _read_only_error(path)
    try:
        if os.path.exists(f"{path}-journal"):
            with suppress(sqlite3.Error):  # another process is writing
                drop_journal(path)
        with ExitStack() as claimed, beside(path) as part:
            claimed.enter_context(connect_claimed(path, check, hold))
            copy(path, part.file)  # not by the holding connection, for which SQLite would wait
            held = file.identity(path)
            with connect_private(part.file) as db:
                yield db
            if file.identity(path) != held:  # another process replaced the file
                raise InUseError(path)
            if not calls.REPLACES_OPEN_FILES:
                before = file.file_state(path)
                claimed.close()
                if file.file_state(path) != before:  # another process was faster
                    raise InUseError(path)
            part.put()
    except NoChange:
        pass
    except (sqlite3.Error, OSError) as error:
        raise CassetteError(f"{path} was not changed: {getattr(error, 'strerror', None) or error}") from None


@contextmanager
def connect_claimed(path: str, check: Check, claim: Check) -> Iterator[sqlite3.Connection]:
    """Connect to a cassette and claim it. If it is replaced before that, raise InUseError."""
    before = file.identity(path)
    with closing(file.connect(path)) as db:
        file.guard(db)
        check(db, path)
        claim(db, path)
        if file.identity(path) != before:
            raise InUseError(path)
        yield db


def hold(db: sqlite3.Connection, path: str) -> None:
    """Prevent others from writing to the cassette while this is connected."""
    file.settle(db)
    try:
        db.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        raise (InUseError(path) if file.is_locked(error) else error) from None
    if file.may_be_recorded(db):  # checked only now: until the lock, a recorder could still have begun
        raise InUseError(path)


def _share(db: sqlite3.Connection, path: str) -> None:
    """Prevent others from replacing the cassette while this is connected."""
    if not file.switch_to_wal(db):
        raise InUseError(path)


@contextmanager
def _connect_in_use(path: str, check: Check) -> Iterator[sqlite3.Connection]:
    """Connect while other processes use the cassette."""
    try:
        with connect_claimed(path, check, _share) as db:
            _expect_room(db, path)
            db.execute("PRAGMA secure_delete = ON")
            with suppress(NoChange):  # a stopped change may have left data in the pages
                yield db
            _write_anew(db, path)
    except sqlite3.Error as error:
        raise CassetteError(f"{path}: {error}; the rest was not changed, so try again") from None
    finally:
        file.tidy(path)  # other processes may have finished meanwhile


def _expect_room(db: sqlite3.Connection, path: str) -> None:
    """Require enough disk space: a full disk would stop the recorder too.

    SQLite rewrites a file elsewhere first, and then into its journal.
    """
    size = db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()[0]
    free, needed = shutil.disk_usage(os.path.dirname(path)).free, 2 * size + _SPARE
    if free < needed:
        raise CassetteError(
            f"{path} was not changed: to change it while it is in use, {needed:,} bytes must be free beside it, "
            f"and {free:,} are; make room, or end the processes that use it, then try again"
        )


def _write_anew(db: sqlite3.Connection, path: str) -> None:
    """Rewrite the file, so that no page of it or of its journal holds removed data."""
    said = f"it is removed from the content of {path}, but may still be in its file"
    try:
        _retry(lambda: db.execute("VACUUM"))
        is_read = not _retry(lambda: _checkpoint(db))
    except sqlite3.Error as error:
        with suppress(sqlite3.Error):
            _checkpoint(db)  # the journal may have filled the disk
        hint = f"fix that, then run: sqlite3 {quote_path(path)} VACUUM"
        raise CassetteError(f"{said}, which could not be rewritten ({error}); {hint}") from None
    if is_read:
        raise CassetteError(
            f"{said}, because a process is still reading old pages of it; "
            "they go when all readers and recorders have ended.\n"
            f"To make sure, once no process reads it: sqlite3 {quote_path(path)} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        )


def _checkpoint(db: sqlite3.Connection) -> bool:
    """True if the journal is empty. Each try is short, because waiting for readers blocks recorders."""
    db.execute(f"PRAGMA busy_timeout = {round(_A_MOMENT * 1000)}")
    return not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]


def _retry(act: Callable[[], object]) -> bool:
    """Try until other processes allow it, or time runs out. `act` returns False if it must wait."""
    end = monotonic() + _PATIENCE
    while True:
        is_last = monotonic() >= end
        try:
            if act() is not False:
                return True
        except sqlite3.OperationalError as error:
            if is_last or not file.is_locked(error):
                raise
        if is_last:
            return False
        sleep(_A_MOMENT)
