"""Finding the recorded request that a live one is, each in its turn.

A request is found by its key, with one look-up.
"""

from __future__ import annotations

from ..cassette.lookup.messages import START, Position, Recorded
from ..wire import match, protocol, rewrite
from ..wire.frames import Message
from .selection import Selection
from .state import Bent, Found, State, Turn

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Literal

    from .matching.ladder import Ladder, Plan

    Repeats = Literal["error", "last", "cycle"]
    Compare = Callable[[Any, Any], str | None]  # of a recorded and a live message: how they differ, None if not
else:
    Repeats, Compare = str, object  # only type checkers ask


_Turns = dict[Position | None, Recorded | None]  # the requests of a key: behind each place, and before all, the next


class Finder:
    """Per key, recorded requests are found in recorded order. Where there are `rules`, those decide instead."""

    def __init__(
        self,
        selection: Selection,
        repeats: Repeats = "error",
        rules: Sequence[Compare] = (),
        ladder: Callable[[State], Ladder] | None = None,
    ) -> None:
        """`ladder`: for what may bend."""
        self._selection = selection
        self.state = State()
        self._repeats = repeats
        self._rules = rules
        self._ladder = ladder(self.state) if ladder else None
        self._keys_are_made_anew = selection.stale or bool(rules)
        self._has_come: Callable[[Recorded], bool] = lambda row: True
        self._note: Callable[[str], None] = lambda text: None
        self._indexes: dict[str, dict[bytes, _Turns]] = {}  # by method, where stored keys do not serve
        self._hidden: dict[str, list[Recorded]] = {}  # by method, the recorded requests with redactions

    def listen(self, has_come: Callable[[Recorded], bool], note: Callable[[str], None]) -> None:
        """Learn who knows whether a message of the server has come to the client, and who takes notes."""
        self._has_come, self._note = has_come, note

    def find(self, message: Message, text: bytes, part: int) -> Found:
        """Find the recorded request and take its turn."""
        method, state = message.method or "", self.state
        state.turn = None
        params = match.exact_params(message, text, part)
        key = match.request_key(method, params)
        found = self._by_rules(message, key) if self._rules else self._by_key(key, method, params)
        if self._ladder is not None and found.recorded is None:
            found = self._ladder.find(message, params, self._choose) or found
        if found.bent and found.recorded and not found.again:
            state.bent.add(found.recorded.place)
        return found

    def _by_key(self, key: bytes, method: str, params: object) -> Found:
        """Find a request that is exactly the same, but for what was hidden in it."""
        state = self.state
        last = state.last.get(key)
        found, answer = self._next(key, method, last)
        while found is not None and found.place in state.bent:  # another request has had its answer
            last = found.place
            found, answer = self._next(key, method, last)
        found = found or self._redacted(method, params)
        if found is not None and last is not None and self._is_early(method, last, found):
            return Found(self._selection.at(last), True)
        if found is None and last is not None and self._repeats == "cycle":
            found, answer = self._next(key, method, None)
        if found is not None:
            again = self._take(key, found.place)
            return Found(found, again, None if again else answer)
        if last is not None and (self._repeats == "last" or protocol.is_housekeeping(method)):
            return Found(self._selection.at(last), True)
        if last is None and method in (protocol.INITIALIZE, protocol.DISCOVER):
            return Found(self._greeting(method), True)
        return Found(None)

    def _is_early(self, method: str, last: Position, found: Recorded) -> bool:
        """Return whether a request was made again only because the server had said that the answer changed.

        Until it says so this time, the answer before is the right one.
        """
        change = protocol.CHANGED_BY.get(method)
        if change is None or found.session != last[0]:
            return False
        changes = self._selection.changes_between(found.session, change, last[1], found.seq)
        newest = next((row for row in changes if found.name in (None, self._uri(row))), None)
        if newest is None or self._has_come(newest):
            return False
        if found.place not in self.state.early:
            self.state.early.add(found.place)
            name = " ".join(filter(None, (method, found.name)))
            self._note(f"{name} was asked for once more before {change}: the answer before that is repeated")
        return True

    def _uri(self, row: Recorded) -> object:
        """The resource that was updated."""
        return protocol.member(self._selection.message(row).body.get("params"), "uri")

    def _greeting(self, method: str) -> Recorded | None:
        """From another session; but one that speaks for another era than the tape's would mislead about it."""
        found = self._selection.newest(method)
        if method == protocol.INITIALIZE and self._selection.is_modern(self._selection.sessions[0]):
            return None
        if found is None or method != protocol.DISCOVER or not self._selection.is_legacy(self._selection.sessions[0]):
            return found
        answer = self._selection.answer(found)
        return found if answer is not None and answer.status in ("error", "refused") else None

    def _take(self, key: bytes, place: Position) -> bool:
        """Take the turn of a request; True if it was played before."""
        state = self.state
        again = place in state.taken
        state.turn = Turn(place, not again, key, state.last.get(key))
        state.taken.add(place)
        state.last[key] = place
        return again

    def different_answer(self, asked: Recorded, live: Message, recorded: Recorded) -> str | None:
        """Describe how the client's answer to a request of the server differs from the recorded one."""
        then = self._selection.message(recorded)
        is_same = self._ladder is not None and self._ladder.hear(asked, then.body, live.body)
        return None if is_same else rewrite.different_answer(live, then)

    def plan(self, message: Message) -> Plan | None:
        """Return how matching bends for a request, where it does."""
        return self._ladder.plan(message.method or "", message.name) if self._ladder else None

    def give_back(self) -> None:
        """Give back the turn that was taken last: the same request is found again the next time."""
        turn, state = self.state.turn, self.state
        if turn is None:
            return
        if turn.is_new:
            state.taken.discard(turn.place)
            state.bent.discard(turn.place)
        if turn.key is not None and turn.last is not None:
            state.last[turn.key] = turn.last
        elif turn.key is not None:
            del state.last[turn.key]

    def unplayed(self) -> Iterator[Recorded]:
        """The recorded requests that nobody made. Of a session that extends another, the handshake is none."""
        first, handshake = self._selection.sessions[0], (protocol.INITIALIZE, protocol.DISCOVER)
        for row in self._selection.all_requests():
            asked = row.place in self.state.taken or row.place in self.state.given_back
            if not asked and (row.session == first or row.method not in handshake):
                yield row

    def _by_rules(self, message: Message, key: bytes) -> Found:
        selection, method, live = self._selection, message.method or "", message.body
        rows = ((row, selection.message(row).body) for row in selection.requests(method))
        found = self._choose(method, [row for row, body in rows if not any(rule(body, live) for rule in self._rules)])
        recorded = found.recorded
        is_exact = recorded is None or match.request_key(method, self._params(recorded)) == key
        return found if is_exact else found._replace(bent=Bent("match_on"))

    def _choose(self, method: str, like: list[Recorded]) -> Found:
        """Take the turn of the first of equal requests that was not played, or repeat one that was."""
        state = self.state
        if not like:
            return Found(None)
        found = next((row for row in like if row.place not in state.taken), None)
        before = like[like.index(found) - 1] if found is not None and found is not like[0] else None
        if found is not None and before is not None and self._is_early(method, before.place, found):
            return Found(before, True)
        if found is not None:
            state.turn = Turn(found.place, True, None, None)
            state.taken.add(found.place)
            return Found(found)
        if self._repeats == "cycle":
            rounds = state.rounds[like[0].place] = state.rounds.get(like[0].place, -1) + 1
            return Found(like[rounds % len(like)], True)
        return Found(like[-1], True) if self._repeats == "last" or protocol.is_housekeeping(method) else Found(None)

    def _next(self, key: bytes, method: str, last: Position | None) -> tuple[Recorded | None, Recorded | None]:
        if self._keys_are_made_anew:
            same = self._index(method).get(key, {})
            return same[last] if last in same else same.get(None), None
        return self._selection.next_request(key, last or START) or (None, None)

    def _index(self, method: str) -> dict[bytes, _Turns]:
        """Keys made anew from the messages of one method."""
        index = self._indexes.get(method)
        if index is None:
            index = self._indexes[method] = {}
            for row in self._selection.requests(method):
                turns = index.setdefault(match.request_key(method, self._params(row)), {})
                turns[next(reversed(turns), None)] = row._replace(text=None)
                turns[row.place] = None
        return index

    def _redacted(self, method: str, live: object) -> Recorded | None:
        """A recording whose secrets were hidden still matches where the environment lacks them."""
        if method not in self._hidden:
            self._hidden[method] = self._selection.requests(method, redacted=True)
        asked = protocol.identifying(method, live)
        for row in self._hidden[method]:
            is_free = row.place not in self.state.taken
            if is_free and match.fits_redacted(protocol.identifying(method, self._params(row)), asked):
                return row
        return None

    def _params(self, row: Recorded) -> object:
        return match.exact_params(self._selection.message(row), self._selection.text(row), row.part)
