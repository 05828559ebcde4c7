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

_Place = tuple[int, int]  # which of the files, and the session's number there
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
    """A session, and which of the files it is in."""

    file: int
    tape: Cassette
    session: Session

    @property
    def place(self) -> _Place:
        return self.file, self.session.id

    @property
    def base(self) -> _Place | None:
        """The place of what it extends."""
        return None if self.session.extends is None else (self.file, self.session.extends)

    @property
    def look(self) -> object:
        """What copies have in common. It tells nearly all others apart: times have microseconds."""
        return self.session._replace(id=0, extends=None), self.tape.counts(self.session.id)["frames"]


def merge(paths: Sequence[str], output: str, *, overwrite: bool = False) -> list[Merged]:
    """Make a cassette of the sessions of others. One that is on several of them, copied, is taken once."""
    _check_place(paths, output, overwrite)
    output = os.path.realpath(output)
    part = remaking.beside(output)
    try:
        with ExitStack() as stack:
            tapes = [stack.enter_context(Cassette(path)) for path in paths]
            found = [_Found(file, tape, session) for file, tape in enumerate(tapes) for session in tape.sessions()]
            origins = _origins(found)
            taken = sorted((entry for entry in found if origins[entry.place] == entry.place), key=_in_time)
            Writer(part).close()
            with closing(remaking.changeable(part)) as db:
                _fill(db, taken, origins)
                remaking.finish(db)
            remaking.put(part, output)
    except sqlite3.Error as error:
        raise CassetteError(f"{output} was not made: {error}") from None
    except OSError as error:
        raise CassetteError(f"{output} was not made: {error.strerror or error}") from None
    finally:
        remaking.drop(part)
    return [Merged(number, paths[entry.file], entry.session.id) for number, entry in enumerate(taken, 1)]


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


def _in_time(entry: _Found) -> tuple[str, _Place]:
    return entry.session.started_at, entry.place


def _origins(found: Sequence[_Found]) -> dict[_Place, _Place]:
    """By session, the one that it is a copy of: itself, where it is none."""
    copies = _Copies({entry.place for entry in found})
    # Those come last whose files do not have what they extend: a copy in another file may have it.
    for entry in sorted(found, key=lambda entry: (copies.is_alone(entry), entry.place)):
        copies.add(entry)
    return copies.origins


class _Copies:
    """Finds copies, file by file. A session is one only if what it extends is one, too."""

    def __init__(self, there: set[_Place]) -> None:
        self.origins: dict[_Place, _Place] = {}
        self._there = there
        self._known: dict[object, list[_Found]] = {}
        self._claimed: set[tuple[int, _Place]] = set()  # no two sessions of a file are copies of the same

    def add(self, entry: _Found) -> None:
        same = self._known.setdefault(entry.look, [])
        origin = next((other for other in same if self._is_copy(entry, other)), entry)
        self.origins[entry.place] = origin.place
        self._claimed.add((entry.file, origin.place))
        if origin is entry:
            same.append(entry)

    def is_alone(self, entry: _Found) -> bool:
        """Whether it extends what is not there."""
        return entry.base is not None and entry.base not in self._there

    def _is_copy(self, entry: _Found, other: _Found) -> bool:
        if (entry.file, other.place) in self._claimed:
            return False
        return (self.is_alone(entry) or self._extended(entry) == self._extended(other)) and _alike(entry, other)

    def _extended(self, entry: _Found) -> _Place | None:
        return None if entry.base is None else self.origins.get(entry.base, entry.base)


def _alike(entry: _Found, other: _Found) -> bool:
    """Whether two sessions hold the same frames: one of them may have been edited, or redacted."""
    pairs = zip(entry.tape.frames(entry.session.id), other.tape.frames(other.session.id), strict=False)
    return all(one == another for one, another in pairs)


def _fill(db: sqlite3.Connection, taken: Sequence[_Found], origins: dict[_Place, _Place]) -> None:
    numbers = {entry.place: number for number, entry in enumerate(taken, 1)}
    for number, entry in enumerate(taken, 1):
        extends = numbers.get(origins.get(entry.base, entry.base)) if entry.base else None
        with attached(db, entry.tape.source):
            sql = f"INSERT INTO sessions (id, extends, {_KEPT}) SELECT ?, ?, {_KEPT} FROM new.sessions WHERE id = ?"
            db.execute(sql, (number, extends, entry.session.id))
            take_over(db, number, entry.session.id)
