"""Spots: the place of a value in a message (at a path, in JSON within a text, or between words), and the value at that
place in another message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...wire import jsontext, match
from ...wire.jsontext import Path

Paths = tuple[Path, ...]  # each path after the first is within the JSON text at the previous one

_DEEPEST = 3  # JSON texts within JSON texts
_LONGEST = 1 << 20  # characters of running text that are searched
_SHORT = 4096  # characters of a text that may be an address
_BRIEF = 512  # characters of a text with a few ids of the server; longer texts are content
_MOST_WORDS = 16  # in such a text
_NEAR = 24  # characters of context before a value
_ID_KEY = re.compile(r"(?:.*[_-])?(?:id|iid|uuid|number)s?|.*[a-z](?:I[dD]|Uuid|Number)s?")
# Words as a client would copy them. The strict pattern ends at punctuation, the other keeps addresses whole.
_GRAINS = (re.compile(r"[\w-]+"), re.compile(r"[\w.:/@#~=+%?&-]+"))
_NOT_LAST = ".:@#~+%?&-"  # punctuation at the end is not part of a word
_RANDOM = (re.compile(r"[0-9a-fA-F-]{7,}"), re.compile(r"(?=.*\d)[\w+/=-]{16,}"))
_LETTERS = re.compile(r"[^\W\d_]+")
_NO_DIGITS_BEFORE = re.compile(r"[^\d]*\Z")
_NO_DIGITS_AFTER = re.compile(r"[^\d\w]{0,3}")


class Words(NamedTuple):
    """A word of running text, known by the text around it; `of`: the number of words that match."""

    grain: int
    before: str
    after: str
    of: int
    at_start: bool


class Spot(NamedTuple):
    """A place in a message."""

    paths: Paths
    words: Words | None = None

    @property
    def name(self) -> str:
        """The key of the value; for a list item, the list's key."""
        return next((step for step in reversed(self.paths[-1]) if isinstance(step, str)), "")


def is_id_key(name: str) -> bool:
    """Return whether a number under this key is an id rather than a count."""
    return len(name) <= 100 and _ID_KEY.fullmatch(name) is not None


def look_alike(one: str, other: str) -> bool:
    """Return whether two values look made up in the same way: both random, or with the same words."""
    if any(kind.fullmatch(one) and kind.fullmatch(other) for kind in _RANDOM):
        return True
    return _LETTERS.findall(one) == _LETTERS.findall(other)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Each value other than a container, with its path."""
    if isinstance(value, (dict, list)):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, step))
    else:
        yield path, value


def all_leaves(value: Any, *paths: Path) -> Iterator[tuple[Paths, Any]]:
    """The leaves of a value, each followed by the leaves of JSON in its text."""
    *outer, last = paths or ((),)
    for path, leaf in leaves(value, last):
        yield (*outer, path), leaf
        inner = _json_in(leaf) if len(outer) < _DEEPEST else None
        if inner is not None:
            yield from all_leaves(inner, *outer, path, ())


def spots(body: Any, wanted: set[str]) -> dict[str, list[Spot]]:
    """Find the spots of some texts; a number counts only under a key for ids."""
    found: dict[str, list[Spot]] = {}
    if not wanted:
        return found
    for paths, value in all_leaves(body):
        if isinstance(value, str):
            if value in wanted:
                found.setdefault(value, []).append(Spot(paths))
            else:
                for text, words in _words_of(value, wanted):
                    found.setdefault(text, []).append(Spot(paths, words))
        elif isinstance(value, int) and not isinstance(value, bool) and str(value) in wanted:
            spot = Spot(paths)
            if is_id_key(spot.name):
                found.setdefault(str(value), []).append(spot)
    return found


def holds(body: Any, text: str) -> bool:
    """Return whether a message contains a text, as a value or as a word."""
    for _, value in all_leaves(body):
        if isinstance(value, str):
            if value == text or (text in value and next(_words(value[:_LONGEST], {text}), None)):
                return True
        elif not isinstance(value, bool) and str(value) == text:
            return True
    return False


def read_spot(spot: Spot, recorded: Any, live: Any) -> Any:
    """Read the value of a live message at the spot of a recorded one; None if uncertain."""
    for depth, path in enumerate(spot.paths):
        if depth:
            recorded, live = _json_in(recorded), _json_in(live)
        for step in path:
            recorded, live = _down(recorded, live, step)
    if spot.words is not None:
        return _word(spot.words, live) if isinstance(live, str) else None
    return live if isinstance(live, (str, int)) and not isinstance(live, bool) else None


def _down(recorded: Any, live: Any, step: str | int) -> tuple[Any, Any]:
    if isinstance(recorded, dict) and isinstance(live, dict):
        return recorded.get(str(step)), live.get(str(step))
    if isinstance(recorded, list) and isinstance(live, list) and isinstance(step, int) and step < len(recorded):
        return recorded[step], _same_element(recorded, live, step)
    return None, None


def _same_element(recorded: list[Any], live: list[Any], at: int) -> Any:
    """The element most like a recorded one. The index alone counts only for a single element or a block of content,
    since other things may be listed there now."""
    likeness = [_likeness(recorded[at], element) for element in live]
    best = max(likeness, default=0)
    if best and likeness.count(best) == 1:
        return live[likeness.index(best)]
    placed = len(recorded) == 1 or (isinstance(recorded[at], dict) and "type" in recorded[at])
    return live[at] if placed and len(live) == len(recorded) and likeness[at] == best else None


def _likeness(one: Any, other: Any) -> int:
    """The number of members that two objects share."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return 0
    return sum(not isinstance(value, (dict, list)) and other.get(key) == value for key, value in one.items())


