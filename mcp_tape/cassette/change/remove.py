"""Sessions removed from a cassette without a trace in the file; or the whole cassette removed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable

from ...errors import CassetteError, TapeError, quote_path
from .. import file, schema
from ..reader import OF_SESSION, Cassette
from .write_access import connect_claimed, connect_for_changes, find_open_sessions, hold, transaction

_SHOWN = 20  # sessions to list in a message


class ExtendedError(TapeError):
    """Other sessions extend one that would be removed."""

    exit_code = 2


class StillRecordingError(TapeError):
    """A session that would be removed is being recorded."""

    exit_code = 2


def remove(path: str, sessions: Iterable[int], *, force: bool = False) -> list[int]:
    """Remove sessions; return the numbers of all removed ones.

    `force`: also those that extend them, and those that are still being recorded.
    """
    with Cassette(path) as cassette:
        named = {cassette.session(number).id for number in sessions}
    with connect_for_changes(path) as db, transaction(db):
        gone = _with_extending(named, dict(db.execute("SELECT id, extends FROM sessions")))
        if not force:
            _expect_named(path, named, gone)
            _expect_closed(path, gone & find_open_sessions(db))
        for number in sorted(gone):
            for table in ("derived", "facts"):
                db.execute(f"DELETE FROM {table} WHERE {OF_SESSION}", schema.row_ids(number))
            db.execute("DELETE FROM sessions WHERE id = ?", (number,))
    return sorted(gone)


def discard(path: str) -> None:
    """Remove a whole cassette that no process uses; CassetteError if it stays.

    A process that starts now makes a new one.

    A cassette without a session stays: a recorder has just made it.
    """
    try:
        with connect_claimed(path, file.check, hold) as db:
            if db.execute("SELECT 1 FROM sessions LIMIT 1").fetchone():
                os.unlink(path)
    except (sqlite3.Error, OSError) as error:
        raise CassetteError(f"{path} stays: {getattr(error, 'strerror', None) or error}") from None


def _expect_named(path: str, named: set[int], gone: set[int]) -> None:
    if gone != named:
        all_of_them = sorted(gone if len(gone) <= _SHOWN else named)
        options = " ".join(f"--session {number}" for number in all_of_them) + (" --force" if len(gone) > _SHOWN else "")
        raise ExtendedError(
            f"nothing was removed: session {_list(gone - named)} extends one of them, and plays only with it.\n"
            f"To remove all of them: mcp-tape rm {quote_path(path)} {options}"
        )


def _expect_closed(path: str, recorded: set[int]) -> None:
    if recorded:
        raise StillRecordingError(
            f"nothing was removed: session {_list(recorded)} of {path} is not closed: it may still be recording.\n"
            "End the recorder and try again, or add --force to stop recording it"
        )


def _with_extending(named: set[int], extends: dict[int, int | None]) -> set[int]:
    """Sessions, those that extend them, those that extend these, and so on."""
    extending: dict[int | None, list[int]] = {}
    for number, other in extends.items():
        extending.setdefault(other, []).append(number)
    gone, waiting = set(named), list(named)
    while waiting:
        more = [number for number in extending.get(waiting.pop(), ()) if number not in gone]
        gone.update(more)
        waiting += more
    return gone


def _list(numbers: Iterable[int]) -> str:
    first, more = sorted(numbers)[:_SHOWN], len(set(numbers)) - _SHOWN
    return ", ".join(map(str, first)) + (f" and {more} more" if more > 0 else "")
