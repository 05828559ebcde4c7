"""The relay's end of recording: hands every piece of traffic to the writer before it is passed on.

If the relay dies, everything in the pipe is kept; if the writer dies, the traffic goes on. Imports nothing heavy, for a
fast start.
"""

from __future__ import annotations

import os
import select
import struct
import sys
import threading
from time import clock_gettime, monotonic, monotonic_ns

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
PIPE_BYTES = 1 << 17  # small enough to be stored soon after a kill
HEAD_START = 0.05  # seconds for the server before the writer's own imports; meanwhile the pipe buffers the traffic
# Seconds that a completely idle writer may hold us up: it was stopped, or its disk hangs. If the system does not report
# the processor time of other processes, a slow redaction looks the same.
_STUCK_AFTER = 5.0 if sys.platform == "linux" else 30.0
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
        reader, self._pipe = os.pipe()
        status, status_writer = os.pipe()
        writer = os.fork()
        if writer == 0:
            _run_writer(reader, status_writer, write)
        os.close(reader)
        os.close(status_writer)
        _grow(self._pipe)
        os.set_blocking(self._pipe, False)
        os.read(status, 1)  # the writer has left our process group, so signals to the group no longer reach it
        self._pulse = _Pulse(writer)
        self._listener = threading.Thread(target=self._listen, args=(status, writer), daemon=True)
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
            if self._pipe < 0:
                return
            head = HEAD.pack(monotonic_ns() - self._zero, len(data), what, len(channel)) + channel
            try:
                written = os.writev(self._pipe, (head, data))
            except BlockingIOError:
                written = 0
            except BrokenPipeError:
                self._abandon("the recording process has died")
                return
            if written < len(head) + len(data):
                self._put_rest(memoryview(head + data)[written:])

    def _put_rest(self, rest: memoryview) -> None:
        """Wait until the full pipe has room for the rest, unless the writer has stopped."""
        room = select.poll()
        room.register(self._pipe, select.POLLOUT)
        self._pulse.beat()
        try:
            while rest:
                if room.poll(100):
                    rest = self._put_some(rest)
                elif not self._pulse.is_there(_TOO_LONG):
                    self._abandon("the recording process is stuck")
                    return
        except BrokenPipeError:
            self._abandon("the recording process has died")

    def _put_some(self, rest: memoryview) -> memoryview:
        try:
            rest = rest[os.write(self._pipe, rest) :]
            self._pulse.beat()
        except BlockingIOError:
            pass
        return rest

    def _abandon(self, why: str) -> None:
        self._close_pipe()
        self._trouble(why)

    def _close_pipe(self) -> bool:
        """Close the pipe; return whether it was open."""
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)
        return pipe >= 0

    def _trouble(self, why: str) -> None:
        if self._summary.incomplete is None:
            self._summary.incomplete = why
            self._warn(f"{why}: the conversation goes on, but it is no longer recorded")

    def _listen(self, status: int, writer: int) -> None:
        with open(status, encoding="utf-8", errors="replace") as lines:
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
        try:
            os.waitpid(writer, 0)  # the pipe ends just before the process: wait, so that none is left when we return
        except ChildProcessError:
            pass  # our caller ignores SIGCHLD, so the system has reaped it

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
        except BrokenPipeError:
            pass

    def warn(self, text: str) -> None:
        """Send a warning for the user."""
        self.send(f"warning {text}")

    def send_alive(self) -> None:
        """Report that work is still in progress."""
        self.send("alive")


class _Pulse:
    """The writer's signs of life: it reads, reports, or at least computes."""

    def __init__(self, writer: int) -> None:
        self._writer = writer
        self.beat()

    def beat(self) -> None:
        self._heard = self._seen = monotonic()
        self._computed = _processor_time(self._writer)

    def is_there(self, too_long: float) -> bool:
        now, computed = monotonic(), _processor_time(self._writer)
        if computed != self._computed:
            self._seen, self._computed = now, computed
        return now - self._seen < _STUCK_AFTER and now - self._heard < too_long


def _processor_time(process: int) -> float | None:
    """The processor time that a process has used; None if the system does not report it."""
    if sys.platform != "linux":
        return None
    try:
        return clock_gettime(~process << 3 | 2)  # the clock id that clock_getcpuclockid(3) computes
    except OSError:
        return None


def _grow(pipe: int) -> None:
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            pass  # over this user's allowance: a small pipe is slower, not wrong


def point_at_null(descriptor: int) -> None:
    """Close a descriptor but keep its number taken, so that the next file does not get it."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)


def close_descriptors_but(keep: set[int]) -> None:
    """Close all other inherited descriptors: a pipe held open here would never end for other processes."""
    for name in os.listdir("/dev/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself


def _run_writer(reader: int, status: int, write: Callable[[int, int], None]) -> None:
    """Run the writer in the forked process, outside our process group and without our pipes. Never returns."""
    code = 1
    try:
        os.setsid()
        for descriptor in (0, 1, 2):
            point_at_null(descriptor)
        close_descriptors_but({0, 1, 2, reader, status})
        os.write(status, b"\n")
        _preempt_nobody()
        write(reader, status)
        code = 0
    except Exception as error:  # top level of this process: report why it ends
        os.write(status, f"failed the recording process has failed ({error!r})\n".encode())
    finally:
        os._exit(code)


def _preempt_nobody() -> None:
    """Let running processes finish their time slice, then take a full share of the processor.

    A lower priority would starve the writer on a busy machine, and traffic would reach the disk many seconds late.
    See SCHED_BATCH in sched(7).
    """
    if sys.platform == "linux":
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except OSError:
            pass  # not allowed in this container: the default policy stays
