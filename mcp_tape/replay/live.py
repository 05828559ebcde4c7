"""new_episodes: a live server beside the tape, for every transport.

Theory of operation. Each client has one `Episodes`, between the client, the deck and the live server:

- `hear` takes a client frame and returns the part that the deck should receive. The client's answers to requests of the
  live server go only to the live server. Notifications go to both, cancels to the server of the cancelled call.
- `pass_on` takes a request that the deck misses. The first miss starts or connects the live server, which then gets the
  client's own handshake. With `prefix`, before each miss it also gets the calls that the tape has answered, one by one;
  everything else waits until it has answered them (`settle_awaited`). Those calls only restore the server's state: they
  are not recorded again, and their results don't reach the client, unless another call is in flight. Then nothing shows
  which message belongs to which call.
- `hear_live` takes a message of the live server, and the call whose stream it came on, if the transport has such
  streams. The server's own requests get ids that neither server uses.
- `refuse`, `leave_unanswered` and `lose_live` end calls that the live server will not answer.

The results are values: fetch them with `take_for_live` and `take_for_client`. Does no I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ServerError, count
from ..wire import frames, protocol, rewrite
from ..wire.frames import Message
from .sends import MISS, ClientCall, Refuse, Send, make_answer

UNAUTHORIZED = 401  # HTTP: the client has no token, or one that has expired

if TYPE_CHECKING:
    from .deck import Deck
    from .opening import Opening


class LiveMessage(NamedTuple):
    """A message for the live server."""

    text: bytes
    origin: Any = None  # the context of the client's frame: its headers, over HTTP
    call: ClientCall | None = None  # the miss, if it is one
    begins: bool = False  # must be delivered before anything else is sent
    awaits: str | None = None  # the id of the answer that later messages wait for
    is_earlier: bool = False  # a call that the tape has answered: don't record it


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

        `strays`: also pass invalid messages and answers without a call to the client, as a direct connection would.
        `prefix`: first make the calls that the tape has answered to the live server.
        """
        self._start = start
        self._note = note
        self._overhear = overhear
        self._strays = strays
        self._origin: Any = None
        self._handshake: list[LiveMessage] = []  # of the client
        self._greeting: list[LiveMessage] = []  # the rest of the handshake that the live server is still to get
        self._prefix = prefix
        self._earlier: list[LiveMessage] = []  # calls since the last miss: answered by the tape, or about to miss
        self._replayed: list[LiveMessage] = []  # earlier calls that the live server got before the newest miss
        self._remembered = 0
        self._awaited: LiveMessage | None = None  # the call that the live server must answer first
        self._live = False
        self._gone = False  # ended, or never started
        self.failed: ServerError | None = None
        self._held: deque[LiveMessage] = deque()  # until the awaited answer arrives
        self._to_live: list[LiveMessage] = []
        self._calls: dict[ClientCall, None] = {}  # at the live server
        self._questions = Questions()
        self._to_client: list[Send | Refuse] = []
        self.passed_on = 0

    def attach(self, deck: Deck | Opening) -> None:
        """Set the deck that plays to the same client."""
        self._questions.deck = deck

    @property
    def prelude_text(self) -> str:
        """Describes what the live server knows of the conversation before its first call."""
        if not self._held:
            return "only the handshake was replayed to it; earlier calls never reached it"
        return f"the handshake and {count(len(self._held), 'earlier call')} are replayed to it first"

    @property
    def is_catching_up(self) -> bool:
        """True while only earlier calls are replayed to the live server."""
        if self._awaited is None or not self._awaited.is_earlier:
            return False
        return self._calls.keys() <= {message.call for message in self._held}

    @property
    def is_idle(self) -> bool:
        """True if no answer of the live server is pending."""
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
        """Return the part of a client frame for the deck; None if there is none."""
        self._origin = origin
        parts = split_frame(text, parsed)
        left = [part for message, part in parts if not self._takes(message, part)]
        if len(left) == len(parts):
            return text
        return b"[" + b",".join(left) + b"]" if left else None

    def _takes(self, message: Message, text: bytes) -> bool:
        """Pass a message to the live server if it is for that; return whether it is for that alone."""
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
        """Take the calls before a miss. The miss itself is among them, perhaps before others of its batch; skip it."""
        texts = [rewrite.with_id(call.text, call.rpc_id, kept.awaits or "") for kept in self._earlier]
        same = [at for at, kept in enumerate(self._earlier) if kept.text == texts[at]]
        at = same[-1] if same else len(texts)
        before, self._earlier = self._earlier[:at], self._earlier[at + 1 :]
        return before

    def _remember(self, message: Message, text: bytes) -> None:
        """Keep a call that the tape may answer, to replay it to the live server. Housekeeping changes nothing there."""
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
        self._replayed = earlier
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
            begins, *self._greeting = self._handshake
            self._await(begins._replace(awaits=first.rpc_id))
        else:
            self._send_next()

    def _await(self, message: LiveMessage) -> None:
        self._awaited = message
        self._to_live.append(message)

    # -- the live server's side

    def settle_awaited(self, rpc_id: str) -> None:
        """Stop waiting: the live server has answered the awaited call, or never will. Send the next."""
        if self._awaited is not None and self._awaited.awaits == rpc_id:
            self._awaited = None
            self._to_live += self._greeting
            self._greeting.clear()
            self._send_next()

    def _send_next(self) -> None:
        """Send held messages, up to and including the next call that must be answered first."""
        while self._held and self._awaited is None:
            message = self._held.popleft()
            if message.awaits is None:
                self._to_live.append(message)
            else:
                self._await(message)

    def hear_live(self, text: bytes, eol: bytes = b"\n", call: ClientCall | None = None) -> None:
        """Take a frame of the live server. The client gets the messages of a batch one by one.

        `call`: the call whose stream it came on, if each call has one.
        """
        self._overhear(text)
        parts = split_frame(text)
        if self.is_catching_up:
            self._hear_earlier(parts)
            return
        if not parts and self._strays:
            self._to_client.append(Send(text + (eol or b"\n"), ""))  # not a message: unchanged
        for message, part in parts:
            if message.kind == "response":
                self._answer(message, part, eol or b"\n", call)
            else:
                asked = self._questions.ask(message, part)
                self._to_client.append(Send(asked + (eol or b"\n"), call.channel if call else "", call))

    def _hear_earlier(self, parts: list[tuple[Message, bytes]]) -> None:
        """Take messages that follow from an earlier call. The client has its answer, and can't be asked again."""
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

    def refuse(self, call: ClientCall, status: int, content_type: str, body: bytes, challenge: str = "") -> None:
        """Pass on an HTTP error of the live server in place of an answer.

        After a 401 the client logs in and repeats the call, and the live server gets the handshake again first.
        """
        self._calls.pop(call, None)
        if status == UNAUTHORIZED:
            self._live = False
            self._earlier = self._replayed + self._earlier
        self._to_client.append(Refuse(status, call, body, content_type, challenge))

    def leave_unanswered(self, call: ClientCall) -> None:
        """Answer a call with an error: the live server will not. No effect if it has."""
        if call in self._calls:
            del self._calls[call]
            self._to_client.append(
                make_answer(call, "error", rewrite.error(MISS, "the live server ended before the answer"))
            )

    def lose_live(self) -> None:
        """End the live server: its pending calls get an error."""
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
    """The live server's own requests that await the client's answer.

    Both servers number their own requests, and the tape may ask at any time under a recorded id. So requests of the
    live server always get another id; answers and cancels are mapped back.
    """

    def __init__(self) -> None:
        self.deck: Deck | Opening | None = None  # that plays to the same client
        self._asked: dict[str, str] = {}  # live id by the id sent to the client

    def ask(self, message: Message, text: bytes) -> bytes:
        """Return a message of the live server as the client sees it."""
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
        """Return the client's answer as the live server sees it; None if it answers another server's request."""
        theirs = self._asked.pop(message.rpc_id or "", None)
        return None if theirs is None else rewrite.with_id(text, message.rpc_id, theirs)

    def _is_used(self, name: str) -> bool:
        return name in self._asked or (self.deck is not None and self.deck.is_asking(name))
