"""A live stdio server beside a replay: started at the first miss, recorded, and ended with the client."""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...errors import ServerError
from ...replay.live import Episodes
from ...replay.sends import NO_HEADERS
from ...system import calls
from ...wire import frames
from ...wire.channels import STDERR, STDIO
from ...wire.framing import Lines
from ..process import Around
from ..programs import start_server
from . import relay

if TYPE_CHECKING:
    from ...record.recorder import Recorder
    from ...replay.sends import Action, ClientCall, Headers
    from ...replay.stage import Stage

_PATIENCE = 2.0  # seconds for each step of ending the server, as in SDK clients
_ANSWER = 10.0  # seconds for answers after the client has closed its output


class LivePlayer:
    """A player around another one: moves lines between a live server and `Episodes`.

    Each line is recorded before it is passed on.
    """

    def __init__(self, command: Sequence[str], around: Around, recorder: Recorder, stage: Stage) -> None:
        self._command = command
        self._around = around
        self._stage = stage
        self._recorder = recorder
        self.episodes = Episodes(self._start, stage.note, stage.overhear, prefix=stage.replays_prefix)
        self._player, deck = stage.player(self.episodes.pass_on)
        self.episodes.attach(deck)
        self._process: subprocess.Popen[bytes] | None = None
        self._lines = Lines()
        self._to_server = recorder.stream("client", STDIO)
        self._from_server = recorder.stream("server", STDIO)
        self._stderr = recorder.stream("server", STDERR)
        self._left_at: float | None = None
        self._pushes: list[tuple[float, Callable[[], object]]] = []
        self.watched: dict[int, Callable[[], None]] = {}
        self.unsent: dict[int, Callable[[], None]] = {}
        self._input: _Outlet | None = None
        self._echo = _Outlet(2, self.unsent)

    def _start(self, call: ClientCall) -> None:
        try:
            process = self._process = start_server(self._command, self._around)
        except ServerError as error:
            self._stage.fail(error)
            raise
        self._stage.note(f"a miss: starting the live server; {self.episodes.prelude_text}")
        assert process.stdin and process.stdout and process.stderr
        self._input = _Outlet(process.stdin.fileno(), self.unsent)
        self.watched[process.stdout.fileno()] = self._read_output
        self.watched[process.stderr.fileno()] = self._read_stderr

    def _flush(self) -> None:
        for message in self.episodes.take_for_live():
            assert self._input and self._process and self._process.stdin
            if not self._process.stdin.closed:  # else it is too late
                self._input.put(message.text + b"\n", None if message.is_earlier else self._to_server)

    # -- the player that `serve` uses

    def receive(
        self,
        text: bytes,
        channel: str,
        now: float,
        parsed: frames.Parsed | None = None,
        headers: Headers = NO_HEADERS,
    ) -> None:
        parsed = parsed or frames.parse(text)
        left = self.episodes.hear(text, parsed=parsed)
        if left is not None:
            self._player.receive(left, channel, now, parsed if left is text else None, headers)

    def due(self, now: float) -> list[Action]:
        self._flush()
        if self._left_at is not None and (self._owes_nothing() or now >= self._left_at + _ANSWER):
            self._close_input(now)
        while self._pushes and self._pushes[0][0] <= now:
            self._pushes.pop(0)[1]()
        learned = self.episodes.take_for_client()
        return [*self._player.due(now), *learned]

    def next_at(self) -> float | None:
        times = [self._player.next_at(), self._pushes[0][0] if self._pushes else None]
        times.append(None if self._left_at is None else self._left_at + _ANSWER)
        return min((at for at in times if at is not None), default=None)

    def leave(self, now: float) -> None:
        """Note that the client has left. Wait a while for answers of the live server."""
        self._player.leave(now)
        self._left_at = now if self._process is not None else None

    def abandon(self, channel: str) -> None:
        self._player.abandon(channel)

    def _owes_nothing(self) -> bool:
        return self.episodes.is_idle and not (self._input and self._input.is_waiting)

    def _close_input(self, now: float) -> None:
        """Close the server's input, and wait for its end no longer than clients do.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown
        """
        process, self._left_at = self._process, None
        assert process and process.stdin and self._input
        self._input.forget()
        self._to_server(b"")  # recorded before the server ends, so that the tape shows which side left first
        process.stdin.close()
        pushes = (process.terminate, process.kill, self._give_up)
        self._pushes = [(now + _PATIENCE * n, push) for n, push in enumerate(pushes, 1)] if self._has_more else []

    @property
    def _has_more(self) -> bool:
        """True if there may be server output left to read or to pass on."""
        return bool(self.watched) or self._echo.is_waiting

    def _give_up(self) -> None:
        self._echo.forget()
        self.watched.clear()

    def record_signal(self, number: int) -> None:
        """Record a signal that stops us, if a live server was started."""
        if self._process is not None:
            self._recorder.record_signal(number)

    def end(self) -> None:
        """End the server if it is still running, and record its exit code."""
        process = self._process
        if process is None:
            return
        patience = 0.0 if self.watched else _PATIENCE  # with its output closed, it is about to end
        for push in (process.terminate, process.kill):
            try:
                process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                push()
                patience = _PATIENCE
        code = process.wait()
        self._recorder.control("server", STDIO, event="exit", code=code if code >= 0 else 128 - code)

    def _read_output(self) -> None:
        assert self._process and self._process.stdout
        data = calls.read(self._process.stdout.fileno(), relay.CHUNK)
        if not (data and self.episodes.is_catching_up):
            self._from_server(data)
        for text, eol in self._lines.feed(data) if data else self._lines.close():
            self.episodes.hear_live(text, eol)
        if not data:
            self._forget_descriptor(self._process.stdout.fileno())
            self.episodes.lose_live()

    def _read_stderr(self) -> None:
        assert self._process and self._process.stderr
        descriptor = self._process.stderr.fileno()
        data = calls.read(descriptor, relay.CHUNK)
        self._stderr(data)
        if not data:
            self._forget_descriptor(descriptor)
            return
        self._echo.put(data)
        if self._echo.is_waiting:  # a slow reader of our stderr blocks the server, as it would without us
            del self.watched[descriptor]
            self._echo.when_sent = lambda: self.watched.setdefault(descriptor, self._read_stderr)

    def _forget_descriptor(self, descriptor: int) -> None:
        self.watched.pop(descriptor, None)
        if not self._has_more:
            self._pushes.clear()  # it has ended without a push


