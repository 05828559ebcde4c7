"""Matches live requests to recorded ones: by key, in recorded order. An exact match takes one look-up."""

from __future__ import annotations

from ..cassette.lookup.messages import START, NextRequest, Position, RecordedMessage
from ..light import NamedTuple
from ..wire import match, protocol, rewrite
from ..wire.frames import Message, new
from .selection import Selection
from .sends import NO_HEADERS

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Literal, Protocol

    from .sends import Headers

    Repeats = Literal["error", "last", "cycle"]
    TurnName = bytes | tuple[bytes, match.StatedFacts]  # equal requests, perhaps with equal versions and headers
    Compare = Callable[[Any, Any], str | None]  # how a recorded and a live message differ; None if they match
else:
    Repeats, Compare = str, object  # for type checkers only


_Turns = dict[
    Position | None, RecordedMessage
]  # equal requests: by the place of each, the next one; by None, the first


if TYPE_CHECKING:

    class LooserMatching(Protocol):
        """The rungs below exact matching; implemented in `matching/ladder.py`."""

        put_back: Callable[[bytes, bytes], bytes] | None

        def find(
            self, message: Message, params: Any, choose: Callable[[str, list[RecordedMessage]], FoundRequest]
        ) -> FoundRequest | None: ...

        def plan(self, method: str, name: str | None) -> Any: ...

        def hear(self, asked: RecordedMessage, recorded: dict[str, Any], live: dict[str, Any]) -> bool: ...

        def contradiction(self, message: Message, row: RecordedMessage) -> str | None: ...


class TakenTurn(NamedTuple):
    """The turn of a matched request.

    `is_new`: the request had not been matched before. `name`: the key of requests that take turns; `last`: the place
    that had the turn before. `was_bent`: a looser rung used it before.
    """

    place: Position
    is_new: bool
    name: TurnName | None
    last: Position | None
    was_bent: bool = False


class RungMatch(NamedTuple):
    """The rung that found an inexact match, and the similarity, for the nearest rung."""

    rung: str
    similarity: float | None = None


class FoundRequest(NamedTuple):
    """The recorded request that a live one matches; `again` if it was played before and only repeats.

    `answer`: set if nothing else plays. `plays_anew`: its exchange was played before, for another request.
    """

    recorded: RecordedMessage | None
    again: bool = False
    answer: RecordedMessage | None = None
    bent: RungMatch | None = None  # the rung, if the match is inexact
    plays_anew: bool = False


class Playthrough:
    """The played requests, and the position in each turn. A new instance rewinds the tape."""

    def __init__(self) -> None:
        self.taken: set[Position] = set()  # played
        self.last: dict[TurnName, Position] = {}  # the last played place of each turn
        self.newest: TakenTurn | None = None  # the last one taken
        self.given_back: set[Position] = set()  # asked for, but their answers stay on the tape
        self.early: set[Position] = set()  # requested before their change notification was sent
        self.rounds: dict[Position, int] = {}  # how often equal requests were repeated, by the first of them
        self.bent: set[Position] = set()  # taken by looser rungs only


