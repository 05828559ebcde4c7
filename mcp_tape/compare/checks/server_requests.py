"""What a server asks its client for: whether two such questions are the same, and how they differ if they are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from ...cassette.query.calls import Asked, Question, place_of
from ...wire import protocol
from ...wire.match import differences
from ..align import Pair
from ..changes import SERVER, Found, Subject
from ..minted.binding import Bound
from ..minted.spots import names_of, renamed
from ..recording import Recording
from .json_values import compare_values

_RULE = "server-request-changed"
_DATA = (protocol.SAMPLE, "params", "messages")  # what a model is asked about: it varies as results do
_MOST = 50  # questions that one is compared with; beyond these they are taken in order
_MOST_TRIED = 20_000  # comparisons in all


def same(then: Any, now: Any) -> bool:
    """Whether the params of two questions differ only in what the server made up."""
    bound = _bound()
    return all(bound.same("", path, before, after) for path, before, after in differences(then, now))


def compare_questions(old: Recording, new: Recording, pairs: Iterable[Pair]) -> Iterator[Found]:
    """The questions of the same method that are other ones now, of the same call first. On one pipe it is a guess which
    of several open calls a question is for: what another call has the like of has not changed."""
    asked = [recording.questions() for recording in (old, new)]
    if not all(asked):
        return
    calls, back = dict[tuple[int, int], Pair](), dict[tuple[int, int], Pair]()
    for pair in pairs:
        calls[pair.old[:2]] = back[pair.new[:2]] = pair
    matching = _Matching(old, new, calls, back)
    befores, afters = matching.without_same(*asked, of_call=True)
    befores, afters = matching.without_same(befores, afters, of_call=False)
    for of_call in (True, False):
        for before, after in matching.in_order(befores, afters, of_call=of_call):
            yield from matching.told(before, after)
            befores.remove(before)
            afters.remove(after)


Mates = list[tuple[Question, Question]]


class _Matching:
    """Which question is which."""

    def __init__(self, old: Recording, new: Recording, calls: Mapping[Any, Pair], back: Mapping[Any, Pair]) -> None:
        self._old, self._new = old, new
        self._calls, self._back = calls, back
        self._tried = 0

    def without_same(
        self, befores: list[Question], afters: list[Question], *, of_call: bool
    ) -> tuple[list[Question], list[Question]]:
        """What is left where the same ones are gone from both sides."""
        left: list[Question] = []
        waiting = self._by_place(afters, of_call)
        for before in befores:
            others = waiting.get(self._place(before, self._calls, of_call), [])
            mate = next((other for other in others[:_MOST] if self._is_same(before, other)), None)
            if mate is None:
                left.append(before)
            else:
                others.remove(mate)
        return left, sorted(chain.from_iterable(waiting.values()), key=place_of)

    def in_order(self, befores: list[Question], afters: list[Question], *, of_call: bool) -> Mates:
        waiting = self._by_place(afters, of_call)
        mates = [(before, waiting.get(self._place(before, self._calls, of_call))) for before in befores]
        return [(before, others.pop(0)) for before, others in mates if others]

    def told(self, old: Question, new: Question) -> Iterator[Found]:
        pair = self._back.get((new.session, new.exchange))
        subject = Subject("call", pair.old.title) if pair else SERVER
        before, after = self._params(old, new)
        for found in compare_values(before, after, (old.method, "params"), partial(_bound().same, ""), _RULE):
            yield subject, found._replace(level="info" if found.path[: len(_DATA)] == _DATA else None)

    def _by_place(self, asked: Iterable[Question], of_call: bool) -> dict[Any, list[Question]]:
        found: dict[Any, list[Question]] = {}
        for one in asked:
            found.setdefault(self._place(one, self._back, of_call), []).append(one)
        return found

    def _place(self, asked: Question, calls: Mapping[Any, Pair], of_call: bool) -> tuple[str, Asked | None]:
        pair = calls.get((asked.session, asked.exchange)) if of_call else None
        return asked.method, pair.old if pair else None

    def _is_same(self, old: Question, new: Question) -> bool:
        self._tried += 1
        if self._tried > _MOST_TRIED:
            return False
        before, after = self._old.question(old), self._new.question(new)
        return before == after or same(before, after) or same(*self._params(old, new))

    def _params(self, old: Question, new: Question) -> tuple[Any, Any]:
        """Both, with what the two clients had given differently under one name."""
        pair = self._calls.get((old.session, old.exchange))
        names = names_of(self._old.params(pair.old), self._new.params(pair.new)) if pair else {}
        return renamed(self._old.question(old), names), self._new.question(new)


def _bound() -> Bound:
    """Times in questions are never data."""
    return Bound(lambda title, path: False)
