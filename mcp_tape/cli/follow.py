"""`show -f`: print the newest session of a cassette, and then each new message."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from itertools import takewhile

from ..cassette import file as database
from ..cassette.pages import BEFORE_ALL
from ..cassette.query.filters import Filter
from ..cassette.query.inventory import is_open
from ..cassette.query.timeline import TimelineRow, last_seq, session_rows
from ..cassette.reader import Cassette, Session
from ..cassette.schema import expect_local
from ..console import say
from ..console.terminal import columns, echo, echo_json
from ..formats.row_lines import is_left_out_by_default, line_of
from .message_lines import echo_line, is_narrow

_PAUSE = 0.1  # seconds; a recorder writes as often


def follow(file: str, session: int | None, kept: Filter, everything: bool, as_json: bool) -> None:
    """Print until the recording has ended, or Ctrl-C."""
    expect_local(file)  # remote cassettes are read-only
    try:
        followed = _FollowedSessions(file, session, kept, everything, as_json, _wait_for(file))
        while followed.look():
            time.sleep(_PAUSE)
    except KeyboardInterrupt:
        pass  # the usual way to stop


def _wait_for(file: str) -> bool:
    """Wait until a recorder has made the file. Return whether it was missing."""
    waited = False
    while not os.path.exists(file) or (os.path.isfile(file) and not os.path.getsize(file)):
        if not waited:
            say(f"there is no cassette at {file} yet; waiting for its recording (Ctrl-C to stop)")
        waited = True
        time.sleep(_PAUSE)
    return waited


class _FollowedSessions:
    """The followed sessions, and the last printed frame of each."""

    def __init__(
        self, file: str, session: int | None, kept: Filter, everything: bool, as_json: bool, waited: bool
    ) -> None:
        self._file, self._only, self._kept = file, session, kept
        self._everything, self._as_json = everything, as_json
        self._seen_one = waited  # whether a session was recorded since the start
        self._identity = database.identity(file)
        self._told = False
        self._forget()

    def _forget(self) -> None:
        self._first: int | None = None  # the newest session at the start
        self._printed: dict[int, int] = {}  # the last frame of each session
        self._ended: set[int] = set()
        self._shown: int | None = None  # the session of the last line

    def look(self) -> bool:
        """Print new messages until the recording ends. Return whether the file must be opened again."""
        if database.identity(self._file) != self._identity:
            self._identity = database.identity(self._file)
            self._forget()  # another recording replaced the file
        with Cassette(self._file) as cassette:
            while self._look(cassette):
                # A copy gets no new messages.
                if cassette.source != cassette.path or database.identity(self._file) != self._identity:
                    return True
                time.sleep(_PAUSE)
        return False

    def _look(self, cassette: Cassette) -> bool:
        """Print new messages. Return whether more may come."""
        # Whether a session has ended is read before its frames: then they are all there.
        sessions = self._chosen_sessions(cassette)
        for session in sessions:
            self._print(cassette, session)
        sys.stdout.flush()
        goes_on = any(map(is_open, sessions))
        self._seen_one |= goes_on or any(session.id > (self._first or 0) for session in sessions)
        if goes_on or (self._seen_one and self._first is not None) or self._only is not None:
            return goes_on
        if not self._told:
            say(f"nothing is being recorded into {self._file}; waiting for the next session (Ctrl-C to stop)")
            self._told = True
        return True

    def _chosen_sessions(self, cassette: Cassette) -> list[Session]:
        """Return the chosen session; or the newest one at the start, and all later ones."""
        if self._only is not None:
            return [cassette.session(self._only)]
        sessions = cassette.sessions()
        if self._first is None and sessions:
            self._first = sessions[-1].id
        return [s for s in sessions if s.id >= (self._first or 0) and s.id not in self._ended]

    def _print(self, cassette: Cassette, session: Session) -> None:
        seen = self._printed.get(session.id, BEFORE_ALL)
        if is_open(session):
            for row in self._new_rows(cassette, session.id, self._kept.for_open_session()):
                self._echo(cassette, row._replace(status=None) if row.status == "unanswered" else row)
            return
        for row in self._new_rows(cassette, session.id, self._kept):
            self._echo(cassette, row)
        self._ended.add(session.id)
        for row in _unanswered_rows(cassette, session.id, self._kept, seen):
            self._echo(cassette, row)

    def _new_rows(self, cassette: Cassette, session: int, kept: Filter) -> Iterator[TimelineRow]:
        newest = last_seq(cassette, session)
        after = self._printed.get(session, BEFORE_ALL)
        for row in session_rows(cassette, session, kept, after):
            after = row.seq
            yield row
        self._printed[session] = max(after, newest)

    def _echo(self, cassette: Cassette, row: TimelineRow) -> None:
        if self._as_json:
            echo_json(line_of(cassette, row, full=True).as_json())
        elif self._everything or not is_left_out_by_default(row):
            if self._shown not in (None, row.session):
                echo(f"session {row.session}", bold=True)
            self._shown = row.session
            width = columns()
            echo_line(line_of(cassette, row, brief=is_narrow(width)), width)


def _unanswered_rows(cassette: Cassette, session: int, kept: Filter, seen: int) -> Iterator[TimelineRow]:
    """Rows without an answer, of those that were printed while they could still get one."""
    if seen == BEFORE_ALL:
        return iter(())
    return takewhile(lambda row: row.seq <= seen, session_rows(cassette, session, kept.only_unanswered()))
