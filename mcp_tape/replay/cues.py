"""Cues: the message on the tape that one of the client is, the messages that wait for it, and when they go out.

`deck.py` has the rules at its top. The calls of a batch share all that waits for it: their answers are found by
id, and the rest is gone through once.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from ..cassette.lookup.messages import START, Recorded
from ..light import NamedTuple
from ..wire import frames, jsontext, protocol
from ..wire.frames import Message
from .selection import Selection
from .sends import Call, Pending
from .state import ByName, Calls, State, Words

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


GIVE_WAY_AFTER = 2.0  # seconds of waiting for a request that may never come
_FEW = 8  # rows that are read again rather than kept


class _Cued:
    """All that one message of the client cues: the answers to its own requests, by id, and what else there is."""

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
    """The messages that wait for each one of the client."""

    def __init__(self, selection: Selection, state: State, calls: Calls) -> None:
        self._selection = selection
        self._state = state
        self._calls = calls

    def due(self, session: int, cue: int, call: Call | None) -> tuple[list[Pending], bool]:
        """Return what waited for a client message, and True if the call's answer is among it."""
        cued = self._cued(session, cue)
        due = self._own_answers(cued, call) if call is not None and call.is_of(session, cue) else []
        left = []
        is_malformed = call is not None and call.recorded is not None and call.recorded.kind == "noise"
        for row in cued.left:
            if is_malformed and row.kind == "response":
                due.append(Pending(row, call))
                continue
            if row.method in protocol.CHANGES:
                self._state.come.add(row.place)  # also where the client did not want to hear of it
            named = row if row.exchange is not None else self._calls.named_late(row)
            owner = self._owner(row, named)
            if named is not None and owner is None and not self._is_unasked(row):
                left.append(row)  # of an exchange that this client has not begun
            elif named is not row and self._waits_for_answer(owner):
                assert owner is not None
                owner.behind += [row] if self._is_new(row, owner) else []
            elif self._is_new(row, owner):
                due.append(Pending(row, owner))
        cued.left = left
        return due, any(call and pending.call is call and pending.is_answer for pending in due)

    def _is_unasked(self, row: Recorded) -> bool:
        """Return whether a client gets a message without having asked for it, as before there was `LISTEN`."""
        return self._state.is_older and row.method in protocol.CHANGES

    def _owner(self, row: Recorded, named: Recorded | None) -> Call | None:
        if named is None:
            return None
        return self._calls.owner(row) if named is row else self._calls.of_request(named)

    def _waits_for_answer(self, call: Call | None) -> bool:
        """Return whether no answer to a call is out or due, but for what came behind the answer."""
        if call is None or not self._calls.is_open(call):
            return False
        return call.answers <= {row.place for row in call.behind}

    def forget(self, call: Call) -> None:
        """Let the exchange of a call play once more, as a whole."""
        recorded = call.recorded
        assert recorded is not None
        self._state.once.pop((recorded.session, recorded.seq), None)
        self._state.round += 1

    def ends_without_answer(self, recorded: Recorded, arrived: int) -> bool:
        """Return whether the tape ends before the answer, and the client's last message of the exchange has arrived."""
        if recorded.method == protocol.LISTEN or self._selection.answer(recorded) is not None:
            return False
        ending = self._ending(recorded)
        if ending.cancels.get(recorded.rpc_id) or self._selection.was_left(recorded):
            return False
        return arrived >= ending.last

    def _own_answers(self, cued: _Cued, call: Call) -> list[Pending]:
        """The answers to a call. Those to others of its batch go out with them; one made twice is answered twice."""
        assert call.recorded is not None
        rows = cued.answers.get(call.recorded.rpc_id, ())
        return [Pending(row, call) for row in rows if self._owns(call, row) and self._is_new(row, call)]

    def _owns(self, call: Call, row: Recorded) -> bool:
        owner = self._calls.owner(row)
        return owner is call or (owner is not None and owner.recorded == call.recorded)

    def _is_new(self, row: Recorded, owner: Call | None) -> bool:
        """Return whether it did not go out before; an answer, to this call."""
        if owner is not None and row.kind == "response":
            gone = owner.answers
        else:
            gone = self._state.once.setdefault((row.session, row.exchange), set())
        if row.place in gone:
            return False
        gone.add(row.place)
        return True

    def _cued(self, session: int, cue: int) -> _Cued:
        key = self, session, cue
        cued: _Cued | None = self._selection.cache.get(key)
        if cued is None:
            rows = self._selection.cued(session, cue)
            cued = _Cued(rows, cue)
            if len(rows) > _FEW:
                self._selection.cache.put(key, cued)
        if cued.round != self._state.round:
            cued.left, cued.round = cued.others, self._state.round
        return cued

    def _ending(self, recorded: Recorded) -> _Ending:
        key = _Ending, recorded.session, recorded.seq
        ending: _Ending | None = self._selection.cache.get(key)
        if ending is None:
            rows = self._selection.of_exchange(recorded)
            ending = _Ending(max((_owed(row) for row in rows), default=0), {})
            for row in rows:  # those of a batch share their exchange
                if row.sender == "client" and row.method == protocol.CANCELLED:
                    ending.cancels.setdefault(frames.cancelled(self._selection.message(row)), []).append(row)
            if len(rows) > _FEW:
                self._selection.cache.put(key, ending)
        return ending


