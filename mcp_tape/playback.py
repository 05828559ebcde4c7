"""Recorded messages made into what is sent: live ids and tokens spliced in, batches put together again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from . import frames, protocol, rewrite
from .calls import Call
from .selection import Recorded, Selection


class Send(NamedTuple):
    """Send this, line end included. `call` is the request it belongs to, `answers` whether it is its answer."""

    text: bytes
    channel: str
    call: Call | None = None
    answers: bool = False
    recorded: Recorded | None = None  # what it was made from


class Hangup(NamedTuple):
    """End the session now, with this exit code; over HTTP, where others may go on, only that call's connection."""

    code: int
    call: Call | None = None


class Refuse(NamedTuple):
    """Answer a call with this HTTP status, and perhaps a body that is no message."""

    status: int
    call: Call
    body: bytes = b""
    content_type: str = "text/plain"


class Reset(NamedTuple):
    """Reset the connection that a call came on."""

    call: Call


Action = Send | Hangup | Refuse | Reset


if TYPE_CHECKING:  # start-up is the feature: a Protocol alone costs a millisecond
    from typing import Protocol

    class Player(Protocol):
        """What a transport plays to: a deck, with or without faults and a live server behind it."""

        def quick(self, text: bytes) -> bytes | None: ...

        def receive(self, text: bytes, channel: str, now: float) -> None: ...

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


class Playback:
    """Knows which of the server's own requests are in flight, and under which id they went out."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self.asked: dict[str, Recorded] = {}

    def sends(self, ready: list[Pending]) -> list[Send]:
        """What to send for messages that are due, in this order."""
        return [send for _, together in groupby(ready, _together_with) for send in self._frame(list(together))]

    def _frame(self, together: list[Pending]) -> list[Send]:
        """One message, or those of a batch that are due at once."""
        first = together[0]
        if first.recorded is None:
            assert first.call is not None
            return [said(first.call, "error", rewrite.error(MISS, UNANSWERED))]
        if first.recorded.frame_kind != "batch":
            return self._one(first, self._selection.text(first.recorded))
        whole = self._selection.frame_text(first.recorded)
        sends = [
            send
            for pending in together
            if pending.recorded
            for send in self._one(pending, self._selection.element(pending.recorded, whole))
        ]
        parts = whole.parts
        if not parts or [send.recorded.part for send in sends if send.recorded] != [*range(len(parts))]:
            return sends  # some are not due, or are repeated
        texts = [send.text.rstrip(b"\r\n") for send in sends]
        return [sends[-1]._replace(text=rewrite.with_elements(whole.text, texts) + _eol(first.recorded))]

    def _one(self, pending: Pending, text: bytes) -> list[Send]:
        recorded, call = pending
        assert recorded is not None
        live = self._rewritten(recorded, call, text)
        if live is None:
            return []
        answers = recorded.kind == "response"
        return [Send(live + _eol(recorded), call.channel if call else "", call, answers, recorded)]

    def _rewritten(self, recorded: Recorded, call: Call | None, text: bytes) -> bytes | None:
        if recorded.status == "refused" and call:
            return rewrite.refusal(text, call.rpc_id)
        if recorded.kind == "response":
            return rewrite.answer(text, recorded.rpc_id, call.rpc_id) if call else text
        if recorded.kind == "request":
            live = self._free_id(recorded.rpc_id or "null")
            self.asked[live] = recorded
            return rewrite.with_id(text, recorded.rpc_id, live)
        if recorded.method == protocol.CANCELLED:
            return self._cancelled(recorded, text)
        return rewrite.notification(text, recorded.method, call.rpc_id, call.token) if call else text

    def _cancelled(self, recorded: Recorded, text: bytes) -> bytes:
        """The server takes back a request of its own, which may have gone out under another id."""
        messages = frames.parse(text)[1]
        theirs = frames.id_text(protocol.member(messages[0].body.get("params"), "requestId")) if messages else None
        same = [live for live, asked in self.asked.items() if asked.rpc_id == theirs and _together(asked, recorded)]
        if not same:
            return text
        del self.asked[same[-1]]
        return rewrite.with_values(text, {("params", "requestId"): same[-1]})

    def _free_id(self, rpc_id: str) -> str:
        """As recorded, unless that is in flight."""
        if rpc_id not in self.asked:
            return rpc_id
        return next(str(number) for number in range(1, len(self.asked) + 2) if str(number) not in self.asked)


NOT_FOUND, MISS = -32601, -32010
UNANSWERED = "the recording ends before the answer"


def said(call: Call, member: str, value: str) -> Send:
    """An answer of our own."""
    text = f'{{"jsonrpc":"2.0","id":{call.rpc_id},"{member}":{value}}}\n'
    return Send(text.encode("utf-8", "surrogatepass"), call.channel, call, True)


def _together_with(pending: Pending) -> tuple[str, int]:
    """What is due at once goes out together only where it was one batch."""
    recorded = pending.recorded
    return ("batch", recorded.frame) if recorded and recorded.frame_kind == "batch" else ("alone", id(pending))


def _together(one: Recorded, other: Recorded) -> bool:
    return (one.session, one.exchange) == (other.session, other.exchange)


def _eol(recorded: Recorded) -> bytes:
    """As recorded; a message that was cut off before its line end gets one, noise does not."""
    if recorded.eol == "\n":
        return b"\n"
    return (recorded.eol or "").encode() or (b"" if recorded.kind == "noise" else b"\n")
