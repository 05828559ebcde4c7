"""Actions that a deck returns and transports perform; recorded messages with live ids and tokens spliced in."""

from __future__ import annotations

from itertools import groupby

from ..cassette.lookup.messages import Messages, Position, Recorded
from ..light import NamedTuple
from ..wire import frames, protocol, rewrite
from ..wire.frames import Message

MISS = -32010  # the code of our own error
END = 1 << 62  # behind everything recorded
LAST: Position = (END, 0, 0)
UNANSWERED = "the recording ends before the answer"
NO_HEADERS: Headers = {}


class Call:
    """A live request of the client, and the recorded one that it is."""

    __slots__ = (
        "_message", "answers", "behind", "cancels", "channel", "reached", "recorded", "rpc_id", "text", "until",
    )  # fmt: skip

    def __init__(
        self, rpc_id: str | None, channel: str, recorded: Recorded | None, text: bytes, message: Message | None = None
    ) -> None:
        self.rpc_id = rpc_id or "null"
        self.channel = channel
        self.recorded = recorded
        self.text = text
        self.answers: set[Position] = set()  # that it was given, or will be
        self.behind: list[Recorded] = []  # what came behind the answer, and is due
        self.cancels = 0  # that came for it
        self.reached = True  # the server, as far as the client can tell
        self.until = float("-inf")  # when the last message for it is due, of those that wait for their time
        self._message = message

    def is_of(self, session: int, seq: int) -> bool:
        """Return whether it was recorded in a frame."""
        return self.recorded is not None and self.recorded[:2] == (session, seq)

    @property
    def message(self) -> Message:
        """Parsed when it is needed: a request that is byte for byte the recorded one never is."""
        if self._message is None:
            self._message = frames.parse(self.text)[1][0]
        return self._message

    @property
    def token(self) -> str | None:
        """The token under which it asks for progress."""
        return frames.token_asked(self.message)


class Send(NamedTuple):
    """Send this, line end included. `call` is the request it belongs to, `answers` whether it is its answer."""

    text: bytes
    channel: str
    call: Call | None = None
    answers: bool = False
    recorded: Recorded | None = None  # what it was made from

    def fitted(self, fit: Callable[[bytes, bytes], bytes]) -> Send:
        """Return it with what is made of its text and that of the request it belongs to; noise stays as it is."""
        if self.recorded is None or self.recorded.kind == "noise":
            return self
        return self._replace(text=fit(self.text, self.call.text if self.call else b""))


class Hangup(NamedTuple):
    """End the session now, with this exit code; over HTTP, where others may go on, only that call's connection."""

    code: int
    call: Call | None = None
    lost: Send | None = None  # what it is in place of: a client that comes back may still get it


class Refuse(NamedTuple):
    """Answer a call with this HTTP status, and perhaps a body that is no message."""

    status: int
    call: Call
    body: bytes = b""
    content_type: str = "text/plain"


class Reset(NamedTuple):
    """Reset the connection that a call came on."""

    call: Call
    lost: Send | None = None


Action = Send | Hangup | Refuse | Reset


TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:  # start-up is the feature: a Protocol alone costs a millisecond
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Protocol

    Headers = Mapping[str, str]  # names in lower case

    class Player(Protocol):
        """A deck, with or without faults and a live server behind it, as transports use it."""

        def receive(
            self, text: bytes, channel: str, now: float, parsed: frames.Parsed | None = ..., headers: Headers = ...
        ) -> None: ...

        def due(self, now: float) -> Sequence[Action]: ...

        def next_at(self) -> float | None: ...

        def leave(self, now: float) -> None: ...

        def abandon(self, channel: str) -> None: ...


class Pending(NamedTuple):
    """A recorded message that is due or will be. No `recorded`: the answer that the recording does not have."""

    recorded: Recorded | None
    call: Call | None

    @property
    def is_answer(self) -> bool:
        return self.recorded is None or self.recorded.kind == "response"

    @property
    def place(self) -> Position:
        return self.recorded.place if self.recorded else LAST


