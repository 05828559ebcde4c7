"""The similarity of two requests, from 0 to 1: the same question in other words is near, another question is not.

Only free text may differ: a string with a space that is not code, a path or an id. All else must be equal. Texts are
compared by words, as by characters Bern resembles Basel. Parts that change the question are strict:

- names, numbers, negations and the like (`_STRICT`) must be the same, in the same order
- the words after *from*, *to*, *by*, *not* … (`_DIRECTIONS`) must not change places
- if each text has words that the other lacks, something was replaced: this halves the similarity

The similarity is the share of words in common. Function words do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ...wire import jsontext, protocol

NEAREST = 0.9  # the default similarity required: see docs/replay-rules.md
MOST = 0.99  # the most for unequal values
_OPTIONAL = 0.95  # for a member more or less that does not change the question
_OTHER_ORDER = 0.9  # for a list in another order
_LONGEST = 1 << 16  # most characters of a text compared by words


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# English only. In other languages all words count, so misses are likelier.
_EMPTY = _set("a an the is are be of in at for with and about that which this these those it its there also please")
_ASKING = _set(  # at the beginning of a text
    "can could would you i we us me want need like to show give tell find search look get fetch list let know what do "
    "does what's information details"
)
_DIRECTIONS = _set("from to into by on than before after over under since until against not without except if unless")
_STRICT = _set(
    "not no nor never cannot without except but unless neither only or if who whom whose when where why was were "
    "before after since until above below over under more less most least than min max "
    "first second third last next previous half double twice two three four five six seven eight nine ten eleven "
    "twelve twenty thirty fifty hundred thousand million billion today tonight tomorrow yesterday"
)
# The last word in the names of members that never hold free text.
_EXACT = _set(
    "command cmd code script sql expression regex pattern selector xpath args path file filename directory uri url id "
    "ids cursor token key ref hash"
)
_HOW_MANY = _set("limit maxresults numresults maxitems maxcount pagesize perpage topk")  # the size of an answer
_SQL = r"\s*(?:select|insert|update|delete|with|create|alter|drop)\b.*\b(?:from|into|set|table|as)\b"
_CODE = re.compile(rf"[{{}}<>=|\\]|(?is:\A{_SQL})")
_ENDS = " \t.,:;!?…'\"`()[]“”‘’«»"  # around a word
_PLAIN = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_ABSENT = object()

Read = Callable[[Any, Any, str], tuple[Any, Any]]  # returns the values to compare, of two leaves under a key


def arguments(method: str, asked: Any) -> Any:
    """Return the part of a request to compare: without the name of a tool or prompt, which is equal."""
    if isinstance(asked, dict) and protocol.is_addressed(method):
        return {key: value for key, value in asked.items() if key != "name"}
    return asked


def read_verbatim(one: Any, other: Any, key: str) -> tuple[Any, Any]:
    return one, other


class Nearness(NamedTuple):
    """Compares the requests of one kind."""

    read: Read = read_verbatim
    defaults: Mapping[str, Any] = {}  # of optional arguments, declared by the recorded server
    any_string: bool = False  # compare all strings by words, free text or not

    def of(self, one: Any, other: Any, key: str = "") -> float:
        """Return the similarity of two values under a key."""
        if isinstance(one, dict) and isinstance(other, dict):
            return self._object_nearness(one, other, self.defaults if key == "arguments" else {})
        if isinstance(one, list) and isinstance(other, list):
            return self._list_nearness(one, other, key)
        if isinstance(one, dict | list) or isinstance(other, dict | list):
            return 0.0
        read = self.read(one, other, key)
        if _are_equal(*read):
            return 1.0
        if not isinstance(one, str) or not isinstance(other, str) or max(len(one), len(other)) > _LONGEST:
            return 0.0
        if self.any_string:
            here, there = (Counter(re.findall(r"\w+", str(text).lower())) for text in read)
            return _share(here, there)
        return _text_nearness(*map(str, read)) if _are_free_text(one, other, key) else 0.0

    def _object_nearness(self, one: dict[str, Any], other: dict[str, Any], defaults: Mapping[str, Any]) -> float:
        found = 1.0
        for name in sorted(one.keys() ^ other.keys()):
            found *= _optional_nearness(name, one.get(name, other.get(name)), defaults.get(name, _ABSENT))
        nearest = 1.0  # the minimum: a product would penalize requests with many members
        for name in sorted(one.keys() & other.keys()):
            nearest = min(nearest, self.of(one[name], other[name], name)) if found and nearest else 0.0
        return found * nearest

    def _list_nearness(self, one: list[Any], other: list[Any], key: str) -> float:
        if len(one) != len(other):
            return 0.0
        found = min((self.of(*pair, key) for pair in zip(one, other, strict=True)), default=1.0)
        has_numbers = any(isinstance(item, int | float) for item in one)  # such as coordinates, whose order counts
        if found >= _OTHER_ORDER or has_numbers:
            return found
        are_same = sorted(map(jsontext.canonical_bytes, one)) == sorted(map(jsontext.canonical_bytes, other))
        return _OTHER_ORDER if are_same else found


def _optional_nearness(name: str, value: Any, default: Any) -> float:
    """Return the similarity of two objects if one has a member more."""
    says_nothing = value is False or value in (None, "", [], {})
    is_how_many = type(value) is int and re.sub("[_-]", "", name).lower() in _HOW_MANY
    return _OPTIONAL if says_nothing or is_how_many or _are_equal(value, default) else 0.0


def _are_equal(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _are_free_text(one: str, other: str, key: str) -> bool:
    last = _NAME_PARTS.findall(key)[-1:]
    if last and last[0].lower() in _EXACT:
        return False
    return any(len(text.split()) > 1 for text in (one, other)) and not any(map(_CODE.search, (one, other)))


class _Text(NamedTuple):
    words: tuple[str, ...]  # that count
    strict: frozenset[str]  # words that the other text must have, too
    directed: dict[str, set[str]]  # the words after each direction


def _text_nearness(one: str, other: str) -> float:
    ours, theirs = _read(one), _read(other)
    strict = ours.strict | theirs.strict
    if [word for word in ours.words if word in strict] != [word for word in theirs.words if word in strict]:
        return 0.0
    for direction in ours.directed.keys() & theirs.directed.keys():
        here, there = ours.directed[direction], theirs.directed[direction]
        if here - there and there - here:
            return 0.0
    our, their = Counter(ours.words), Counter(theirs.words)
    is_turned = ours.directed.keys() - theirs.directed.keys() and theirs.directed.keys() - ours.directed.keys()
    is_replaced = is_turned or (our - their and their - our)
    return _share(our, their, 2 if is_replaced else 1)


def _share(one: Counter[str], other: Counter[str], divisor: int = 1) -> float:
    """The share of words in common: https://en.wikipedia.org/wiki/Jaccard_index"""
    every = sum((one | other).values()) * divisor
    return min(MOST, sum((one & other).values()) / every) if every else 0.0


