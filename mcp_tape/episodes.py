"""Replay that learns: what the tape cannot answer goes to a live server, and onto a new session.

Decides who gets each message and keeps the ids of both servers apart. Does no I/O: lines to and from the
live server are values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from . import frames, protocol, rewrite
from .calls import Call
from .errors import ServerError
from .frames import Message
from .playback import MISS, Action, Send, said

if TYPE_CHECKING:
    from .deck import Deck
    from .playback import Player


class Episodes:
    """Stands before a deck and beside a live server. `start` starts that server, at the first miss."""

    def __init__(self, start: Callable[[], None], note: Callable[[str], None]) -> None:
        self._start = start
        self._note = note
        self._player: Player | None = None
        self._deck: Deck | None = None
        self._handshake: list[bytes] = []  # what this client said to begin with
        self._greeting: str | None = None  # the id of the handshake that the live server has yet to answer
        self._live = False
        self._gone = False  # ended, or never started
        self.failed: ServerError | None = None
        self._held: list[bytes] = []  # for the live server, until it has greeted
        self._to_live: list[bytes] = []
        self._calls: dict[str, Call] = {}  # at the live server, by id
        self._asked: dict[str, str] = {}  # its own requests: the id they went out with, and theirs
        self._sends: list[Send] = []
        self.passed_on = 0

    def attach(self, player: Player, deck: Deck) -> None:
        """What plays the tape, and the deck in it."""
        self._player, self._deck = player, deck

    @property
    def idle(self) -> bool:
        """Whether the live server owes nothing."""
        return not self._calls and not self._held

    # -- the client's side: what serve plays to

    def receive(self, text: bytes, channel: str, now: float) -> None:
        assert self._player is not None
        messages = frames.parse(text)[1]
        if len(messages) == 1 and self._is_for_live(messages[0], text):
            return
        self._remember(messages, text)
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
            self._greet()
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
        """A line of the live server."""
        messages = frames.parse(text)[1]
        message = messages[0] if len(messages) == 1 else None
        if message is not None and message.kind == "response" and message.rpc_id is not None:
            if message.rpc_id == self._greeting:
                self._greeted()
                return
            self._calls.pop(message.rpc_id, None)
        if message is not None and message.kind == "request":
            text = self._with_free_id(message, text)
        self._sends.append(Send(text + (eol or b"\n"), ""))

    def live_ended(self) -> None:
        """The live server is gone: what it still owes is answered with an error."""
        for call in self._calls.values():
            self._sends.append(said(call, "error", rewrite.error(MISS, "the live server ended before the answer")))
        self._live, self._gone = False, True
        if self._calls:
            self._note(f"the live server ended without an answer to {len(self._calls)} of its calls")
        self._calls.clear()

    def _remember(self, messages: list[Message], text: bytes) -> None:
        for message in messages:
            if message.method == protocol.INITIALIZE or message.method in protocol.notification_names("initialized"):
                self._handshake.append(text)

    def _greet(self) -> None:
        said_before = "only the handshake was replayed to it; earlier calls never reached it"
        self._note(f"a miss: starting the live server; {said_before}")
        if self._handshake:
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

    def _is_for_live(self, message: Message, text: bytes) -> bool:
        """Whether a message is the live server's business alone. Other notifications are for both."""
        if not self._live:
            return False
        if message.kind == "response":
            theirs = self._asked.pop(message.rpc_id or "", None)
            if theirs is not None:
                self._tell_live(rewrite.with_id(text, message.rpc_id, theirs))
            return theirs is not None
        if message.kind == "notification":
            named = frames.id_text(protocol.member(message.body.get("params"), "requestId"))
            if message.method == protocol.CANCELLED:
                if named in self._calls:
                    self._tell_live(text)
                return named in self._calls
            self._tell_live(text)
        return False

    def _with_free_id(self, message: Message, text: bytes) -> bytes:
        """Both servers count for themselves: an id that is in flight is replaced."""
        assert self._deck is not None
        theirs = live = message.rpc_id or "null"
        number = 1
        while self._deck.is_asking(live) or live in self._asked:
            live, number = f'"live-{number}"', number + 1
        self._asked[live] = theirs
        return rewrite.with_id(text, theirs, live)
