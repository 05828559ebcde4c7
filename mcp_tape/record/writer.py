"""The recording process: pipe to tape to cassette.

Runs in a process session of its own, forked by the recorder, and ends when the pipe does. A bug, an expensive redaction
or a slow disk here does not slow the traffic until the backlog is full.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from sqlite3 import Error, OperationalError

import orjson

from .. import __version__
from ..cassette.batch import Batch
from ..cassette.file import is_locked
from ..cassette.text.names import is_text
from ..cassette.writer import RemovedError, ReplacedError, Writer
from ..errors import CassetteError
from ..redaction.diagnostics import Rules, redactor
from ..redaction.redactor import Redactor
from ..wire.channels import STDIO, TAPE
from ..wire.frames import KILLED, Entry, Frame, Side, UsualLines
from .backlog import Backlog
from .options import Options
from .recorder import CONTROL, HEAD, SERVER
from .tape import Tape

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from ..cassette.text.working import Working
    from ..redaction.bodies import Bodies
    from .sessions import Sessions

    _T = TypeVar("_T")
Counts = tuple[int, int, int, int]  # frames, exchanges, those that are still open, redactions
_BATCH_FRAMES, _BATCH_BYTES = 1000, 4 << 20  # per transaction, at the most
# Of 5 seconds each, to open or write a file that somebody else holds: a large cassette may just be redacted. What comes
# meanwhile is in the backlog.
_TRIES = 12


_GARBAGE = 50_000  # objects between two looks for cycles in the memory, which has many objects and few cycles


class Session:
    """A session of this recording: its facts, its tape, and its number on the cassette, if it is there."""

    tape: Tape

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.number: int | None = None
        self.mark = 0  # what was its last number when the cassette was found to be full
        # The first frames of a part, until something follows them: over HTTP many a session never goes on.
        self.held: list[tuple[Frame, list[Entry]]] | None = None


class Recording:
    def __init__(self, backlog: Backlog, status: int, path: str, options: Options, started: float) -> None:
        """`started`: when the relay did, whose times count from then on."""
        self._status = status
        self._path = path
        self._options = options
        self._backlog = backlog
        self._redactor = _redactor(options)
        self._batch = Batch()
        self._started = started
        self._at = 0
        self._exit_code: int | None = None
        self._stopped = False
        self._failed: str | None = None
        self._kept: Counts = (0, 0, 0, 0)  # what the cassette holds, where not all of it got there
        self._writer: Writer | None = None
        self._working: Working | None = None  # where the cassette is text
        self._sessions: list[Session] = []
        self._facts: dict[int, dict[str, str]] = {}
        self._earlier: Counts = (0, 0, 0, 0)  # of the cassettes before this one
        self._limit = 0  # bytes, from which on it may go on in another cassette; see parts.py

    def run(self) -> None:
        """Record all that comes, in a process that does nothing else."""
        gc.set_threshold(_GARBAGE)
        chunks = self._backlog.take() if self._options.when_needed else []
        if self._options.when_needed and not chunks:
            self._say("done 0 0 0 0 ")
            return
        self._open()
        tape = self._begin(0, STDIO, True) if self._options.transport == STDIO else self._sessions_over_http()
        rest = self._play(tape, b"".join(chunks))
        self._store()
        while chunks := self._backlog.take():
            rest = self._play(tape, b"".join((rest, *chunks)))
            self._store()
        tape.end_all(self._at)
        self._store()
        self._finish()

    def _sessions_over_http(self) -> Sessions:
        from .sessions import Sessions  # on stdio there is one

        return Sessions(self._begin)

    def _open(self) -> None:
        try:
            if is_text(self._path):
                from ..cassette.text.working import Working

                self._working = working = Working(self._path)
                self._writer = self._patiently(lambda: Writer(working.file, working.known))
            else:
                self._writer = self._opened(self._path)
        except (Error, CassetteError) as error:
            self._fail(f"cannot write {self._path}: {error}")
            return
        if self._writer.warning:
            self._say(f"warning {self._writer.warning}")

    def _opened(self, path: str) -> Writer:
        return self._patiently(lambda: Writer(path))

    def _patiently(self, write: Callable[[], _T]) -> _T:
        return patiently(write, self._wait)

    def _wait(self, times: int) -> None:
        """Somebody else holds the cassette."""
        if times == 1:
            self._say(f"warning {self._path} is in use: it is recorded as soon as that is over")
        elif self._backlog.closed:
            self._say("alive")  # the relay waits for us to finish

    def _begin(self, at: int, transport: str, legacy: bool) -> Tape:
        """Begin a session and return its tape. One without a session id is of the modern era, or might as well be."""
        options, redactor = self._options, self._redactor
        facts = {
            "started_at": timestamp(self._started + at / 1e6),
            "transport": transport,
            "target": redactor.target(options.target) if redactor else options.target,
            "recorder": f"mcp-tape {__version__}{options.manner}",
            "note": redactor.text(options.note) if redactor and options.note else options.note,
            "run": options.run,
            "label": options.label,
            "extends": options.extends if legacy else options.extends_modern or options.extends,
        }
        session = Session(facts)
        sinks = partial(self._collect, session), partial(self._collect_usual, session)
        session.tape = Tape(sinks[0], self._hiding(), at, options.max_decoded, sinks[1])
        self._number(session)
        self._sessions.append(session)
        return session.tape

    def _hiding(self) -> Redactor | Bodies | None:
        """What hides things in a session."""
        return self._redactor

    def _number(self, session: Session) -> None:
        """Begin a session on the cassette, if that can be written."""
        writer, facts = self._writer, session.facts
        if writer is not None and not self._failed:
            try:
                session.number = self._patiently(lambda: writer.begin(facts))
                self._say(f"session {session.number}")
            except Error as error:
                self._fail(self._why(error))

    def _play(self, tape: Tape | Sessions, data: bytes) -> bytes:
        """Feed whole records to the tape; return the start of one that is not whole yet."""
        at, end = 0, len(data)
        while at + HEAD.size <= end:
            nanoseconds, size, what, name = HEAD.unpack_from(data, at)
            body = at + HEAD.size + name
            if body + size > end:
                break
            channel = data[body - name : body].decode()
            payload = data[body : body + size]
            if self._limit and size and channel and not (what & CONTROL and channel in (STDIO, TAPE)):  # it goes on
                self._turn(tape)
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
            if len(self._batch.frames) >= _BATCH_FRAMES or self._batch.size >= _BATCH_BYTES:
                self._store(more=True)
        return data[at:]

    def _turn(self, tape: Tape | Sessions) -> None:
        """Go on in another cassette, if this one is full."""

    def _control(self, tape: Tape | Sessions, side: Side, channel: str, payload: bytes) -> None:
        facts = orjson.loads(payload)
        self._exit_code = facts.get("code", self._exit_code)
        if facts["event"] == "stop":
            self._stopped = True
        else:
            tape.control(side, channel, facts, self._at)

    def _collect(self, session: Session, frame: Frame, entries: list[Entry]) -> None:
        if session.held is not None:
            self._resume(session)
        if session.number is not None:
            self._batch.add(session.number, frame, entries)

    def _collect_usual(self, session: Session, lines: UsualLines) -> None:
        if session.held is not None:
            self._resume(session)
        if session.number is not None:
            self._batch.add_usual(session.number, lines)

    def _store(self, more: bool = False) -> None:
        """Store what was collected. While `more` waits, frames go first: their messages follow when nothing waits."""
        batch, self._batch = self._batch, Batch()
        writer = self._writer
        if writer is None:
            return
        if batch.frames and not self._failed:
            facts = {s.number: news for s in self._sessions if s.number is not None and (news := self._news(s))}
            later = more or self._backlog.waits or writer.owed > 0
            self._try(lambda: self._append(writer, batch, facts, later))
        while writer.owed and not self._failed and not (more or self._backlog.waits):
            self._try(lambda: self._catch_up(writer))

    def _try(self, store: Callable[[], None]) -> None:
        try:
            store()
        except Error as error:
            self._fail(self._why(error))
        if self._backlog.closed:
            self._say("alive")  # the relay waits for us to finish

    def _append(self, writer: Writer, batch: Batch, facts: dict[int, dict[str, str]], later: bool) -> None:
        try:
            self._patiently(lambda: writer.append(batch, facts, later))
        except RemovedError as removed:
            self._leave(removed)
            rest = batch.without(removed.session)
            if rest.frames:
                facts.pop(removed.session, None)
                self._append(writer, rest, facts, later)
            return
        self._kept = self._counts()
        for number, news in facts.items():
            self._facts.setdefault(number, {}).update(news)

    def _catch_up(self, writer: Writer) -> None:
        try:
            self._patiently(writer.catch_up)
        except RemovedError as removed:
            self._leave(removed)

    def _leave(self, removed: RemovedError) -> None:
        """The others go on, where there may be others."""
        for session in [session for session in self._sessions if session.number == removed.session]:
            session.number = None
            self._sessions.remove(session)
        if self._options.transport == STDIO:
            self._fail(f"cannot write {self._path}: {removed}")
        else:
            self._say(f"warning {removed}: it is no longer recorded")

    def _resume(self, session: Session) -> None:
        """Begin the next part of a session."""
        held, session.held = session.held, None
        self._number(session)
        for frame, entries in held or ():
            self._collect(session, frame, entries)

    def _finish(self) -> None:
        writer, why = self._writer, self._failed or (None if self._is_in_place() else self._why())
        otherwise = KILLED if self._exit_code is None and not self._stopped else None
        for session in list(self._sessions):
            why = self._close(session, why, otherwise) or why
        if writer is not None:
            writer.close()
        if self._working is not None:
            self._become_text(self._working)
        counts = self._kept if self._failed else self._counts()
        self._say(f"done {' '.join(map(str, counts))} {why or ''}")

    def _become_text(self, working: Working) -> None:
        try:
            working.leave()
        except (OSError, CassetteError) as error:
            why = getattr(error, "strerror", None) or error
            self._say(f"warning {why}: what was recorded stays in {working.file}, and is read from there")

    def _counts(self) -> Counts:
        tapes = [session.tape for session in self._sessions]
        frames, exchanges, _, redactions = self._earlier
        return (
            sum((tape.frames for tape in tapes), frames),
            sum((tape.ledger.exchanges for tape in tapes), exchanges),
            sum(tape.ledger.still_open for tape in tapes),
            sum((tape.redactions for tape in tapes), redactions),
        )

    def _close(self, session: Session, why: str | None, otherwise: str | None) -> str | None:
        """Close a session; return why it is incomplete, if it is."""
        writer, number, tape = self._writer, session.number, session.tape
        why = why or tape.incomplete or otherwise
        facts = self._news(session) | {
            "ended_at": timestamp(self._started + self._at / 1e6),
            "exit_code": self._exit_code,
            "incomplete": why,
        }
        if writer is not None and number is not None:
            try:
                self._patiently(lambda: writer.finish(number, facts))
            except RemovedError as removed:
                self._leave(removed)
                return self._failed
            except Error as error:
                return why or self._why(error)
        return why

    def _news(self, session: Session) -> dict[str, str]:
        """The facts of a session that changed since they were written. Others may have been redacted there since."""
        known = self._facts.get(session.number or 0, {})
        return {name: fact for name, fact in session.tape.ledger.facts.items() if known.get(name) != fact}

    def _is_in_place(self) -> bool:
        return self._writer is None or self._writer.is_in_place()

    def _why(self, error: Error | None = None) -> str:
        """The reason that nothing can be written. SQLite may notice first that the file is gone, in other words."""
        if not self._is_in_place():
            return f"{self._path} was moved or deleted while it was being recorded"
        return f"cannot write {self._path}: {error}"

    def _fail(self, why: str) -> None:
        self._failed = why
        self._say(f"failed {why}")

    def _say(self, line: str) -> None:
        try:
            os.write(self._status, line.replace("\n", " ").encode() + b"\n")
        except BrokenPipeError:
            pass  # the relay is gone; the cassette is what counts now


def patiently(write: Callable[[], _T], waited: Callable[[int], None]) -> _T:
    """Retry for a while: another process may hold the file longer than SQLite's busy timeout.

    https://www.sqlite.org/c3ref/busy_timeout.html
    """
    for times in range(1, _TRIES):
        try:
            return write()
        except ReplacedError:
            continue  # nobody holds the new one
        except OperationalError as error:
            if not is_locked(error):
                raise
        waited(times)
    return write()


def _redactor(options: Options) -> Redactor | None:
    if not options.redact:
        return None
    own = options.redact_keys, options.redact_paths, options.redact_values
    rules = Rules(*own, named=options.redact_with, headers=options.headers, environ=os.environ, known=options.known)
    return redactor(rules)


def timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
