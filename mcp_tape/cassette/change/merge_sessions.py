"""Sessions of several cassettes combined in one, in recorded order.

A copied session occurs in several of them, and is taken once. Copies are found first by their facts and number of
frames, and then by a digest of the frames.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import NamedTuple

from ...errors import CassetteError, TapeError
from ...wire.times import read_time
from .. import file as database
from .. import journals, replace, schema
from ..reader import Cassette, Session
from ..text import non_sqlite
from ..text.recognize import is_text
from ..writer import Writer
from . import write_access
from .replace_sessions import attach, digest, take_over

_Place = tuple[int, int]  # the index of the file, and the session's number there
_Kind = tuple[_Place | None, str]
_KEPT = ", ".join(name for name in Session._fields if name not in ("id", "extends"))


class MergeError(TapeError):
    """The output would replace a file that must be kept."""

    exit_code = 2


class MergedSession(NamedTuple):
    """A session of the new cassette, and its origin."""

    session: int
    file: str
    was: int


class _SourceSession(NamedTuple):
    """A session, and the index of its file."""

    file: int
    tape: Cassette
    session: Session

    @property
    def place(self) -> _Place:
        return self.file, self.session.id

    @property
    def base(self) -> _Place | None:
        """The place of the session that it extends."""
        return None if self.session.extends is None else (self.file, self.session.extends)

    @property
    def look(self) -> object:
        """Facts that copies share, and other sessions hardly ever do: times have microseconds."""
        return self.session._replace(id=0, extends=None), self.tape.counts(self.session.id)["frames"]


def merge(paths: Sequence[str], output: str, *, overwrite: bool = False) -> list[MergedSession]:
    """Make a cassette from the sessions of others."""
    _check_place(paths, output, overwrite)
    return _merge_into(paths, output)


def add(source: str, path: str, *, instead_of: str | None = None) -> None:
    """Add the sessions of one cassette to another, in place of those of a server. Only one process at a time."""
    lock = f"{path}.lock"
    held = replace.lock(lock, wait=True)
    try:
        _merge_into([path, source], path, instead_of)
    finally:
        if held is not None:
            replace.unlock(lock, held)


def _merge_into(paths: Sequence[str], output: str, instead_of: str | None = None) -> list[MergedSession]:
    output = os.path.realpath(output)
    try:
        with replace.beside(output) as part:
            with ExitStack() as stack:
                taken = _make(part.file, [stack.enter_context(Cassette(path)) for path in paths], instead_of)
            part.put()
    except (sqlite3.Error, OSError) as error:
        raise CassetteError(f"{output} was not made: {getattr(error, 'strerror', None) or error}") from None
    return [MergedSession(number, paths[entry.file], entry.session.id) for number, entry in enumerate(taken, 1)]


def _make(output: str, tapes: Sequence[Cassette], instead_of: str | None) -> list[_SourceSession]:
    """Write the sessions of cassettes to a new file; return them in the order of their new numbers.

    `instead_of`: a server whose sessions in the first cassette are left out.
    """
    every = (_SourceSession(file, tape, session) for file, tape in enumerate(tapes) for session in tape.sessions())
    found = [one for one in every if one.file or instead_of is None or one.session.label != instead_of]
    origins = _origins(found)
    taken = [entry for entry in found if origins[entry.place] == entry.place]
    taken.sort(key=lambda entry: (_moment(entry.session.started_at), entry.place))
    Writer(output).close()
    with write_access.connect_private(output) as db:
        _fill(db, taken, origins)
    return taken


def _moment(text: str) -> tuple[float, str]:
    """A sort key for a time, whatever its zone. Invalid times come first."""
    found = read_time(text)
    return (0.0, text) if found is None else (found.timestamp(), "")


def _check_place(paths: Sequence[str], output: str, overwrite: bool) -> None:
    there = database.identity(output)
    if there is not None and there in map(database.identity, paths):
        raise MergeError(f"{output} is one of the cassettes to merge; write to a new file, with -o OTHER.db")
    replace.expect_room(output, overwrite)
    version = None
    try:
        if is_text(output):
            non_sqlite.expect_cassette(output)
        else:
            version = schema.version_of(output)
    except CassetteError:
        raise MergeError(f"{output} is not a cassette, and was not changed; choose another name") from None
    if version is not None:
        schema.check_version(output, version)
    journals.check(output)
    database.tidy(output)
    if there is not None and os.path.getsize(output) and database.header_says_wal(output):
        raise MergeError(
            f"{output} is in use, and was not changed; end the processes that record or read it, then try again"
        )


def _origins(found: Sequence[_SourceSession]) -> dict[_Place, _Place]:
    """By session, the one that it is a copy of, or itself."""
    copies = _Copies({entry.place for entry in found})
    # Sessions whose base is missing in their file come last: a copy in another file may have it.
    for entry in sorted(found, key=lambda entry: (copies.is_alone(entry), entry.place)):
        copies.add(entry)
    return copies.origins


_Free = dict[_Kind, deque[_SourceSession]]  # sessions that others may be copies of, in search order


class _Copies:
    """Copies, found file by file. A session is a copy only if the session that it extends is one too."""

    def __init__(self, there: set[_Place]) -> None:
        self.origins: dict[_Place, _Place] = {}
        self._there = there
        self._known: dict[object, list[_SourceSession]] = {}
        self._claimed: set[tuple[int, _Place]] = set()  # two sessions of a file are not copies of the same one
        self._free: dict[tuple[object, int, bool], _Free] = {}  # by look, file, and whether the bases are missing

    def add(self, entry: _SourceSession) -> None:
        look = entry.look
        origin = self._origin(entry, look) or entry
        self.origins[entry.place] = origin.place
        self._claimed.add((entry.file, origin.place))
        if origin is entry:
            self._known.setdefault(look, []).append(entry)

    def is_alone(self, entry: _SourceSession) -> bool:
        """True if it extends a session that is missing."""
        return entry.base is not None and entry.base not in self._there

    def _origin(self, entry: _SourceSession, look: object) -> _SourceSession | None:
        """Return the first session of another file that it is a copy of, if no other session of its file is."""
        alone = self.is_alone(entry)
        free = self._free.get((look, entry.file, alone))
        if free is None:  # files come one after another: earlier ones are complete
            free = self._free[look, entry.file, alone] = {}
            for other in self._known.get(look, ()):
                if other.file != entry.file and (entry.file, other.place) not in self._claimed:
                    free.setdefault(self._kind(other, alone), deque()).append(other)
        same = free.get(self._kind(entry, alone)) if free else None
        return same.popleft() if same else None

    def _kind(self, entry: _SourceSession, alone: bool) -> _Kind:
        """Other facts that copies share: the session that they extend, if known, and their frames."""
        extended = None if alone or entry.base is None else self.origins.get(entry.base, entry.base)
        return extended, digest(entry.tape.frames(entry.session.id))


def _fill(db: sqlite3.Connection, taken: Sequence[_SourceSession], origins: dict[_Place, _Place]) -> None:
    numbers = {entry.place: number for number, entry in enumerate(taken, 1)}
    sql = f"INSERT INTO sessions (id, extends, {_KEPT}) SELECT ?, ?, {_KEPT} FROM new.sessions WHERE id = ?"
    for _, entries in groupby(taken, lambda entry: entry.file):
        first, *more = entries
        with attach(db, first.tape.source):
            for entry in (first, *more):
                extends = numbers.get(origins.get(entry.base, entry.base)) if entry.base else None
                db.execute(sql, (numbers[entry.place], extends, entry.session.id))
                take_over(db, numbers[entry.place], entry.session.id)
