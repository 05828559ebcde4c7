"""Alignment: pairs of calls, one from each recording, that are the same call.

Theory of operation. Two clients that do the same thing need not make the same requests: a server makes up cursors, task
ids and ids of new objects, and a client sends them back. So calls are paired in passes, the surest first, and each pass
sees only the calls that earlier passes left:

1. By match key, in order. The n-th request with a key on one side is the n-th with that key on the other.
2. By learned values. If the answers of a pair differ at a place, the two servers have two names for one thing. The
remaining requests are tried with the new names in place of the old: first names that look made up, then all texts, then
numbers too, since a word that changed may mean something else in a request. Each new pair teaches more names, so the
remaining requests are tried again, in order, until a round finds none. A name is a whole value, or a word within a text
such as an address.
3. By placeholders. A redacted value matches any text.
4. By looks, only in a session that extends another: values in it were made up by answers that are not in this session.

A call that no pass pairs is missing or added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ..cassette.query.recorded_requests import RecordedRequest, place_of
from ..wire import match, protocol
from .minted import spots
from .minted.binding import find_made_up_texts, is_made_up, is_number
from .minted.uses import match_inputs
from .transcript import Transcript

_MOST_TRIED = 200  # unpaired calls that are compared with each other


class CallPair(NamedTuple):
    """One call, on both sides."""

    old: RecordedRequest
    new: RecordedRequest


class Alignment(NamedTuple):
    """All pairs in the order of the old recording, and the calls without a counterpart."""

    pairs: list[CallPair]
    missing: list[RecordedRequest]
    added: list[RecordedRequest]


def align(
    old: Transcript, new: Transcript, asked_old: Iterable[RecordedRequest], asked_new: Iterable[RecordedRequest]
) -> Alignment:
    waiting = _UnpairedCalls(asked_new)
    pairs, left = list[CallPair](), list[RecordedRequest]()
    for asked in asked_old:
        mate = waiting.take_first([asked.key])
        if mate:
            pairs.append(CallPair(asked, mate))
        else:
            left.append(asked)
    if left and waiting:
        pairs, left = _pair_by_values(old, new, pairs, left, waiting)
        for fits in (_is_redacted, *((_looks_alike,) if old.is_continued else ())):
            more, left = _pair_by_params(old, new, left, waiting, fits)
            pairs = sorted([*pairs, *more], key=lambda pair: place_of(pair.old))
    return Alignment(pairs, left, waiting.all())


class _UnpairedCalls:
    """The calls of the new recording that have no counterpart yet, by key, in order."""

    def __init__(self, asked: Iterable[RecordedRequest]) -> None:
        self._queues: dict[bytes, list[RecordedRequest]] = defaultdict(list)  # in reverse order
        for one in asked:
            self._queues[one.key].append(one)
        for queue in self._queues.values():
            queue.reverse()

    def __bool__(self) -> bool:
        return any(self._queues.values())

    def all(self) -> list[RecordedRequest]:
        return sorted((asked for queue in self._queues.values() for asked in queue), key=place_of)

    def take_first(self, keys: Iterable[bytes]) -> RecordedRequest | None:
        """Take the next one with one of these keys."""
        return next((queue.pop() for queue in map(self._queues.get, keys) if queue), None)

    def take(self, asked: RecordedRequest) -> None:
        self._queues[asked.key].remove(asked)


def _pair_by_values(
    old: Transcript, new: Transcript, pairs: list[CallPair], left: list[RecordedRequest], waiting: _UnpairedCalls
) -> tuple[list[CallPair], list[RecordedRequest]]:
    """Pair by learned values, in rounds, until one pairs nothing more."""
    learned = _LearnedNames(value for asked in left for _, value in spots.leaves(old.params(asked)))
    found = dict(pairs)
    unread = sorted([*found, *left], key=place_of)
    while unread:
        left = []
        for asked in unread:
            tried = (old.key(asked.method, params) for params in learned.put_into(old.params(asked)))
            mate = found.get(asked) or waiting.take_first(tried)
            if mate is None:
                left.append(asked)
                continue
            found[asked] = mate
            if old.answer_text(asked) != new.answer_text(mate):
                learned.learn(old.answer(asked), new.answer(mate))
        unread = left if len(left) < len(unread) else []
    return [CallPair(*pair) for pair in found.items()], left


def _pair_by_params(
    old: Transcript,
    new: Transcript,
    left: list[RecordedRequest],
    waiting: _UnpairedCalls,
    fits: Callable[[Any, Any], bool],
) -> tuple[list[CallPair], list[RecordedRequest]]:
    """Pair each with the first of the same method whose params fit."""
    found: list[CallPair] = []
    for asked in left[:_MOST_TRIED]:
        params = protocol.identifying_params(asked.method, old.params(asked))
        for other in waiting.all()[:_MOST_TRIED]:
            if other.method == asked.method and fits(
                params, protocol.identifying_params(asked.method, new.params(other))
            ):
                found.append(CallPair(asked, other))
                waiting.take(other)
                break
    paired = {pair.old for pair in found}
    return found, [asked for asked in left if asked not in paired]


def _is_redacted(one: Any, other: Any) -> bool:
    """True if placeholders account for every difference; the other side may have the secret or another name for it."""
    return match.fits_redacted(one, other) or match.fits_redacted(other, one)


def _looks_alike(one: Any, other: Any) -> bool:
    """True if the only differences are values that look like ids."""
    pairs = [(before, after) for _, before, after in match.differences(one, other)]
    texts = all(isinstance(value, str) for pair in pairs for value in pair)
    return texts and all(
        any(c.isdigit() for c in before) and spots.look_alike(before, after) for before, after in pairs
    )


class _LearnedNames:
    """Two servers' names for the same things; only names that the old client sends back are kept."""

    def __init__(self, wanted: Iterable[Any]) -> None:
        self._wanted = {hash(_name(name)) for value in wanted for name in (value, *_ids_in(value))}  # texts may be long
        self._values: dict[str, Any] = {}
        self._inputs: dict[str, str] = {}  # names of requests for input

    def learn(self, old: Any, new: Any) -> None:
        """Learn the values that differ between the answers of a pair."""
        inputs = [protocol.member(protocol.member(body, "result"), "inputRequests") for body in (old, new)]
        if all(isinstance(asked, dict) for asked in inputs):
            self._inputs |= match_inputs(*inputs)
        for _, before, after in match.differences(old, new):
            if isinstance(before, str) and isinstance(after, str):
                self._keep(before, after)
                for word, other in _words(before, after):
                    self._keep(word, other)
            elif is_number(before) and is_number(after):
                self._keep(_name(before), after)

    def _keep(self, name: str, value: Any) -> None:
        if hash(name) in self._wanted:
            self._values.setdefault(name, value)

    def put_into(self, params: Any) -> Iterator[Any]:
        """Yield the request as the other client may have made it, the likeliest form first."""
        given = protocol.member(params, "inputResponses")
        if isinstance(given, dict):
            params = params | {"inputResponses": {self._inputs.get(name, name): value for name, value in given.items()}}
        for counts in _TRIED:
            yield self._replace_names(params, counts)

    def _replace_names(self, value: Any, counts: Callable[[Any], bool]) -> Any:
        """A copy with learned values in place of the old ones."""
        if isinstance(value, dict):
            return {key: self._replace_names(item, counts) for key, item in value.items()}
        if isinstance(value, list):
            return [self._replace_names(item, counts) for item in value]
        name = _name(value)
        if name in self._values or not isinstance(value, str):
            return self._values[name] if name in self._values and counts(value) else value
        ids = [word for word in _ids_in(value) if counts(word) and isinstance(self._values.get(word), str)]
        return spots.rename_texts(value, {word: self._values[word] for word in ids})


_TRIED: tuple[Callable[[Any], bool], ...] = (is_made_up, lambda value: isinstance(value, str), lambda value: True)
_MARKS = ".,;:!?()[]{}<>\"'`"


def _words(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Pairs of words of two texts: those that differ if the texts have equally many, else those that look like ids."""
    words, others = before.split(), after.split()
    if len(words) != len(others):
        words, others = find_made_up_texts(before), find_made_up_texts(after)
    if len(words) == len(others):
        for word, other in zip(words, others, strict=True):
            if word != other:
                yield word.strip(_MARKS), other.strip(_MARKS)
    yield from (pair for pair in spots.word_pairs(before, after) if pair[0] != pair[1])


def _ids_in(value: Any) -> list[str]:
    return spots.ids_in(value) if isinstance(value, str) else []


def _name(value: Any) -> str:
    return value if isinstance(value, str) else f"\0{value!r}"  # no text of a server looks like this
