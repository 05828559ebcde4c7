"""Standing between a client and a stdio server: threads and blocking pipes, no asyncio.

The relay moves bytes untouched, gives each piece to the recorder before passing it on, and
carries end of file, signals and the exit code across.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from queue import Empty, Queue
from time import monotonic
from typing import TYPE_CHECKING

from ..errors import ServerError

if TYPE_CHECKING:  # start-up is the feature: a Protocol alone costs a millisecond
    from typing import Protocol

    from ..frames import Side

    class Recorder(Protocol):
        """Where copies go. `stream` gives the function that takes the pieces of one stream."""

        def stream(self, side: Side, channel: str) -> Callable[[bytes], None]: ...

        def control(self, side: Side, channel: str, **facts: str | int | None) -> None: ...


# Larger reads are mmapped by the allocator, which costs more than a second read.
CHUNK = 1 << 16
SIGNAL_GRACE = 0.2  # the group may have been signalled with us, and a second TERM often means "force"
KILL_AFTER = 1.5  # SDK clients kill us two seconds after they asked
SILENCE = 0.5  # after the server's exit a grandchild may hold its pipes open
LAST_WORDS = 0.3  # once told to stop there is no time to wait for silence, or for a client that does not read
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1


class Server:
    """A stdio server that was started. Make it on the main thread and before any other thread runs:

    a parent-death signal fires when the thread that started the child ends, and we fork.
    """

    def __init__(self, command: Sequence[str]) -> None:
        _open_standard_streams()
        self.process = start(command)
        self.group = _GroupWatch()
        # Blocked in every thread from here on, and taken by one that does nothing else: a handler would run
        # when the main thread next executes something, and that may have gone to wait just before.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a server with pipes to us; it dies with us."""
    try:
        return subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_die_with_parent(),
        )
    except OSError as error:
        raise ServerError(_not_started(command[0], error)) from None


def relay(server: Server, recorder: Recorder) -> int:
    """Pass everything on until the server is gone; its exit code, 128+n for a signal."""
    return _Relay(server.process, server.group, recorder).run()


class _Relay:
    def __init__(self, server: subprocess.Popen[bytes], group: _GroupWatch, recorder: Recorder) -> None:
        self._server = server
        self._group = group
        self._recorder = recorder
        # Not a SimpleQueue: its get() may miss a short timeout and then wait for ever.
        self._events: Queue[int | _Pump | None] = Queue()
        assert server.stdin and server.stdout and server.stderr
        to_server, from_server = server.stdin.fileno(), server.stdout.fileno()
        self._outputs = {
            _Pump(from_server, 1, recorder.stream("server", "stdio"), lambda: _point_at_null(1), self._events),
            _Pump(server.stderr.fileno(), 2, recorder.stream("server", "stderr"), None, self._events),
        }
        self._input = _Pump(0, to_server, recorder.stream("client", "stdio"), server.stdin.close, self._events)
        self._code: int | None = None
        self._told_to_stop = False
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
        for pump in self._outputs:
            pump.stop()
        self._group.close()
        code: int = self._server.returncode
        code = code if code >= 0 else 128 - code
        self._recorder.control("server", "stdio", event="exit", code=code)
        self._code = code
        return code

    def _take_signals(self) -> None:
        while True:
            number = signal.sigwait(_SIGNALS)
            if signal.getsignal(number) is signal.SIG_IGN:  # nohup stays nohup
                continue
            if self._code is not None:  # only the writer is still busy, and needs nobody for that
                os._exit(self._code)
            self._events.put(number)

    def _reap(self) -> None:
        self._server.wait()
        self._events.put(None)

    def _until_exit(self) -> None:
        while True:
            due = min((at for at in (self._forward_at, self._kill_at) if at is not None), default=None)
            try:
                event = self._events.get(timeout=None if due is None else max(0.0, due - monotonic()))
            except Empty:
                self._act()
                continue
            if event is None:
                return
            if isinstance(event, _Pump):
                self._outputs.discard(event)
            else:
                self._on_signal(event)

    def _on_signal(self, number: int) -> None:
        now = monotonic()
        self._told_to_stop = True
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
        """What the server wrote before it ended, until end of file or silence."""
        ended = monotonic()
        while self._outputs:
            try:
                event = self._events.get(timeout=max(0.0, self._drained_at(ended) - monotonic()))
            except Empty:
                if self._drained_at(ended) <= monotonic():
                    return
                continue
            if isinstance(event, _Pump):
                self._outputs.discard(event)
            elif event is not None:
                return  # told to stop, and the server has

    def _drained_at(self, ended: float) -> float:
        if self._told_to_stop:
            return ended + LAST_WORDS
        return max(ended, *(pump.quiet_since() for pump in self._outputs)) + SILENCE