@lru_cache(256)
def _read(text: str) -> _Text:
    words: list[str] = []
    strict: set[str] = set()
    directed: dict[str, set[str]] = {}
    direction = ""
    is_first, is_asking = True, True
    for chunk in text.split():
        bare = chunk.strip(_ENDS)
        begins, is_first = is_first, chunk[-1] in ".!?:" or not bare.strip("-–—")
        lower = bare.lower()
        is_small = bare[1:] == bare[1:].lower()  # false for WHO and IT
        if not bare.strip("-–—") or (is_asking and lower in _ASKING) or (is_small and lower in _EMPTY):
            continue
        is_asking = is_asking and lower == "how"
        is_plain = _PLAIN.fullmatch(lower) is not None
        word = _singular(re.sub("['’]s$", "", lower)) if is_plain else bare
        if word in _DIRECTIONS:
            direction = word
            directed.setdefault(word, set())
        elif direction:
            directed[direction].add(word)
            direction = ""
        is_name = not is_small or (not begins and bare[0] != lower[0])
        if word in _DIRECTIONS - _STRICT:
            continue
        words.append(word)
        if is_name or not is_plain or word in _STRICT or word.endswith(("n't", "n’t")):
            strict.add(word)
    return _Text(tuple(words), frozenset(strict), directed)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    is_plural = word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is", "news"))
    return word[:-1] if is_plural else word