class Playback:
    """Makes sends of recorded messages. The server's own requests go out under ids that are free.

    Its arguments are those of `State` with the same names.
    """

    def __init__(
        self, tape: Messages, asked: dict[str, Recorded], taken_back: set[str], withdrawn: list[Recorded]
    ) -> None:
        self._tape = tape
        self._asked = asked
        self._taken_back = taken_back
        self._withdrawn = withdrawn

    def sends(self, ready: list[Pending]) -> list[Send]:
        """Sends for messages that are due, in this order, each on its own."""
        return [send for recorded, call in ready if recorded is not None for send in self._one(recorded, call)]

    def joined(self, actions: Iterable[Action]) -> list[Action]:
        """Put batches together again, of which all messages go out at once and to one place."""
        return [done for _, together in groupby(actions, _batch_of) for done in self._batch(list(together))]

    def _batch(self, together: list[Action]) -> list[Action]:
        sends = [action for action in together if isinstance(action, Send)]
        recorded = sends[0].recorded if sends else None
        if recorded is None or recorded.frame_kind != "batch":
            return together
        whole = self._tape.frame_text(recorded)
        parts = [send.recorded.part for send in sends if send.recorded]
        channels = {send.channel for send in sends if send.call is not None}
        if not whole.parts or parts != [*range(len(whole.parts))] or len(channels) > 1:
            return together  # some are not due, are repeated, or were asked for elsewhere
        texts = [send.text.rstrip(b"\r\n") for send in sends]
        return [sends[-1]._replace(text=rewrite.with_elements(whole.text, texts) + _eol(recorded))]

    def _one(self, recorded: Recorded, call: Call | None) -> list[Send]:
        is_batch = recorded.frame_kind == "batch"
        text = self._tape.element(recorded) if is_batch else self._tape.text(recorded)
        live = self._rewritten(recorded, call, text)
        if live is None:
            return []
        answers = recorded.kind == "response"
        return [Send(live + _eol(recorded), call.channel if call else "", call, answers, recorded)]

    def _rewritten(self, recorded: Recorded, call: Call | None, text: bytes) -> bytes | None:
        if recorded.status == "refused" and call:
            return rewrite.refusal(text, call.rpc_id)
        if recorded.kind == "response":
            has_id = call is not None and recorded.rpc_id is not None  # else it answers a line that nobody could read
            return rewrite.answer(text, recorded.rpc_id, call.rpc_id) if call and has_id else text
        if recorded.kind == "noise":
            return rewrite.broken_answer(text, call.recorded.rpc_id, call.rpc_id) if call and call.recorded else text
        if recorded.kind == "request":
            live = self._free_id(recorded.rpc_id or "null")
            self._asked[live] = recorded
            return rewrite.with_id(text, recorded.rpc_id, live)
        if recorded.method == protocol.CANCELLED:
            return self._cancelled(recorded, text)
        return rewrite.notification(text, recorded.method, call.rpc_id, call.token) if call else text

    def _cancelled(self, recorded: Recorded, text: bytes) -> bytes:
        """Cancel a request of the server's own, which may have gone out under another id, or not at all."""
        messages = frames.parse(text)[1]
        theirs = frames.cancelled(messages[0]) if messages else None
        if theirs is None:
            return text
        question = self._tape.question(recorded.session, recorded.seq, theirs)
        place = question.place if question else None
        live = next((live for live, asked in self._asked.items() if asked.place == place), None)
        if live is None:  # none that waits, whatever has its id now
            return rewrite.with_values(text, {("params", "requestId"): self._free_id(theirs)})
        self._withdrawn.append(self._asked.pop(live))
        self._taken_back.add(live)
        return rewrite.with_values(text, {("params", "requestId"): live})

    def _free_id(self, rpc_id: str) -> str:
        """As recorded, unless that is in flight; an answer to what was taken back may still be on its way."""
        return rewrite.free_id({*self._asked, *self._taken_back}.__contains__, rpc_id)


def said(call: Call, member: str, value: str) -> Send:
    """Answer a call with something of our own."""
    return Send(rewrite.response(call.rpc_id, member, value) + b"\n", call.channel, call, True)


def _batch_of(action: Action) -> tuple[str, int]:
    """The group of an action: what is due at once goes out together only where it was one batch."""
    recorded = action.recorded if isinstance(action, Send) else None
    return ("batch", recorded.frame) if recorded and recorded.frame_kind == "batch" else ("alone", id(action))


def _eol(recorded: Recorded) -> bytes:
    """As recorded; a message that was cut off before its line end gets one, noise does not."""
    if recorded.eol == "\n":
        return b"\n"
    return (recorded.eol or "").encode() or (b"" if recorded.kind == "noise" else b"\n")
