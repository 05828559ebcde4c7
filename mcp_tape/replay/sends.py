"""A call of the client, and the actions that a deck returns and transports perform."""

from __future__ import annotations

from ..cassette.lookup.messages import Position, RecordedMessage
from ..light import NamedTuple
from ..wire import frames, rewrite
from ..wire.frames import Message

MISS = -32010  # the code of our own error
UNANSWERED = "the recording ends before the answer"
NO_HEADERS: Headers = dict
_LONG_AGO = float("-inf")


class ClientCall:
    """A live client request, and the recorded one that it matches."""

    __slots__ = (
        "answers", "behind", "cancels", "channel", "message", "reached", "recorded", "rpc_id", "text", "until",
    )  # fmt: skip

    def __init__(
        self, rpc_id: str | None, channel: str, recorded: RecordedMessage | None, text: bytes, message: Message
    ) -> None:
        self.rpc_id = rpc_id or "null"
        self.channel = channel
        self.recorded = recorded
        self.text = text
        self.answers: set[Position] = set()  # sent or scheduled
        self.behind: tuple[RecordedMessage, ...] = ()  # due messages that were recorded after the answer
        self.cancels = 0  # how many arrived for it
        self.reached = True  # False if a fault refused it before a server would have seen it
        self.until = _LONG_AGO  # when the last delayed message for it is due
        self.message = message

    def is_of(self, session: int, seq: int) -> bool:
        """Return whether it matches a request in the frame at this place."""
        return self.recorded is not None and self.recorded[:2] == (session, seq)

    @property
    def token(self) -> str | None:
        """The progress token of the request."""
        return frames.requested_token(self.message)


class Send(NamedTuple):
    """Send this, line end included. `call` is the request it belongs to, `answers` whether it is its answer."""

    text: bytes
    channel: str
    call: ClientCall | None = None
    answers: bool = False
    recorded: RecordedMessage | None = None  # the message it was made from

    def fit_text(self, fit: Callable[[bytes, bytes], bytes]) -> Send:
        """Return a copy with `fit` applied to its text and that of its request. Noise stays unchanged."""
        if self.recorded is None or self.recorded.kind == "noise":
            return self
        return self._replace(text=fit(self.text, self.call.text if self.call else b""))


class Hangup(NamedTuple):
    """End the session now with this exit code. Over HTTP, close only that call's connection: others may go on."""

    code: int
    call: ClientCall | None = None
    lost: Send | None = None  # the send it replaces: a client that reconnects may still get it


class Silence(NamedTuple):
    """Leave a call without an answer. Over HTTP, its response begins if the recorded one did."""

    call: ClientCall


class Refuse(NamedTuple):
    """Answer a call with this HTTP status and an optional body that is not a message."""

    status: int
    call: ClientCall
    body: bytes = b""
    content_type: str = "text/plain"
    challenge: str = ""  # the header WWW-Authenticate


class Reset(NamedTuple):
    """Reset the connection that a call came on."""

    call: ClientCall
    lost: Send | None = None


class Challenge(NamedTuple):
    """Refuse a call until the client has another token: its own expired, or does not cover the scope."""

    call: ClientCall
    kind: str  # of the fault
    scope: str
    source: str


Action = Send | Silence | Hangup | Refuse | Reset | Challenge


TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:  # for a fast start: a Protocol alone costs a millisecond
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    Headers = Callable[[], Mapping[str, str]]  # names in lower case; lazy, as most requests match without them

    class Player(Protocol):
        """A deck, with or without faults and a live server behind it, as transports use it."""

        def receive(
            self, text: bytes, channel: str, now: float, parsed: frames.Parsed | None = ..., headers: Headers = ...
        ) -> None: ...

        def due(self, now: float) -> Sequence[Action]: ...

        def next_at(self) -> float | None: ...

        def leave(self, now: float) -> None: ...

        def abandon(self, channel: str) -> None: ...


def make_answer(call: ClientCall, member: str, value: str) -> Send:
    """Make an answer of our own."""
    return Send(rewrite.response(call.rpc_id, member, value) + b"\n", call.channel, call, True)
