"""The relay's end of recording: hands every piece of traffic to the writer before it is passed on.

If the relay dies, everything in the pipe is kept; if the writer dies, the traffic goes on. Imports nothing heavy, for a
fast start.
"""

from __future__ import annotations

import os
import struct
import threading
from time import monotonic, monotonic_ns

from ..system import calls, processes
from ..wire.channels import SIGNALLED, TAPE

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..wire.frames import Side

    class Taker(Protocol):
        """Takes copies of a transport's traffic: a recorder, or one that drops them."""

        def stream(self, side: Side, channel: str) -> Callable[[bytes], None]: ...

        def control(self, side: Side, channel: str, **facts: str | int | dict[str, str] | None) -> None: ...

        def record_signal(self, number: int) -> None: ...

        def close(self) -> RecordingSummary: ...


# One record in the pipe: time, length, flags, length of the channel's name; then name and bytes.
HEAD = struct.Struct("<QIBB")
SERVER, CONTROL = 1, 2  # flags
HEAD_START = 0.05  # seconds for the server before the writer's own imports; meanwhile the pipe buffers the traffic
# Seconds that a completely idle writer may hold us up: it was stopped, or its disk hangs. If the system does not report
# the processor time of other processes, a slow redaction looks the same.
_STUCK_AFTER = 5.0 if processes.REPORTS_WORK else 30.0
_TOO_LONG = 60.0  # seconds, even if it computes: the client is waiting
_MUCH_TOO_LONG = 600.0  # seconds, after the last traffic


class RecordingSummary:
    def __init__(self) -> None:
        self.sessions: list[range] = []  # their numbers on the last cassette; a recording may go on for years
        self.frames = 0
        self.exchanges = 0
        self.still_open = 0
        self.redactions = 0
        self.incomplete: str | None = None
        self.cassettes: list[str] = []  # without the first

    def add_session(self, number: int) -> None:
        newest = self.sessions.pop() if self.sessions and self.sessions[-1].stop == number else range(number, number)
        self.sessions.append(range(newest.start, number + 1))


