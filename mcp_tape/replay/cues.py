"""What waits for each message of the client, and what of it has gone out.

The calls of a batch share all that waits for it: their answers are found by id, and the rest is gone through once.
"""

from __future__ import annotations

from typing import NamedTuple

from ..wire import frames, protocol
from .calls import Call, Calls
from .selection import Position, Recorded, Selection
from .sends import Pending

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
    """How an exchange ends on the client's side: the last message that it owed, and its cancels by the id they name."""

    last: int
    cancels: dict[str | None, list[Recorded]]


class Cues:
    """Knows what is due when a message arrives."""

    def __init__(self, selection: Selection, calls: Calls) -> None:
        self._selection = selection
        self._calls = calls
        # By exchange, the messages that were played and are no answers: a cue may come twice.
        self._once: dict[tuple[int, int | None], set[Position]] = {}
        self._come: set[Position] = set()  # what the server says of changes
        self._round = 0

    def due(self, session: int, cue: int, call: Call | None) -> tuple[list[Pending], bool]:
        """What waited for a client message, and whether the call's answer is among it."""
        cued = self._cued(session, cue)
        due = self._own_answers(cued, call) if call is not None and call.is_of(session, cue) else []
        left = []
        for row in cued.left:
            if row.method in protocol.CHANGES:
                self._come.add(row.place)  # also where the client did not want to hear of it
            named = row if row.exchange is not None else self._calls.named_late(row)
            owner = self._owner(row, named)
            if named is not None and owner is None:
                left.append(row)  # of an exchange that this client has not begun
            elif named is not row and self._waits_for_answer(owner):
                assert owner is not None
                owner.behind += [row] if self._is_new(row, owner) else []
            elif self._is_new(row, owner):
                due.append(Pending(row, owner))
        cued.left = left
        return due, any(call and pending.call is call and pending.is_answer for pending in due)

    def _owner(self, row: Recorded, named: Recorded | None) -> Call | None:
        if named is None:
            return None
        return self._calls.owner(row) if named is row else self._calls.of_request(named)

    def _waits_for_answer(self, call: Call | None) -> bool:
        """Whether no answer to a call is out or due, but for what came behind the answer."""
        if call is None or not self._calls.is_open(call):
            return False
        return call.answers <= {row.place for row in call.behind}

    def forget(self, call: Call) -> None:
        """Its exchange plays once more, as a whole."""
        recorded = call.recorded
        assert recorded is not None
        self._once.pop((recorded.session, recorded.seq), None)
        self._round += 1

    def has_come(self, row: Recorded) -> bool:
        """Whether the client has sent what a notification of a change waits for."""
        return row.place in self._come

    def cancels_of(self, recorded: Recorded) -> list[Recorded]:
        """The client's cancels of a request while it was open; those of a batch share their exchange."""
        return self._ending(recorded).cancels.get(recorded.rpc_id, [])

    def ends_without_answer(self, recorded: Recorded, arrived: int) -> bool:
        """Whether the tape ends before the answer, and the client's message that has arrived is the last of it."""
        if recorded.method == protocol.LISTEN or self._selection.answer(recorded) is not None:
            return False
        if self.cancels_of(recorded) or self._selection.was_left(recorded):
            return False
        return arrived >= self._ending(recorded).last

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
            ending = _Ending(max((_owed(row) for row in rows), default=0), {})
            for row in rows:
                if row.sender == "client" and row.method == protocol.CANCELLED:
                    ending.cancels.setdefault(frames.cancelled(self._selection.message(row)), []).append(row)
            if len(rows) > _FEW:
                self._selection.kept.put(key, ending)
        return ending


def _owed(row: Recorded) -> int:
    """The message that a client owes an exchange: an answer to a request in it, or what something waits for."""
    if row.cue is not None:
        return row.cue
    return row.seq if row.kind == "response" else 0
