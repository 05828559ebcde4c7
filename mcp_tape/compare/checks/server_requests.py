"""Checks of the requests that a server makes of its client during a call: sampling, elicitation, roots."""

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
_DATA = (protocol.SAMPLE, "params", "messages")  # the prompt of a model varies as results do
_MOST = 50  # questions that one is compared with; beyond these they are taken in order
_MOST_TRIED = 20_000  # comparisons in all


def same(then: Any, now: Any) -> bool:
    """Return whether the params of two requests differ only in values that the server made up."""
    bound = Bound()
    return all(bound.same("", path, before, after) for path, before, after in differences(then, now))


def compare_questions(old: Recording, new: Recording, pairs: Iterable[Pair]) -> Iterator[Found]:
    """Compare the requests of a method that are left once equal ones are paired, those of a call with each other first.

    On one pipe it is a guess to which of several open calls a request belongs: what another call has did not change.
    """
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
            yield from matching.compare(before, after)
            befores.remove(before)
            afters.remove(after)


Mates = list[tuple[Question, Question]]


class _Matching:
    """Pairs of requests, one of each recording."""

    def __init__(self, old: Recording, new: Recording, calls: Mapping[Any, Pair], back: Mapping[Any, Pair]) -> None:
        self._old, self._new = old, new
        self._calls, self._back = calls, back
        self._tried = 0

    def without_same(
        self, befores: list[Question], afters: list[Question], *, of_call: bool
    ) -> tuple[list[Question], list[Question]]:
        """Return what is left of both sides without the requests that are the same."""
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

    def compare(self, old: Question, new: Question) -> Iterator[Found]:
        pair = self._back.get((new.session, new.exchange))
        subject = Subject("call", pair.old.title) if pair else SERVER
        before, after = self._params(old, new)
        for found in compare_values(before, after, (old.method, "params"), partial(Bound().same, ""), _RULE):
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
        """Params of both, with values of the client's calls that differ under one name."""
        pair = self._calls.get((old.session, old.exchange))
        names = names_of(self._old.params(pair.old), self._new.params(pair.new)) if pair else {}
        return renamed(self._old.question(old), names), self._new.question(new)