class Recorder:
    """The relay's end: takes copies of the traffic, never makes it fail, and warns at once if the writer is gone."""

    def __init__(self, path: str, write: Callable[[int, int], None], warn: Callable[[str], None]) -> None:
        """`write(reader, status)` is the writer's work, in a process of its own."""
        self._path = path
        self._warn = warn
        self._lock = threading.Lock()
        self._zero = monotonic_ns()
        self._summary = RecordingSummary()
        self._done = False
        self._writer = processes.WriterProcess(write)
        self._is_open = True
        self._pulse = _Pulse(self._writer)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def stream(self, side: Side, channel: str) -> Callable[[bytes], None]:
        """Return the function that takes the pieces of one stream; b"" ends the stream."""
        what, name = side == "server", channel.encode()
        return lambda data: self._put(what, name, data)

    def control(self, side: Side, channel: str, **facts: str | int | dict[str, str] | None) -> None:
        """Record an event other than traffic: a request, a response, an exit."""
        from ..wire.jsontext import dumps

        self._put((side == "server") | CONTROL, channel.encode(), dumps(facts).encode())

    def record_signal(self, number: int) -> None:
        """Record a signal that asks us to stop. Call it before recording any of its consequences."""
        self.control("server", TAPE, event=SIGNALLED, number=int(number))

    def close(self) -> RecordingSummary:
        """Wait for the writer to store everything, as long as it shows signs of life."""
        with self._lock:
            if self._close_pipe():
                self._pulse.beat()
        while self._listener.is_alive() and self._pulse.is_there(_MUCH_TOO_LONG):
            self._listener.join(0.1)
        if self._listener.is_alive():
            self._summary.incomplete = self._summary.incomplete or "the recording process does not answer"
        if self._summary.incomplete and not self._done:
            self._mark_incomplete()
        return self._summary

    def _put(self, what: int, channel: bytes, data: bytes) -> None:
        with self._lock:
            if not self._is_open:
                return
            head = HEAD.pack(monotonic_ns() - self._zero, len(data), what, len(channel)) + channel
            try:
                written = self._writer.put(head, data)
            except BrokenPipeError:
                self._abandon("the recording process has died")
                return
            if written < len(head) + len(data):
                self._put_rest(memoryview(head + data)[written:])

    def _put_rest(self, rest: memoryview) -> None:
        """Wait until the full pipe has room for the rest, unless the writer has stopped."""
        self._pulse.beat()
        try:
            while rest:
                if self._writer.has_room(0.1):
                    rest = self._put_some(rest)
                elif not self._pulse.is_there(_TOO_LONG):
                    self._abandon("the recording process is stuck")
                    return
        except BrokenPipeError:
            self._abandon("the recording process has died")

    def _put_some(self, rest: memoryview) -> memoryview:
        written = self._writer.put(b"", rest)
        if written:
            self._pulse.beat()
        return rest[written:]

    def _abandon(self, why: str) -> None:
        self._close_pipe()
        self._trouble(why)

    def _close_pipe(self) -> bool:
        """Close the pipe; return whether it was open."""
        was_open, self._is_open = self._is_open, False
        if was_open:
            os.close(self._writer.pipe)
        return was_open

    def _trouble(self, why: str) -> None:
        if self._summary.incomplete is None:
            self._summary.incomplete = why
            self._warn(f"{why}: the conversation goes on, but it is no longer recorded")

    def _listen(self) -> None:
        with open(self._writer.status, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._pulse.beat()
                word, _, rest = line.rstrip("\n").partition(" ")
                if word == "session":
                    self._summary.add_session(int(rest))
                elif word == "cassette":
                    self._path, self._summary.sessions = rest, []
                    self._summary.cassettes.append(rest)
                elif word == "warning":
                    self._warn(rest)
                elif word == "failed":
                    self._trouble(rest)
                elif word == "done":
                    self._finish(rest)
        if not self._done:
            self._trouble("the recording process has died")
        self._writer.wait()  # the pipe ends just before the process: wait, so that none is left when we return

    def _finish(self, rest: str) -> None:
        *counts, why = rest.split(" ", 4)
        summary = self._summary
        summary.frames, summary.exchanges, summary.still_open, summary.redactions = map(int, counts)
        summary.incomplete = summary.incomplete or why or None
        self._done = True

    def _mark_incomplete(self) -> None:
        from sqlite3 import Error

        from ..cassette.text.recognize import recorder_database
        from ..cassette.writer import mark_incomplete
        from ..errors import CassetteError

        if not self._summary.sessions or self._summary.incomplete is None:
            return
        try:
            numbers = (number for together in self._summary.sessions for number in together)
            mark_incomplete(recorder_database(self._path), numbers, self._summary.incomplete)
        except (Error, CassetteError):
            pass  # until a session is closed, its row marks it as not closed


class StatusPipe:
    """Sends lines to the relay. If the relay is gone they are dropped: the cassette matters more."""

    def __init__(self, status: int) -> None:
        self._status = status

    def send(self, line: str) -> None:
        try:
            os.write(self._status, line.replace("\n", " ").encode() + b"\n")
        except OSError as error:
            if not calls.is_gone(error):
                raise

    def warn(self, text: str) -> None:
        """Send a warning for the user."""
        self.send(f"warning {text}")

    def send_alive(self) -> None:
        """Report that work is still in progress."""
        self.send("alive")


class _Pulse:
    """The writer's signs of life: it reads, reports, or at least computes."""

    def __init__(self, writer: processes.WriterProcess) -> None:
        self._writer = writer
        self.beat()

    def beat(self) -> None:
        self._heard = self._seen = monotonic()
        self._computed = self._writer.processor_time()

    def is_there(self, too_long: float) -> bool:
        now, computed = monotonic(), self._writer.processor_time()
        if computed != self._computed:
            self._seen, self._computed = now, computed
        return now - self._seen < _STUCK_AFTER and now - self._heard < too_long
