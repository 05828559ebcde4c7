"""Replay that learns: what the tape cannot answer goes to a live server, and onto a new session.

Decides who gets each message and keeps the ids of both servers apart. Does no I/O: lines to and from the
live server are values.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from ..errors import ServerError
from ..wire import frames, protocol, rewrite
from ..wire.frames import Message
from .calls import Call
from .sends import MISS, Action, Send, said

if TYPE_CHECKING:
    from .deck import Deck
    from .opening import Opening
    from .sends import Player


class Episodes:
    """Stands before a deck and beside a live server. `start` starts that server, at the first miss."""

    def __init__(
        self,
        start: Callable[[], None],
        note: Callable[[str], None],
        overhear: Callable[[bytes], None] = lambda text: None,
    ) -> None:
        """`overhear` is told what the live server says, before anything is said of it."""
        self._start = start
        self._note = note
        self._overhear = overhear
        self._player: Player | None = None
        self._handshake: list[bytes] = []  # what this client said to begin with
        self._greeting: str | None = None  # the id of the handshake that the live server has yet to answer
        self._live = False
        self._gone = False  # ended, or never started
        self.failed: ServerError | None = None
        self._held: list[bytes] = []  # for the live server, until it has greeted
        self._to_live: list[bytes] = []
        self._calls: dict[str, Call] = {}  # at the live server, by id
        self._questions = Questions()
        self._sends: list[Send] = []
        self.passed_on = 0

    def attach(self, player: Player, deck: Deck | Opening) -> None:
        """What plays the tape, and the deck in it."""
        self._player = player
        self._questions.attach(deck)

    @property
    def idle(self) -> bool:
        """Whether the live server owes nothing."""
        return not self._calls and not self._held

    # -- the client's side: what serve plays to

    def receive(self, text: bytes, channel: str, now: float) -> None:
        assert self._player is not None
        if self._live:
            left = without(text, self._takes)
            if left is None:
                return
            text = left
        self._remember(text)
        self._player.receive(text, channel, now)

    def due(self, now: float) -> list[Action]:
        assert self._player is not None
        sends, self._sends = self._sends, []
        return [*self._player.due(now), *sends]

    def leave(self, now: float) -> None:
        assert self._player is not None
        self._player.leave(now)

    def abandon(self, channel: str) -> None:
        assert self._player is not None
        self._player.abandon(channel)

    def next_at(self) -> float | None:
        assert self._player is not None
        return self._player.next_at()

    def pass_on(self, call: Call) -> bool:
        """A miss: it goes to the live server, if there is one."""
        if not self._live and not self._gone:
            try:
                self._start()
            except ServerError as error:
                self.failed, self._gone = error, True
                return False
            self._live = True
            self._greet(call)
        if self._gone:
            return False
        self.passed_on += 1
        self._note(f"passed on to the live server: {' '.join(filter(None, (call.message.method, call.message.name)))}")
        self._calls[call.rpc_id] = call
        self._tell_live(call.text)
        return True

    # -- the live server's side

    def to_live(self) -> list[bytes]:
        """Lines for the live server."""
        lines, self._to_live = self._to_live, []
        return lines

    def from_live(self, text: bytes, eol: bytes) -> None:
        """A line of the live server; the messages of a batch reach the client one by one."""
        self._overhear(text)
        told = taken_apart(text)
        if not told:
            self._sends.append(Send(text + (eol or b"\n"), ""))  # no message: as it is
        for message, part in told:
            self._hear(message, part, eol or b"\n")

    def _hear(self, message: Message, text: bytes, eol: bytes) -> None:
        if message.kind == "response" and message.rpc_id is not None:
            if message.rpc_id == self._greeting:
                self._greeted()
                return
            self._calls.pop(message.rpc_id, None)
        self._sends.append(Send(self._questions.ask(message, text) + eol, ""))

    def live_ended(self) -> None:
        """The live server is gone: what it still owes is answered with an error."""
        for call in self._calls.values():
            self._sends.append(said(call, "error", rewrite.error(MISS, "the live server ended before the answer")))
        self._live, self._gone = False, True
        self._held.clear()
        if self._calls:
            self._note(f"the live server ended without an answer to {len(self._calls)} of its calls")
        self._calls.clear()

    def _remember(self, text: bytes) -> None:
        for message, part in taken_apart(text):
            if message.method == protocol.INITIALIZE or message.method in protocol.notification_names("initialized"):
                self._handshake.append(part)

    def _greet(self, call: Call) -> None:
        said_before = "only the handshake was replayed to it; earlier calls never reached it"
        self._note(f"a miss: starting the live server; {said_before}")
        if call.message.method == protocol.INITIALIZE:
            self._handshake.clear()  # the miss is the handshake
        elif self._handshake:
            first = frames.parse(self._handshake[0])[1][0]
            if first.method == protocol.INITIALIZE:
                self._greeting = first.rpc_id
                self._to_live.append(self._handshake.pop(0))

    def _greeted(self) -> None:
        self._greeting = None
        self._to_live += [*self._handshake, *self._held]
        self._held.clear()

    def _tell_live(self, text: bytes) -> None:
        (self._held if self._greeting is not None else self._to_live).append(text)

    def _takes(self, message: Message, text: bytes) -> bool:
        """Whether a message is the live server's business alone. Other notifications are for both."""
        if message.kind == "response":
            answer = self._questions.answer(message, text)
            if answer is not None:
                self._tell_live(answer)
            return answer is not None
        if message.kind == "notification":
            named = frames.id_text(protocol.member(message.body.get("params"), "requestId"))
            if message.method == protocol.CANCELLED:
                if named in self._calls:
                    self._tell_live(text)
                return named in self._calls
            self._tell_live(text)
        return False


