"""Recorded messages made into what is sent: live ids and tokens spliced in, batches put together again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ..wire import frames, protocol, rewrite
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
        self.taken_back: set[str] = set()  # ids of what the server has cancelled
        self._withdrawn: list[Recorded] = []

    def withdrawn(self) -> list[Recorded]:
        """The server's requests that were taken back since somebody asked last."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn

    def was_taken_back(self, rpc_id: str | None) -> bool:
        """Whether an answer is to what the server has taken back; there is one at the most."""
        late = rpc_id in self.taken_back
        self.taken_back.discard(rpc_id or "")
        return late

    def sends(self, ready: list[Pending]) -> list[Send]:
        """What to send for messages that are due, in this order, each on its own."""
        return [send for pending in ready for send in self._one(*pending)]

    def joined(self, actions: Iterable[Action]) -> list[Action]:
        """The same with batches put together again, of which all messages go out at once and to one place."""
        return [done for _, together in groupby(actions, _batch_of) for done in self._batch(list(together))]

    def _batch(self, together: list[Action]) -> list[Action]:
        sends = [action for action in together if isinstance(action, Send)]
        recorded = sends[0].recorded if sends else None
        if recorded is None or recorded.frame_kind != "batch":
            return together
        whole = self._selection.frame_text(recorded)
        parts = [send.recorded.part for send in sends if send.recorded]
        channels = {send.channel for send in sends if send.call is not None}
        if not whole.parts or parts != [*range(len(whole.parts))] or len(channels) > 1:
            return together  # some are not due, are repeated, or were asked for elsewhere
        texts = [send.text.rstrip(b"\r\n") for send in sends]
        return [sends[-1]._replace(text=rewrite.with_elements(whole.text, texts) + _eol(recorded))]

    def _one(self, recorded: Recorded | None, call: Call | None) -> list[Send]:
        if recorded is None:
            assert call is not None
            return [said(call, "error", rewrite.error(MISS, UNANSWERED))]
        is_batch = recorded.frame_kind == "batch"
        text = self._selection.element(recorded) if is_batch else self._selection.text(recorded)
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
        """The server takes back a request of its own, which may have gone out under another id, or not at all."""
        messages = frames.parse(text)[1]
        theirs = frames.cancelled(messages[0]) if messages else None
        if theirs is None:
            return text
        rows = self._selection.rows(recorded.session, _ASKED, recorded.seq, theirs)
        live = next((live for live, asked in self.asked.items() if rows and asked.place == rows[0].place), None)
        if live is None:  # none that waits, whatever has its id now
            return rewrite.with_values(text, {("params", "requestId"): self._free_id(theirs)})
        self._withdrawn.append(self.asked.pop(live))
        self.taken_back.add(live)
        return rewrite.with_values(text, {("params", "requestId"): live})

    def _free_id(self, rpc_id: str) -> str:
        """As recorded, unless that is in flight; an answer to what was taken back may still be on its way."""
        return rewrite.free_id({*self.asked, *self.taken_back}.__contains__, rpc_id)


NOT_FOUND, MISS = -32601, -32010
_ASKED = """sender = 'server' AND seq <= ? AND +kind = 'request' AND +rpc_id = ?
    ORDER BY seq DESC, part DESC LIMIT 1"""  # the newest with an id, before a place
UNANSWERED = "the recording ends before the answer"


def said(call: Call, member: str, value: str) -> Send:
    """An answer of our own."""
    text = f'{{"jsonrpc":"2.0","id":{call.rpc_id},"{member}":{value}}}\n'
    return Send(text.encode("utf-8", "surrogatepass"), call.channel, call, True)


def _batch_of(action: Action) -> tuple[str, int]:
    """What is due at once goes out together only where it was one batch."""
    recorded = action.recorded if isinstance(action, Send) else None
    return ("batch", recorded.frame) if recorded and recorded.frame_kind == "batch" else ("alone", id(action))


def _eol(recorded: Recorded) -> bytes:
    """As recorded; a message that was cut off before its line end gets one, noise does not."""
    if recorded.eol == "\n":
        return b"\n"
    return (recorded.eol or "").encode() or (b"" if recorded.kind == "noise" else b"\n")
