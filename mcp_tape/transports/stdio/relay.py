"""The relay between a client and a stdio server: threads and blocking pipes, no asyncio.

It passes bytes on unchanged, each piece after the recorder has it, and also passes on end of file, signals and the exit
code.
"""

from __future__ import annotations

import errno
import os
import threading
from time import monotonic, sleep

from ...light import deque
from ...system import calls, processes
from ...wire.channels import STDERR, STDIO
from ..process import ServerProcess
from ..signals import OTHERS, SIGNALS, signal

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...record.recorder import Recorder

_LOOK_AGAIN = 0.5  # seconds
# The allocator mmaps larger reads, which costs more than a second read.
CHUNK = 1 << 16
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SIGNAL_GRACE = 0.2  # the group may have been signalled with us, and a second TERM often means "force"
KILL_AFTER = 1.5  # SDK clients kill us two seconds after SIGTERM
SILENCE = 0.5  # after the server's exit a grandchild may hold its pipes open
LAST_WORDS = 0.3  # after a signal: no time to wait for silence, or for a client that does not read


def relay(server: ServerProcess, recorder: Recorder, warn: Callable[[str], None]) -> int:
    """Relay until the server ends; return its exit code, 128+n for a signal."""
    return _Relay(server.process, server.group, recorder, warn).run()


class _Relay:
    def __init__(
        self,
        server: processes.Child,
        group: processes.GroupWatch,
        recorder: Recorder,
        warn: Callable[[str], None],
    ) -> None:
        self._server = server
        self._group = group
        self._recorder = recorder
        self._events = _Events()
        from_client, to_server = recorder.stream("client", STDIO), server.stdin
        self._outputs = {
            _Pump(server.stdout, 1, recorder.stream("server", STDIO), _end_output, self._events, warn),
            _Pump(server.stderr, 2, recorder.stream("server", STDERR), None, self._events, warn),
        }
        self._input = _Pump(0, to_server, from_client, lambda: os.close(to_server), self._events, warn)
        self._code: int | None = None
        self._is_told = False  # a signal to stop has arrived, and is recorded
        self._is_stopping = False
        self._signalled: list[int] = []  # received, not yet passed on
        self._forward_at: float | None = None
        self._kill_at: float | None = None

    def run(self) -> int:
        for work in (self._take_signals, self._reap):
            threading.Thread(target=work, daemon=True).start()
        for pump in (*self._outputs, self._input):
            pump.start()
        self._until_exit()
        self._drain()
        self._wait_for_signal()
        for pump in self._outputs:
            pump.stop()
        self._group.close()
        code = self._server.returncode or 0
        code = code if code >= 0 else 128 - code
        self._recorder.control("server", STDIO, event="exit", code=code)
        self._code = code
        return code

    def _take_signals(self) -> None:
        while True:
            number, is_from_terminal = processes.next_signal({*SIGNALS, *OTHERS})
            if signal.getsignal(number) is signal.SIG_IGN:  # nohup stays nohup
                continue
            if number in OTHERS:
                if not is_from_terminal:  # a terminal sends it to the server, too
                    self._server.send_signal(number)
                continue
            if self._code is not None:  # only the writer is still busy, and it can finish without us
                sleep(KILL_AFTER)
                os._exit(self._code)
            # Recorded before its effects, so that the tape shows who ended the session.
            self._recorder.record_signal(number)
            self._is_told = True
            self._events.put(number)

    def _reap(self) -> None:
        self._server.wait()
        self._events.put(None)

    def _until_exit(self) -> None:
        while True:
            due = min((at for at in (self._forward_at, self._kill_at) if at is not None), default=None)
            if not self._events.wait(None if due is None else due - monotonic()):
                self._act()
                continue
            event = self._events.take()
            if event is None:
                return
            if isinstance(event, _Pump):
                self._outputs.discard(event)
            else:
                self._on_signal(event)

    def _on_signal(self, number: int) -> None:
        now = monotonic()
        self._is_stopping = True
        self._signalled.append(number)
        self._forward_at = self._forward_at or now + SIGNAL_GRACE
        self._kill_at = self._kill_at or now + KILL_AFTER

    def _act(self) -> None:
        now = monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._server.kill()
        if self._forward_at is not None and now >= self._forward_at:
            self._forward_at = None
            for number in [] if self._group.was_signalled() else self._signalled:
                self._server.send_signal(number)
            self._signalled.clear()

    def _drain(self) -> None:
        """Pass on the last output of an ended server, until end of file or silence."""
        ended = monotonic()
        while self._outputs:
            if not self._events.wait(self._drained_at(ended) - monotonic()):
                if self._drained_at(ended) <= monotonic():
                    return
                continue
            event = self._events.take()
            if isinstance(event, _Pump):
                self._outputs.discard(event)
            elif event is not None:
                return  # a signal, and the server has ended

    def _wait_for_signal(self) -> None:
        """If a signal ended the server, wait briefly for our own copy: it may have gone to our whole group."""
        end = monotonic() + SIGNAL_GRACE
        while -(self._server.returncode or 0) in SIGNALS and not self._is_told:
            if not self._events.wait(end - monotonic()):
                return
            self._events.take()

    def _drained_at(self, ended: float) -> float:
        if self._is_stopping:
            return ended + LAST_WORDS
        return max(ended, *(pump.quiet_since() for pump in self._outputs)) + SILENCE


