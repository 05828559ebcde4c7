"""Answers, exchanges and cues, derived from the order of the messages of a session.

Theory of operation
-------------------
The ledger reads the frames of one session in order, as they are recorded or when a cassette is rebuilt, and gives each
message an entry: the request it answers, the exchange it belongs to, and its cue. They are stored as indexed columns,
so that a replay finds what is due next without parsing the tape. Nothing is ever looked up ahead: an entry follows from
the frames before it alone. The one exception is a request that turns out to be a failed try: it is marked when the
next try shows that.

Answers. JSON-RPC leaves ids to the sender of a request, so each direction has its own id space: request 1 of the client
and request 1 of the server may be in flight at once. `_exchanges` holds the client's open requests by channel and id,
as several HTTP clients may share a session; `_asked` holds the server's.

Exchanges. An exchange is opened by a request of the client and closed by the response. A message of the server
belongs, in this order, to the exchange that
  1. its response id answers;
  2. the server's request that it cancels was part of;
  3. its subscription id names, on the listen streams of the modern era;
  4. its progress token names, also if that was answered just now;
  5. was opened most recently on its channel and is still open, neither cancelled nor a listen. On stdio that is any; a
     POST stream carries what belongs to the request posted; on a GET stream a request of the server may serve any open
     exchange, and a notification belongs to none.
Noise that has the form of an answer, and is no valid JSON, belongs to the exchange that it would answer.
A message of the client belongs to the exchange that it opens, to that of the server's request it answers or reports
progress on, or to the one that it cancels.

Cues. When the tape is played, each message of the server waits for its cue, the seq of a client message: within an
exchange the newest client message of that exchange, and nothing outside it, so that no order of a client's requests can
deadlock a replay; outside of exchanges, and on a listen stream after its first message, the newest client message of
the session. A line of the client that is no message is a cue like any other. What answers it, under no id or under that
line's own, waits for it. The second half of this rule, playing, is replay/deck.py.

HTTP. `_Streams` keeps what control frames state of channels: statuses, which GET resumes which stream by Last-Event-ID,
and whether HTTP+SSE shares one stream among all. A refusal answers every request on its channel. A request that the
client repeats, because it was to authenticate, came too early, got 404 for an expired session or never reached the
server, loses its place: only the last try is found by a replay.

https://www.jsonrpc.org/specification
https://modelcontextprotocol.io/specification/2025-11-25/basic (requests, responses, notifications)
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (POST and GET streams, resuming, sessions)
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import channels, frames, framing, match, protocol
from .frames import Entry, Frame, Message, new

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

_NOISE = Message("noise", None, None, None, None, {})
_RETRY = Message("noise", None, None, None, "retry", {})  # marks a request as repeated: only the last try is found
_REMEMBERED = 10_000  # event ids; a client resumes behind one of the last
_LATELY = 256  # answered requests that progress may still come for


class _Exchange:
    """An exchange whose response is still to come."""

    token: str | None = None  # under which it asks for progress
    listen = acknowledged = cancelled = False

    def __init__(
        self, seq: int, part: int, rpc_id: str, method: str | None, channel: str, before: int, key: bytes | None
    ) -> None:
        self.seq = self.last_client = seq  # newest message of the client in it
        self.place = seq + part  # of its request
        self.rpc_id, self.method, self.channel = rpc_id, method, channel
        self.before, self.key = before, key  # the client message before its request, and its key


class Ledger:
    """Derive the entries of one session from its frames, in order."""

    def __init__(self) -> None:
        # Open requests of the client, by channel and id, oldest first.
        self._exchanges: dict[tuple[str, str], _Exchange] = {}
        self._posted: dict[str, dict[str, _Exchange]] = {}  # those of HTTP, by channel: any number may be open
        self._answered: dict[str, _Exchange] = {}  # by the token of each, the last ones
        self._asked: dict[str, tuple[int, str | None, _Exchange | None, str | None]] = {}  # open requests of the server
        self._streams = _Streams()
        self._refused: dict[bytes, list[int]] = {}  # by key, refused requests that the client may repeat
        self._malformed: dict[int, str | None] = {}  # lines of the client that are no message, and the id in each
        self._last_client = self._before = 0
        self._forgotten: dict[int, int] = {}  # failed tries, and the client message before each
        self.exchanges = 0
        self.facts: dict[str, str] = {}

    @property
    def still_open(self) -> int:
        return len(self._exchanges) + len(self._asked)

    def waiting(self) -> Iterator[tuple[int, bool]]:
        """Requests of both sides that may still be answered, by number; whether each is for as long as it takes."""
        yield from ((e.place, e.listen) for e in self._exchanges.values() if not e.cancelled)
        yield from ((place, False) for place, *_ in self._asked.values())

    def is_unanswered(self, channel: str) -> bool:
        """Return whether a request on this channel waits for a response that will not come on another stream."""
        return not self._streams.is_accepted(channel) and channel in self._posted

    def derive(self, frame: Frame) -> list[Entry]:
        """Return the entries of a frame that is on a cassette."""
        return self.enter(frame, frames.parse(frame.text)[1] if frame.kind in ("message", "batch") else [], frame.text)

    def enter(self, frame: Frame, messages: list[Message], matched: bytes) -> list[Entry]:
        """Return one entry per message; `matched` is the text that keys are made of."""
        _, _, sender, channel, kind, text, eol, head, _ = frame
        if kind == "control":
            return self._happened(frame)
        if sender == "server":
            if head is not None:
                if not eol:
                    return []  # a fragment, which no client acts on
                self._streams.see(frame)
            elif channel in self._streams.statuses:
                return self._body(frame, messages)
            if kind == "noise":
                return [self._of_server(frame, _NOISE, None)]  # noise is played in its place, too
        elif kind == "noise" and text.strip():
            if channel == channels.STDIO:  # over HTTP it is refused there and then
                self._before, self._last_client = self._last_client, frame.seq
            self._malformed[frame.seq] = frames.id_text(frames.facts(text).get("id"))
            return []
        keyed = messages if matched is text else frames.parse(matched)[1]
        place = self._of_client if sender == "client" else self._of_server
        entries = []
        for part, message in enumerate(messages):
            key = match.message_key(keyed[part], matched, part) if message.kind == "request" else None
            entries.append(place(frame, message, key, part))
        return entries

    # -- HTTP

    def _happened(self, frame: Frame) -> list[Entry]:
        """Settle requests by a fact of HTTP: those that the client repeats do not count."""
        facts = frames.facts(frame.text)
        self._streams.learn(frame, facts)
        waiting = list(self._posted.get(frame.channel, {}).values())
        event = facts.get("event")
        if event == "request":
            # The client resumes its stream: leaving it had not cancelled it.
            for exchange in self._posted.get(self._streams.origin(frame.channel), {}).values():
                exchange.cancelled = False
        if event == "failed" or (event == "response" and self._streams.has_ended(frame.channel, facts)):
            for exchange in waiting:
                self._drop(exchange)
                self._forget(exchange)
            return [Entry(_RETRY, exchange.seq, None, None, None) for exchange in waiting]
        if event == "response" and not self._streams.asks_again(frame.channel):
            again = [seq for exchange in waiting for seq in self._refused.pop(exchange.key or b"", ())]
            self.exchanges -= len(again)
            return [Entry(_RETRY, seq, None, None, None) for seq in again]
        if event == "abort" and frame.sender == "client":
            for exchange in waiting:
                exchange.cancelled = True
        return []

    def _forget(self, exchange: _Exchange) -> None:
        """Let nothing wait for a failed try: what comes next waits for the client message before it."""
        self._forgotten[exchange.seq] = exchange.before
        while self._last_client in self._forgotten:
            self._last_client = self._forgotten[self._last_client]

    def _body(self, frame: Frame, messages: list[Message]) -> list[Entry]:
        """Return the entries of an HTTP response; a body that answers none of the requests refuses them all."""
        if any((frame.channel, message.rpc_id) in self._exchanges for message in messages):
            return [self._of_server(frame, message, None, n) for n, message in enumerate(messages)]
        waiting = list(self._posted.get(frame.channel, {}).values())
        if not waiting or self._streams.is_accepted(frame.channel):
            return [Entry(message, None, None, None, None) for message in messages]  # concerns HTTP alone: never played
        if self._streams.asks_again(frame.channel):
            for exchange in waiting:
                self._refused.setdefault(exchange.key or b"", []).append(exchange.seq)
        body = messages[0].body if messages else {}
        refusals = [Message("response", None, exchange.rpc_id, None, "refused", body) for exchange in waiting]
        return [self._of_server(frame, refusal, None) for refusal in refusals]

    # -- messages

    def _of_client(self, frame: Frame, message: Message, key: bytes | None, part: int = 0) -> Entry:
        kind, method, rpc_id, _, _, body = message
        seq, channel = frame.seq, frame.channel
        answers, exchange, token = None, None, None
        if seq != self._last_client:  # the messages of a batch share a seq
            self._before, self._last_client = self._last_client, seq
        params = body.get("params")
        if type(params) is dict and (method == protocol.INITIALIZE or "_meta" in params):  # else it states nothing
            self.facts |= protocol.session_facts(method, body)
            token = frames.token_asked(message)
        if kind == "request" and rpc_id is not None:
            exchange = _Exchange(seq, part, rpc_id, method, channel, self._before, key)
            if token is not None:
                exchange.token = token
            if method == protocol.LISTEN:
                exchange.listen = True
            self._exchanges[channel, rpc_id] = exchange
            if channel != channels.STDIO:
                self._posted.setdefault(channel, {})[rpc_id] = exchange
            return new(Entry, (message, None, key, seq, None))
        if kind == "response":
            asked = self._asked.pop(rpc_id or "", None)
            if asked is not None:
                self.exchanges += 1
                answers, _, exchange, _ = asked
        else:
            exchange = self._named_by(frame, message)
        if exchange is None:
            return new(Entry, (message, answers, key, None, None))
        exchange.last_client = seq
        return new(Entry, (message, answers, key, exchange.seq, None))

    def _of_server(self, frame: Frame, message: Message, key: bytes | None, part: int = 0) -> Entry:
        exchange = self._exchange_of(frame, message)
        cue = self._cue(exchange)
        if message.kind == "response" and exchange is None:
            cue = self._take_malformed(message.rpc_id) or cue
        if message.kind == "response" and exchange is not None:
            self._close(exchange, message.body)
            return new(Entry, (message, exchange.place, key, exchange.seq, cue))
        if message.kind == "request" and message.rpc_id is not None:
            self._asked[message.rpc_id] = (frame.seq + part, message.method, exchange, frames.token_asked(message))
        return new(Entry, (message, None, key, exchange.seq if exchange else None, cue))

    def _take_malformed(self, rpc_id: str | None) -> int | None:
        """Return the oldest line of the client that is no message, and that an answer with this id may be to."""
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

    def _named_by(self, frame: Frame, message: Message) -> _Exchange | None:
        """Return the exchange that a notification of the client names, by id or by token."""
        if message.method == protocol.CANCELLED:
            exchange = self._open(frame.channel, frames.cancelled(message))
            if exchange is not None:
                exchange.cancelled = True
            return exchange
        token = frames.progressed(message)
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
            return own if own is not None or channels.is_post(channel) else self._open(channel, message.rpc_id)
        params = message.body.get("params")
        if message.method == protocol.CANCELLED:
            asked = self._asked.get(frames.cancelled(message) or "")
            if asked is not None:
                return asked[2]
        subscription = frames.id_text(protocol.subscription_id(message.body))
        if subscription is not None:
            return self._open(channel, subscription)
        if message.kind == "notification" and isinstance(params, dict) and "progressToken" in params:
            token = frames.progressed(message)
            waits = self._newest(channel, lambda e: e.token == token) or self._newest(None, lambda e: e.token == token)
            return waits or self._answered.get(token or "")
        # On its GET stream a server may request what a call needs; its notifications there belong to none.
        anywhere = self._streams.is_shared(channel) or message.kind == "request"
        within = self._newest(channel, _takes_all)
        return within or (self._newest(None, _takes_all) if anywhere and channel != channels.STDIO else None)

    def _open(self, channel: str, rpc_id: str | None) -> _Exchange | None:
        """Return the open exchange with this id: of the same channel or, over HTTP, the newest of any."""
        found = self._exchanges.get((channel, rpc_id or ""))
        return found if found or channel == channels.STDIO else self._newest(None, lambda e: e.rpc_id == rpc_id)

    def _newest(self, channel: str | None, fits: Callable[[_Exchange], bool]) -> _Exchange | None:
        of_one = channel is not None and channel != channels.STDIO
        newest_first = reversed((self._posted.get(channel or "", {}) if of_one else self._exchanges).values())
        return next((e for e in newest_first if (channel is None or e.channel == channel) and fits(e)), None)

    def _drop(self, exchange: _Exchange) -> None:
        """Close an exchange."""
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
    """State of the HTTP channels of one session, from its control frames."""

    def __init__(self) -> None:
        self._resumed: dict[str, str] = {}  # by channel, the one that it resumes
        self._events: dict[str, str] = {}  # by event id, the channel it came on
        self._shared: set[str] = set()
        self._in_session: set[str] = set()  # channels whose request named a session
        self.statuses: dict[str, int] = {}

    def origin(self, channel: str) -> str:
        """Return the channel that this one resumes; itself, mostly."""
        return self._resumed.get(channel, channel)

    def is_shared(self, channel: str) -> bool:
        """Return whether all messages of the server come on this channel, as on stdio."""
        return channel == channels.STDIO or channel in self._shared

    def is_accepted(self, channel: str) -> bool:
        """Return whether the HTTP response only promised an answer on another stream."""
        status = self.statuses.get(channel, 0)
        return status == 202 or (bool(self._shared) and 200 <= status < 300)

    def asks_again(self, channel: str) -> bool:
        """Return whether the client was asked to repeat its request: later, elsewhere, with credentials."""
        return self.statuses.get(channel) in protocol.RETRY_STATUSES

    def has_ended(self, channel: str, facts: dict[str, Any]) -> bool:
        """Return whether the session of a request has expired: it is to be repeated in another."""
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
            self.statuses[channel] = facts["status"]
        elif event == "endpoint":
            self._shared.add(channel)
        elif event in ("close", "abort"):
            self.statuses.pop(channel, None)
            self._in_session.discard(channel)

    def see(self, frame: Frame) -> None:
        """Take in an event of the server, behind which a client may resume."""
        number = framing.field(frame.head, b"id") if frame.head else None
        if number:
            self._events[number] = self.origin(frame.channel)
            if len(self._events) > _REMEMBERED:
                del self._events[next(iter(self._events))]


def _takes_all(exchange: _Exchange) -> bool:
    """Return whether a message that names no exchange may belong to this one."""
    return not exchange.listen and not exchange.cancelled
