"""The recorded completion order of concurrent calls: an answer is held back until those before it are out."""

from __future__ import annotations

from collections.abc import Callable

from .selection import Position, Selection
from .sends import Pending

GIVE_WAY_AFTER = 2.0  # seconds of waiting for a request that may never come


class RecordedOrder:
    """Holds answers back, but not for ever."""

    def __init__(self, selection: Selection, note: Callable[[str], None]) -> None:
        self._selection = selection
        self._note = note
        self._held: list[tuple[float, Pending]] = []
        self._out: set[Position] = set()  # the answers that went out
        self._passed: dict[int, tuple[int, int]] = {}  # by session, a stretch of the tape whose answers are all out

    def next_at(self) -> float | None:
        return min((since + GIVE_WAY_AFTER for since, _ in self._held), default=None)

    def pass_on(self, ready: list[Pending], now: float) -> list[Pending]:
        """What may go out: of what is due, and of what was held back before."""
        held = sorted([*self._held, *((now, pending) for pending in ready)], key=lambda item: _place(item[1]))
        self._held, out = [], []
        for since, pending in held:
            missing = self._missing_before(pending)
            if missing and now < since + GIVE_WAY_AFTER:
                self._held.append((since, pending))
                continue
            if missing:
                self._note(f"the recorded order waited in vain for {missing} and gave way")
            out.append(pending)
            if pending.recorded is not None and pending.recorded.kind == "response":
                self._out.add(pending.recorded.place)
        return out

    def give_way(self) -> None:
        """Nothing that is waited for will come."""
        self._held = [(float("-inf"), pending) for _, pending in self._held]

    def drop(self, stays: Callable[[Pending], bool]) -> None:
        self._held = [(since, pending) for since, pending in self._held if stays(pending)]

    def _missing_before(self, pending: Pending) -> str | None:
        recorded, call = pending
        if recorded is None or recorded.kind != "response" or call is None or call.recorded is None:
            return None
        session, first = call.recorded[:2]
        start, end = self._passed.get(session, (first, first))
        start, end = (start, end) if start <= first <= end else (first, first)
        for row in self._selection.answered_between(session, end, recorded.seq):
            if row.place not in self._out:
                return f"the answer to request {row.rpc_id}"
        self._passed[session] = start, max(end, recorded.seq - 1)
        return None


def _place(pending: Pending) -> tuple[int, int, int]:
    return pending.recorded.place if pending.recorded else (1 << 62, 0, 0)