def _owed(row: Recorded) -> int:
    """The message that a client owes an exchange: an answer to a request in it, or what something waits for."""
    if row.cue is not None:
        return row.cue
    return row.seq if row.kind == "response" else 0


class Hearing:
    """Which message on the tape one of the client is, where it is no request: those have keys, see `finder.py`."""

    def __init__(self, selection: Selection, state: State) -> None:
        self._selection = selection
        self._state = state

    def notification(self, message: Message) -> Recorded | None:
        """The one on the tape that a notification is, other than a cancel."""
        state = self._state
        if message.method == protocol.PROGRESS:
            if state.progress is None:
                rows = self._notifications(protocol.PROGRESS)
                state.progress = _by_name(rows, lambda row: frames.progressed(self._selection.message(row)))
            return _first(state.progress.get(frames.progressed(message)))
        for method in protocol.notification_names(message.method or ""):
            found = self._selection.next_notification(method, state.heard.get(method, START))
            if found is not None:
                state.heard[method] = found.place
                return found
        return None

    def stray_answer(self, message: Message) -> Recorded | None:
        """The one on the tape that an answer to nothing is."""
        if self._state.strays is None:
            sessions = self._selection.sessions
            rows = (row for session in sessions for row in self._selection.stray_answers(session))
            self._state.strays = _by_name(rows, lambda row: row.rpc_id)
        return _first(self._state.strays.get(message.rpc_id))

    def malformed(self, text: bytes) -> Recorded | None:
        """The one on the tape that a line without a message is: with the same words but for the id, or no JSON both."""
        if self._state.malformed is None:
            sessions = self._selection.sessions
            rows = (row for session in sessions for row in self._selection.malformed(session))
            self._state.malformed = [(_words(self._selection.text(row)), row) for row in rows]
        words, left = _words(text), self._state.malformed
        found = next((one for one in left if one[0] == words), None)
        if found is None and words[0] == "text":
            found = next((one for one in left if one[0][0] == "text"), None)
        if found is None:
            return None
        left.remove(found)
        return found[1]

    def cancel(self, rpc_id: str | None, call: Call | None) -> Recorded | None:
        """The one on the tape that a cancel is: of a call, or of an id that is no call's."""
        cancels = self._state.cancels
        if cancels is None:
            cancels = self._state.cancels = self._read_cancels()
        if call is None or call.recorded is None:
            return self._cancel_of_none(rpc_id)
        recorded = call.recorded
        rows = [row for row in cancels.get(recorded.rpc_id, ()) if _may_cancel(row, recorded)]
        found = rows[call.cancels] if call.cancels < len(rows) else None
        call.cancels += 1
        if found is not None:
            self._state.late_cancels.pop(found.place, None)
        return found

    def _cancel_of_none(self, rpc_id: str | None) -> Recorded | None:
        late = self._state.late_cancels
        same = (place for place, named in late.items() if named == rpc_id)
        place = next(same, None) or next(iter(late), None)
        if place is None:
            return None
        del late[place]
        return self._selection.at(place)

    def _read_cancels(self) -> dict[str | None, list[Recorded]]:
        cancels: dict[str | None, list[Recorded]] = {}
        for row in self._notifications(protocol.CANCELLED):
            named = frames.cancelled(self._selection.message(row))
            cancels.setdefault(named, []).append(row)
            if row.exchange is None:
                self._state.late_cancels[row.place] = named
        return cancels

    def _notifications(self, method: str) -> Iterator[Recorded]:
        last, row = None, self._selection.next_notification(method, START)
        # Rows of a stranger may lead back: what does not go on ends.
        while row is not None and (last is None or row.session != last.session or row.place > last.place):
            yield row
            last, row = row, self._selection.next_notification(method, row.place)


def _may_cancel(row: Recorded, request: Recorded) -> bool:
    """Return whether a cancel that names the id of a request is of that request."""
    if row.exchange is not None:
        return (row.session, row.exchange) == (request.session, request.seq)
    return row.session == request.session and row.seq > request.seq


