"""Checks of the requests that a server makes to its client during a call: sampling, elicitation, roots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from ...cassette.query.recorded_requests import Question, RecordedRequest, place_of
from ...wire import protocol
from ...wire.match import differences
from ..align import CallPair
from ..changes import SERVER, Subject, SubjectDifference
from ..minted.binding import BoundValues
from ..minted.spots import names_of, rename_texts
from ..transcript import Transcript
from .json_values import compare_values

_RULE = "server-request-changed"
_DATA = (protocol.SAMPLE, "params", "messages")  # prompts for a model vary as results do
_MOST = 50  # questions that one is compared with; beyond that, they are paired in order
_MOST_TRIED = 20_000  # comparisons in total


def is_same_request(then: Any, now: Any) -> bool:
    """Return whether the params of two requests differ only in values that the server made up."""
    bound = BoundValues()
    return all(bound.is_same("", path, before, after) for path, before, after in differences(then, now))


def compare_questions(old: Transcript, new: Transcript, pairs: Iterable[CallPair]) -> Iterator[SubjectDifference]:
    """Compare the requests that are left once equal ones are paired, by method; first those of the same call.

    On one pipe, assigning a request to one of several open calls is a guess, so a request that moved to another call is
    not a change.
    """
    asked = [recording.questions() for recording in (old, new)]
    if not all(asked):
        return
    calls, back = dict[tuple[int, int], CallPair](), dict[tuple[int, int], CallPair]()
    for pair in pairs:
        calls[pair.old[:2]] = back[pair.new[:2]] = pair
    matching = _QuestionPairing(old, new, calls, back)
    befores, afters = matching.drop_same(*asked, of_call=True)
    befores, afters = matching.drop_same(befores, afters, of_call=False)
    for of_call in (True, False):
        for before, after in matching.pair_in_order(befores, afters, of_call=of_call):
            yield from matching.compare(before, after)
            befores.remove(before)
            afters.remove(after)


QuestionPairs = list[tuple[Question, Question]]


class _QuestionPairing:
    """Pairs of requests, one of each recording."""

    def __init__(
        self, old: Transcript, new: Transcript, calls: Mapping[Any, CallPair], back: Mapping[Any, CallPair]
    ) -> None:
        self._old, self._new = old, new
        self._calls, self._back = calls, back
        self._tried = 0

    def drop_same(
        self, befores: list[Question], afters: list[Question], *, of_call: bool
    ) -> tuple[list[Question], list[Question]]:
        """Return the remaining requests of both sides, without those that are the same."""
        left: list[Question] = []
        waiting = self._group_by_place(afters, of_call)
        for before in befores:
            others = waiting.get(self._place(before, self._calls, of_call), [])
            mate = next((other for other in others[:_MOST] if self._is_same(before, other)), None)
            if mate is None:
                left.append(before)
            else:
                others.remove(mate)
        return left, sorted(chain.from_iterable(waiting.values()), key=place_of)

    def pair_in_order(self, befores: list[Question], afters: list[Question], *, of_call: bool) -> QuestionPairs:
        waiting = self._group_by_place(afters, of_call)
        mates = [(before, waiting.get(self._place(before, self._calls, of_call))) for before in befores]
        return [(before, others.pop(0)) for before, others in mates if others]

    def compare(self, old: Question, new: Question) -> Iterator[SubjectDifference]:
        pair = self._back.get((new.session, new.exchange))
        subject = Subject("call", pair.old.title) if pair else SERVER
        before, after = self._params(old, new)
        for found in compare_values(before, after, (old.method, "params"), partial(BoundValues().is_same, ""), _RULE):
            yield subject, found._replace(level="info" if found.path[: len(_DATA)] == _DATA else None)

    def _group_by_place(self, asked: Iterable[Question], of_call: bool) -> dict[Any, list[Question]]:
        found: dict[Any, list[Question]] = {}
        for one in asked:
            found.setdefault(self._place(one, self._back, of_call), []).append(one)
        return found

    def _place(
        self, asked: Question, calls: Mapping[Any, CallPair], of_call: bool
    ) -> tuple[str, RecordedRequest | None]:
        pair = calls.get((asked.session, asked.exchange)) if of_call else None
        return asked.method, pair.old if pair else None

    def _is_same(self, old: Question, new: Question) -> bool:
        self._tried += 1
        if self._tried > _MOST_TRIED:
            return False
        before, after = self._old.question_params(old), self._new.question_params(new)
        return before == after or is_same_request(before, after) or is_same_request(*self._params(old, new))

    def _params(self, old: Question, new: Question) -> tuple[Any, Any]:
        """Params of both, with the differing values of the client's calls under one name."""
        pair = self._calls.get((old.session, old.exchange))
        names = names_of(self._old.params(pair.old), self._new.params(pair.new)) if pair else {}
        return rename_texts(self._old.question_params(old), names), self._new.question_params(new)
