"""Why a run hung or failed: unanswered calls, answers that came too late, a server that died or never started.

One pass over the rows of a session. Each finding names its line, with the related lines as evidence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from signal import Signals
from time import time
from typing import Any, Literal, NamedTuple

from ..cassette.query.inventory import is_open
from ..cassette.query.timeline import EXPECTED_CODES, TimelineRow, decode_text, facts, session_rows
from ..cassette.reader import Cassette, Session
from ..errors import count
from ..wire import frames, jsontext, protocol
from ..wire.channels import CONTINUED, SIGNALLED, SSE, STDERR, STDIO, TAPE, is_http, is_post

SLOW = 5_000_000  # microseconds until the first answer; clients begin to give up at ten seconds
RULES = {
    "unanswered": "a request that was never answered",
    "given-up": "a call that the client cancelled or left, and that was not answered",
    "late": "an answer that came after the client had cancelled or left",
    "died": "the server ended before the client left, or with an error",
    "left-first": "the client left while calls were without an answer",
    "stopped": "a signal stopped the recorder while calls were without an answer",
    "unknown": "the session ended, and the tape does not show which side ended it",
    "noise": "something on the server's stdout that is not a message",
    "slow-start": "the first answer took long",
    "unreachable": "the server could not be started, or not be reached at its URL",
    "incomplete": "the recording itself is incomplete",
}
# Microseconds. A client that leaves sooner did not wait for the answer: a script that pipes its calls closes stdin at
# once, and reads the answers later.
_WAITED = 100_000
_LONG_AFTER = 1_000_000  # microseconds between two ends, from which they are two events
_LAST_WORDS = 5  # lines of stderr
_WIDTH = 200  # characters of evidence
_OPEN_ENDED = (protocol.LISTEN,)  # requests that are answered when they end
_BREAKS = {  # how an HTTP channel ends, other than by the client
    "abort": "the server broke off its response",
    "open": "the recorder was stopped",
}


class Reason(NamedTuple):
    """An explanation of a hang: the rule, the line, and the evidence in words."""

    rule: str
    what: str
    session: int
    seq: int | None
    evidence: tuple[str, ...] = ()


def reasons(
    cassette: Cassette, sessions: Sequence[int], slow: int = SLOW, now: float | None = None
) -> Iterator[Reason]:
    """Yield explanations of a hang in each of these sessions, in line order.

    In a session that is still open, calls younger than `slow` at `now` (seconds since 1970) are not reported.
    """
    now = time() if now is None else now
    for number in sessions:
        session = cassette.session(number)
        story = _Story(session, slow, now)
        for row in session_rows(cassette, number):
            story.see(row)
        yield from sorted(story.collect_reasons(), key=lambda reason: (reason.seq is None, reason.seq or 0))


class _End(NamedTuple):
    """The end of a session: the side that caused it, the first line that shows it, and its description."""

    by: Literal["client", "server", "signal", "unknown", "open"]
    row: TimelineRow | None
    words: str
    then: str = ""  # a later event, in words


class _Story:
    """The facts of a session that explain a hang, collected row by row."""

    def __init__(self, session: Session, slow: int, now: float) -> None:
        self._session = session
        self._slow = slow
        self._now = now
        self._last: TimelineRow | None = None
        self._first_asked: TimelineRow | None = None
        self._is_answered = False
        self._unanswered: list[TimelineRow] = []
        self._cancelled: dict[str, TimelineRow] = {}  # cancelled requests, by id
        self._given_up: dict[str, TimelineRow] = {}  # the cancelling notification, by the same id
        self._aborted: dict[str, TimelineRow] = {}  # connections that the client ended, by channel
        self._ended: dict[
            str, tuple[TimelineRow, str]
        ] = {}  # connections that ended otherwise, by channel, with a description
        self._noise: list[TimelineRow] = []
        self._stderr: deque[TimelineRow] = deque(maxlen=_LAST_WORDS)
        self._left: TimelineRow | None = None  # the client has closed its side
        self._closed: TimelineRow | None = None  # the server has closed its stdout
        self._exit: tuple[TimelineRow, int | None] | None = None
        self._signal: tuple[TimelineRow, int] | None = None  # the signal that stopped the recorder
        self._too_late: list[tuple[TimelineRow, int]] = []  # answers after the client left, and how much later
        self._found: list[Reason] = []

    def see(self, row: TimelineRow) -> None:
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

    def _event(self, row: TimelineRow, facts: dict[str, Any]) -> None:
        event = facts.get("event")
        if event == "exit":
            code = facts.get("code")
            self._exit = row, code if isinstance(code, int) else None
        elif event == SIGNALLED and row.channel == TAPE:
            number = facts.get("number")
            self._signal = self._signal or (row, number if isinstance(number, int) else 0)
        elif row.sender == "client" and self._leaves(row, facts):
            self._left = self._left or row
        elif event == "close" and row.channel == STDIO:
            self._closed = row
        elif event == "abort" and row.sender == "client":
            self._aborted[row.channel] = row
        elif event in _BREAKS and is_http(row.channel):
            self._ended[row.channel] = row, _BREAKS[event]
        elif event == CONTINUED and row.channel == TAPE:
            self._unanswered = []  # they continue on the next cassette, and may be answered there
        elif event == "failed":
            why = str(facts.get("why"))
            what = why if row.channel == STDIO else f"the server could not be reached: {why}"
            self._add("unreachable", row, what)

    def _leaves(self, row: TimelineRow, facts: dict[str, Any]) -> bool:
        """Return whether an event ends the session. Over HTTP+SSE, the end of its only stream does."""
        match facts.get("event"):
            case "close":
                return row.channel == STDIO
            case "request":
                return facts.get("verb") == "DELETE"
            case "abort":
                return self._session.transport == SSE and not is_post(row.channel)
        return False

    def _request(self, row: TimelineRow) -> None:
        if row.sender == "client" and self._first_asked is None:
            self._first_asked = row
        if row.status == "unanswered" and row.method not in _OPEN_ENDED:
            self._unanswered.append(row)
        elif row.status == "cancelled":
            self._cancelled[row.rpc_id or ""] = row

    def _answer(self, row: TimelineRow) -> None:
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
        elif self._left is not None and row.microseconds is not None and row.method not in _OPEN_ENDED:
            asked_at = row.at - row.microseconds
            if self._left.at - asked_at >= _WAITED:
                self._too_late.append((row, row.at - self._left.at))

    def collect_reasons(self) -> Iterator[Reason]:
        """All findings."""
        yield from self._found
        if self._session.incomplete and not is_open(self._session):
            yield Reason(
                "incomplete", f"the recording is incomplete: {self._session.incomplete}", self._session.id, None
            )
        for rpc_id, row in self._cancelled.items():
            said = self._given_up.get(rpc_id)
            after = f" after {_seconds(said.at - row.at)}" if said else ""
            yield self._build_reason(
                "given-up", row, f"the client gave up on {_title(row)}{after}", *([said] if said else [])
            )
        if self._noise:
            lines = count(len(self._noise), "line")
            are = "is not a message" if len(self._noise) == 1 else "are not messages"
            what = f"the server wrote {lines} on stdout that {are}"
            yield self._build_reason("noise", self._noise[0], what, *self._noise[:3])
        yield from self._unanswered_reasons()
        yield from self._end_reasons()

    def _unanswered_reasons(self) -> Iterator[Reason]:
        for row in self._unanswered:
            gone = self._aborted.get(row.channel)
            if gone is not None and row.sender == "client":
                waited = _seconds(gone.at - row.at)
                what = f"the client gave up on {_title(row)} after {waited}: it ended the connection"
                yield self._build_reason("given-up", row, what, gone)
                continue
            end = self._end_of(row)
            whose = "" if row.sender == "client" else " of the server"
            if end.by != "open":
                waited = _seconds((end.row or self._last or row).at - row.at)
                what = f"{_title(row)}{whose} was never answered: {waited} later {end.words}"
                yield self._build_reason("unanswered", row, what)
            elif (waits := self._age(row)) >= self._slow:
                what = f"{_title(row)}{whose} has no answer {_seconds(waits)} later, and {end.words}"
                yield self._build_reason("unanswered", row, what)

    def _age(self, row: TimelineRow) -> int:
        """How long ago a line of an open session was recorded, in microseconds."""
        try:
            began = datetime.fromisoformat(self._session.started_at.replace("Z", "+00:00")).timestamp()
        except ValueError:  # untrusted: a foreign recorder may write anything
            return (self._last or row).at - row.at
        return int((self._now - began) * 1e6) - row.at

    def _end_reasons(self) -> Iterator[Reason]:
        end = self._end()
        open_calls = [
            row
            for row in self._unanswered
            if row.sender == "client" and row.channel not in self._aborted and row.channel not in self._ended
        ]
        without = f"with {count(len(open_calls), 'call')} without an answer"
        row, code = self._exit or (end.row, None)
        if end.by == "server" and row is not None:
            yield self._build_reason("died", row, f"{end.words} before the client left{end.then}", *self._stderr)
        if end.by == "client" and row is not None and code not in (None, *EXPECTED_CODES):
            yield self._build_reason(
                "died", row, f"the server ended{_exit_code_text(code)} after the client had left", *self._stderr
            )
        if end.by == "unknown" and end.row is not None:
            yield self._build_reason("unknown", end.row, end.words, *self._stderr)
        if open_calls and end.by == "client" and end.row is not None:
            yield self._build_reason("left-first", end.row, f"the client left first, {without}")
        if open_calls and end.by == "signal" and end.row is not None:
            yield self._build_reason("stopped", end.row, f"{end.words}, {without}")
        if self._too_late:
            first, late = self._too_late[0]
            others = len(self._too_late) - 1
            more = f", and {count(others, 'other call')} later" if others else ""
            what = f"{_title(first)} was answered {_seconds(late)} after the client had left{more}"
            yield self._build_reason("late", first, what, *([self._left] if self._left else []))

    def _end_of(self, row: TimelineRow) -> _End:
        """The end of the wait for an answer: of its own connection, or of the session."""
        ended = self._ended.get(row.channel)
        return self._end() if ended is None else _End("unknown", *ended)

    def _end(self) -> _End:
        """The end of the session. The cause comes first on the tape, and the other side's reaction after it.

        The recorder notes the end of each stream before it passes it on.
        """
        ends = [row for row in (self._closed, self._exit and self._exit[0]) if row is not None]
        server = min(ends, key=lambda row: row.seq, default=None)
        signal, number = self._signal or (None, 0)
        others = [row.seq for row in (server, signal) if row is not None]
        if self._left is not None and all(self._left.seq < seq for seq in others):
            return _End("client", self._left, "the client left")
        if signal is not None:
            stopped = f"{_signal_name(number)} stopped the recorder"
            code = self._exit[1] if self._exit else None
            if server is None or signal.seq < server.seq or code == 128 + number:
                return _End("signal", signal, stopped)
            what = f"{self._server_end(server).words}, and {stopped}: the tape does not show which came first"
            return _End("unknown", server, what)
        if server is not None:
            return self._server_end(server)
        if is_open(self._session):
            return _End("open", None, "the session has not ended")
        return _End("unknown", None, "the recording ends, and does not show why")

    def _server_end(self, first: TimelineRow) -> _End:
        """The end of the server: of its output, and of its process, which may come later."""
        row, code = self._exit or (first, None)
        if self._exit is not None and row.at - first.at < _LONG_AFTER:
            return _End("server", first, f"the server ended{_exit_code_text(code)}")
        then = f", and ended{_exit_code_text(code)} {_seconds(row.at - first.at)} later" if self._exit else ""
        return _End("server", first, "the server closed its stdout", then)

    def _add(self, rule: str, row: TimelineRow, what: str, *about: TimelineRow) -> None:
        self._found.append(self._build_reason(rule, row, what, *about))

    def _build_reason(self, rule: str, row: TimelineRow, what: str, *about: TimelineRow) -> Reason:
        return Reason(rule, what, row.session, row.seq, tuple(_evidence(one) for one in about))


def _title(row: TimelineRow) -> str:
    return " ".join(filter(None, (row.method, row.name))) or "a request"


def _seconds(microseconds: int) -> str:
    return f"{max(0, microseconds) / 1e6:.1f} s"


def _exit_code_text(code: int | None) -> str:
    if code is None:
        return ""
    return f" with exit code {code}" + (f" ({_signal_name(code - 128)})" if 128 < code < 160 else "")


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _evidence(row: TimelineRow) -> str:
    """A line as evidence: its number, and the start of its text."""
    return f"#{row.seq} {' '.join(decode_text(row.excerpt).split())[:_WIDTH]}"


def _id_in(row: TimelineRow) -> str:
    """The id of the request that a message cancels."""
    try:
        body = jsontext.loads(decode_text(row.excerpt))
    except (ValueError, RecursionError):
        return ""
    return frames.id_text(protocol.member(protocol.member(body, "params"), "requestId")) or ""
