"""Answers, exchanges and cues, derived from the order of a session's messages.

Theory of operation
-------------------
The ledger reads the frames of one session in order, while they are recorded or when a cassette is rebuilt. It gives
each message an entry: the request it answers, the exchange it belongs to, and its cue. Entries are stored as indexed
columns, so that a replay finds the next message without parsing the tape. An entry depends only on the frames before
it. The one exception is a request that turns out to be a failed attempt: it is marked when the next attempt arrives.

Answers. In JSON-RPC the sender of a request picks its id, so each direction has its own id space: request 1 of the
client and request 1 of the server may be in flight at once. `_exchanges` holds the client's open requests by channel
and id, because several HTTP clients may share a session. `_asked` holds the server's.

Exchanges. A client request opens an exchange and its response closes it. A server message belongs to the first of these
exchanges that exists:
  1. the one whose request its response id names;
  2. the one that contains the server request it cancels;
  3. the one its subscription id names, on the listen streams of the modern era;
  4. the one its progress token names, even if that was answered recently;
  5. the newest exchange on its channel that is still open and neither cancelled nor a listen. On stdio, all exchanges
     share the channel. A POST stream carries the messages of its own request, even after the answer. On a GET
     stream, a server request may belong to any open exchange, and a notification belongs to none.

Malformed JSON that has the form of an answer belongs to the exchange that it would answer.
A client message belongs to the exchange that it opens, to the exchange of the server request that it answers or reports
progress on, or to the one that it cancels.

Cues. When the tape is replayed, each server message waits for its cue, the seq of a client message. Within an exchange
the cue is the newest client message of that exchange and never one outside it, so that no order of client requests can
deadlock a replay. Outside of exchanges, and on a listen stream after its first message, it is the newest client message
of the session. A client line that is not a message is a cue too: the answer to it, with no id or with the id in that
line, waits for it. replay/deck.py is the other half of this rule: it plays the cues.

HTTP. `_Streams` holds the state that control frames give of channels: statuses, which GET resumes which stream by
Last-Event-ID, and whether HTTP+SSE shares one stream. A refusal answers every request on its channel. A request that
the client repeats, because it had to authenticate, came too early, got 404 for an expired session or never reached the
server, is no longer matched: a replay finds only the last attempt.

https://www.jsonrpc.org/specification
https://modelcontextprotocol.io/specification/2025-11-25/basic (requests, responses, notifications)
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (POST and GET streams, resuming, sessions)
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import channels, frames, framing, match, protocol
from .frames import Frame, LedgerEntry, Message, new

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

_NOISE = Message("noise", None, None, None, None, {})
_RETRY = Message("noise", None, None, None, "retry", {})  # marks a repeated request: replay finds only the last attempt
_REMEMBERED = 10_000  # event ids; a client resumes after a recent one
_LATELY = 256  # answered requests that may still get progress


class _Exchange:
    """An exchange that waits for its response."""

    token: str | None = None  # the progress token in its request
    listen = acknowledged = cancelled = False

    def __init__(
        self, seq: int, part: int, rpc_id: str, method: str | None, channel: str, before: int, key: bytes | None
    ) -> None:
        self.seq = self.last_client = seq  # newest client message in the exchange
        self.place = seq + part  # number of the request
        self.rpc_id, self.method, self.channel = rpc_id, method, channel
        self.before, self.key = before, key  # the client message before the request, and the request's key


class Ledger:
    """Derive the entries of one session from its frames, in order."""

    def __init__(self) -> None:
        # Open client requests, by channel and id, oldest first.
        self._exchanges: dict[tuple[str, str], _Exchange] = {}
        self._posted: dict[str, dict[str, _Exchange]] = {}  # open HTTP requests, by channel: a batch may have several
        self._answered: dict[str, _Exchange] = {}  # recently answered exchanges, by progress token
        self._over: dict[str, _Exchange] = {}  # by open channel, the exchange that its last event answered
        self._asked: dict[str, tuple[int, str | None, _Exchange | None, str | None]] = {}  # open server requests
        self._streams = _Streams()
        self._refused: dict[bytes, list[int]] = {}  # by key, refused requests that the client may repeat
        self._malformed: dict[int, str | None] = {}  # client lines that are not messages, and the id in each
        self._last_client = self._before = 0
        self._forgotten: dict[int, int] = {}  # failed attempts, and the client message before each
        self.exchanges = 0
        self.facts: dict[str, str] = {}

    @property
    def open_exchanges(self) -> int:
        return len(self._exchanges) + len(self._asked)

    def waiting_requests(self) -> Iterator[tuple[int, bool]]:
        """Yield each request that may still be answered, by number, and whether it is a listen, which stays open."""
        yield from ((e.place, e.listen) for e in self._exchanges.values() if not e.cancelled)
        yield from ((place, False) for place, *_ in self._asked.values())

    def is_unanswered(self, channel: str) -> bool:
        """Return whether a request on this channel waits for a response, and no other stream will carry it."""
        return not self._streams.is_accepted(channel) and channel in self._posted

    def derive(self, frame: Frame) -> list[LedgerEntry]:
        """Return the entries of a frame on a cassette."""
        return self.enter(frame, frames.parse(frame.text)[1] if frame.kind in ("message", "batch") else [], frame.text)

    def enter(self, frame: Frame, messages: list[Message], matched: bytes) -> list[LedgerEntry]:
        """Return one entry per message; keys are made from the text `matched`."""
        _, _, sender, channel, kind, text, eol, head, _ = frame
        if kind == "control":
            return self._settle_event(frame)
        if sender == "server":
            if head is not None:
                if not eol:
                    return []  # a fragment, which clients ignore
                self._streams.see(frame)
            elif channel in self._streams.statuses:
                return self._body(frame, messages)
            if kind == "noise":
                return [self._enter_server(frame, _NOISE, None)]  # noise is replayed too, in its place
        elif kind == "noise" and text.strip():
            if channel == channels.STDIO:  # over HTTP it is refused at once
                self._before, self._last_client = self._last_client, frame.seq
            self._malformed[frame.seq] = frames.id_text(frames.facts(text).get("id"))
            return []
        keyed = messages if matched is text else frames.parse(matched)[1]
        place = self._enter_client if sender == "client" else self._enter_server
        entries = []
        for part, message in enumerate(messages):
            key = match.message_key(keyed[part], matched, part) if message.kind == "request" else None
            entries.append(place(frame, message, key, part))
        return entries

    # -- HTTP

    def _settle_event(self, frame: Frame) -> list[LedgerEntry]:
        """Settle requests by an HTTP event: attempts that the client repeats are dropped."""
        facts = frames.facts(frame.text)
        self._streams.learn(frame, facts)
        waiting = list(self._posted.get(frame.channel, {}).values())
        event = facts.get("event")
        if event in ("close", "abort"):
            self._over.pop(self._streams.origin(frame.channel), None)
        if event == "request":
            # The client resumes its stream, so the disconnect did not cancel its requests.
            for exchange in self._posted.get(self._streams.origin(frame.channel), {}).values():
                exchange.cancelled = False
        if event == "failed" or (event == "response" and self._streams.has_ended(frame.channel, facts)):
            for exchange in waiting:
                self._drop(exchange)
                self._forget(exchange)
            return [LedgerEntry(_RETRY, exchange.seq, None, None, None) for exchange in waiting]
        if event == "response" and not self._streams.asks_again(frame.channel):
            again = [seq for exchange in waiting for seq in self._refused.pop(exchange.key or b"", ())]
            self.exchanges -= len(again)
            return [LedgerEntry(_RETRY, seq, None, None, None) for seq in again]
        if event == "abort" and frame.sender == "client":
            for exchange in waiting:
                exchange.cancelled = True
        return []

    def _forget(self, exchange: _Exchange) -> None:
        """Make no message wait for a failed attempt: later ones wait for the client message before it."""
        self._forgotten[exchange.seq] = exchange.before
        while self._last_client in self._forgotten:
            self._last_client = self._forgotten[self._last_client]

    def _body(self, frame: Frame, messages: list[Message]) -> list[LedgerEntry]:
        """Return the entries of an HTTP response. A body that answers none of its requests refuses them all."""
        if any((frame.channel, message.rpc_id) in self._exchanges for message in messages):
            return [self._enter_server(frame, message, None, n) for n, message in enumerate(messages)]
        waiting = list(self._posted.get(frame.channel, {}).values())
        if not waiting or self._streams.is_accepted(frame.channel):
            return [
                LedgerEntry(message, None, None, None, None) for message in messages
            ]  # about HTTP only: never replayed
        if self._streams.asks_again(frame.channel):
            for exchange in waiting:
                self._refused.setdefault(exchange.key or b"", []).append(exchange.seq)
        body = messages[0].body if messages else {}
        refusals = [Message("response", None, exchange.rpc_id, None, "refused", body) for exchange in waiting]
        return [self._enter_server(frame, refusal, None) for refusal in refusals]

    # -- messages

    def _enter_client(self, frame: Frame, message: Message, key: bytes | None, part: int = 0) -> LedgerEntry:
        kind, method, rpc_id, _, _, body = message
        seq, channel = frame.seq, frame.channel
        answers, exchange, token = None, None, None
        if seq != self._last_client:  # messages of a batch share a seq
            self._before, self._last_client = self._last_client, seq
        params = body.get("params")
        if type(params) is dict and (method == protocol.INITIALIZE or "_meta" in params):  # others carry no facts
            self.facts |= protocol.session_facts(method, body)
            token = frames.requested_token(message)
        if kind == "request" and rpc_id is not None:
            exchange = _Exchange(seq, part, rpc_id, method, channel, self._before, key)
            if token is not None:
                exchange.token = token
            if method == protocol.LISTEN:
                exchange.listen = True
            self._exchanges[channel, rpc_id] = exchange
            if channel != channels.STDIO:
                self._posted.setdefault(channel, {})[rpc_id] = exchange
            return new(LedgerEntry, (message, None, key, seq, None))
        if kind == "response":
            asked = self._asked.pop(rpc_id or "", None)
            if asked is not None:
                self.exchanges += 1
                answers, _, exchange, _ = asked
        else:
            exchange = self._find_named(frame, message)
        if exchange is None:
            return new(LedgerEntry, (message, answers, key, None, None))
        exchange.last_client = seq
        return new(LedgerEntry, (message, answers, key, exchange.seq, None))

    def _enter_server(self, frame: Frame, message: Message, key: bytes | None, part: int = 0) -> LedgerEntry:
        exchange = self._exchange_of(frame, message)
        cue = self._cue(exchange)
        if message.kind == "response" and exchange is None:
            cue = self._take_malformed(message.rpc_id) or cue
        if message.kind == "response" and exchange is not None:
            self._close(exchange, message.body)
            if (
                frame.head is not None
                and _takes_all(exchange)
                and exchange.channel == self._streams.origin(frame.channel)
            ):
                self._over[exchange.channel] = exchange
            return new(LedgerEntry, (message, exchange.place, key, exchange.seq, cue))
        if message.kind == "request" and message.rpc_id is not None:
            self._asked[message.rpc_id] = (frame.seq + part, message.method, exchange, frames.requested_token(message))
        return new(LedgerEntry, (message, None, key, exchange.seq if exchange else None, cue))

    def _take_malformed(self, rpc_id: str | None) -> int | None:
        """Take the oldest malformed client line that an answer with this id may belong to."""
        fitting = (seq for seq, own in self._malformed.items() if rpc_id is None or own == rpc_id)
        seq = next(fitting, None)
        if seq is not None:
            del self._malformed[seq]
        return seq

    def _close(self, exchange: _Exchange, answer: dict[str, Any]) -> None:
        self._drop(exchange)
        if exchange.token is not None:
            self._answered.pop(exchange.token, None)
            self._answered[exchange.token] = exchange
            if len(self._answered) > _LATELY:
                del self._answered[next(iter(self._answered))]
        self.exchanges += 1
        result = answer.get("result")
        if type(result) is dict and ("_meta" in result or exchange.method in protocol.INTRODUCTIONS):
            self.facts |= protocol.session_facts(exchange.method, answer)

    def _find_named(self, frame: Frame, message: Message) -> _Exchange | None:
        """Return the exchange that a client notification names, by id or by token."""
        if message.method == protocol.CANCELLED:
            exchange = self._find_open(frame.channel, frames.cancelled_request_id(message))
            if exchange is not None:
                exchange.cancelled = True
            return exchange
        token = frames.progress_token(message)
        return next((e for _, _, e, asked in self._asked.values() if token and asked == token), None)

    def _exchange_of(self, frame: Frame, message: Message) -> _Exchange | None:
        channel = self._streams.origin(frame.channel)
        if message.kind == "noise":
            span = frames.id_of_broken_answer(frame.text)
            own = None if span is None else self._exchanges.get((channel, frame.text[slice(*span)].decode()))
            if own is not None:
                return own
        if message.kind == "response":
            own = self._exchanges.get((channel, message.rpc_id or ""))
            return own if own is not None or channels.is_post(channel) else self._find_open(channel, message.rpc_id)
        params = message.body.get("params")
        if message.method == protocol.CANCELLED:
            asked = self._asked.get(frames.cancelled_request_id(message) or "")
            if asked is not None:
                return asked[2]
        subscription = frames.id_text(protocol.subscription_id(message.body))
        if subscription is not None:
            return self._find_open(channel, subscription)
        if message.kind == "notification" and isinstance(params, dict) and "progressToken" in params:
            token = frames.progress_token(message)
            waits = self._newest(channel, lambda e: e.token == token) or self._newest(None, lambda e: e.token == token)
            return waits or self._answered.get(token or "")
        # On a GET stream a server may request input for a call; its notifications there belong to no exchange.
        anywhere = self._streams.is_shared(channel) or message.kind == "request"
        within = self._newest(channel, _takes_all) or self._over.get(channel)
        return within or (self._newest(None, _takes_all) if anywhere and channel != channels.STDIO else None)

    def _find_open(self, channel: str, rpc_id: str | None) -> _Exchange | None:
        """Return the open exchange with this id: on the same channel or, over HTTP, the newest on any."""
        found = self._exchanges.get((channel, rpc_id or ""))
        return found if found or channel == channels.STDIO else self._newest(None, lambda e: e.rpc_id == rpc_id)

    def _newest(self, channel: str | None, fits: Callable[[_Exchange], bool]) -> _Exchange | None:
        of_one = channel is not None and channel != channels.STDIO
        newest_first = reversed((self._posted.get(channel or "", {}) if of_one else self._exchanges).values())
        return next((e for e in newest_first if (channel is None or e.channel == channel) and fits(e)), None)

    def _drop(self, exchange: _Exchange) -> None:
        """Remove an exchange from the open ones."""
        channel, rpc_id = exchange.channel, exchange.rpc_id
        del self._exchanges[channel, rpc_id]
        if channel in self._posted:
            del self._posted[channel][rpc_id]
            if not self._posted[channel]:
                del self._posted[channel]

    def _cue(self, exchange: _Exchange | None) -> int:
        if exchange is None or (exchange.listen and exchange.acknowledged):
            return self._last_client
        exchange.acknowledged = True
        return exchange.last_client


class _Streams:
    """State of a session's HTTP channels, from its control frames."""

    def __init__(self) -> None:
        self._resumed: dict[str, str] = {}  # by channel, the channel that it resumes
        self._events: dict[str, str] = {}  # by event id, its channel
        self._shared: set[str] = set()
        self._in_session: set[str] = set()  # channels whose request named a session
        self.statuses: dict[str, int] = {}

    def origin(self, channel: str) -> str:
        """Return the channel that this one resumes, or the channel itself."""
        return self._resumed.get(channel, channel)

    def is_shared(self, channel: str) -> bool:
        """Return whether all server messages arrive on this channel, as on stdio."""
        return channel == channels.STDIO or channel in self._shared

    def is_accepted(self, channel: str) -> bool:
        """Return whether the HTTP response only announced an answer on another stream."""
        status = self.statuses.get(channel, 0)
        return status == 202 or (bool(self._shared) and 200 <= status < 300)

    def asks_again(self, channel: str) -> bool:
        """Return whether the status asks the client to repeat its request: later, elsewhere or with credentials."""
        return self.statuses.get(channel) in protocol.RETRY_STATUSES

    def has_ended(self, channel: str, facts: dict[str, Any]) -> bool:
        """Return whether the request's session has expired, so that the client must repeat the request in a new one."""
        return facts.get("status") == 404 and channel in self._in_session

    def learn(self, frame: Frame, facts: dict[str, Any]) -> None:
        event, channel = facts.get("event"), frame.channel
        headers = facts.get("headers")
        if event == "request" and isinstance(headers, dict):
            if protocol.SESSION_HEADER in headers:
                self._in_session.add(channel)
            before = self._events.get(str(headers.get(protocol.RESUME_HEADER)))
            if before is not None:
                self._resumed[channel] = before
        elif event == "response" and isinstance(facts.get("status"), int):
            self.statuses[channel] = protocol.meant_status(facts["status"], headers)
        elif event == "endpoint":
            self._shared.add(channel)
        elif event in ("close", "abort"):
            self.statuses.pop(channel, None)
            self._in_session.discard(channel)

    def see(self, frame: Frame) -> None:
        """Note the id of a server event, after which a client may resume."""
        number = framing.field(frame.head, b"id") if frame.head else None
        if number:
            self._events[number] = self.origin(frame.channel)
            if len(self._events) > _REMEMBERED:
                del self._events[next(iter(self._events))]


def _takes_all(exchange: _Exchange) -> bool:
    """Return whether this exchange may own a message that names none."""
    return not exchange.listen and not exchange.cancelled