def _do_nothing() -> None: ...


class _Outlet:
    """A descriptor that is written without blocking: its reader may itself be waiting for us to read."""

    def __init__(self, descriptor: int, unsent: dict[int, Callable[[], None]]) -> None:
        self._descriptor = descriptor
        self._unsent = unsent
        self._pieces: deque[tuple[bytes, Callable[[bytes], None] | None]] = deque()
        self._rest = memoryview(b"")  # the unwritten rest of the current piece
        self._room = calls.poll()
        self._room.register(descriptor, calls.POLLOUT)
        self.when_sent: Callable[[], object] = _do_nothing  # once

    @property
    def is_waiting(self) -> bool:
        return bool(self._rest or self._pieces)

    def put(self, data: bytes, record: Callable[[bytes], None] | None = None) -> None:
        """Record a piece, then write it."""
        self._pieces.append((data, record))
        self._write()

    def forget(self) -> None:
        """Drop all unwritten data."""
        self._pieces.clear()
        self._rest = memoryview(b"")
        self._unsent.pop(self._descriptor, None)

    def _write(self) -> None:
        try:
            while self.is_waiting and self._room.poll(0):
                self._begin()
                self._rest = self._rest[calls.write(self._descriptor, self._rest[: calls.PIPE_BYTES]) :]
        except OSError:
            self.forget()  # the reader is gone; if it is the server, its output ends, too
        if self.is_waiting:
            self._unsent[self._descriptor] = self._write
            return
        self._unsent.pop(self._descriptor, None)
        sent, self.when_sent = self.when_sent, _do_nothing
        sent()

    def _begin(self) -> None:
        if not self._rest:
            piece, record = self._pieces.popleft()
            if record:
                record(piece)
            self._rest = memoryview(piece)
