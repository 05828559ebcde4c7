"""Why a run hung or failed: calls without an answer, answers that came too late, a server that died or never came up.

One pass over the rows of a session. Each finding has the line that it is about, and what else is on the tape about it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..cassette.query.rows import Row, facts, plain, session_rows
from ..cassette.reader import Cassette, Session
from ..errors import count
from ..wire import frames, jsontext, protocol
from ..wire.channels import CONTINUED, SSE, STDERR, STDIO, TAPE, is_post

SLOW = 5_000_000  # microseconds until the first answer; clients begin to give up at ten seconds
RULES = {
    "unanswered": "a request that was never answered",
    "given-up": "a call that the client cancelled or left, and that was not answered",
    "late": "an answer that came after the client had cancelled",
    "died": "the server ended with an error, or before the client left",
    "left-first": "the client left while calls were without an answer",
    "noise": "something on the server's stdout that is no message",
    "slow-start": "the first answer took long",
    "unreachable": "the server at a URL could not be reached",
    "incomplete": "the recording itself is not whole",
}
_EXPECTED_CODES = (0, 128 + 15)  # clients end servers with SIGTERM
_LAST_WORDS = 5  # lines of stderr
_WIDTH = 200  # characters of evidence
_OPEN_ENDED = (protocol.LISTEN,)  # a request whose answer comes when it ends


class Reason(NamedTuple):
    """Something that explains a hang: the rule, the line, and the evidence in words."""

    rule: str
    what: str
    session: int
    seq: int | None
    evidence: tuple[str, ...] = ()


def reasons(cassette: Cassette, sessions: Sequence[int], slow: int = SLOW) -> Iterator[Reason]:
    """Yield what explains a hang in each of these sessions, in the order of its lines."""
    for number in sessions:
        session = cassette.session(number)
        story = _Story(session, slow)
        for row in session_rows(cassette, number):
            story.see(row)
        yield from sorted(story.told(), key=lambda reason: (reason.seq is None, reason.seq or 0))


class _Story:
    """What matters of a session, as it is read."""

    def __init__(self, session: Session, slow: int) -> None:
        self._session = session
        self._slow = slow
        self._last: Row | None = None
        self._first_asked: Row | None = None
        self._is_answered = False
        self._unanswered: list[Row] = []
        self._cancelled: dict[str, Row] = {}  # requests that the client gave up, by id
        self._given_up: dict[str, Row] = {}  # the message that says so, by the same
        self._aborted: dict[str, Row] = {}  # the end of a connection that says so, by channel
        self._noise: list[Row] = []
        self._stderr: deque[Row] = deque(maxlen=_LAST_WORDS)
        self._left: Row | None = None  # the client has closed its side
        self._exit: tuple[Row, int | None] | None = None
        self._found: list[Reason] = []

    def see(self, row: Row) -> None:
        self._last = row
        if row.frame_kind == "control":
            self._event(row, facts(row))
        elif row.channel == STDERR:
            self._stderr.append(row)
        elif row.frame_kind == "noise" and row.channel == STDIO and row.sender == "server":
            self._noise.append(row)
        elif row.kind == "request":
            self._request(row)
        elif row.kind == "response" and row.sender == "server":
            self._answer(row)
        elif row.method == protocol.CANCELLED and row.sender == "client":
            self._given_up[_id_in(row)] = row

    def _event(self, row: Row, facts: dict[str, Any]) -> None:
        event = facts.get("event")
        if event == "exit":
            code = facts.get("code")
            self._exit = row, code if isinstance(code, int) else None
        elif row.sender == "client" and self._leaves(row, facts):
            self._left = row
        elif event == "abort" and row.sender == "client":
            self._aborted[row.channel] = row
        elif event == CONTINUED and row.channel == TAPE:
            self._unanswered = []  # each is on the next cassette, too, and may be answered there
        elif event == "failed":
            self._add("unreachable", row, f"the server could not be reached: {facts.get('why')}")

    def _leaves(self, row: Row, facts: dict[str, Any]) -> bool:
        """Return whether an event ends the session: over HTTP+SSE, that of the one stream."""
        match facts.get("event"):
            case "close":
                return row.channel == STDIO
            case "request":
                return facts.get("verb") == "DELETE"
            case "abort":
                return self._session.transport == SSE and not is_post(row.channel)
        return False

    def _request(self, row: Row) -> None:
        if row.sender == "client" and self._first_asked is None:
            self._first_asked = row
        if row.status == "unanswered" and row.method not in _OPEN_ENDED:
            self._unanswered.append(row)
        elif row.status == "cancelled":
            self._cancelled[row.rpc_id or ""] = row

    def _answer(self, row: Row) -> None:
        if not self._is_answered and self._first_asked is not None:
            self._is_answered = True
            if row.at - self._first_asked.at >= self._slow:
                took = _seconds(row.at - self._first_asked.at)
                self._add("slow-start", row, f"the first answer came {took} after the first request", self._first_asked)
        gave_up = self._given_up.get(row.rpc_id or "")
        if gave_up is not None:
            asked = self._cancelled.pop(row.rpc_id or "", None)
            waited = f", {_seconds(row.at - asked.at)} after it was asked" if asked else ""
            late = _seconds(row.at - gave_up.at)
            self._add("late", row, f"{_title(row)} was answered {late} after the client had given up{waited}", gave_up)

    def told(self) -> Iterator[Reason]:
        """All that was found."""
        yield from self._found
        if self._session.incomplete:
            yield Reason(
                "incomplete", f"the recording is not whole: {self._session.incomplete}", self._session.id, None
            )
        for rpc_id, row in self._cancelled.items():
            said = self._given_up.get(rpc_id)
            after = f" after {_seconds(said.at - row.at)}" if said else ""
            yield self._made("given-up", row, f"the client gave up on {_title(row)}{after}", *([said] if said else []))
        if self._noise:
            lines = count(len(self._noise), "line")
            what = f"the server wrote {lines} on stdout that {'is' if len(self._noise) == 1 else 'are'} no message"
            yield self._made("noise", self._noise[0], what, *self._noise[:3])
        yield from self._without_answer()
        yield from self._ends()

    def _without_answer(self) -> Iterator[Reason]:
        end = self._end()
        for row in self._unanswered:
            gone = self._aborted.get(row.channel)
            if gone is not None and row.sender == "client":
                waited = _seconds(gone.at - row.at)
                what = f"the client gave up on {_title(row)} after {waited}: it ended the connection"
                yield self._made("given-up", row, what, gone)
                continue
            whose = "" if row.sender == "client" else " of the server"
            waited = _seconds((self._last.at if self._last else row.at) - row.at)
            yield self._made("unanswered", row, f"{_title(row)}{whose} was never answered: {waited} later {end}")

    def _ends(self) -> Iterator[Reason]:
        asked = [row for row in self._unanswered if row.sender == "client" and row.channel not in self._aborted]
        has_left = self._left is not None and (self._exit is None or self._left.seq < self._exit[0].seq)
        if self._exit is not None:
            row, code = self._exit
            if code not in (None, *_EXPECTED_CODES) or (asked and not has_left):
                yield self._made("died", row, f"the server ended with {_code(code)}", *self._stderr)
        if asked and has_left and self._left is not None:
            what = f"the client left first, with {count(len(asked), 'call')} without an answer"
            yield self._made("left-first", self._left, what)

    def _end(self) -> str:
        if self._left is not None and (self._exit is None or self._left.seq < self._exit[0].seq):
            return "the client had left"
        if self._exit is not None:
            return f"the server had ended with {_code(self._exit[1])}"
        return "the recording ended" if self._session.ended_at else "it still has no answer"

    def _add(self, rule: str, row: Row, what: str, *about: Row) -> None:
        self._found.append(self._made(rule, row, what, *about))

    def _made(self, rule: str, row: Row, what: str, *about: Row) -> Reason:
        return Reason(rule, what, row.session, row.seq, tuple(_evidence(one) for one in about))


def _title(row: Row) -> str:
    return " ".join(filter(None, (row.method, row.name))) or "a request"


def _seconds(microseconds: int) -> str:
    return f"{max(0, microseconds) / 1e6:.1f} s"


def _code(code: int | None) -> str:
    if code is None:
        return "no exit code"
    return f"exit code {code}" + (f" (signal {code - 128})" if 128 < code < 160 else "")


def _evidence(row: Row) -> str:
    """A line in words: its number, and the beginning of its text."""
    return f"#{row.seq} {' '.join(plain(row.excerpt).split())[:_WIDTH]}"


def _id_in(row: Row) -> str:
    """The id of the request that a message cancels."""
    try:
        body = jsontext.loads(plain(row.excerpt))
    except (ValueError, RecursionError):
        return ""
    return frames.id_text(protocol.member(protocol.member(body, "params"), "requestId")) or ""