class Finder:
    """Finds recorded requests by key, in recorded order. Given `rules`, those decide instead."""

    def __init__(
        self,
        selection: Selection,
        repeats: Repeats = "error",
        rules: Sequence[Compare] = (),
        ladder: Callable[[Playthrough], LooserMatching] | None = None,
    ) -> None:
        """`ladder`: makes the rungs of looser matching."""
        self._selection = selection
        self._played = Playthrough()
        self._repeats = repeats
        self._rules = rules
        self.ladder = ladder(self._played) if ladder else None
        self._has_index = bool(rules) or selection.stale  # else the stored keys serve
        self._has_come: Callable[[RecordedMessage], bool] = lambda row: True
        self._note: Callable[[str], None] = lambda text: None
        self._indexes: dict[str, dict[bytes, _Turns]] = {}  # by method, if the stored keys are stale
        self._hidden: dict[str, list[RecordedMessage]] = {}  # by method, the recorded requests with redactions
        self._stated: dict[tuple[bytes, match.StatedFacts], _Turns] = {}  # with equal versions and headers

    @property
    def taken(self) -> set[Position]:
        """The recorded requests that were played."""
        return self._played.taken

    @property
    def given_back(self) -> set[Position]:
        """The recorded requests whose calls never reached the server, so that their answers stay on the tape."""
        return self._played.given_back

    def listen(self, has_come: Callable[[RecordedMessage], bool], note: Callable[[str], None]) -> None:
        """Set the callbacks: whether a server message has been sent, and where notes go."""
        self._has_come, self._note = has_come, note

    def find(self, message: Message, text: bytes, part: int, headers: Headers = NO_HEADERS) -> FoundRequest:
        """Find the recorded request and take its turn.

        An exact match comes first, even if a looser rung used it before. Of several, one with the same protocol version
        and headers comes first.
        """
        method, played, params = message.method or "", self._played, message.body.get("params")
        played.newest = None
        key = match.plain_key(method, params)
        if key is None:
            params = match.exact_params(message, text, part)
            key = match.request_key(method, params)
        accepted = self._accepted_requests(message) if self._rules else None
        found = self._find_exact(key, params, message, headers, accepted)
        if found.recorded is not None:
            return found
        if accepted:
            found = self._choose(method, accepted)._replace(bent=RungMatch("match_on"))
        if found.recorded is None and self.ladder is not None:
            found = self.ladder.find(message, params, self._choose) or found
        if found.bent and found.recorded and not found.again:
            played.bent.add(found.recorded.place)
        return found

    def _find_exact(
        self, key: bytes, params: object, message: Message, headers: Headers, accepted: list[RecordedMessage] | None
    ) -> FoundRequest:
        """Find a request that is equal except for redactions, and take its turn.

        `accepted`: the recorded requests that the user's rules accept; None without rules.
        """
        method, played = message.method or "", self._played
        turns = self._turns(key, method, accepted) if self._has_index else None
        turn, last, found = self._find_next(key, message, headers, turns)
        if found is None and accepted is None and (hidden := self._find_redacted(method, params)):
            found = NextRequest(hidden)
        if found is not None and last is not None and self._is_early(method, last, found.recorded):
            return FoundRequest(self._selection.at(last), True)
        if found is None and last is not None and self._repeats == "cycle":
            _, _, found = self._find_next(key, message, headers, turns, again=True)
        if found is not None:
            recorded, answer, _ = found
            place = recorded[:3]
            was_bent, is_new = place in played.bent, place not in played.taken
            played.newest = new(TakenTurn, (place, is_new, turn, played.last.get(turn), was_bent))
            played.taken.add(place)
            if was_bent:
                played.bent.remove(place)
            played.last[turn] = place
            again, plays_anew = not is_new and not was_bent, was_bent or place in played.given_back
            return new(FoundRequest, (recorded, again, answer, None, plays_anew))
        if last is not None and (self._repeats == "last" or protocol.is_housekeeping(method)):
            return FoundRequest(self._selection.at(last), True)
        if last is None and accepted is None and method in (protocol.INITIALIZE, protocol.DISCOVER):
            return FoundRequest(self._greeting(method), True)
        return FoundRequest(None)

    def _find_next(
        self, key: bytes, message: Message, headers: Headers, turns: _Turns | None, *, again: bool = False
    ) -> tuple[TurnName, Position | None, NextRequest | None]:
        """Return the name of the turn, its last played place, and the next request. `again`: from the start."""
        last = self._played.last.get(key)
        if turns is None:
            found = self._selection.next_request(key, message, START if again or last is None else last)
        else:
            found = _next_turn(turns, None if again else last)
        if found is not None and not found.is_one_of_several:
            return key, last, found
        stated = match.stated_facts(message, headers())
        alike = None if stated is None else self._alike_requests(key, stated, turns)
        if stated is None or not alike:
            return key, last, found
        last = self._played.last.get((key, stated))
        return (key, stated), last, _next_turn(alike, None if again else last)

    def _alike_requests(self, key: bytes, live: match.StatedFacts, turns: _Turns | None) -> _Turns:
        """The equal requests with the live one's version and headers; empty if all are equally close."""
        known = self._stated.get((key, live))
        if known is not None and not self._rules:
            return known
        rows = self._selection.requests_with_key(key) if turns is None else [*turns.values()]
        stated = [self._selection.request_context(row) for row in rows]
        fitting = [_fitness(one, live) for one in stated]
        best = max(fitting, default=0)
        alike = [row for row, fits in zip(rows, fitting, strict=True) if fits == best]
        found = self._stated[key, live] = _chain_turns(alike if len(alike) < len(rows) else ())
        return found

    def _is_early(self, method: str, last: Position, found: RecordedMessage) -> bool:
        """Return whether the recorded request was repeated because of a change notification that is not sent yet.

        Until that is sent, the previous answer is the right one.
        """
        change = protocol.CHANGED_BY.get(method)
        if change is None or found.session != last[0]:
            return False
        changes = self._selection.changes_between(found.session, change, last[1], found.seq)
        newest = next((row for row in changes if found.name in (None, self._uri(row))), None)
        if newest is None or self._has_come(newest):
            return False
        if found.place not in self._played.early:
            self._played.early.add(found.place)
            name = " ".join(filter(None, (method, found.name)))
            self._note(f"{name} was asked for once more before {change}: the answer before that is repeated")
        return True

    def _uri(self, row: RecordedMessage) -> object:
        """The resource that was updated."""
        return protocol.member(self._selection.message(row).body.get("params"), "uri")

    def _greeting(self, method: str) -> RecordedMessage | None:
        """A greeting from another session, unless it is of another era: that would mislead the client."""
        found = self._selection.newest(method)
        if method == protocol.INITIALIZE and self._selection.is_modern(self._selection.sessions[0]):
            return None
        if found is None or method != protocol.DISCOVER or not self._selection.is_legacy(self._selection.sessions[0]):
            return found
        answer = self._selection.answer(found)
        return found if answer is not None and answer.status in ("error", "refused") else None

    def different_answer(self, asked: RecordedMessage, live: Message, recorded: RecordedMessage) -> str | None:
        """Describe how the client's answer to a server request differs from the recorded one."""
        then = self._selection.message(recorded)
        is_same = self.ladder is not None and self.ladder.hear(asked, then.body, live.body)
        return None if is_same else rewrite.describe_answer_difference(live, then)

    def plan(self, message: Message) -> Any:
        """Return the looser rungs for a request, if any."""
        return self.ladder.plan(message.method or "", message.name) if self.ladder else None

    def contradiction(self, message: Message, row: RecordedMessage) -> str | None:
        """Describe why a recording that is equal once normalized does not answer a request."""
        return self.ladder.contradiction(message, row) if self.ladder else None

    def give_back(self, recorded: RecordedMessage) -> None:
        """Give back the last turn: the next equal request gets it."""
        self._played.given_back.add(recorded.place)
        turn, played = self._played.newest, self._played
        if turn is None:
            return
        if turn.is_new:
            played.taken.discard(turn.place)
            played.bent.discard(turn.place)
        elif turn.was_bent:
            played.bent.add(turn.place)
        if turn.name is not None and turn.last is not None:
            played.last[turn.name] = turn.last
        elif turn.name is not None:
            del played.last[turn.name]

    def unplayed_requests(self) -> Iterator[RecordedMessage]:
        """The recorded requests that no client made, without the handshakes of extending sessions."""
        first, handshake = self._selection.sessions[0], (protocol.INITIALIZE, protocol.DISCOVER)
        for row in self._selection.all_requests():
            asked = row.place in self._played.taken or row.place in self._played.given_back
            if not asked and (row.session == first or row.method not in handshake):
                yield row

    def _accepted_requests(self, message: Message) -> list[RecordedMessage]:
        """The recorded requests that the user's rules accept for a live one."""
        rows = ((row, self._selection.message(row).body) for row in self._selection.requests(message.method or ""))
        return [row for row, body in rows if not any(rule(body, message.body) for rule in self._rules)]

    def _choose(self, method: str, like: list[RecordedMessage]) -> FoundRequest:
        """Take the turn of the first unplayed request of equal ones, or repeat a played one."""
        played = self._played
        if not like:
            return FoundRequest(None)
        found = next((row for row in like if row.place not in played.taken), None)
        before = like[like.index(found) - 1] if found is not None and found is not like[0] else None
        if found is not None and before is not None and self._is_early(method, before.place, found):
            return FoundRequest(before, True)
        if found is not None:
            played.newest = TakenTurn(found.place, True, None, None)
            played.taken.add(found.place)
            return FoundRequest(found, plays_anew=found.place in played.given_back)
        if self._repeats == "cycle":
            rounds = played.rounds[like[0].place] = played.rounds.get(like[0].place, -1) + 1
            return FoundRequest(like[rounds % len(like)], True)
        return (
            FoundRequest(like[-1], True)
            if self._repeats == "last" or protocol.is_housekeeping(method)
            else FoundRequest(None)
        )

    def _turns(self, key: bytes, method: str, accepted: list[RecordedMessage] | None) -> _Turns | None:
        """Return the equal requests in order; None if the stored keys serve."""
        if accepted is not None:
            return _chain_turns(row for row in accepted if match.request_key(method, self._params(row)) == key)
        return self._index(method).get(key, {}) if self._selection.stale else None

    def _index(self, method: str) -> dict[bytes, _Turns]:
        """The requests of one method by freshly computed keys."""
        index = self._indexes.get(method)
        if index is None:
            rows: dict[bytes, list[RecordedMessage]] = {}
            for row in self._selection.requests(method):
                key = match.request_key(method, self._params(row))
                rows.setdefault(key, []).append(row._replace(text=None))
            index = self._indexes[method] = {key: _chain_turns(same) for key, same in rows.items()}
        return index

    def _find_redacted(self, method: str, live: object) -> RecordedMessage | None:
        """A redacted recording still matches in an environment without the secrets."""
        if method not in self._hidden:
            self._hidden[method] = self._selection.requests(method, redacted=True)
        asked = protocol.identifying_params(method, live)
        for row in self._hidden[method]:
            is_free = row.place not in self._played.taken or row.place in self._played.bent
            if is_free and match.fits_redacted(protocol.identifying_params(method, self._params(row)), asked):
                return row
        return None

    def _params(self, row: RecordedMessage) -> object:
        return match.exact_params(self._selection.message(row), self._selection.text(row), row.part)


def _chain_turns(rows: Iterable[RecordedMessage]) -> _Turns:
    turns: _Turns = {}
    last = None
    for row in rows:
        turns[last] = row
        last = row.place
    return turns


def _next_turn(turns: _Turns, last: Position | None) -> NextRequest | None:
    found = turns.get(last)
    return None if found is None else NextRequest(found, None, len(turns) > 1)


def _fitness(recorded: match.StatedFacts | None, live: match.StatedFacts | None) -> int:
    """A score of what the client states equally: the protocol version counts more than the headers."""
    if recorded is None or live is None:
        return 0
    return 2 * (recorded[0] == live[0]) + (recorded[1] == live[1])