def _end_output() -> None:
    calls.point_at_null(1)


class _Events:
    """A queue of events: a signal to pass on, the end of a stream (a pump), None for the end of the server."""

    def __init__(self) -> None:
        self._waiting: deque[int | _Pump | None] = deque()
        self._some = threading.Condition()

    def put(self, event: int | _Pump | None) -> None:
        with self._some:
            self._waiting.append(event)
            self._some.notify()

    def wait(self, seconds: float | None) -> bool:
        """Wait for an event, up to a timeout; return whether there is one.

        Looks again every `_LOOK_AGAIN` seconds: an event may come between the check and the wait, which nothing wakes.
        """
        end = None if seconds is None else monotonic() + seconds
        with self._some:
            while not self._waiting:
                left = _LOOK_AGAIN if end is None else min(end - monotonic(), _LOOK_AGAIN)
                if left <= 0:
                    return False
                self._some.wait(left)
            return True

    def take(self) -> int | _Pump | None:
        return self._waiting.popleft()


class _Pump(threading.Thread):
    """One stream, moved one way."""

    def __init__(
        self,
        source: int,
        target: int,
        record: Callable[[bytes], None],
        at_end: Callable[[], None] | None,
        events: _Events,
        warn: Callable[[str], None],
    ) -> None:
        super().__init__(daemon=True)
        self._source, self._target = source, target
        self._record = record
        self._at_end = at_end
        self._events = events
        self._warn = warn
        self._is_full = False  # the target's disk
        self._since = monotonic()
        self._busy = False
        self._gate = threading.Lock()  # so that exactly the recorded data is passed on
        self._stopped = False

    def quiet_since(self) -> float:
        """The time of the last transfer; now, if data is waiting at either end."""
        return monotonic() if self._busy or calls.wait(self._source, calls.POLLIN, 0) else self._since

    def stop(self) -> None:
        """Pass nothing more on: it could no longer be recorded."""
        with self._gate:
            self._stopped = True

    def run(self) -> None:
        try:
            self._move()
        except OSError:
            # The reader is gone: let the writer of our source see a broken pipe, as without us.
            calls.point_at_null(self._source)
        finally:
            if self._at_end:
                try:
                    self._at_end()
                except OSError:
                    pass  # the pipe was broken already
            self._events.put(self)

    def _move(self) -> None:
        source, target, record = self._source, self._target, self._record
        while data := _read(source):
            with self._gate:
                if self._stopped:
                    return
                self._busy = True
                record(data)  # before passing it on
            try:
                write_all(target, data)
            except OSError as error:
                self._lose(error)
            self._since = monotonic()
            self._busy = False
        record(b"")

    def _lose(self, error: OSError) -> None:
        """Go on if the disk of the target is full, so that the server runs to its end and sets the exit code."""
        if error.errno not in _FULL:
            raise error
        if not self._is_full:
            self._is_full = True
            name = {1: "stdout", 2: "stderr"}.get(self._target, "stdin")
            self._warn(f"{name} cannot be written ({error.strerror}): some of it is only on the cassette")


def has_room(target: int) -> bool:
    """Return whether a line can be written soon: waits half a second for the reader."""
    return calls.wait(target, calls.POLLOUT, 500)


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, CHUNK)
        except BlockingIOError:  # another process made it non-blocking
            calls.wait(source, calls.POLLIN)
        except OSError:
            return b""  # a closed terminal


def write_all(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(target, rest) :]
        except BlockingIOError:
            calls.wait(target, calls.POLLOUT)