class _Pump(threading.Thread):
    """Moves one stream, one way."""

    def __init__(
        self,
        source: int,
        target: int,
        record: Callable[[bytes], None],
        at_end: Callable[[], None] | None,
        events: Queue[int | _Pump | None],
    ) -> None:
        super().__init__(daemon=True)
        self._source, self._target = source, target
        self._record = record
        self._at_end = at_end
        self._events = events
        self._since = monotonic()
        self._busy = False
        self._stopped = False

    def quiet_since(self) -> float:
        """When it last moved something; now, while there is something to move or its target is not read."""
        return monotonic() if self._busy or _wait(self._source, select.POLLIN, 0) else self._since

    def stop(self) -> None:
        """What comes from now on is too late to be recorded, so it is not passed on either."""
        self._stopped = True

    def run(self) -> None:
        try:
            self._move()
        except OSError:
            # The reader is gone: let the writer of our source find out as it would have directly.
            _point_at_null(self._source)
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
            self._busy = True
            record(data)  # before it is seen
            if self._stopped:
                return
            write_all(target, data)
            self._since = monotonic()
            self._busy = False
        record(b"")


class _GroupWatch:
    """A child that only shares our process group: a signal that ended it went to the whole group.

    The server then has that signal already, and must not get it twice.
    """

    def __init__(self) -> None:
        reader, self._writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _wait_for_end_of_file(reader)
        os.close(reader)

    def was_signalled(self) -> bool:
        if self._pid == 0:
            return True
        ended, _ = os.waitpid(self._pid, os.WNOHANG)
        if ended:
            self._pid = 0
        return bool(ended)

    def close(self) -> None:
        os.close(self._writer)
        if self._pid:
            os.waitpid(self._pid, 0)


def has_room(target: int) -> bool:
    """Whether a line can be written there without waiting long for whoever reads it."""
    return _wait(target, select.POLLOUT, 500)


def close_descriptors_but(keep: set[int]) -> None:
    """Let go of everything inherited: a pipe that stays open here never ends for others."""
    for name in os.listdir("/dev/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that listed the directory


def _wait_for_end_of_file(reader: int) -> None:
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # not an exception in a copy of our caller
        close_descriptors_but({reader})
        os.read(reader, 1)
    finally:
        os._exit(0)


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, CHUNK)
        except BlockingIOError:  # somebody left it non-blocking
            _wait(source, select.POLLIN)
        except OSError:
            return b""  # a terminal that went away


def write_all(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(target, rest) :]
        except BlockingIOError:
            _wait(target, select.POLLOUT)


def _wait(descriptor: int, event: int, milliseconds: int | None = None) -> bool:
    ready = select.poll()
    ready.register(descriptor, event)
    return bool(ready.poll(milliseconds))


def _null() -> int:
    return os.open(os.devnull, os.O_RDWR)


def _point_at_null(descriptor: int) -> None:
    """Close it, but never leave its number free, or the next file opened would be our stdout."""
    null = _null()
    os.dup2(null, descriptor)
    os.close(null)


def _open_standard_streams() -> None:
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            _null()  # takes the lowest free number, which is this one


def _die_with_parent() -> Callable[[], None] | None:
    """On Linux the kernel kills the server when we die, however we die."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def set_death_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # died before it was set
            os._exit(1)

    return set_death_signal


def _not_started(name: str, error: OSError) -> str:
    from shutil import which

    if os.path.isdir(name):
        return f"cannot start the server: {name!r} is a directory; give the command that runs it"
    if isinstance(error, FileNotFoundError) or not name:
        if which(name):
            return f"cannot start the server {name!r}: the interpreter in its first line does not exist"
        return f"cannot start the server: there is no command {name!r}; check its spelling and the PATH"
    if isinstance(error, PermissionError):
        return f"cannot start the server: {name!r} is not executable; try: chmod +x {name}"
    return f"cannot start the server {name!r}: {error.strerror}"