def taken_apart(text: bytes) -> list[tuple[Message, bytes]]:
    """The messages of a frame, each with its text."""
    kind, messages = frames.parse(text)
    return list(zip(messages, rewrite.elements(text) if kind == "batch" else [text] * len(messages), strict=True))


def without(text: bytes, takes: Callable[[Message, bytes], bool]) -> bytes | None:
    """A frame without the messages that somebody else takes; None where he takes them all."""
    parts = taken_apart(text)
    left = [part for message, part in parts if not takes(message, part)]
    if len(left) == len(parts):
        return text
    return b"[" + b",".join(left) + b"]" if left else None


class Questions:
    """The live server's own requests that wait for the client.

    Both servers count for themselves, and the tape may ask at any time under an id that was recorded: so those of the
    live server always go out under another, which its answer and its cancel are mapped back from.
    """

    def __init__(self) -> None:
        self._deck: Deck | Opening | None = None
        self._asked: dict[str, str] = {}  # the id that each went out with, and the live server's

    def attach(self, deck: Deck | Opening) -> None:
        """The deck that asks the same client."""
        self._deck = deck

    def ask(self, message: Message, text: bytes) -> bytes:
        """A message of the live server, as the client is to see it."""
        if message.kind == "request":
            theirs = message.rpc_id or "null"
            return rewrite.with_id(text, theirs, self._free_id(theirs))
        if message.method == protocol.CANCELLED:
            theirs = frames.id_text(protocol.member(message.body.get("params"), "requestId")) or ""
            live = next((live for live, asked in self._asked.items() if asked == theirs), None)
            if live is not None:
                del self._asked[live]
                return rewrite.with_values(text, {("params", "requestId"): live})
        return text

    def answer(self, message: Message, text: bytes) -> bytes | None:
        """The client's answer to one of them, as the live server is to see it; None if it is to another."""
        theirs = self._asked.pop(message.rpc_id or "", None)
        return None if theirs is None else rewrite.with_id(text, message.rpc_id, theirs)

    def _free_id(self, theirs: str) -> str:
        names = (f'"live-{number}"' for number in count(1))
        live = next(name for name in names if name not in self._asked and not self._is_asking(name))
        self._asked[live] = theirs
        return live

    def _is_asking(self, name: str) -> bool:
        return self._deck is not None and self._deck.is_asking(name)
