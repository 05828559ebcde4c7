"""What follows from the order of messages: which answer belongs to which request, which message to
which exchange, and what each of the server's messages waits for when the tape is played.

The playing rule's first half. Derived while recording, so that replay finds by an index what is due
next. Id spaces are per direction: everything is keyed by (sender, id).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import channels, frames, framing, jsontext, match, protocol
from .frames import Entry, Frame, Message

_NOISE = Message("noise", None, None, None, None, {})
_RETRY = Message("noise", None, None, None, "retry", {})
_REMEMBERED = 10_000  # event ids; a client resumes behind one of the last


@dataclass(slots=True)
class _Exchange:
    """An open request of the client."""

    seq: int
    rpc_id: str
    method: str | None
    token: str | None
    channel: str
    last_client: int  # its newest message from the client
    before: int  # what the client said before it
    key: bytes | None = None
    listen: bool = False
    acknowledged: bool = False
    cancelled: bool = False


class Ledger:
    """Derives entries from the frames of one session, in order."""

    def __init__(self) -> None:
        # The client's open requests by channel and id, oldest first: over HTTP several clients may share a session.
        self._exchanges: dict[tuple[str, str], _Exchange] = {}
        self._asked: dict[str, tuple[int, str | None, _Exchange | None, str | None]] = {}  # the server's
        self._streams = _Streams()
        self._refused: dict[bytes, list[int]] = {}  # by key, requests that the client may make again
        self._last_client = self._before = 0
        self._forgotten: dict[int, int] = {}  # requests that never reached the server, and what the client said before
        self.exchanges = 0
        self.facts: dict[str, str] = {}

    @property
    def still_open(self) -> int:
        return len(self._exchanges) + len(self._asked)

    def is_unanswered(self, channel: str) -> bool:
        """Whether a request that came on this channel waits, and was not just taken in to be answered elsewhere."""
        return not self._streams.is_accepted(channel) and any(e.channel == channel for e in self._exchanges.values())

    def derive(self, frame: Frame) -> list[Entry]:
        """The entries of a frame that is on a cassette."""
        return self.enter(frame, frames.parse(frame.text)[1] if frame.kind in ("message", "batch") else [], frame.text)

    def enter(self, frame: Frame, messages: list[Message], matched: bytes) -> list[Entry]:
        """One entry per message; `matched` is the text that keys are made of."""
        if frame.kind == "control":
            return self._happened(frame)
        if frame.sender == "server":
            if frame.head is not None:
                if not frame.eol:
                    return []  # a fragment, which reached nobody
                self._streams.see(frame)
            elif frame.channel in self._streams.statuses:
                return self._body(frame, messages)
            if frame.kind == "noise":
                return [self._of_server(frame, _NOISE, None)]  # it plays in its place too
        keyed = messages if matched is frame.text else frames.parse(matched)[1]
        place = self._of_client if frame.sender == "client" else self._of_server
        return [
            place(frame, message, match.message_key(keyed[n], matched, n) if message.kind == "request" else None)
            for n, message in enumerate(messages)
        ]

    # -- HTTP

    def _happened(self, frame: Frame) -> list[Entry]:
        """A fact of HTTP may settle requests: those that the client makes again do not count."""
        facts = _facts(frame.text)
        self._streams.learn(frame, facts)
        waiting = [exchange for exchange in self._exchanges.values() if exchange.channel == frame.channel]
        event = facts.get("event")
        if event == "request":
            self._resume(self._streams.origin(frame.channel))
        if event == "failed" or (event == "response" and self._streams.has_ended(frame.channel, facts)):
            for exchange in waiting:
                del self._exchanges[exchange.channel, exchange.rpc_id]
                self._forget(exchange)
            return [_retried(exchange.seq) for exchange in waiting]
        if event == "response" and not self._streams.asks_again(frame.channel):
            again = [seq for exchange in waiting for seq in self._refused.pop(exchange.key or b"", ())]
            self.exchanges -= len(again)
            return [_retried(seq) for seq in again]
        if event == "abort" and frame.sender == "client":
            for exchange in waiting:
                exchange.cancelled = True
        return []

    def _forget(self, exchange: _Exchange) -> None:
        """Nothing waits for what is not on the tape: what comes now waits for what the client said before."""
        self._forgotten[exchange.seq] = exchange.before
        while self._last_client in self._forgotten:
            self._last_client = self._forgotten[self._last_client]

    def _resume(self, channel: str) -> None:
        """The client came back to a stream: it had not cancelled what it asked there."""
        for exchange in self._exchanges.values():
            if exchange.channel == channel:
                exchange.cancelled = False

    def _body(self, frame: Frame, messages: list[Message]) -> list[Entry]:
        """The body of an HTTP response. One that names none of the requests refuses them all."""
        if any((frame.channel, message.rpc_id) in self._exchanges for message in messages):
            return [self._of_server(frame, message, None) for message in messages]
        waiting = [exchange for exchange in self._exchanges.values() if exchange.channel == frame.channel]
        if not waiting or self._streams.is_accepted(frame.channel):
            return [Entry(message, None, None, None, None) for message in messages]  # about HTTP: never played
        if self._streams.asks_again(frame.channel):
            for exchange in waiting:
                self._refused.setdefault(exchange.key or b"", []).append(exchange.seq)
        body = messages[0].body if messages else {}
        refusals = [Message("response", None, exchange.rpc_id, None, "refused", body) for exchange in waiting]
        return [self._of_server(frame, refusal, None) for refusal in refusals]

    # -- messages

    def _of_client(self, frame: Frame, message: Message, key: bytes | None) -> Entry:
        answers, exchange = None, None
        if frame.seq != self._last_client:  # all messages of a batch have one number
            self._before, self._last_client = self._last_client, frame.seq
        self._learn(message.method, message)
        if message.kind == "request" and message.rpc_id is not None:
            token = frames.token_asked(message)
            listen = message.method == protocol.LISTEN
            opened = frame.seq, message.rpc_id, message.method, token, frame.channel, frame.seq, self._before
            exchange = _Exchange(*opened, key, listen)
            self._exchanges[frame.channel, message.rpc_id] = exchange
        elif message.kind == "response":
            asked = self._asked.pop(message.rpc_id or "", None)
            if asked is not None:
                self.exchanges += 1
                answers, _, exchange, _ = asked
        else:
            exchange = self._told(frame, message)
        if exchange is not None:
            exchange.last_client = frame.seq
        return Entry(message, answers, key, exchange.seq if exchange else None, None)

    def _of_server(self, frame: Frame, message: Message, key: bytes | None) -> Entry:
        answers, exchange = None, self._exchange_of(frame, message)
        cue = self._cue(exchange)
        if message.kind == "request" and message.rpc_id is not None:
            token = frames.token_asked(message)
            self._asked[message.rpc_id] = (frame.seq, message.method, exchange, token)
        elif message.kind == "response" and exchange is not None:
            del self._exchanges[exchange.channel, exchange.rpc_id]
            answers = exchange.seq
            self.exchanges += 1
            self._learn(exchange.method, message)
        return Entry(message, answers, key, exchange.seq if exchange else None, cue)

    def _told(self, frame: Frame, message: Message) -> _Exchange | None:
        """The exchange that a notification of the client names, by its id or its token."""
        params = message.body.get("params")
        if message.method == protocol.CANCELLED:
            exchange = self._open(frame.channel, _json(protocol.member(params, "requestId")))
            if exchange is not None:
                exchange.cancelled = True
            return exchange
        token = _json(protocol.member(params, "progressToken"))
        return next((e for _, _, e, asked in self._asked.values() if token and asked == token), None)

    def _exchange_of(self, frame: Frame, message: Message) -> _Exchange | None:
        channel = self._streams.origin(frame.channel)
        if message.kind == "response":
            own = self._exchanges.get((channel, message.rpc_id or ""))
            return own if own or channels.is_post(channel) else self._open(channel, message.rpc_id)
        params = message.body.get("params")
        if message.method == protocol.CANCELLED:
            asked = self._asked.get(_json(protocol.member(params, "requestId")) or "")
            if asked is not None:
                return asked[2]
        subscription = _json(protocol.subscription_id(message.body))
        if subscription is not None:
            return self._open(channel, subscription)
        if message.kind == "notification" and isinstance(params, dict) and "progressToken" in params:
            token = _json(params["progressToken"])
            return self._newest(channel, lambda e: e.token == token) or self._newest(None, lambda e: e.token == token)
        # A server may ask on its GET stream what a call needs; what it tells there belongs to none.
        anywhere = self._streams.is_shared(channel) or message.kind == "request"
        within = self._newest(channel, _takes_all)
        return within or (self._newest(None, _takes_all) if anywhere and channel != channels.STDIO else None)

    def _open(self, channel: str, rpc_id: str | None) -> _Exchange | None:
        """The open request with this id: of the same channel, else, over HTTP, the newest of any."""
        found = self._exchanges.get((channel, rpc_id or ""))
        return found if found or channel == channels.STDIO else self._newest(None, lambda e: e.rpc_id == rpc_id)

    def _newest(self, channel: str | None, fits: Callable[[_Exchange], bool]) -> _Exchange | None:
        newest_first = reversed(self._exchanges.values())  # lazily: thousands may be open
        return next((e for e in newest_first if (channel is None or e.channel == channel) and fits(e)), None)

    def _cue(self, exchange: _Exchange | None) -> int:
        if exchange is None or (exchange.listen and exchange.acknowledged):
            return self._last_client
        exchange.acknowledged = True
        return exchange.last_client

    def _learn(self, method: str | None, message: Message) -> None:
        self.facts |= protocol.session_facts(method, message.body)


class _Streams:
    """The HTTP streams of one session. Says nothing of stdio."""

    def __init__(self) -> None:
        self._resumed: dict[str, str] = {}  # a stream, and the one it goes on with
        self._events: dict[str, str] = {}  # by event id, the stream it came on
        self._shared: set[str] = set()
        self._in_session: set[str] = set()  # requests that named a session
        self.statuses: dict[str, int] = {}

    def origin(self, channel: str) -> str:
        """The stream that this one resumes; itself, mostly."""
        return self._resumed.get(channel, channel)

    def is_shared(self, channel: str) -> bool:
        """Whether everything that the server says comes on this channel, as on stdio."""
        return channel == channels.STDIO or channel in self._shared

    def is_accepted(self, channel: str) -> bool:
        """Whether the response only said that the answer will come on another stream."""
        status = self.statuses.get(channel, 0)
        return status == 202 or (bool(self._shared) and 200 <= status < 300)

    def asks_again(self, channel: str) -> bool:
        """Whether the client was told to make its request again: later, elsewhere, with credentials."""
        return self.statuses.get(channel) in protocol.RETRY_STATUSES

    def has_ended(self, channel: str, facts: dict[str, Any]) -> bool:
        """Whether the session of a request is over: it is to be made again in another."""
        return facts.get("status") == 404 and channel in self._in_session

    def learn(self, frame: Frame, facts: dict[str, Any]) -> None:
        """A control frame."""
        event, channel = facts.get("event"), frame.channel
        headers = facts.get("headers")
        if event == "request" and isinstance(headers, dict):
            if protocol.SESSION_HEADER in headers:
                self._in_session.add(channel)
            before = self._events.get(str(headers.get(protocol.RESUME_HEADER)))
            if before is not None:
                self._resumed[channel] = before
        elif event == "response" and isinstance(facts.get("status"), int):
            self.statuses[channel] = facts["status"]
        elif event == "endpoint":
            self._shared.add(channel)
        elif event in ("close", "abort"):
            self.statuses.pop(channel, None)
            self._in_session.discard(channel)

    def see(self, frame: Frame) -> None:
        """An event of the server: a client may ask for what follows it."""
        number = framing.field(frame.head, b"id") if frame.head else None
        if number:
            self._events[number] = self.origin(frame.channel)
            if len(self._events) > _REMEMBERED:
                del self._events[next(iter(self._events))]


def _retried(seq: int) -> Entry:
    """The client made this request again: only the last try is to be found."""
    return Entry(_RETRY, seq, None, None, None)


def _takes_all(exchange: _Exchange) -> bool:
    """Whether what names no exchange may belong to this one."""
    return not exchange.listen and not exchange.cancelled


def _facts(text: bytes) -> dict[str, Any]:
    """The facts of a control frame; none where a stranger wrote something else."""
    try:
        facts = jsontext.loads(text)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _json(value: Any) -> str | None:
    """An id or a token as JSON text, or None where there is none."""
    return frames.id_text(value)
