"""A recording whose sessions go on in the next cassette of a row: see rotation.py for when, and for what a part has.

Where the disk is full, it waits for room, as the oldest cassettes may be removed once they are handed on. If there is
none, it stops; and goes on in the next cassette when there is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf
from sqlite3 import Error, OperationalError
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ..cassette.batch import Batch
from ..cassette.file import is_full
from ..cassette.query.parts import in_force
from ..cassette.writer import Writer
from ..errors import CassetteError, count
from ..wire.channels import STDIO, TAPE
from ..wire.frames import Frame
from . import rotation
from .tape import Tape
from .writer import Recording, Session, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from .sessions import Sessions

    _T = TypeVar("_T")

_ROOM = 5.0  # seconds to wait for room; the traffic may have to wait as long
_LOOK = 0.1  # seconds between two looks for it
_AGAIN = 1.0  # seconds between two tries to go on without what was not stored


class RecordingInParts(Recording):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        assert self._options.row is not None
        self._row = self._options.row
        self._limit = self._row.size
        self._stored = 0  # bytes of the cassette
        self._was_full = False  # the disk, which is why it has failed
        self._again_at = 0.0
        self._gap: str | None = None  # why something is missing at the end of this part

    def _patiently(self, write: Callable[[], _T]) -> _T:
        end = 0.0
        while True:
            try:
                return super()._patiently(write)
            except OperationalError as error:
                if self._failed or not is_full(error):
                    raise
                if not end:
                    end = monotonic() + _ROOM
                    self._say(f"warning cannot write {self._path}: {error}; waiting for room")
                elif monotonic() > end:
                    self._was_full = True
                    raise
            if self._backlog.closed:
                self._say("alive")
            self._row.prune(self._path)
            sleep(_LOOK)

    def _store(self, more: bool = False) -> None:
        if self._was_full and monotonic() > self._again_at:
            self._again_at = inf  # for what is stored on the way
            self._go_on_with_a_gap()
            self._again_at = monotonic() + _AGAIN
        super()._store(more)
        if self._writer is not None and not self._failed:
            with suppress(Error):  # somebody holds it: it is looked at again
                self._stored = self._writer.size

    def _turn(self, tape: Tape | Sessions) -> None:
        size = self._stored + self._batch.size
        if size < self._limit or self._failed or not any(session.tape.frames for session in self._sessions):
            return
        if not self._may_turn(tape, size):
            for session in self._sessions:
                session.mark = session.mark or session.tape.last
            return
        path = None
        try:
            path = self._row.newest(self._path)
            following = self._opened(path)
        except (Error, CassetteError) as error:
            self._say(f"warning {self._path} is full, but the next cannot be begun: {error}; it goes on as it is")
            self._limit = size + self._row.size
            if path:
                self._row.give_back(path)
            return
        self._leave_for(following, path)

    def _go_on_with_a_gap(self) -> None:
        """Go on in the next cassette, if there is room by now: what came meanwhile is lost."""
        self._row.prune(self._path)
        try:
            path = self._row.newest(self._path)
        except CassetteError:
            return
        try:
            following = self._opened(path)
        except (Error, CassetteError):
            self._row.give_back(path)
            return
        self._gap, self._failed, self._batch = self._failed, None, Batch()
        self._leave_for(following, path)
        if self._failed:
            self._row.give_back(path)
        else:
            self._was_full, self._gap = False, None
            self._say(f"warning there is room again: it goes on in {path}, without what came meanwhile")

    def _may_turn(self, tape: Tape | Sessions, size: int) -> bool:
        """Return whether no exchange is open, or the cassette has grown too large to wait for that."""
        if size >= max(self._row.most, self._limit):
            return True
        if not isinstance(tape, Tape) and tape.has_posts():
            return False
        is_late = size >= max(self._row.late, self._limit)
        return all(session.tape.is_quiet(session.mark if is_late else 0) for session in self._sessions)

    def _leave_for(self, following: Writer, path: str) -> None:
        """Close this cassette, and go on in another one."""
        writer = self._writer
        assert writer is not None  # else it has failed
        self._store_all(writer)
        parts = []
        try:
            parts = [
                (session, self._parting(writer, session, path) if session.number else []) for session in self._sessions
            ]
        except Error as error:
            self._fail(self._why(error))
        self._store_all(writer)
        if self._failed:
            following.close()
            return
        self._go_on(following, path, parts)
        writer.close()
        self._row.prune(path)

    def _store_all(self, writer: Writer) -> None:
        self._store()
        while writer.owed and not self._failed:
            self._try(lambda: self._catch_up(writer))

    def _parting(self, writer: Writer, session: Session, path: str) -> list[Frame]:
        """Say at the end of a part where it goes on; return what that is to begin with."""
        tape, number = session.tape, session.number or 0
        requests = [request for request, _ in tape.ledger.waiting()]
        repeated = in_force(writer.connection, number, requests, tape.channels)
        tape.control("server", TAPE, rotation.end(path), self._at)
        return rotation.beginning(self._path, number, repeated)

    def _go_on(self, writer: Writer, path: str, parts: list[tuple[Session, list[Frame]]]) -> None:
        why = self._gap or (None if self._is_in_place() else self._why())
        counts = self._kept if self._gap else self._counts()
        for session, _ in parts:
            split = sum(1 for _, listens in session.tape.ledger.waiting() if not listens)
            said = f"{count(split, 'request')} had no answer yet when it went on in {os.path.basename(path)}"
            self._close(session, why, said if split else None)
        *sums, _, redactions = counts
        self._earlier = (sums[0], sums[1], 0, redactions)
        self._writer, self._path, self._facts, self._stored = writer, path, {}, 0
        self._limit = self._row.size
        self._say(f"cassette {path}")
        for session, frames in ((session, frames) for session, frames in parts if session in self._sessions):
            session.number, session.held, session.mark = None, session.tape.begin_again(self._at, frames), 0
            session.facts |= {"started_at": timestamp(self._started + self._at / 1e6), "extends": None}
            if self._options.transport == STDIO:
                self._resume(session)
        self._store()
