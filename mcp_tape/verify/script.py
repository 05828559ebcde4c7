"""The client's script: its frames in order, the answers that block it, and the other messages that it waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ..cassette.lookup.messages import Messages, Recorded
from ..wire import protocol

Asked = tuple[int, str | None]  # a request: its number and id

_LONGEST_PAUSE = 5.0  # seconds between polls
_MOST_LAPSES = 3  # unsuccessful waits, after which waiting stops


class Turn(NamedTuple):
    """A client frame; noise if it has no rows."""

    seq: int
    rows: list[Recorded]
    noise: bytes = b""


def turns(mine: Iterable[Recorded], noise: Iterable[tuple[int, bytes]]) -> list[Turn]:
    """Return requests and notifications as turns, those of a batch together. Answers are sent on request.

    A request that the client had to repeat is made once.
    """
    grouped: dict[int, list[Recorded]] = {}
    for row in mine:
        if row.kind == "notification" or (row.kind == "request" and row.key is not None):
            grouped.setdefault(row.seq, []).append(row)
    return sorted(
        [Turn(seq, rows) for seq, rows in grouped.items()] + [Turn(seq, [], text) for seq, text in noise],
        key=lambda turn: turn.seq,
    )


def answered(mine: Iterable[Recorded], server: Iterable[Recorded]) -> set[Asked]:
    made = {(row.number, row.rpc_id) for row in mine if row.kind == "request" and row.key is not None}
    return made & {(row.answers, row.rpc_id) for row in server if row.answers is not None}


def blocking(mine: Iterable[Recorded], has_answer: set[Asked]) -> set[Asked]:
    """The answered requests that the client waited for: no cancelled ones, and no listen."""
    cancelled = {row.exchange for row in mine if row.method == protocol.CANCELLED}
    free = {row.seq for row in mine if row.method == protocol.LISTEN} | cancelled
    return {asked for asked in has_answer if asked[0] not in free}


class Patience:
    """The client's waits: a moment for unsolicited server messages; before a poll, as long as recorded."""

    def __init__(self, messages: Messages, script: Iterable[Turn], server: list[Recorded], seconds: float) -> None:
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

    def is_over(self, turn: Turn, now: float) -> bool:
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

    def until(self, turn: Turn) -> float | None:
        """The time at which a wait ends; None without a wait."""
        if self._turn != turn.seq:
            return None
        return self._since + max(self._pauses.get(turn.seq, 0.0), self.seconds if self.is_missing(turn.seq) else 0.0)

    def is_missing(self, seq: int | None) -> bool:
        """Return whether a recorded message before this client frame, or before the end, is still missing."""
        return any(self._heard[method] < count for method, count in self._needs.get(seq, {}).items())

    def _read(self, messages: Messages, script: Iterable[Turn], server: list[Recorded]) -> None:
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


def _is_poll(turn: Turn) -> bool:
    """Return whether a turn polls. A poll is never sent faster than recorded, or less would be done by then."""
    return any((row.method or "").startswith(protocol.TASK_PREFIX) for row in turn.rows)


def _pause(messages: Messages, before: Recorded, poll: Recorded) -> float:
    then, now = messages.facts(before).at or 0, messages.facts(poll).at or 0
    return min(max(0, now - then) / 1_000_000, _LONGEST_PAUSE)