def _words(text: bytes) -> Words:
    """What a line without a message says: a value of JSON, without its id, or else its text."""
    try:
        value = jsontext.loads(text)
    except (ValueError, RecursionError):
        return "text", text.strip()
    if isinstance(value, dict):
        value.pop("id", None)
    return "JSON", jsontext.canonical(value)


def _by_name(rows: Iterable[Recorded], name: Callable[[Recorded], str | None]) -> ByName:
    found: ByName = {}
    for row in rows:
        found.setdefault(name(row), deque()).append(row)
    return found


def _first(rows: deque[Recorded] | None) -> Recorded | None:
    return rows.popleft() if rows else None


class Schedule:
    """When what is due goes out: at once, after the recorded time, or in the recorded order of concurrent calls.

    In that order an answer is held back until those before it are out, within bounds.
    """

    def __init__(
        self, selection: Selection, state: State, note: Callable[[str], None], speed: float, in_recorded_order: bool
    ) -> None:
        self._selection = selection
        self._state = state
        self._note = note
        self._speed = speed
        self._is_ordered = in_recorded_order
        self._numbers = count()  # so that a heap never compares what it holds

    @property
    def is_empty(self) -> bool:
        return not (self._state.ready or self._state.later or self._state.held)

    def put(self, pending: Pending, now: float, cue: Recorded | None) -> None:
        """Let a message follow its cue, which has arrived now."""
        recorded = pending.recorded
        if not self._speed or recorded is None:
            self._state.ready.append(pending)
            return
        since = (self._selection.facts(cue).at or 0) if cue else 0
        due = now + max(0, (recorded.at or 0) - since) / 1e6 / self._speed
        if pending.call is not None:
            pending.call.until = max(due, pending.call.until)
        self._put_later(due, pending)

    def put_last(self, call: Call, now: float) -> None:
        """Let the answer that the recording does not have follow all else for a call."""
        if call.until < now:
            self._state.ready.append(Pending(None, call))
        else:
            self._put_later(call.until, Pending(None, call))

    def _put_later(self, due: float, pending: Pending) -> None:
        heapq.heappush(self._state.later, (due, pending.place, next(self._numbers), pending))

    def take(self, now: float) -> list[Pending]:
        state = self._state
        while state.later and state.later[0][0] <= now:
            state.ready.append(heapq.heappop(state.later)[-1])
        ready, state.ready = state.ready, []
        return self._in_order(ready, now) if self._is_ordered else ready

    def drop(self, stays: Callable[[Pending], bool]) -> None:
        state = self._state
        state.ready = list(filter(stays, state.ready))
        state.later = [item for item in state.later if stays(item[-1])]
        heapq.heapify(state.later)
        state.held = [(since, pending) for since, pending in state.held if stays(pending)]

    def next_at(self) -> float | None:
        """When something will go out, if nothing arrives before."""
        times = [item[0] for item in self._state.later[:1]]
        return min([*times, *(since + GIVE_WAY_AFTER for since, _ in self._state.held)], default=None)

    def give_way(self) -> None:
        """Hold nothing back: no answer that is waited for will come."""
        self._state.held = [(float("-inf"), pending) for _, pending in self._state.held]

    def has_come(self, change: Recorded) -> bool:
        """Return whether a notification of a change is out."""
        waits = any(pending.place == change.place for *_, pending in self._state.later)
        return not waits and change.place in self._state.come

    def _in_order(self, ready: list[Pending], now: float) -> list[Pending]:
        state = self._state
        held = sorted([*state.held, *((now, pending) for pending in ready)], key=lambda item: item[1].place)
        state.held, out = [], []
        for since, pending in held:
            missing = self._missing_before(pending)
            if missing and now < since + GIVE_WAY_AFTER:
                state.held.append((since, pending))
                continue
            if missing:
                self._note(f"the recorded order waited in vain for {missing} and gave way")
            out.append(pending)
            if pending.recorded is not None and pending.recorded.kind == "response":
                state.out.add(pending.recorded.place)
        return out

    def _missing_before(self, pending: Pending) -> str | None:
        recorded, call = pending
        if recorded is None or recorded.kind != "response" or call is None or call.recorded is None:
            return None
        session, first = call.recorded[:2]
        start, end = self._state.passed.get(session, (first, first))
        start, end = (start, end) if start <= first <= end else (first, first)
        for row in self._selection.answered_between(session, end, recorded.seq):
            if row.place not in self._state.out:
                return f"the answer to request {row.rpc_id}"
        self._state.passed[session] = start, max(end, recorded.seq - 1)
        return None
