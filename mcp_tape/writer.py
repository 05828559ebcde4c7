"""The recording process: pipe to tape to cassette.

Runs in a process session of its own, forked by the recorder, and ends when the pipe does. A bug, an
expensive redaction or a slow disk here does not touch the traffic until the queue is full.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from sqlite3 import Error, OperationalError
from time import sleep, time
from typing import Any, TypeVar

import orjson

from . import __version__
from .cassette import Batch, Writer, is_locked
from .errors import CassetteError
from .frames import Entry, Frame, Side
from .recorder import CONTROL, HEAD, PIPE_BYTES, SERVER, Options
from .redact import Redactor
from .tape import Tape

_T = TypeVar("_T")
_QUEUE_BYTES = 64 << 20
_LINE_BYTES = 4096  # a line weighs this much more: what waits here must be stored soon after a kill, however short
_NAP = 0.02  # between two looks at the pipe, so that the writer wakes rarely
_BATCH_FRAMES, _BATCH_BYTES = 2_000, 4 << 20  # per transaction, at the most


class _Queue:
    """Bounded by weight. Draining the pipe and storing are two threads: a slow disk stops only one."""

    def __init__(self) -> None:
        self._ready = threading.Condition()
        self._chunks: list[bytes] = []
        self._weight = 0  # of the chunks and of what was taken last, which is not stored yet
        self._taken = 0
        self.closed = False

    def drain(self, reader: int) -> None:
        readable = select.poll()
        readable.register(reader, select.POLLIN)
        busy = False
        while True:
            if not busy and readable.poll() == [(reader, select.POLLIN)]:
                sleep(_NAP)  # let some more come together
            chunk = os.read(reader, PIPE_BYTES)
            busy = len(chunk) > PIPE_BYTES // 16
            with self._ready:
                self._ready.wait_for(lambda: self._weight < _QUEUE_BYTES)
                if chunk:
                    self._chunks.append(chunk)
                    self._weight += len(chunk) + _LINE_BYTES * chunk.count(b"\n")
                self.closed = not chunk
                self._ready.notify_all()
            if not chunk:
                return

    def take(self) -> list[bytes]:
        """What has come, waiting for it; nothing at the end. What was taken before is done with."""
        with self._ready:
            self._weight -= self._taken
            self._ready.notify_all()
            self._ready.wait_for(lambda: self._chunks or self.closed)
            chunks, self._chunks, self._taken = self._chunks, [], self._weight
            return chunks


class Recording:
    """Pipe to tape to cassette."""

    def __init__(self, reader: int, status: int, path: str, options: Options) -> None:
        self._status = status
        self._path = path
        self._options = options
        self._queue = _Queue()
        self._batch: Batch = []
        self._batch_bytes = 0
        self._started = time()
        self._at = 0
        self._exit_code: int | None = None
        self._failed: str | None = None
        self._writer: Writer | None = None
        self._facts: dict[str, str] = {}
        threading.Thread(target=self._queue.drain, args=(reader,), daemon=True).start()

    def run(self) -> None:
        chunks = self._queue.take() if self._options.when_needed else []
        if self._options.when_needed and not chunks:
            self._say("done 0 0 0 0 ")
            return
        tape = self._tape()
        rest = self._play(tape, b"".join(chunks))
        self._store(tape)
        while chunks := self._queue.take():
            rest = self._play(tape, b"".join((rest, *chunks)))
            self._store(tape)
        tape.end_all(self._at)
        self._store(tape)
        self._finish(tape)

    def _tape(self) -> Tape:
        options, redactor = self._options, None
        target = options.target
        if options.redact:
            redactor = Redactor(os.environ, options.redact_keys, options.redact_paths, options.redact_values)
            target = target | {"command": redactor.arguments(target["command"])}
        self._open(target)
        return Tape(self._collect, redactor)

    def _open(self, target: dict[str, Any]) -> None:
        facts = {
            "started_at": _timestamp(self._started),
            "transport": self._options.transport,
            "target": target,
            "recorder": f"mcp-tape {__version__}",
            "note": self._options.note,
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
        if self._queue.closed:
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
