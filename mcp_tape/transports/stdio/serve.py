"""A player as a stdio server: one thread reads, plays and writes, and never blocks on a slow reader.

A client may send a thousand requests before it reads one answer, so we read even while our output waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep

from ...cassette.file import ReadLock
from ...replay.sends import Action, Hangup, Send, Silence
from ...system import calls
from ...wire.channels import STDIO
from ...wire.framing import Lines
from ...wire.rewrite import single_line

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from ...cassette.lookup.messages import RecordedMessage
    from ...replay.sends import ClientCall, Player

CHUNK = 1 << 16
_SILENCE = 10  # milliseconds without a request, after which other processes may write to the cassette
_READING = 0.5  # most seconds to wait for a client to read; a busy machine needs some of it
_LOOK_AGAIN, _LOOK_SELDOM = 0.0002, 0.01  # seconds; the pause grows from the first to the second
_Watched = Mapping[int, Callable[[], None]]
_NONE: _Watched = {}


def serve(
    player: Player,
    also: _Watched = _NONE,
    unsent: _Watched = _NONE,
    *,
    source: int = 0,
    target: int = 1,
    lock: ReadLock | None = None,
) -> int | None:
    """Play to the client on our stdin and stdout until it leaves; return the exit code if the player hangs up.

    `also`: other descriptors to watch, with a callback for when they are readable. `unsent`: descriptors with unwritten
    data, with a callback for when there is room. Both may change during the call. `lock`: the cassette's, held while
    requests come.
    """
    lock = lock or ReadLock()
    try:
        return _Session(player, source, target, also, unsent, lock).run()
    except BrokenPipeError:
        return None  # the client has left without waiting
    finally:
        lock.release()


class _Session:
    def __init__(
        self, player: Player, source: int, target: int, also: _Watched, unsent: _Watched, lock: ReadLock
    ) -> None:
        self._player = player
        self._lock = lock
        self._source, self._target = source, target
        self._also = also
        self._unsent = unsent
        self._lines = Lines()
        self._arrived: deque[bytes] = deque()
        self._ended = False
        self._reads = True  # the client reads our output, as far as we know
        self._begun: set[ClientCall] = set()  # unanswered calls with messages already sent
        self._open: RecordedMessage | None = None  # the last send, if it was noise without a line end
        self._room = 0  # bytes that can be written without blocking, however many writes they take
        self._arrivals = calls.poll()
        self._arrivals.register(source, calls.POLLIN)
        self._writable = calls.poll()
        self._writable.register(target, calls.POLLOUT)

    def run(self) -> int | None:
        code = self._send(self._player.due(monotonic()))
        while code is None and (self._arrived or self._wait()):
            code = self._send(self._play(monotonic()))
        return code

    def _wait(self) -> bool:
        """Wait until something arrives or is due; return False if nothing will."""
        due, also, unsent, arrivals = self._player.next_at(), self._also, self._unsent, self._arrivals
        if due is None and self._ended and not also and not unsent:
            return False
        if self._ended or also or unsent:
            arrivals = calls.poll()
            for one in [*also] if self._ended else [self._source, *also]:
                arrivals.register(one, calls.POLLIN)
            for one in unsent:
                arrivals.register(one, calls.POLLOUT)
        patience = None if due is None else max(0.0, due - monotonic()) * 1000
        if self._lock.is_held:
            patience = _SILENCE if patience is None else min(_SILENCE, patience)
        events = arrivals.poll(patience)
        if not events:
            self._lock.release()
        for one, _ in events:
            if one == self._source:
                self._read()
            elif one in also:
                also[one]()
            elif one in unsent:
                unsent[one]()
        return True

    def _play(self, now: float) -> Sequence[Action]:
        """Process the arrived data; return the actions."""
        player, arrived = self._player, self._arrived
        actions: list[Action] = [] if arrived else [*player.due(now)]
        while arrived:
            data = arrived.popleft()
            self._lock.hold(now)
            for text, _ in self._lines.feed(data) if data else self._lines.close():
                player.receive(text, STDIO, now)
                actions += player.due(now)  # after each frame, as `Deck.due` requires
            if not data:
                player.leave(now)
                actions += player.due(now)
        return actions

    def _read(self) -> None:
        """Read from the client; no data means that it has left."""
        try:
            data = calls.read(self._source, CHUNK)
        except BlockingIOError:
            return  # another process has read it
        except OSError:
            data = b""
        self._arrived.append(data)
        self._ended = not data

    def _send(self, actions: Sequence[Action]) -> int | None:
        """Perform actions; return the exit code if one of them hangs up."""
        texts: list[bytes] = []
        for action in actions:
            if isinstance(action, Silence):
                continue
            if not isinstance(action, Send):
                self._write(b"".join(texts))
                return action.code if isinstance(action, Hangup) else 0
            call = action.call
            if call is not None and not action.answers:
                self._begun.add(call)
            elif self._begun and call in self._begun:
                self._begun.remove(call)
                self._write_to_be_read(b"".join(texts))
                texts.clear()
            texts.append(self._line(action))
        self._write(b"".join(texts))
        return None

    def _line(self, send: Send) -> bytes:
        """Return the line to write for a message.

        A message recorded over HTTP may contain line breaks, and some events are not messages. Noise in several frames
        is one long line: the next frame continues it, and any other message begins a new line.
        """
        text, recorded, before = send.text, send.recorded, self._open
        noise = recorded if recorded is not None and recorded.kind == "noise" else None
        if recorded is not None and recorded.channel != STDIO:
            text = b"" if noise else single_line(text.rstrip(b"\r\n")) + b"\n"
        if not text:
            return b""
        if before and not (noise and before.session == noise.session and before.seq < noise.seq):
            text = b"\n" + text
        self._open = None if text.endswith(b"\n") else noise
        return text

    def _write_to_be_read(self, data: bytes) -> None:
        """Write, and wait until the client has read it, within bounds.

        TypeScript clients lose a call's progress if its answer comes in the same read.
        """
        self._reads = self._reads or not calls.unread(self._target)  # a slow client may have caught up
        self._write(data)
        give_up, pause = monotonic() + _READING, _LOOK_AGAIN
        while self._reads and calls.unread(self._target):
            self._lock.release()
            self._reads = monotonic() < give_up  # after that, don't wait for it until it reads again
            sleep(pause)
            pause = min(2 * pause, _LOOK_SELDOM)

    def _write(self, data: bytes) -> None:
        if len(data) > self._room and len(data) <= calls.PIPE_BYTES and self._writable.poll(0):
            self._room = calls.PIPE_BYTES
        if len(data) <= self._room:
            self._room -= len(data)
            calls.write(self._target, data)
        elif data:
            self._send_slowly(memoryview(data))

    def _send_slowly(self, rest: memoryview) -> None:
        self._room = 0
        self._lock.release()
        both = calls.poll()
        both.register(self._target, calls.POLLOUT)
        if not self._ended:
            both.register(self._source, calls.POLLIN)
        while rest:
            for descriptor, _ in both.poll():
                if descriptor == self._target:
                    rest = rest[calls.write(self._target, rest[: calls.PIPE_BYTES]) :]
                else:
                    self._read()
                    if self._ended:
                        both.unregister(self._source)
