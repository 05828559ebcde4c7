"""Sends a span for each call as it ends, from a background thread.

Spans have the same ids as in an export of the cassette. Spans that the collector does not accept in time are dropped
and counted: the queue is bounded, and so is the wait at the end. All of this runs in the recording process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

from ..cassette.reader import Session as Row
from ..errors import ServerError
from ..formats.timed_calls import TimedCall
from ..record.tape import OpenSession
from ..wire import frames, match, protocol
from ..wire.channels import STDIO
from ..wire.frames import Exchange, Frame, LedgerEntry
from ..wire.jsontext import dumps
from . import collector, spans

MOST = 4_000  # spans in the queue
LAST = 2.0  # seconds to wait for them at the end
_MOST_OPEN = 10_000  # calls
_GATHER = 0.5  # seconds to let more spans gather
_Known = tuple[Row, dict[str, Any]]  # shared by all spans of a session


class LiveSpans:
    def __init__(self, url: str, say: Callable[[str], None]) -> None:
        """`say` is called when the collector first refuses spans."""
        self._url = url
        self._say = say
        self._known: dict[OpenSession, tuple[dict[str, Any], _Known]] = {}  # with the facts it was built from
        self._names: dict[OpenSession, str] = {}  # Mcp-OpenSession-Id
        self._open: dict[tuple[OpenSession, int], TimedCall] = {}
        self._ready = threading.Condition()
        self._queue: deque[tuple[_Known, TimedCall, int]] = deque()
        self._under_way = 0  # spans of the document being sent
        self._over = threading.Event()
        self._given_up = False
        self._sender: threading.Thread | None = None
        self.sent = self.dropped = 0

    # -- calls

    def see(self, session: OpenSession, frame: Frame, entries: list[LedgerEntry]) -> None:
        """Process a frame as it is recorded."""
        if frame.kind == "control" and session not in self._names and session.facts["transport"] != STDIO:
            headers = frames.facts(frame.text).get("headers")
            if number := protocol.member(headers, protocol.SESSION_HEADER):
                self._names[session] = str(number)
        for part, (message, answers, *_) in enumerate(entries):
            kind, method, rpc_id, name, status, body = message
            if status == "retry":
                self._open.pop((session, answers or 0), None)
            elif kind == "request" and method is not None:
                given = {"_meta": protocol.member(body.get("params"), "_meta")}
                of = Exchange(None, frame.seq, frame.sender, method, name, rpc_id, given)
                self._begin(session, frame.seq + part, TimedCall(of, frame.at, None, frame.channel))
            elif kind == "response" and answers is not None:
                self._end(session, answers, frame.at, body.get("result"), body.get("error"))

    def leave(self, session: OpenSession, goes_on: bool) -> None:
        """End a session, or its part on one cassette: its open calls stay unanswered."""
        for place in [place for place in self._open if place[0] is session]:
            call = self._open.pop(place)
            if not goes_on:
                self._put(session, call, max(session.tape.elapsed, call.at))
        if not goes_on:
            self._known.pop(session, None)
            self._names.pop(session, None)

    def _begin(self, session: OpenSession, number: int, call: TimedCall) -> None:
        self._open[session, number] = call
        if len(self._open) > _MOST_OPEN:
            del self._open[next(iter(self._open))]
            self.dropped += 1

    def _end(self, session: OpenSession, number: int, at: int, result: Any = None, error: Any = None) -> None:
        call = self._open.pop((session, number), None)
        if call is not None:
            status = {name: protocol.member(result, name) for name in ("isError", "resultType")}
            exchange = call.exchange._replace(result=status, error=error, microseconds=at - call.at)
            self._put(session, call._replace(exchange=exchange, took=at - call.at), at)

    def _put(self, session: OpenSession, call: TimedCall, until: int) -> None:
        known = self._known_facts(session)
        with self._ready:
            if len(self._queue) >= MOST:
                self.dropped += 1
                return
            self._queue.append((known, call, until))
            self._ready.notify()
        if self._sender is None:
            self._sender = threading.Thread(target=self._send, daemon=True)
            self._sender.start()

    def _known_facts(self, session: OpenSession) -> _Known:
        stated = session.tape.ledger.facts | _row(session)
        before, known = self._known.get(session, ({}, None))
        if known is None or before != stated:
            row = Row._make({**dict.fromkeys(Row._fields), **session.facts, **stated}.values())
            more = {"mcp.session.id": self._names[session]} if session in self._names else {}
            known = row, spans.shared_attributes(row) | more
            self._known[session] = stated, known
        return known

    # -- the collector

    def finish(self, alive: Callable[[], None]) -> None:
        """Wait a little for the queue to empty. Calls `alive` while it waits."""
        end = monotonic() + LAST
        self._over.set()
        with self._ready:
            self._ready.notify()
        while self._sender is not None and self._sender.is_alive() and monotonic() < end:
            self._sender.join(0.1)
            alive()
        with self._ready:
            self.dropped += len(self._queue) + self._under_way
            self._queue.clear()
            self._under_way, self._given_up = 0, True

    def _send(self) -> None:
        was_said = False
        while not (self._over.is_set() and not self._queue):
            try:
                for taken, refused in collector.send_each(self._url, self._documents(), self._over.wait):
                    self._settle(taken - refused, refused)
            except ServerError as error:
                self._settle(0, self._under_way)
                if not was_said and not self._given_up:
                    self._say(f"{error}: such spans are dropped".replace("\n", " "))
                was_said = True

    def _settle(self, sent: int, dropped: int) -> None:
        with self._ready:
            if self._under_way:  # otherwise given up by `finish`
                self.sent += sent
                self.dropped += dropped
                self._under_way = 0

    def _documents(self) -> Iterator[dict[str, Any]]:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._queue or self._over.is_set())
                self._ready.wait_for(lambda: len(self._queue) >= spans.AT_ONCE or self._over.is_set(), _GATHER)
                if not self._queue:
                    return
                first = self._queue[0][0]
                block: list[tuple[_Known, TimedCall, int]] = []
                while self._queue and len(block) < spans.AT_ONCE and self._queue[0][0] is first:
                    block.append(self._queue.popleft())
                self._under_way = len(block)
            row, common = first
            yield spans.document(row, [spans.span(row, call, common, until) for _, call, until in block])


def _row(session: OpenSession) -> dict[str, Any]:
    """The session's row on the cassette, without facts from its messages. Each part has its own start."""
    facts = session.facts
    start = {"id": session.number or 0, "started_at": facts["started_at"]}
    return start | {"target": dumps(facts["target"]), "key_version": match.KEY_VERSION}
