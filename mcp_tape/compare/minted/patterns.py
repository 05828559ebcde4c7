"""Patterns of made-up text: times in their many forms, and ids, which are random. Words with a number in them are data.

Letters and digits count as random if they often change from one kind to the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-6]\d(?:[.,]\d+)?)?"
_MM, _DD = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_M, _D, _YEAR = r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])", r"(?:19|20)\d\d"
_EPOCH = r"1[4-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?"  # seconds since 1970, from 2014 on, or fractions of them
_TIMES = (
    rf"\d{{4}}-{_MM}-{_DD}(?:[T ]{_CLOCK}(?:Z| ?[+-]\d\d:?\d\d)?)?",
    rf"{_CLOCK}(?: ?[AaPp][Mm])?",
    _EPOCH,
    rf"{_YEAR}/{_MM}/{_DD}",
    rf"{_YEAR}{_MM}{_DD}T\d{{6}}Z?",
    rf"(?:{_D}([/.]){_M}|{_M}([/.]){_D})(?:\1|\2){_YEAR}",
    r"(?:Mon|Tue|Tues|Wed|Wednes|Thu|Thurs|Fri|Sat|Satur|Sun)(?:day)?",
    rf"{_MONTH} \d\d?(?:,? \d{{4}})?",
    rf"\d\d? {_MONTH} \d{{4}}",
)
_TIME = re.compile(rf"(?<![\w-])(?=[\dA-Z])(?:{'|'.join(_TIMES)})(?![\w-])")  # a quick check of the first character
_EPOCH_ALONE = re.compile(_EPOCH)
_RUN = re.compile(r"[0-9A-Za-z_+/=-]{7,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"[0-9a-f]{7,}|[0-9A-F]{16,}")
_PLACES = ("/tmp/", "/T/", "\\Temp\\")
_TEMPORARY = re.compile(
    rf"(?:{'|'.join(f'(?<={re.escape(place)})' for place in _PLACES)})"
    r"(?:tmp[a-z0-9_]{8}|tmp\.[0-9A-Za-z]{10}|(?=[a-z]*\d)[A-Za-z]?[0-9a-f]{6})(?![^/\\\s'\",;)])"
)
_MARKS = re.compile(r"[_+/=-]+")
_WORD = re.compile(r"(?=.*[aeiouy])[A-Z]?[a-z]{3,}")  # a whole word, between marks
_KIND = re.compile(r"[a-z]+|[A-Z]+")  # a prefix such as `msg` before a mark names the kind of an id
_LETTERS = re.compile(r"(?=[A-Za-z]*[G-Zg-z])[A-Za-z]{4,}")  # at least a fragment of a word
_CAMEL = re.compile(r"[A-Z](?=[a-z]*[aeiouy])[a-z]{2,}")
_NEIGHBOURS = re.compile(r"(?<=[0-9A-Za-z])(?=[0-9A-Za-z])")
_TURN = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_LONG = 16  # characters from which on randomness shows
_SHORT = 11  # characters from which on it may show, if the kinds change often
_DENSE = 6  # characters per mark
_LONGEST = 1_000  # longer ones are checked once, not from each of their parts on


class MadeUpPart(NamedTuple):
    """A part of a text that looks made up."""

    start: int
    end: int
    kind: Literal["id", "time"]
    text: str


def find_made_up(text: str) -> list[MadeUpPart]:
    """Find the times and ids in a text, in order. Times come first: no id has the marks of a time around it."""
    found, at = list[MadeUpPart](), 0
    ids = _ids if any(place in text for place in _PLACES) else _ids_in_runs
    for time in _TIME.finditer(text):
        found += ids(text, at, time.start())
        found.append(MadeUpPart(*time.span(), "time", time[0]))
        at = time.end()
    return [*found, *ids(text, at, len(text))]


def is_epoch(value: float) -> bool:
    """Return whether a number looks like a time: seconds, milliseconds … since 1970."""
    return _EPOCH_ALONE.fullmatch(f"{value:.3f}" if isinstance(value, float) else str(value)) is not None


def mask(text: str, made: list[MadeUpPart], signs: tuple[str, str]) -> str:
    """Replace ids by one sign and times by another."""
    pieces, at = list[str](), 0
    for one in made:
        pieces += (text[at : one.start], signs[one.kind == "time"])
        at = one.end
    return "".join([*pieces, text[at:]])


def find_made_up_in_both(old: str, new: str) -> tuple[list[MadeUpPart], list[MadeUpPart]]:
    """Find made-up parts in two texts. A random id may not look random by chance, so one side is enough."""
    one, other = find_made_up(old), find_made_up(new)
    if len(old) != len(new) or [made[:3] for made in one] == [made[:3] for made in other]:
        return one, other
    spans = _merge_spans(made[:2] for made in (*one, *other) if made.kind == "id")
    fitting = [span for span in spans if _may_be_id(old[slice(*span)]) and _may_be_id(new[slice(*span)])]
    return _add_spans(old, one, fitting), _add_spans(new, other, fitting)


def _merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            start, end = found[-1][0], max(end, found.pop()[1])
        found.append((start, end))
    return found


def _may_be_id(text: str) -> bool:
    return _RUN.fullmatch(text) is not None and not any(map(_WORD.fullmatch, _MARKS.split(text)))


def _add_spans(text: str, made: list[MadeUpPart], spans: list[tuple[int, int]]) -> list[MadeUpPart]:
    """Add spans as ids, replacing those that overlap them."""
    beside = [one for one in made if not any(start < one.end and one.start < end for start, end in spans)]
    return sorted([*beside, *(MadeUpPart(*span, "id", text[slice(*span)]) for span in spans)])


def _ids(text: str, start: int, end: int) -> Iterator[MadeUpPart]:
    at = start
    for found in _TEMPORARY.finditer(text, start, end):
        yield from _ids_in_runs(text, at, found.start())
        yield MadeUpPart(*found.span(), "id", found[0])
        at = found.end()
    yield from _ids_in_runs(text, at, end)


def _ids_in_runs(text: str, start: int, end: int) -> Iterator[MadeUpPart]:
    for run in _RUN.finditer(text, start, end):
        for first, last in _spans(run[0]):
            span = run.start() + first, run.start() + last
            yield MadeUpPart(*span, "id", text[slice(*span)])


def _spans(run: str) -> Iterator[tuple[int, int]]:
    """Spans of ids in a run of letters, digits and marks, the longest from each part on."""
    at = 0
    for part in re.finditer(r"[0-9A-Za-z]+", run):
        if part.start() < at:
            continue
        rest = run[part.start() :] if len(run) <= _LONGEST or not at else ""
        end = part.start() + len(rest) if _is_random_run(rest) else part.end()
        if end > part.end() or _is_random(part[0]):
            yield part.start(), end
        at = end


def _is_random_run(run: str) -> bool:
    """True for base64 and similar text with random marks. Words between marks are a name or a path."""
    if len(run) < _LONG:
        return False
    if _UUID.fullmatch(run):
        return True
    parts = [part for part in _MARKS.split(run) if part]
    if len(run) < _DENSE * len(parts) or _KIND.fullmatch(parts[0]) or any(map(_WORD.fullmatch, parts)):
        return False
    return _turns(run, 0.2)


def _is_random(part: str) -> bool:
    """True for random letters and digits without a mark."""
    if _HEX.fullmatch(part):
        return _is_mixed(part)
    if len(part) >= _LONG:
        return _turns(part, 0.2)
    return len(part) >= _SHORT and _turns(part, 0.35) and not _LETTERS.search(part)


def _turns(part: str, often: float) -> bool:
    """True if letters and digits alternate often enough, and are not joined words."""
    turns, pairs = (len(kind.findall(part)) for kind in (_TURN, _NEIGHBOURS))
    words = sum(len(word) for word in _CAMEL.findall(part))
    return _is_mixed(part) and turns >= often * pairs and words * 2 < len(part)


def _is_mixed(part: str) -> bool:
    return any(c.isdigit() for c in part) and any(c.isalpha() for c in part)
