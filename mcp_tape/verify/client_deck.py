"""The deck in the client's role: plays the recorded client against a server.

Theory of operation. A client request or notification waits until every answer recorded before it has arrived or was
given up; a client response waits for its request. For other recorded server messages before it, a client message waits
only a moment: a server that no longer sends them must not stop the play. Cancelled and unanswered requests block
nothing. Ids are sent as recorded, unless one is in flight.

A server request gets the recorded response to the same request. If there is none, sampling and roots get the response
to the most similar request in the same call, because their params are data. An elicitation does not: a person who
accepted one thing may decline another.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..cassette.lookup.messages import FrameText, Messages, RecordedMessage
from ..compare.minted import spots
from ..replay.sends import Send
from ..wire import frames, protocol, rewrite
from ..wire.channels import STDIO
from ..wire.frames import Message

Prepare = Callable[[RecordedMessage, bytes], bytes | None]  # what to send for a recorded message; None: nothing
Hear = Callable[[RecordedMessage, Message], None]  # takes a client request and its answer
Same = Callable[[Any, Any], bool]  # whether recorded and live params belong to the same request


class _Reply(NamedTuple):
    """A client response: its place on the tape, and the time of its request."""

    seq: int
    asked_at: float
    send: Send


class ClientDeck:
    """Plays the client of one session. Does no I/O and reads no clock.

    `patience`: seconds that a message waits for unsolicited server messages. `same`: whether unequal server requests
    are the same. `noise`: other lines of the client, by seq, including line ends.
    """

    def __init__(
        self,
        messages: Messages,
        session: int,
        *,
        patience: float = 0.0,
        prepare: Prepare = lambda row, text: text,
        hear: Hear = lambda row, message: None,
        same: Same = lambda then, now: False,
        noise: Iterable[tuple[int, bytes]] = (),
    ) -> None:
        self._messages = messages
        self._prepare = prepare
        self._hear = hear
        self._same = same
        mine, server = messages.of_client(session), messages.of_server(session)
        script = turns(mine, noise)
        self._mine = deque(script)
        self._answered = answered_requests(mine, server)
        self._blocking = blocking_requests(mine, self._answered)
        self._expected = deque(row for row in server if (row.answers, row.rpc_id) in self._blocking)
        self._patience = Patience(messages, script, server, patience)
        self._asked = [row for row in server if row.kind == "request"]
        self._names: dict[int, dict[str, str]] = {}  # by client request, names that differ from the recorded ones
        self._settled: set[RequestId] = set()
        self._in_flight: dict[str, tuple[RecordedMessage, float]] = {}  # by the live id, with the time of sending
        self._last_answer = float("-inf")
        self._replies: list[_Reply] = []
        self._unsaid = {row.seq for row in mine if row.answers is not None}  # seqs of client answers still to send
        self._inserts: list[tuple[bytes, RecordedMessage]] = []

    @property
    def finished(self) -> bool:
        """True if everything that the recorded client sent was sent."""
        return not self._mine and not self._replies and not self._inserts

    @property
    def is_complete(self) -> bool:
        """True if the server has sent as much as recorded."""
        return self._answered <= self._settled and not self._patience.is_missing(None)

    def awaited_requests(self) -> list[RecordedMessage]:
        return [row for row, _ in self._in_flight.values() if (row.number, row.rpc_id) in self._blocking]

    def request_in_flight(self, rpc_id: str | None) -> RecordedMessage | None:
        """The request in flight with this id."""
        row, _ = self._in_flight.get(rpc_id or "", (None, 0.0))
        return row

    def overdue_requests(self, now: float, timeout: float) -> list[RecordedMessage]:
        """The awaited requests that have timed out, with no other answer meanwhile."""
        late = {row for row, at in self._in_flight.values() if now - max(at, self._last_answer) >= timeout}
        return [row for row in self.awaited_requests() if row in late]

    def receive(self, text: bytes, channel: str, now: float) -> None:
        for message in frames.parse(text)[1]:
            if message.kind == "response":
                self._take(message, now)
                continue
            self._patience.hear(message.method)
            if message.kind == "request":
                self._answer(message, channel, now)

    def due(self, now: float) -> list[Send]:
        sends = [Send(text + b"\n", "", recorded=row) for text, row in self._inserts]
        self._in_flight |= {row.rpc_id or "": (row, now) for _, row in self._inserts}
        self._inserts.clear()
        sends += self._due_replies(now)
        while self._mine and self._may_go(self._mine[0], now):
            sends += self._sends_of(self._mine.popleft(), now)
            sends += self._due_replies(now)
        return sends

    def next_at(self) -> float | None:
        """The next time at which a message may become due without one from the server."""
        times = [reply.asked_at + self._patience.seconds for reply in self._replies]
        waits = self._patience.until(self._mine[0]) if self._mine else None
        return min([*times, *([] if waits is None else [waits])], default=None)

    def give_up(self, requests: Iterable[RecordedMessage]) -> None:
        """Continue without the answers to these requests."""
        given_up = {(row.number, row.rpc_id) for row in requests}
        self._settled |= given_up
        self._in_flight = {
            live: (row, at) for live, (row, at) in self._in_flight.items() if (row.number, row.rpc_id) not in given_up
        }

    def insert(self, text: bytes, request: RecordedMessage) -> None:
        """Send a request that is not on the tape, and block the rest until it is answered."""
        self._blocking.add((request.number, request.rpc_id))
        self._expected.appendleft(request._replace(answers=request.number, seq=0))
        self._inserts.append((text, request))

    # -- requests and notifications

    def _take(self, answer: Message, now: float) -> None:
        row, _ = self._in_flight.pop(answer.rpc_id or "", (None, 0.0))
        if row is not None:
            self._last_answer = now
            self._settled.add((row.number, row.rpc_id))
            self._hear(row, answer)

    def _may_go(self, turn: ClientTurn, now: float) -> bool:
        while self._expected and self._expected[0].seq < turn.seq:
            if (self._expected[0].answers, self._expected[0].rpc_id) not in self._settled:
                return False
            self._expected.popleft()
        return self._patience.is_over(turn, now)

    def _sends_of(self, turn: ClientTurn, now: float) -> list[Send]:
        if not turn.rows:
            return [Send(turn.noise, "")]
        frame = self._messages.frame_text(turn.rows[0])
        kept: dict[RecordedMessage, bytes] = {}
        for row in turn.rows:
            whole = self._messages.element(row, frame)
            part = self._prepare(row, whole)
            if part is None:
                self._settled.add((row.number, row.rpc_id))
            else:
                if part != whole:
                    self._names[row.seq] = spots.names_of(_params_in(whole), _params_in(part))
                kept[row] = self._with_free_id(row, part, now) if row.kind == "request" else part
        if not kept:
            return []
        first = next(iter(kept))
        sent = _batch(frame, list(kept.values())) if frame.is_batch else kept[first]
        return [Send(sent + self._eol(first), "", recorded=first)]

    def _with_free_id(self, row: RecordedMessage, text: bytes, now: float) -> bytes:
        """Use the recorded id unless it is in flight: over HTTP several clients may share a session."""
        own = row.rpc_id or "null"
        live = rewrite.free_id(self._in_flight.__contains__, own, form=lambda n: f'"mcp-tape-{n}"', first=0)
        self._in_flight[live] = row, now
        return rewrite.with_id(text, own, live)

    # -- client responses

    def _due_replies(self, now: float) -> list[Send]:
        """Responses that are due: after all earlier client messages, or once that takes too long."""
        sends = []
        for reply in sorted(self._replies, key=lambda reply: reply.seq):
            before = min([*self._unsaid, *([self._mine[0].seq] if self._mine else [])], default=reply.seq)
            if reply.seq <= before or now - reply.asked_at >= self._patience.seconds:
                self._unsaid = {seq for seq in self._unsaid if seq > reply.seq}
                self._replies.remove(reply)
                sends.append(reply.send)
        return sends

    def _answer(self, message: Message, channel: str, now: float) -> None:
        asked = self._question(message)
        if asked is None:
            # The server must not wait forever.
            text = rewrite.error_response(message.rpc_id, protocol.METHOD_NOT_FOUND, "the tape has no answer to this")
            self._replies.append(_Reply(0, now, Send(text + b"\n", channel)))
            return
        self._asked.remove(asked)
        answer = self._messages.answer(asked)
        if answer is None:
            return  # the client had none either
        prepared = self._prepare(answer, self._text_of(answer, message.rpc_id or "null"))
        if prepared is not None:
            self._replies.append(_Reply(answer.seq, now, Send(prepared + self._eol(answer), channel, recorded=answer)))

    def _question(self, message: Message) -> RecordedMessage | None:
        """The recorded request that matches this one. Requests of open calls go first."""
        now = protocol.without_meta(message.body.get("params"))
        of_calls = {row.seq for row, _ in self._in_flight.values()}
        left = [row for row in self._asked if row.method == message.method]
        here = [row for row in left if row.exchange is None or row.exchange in of_calls]
        elsewhere = [row for row in left if row.exchange is not None and row.exchange not in of_calls]
        found = self._find_like(here, now) or self._find_like(elsewhere, now)
        if found is None and message.method != protocol.ELICIT:
            words = spots.words_in(now)
            found = max(here, key=lambda row: (words & spots.words_in(self._params(row))).total(), default=None)
        return found

    def _find_like(self, asked: Iterable[RecordedMessage], now: Any) -> RecordedMessage | None:
        """The first equal one, or else the first that differs only in minted values."""
        same = None
        for row in asked:
            thens = self._renamed_params(row)
            if now in thens:
                return row
            same = same or (row if any(self._same(then, now) for then in thens) else None)
        return same

    def _text_of(self, answer: RecordedMessage, rpc_id: str) -> bytes:
        frame = self._messages.frame_text(answer)
        part = rewrite.with_id(self._messages.element(answer, frame), answer.rpc_id, rpc_id)
        return rewrite.with_elements(frame.text, [part]) if frame.is_batch and len(frame.parts) == 1 else part

    def _eol(self, row: RecordedMessage) -> bytes:
        """The recorded line end, if the client wrote lines."""
        facts = self._messages.facts(row)
        return (facts.eol or "\n").encode() if facts.channel == STDIO else b"\n"

    def _params(self, row: RecordedMessage) -> Any:
        """The params of a server request, without `_meta`."""
        return protocol.without_meta(self._messages.message(row).body.get("params"))

    def _renamed_params(self, row: RecordedMessage) -> list[Any]:
        """The params with the names of the live call, and as recorded."""
        names, params = self._names.get(row.exchange or 0), self._params(row)
        return [spots.rename_texts(params, names), params] if names else [params]


def _params_in(text: bytes) -> Any:
    messages = frames.parse(text)[1]
    return messages[0].body.get("params") if messages else None


def _batch(frame: FrameText, parts: list[bytes]) -> bytes:
    """A batch, verbatim around its parts if none is left out."""
    whole = len(parts) == len(frame.parts)
    return rewrite.with_elements(frame.text, parts) if whole else b"[" + b",".join(parts) + b"]"


# -- the client's script: its frames in order, the answers that block it, and the other messages that it waited for

RequestId = tuple[int, str | None]  # a request: its number and id

_LONGEST_PAUSE = 5.0  # seconds between polls
_MOST_LAPSES = 3  # unsuccessful waits, after which waiting stops


class ClientTurn(NamedTuple):
    """A client frame; noise if it has no rows."""

    seq: int
    rows: list[RecordedMessage]
    noise: bytes = b""


def turns(mine: Iterable[RecordedMessage], noise: Iterable[tuple[int, bytes]]) -> list[ClientTurn]:
    """Return requests and notifications as turns, those of a batch together. Answers are sent on request.

    A request that the client had to repeat is made once.
    """
    grouped: dict[int, list[RecordedMessage]] = {}
    for row in mine:
        if row.kind == "notification" or (row.kind == "request" and row.key is not None):
            grouped.setdefault(row.seq, []).append(row)
    return sorted(
        [ClientTurn(seq, rows) for seq, rows in grouped.items()] + [ClientTurn(seq, [], text) for seq, text in noise],
        key=lambda turn: turn.seq,
    )


def answered_requests(mine: Iterable[RecordedMessage], server: Iterable[RecordedMessage]) -> set[RequestId]:
    made = {(row.number, row.rpc_id) for row in mine if row.kind == "request" and row.key is not None}
    return made & {(row.answers, row.rpc_id) for row in server if row.answers is not None}


def blocking_requests(mine: Iterable[RecordedMessage], has_answer: set[RequestId]) -> set[RequestId]:
    """The answered requests that the client waited for: no cancelled ones, and no listen."""
    cancelled = {row.exchange for row in mine if row.method == protocol.CANCELLED}
    free = {row.seq for row in mine if row.method == protocol.LISTEN} | cancelled
    return {asked for asked in has_answer if asked[0] not in free}


class Patience:
    """The client's waits: a moment for unsolicited server messages; before a poll, as long as recorded."""

    def __init__(
        self, messages: Messages, script: Iterable[ClientTurn], server: list[RecordedMessage], seconds: float
    ) -> None:
        self.seconds = seconds
        self._pauses: dict[int, float] = {}
        self._needs: dict[int | None, dict[str, int]] = {}
        self._heard: Counter[str] = Counter()
        self._turn: int | None = None
        self._since = 0.0
        self._lapses = 0
        if seconds:
            self._read(messages, script, server)

    def hear(self, method: str | None) -> None:
        """Count an unsolicited server message."""
        self._heard[method or ""] += 1

    def is_over(self, turn: ClientTurn, now: float) -> bool:
        """Return whether a message need not wait any longer."""
        if self._turn != turn.seq:
            self._turn, self._since = turn.seq, now
        waited = now - self._since
        if waited < self._pauses.get(turn.seq, 0.0):
            return False
        if not self.is_missing(turn.seq) or self._lapses >= _MOST_LAPSES:
            return True
        if waited < self.seconds:
            return False
        self._lapses += 1
        return True

    def until(self, turn: ClientTurn) -> float | None:
        """The time at which a wait ends; None without a wait."""
        if self._turn != turn.seq:
            return None
        return self._since + max(self._pauses.get(turn.seq, 0.0), self.seconds if self.is_missing(turn.seq) else 0.0)

    def is_missing(self, seq: int | None) -> bool:
        """Return whether a recorded message before this client frame, or before the end, is still missing."""
        return any(self._heard[method] < count for method, count in self._needs.get(seq, {}).items())

    def _read(self, messages: Messages, script: Iterable[ClientTurn], server: list[RecordedMessage]) -> None:
        counts: Counter[str] = Counter()
        recent: set[str] = set()  # since the last answer; earlier ones are late already
        rows, last = iter(server), None
        row = next(rows, None)
        for turn in (*script, None):
            while row is not None and (turn is None or row.seq < turn.seq):
                if row.answers is not None:
                    recent.clear()
                    last = row
                elif row.kind in ("request", "notification"):
                    counts[row.method or ""] += 1
                    recent.add(row.method or "")
                row = next(rows, None)
            if recent:
                self._needs[turn.seq if turn else None] = {method: counts[method] for method in recent}
                recent.clear()
            if turn is not None and last is not None and _is_poll(turn):
                self._pauses[turn.seq] = _pause(messages, last, turn.rows[0])


def _is_poll(turn: ClientTurn) -> bool:
    """Return whether a turn polls. A poll is never sent faster than recorded, or less would be done by then."""
    return any((row.method or "").startswith(protocol.TASK_PREFIX) for row in turn.rows)


def _pause(messages: Messages, before: RecordedMessage, poll: RecordedMessage) -> float:
    then, now = messages.facts(before).at or 0, messages.facts(poll).at or 0
    return min(max(0, now - then) / 1_000_000, _LONGEST_PAUSE)
