"""A live stdio server beside a replay: started at the first miss, recorded, and ended with the client."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..framing import Lines
from . import processes, stdio

if TYPE_CHECKING:
    from ..episodes import Episodes
    from ..playback import Action

    Recorder = stdio.Recorder

_PATIENCE = 2.0  # seconds for each step of ending it, as SDK clients have
_ANSWER = 10.0  # seconds for the answers to a client that has sent its last


class Live:
    """Moves lines between a live server and what decides about them, recording each before it is seen."""

    def __init__(self, command: Sequence[str], recorder: Recorder, episodes: Episodes) -> None:
        self._command = command
        self._recorder = recorder
        self._episodes = episodes
        self._process: subprocess.Popen[bytes] | None = None
        self._lines = Lines()
        self._to_server = recorder.stream("client", "stdio")
        self._from_server = recorder.stream("server", "stdio")
        self._stderr = recorder.stream("server", "stderr")
        self._left_at: float | None = None
        self._pushes: list[tuple[float, Callable[[], object]]] = []
        self.watched: dict[int, Callable[[], None]] = {}

    def start(self) -> None:
        process = self._process = processes.start(self._command)
        assert process.stdout and process.stderr
        self.watched[process.stdout.fileno()] = self._read_output
        self.watched[process.stderr.fileno()] = self._read_stderr

    def _flush(self) -> None:
        for line in self._episodes.to_live():
            assert self._process and self._process.stdin
            self._to_server(line + b"\n")
            try:
                stdio.write_all(self._process.stdin.fileno(), line + b"\n")
            except OSError:
                return  # its end of output tells the rest

    # -- what serve plays to

    def quick(self, text: bytes) -> bytes | None:
        return None  # who gets a message is decided first

    def receive(self, text: bytes, channel: str, now: float) -> None:
        self._episodes.receive(text, channel, now)

    def due(self, now: float) -> list[Action]:
        self._flush()
        if self._left_at is not None and (self._episodes.idle or now >= self._left_at + _ANSWER):
            self._close_input(now)
        while self._pushes and self._pushes[0][0] <= now:
            self._pushes.pop(0)[1]()
        return self._episodes.due(now)

    def next_at(self) -> float | None:
        times = [self._episodes.next_at(), self._pushes[0][0] if self._pushes else None]
        times.append(None if self._left_at is None else self._left_at + _ANSWER)
        return min((at for at in times if at is not None), default=None)

    def leave(self, now: float) -> None:
        """The client has left: what the server owes it may still come, for a while."""
        self._episodes.leave(now)
        self._left_at = now if self._process is not None else None

    def abandon(self, channel: str) -> None:
        self._episodes.abandon(channel)

    def _close_input(self, now: float) -> None:
        """And then wait for its end no longer than clients do."""
        process, self._left_at = self._process, None
        assert process and process.stdin
        process.stdin.close()
        pushes = (process.terminate, process.kill, self.watched.clear)
        self._pushes = [(now + _PATIENCE * n, push) for n, push in enumerate(pushes, 1)] if self.watched else []

    def end(self) -> None:
        """It is over, in order or because we were told to stop: the server's exit code goes onto the tape."""
        process = self._process
        if process is None:
            return
        patience = 0.0 if self.watched else _PATIENCE  # with its output closed it is about to end by itself
        for push in (process.terminate, process.kill):
            try:
                process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                push()
                patience = _PATIENCE
        code = process.wait()
        self._recorder.control("server", "stdio", event="exit", code=code if code >= 0 else 128 - code)

    def _read_output(self) -> None:
        assert self._process and self._process.stdout
        data = os.read(self._process.stdout.fileno(), stdio.CHUNK)
        self._from_server(data)
        for text, eol in self._lines.feed(data) if data else self._lines.close():
            self._episodes.from_live(text, eol)
        if not data:
            self._closed(self._process.stdout.fileno())
            self._episodes.live_ended()

    def _read_stderr(self) -> None:
        assert self._process and self._process.stderr
        data = os.read(self._process.stderr.fileno(), stdio.CHUNK)
        self._stderr(data)
        if data:
            os.write(2, data)
        else:
            self._closed(self._process.stderr.fileno())

    def _closed(self, descriptor: int) -> None:
        self.watched.pop(descriptor, None)
        if not self.watched:
            self._pushes.clear()  # it has ended by itself
