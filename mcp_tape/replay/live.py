"""new_episodes: a live server beside the tape, for every transport.

Theory of operation. Each client has one `Episodes`, which stands between it, the deck and the live server:

- A frame of the client comes in by `hear`, which returns what of it the deck is to receive. The client's answers to
  requests of the live server go only there; notifications go to both, cancels to whom they concern.
- A request that the deck misses comes in by `pass_on`. The first one has the live server started, or reached. It is
  then greeted with the client's own handshake. Where that was asked for (`prefix`), it is made the calls that the tape
  has answered before each miss, one by one; all else waits until it has answered them (`passed`). Those calls are for
  the live server's memory alone: they are not recorded once more, and nothing that comes of them reaches the client,
  unless another call is under way, as nothing says then what comes of which.
- A message of the live server comes in by `from_live`, with the call whose stream it came on, where a transport has
  such streams. Its own requests go out under ids that neither server uses.
- Calls that it will not answer come in by `refuse`, `unanswered` or `live_ended`.

What to do about it is fetched as values: `to_live` for the live server, `to_client` for the client. Does no I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ServerError, count
from ..wire import frames, protocol, rewrite
from ..wire.frames import Message
from .sends import MISS, ClientCall, Refuse, Send, make_answer

if TYPE_CHECKING:
    from .deck import Deck
    from .opening import Opening


class LiveMessage(NamedTuple):
    """A message for the live server."""

    text: bytes
    origin: Any = None  # of the client's frame: its headers, over HTTP
    call: ClientCall | None = None  # the miss, if it is one
    begins: bool = False  # it has to be through before anything else is sent
    awaits: str | None = None  # the id of the answer that all else waits for
    is_earlier: bool = False  # a call that the tape has answered: not to be recorded


class Episodes:
    """One client's traffic with a live server beside the tape."""

    def __init__(
        self,
        start: Callable[[ClientCall], None],
        note: Callable[[str], None],
        overhear: Callable[[bytes], None] = lambda text: None,
        *,
        strays: bool = True,
        prefix: bool = False,
    ) -> None:
        """`start` is called at the first miss. `overhear` receives all text of the live server, before any note.

        `strays`: the client also gets invalid messages, and answers to no call, as it would without us. `prefix`: the
        live server is first made the calls that the tape has answered.
        """
        self._start = start
        self._note = note
        self._overhear = overhear
        self._strays = strays
        self._origin: Any = None
        self._handshake: list[LiveMessage] = []  # of the client
        self._prefix = prefix
        self._earlier: list[
            LiveMessage
        ] = []  # calls since the last miss, which the tape has answered or is about to miss
        self._remembered = 0
        self._awaited: LiveMessage | None = None  # what the live server has yet to answer before all else
        self._live = False
        self._gone = False  # ended, or never started
        self.failed: ServerError | None = None
        self._held: deque[LiveMessage] = deque()  # until the live server has answered what it had to
        self._to_live: list[LiveMessage] = []
        self._calls: dict[ClientCall, None] = {}  # at the live server
        self._questions = Questions()
        self._to_client: list[Send | Refuse] = []
        self.passed_on = 0

    def attach(self, deck: Deck | Opening) -> None:
        """The deck that plays to the same client."""
        self._questions.deck = deck

    @property
    def prelude_text(self) -> str:
        """What the live server knows of the conversation before its first call."""
        if not self._held:
            return "only the handshake was replayed to it; earlier calls never reached it"
        return f"the handshake and {count(len(self._held), 'earlier call')} are replayed to it first"

    @property
    def is_catching_up(self) -> bool:
        """True while the live server is made earlier calls, and nothing else."""
        if self._awaited is None or not self._awaited.is_earlier:
            return False
        return self._calls.keys() <= {message.call for message in self._held}

    @property
    def is_idle(self) -> bool:
        """True if the live server owes nothing."""
        return not self._calls and not self._held

    def take_for_live(self) -> list[LiveMessage]:
        """Take the messages for the live server, in order."""
        messages, self._to_live = self._to_live, []
        return messages

    def take_for_client(self) -> list[Send | Refuse]:
        """Take the actions for the client, in order."""
        actions, self._to_client = self._to_client, []
        return actions

    # -- the client's side

    def hear(self, text: bytes, origin: Any = None, parsed: frames.Parsed | None = None) -> bytes | None:
        """Return what of a client's frame is for the deck; None if nothing is."""
        self._origin = origin
        parts = split_frame(text, parsed)
        left = [part for message, part in parts if not self._takes(message, part)]
        if len(left) == len(parts):
            return text
        return b"[" + b",".join(left) + b"]" if left else None

    def _takes(self, message: Message, text: bytes) -> bool:
        """True if a message is the live server's business alone."""
        if message.kind == "response":
            answer = self._questions.answer(message, text)
            if answer is not None:
                self._send(LiveMessage(answer, self._origin))
            return answer is not None
        is_last = message.method in protocol.INITIALIZED_NAMES
        if message.kind == "notification" and self._live:
            named = frames.cancelled_request_id(message)
            is_cancel = message.method == protocol.CANCELLED
            concerns = not is_cancel or any(call.rpc_id == named for call in self._calls)
            if concerns:
                self._send(
                    LiveMessage(text, self._origin, begins=is_last)
                )  # a strict server takes no call before the last
            return is_cancel and concerns
        if message.method == protocol.INITIALIZE or is_last:
            self._handshake.append(LiveMessage(text, self._origin, begins=True))
        elif self._prefix and not self._gone and message.kind == "request":
            self._remember(message, text)
        return False

    def _take_earlier(self, call: ClientCall) -> list[LiveMessage]:
        """Take the calls before a miss. It was kept with them, perhaps before others of its batch, and is left out."""
        texts = [rewrite.with_id(call.text, call.rpc_id, kept.awaits or "") for kept in self._earlier]
        same = [at for at, kept in enumerate(self._earlier) if kept.text == texts[at]]
        at = same[-1] if same else len(texts)
        before, self._earlier = self._earlier[:at], self._earlier[at + 1 :]
        return before

    def _remember(self, message: Message, text: bytes) -> None:
        """Keep a call that the tape may answer, for the live server: one that may change something there."""
        method = message.method or ""
        if not protocol.is_housekeeping(method) and method != protocol.LISTEN:
            self._remembered += 1
            own = f'"earlier-{self._remembered}"'
            renamed = rewrite.with_id(text, message.rpc_id, own)
            self._earlier.append(LiveMessage(renamed, self._origin, begins=True, awaits=own, is_earlier=True))

    def pass_on(self, call: ClientCall) -> bool:
        """Pass a miss on to the live server; False if there is none."""
        if self._gone:
            return False
        earlier = self._take_earlier(call)
        self._held += earlier
        if not self._live:
            try:
                self._start(call)
            except ServerError as error:
                self.failed, self._gone = error, True
                self._held.clear()
                return False
            self._live = True
            self._greet(call)
        elif earlier:
            self._note(f"calls of the tape that are made to the live server first: {len(earlier)}")
            self._send_next()
        self.passed_on += 1
        self._note(f"passed on to the live server: {' '.join(filter(None, (call.message.method, call.message.name)))}")
        self._calls[call] = None
        self._send(LiveMessage(call.text, self._origin, call, begins=call.message.method == protocol.INITIALIZE))
        return True

    def _send(self, message: LiveMessage) -> None:
        (self._held if self._awaited is not None else self._to_live).append(message)

    def _greet(self, call: ClientCall) -> None:
        first = frames.parse(self._handshake[0].text)[1][0] if self._handshake else None
        if call.message.method == protocol.INITIALIZE:
            self._handshake.clear()  # the miss is the handshake
            self._held.clear()
        elif first is not None and first.method == protocol.INITIALIZE:
            self._await(self._handshake.pop(0)._replace(awaits=first.rpc_id))
        else:
            self._send_next()

    def _await(self, message: LiveMessage) -> None:
        self._awaited = message
        self._to_live.append(message)

    # -- the live server's side

    def settle_awaited(self, rpc_id: str) -> None:
        """The live server has answered what was awaited, or never will: the next may follow."""
        if self._awaited is not None and self._awaited.awaits == rpc_id:
            self._awaited = None
            self._to_live += self._handshake
            self._handshake.clear()
            self._send_next()

    def _send_next(self) -> None:
        """Send what waits, up to the next call that has to be answered before more is sent."""
        while self._held and self._awaited is None:
            message = self._held.popleft()
            if message.awaits is None:
                self._to_live.append(message)
            else:
                self._await(message)

    def hear_live(self, text: bytes, eol: bytes = b"\n", call: ClientCall | None = None) -> None:
        """A frame of the live server; the messages of a batch reach the client one by one.

        `call`: the one whose stream it came on, where each has one.
        """
        self._overhear(text)
        parts = split_frame(text)
        if self.is_catching_up:
            self._hear_earlier(parts)
            return
        if not parts and self._strays:
            self._to_client.append(Send(text + (eol or b"\n"), ""))  # no message: as it is
        for message, part in parts:
            if message.kind == "response":
                self._answer(message, part, eol or b"\n", call)
            else:
                asked = self._questions.ask(message, part)
                self._to_client.append(Send(asked + (eol or b"\n"), call.channel if call else "", call))

    def _hear_earlier(self, parts: list[tuple[Message, bytes]]) -> None:
        """Hear what comes of an earlier call. The client has had its answer, and cannot be asked within it again."""
        for message, _ in parts:
            if message.kind == "response":
                self.settle_awaited(message.rpc_id or "null")
            elif message.kind == "request":
                refusal = rewrite.error_response(message.rpc_id, protocol.METHOD_NOT_FOUND, "mcp-tape: asked before")
                self._to_live.append(LiveMessage(refusal, self._awaited and self._awaited.origin, is_earlier=True))

    def _answer(self, answer: Message, text: bytes, eol: bytes, call: ClientCall | None) -> None:
        if self._awaited is not None and answer.rpc_id == self._awaited.awaits:
            self.settle_awaited(answer.rpc_id or "null")
            return
        if call is None or call.rpc_id != answer.rpc_id:
            call = next((one for one in self._calls if one.rpc_id == answer.rpc_id), call)
        if call is not None:
            self._calls.pop(call, None)
            if call.rpc_id != answer.rpc_id:
                text = rewrite.refusal(text, call.rpc_id)
        if call is not None or self._strays:
            self._to_client.append(Send(text + eol, call.channel if call else "", call, True))

    def refuse(self, call: ClientCall, status: int, content_type: str, body: bytes) -> None:
        """An HTTP error of the live server in place of an answer."""
        self._calls.pop(call, None)
        self._to_client.append(Refuse(status, call, body, content_type))

    def leave_unanswered(self, call: ClientCall) -> None:
        """The live server will not answer a call, unless it has: the client gets an error."""
        if call in self._calls:
            del self._calls[call]
            self._to_client.append(
                make_answer(call, "error", rewrite.error(MISS, "the live server ended before the answer"))
            )

    def lose_live(self) -> None:
        """The live server is gone, with all that it still owes."""
        self._live, self._gone = False, True
        self._held.clear()
        if self._calls:
            self._note(f"the live server ended without an answer to {len(self._calls)} of its calls")
        for call in list(self._calls):
            self.leave_unanswered(call)


