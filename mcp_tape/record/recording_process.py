"""The recording process: from the pipe to tapes to a cassette, and on to the next cassette when one is full.

Runs in a process session of its own, forked by the recorder, and ends when the pipe does. A bug, an expensive redaction
or a slow disk here does not slow the traffic until the backlog is full.

With rotation (rotation.py), a full disk is waited for, since the oldest cassettes can be removed once they are handed
on. If no room appears, the recording stops, and resumes in the next cassette when there is room again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from math import inf
from sqlite3 import Error, OperationalError
from time import monotonic, sleep

import orjson

from .. import __version__
from ..cassette.batch import EnteredFrame
from ..cassette.file import is_full, is_locked
from ..cassette.text.recognize import is_text
from ..cassette.writer import RemovedError, ReplacedError, Writer
from ..errors import CassetteError, count
from ..redaction.diagnostics import Rules, redactor
from ..redaction.redactor import Redactor
from ..wire.channels import STDIO, TAPE
from ..wire.frames import KILLED, Frame, LedgerEntry, Side
from . import rotation
from .backlog import Backlog
from .recorder import CONTROL, HEAD, SERVER, StatusPipe
from .recording_options import RecordingOptions
from .tape import OpenSession, Tape

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from ..cassette.text.working import WorkingDatabase
    from .http_sessions import Sessions
    from .production.equipment import Equipment
    from .rotation import CassetteSeries

    _T = TypeVar("_T")
Counts = tuple[int, int, int, int]  # frames, exchanges, exchanges still open, redactions
_BATCH_FRAMES, _BATCH_BYTES = 1000, 4 << 20  # at most, per transaction
# Tries of 5 seconds each to open or write a file that another process holds, such as a large cassette that is being
# redacted. New traffic waits in the backlog.
_TRIES = 12
_GARBAGE = 50_000  # objects between two runs of the cycle collector: there are many objects here and few cycles
_ROOM = 5.0  # seconds to wait for room on a full disk; the traffic may have to wait as long
_LOOK = 0.1  # seconds between two checks for room
_AGAIN = 1.0  # seconds between two tries to resume after a gap


def record(backlog: Backlog, status: int, path: str, options: RecordingOptions, started: float) -> None:
    """Record everything from the pipe, in a dedicated process. `started`: the relay's start."""
    gc.set_threshold(_GARBAGE)
    report = StatusPipe(status)
    equipment = None
    if options.production is not None:
        from .production.equipment import Equipment

        equipment = Equipment(options.production, options.transport, report)
    RecordingProcess(backlog, report, path, options, started, equipment).run()