def ids_in(text: str) -> list[str]:
    """The words with digits in a short text from a client, such as an address or a query."""
    if len(text) > _BRIEF:
        return []
    words = dict.fromkeys(word for word in _GRAINS[0].findall(text) if word != text and _is_id(word))
    return list(words)[:_MOST_WORDS]


def _is_id(word: str) -> bool:
    return len(word) >= 4 and not word.isdigit() and any(c.isdigit() for c in word)


def rename_texts(value: Any, names: Mapping[str, str]) -> Any:
    """Copy a value with texts renamed, and also whole words of short texts."""
    if isinstance(value, dict):
        return {key: rename_texts(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [rename_texts(item, names) for item in value]
    if not isinstance(value, str) or not names or value in names or len(value) > _SHORT:
        return names.get(value, value) if isinstance(value, str) else value
    return _GRAINS[0].sub(lambda found: names.get(found[0], found[0]), value)


def names_of(old: Any, new: Any) -> dict[str, str]:
    """New names by old ones, from the differences of two messages: whole values, and words of short texts."""
    found: dict[str, str] = {}
    for _, before, after in match.differences(old, new):
        if all(isinstance(value, (str, int)) for value in (before, after)):
            found[str(before)] = str(after)
            found |= {word: other for word, other in word_pairs(str(before), str(after)) if word != other}
    return found


def words_in(value: Any) -> Counter[str]:
    """Count the words of a message, names and values alike."""
    return Counter(_GRAINS[0].findall(jsontext.dumps(value)))


def word_pairs(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Pair the words of two short texts, if they have equally many."""
    words, others = ([] if len(text) > _SHORT else _GRAINS[0].findall(text) for text in (old, new))
    return zip(words, others, strict=True) if len(words) == len(others) else iter(())


def _words_of(text: str, wanted: set[str]) -> Iterator[tuple[str, Words]]:
    """Find wanted words in running text; in an address, only those that are not plain numbers."""
    if " " in text or "\n" in text:
        return _words(text[:_LONGEST], wanted)
    short = text if len(text) <= _SHORT else ""
    return (found for found in _words(short, wanted) if not found[0].isdigit())


def _words(text: str, wanted: set[str]) -> Iterator[tuple[str, Words]]:
    seen: set[tuple[int, int]] = set()
    for grain, pattern in enumerate(_GRAINS):
        for found in pattern.finditer(text):
            word = found[0].rstrip(_NOT_LAST)
            place = found.start(), found.start() + len(word)
            if word in wanted and place not in seen:
                seen.add(place)
                yield word, _context(text, *place, grain)


def _context(text: str, start: int, end: int, grain: int) -> Words:
    """The text around a word, up to the nearest digits, which are often made up too."""
    near = _NO_DIGITS_BEFORE.search(text[max(0, start - _NEAR) : start])
    behind = _NO_DIGITS_AFTER.match(text[end : end + 3])
    before, after = near[0] if near else "", behind[0] if behind else ""
    words = Words(grain, before, after, 0, start == len(before))
    return words._replace(of=len(_matches(words, text)))


def _word(words: Words, live: str) -> str | None:
    matches = _matches(words, live[:_LONGEST])
    known = _LETTERS.search(words.before) or (words.at_start and not words.before)
    # Several that look alike, as in a list, are ambiguous.
    return matches[0][1] if known and words.of == len(matches) == 1 else None


def _matches(words: Words, text: str) -> list[tuple[int, str]]:
    """Find the words in the same context, with their offsets."""
    start = r"\A" if words.at_start else ""
    found = re.finditer(f"{start}{re.escape(words.before)}({_GRAINS[words.grain].pattern})", text)
    pairs = [(match.start(1), match[1].rstrip(_NOT_LAST)) for match in found]
    return [(at, word) for at, word in pairs if word and text.startswith(words.after, at + len(word))]


def _json_in(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return None
    try:
        inner = jsontext.loads(value)
    except (ValueError, RecursionError):
        return None
    return inner if isinstance(inner, (dict, list)) else None