def split_frame(text: bytes, parsed: frames.Parsed | None = None) -> list[tuple[Message, bytes]]:
    """The messages of a frame, each with its text."""
    kind, messages = parsed or frames.parse(text)
    return list(zip(messages, rewrite.elements(text) if kind == "batch" else [text] * len(messages), strict=True))


class Questions:
    """The live server's own requests that wait for the client.

    Both servers count for themselves, and the tape may ask at any time under an id that was recorded: so those of the
    live server always go out under another, which its answer and its cancel are mapped back from.
    """

    def __init__(self) -> None:
        self.deck: Deck | Opening | None = None  # which asks the same client
        self._asked: dict[str, str] = {}  # the id that each went out with, and the live server's

    def ask(self, message: Message, text: bytes) -> bytes:
        """A message of the live server, as the client is to see it."""
        if message.kind == "request":
            theirs = message.rpc_id or "null"
            live = rewrite.free_id(self._is_used, form=lambda number: f'"live-{number}"')
            self._asked[live] = theirs
            return rewrite.with_id(text, theirs, live)
        if message.method == protocol.CANCELLED:
            theirs = frames.cancelled_request_id(message) or ""
            own = next((live for live, asked in self._asked.items() if asked == theirs), None)
            if own is not None:
                del self._asked[own]
                return rewrite.with_values(text, {("params", "requestId"): own})
        return text

    def answer(self, message: Message, text: bytes) -> bytes | None:
        """The client's answer to one of them, as the live server is to see it; None if it is to another."""
        theirs = self._asked.pop(message.rpc_id or "", None)
        return None if theirs is None else rewrite.with_id(text, message.rpc_id, theirs)

    def _is_used(self, name: str) -> bool:
        return name in self._asked or (self.deck is not None and self.deck.is_asking(name))