class RecordingProcess:
    """Writes everything from the pipe to a cassette, or to a series of cassettes."""

    def __init__(
        self,
        backlog: Backlog,
        report: StatusPipe,
        path: str,
        options: RecordingOptions,
        started: float,
        equipment: Equipment | None = None,
    ) -> None:
        """`started`: the relay's start, from which its times count. `equipment`: sampling, bodies, hooks, spans."""
        self._report = report
        self._path = path
        self._options = options
        self._backlog = backlog
        self._equipment = equipment
        self._redactor = _redactor(options)
        self._entered: list[EnteredFrame] = []
        self._size = 0  # bytes of text in `_entered`
        self._started = started
        self._at = 0
        self._exit_code: int | None = None
        self._stopped = False
        self._failed: str | None = None
        self._kept: Counts = (0, 0, 0, 0)  # counts of the stored data, if some frames did not reach the cassette
        self._is_opened = False
        self._writer: Writer | None = None
        self._working: WorkingDatabase | None = None  # if the cassette is text
        self._sessions: list[OpenSession] = []
        self._ended: list[OpenSession] = []  # ended, to close when all frames are stored
        self._incomplete: str | None = None  # why a closed session is incomplete
        self._facts: dict[int, dict[str, str]] = {}
        self._earlier: Counts = (0, 0, 0, 0)  # counts of earlier cassettes and closed sessions
        self._series = options.series
        self._limit = (
            options.series.size if options.series else 0
        )  # bytes from which on it may move to the next cassette
        self._stored = 0  # bytes of the cassette
        self._full_since = 0.0  # the time at which the disk was found full; 0 if it is not
        self._was_full = False  # if recording failed because of that
        self._again_at = 0.0
        self._gap: str | None = None  # why frames are missing at the end of this cassette

    def run(self) -> None:
        """Record until the pipe ends; then wait, with a limit, for hooks and spans."""
        chunks = self._backlog.take() if self._options.when_needed else []
        if self._options.when_needed and not chunks:
            self._report.send("done 0 0 0 0 ")
            return
        if self._equipment is None or not self._equipment.opens_late:
            self._open()
        tape = self._begin(0, STDIO, True) if self._options.transport == STDIO else self._sessions_over_http()
        rest = self._feed_records(tape, b"".join(chunks))
        self._store()
        while chunks := self._backlog.take():
            rest = self._feed_records(tape, b"".join((rest, *chunks)))
            self._store()
        tape.end_all(self._at)
        self._store()
        self._finish()
        if self._equipment is not None:
            self._equipment.finish(self._make_room)

    def _make_room(self) -> None:
        """Remove cassettes that have been handed on meanwhile."""
        if self._series is not None:
            self._series.prune(self._path)

    def _sessions_over_http(self) -> Sessions:
        from .http_sessions import Sessions  # stdio has one session

        return Sessions(self._begin, self._equipment.sampling if self._equipment else None, self._end)

    def _open(self) -> None:
        self._is_opened = True
        try:
            if is_text(self._path):
                from ..cassette.text.working import WorkingDatabase

                self._working = working = WorkingDatabase(self._path)
                self._writer = self._retry(lambda: Writer(working.file, working.known))
            else:
                if self._series is not None and self._series.is_handed_on:
                    given, self._path = self._path, self._series.newest()
                    if self._path != given:  # another process has begun a cassette meanwhile
                        self._report.send(f"cassette {self._path}")
                self._writer = self._open_writer(self._path)
        except (Error, CassetteError) as error:
            self._fail(f"cannot write {self._path}: {error}", error)
            return
        if self._writer.warning:
            self._report.warn(self._writer.warning)

    def _open_writer(self, path: str) -> Writer:
        return self._retry(lambda: Writer(path))

    def _retry(self, write: Callable[[], _T]) -> _T:
        """Retry for a while if the file is locked or the disk is full."""
        while True:
            try:
                done = retry_while_locked(write, self._wait)
                self._full_since = 0.0
                return done
            except OperationalError as error:
                if self._series is None or self._failed or not is_full(error):
                    raise
                if not self._full_since:
                    self._full_since = monotonic()
                    self._report.warn(f"cannot write {self._path}: {error}; waiting for room")
                elif monotonic() > self._full_since + _ROOM:
                    raise
            if self._backlog.closed:
                self._report.send_alive()  # the relay waits for us to finish
            self._series.prune(self._path)
            sleep(_LOOK)

    def _wait(self, times: int) -> None:
        """Report that another process holds the cassette."""
        if times == 1:
            self._report.warn(f"{self._path} is in use: the recording is stored as soon as it is free")
        elif self._backlog.closed:
            self._report.send_alive()

    # -- sessions

    def _begin(self, at: int, transport: str, legacy: bool) -> Tape:
        """Begin a session and return its tape. A session without an id counts as modern."""
        if not self._is_opened:
            self._open()
        options, redactor, equipment = self._options, self._redactor, self._equipment
        manner = options.manner + (equipment.manner if equipment else "")
        facts = {
            "started_at": timestamp(self._started + at / 1e6),
            "transport": transport,
            "target": redactor.target(options.target) if redactor else options.target,
            "recorder": f"mcp-tape {__version__}{manner}",
            "note": redactor.text(options.note) if redactor and options.note else options.note,
            "run": options.run,
            "label": options.label,
            "extends": options.extends if legacy else options.extends_modern or options.extends,
        }
        session = OpenSession(facts)
        hiding = equipment.session_redactor(redactor) if equipment else redactor
        session.tape = Tape(partial(self._collect, session), hiding, at, options.max_decoded)
        self._number(session)
        self._sessions.append(session)
        return session.tape

    def _end(self, tape: Tape) -> None:
        """End a session, so that a long-running recording does not keep it in memory."""
        self._ended += [session for session in self._sessions if session.tape is tape]

    def _number(self, session: OpenSession) -> None:
        """Begin a session on the cassette, if it can be written."""
        writer, facts = self._writer, session.facts
        if writer is not None and not self._failed:
            try:
                session.number = self._retry(lambda: writer.begin(facts))
                self._report.send(f"session {session.number}")
            except Error as error:
                self._fail(self._why(error), error)

    def _feed_records(self, tape: Tape | Sessions, data: bytes) -> bytes:
        """Feed whole records to the tape; return the start of an incomplete one."""
        at, end = 0, len(data)
        while at + HEAD.size <= end:
            nanoseconds, size, what, name = HEAD.unpack_from(data, at)
            body = at + HEAD.size + name
            if body + size > end:
                break
            channel = data[body - name : body].decode()
            payload = data[body : body + size]
            if self._limit and size and channel and not (what & CONTROL and channel in (STDIO, TAPE)):  # not the end
                self._rotate_if_full(tape)
            self._at = nanoseconds // 1000
            side: Side = "server" if what & SERVER else "client"
            if what & CONTROL:
                self._control(tape, side, channel, payload)
            elif payload:
                tape.feed(side, channel, payload, self._at)
            else:
                tape.end(side, channel, self._at)
                tape.control(side, channel, {"event": "close"}, self._at)
            at = body + size
            if len(self._entered) >= _BATCH_FRAMES or self._size >= _BATCH_BYTES:
                self._store(more=True)
        return data[at:]

    def _control(self, tape: Tape | Sessions, side: Side, channel: str, payload: bytes) -> None:
        facts = orjson.loads(payload)
        if facts["event"] == "secret":
            if self._redactor is not None:
                self._redactor.remember(facts["values"])
            return
        self._exit_code = facts.get("code", self._exit_code)
        if facts["event"] == "stop":
            self._stopped = True
        else:
            tape.control(side, channel, facts, self._at)

    def _collect(self, session: OpenSession, frame: Frame, entries: list[LedgerEntry]) -> None:
        if session.held is not None:
            self._resume(session)
        if session.number is not None:
            self._entered.append((session.number, frame, entries))
            self._size += len(frame.text)
        if self._equipment is not None:
            self._equipment.see(session, frame, entries)

    # -- storing

    def _store(self, more: bool = False) -> None:
        """Store the collected frames. Their messages follow once nothing waits: neither `more` nor the backlog."""
        if self._was_full and monotonic() > self._again_at:
            self._again_at = inf  # `_store` runs again inside
            self._go_on_with_a_gap()
            self._again_at = monotonic() + _AGAIN
        entered, self._entered, self._size = self._entered, [], 0
        writer = self._writer
        if writer is None:
            return
        if entered and not self._failed:
            facts = {s.number: news for s in self._sessions if s.number is not None and (news := self._news(s))}
            later = more or self._backlog.has_more or writer.owed_messages > 0
            self._try(lambda: self._append(writer, entered, facts, later))
        while writer.owed_messages and not self._failed and not (more or self._backlog.has_more):
            self._try(lambda: self._catch_up(writer))
        if self._ended and not writer.owed_messages and not self._failed:
            self._close_ended(writer)
        if self._series is not None and not self._failed:
            with suppress(Error):  # locked: the size is read again next time
                self._stored = writer.size

    def _try(self, store: Callable[[], None]) -> None:
        try:
            store()
        except Error as error:
            self._fail(self._why(error), error)
        if self._backlog.closed:
            self._report.send_alive()

    def _append(
        self, writer: Writer, entered: list[EnteredFrame], facts: dict[int, dict[str, str]], later: bool
    ) -> None:
        try:
            self._retry(lambda: writer.append(entered, facts, later))
        except RemovedError as removed:
            self._drop_session(removed)
            rest = [one for one in entered if one[0] != removed.session]
            if rest:
                facts.pop(removed.session, None)
                self._append(writer, rest, facts, later)
            return
        # Of the traffic while the disk was full, only the note about the gap is stored.
        self._kept = (self._kept[0] + len(entered), *self._kept[1:]) if self._gap else self._counts()
        for number, news in facts.items():
            self._facts.setdefault(number, {}).update(news)

    def _catch_up(self, writer: Writer) -> None:
        try:
            self._retry(writer.catch_up)
        except RemovedError as removed:
            self._drop_session(removed)

    def _close_ended(self, writer: Writer) -> None:
        if self._equipment is not None:
            self._equipment.leave(self._ended, goes_on=False)
        for session in [session for session in self._ended if session in self._sessions]:
            why = session.tape.incomplete or (None if self._is_in_place() else self._why())
            if session.number is not None:
                facts = self._closing_facts(session, why, session.tape.at)
                self._try(partial(self._finish_one, writer, session.number, facts))
            if self._failed:
                return
            if session in self._sessions:  # it was not removed from the cassette
                self._earlier = _add_counts(self._earlier, session.tape)
                self._incomplete = self._incomplete or why
                self._sessions.remove(session)
                self._facts.pop(session.number or 0, None)
                del session.tape  # breaks the cycle: its sink refers to the session
        self._ended = []

    def _finish_one(self, writer: Writer, number: int, facts: dict[str, Any]) -> None:
        try:
            self._retry(lambda: writer.finish(number, facts))
        except RemovedError as removed:
            self._drop_session(removed)

    def _drop_session(self, removed: RemovedError) -> None:
        """Stop recording a session that was removed from the cassette. Over HTTP, the others go on."""
        for session in [session for session in self._sessions if session.number == removed.session]:
            session.number = None
            self._sessions.remove(session)
        if self._options.transport == STDIO:
            self._fail(f"cannot write {self._path}: {removed}")
        else:
            self._report.warn(f"{removed}: it is no longer recorded")

    def _resume(self, session: OpenSession) -> None:
        """Begin the next part of a session."""
        held, session.held = session.held, None
        self._number(session)
        for frame, entries in held or ():
            self._collect(session, frame, entries)

    # -- moving on to the next cassette

    def _rotate_if_full(self, tape: Tape | Sessions) -> None:
        """Move on to the next cassette if this one is full."""
        size = self._stored + self._size
        row = self._series
        if row is None or size < self._limit or self._failed:
            return
        if not any(session.tape.frames for session in self._sessions):
            return
        if not self._may_rotate(row, tape, size):
            for session in self._sessions:
                session.mark = session.mark or session.tape.last
            return
        path = None
        try:
            path = row.newest(self._path)
            following = self._open_writer(path)
        except (Error, CassetteError) as error:
            self._report.warn(
                f"{self._path} is full, but the next cassette cannot be created: {error}; "
                "recording continues in this one"
            )
            self._limit = size + row.size
            if path:
                row.give_back(path)
            return
        self._move_to(following, path)

    def _go_on_with_a_gap(self) -> None:
        """Move on to the next cassette if there is room by now. Traffic in between is lost."""
        row, path = self._series, None
        assert row is not None  # only a series waits for room
        row.prune(self._path)
        try:
            path = row.newest(self._path)
            following = self._open_writer(path)
        except (Error, CassetteError):
            if path:
                row.give_back(path)
            return
        self._gap, self._failed, self._entered, self._size = self._failed, None, [], 0
        self._move_to(following, path)
        if self._failed:
            row.give_back(path)
        else:
            self._was_full, self._gap = False, None
            self._report.warn(f"there is room again: recording continues in {path}; traffic in between is lost")

    def _may_rotate(self, row: CassetteSeries, tape: Tape | Sessions, size: int) -> bool:
        """Return whether no exchange is open, or the cassette has grown too large to wait for that."""
        if size >= max(row.largest_size, self._limit):
            return True
        if not isinstance(tape, Tape) and tape.has_posts():
            return False
        is_late = size >= max(row.late_size, self._limit)
        return all(session.tape.is_quiet(session.mark if is_late else 0) for session in self._sessions)

    def _move_to(self, following: Writer, path: str) -> None:
        """Close this cassette and move on to the next."""
        writer, before = self._writer, self._path
        assert writer is not None and self._series is not None  # otherwise it has failed, or there is no series
        if self._equipment is not None:
            self._equipment.leave(self._sessions, goes_on=True)
        self._store_all(writer)
        parts = []
        try:
            parts = [
                (session, self._end_part(writer, session, path) if session.number else []) for session in self._sessions
            ]
        except Error as error:
            self._fail(self._why(error), error)
        self._store_all(writer)
        if self._failed:
            following.close()
            return
        self._begin_parts(following, path, parts)
        writer.close()
        self._hand_over(before)
        self._series.prune(path)

    def _store_all(self, writer: Writer) -> None:
        self._store()
        while writer.owed_messages and not self._failed:
            self._try(lambda: self._catch_up(writer))

    def _end_part(self, writer: Writer, session: OpenSession, path: str) -> list[Frame]:
        """Record, at the end of a part, the name of the next cassette; return the first frames of the next part."""
        from ..cassette.query.parts import in_force  # once for each cassette

        tape, number = session.tape, session.number or 0
        requests = [request for request, _ in tape.ledger.waiting_requests()]
        repeated = in_force(writer.connection, number, requests, tape.channels)
        tape.control("server", TAPE, rotation.end(path), self._at)
        return rotation.beginning(self._path, number, repeated)

    def _begin_parts(self, writer: Writer, path: str, parts: list[tuple[OpenSession, list[Frame]]]) -> None:
        why = self._gap or (None if self._is_in_place() else self._why())
        counts = self._kept if self._gap else self._counts()
        for session, _ in parts:
            split = sum(1 for _, listens in session.tape.ledger.waiting_requests() if not listens)
            said = f"{count(split, 'request')} had no answer yet when it went on in {os.path.basename(path)}"
            self._close(session, why, said if split else None)
        frames, exchanges, _, redactions = counts
        self._earlier = (frames, exchanges, self._earlier[2], redactions)
        self._writer, self._path, self._facts, self._stored = writer, path, {}, 0
        self._limit = self._series.size if self._series else 0
        self._report.send(f"cassette {path}")
        for session, first in ((session, first) for session, first in parts if session in self._sessions):
            session.number, session.held, session.mark = None, session.tape.begin_again(self._at, first), 0
            session.facts |= {"started_at": timestamp(self._started + self._at / 1e6), "extends": None}
            if self._options.transport == STDIO:
                self._resume(session)
        self._store()

    # -- the end

    def _finish(self) -> None:
        if self._equipment is not None:
            self._equipment.leave(self._sessions, goes_on=False)
        writer, why = self._writer, self._failed or (None if self._is_in_place() else self._why())
        otherwise = KILLED if self._exit_code is None and not self._stopped else None
        for session in list(self._sessions):
            self._incomplete = self._close(session, why, otherwise) or self._incomplete
        why = why or self._incomplete
        if writer is not None:
            writer.close()
        if self._working is not None:
            self._become_text(self._working)
        counts = self._kept if self._failed else self._counts()
        self._report.send(f"done {' '.join(map(str, counts))} {why or ''}")
        self._hand_over(self._path)

    def _hand_over(self, path: str) -> None:
        """Hand a finished cassette to the hooks."""
        if self._equipment is not None and self._is_opened and os.path.exists(path):
            self._equipment.hand_over(path)

    def _become_text(self, working: WorkingDatabase) -> None:
        try:
            working.leave()
        except (OSError, CassetteError) as error:
            why = getattr(error, "strerror", None) or error
            self._report.warn(f"{why}: the recording stays in {working.file}, and is read from there")

    def _counts(self) -> Counts:
        counts = self._earlier
        for session in self._sessions:
            counts = _add_counts(counts, session.tape)
        return counts

    def _close(self, session: OpenSession, why: str | None, otherwise: str | None) -> str | None:
        """Close a session; return why it is incomplete, if it is."""
        writer, number, tape = self._writer, session.number, session.tape
        why = why or tape.incomplete or otherwise
        facts = self._closing_facts(session, why, self._at)
        if writer is not None and number is not None:
            try:
                self._retry(lambda: writer.finish(number, facts))
            except RemovedError as removed:
                self._drop_session(removed)
                return self._failed
            except Error as error:
                return why or self._why(error)
        return why

    def _closing_facts(self, session: OpenSession, why: str | None, at: int) -> dict[str, Any]:
        ended = timestamp(self._started + at / 1e6)
        return self._news(session) | {"ended_at": ended, "exit_code": self._exit_code, "incomplete": why}

    def _news(self, session: OpenSession) -> dict[str, str]:
        """The facts of a session that changed since they were written. Others may have been redacted on disk since."""
        known = self._facts.get(session.number or 0, {})
        return {name: fact for name, fact in session.tape.ledger.facts.items() if known.get(name) != fact}

    def _is_in_place(self) -> bool:
        return self._writer is None or self._writer.is_in_place()

    def _why(self, error: Error | None = None) -> str:
        """Why nothing can be written. If the file is gone, SQLite's own message can be misleading."""
        if not self._is_in_place():
            return f"{self._path} was moved or deleted while it was being recorded"
        return f"cannot write {self._path}: {error}"

    def _fail(self, why: str, error: Exception | None = None) -> None:
        self._failed = why
        self._was_full = self._series is not None and error is not None and is_full(error)
        self._report.send(f"failed {why}")


def _add_counts(counts: Counts, tape: Tape) -> Counts:
    frames, exchanges, still_open, redactions = counts
    ledger = tape.ledger
    return (
        frames + tape.frames,
        exchanges + ledger.exchanges,
        still_open + ledger.open_exchanges,
        redactions + tape.redactions,
    )


def retry_while_locked(write: Callable[[], _T], waited: Callable[[int], None]) -> _T:
    """Retry for a while: another process may hold the file longer than SQLite's busy timeout.

    https://www.sqlite.org/c3ref/busy_timeout.html
    """
    for times in range(1, _TRIES):
        try:
            return write()
        except ReplacedError:
            continue  # the new file is not locked
        except OperationalError as error:
            if not is_locked(error):
                raise
        waited(times)
    return write()


def _redactor(options: RecordingOptions) -> Redactor | None:
    if not options.redact:
        return None
    own = options.redact_keys, options.redact_paths, options.redact_values
    rules = Rules(*own, named=options.redact_with, headers=options.headers, environ=os.environ, known=options.known)
    return redactor(rules)


def timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
