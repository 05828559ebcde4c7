"""The sessions of several cassettes on one, in the order in which they were recorded."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

from . import database, remaking, schema
from .cassette import Cassette, Session
from .errors import CassetteError, TapeError
from .replacing import attached, take_over
from .storage import Writer

_KEPT = ", ".join(name for name in Session._fields if name not in ("id", "extends"))


class MergeError(TapeError):
    """What is asked for would lose something."""

    exit_code = 2


class Merged(NamedTuple):
    """A session of the new cassette, and where it came from."""

    session: int
    file: str
    was: int


class _Found(NamedTuple):
    """A session, the file that it is in, and its new number."""

    file: int
    session: Session
    number: int
    copy: bool  # of a session that another file has, too


def merge(paths: Sequence[str], output: str, *, overwrite: bool = False) -> list[Merged]:
    """Make a cassette of the sessions of others. One that is on several of them, copied, is taken once."""
    _check_place(paths, output, overwrite)
    output = os.path.realpath(output)
    part = remaking.beside(output)
    try:
        with ExitStack() as stack:
            tapes = [stack.enter_context(Cassette(path)) for path in paths]
            found = _numbered(tapes)
            Writer(part).close()
            with closing(remaking.changeable(part)) as db:
                _fill(db, tapes, found)
                remaking.finish(db)
            remaking.put(part, output)
    except sqlite3.Error as error:
        raise CassetteError(f"{output} was not made: {error}") from None
    except OSError as error:
        raise CassetteError(f"{output} was not made: {error.strerror or error}") from None
    finally:
        remaking.drop(part)
    return [Merged(entry.number, paths[entry.file], entry.session.id) for entry in found if not entry.copy]


def _check_place(paths: Sequence[str], output: str, overwrite: bool) -> None:
    there = database.identity(output)
    if there is not None and there in map(database.identity, paths):
        raise MergeError(f"{output} is one of the cassettes to merge; write to a new file, with -o OTHER.db")
    if there is not None and not overwrite:
        raise MergeError(f"{output} is there already, and stays as it is; choose another name, or add --force")
    try:
        version = schema.version_of(output)
    except CassetteError:
        raise MergeError(f"{output} is no cassette, and stays as it is; choose another name") from None
    if version is not None:
        schema.check_version(output, version)
    database.tidy(output)
    if there is not None and os.path.getsize(output) and database.header_says_wal(output):
        raise MergeError(f"{output} is in use, and stays as it is; end what records or reads it, then try again")


def _numbered(tapes: Sequence[Cassette]) -> list[_Found]:
    """Every session of every file, in the order of time. A copy has the number of the one that it is a copy of."""
    sessions = [(file, tape, session) for file, tape in enumerate(tapes) for session in tape.sessions()]
    found: list[_Found] = []
    known: dict[object, _Found] = {}  # by what tells sessions apart: their times have microseconds
    for file, tape, session in sorted(sessions, key=lambda entry: (entry[2].started_at, entry[0], entry[2].id)):
        same = (session._replace(id=0, extends=None), tape.counts(session.id)["frames"])
        original = known.get(same)
        copy = original is not None and original.file != file and _alike(tapes[original.file], original, tape, session)
        number = original.number if original is not None and copy else len({entry.number for entry in found}) + 1
        found.append(_Found(file, session, number, copy))
        known.setdefault(same, found[-1])
    return found


def _alike(other: Cassette, original: _Found, tape: Cassette, session: Session) -> bool:
    """Whether two sessions hold the same frames: one of them may have been edited, or redacted."""
    pairs = zip(other.frames(original.session.id), tape.frames(session.id), strict=False)
    return all(one == another for one, another in pairs)


def _fill(db: sqlite3.Connection, tapes: Sequence[Cassette], found: list[_Found]) -> None:
    numbers = {(entry.file, entry.session.id): entry.number for entry in found}
    for file, session, number, copy in found:
        if copy:
            continue
        extends = None if session.extends is None else numbers.get((file, session.extends))
        with attached(db, database.read_only_uri(tapes[file].source)):
            sql = f"INSERT INTO sessions (id, extends, {_KEPT}) SELECT ?, ?, {_KEPT} FROM new.sessions WHERE id = ?"
            db.execute(sql, (number, extends, session.id))
            take_over(db, number, session.id)
