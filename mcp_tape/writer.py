"""The recording process: pipe to tape to cassette.

Runs in a process session of its own, forked by the recorder, and ends when the pipe does. A bug, an
expensive redaction or a slow disk here does not touch the traffic until the queue is full.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timezone
from sqlite3 import Error, OperationalError
from time import time
from typing import Any, TypeVar

import orjson

from . import __version__
from .backlog import Backlog
from .database import is_locked
from .errors import CassetteError
from .frames import Entry, Frame, Side
from .recorder import CONTROL, HEAD, SERVER, Options
from .redact import Redactor
from .storage import Batch, Writer
from .tape import Tape

_T = TypeVar("_T")
_BATCH_FRAMES, _BATCH_BYTES = 2_000, 4 << 20  # per transaction, at the most


class Recording:
    """Pipe to tape to cassette."""

    def __init__(self, backlog: Backlog, status: int, path: str, options: Options) -> None:
        self._status = status
        self._path = path
        self._options = options
        self._backlog = backlog
        self._batch: Batch = []
        self._batch_bytes = 0
        self._started = time()
        self._at = 0
        self._exit_code: int | None = None
        self._failed: str | None = None
        self._writer: Writer | None = None
        self._facts: dict[str, str] = {}

    def run(self) -> None:
        chunks = self._backlog.take() if self._options.when_needed else []
        if self._options.when_needed and not chunks:
            self._say("done 0 0 0 0 ")
            return
        tape = self._tape()
        rest = self._play(tape, b"".join(chunks))
        self._store(tape)
        while chunks := self._backlog.take():
            rest = self._play(tape, b"".join((rest, *chunks)))
            self._store(tape)
        tape.end_all(self._at)
        self._store(tape)
        self._finish(tape)

    def _tape(self) -> Tape:
        options, redactor = self._options, None
        target, note = options.target, options.note
        if options.redact:
            redactor = Redactor(os.environ, options.redact_keys, options.redact_paths, options.redact_values)
            target = target | {"command": redactor.arguments(target["command"])}
            note = redactor.text(note) if note else note
        self._open(target, note)
        return Tape(self._collect, redactor)

    def _open(self, target: dict[str, Any], note: str | None) -> None:
        facts = {
            "started_at": _timestamp(self._started),
            "transport": self._options.transport,
            "target": target,
            "recorder": f"mcp-tape {__version__}",
            "note": note,
            "run": self._options.run,
            "extends": self._options.extends,
        }
        try:
            self._writer = _patiently(lambda: Writer(self._path, facts))
        except (Error, CassetteError) as error:
            self._fail(f"cannot write {self._path}: {error}")
            return
        self._say(f"session {self._writer.session}")
        if self._writer.warning:
            self._say(f"warning {self._writer.warning}")

    def _play(self, tape: Tape, data: bytes) -> bytes:
        """Feed whole records to the tape; the start of one that is not whole yet is given back."""
        at, end = 0, len(data)
        while at + HEAD.size <= end:
            nanoseconds, size, what, name = HEAD.unpack_from(data, at)
            body = at + HEAD.size + name
            if body + size > end:
                break
            channel = data[body - name : body].decode()
            payload = data[body : body + size]
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
            if len(self._batch) >= _BATCH_FRAMES or self._batch_bytes >= _BATCH_BYTES:
                self._store(tape)
        return data[at:]

    def _control(self, tape: Tape, side: Side, channel: str, payload: bytes) -> None:
        facts = orjson.loads(payload)
        self._exit_code = facts.get("code", self._exit_code)
        tape.control(side, channel, facts, self._at)

    def _collect(self, frame: Frame, entries: list[Entry]) -> None:
        self._batch.append((frame, entries))
        self._batch_bytes += len(frame.text)

    def _store(self, tape: Tape) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch or self._writer is None or self._failed:
            return
        facts = {} if tape.ledger.facts == self._facts else dict(tape.ledger.facts)
        writer = self._writer
        try:
            _patiently(lambda: writer.append(batch, facts))
            self._facts = facts or self._facts
        except Error as error:
            self._fail(f"cannot write {self._path}: {error}")
        if self._backlog.closed:
            self._say("alive")  # the relay waits for us to finish

    def _finish(self, tape: Tape) -> None:
        why = self._failed or tape.incomplete
        writer = self._writer
        if writer is not None and not writer.is_in_place():
            why = why or f"{self._path} was moved or deleted while it was being recorded"
        if self._exit_code is None and why is None:
            why = "mcp-tape was killed; what it had passed on by then is here"
        facts = tape.ledger.facts | {
            "ended_at": _timestamp(self._started + self._at / 1e6),
            "exit_code": self._exit_code,
            "incomplete": why,
        }
        if writer is not None:
            try:
                _patiently(lambda: writer.finish(facts))
            except Error as error:
                why = why or f"cannot write {self._path}: {error}"
            writer.close()
        ledger = tape.ledger
        self._say(f"done {tape.frames} {ledger.exchanges} {ledger.still_open} {tape.redactions} {why or ''}")

    def _fail(self, why: str) -> None:
        self._failed = why
        self._say(f"failed {why}")

    def _say(self, line: str) -> None:
        try:
            os.write(self._status, line.replace("\n", " ").encode() + b"\n")
        except BrokenPipeError:
            pass  # the relay is gone; the cassette is what counts now


def _patiently(write: Callable[[], _T]) -> _T:
    """Another process may hold the file longer than SQLite waits: try again, then give up."""
    for _ in range(2):
        try:
            return write()
        except OperationalError as error:
            if not is_locked(error):
                raise
    return write()


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
