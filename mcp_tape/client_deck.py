"""The deck in the client's role: plays the recorded client at a server.

A request or notification of ours waits until every answer recorded before it has arrived; an answer of ours
waits for its request. The server's notifications never cue.
"""

from __future__ import annotations

from collections import deque

from . import frames, rewrite
from .frames import Message
from .playback import Send
from .selection import Recorded, Selection


class ClientDeck:
    """Plays the client of one session. Does no I/O and reads no clock."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        session = selection.sessions[0]
        self._mine = deque(_frames(selection.of_client(session)))
        server = selection.of_server(session)
        self._expected = deque(row for row in server if row.answers is not None)
        self._asked = [row for row in server if row.kind == "request"]
        self._arrived: set[tuple[int | None, str | None]] = set()
        self._in_flight: dict[str, int] = {}
        self._replies: list[Send] = []

    @property
    def finished(self) -> bool:
        """Whether everything was sent that the client had sent."""
        return not self._mine and not self._replies

    def receive(self, text: bytes, channel: str, now: float) -> None:
        """A frame of the server."""
        for message in frames.parse(text)[1]:
            if message.kind == "response" and message.rpc_id is not None:
                self._arrived.add((self._in_flight.pop(message.rpc_id, None), message.rpc_id))
            elif message.kind == "request":
                self._answer(message, channel)

    def due(self, now: float) -> list[Send]:
        sends, self._replies = self._replies, []
        while self._mine and self._may_go(self._mine[0]):
            rows = self._mine.popleft()
            for row in rows:
                if row.kind == "request" and row.rpc_id is not None:
                    self._in_flight[row.rpc_id] = row.seq
            sends.append(Send(self._selection.text(rows[0]) + b"\n", ""))
        return sends

    def next_at(self) -> float | None:
        return None

    def _may_go(self, rows: list[Recorded]) -> bool:
        while self._expected and self._expected[0].seq < rows[0].seq:
            if (self._expected[0].answers, self._expected[0].rpc_id) not in self._arrived:
                return False
            self._expected.popleft()
        return True

    def _answer(self, message: Message, channel: str) -> None:
        """As recorded for the next request of this method, the same params first."""
        same = [row for row in self._asked if row.method == message.method]
        if not same:
            return
        alike = [row for row in same if self._params(row) == message.body.get("params")]
        asked = (alike or same)[0]
        self._asked.remove(asked)
        answer = self._selection.answer(asked)
        if answer is not None:
            text = self._text_of(answer, message.rpc_id or "null")
            self._replies.append(Send(text + b"\n", channel))

    def _text_of(self, answer: Recorded, rpc_id: str) -> bytes:
        text = self._selection.text(answer)
        if not text.lstrip().startswith(b"["):
            return rewrite.with_id(text, answer.rpc_id, rpc_id)
        parts = rewrite.elements(text)
        part = rewrite.with_id(parts[answer.part], answer.rpc_id, rpc_id)
        return rewrite.with_elements(text, [part]) if len(parts) == 1 else part

    def _params(self, row: Recorded) -> object:
        return frames.parse(self._selection.text(row))[1][row.part].body.get("params")


def _frames(rows: list[Recorded]) -> list[list[Recorded]]:
    """Requests and notifications, those of a batch together. Answers go out when they are asked for."""
    grouped: dict[int, list[Recorded]] = {}
    for row in rows:
        if row.kind in ("request", "notification"):
            grouped.setdefault(row.frame, []).append(row)
    return list(grouped.values())
