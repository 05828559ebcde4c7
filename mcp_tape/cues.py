"""What waits for each message of the client, and what of it has gone out.

The calls of a batch share all that waits for it: their answers are found by id, and the rest is gone through once.
"""

from __future__ import annotations

from typing import NamedTuple

from . import protocol
from .calls import Call, Calls
from .playback import Pending
from .selection import Position, Recorded, Selection

_FEW = 8  # rows that are read again rather than kept


class _Cued:
    """What one message of the client cues: the answers to its own requests, by id, and what else there is."""

    def __init__(self, rows: list[Recorded], cue: int) -> None:
        self.answers: dict[str | None, list[Recorded]] = {}
        self.others: list[Recorded] = []
        self.left: list[Recorded] = []  # of those, what did not go out in this round
        self.round = -1
        for row in rows:
            if row.kind == "response" and row.exchange == cue:
                self.answers.setdefault(row.rpc_id, []).append(row)
            else:
                self.others.append(row)


class _Ending(NamedTuple):
    """How an exchange ends on the client's side: its last message, and its cancel."""

    last: int | None
    cancel: Recorded | None


class Cues:
    """Knows what is due when a message arrives."""

    def __init__(self, selection: Selection, calls: Calls) -> None:
        self._selection = selection
        self._calls = calls
        # By exchange, the messages that were played and are no answers: a cue may come twice.
        self._once: dict[tuple[int, int | None], set[Position]] = {}
        self._round = 0

    def due(self, session: int, cue: int, call: Call | None) -> tuple[list[Pending], bool]:
        """What waited for a client message, and whether the call's answer is among it."""
        cued = self._cued(session, cue)
        due = self._own_answers(cued, call) if call is not None and call.is_of(session, cue) else []
        left = []
        for row in cued.left:
            owner = self._calls.owner(row) if row.exchange is not None else None
            if row.exchange is not None and owner is None:
                left.append(row)  # of an exchange that this client has not begun
            elif self._is_new(row, owner):
                due.append(Pending(row, owner))
        cued.left = left
        return due, any(call and pending.call is call and pending.is_answer for pending in due)

    def forget(self, call: Call) -> None:
        """Its exchange plays once more, as a whole."""
        recorded = call.recorded
        assert recorded is not None
        self._once.pop((recorded.session, recorded.seq), None)
        self._round += 1

    def cancel_of(self, recorded: Recorded) -> Recorded | None:
        """The client's cancel in the exchange of a request."""
        return self._ending(recorded).cancel

    def ends_without_answer(self, recorded: Recorded, arrived: int) -> bool:
        """Whether the tape ends before the answer, and the client's message that has arrived is the last of it."""
        if recorded.method == protocol.LISTEN or self._selection.answer(recorded) is not None:
            return False
        last, cancel = self._ending(recorded)
        return cancel is None and not self._selection.was_left(recorded) and (last is None or arrived >= last)

    def _own_answers(self, cued: _Cued, call: Call) -> list[Pending]:
        """Those to the other calls of its batch go out with them. One that is made twice is answered twice."""
        assert call.recorded is not None
        rows = cued.answers.get(call.recorded.rpc_id, ())
        return [Pending(row, call) for row in rows if self._owns(call, row) and self._is_new(row, call)]

    def _owns(self, call: Call, row: Recorded) -> bool:
        owner = self._calls.owner(row)
        return owner is call or (owner is not None and owner.recorded == call.recorded)

    def _is_new(self, row: Recorded, owner: Call | None) -> bool:
        """Whether it did not go out before; an answer, to this call."""
        if owner is not None and row.kind == "response":
            gone = owner.answers
        else:
            gone = self._once.setdefault((row.session, row.exchange), set())
        if row.place in gone:
            return False
        gone.add(row.place)
        return True

    def _cued(self, session: int, cue: int) -> _Cued:
        key = self, session, cue
        cued: _Cued | None = self._selection.kept.get(key)
        if cued is None:
            rows = self._selection.cued(session, cue)
            cued = _Cued(rows, cue)
            if len(rows) > _FEW:
                self._selection.kept.put(key, cued)
        if cued.round != self._round:
            cued.left, cued.round = cued.others, self._round
        return cued

    def _ending(self, recorded: Recorded) -> _Ending:
        key = _Ending, recorded.session, recorded.seq
        ending: _Ending | None = self._selection.kept.get(key)
        if ending is None:
            rows = self._selection.of_exchange(recorded)
            mine = [row for row in rows if row.sender == "client"]
            cancel = next((row for row in mine if row.method == protocol.CANCELLED), None)
            ending = _Ending(max((row.seq for row in mine), default=None), cancel)
            if len(rows) > _FEW:
                self._selection.kept.put(key, ending)
        return ending
