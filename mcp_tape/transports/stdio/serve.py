"""A player as a stdio server: one thread that reads, plays and writes, and never blocks on a slow reader.

A client may send a thousand requests before it reads one answer, so its input is read even while our own output waits.
"""

from __future__ import annotations

import os
import select
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from ...light import suppress
from ...replay.sends import Action, Hangup, Send, Silence
from ...wire.channels import STDIO
from ...wire.framing import Lines
from ...wire.rewrite import single_line

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ...cassette.lookup.messages import Recorded
    from ...replay.sends import Call, Player

    Together = Callable[[], AbstractContextManager[object]]

CHUNK = 1 << 16
_READING = 0.5  # seconds at the most to wait for a client to read; a busy machine needs some of it
_LOOK_AGAIN, _LOOK_SELDOM = 0.0002, 0.01  # seconds; at first the one, in the end the other
_PIPE_BUF = 4096  # what a pipe takes without blocking, once it says that it is writable
_Watched = Mapping[int, Callable[[], None]]
_NONE: _Watched = {}


def serve(
    player: Player,
    also: _Watched = _NONE,
    unsent: _Watched = _NONE,
    *,
    source: int = 0,
    target: int = 1,
    together: Together = suppress,
) -> int | None:
    """Play to the client on our stdin and stdout until it leaves; return the exit code if the player hangs up.

    `also` are other descriptors to watch, with what to do when they are readable; `unsent` those with unwritten data,
    with what to do when there is room. Both may change meanwhile. `together`: a context for what arrives at once.
    """
    try:
        return _Session(player, source, target, also, unsent, together).run()
    except BrokenPipeError:
        return None  # the client has left without waiting


class _Session:
    def __init__(
        self, player: Player, source: int, target: int, also: _Watched, unsent: _Watched, together: Together
    ) -> None:
        self._player = player
        self._together = together
        self._source, self._target = source, target
        self._also = also
        self._unsent = unsent
        self._lines = Lines()
        self._arrived: deque[bytes] = deque()
        self._ended = False
        self._reads = True  # the client takes what we write, as far as we know
        self._begun: set[Call] = set()  # unanswered calls that something was sent for
        self._open: Recorded | None = None  # noise that was sent last and has no line end
        self._room = 0  # bytes that can be written without blocking, however many writes they take
        self._writable = select.poll()
        self._writable.register(target, select.POLLOUT)

    def run(self) -> int | None:
        self._send(self._player.due(monotonic()))
        while not self._ended or self._arrived or self._also or self._unsent or self._player.next_at() is not None:
            self._wait()
            code = self._send(self._play(monotonic()))
            if code is not None:
                return code
        return None

    def _play(self, now: float) -> Sequence[Action]:
        actions: list[Action] = [] if self._arrived else [*self._player.due(now)]
        while self._arrived:
            data = self._arrived.popleft()
            texts = [text for text, _ in (self._lines.feed(data) if data else self._lines.close())]
            with self._together() if len(texts) > 1 else suppress():
                for text in texts:
                    self._player.receive(text, STDIO, now)
                    actions += self._player.due(now)  # after each frame, whatever else came with it
            if not data:
                self._player.leave(now)
                actions += self._player.due(now)
        return actions

    def _wait(self) -> None:
        """Wait until something arrives or is due."""
        if self._arrived:
            return
        due = self._player.next_at()
        if due is None and not self._also and not self._unsent and not self._ended:
            self._take(self._receive())
            return
        sources = [*self._also, *([] if self._ended else [self._source])]
        timeout = None if due is None else max(0.0, due - monotonic())
        arrived, room, _ = select.select(sources, [*self._unsent], [], timeout)
        for ready in arrived:
            if ready == self._source:
                self._take(self._receive())
            else:
                self._also[ready]()
        for ready in room:
            if ready in self._unsent:
                self._unsent[ready]()

    def _receive(self) -> bytes:
        """Wait for what the client sends next; nothing, if it has left."""
        while True:
            try:
                return os.read(self._source, CHUNK)
            except BlockingIOError:
                select.select([self._source], [], [])
            except OSError:
                return b""

    def _take(self, data: bytes) -> None:
        self._arrived.append(data)
        self._ended = not data

    def _send(self, actions: Sequence[Action]) -> int | None:
        """Send; return the exit code if that ends with hanging up."""
        texts: list[bytes] = []
        for action in actions:
            if isinstance(action, Silence):
                continue
            if not isinstance(action, Send):
                self._write(b"".join(texts))
                return action.code if isinstance(action, Hangup) else 0
            if action.call is not None and not action.answers:
                self._begun.add(action.call)
            elif action.call in self._begun:
                self._begun.discard(action.call)
                self._write_to_be_read(b"".join(texts))
                texts.clear()
            texts.append(self._continued(action))
        self._write(b"".join(texts))
        return None

    def _continued(self, send: Send) -> bytes:
        """The bytes of a send: on a line of its own, unless it continues noise; long lines are recorded in pieces."""
        text = _line(send)
        if not text:
            return b""
        noise = send.recorded if send.recorded and send.recorded.kind == "noise" else None
        if noise is None or not _goes_on(self._open, noise):
            text = self._line_end() + text
        self._open = None if text.endswith(b"\n") else noise
        return text

    def _line_end(self) -> bytes:
        """Return the bytes that have to precede the next line."""
        before, self._open = self._open, None
        return b"\n" if before else b""

    def _write_to_be_read(self, data: bytes) -> None:
        """Write, and wait until the client has taken it, within bounds.

        TypeScript clients forget a call's progress when its answer comes in the same read.
        """
        self._reads = self._reads or not unread(self._target)  # one that did not read may have caught up
        self._write(data)
        give_up, pause = monotonic() + _READING, _LOOK_AGAIN
        while self._reads and unread(self._target):
            self._reads = monotonic() < give_up  # else it has other things to do: not waited for until it reads
            select.select([], [], [], pause)
            pause = min(2 * pause, _LOOK_SELDOM)

    def _write(self, data: bytes) -> None:
        if len(data) > self._room and len(data) <= _PIPE_BUF and self._writable.poll(0):
            self._room = _PIPE_BUF
        if len(data) <= self._room:
            self._room -= len(data)
            os.write(self._target, data)
        elif data:
            self._send_slowly(memoryview(data))

    def _send_slowly(self, rest: memoryview) -> None:
        self._room = 0
        both = select.poll()
        both.register(self._target, select.POLLOUT)
        if not self._ended:
            both.register(self._source, select.POLLIN)
        while rest:
            for descriptor, _ in both.poll():
                if descriptor == self._target:
                    rest = rest[os.write(self._target, rest[:_PIPE_BUF]) :]
                else:
                    self._take(self._receive())
                    if self._ended:
                        both.unregister(self._source)


def _line(send: Send) -> bytes:
    """The line for a message: one recorded over HTTP may have line breaks, and some events are no messages."""
    recorded = send.recorded
    if recorded is None or recorded.channel == STDIO:
        return send.text
    if recorded.kind == "noise":
        return b""
    return single_line(send.text.rstrip(b"\r\n")) + b"\n"


def _goes_on(before: Recorded | None, noise: Recorded) -> bool:
    return before is not None and before.session == noise.session and before.seq < noise.seq


def unread(target: int) -> int:
    """Bytes that wait in a pipe or socket that we write to; 0 where the system does not say."""
    import fcntl
    import termios

    for question in (termios.TIOCOUTQ, termios.FIONREAD):  # of a socket, of a pipe
        try:
            return int.from_bytes(fcntl.ioctl(target, question, bytes(4)), sys.byteorder)
        except OSError:
            continue
    return 0
