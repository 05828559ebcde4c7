"""What follows from the order of messages: which answer belongs to which request, which message to
which exchange, and what each of the server's messages waits for when the tape is played.

The playing rule's first half. Derived while recording, so that replay finds by an index what is due
next. Id spaces are per direction: everything is keyed by (sender, id).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import frames, match, protocol
from .frames import Entry, Frame, Message

_NOISE = Message("noise", None, None, None, None, {})


@dataclass(slots=True)
class _Exchange:
    """An open request of the client."""

    seq: int
    method: str | None
    token: str | None
    channel: str
    last_client: int  # its newest message from the client
    listen: bool = False
    acknowledged: bool = False
    cancelled: bool = False


class Ledger:
    """Derives entries from the messages of one session, in order."""

    def __init__(self) -> None:
        self._exchanges: dict[str, _Exchange] = {}  # the client's open requests by id, oldest first
        self._asked: dict[str, tuple[int, str | None, _Exchange | None, str | None]] = {}  # the server's
        self._last_client = 0
        self.exchanges = 0
        self.facts: dict[str, str] = {}

    @property
    def still_open(self) -> int:
        return len(self._exchanges) + len(self._asked)

    def derive(self, frame: Frame) -> list[Entry]:
        """The entries of a frame that is on a cassette."""
        return self.enter(frame, frames.parse(frame.text)[1] if frame.kind in ("message", "batch") else [], frame.text)

    def enter(self, frame: Frame, messages: list[Message], matched: bytes) -> list[Entry]:
        """One entry per message; `matched` is the text that keys are made of."""
        if frame.kind == "noise" and frame.sender == "server":
            return [self._of_server(frame, _NOISE, None)]  # it plays in its place too
        keyed = messages if matched is frame.text else frames.parse(matched)[1]
        place = self._of_client if frame.sender == "client" else self._of_server
        return [
            place(frame, message, match.message_key(keyed[n], matched, n) if message.kind == "request" else None)
            for n, message in enumerate(messages)
        ]

    def _of_client(self, frame: Frame, message: Message, key: bytes | None) -> Entry:
        answers, exchange = None, None
        self._last_client = frame.seq
        self._learn(message.method, message)
        if message.kind == "request" and message.rpc_id is not None:
            token = _json(protocol.progress_token_asked(message.body))
            listen = message.method == protocol.LISTEN
            exchange = _Exchange(frame.seq, message.method, token, frame.channel, frame.seq, listen)
            self._exchanges[message.rpc_id] = exchange
        elif message.kind == "response":
            asked = self._asked.pop(message.rpc_id or "", None)
            if asked is not None:
                self.exchanges += 1
                answers, _, exchange, _ = asked
        else:
            exchange = self._told(message)
        if exchange is not None:
            exchange.last_client = frame.seq
        return Entry(message, answers, key, exchange.seq if exchange else None, None)

    def _of_server(self, frame: Frame, message: Message, key: bytes | None) -> Entry:
        answers, exchange = None, self._exchange_of(frame, message)
        cue = self._cue(exchange)
        if message.kind == "request" and message.rpc_id is not None:
            token = _json(protocol.progress_token_asked(message.body))
            self._asked[message.rpc_id] = (frame.seq, message.method, exchange, token)
        elif message.kind == "response" and self._exchanges.pop(message.rpc_id or "", None) is not None:
            assert exchange is not None
            answers = exchange.seq
            self.exchanges += 1
            self._learn(exchange.method, message)
        return Entry(message, answers, key, exchange.seq if exchange else None, cue)

    def _told(self, message: Message) -> _Exchange | None:
        """The exchange that a notification of the client names, by its id or its token."""
        params = message.body.get("params")
        if message.method == protocol.CANCELLED:
            exchange = self._exchanges.get(_json(protocol.member(params, "requestId")) or "")
            if exchange is not None:
                exchange.cancelled = True
            return exchange
        token = _json(protocol.member(params, "progressToken"))
        return next((e for _, _, e, asked in self._asked.values() if token and asked == token), None)

    def _exchange_of(self, frame: Frame, message: Message) -> _Exchange | None:
        if message.kind == "response":
            return self._exchanges.get(message.rpc_id or "")
        params = message.body.get("params")
        if message.method == protocol.CANCELLED:
            asked = self._asked.get(_json(protocol.member(params, "requestId")) or "")
            if asked is not None:
                return asked[2]
        subscription = _json(protocol.subscription_id(message.body))
        if subscription is not None:
            return self._exchanges.get(subscription)
        newest_first = reversed(self._exchanges.values())  # lazily: thousands may be open
        if message.kind == "notification" and isinstance(params, dict) and "progressToken" in params:
            token = _json(params["progressToken"])
            return next((e for e in newest_first if e.token == token), None)
        candidates = (e for e in newest_first if not e.listen and not e.cancelled)
        return next((e for e in candidates if e.channel == frame.channel), None)

    def _cue(self, exchange: _Exchange | None) -> int:
        if exchange is None or (exchange.listen and exchange.acknowledged):
            return self._last_client
        exchange.acknowledged = True
        return exchange.last_client

    def _learn(self, method: str | None, message: Message) -> None:
        self.facts |= protocol.session_facts(method, message.body)


def _json(value: Any) -> str | None:
    """An id or a token as JSON text, or None where there is none."""
    return frames.id_text(value)
