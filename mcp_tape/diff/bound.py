"""Values that a server makes up anew each time: times, and ids of things. They are bound, not reported.

An id must stand for the same id everywhere; a time must differ wherever it stands, or it is data.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..jsontext import Path
from ..match import fits_redacted

_TIMES = (
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z| ?[+-]\d\d:?\d\d)?)?",
    r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[AaPp][Mm])?",
    r"1[0-9]{9}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?",
    r"(?:Mon|Tue|Tues|Wed|Wednes|Thu|Thurs|Fri|Sat|Satur|Sun)(?:day)?",
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d\d?(?:,? \d{4})?",
)
_IDS = (
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    r"(?=[0-9A-Za-z_+/=-]*\d)(?=[0-9A-Za-z_+/=-]*[A-Za-z])[0-9A-Za-z_+/=-]{16,}",
    r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}",
)
# Ids first: there are times in some of them.
_MADE_UP = re.compile(rf"(?<![\w-])(?:(?P<id>{'|'.join(_IDS)})|(?P<time>{'|'.join(_TIMES)}))(?![\w-])")
_NAMED_ID = re.compile(r"(?i)(?:^|.*[_-])(?:id|uuid|guid|cursor|token|etag|nonce|requeststate)$|.*(?:Id|Uuid|Cursor)$")
_NAMED_TIME = re.compile(r"(?i).*(?:time|timestamp|date|_at|At|since|until|expires|uptime)$")


class Bound:
    """What the two sides call the same thing. `steady` tells whether times at a place ever stay the same."""

    def __init__(self, steady: Callable[[str, Path], bool]) -> None:
        self._steady = steady
        self._names: dict[Any, Any] = {}
        self._back: dict[Any, Any] = {}

    def same(self, title: str, path: Path, old: Any, new: Any) -> bool:
        """Whether two values differ only in what was made up, or what is redacted."""
        if isinstance(old, str) and isinstance(new, str):
            if fits_redacted(old, new) or fits_redacted(new, old):
                return True
            if _is_named(path, _NAMED_ID):
                return self._bind([(old, new)])
            return self._same_text(title, path, old, new)
        if _is_number(old) and _is_number(new):
            if _is_named(path, _NAMED_ID):
                return self._bind([(old, new)])
            return _is_named(path, _NAMED_TIME) and not self._steady(title, general(path))
        return False

    def _same_text(self, title: str, path: Path, old: str, new: str) -> bool:
        if _mask(old) != _mask(new):
            return False
        pairs = [*zip(_MADE_UP.finditer(old), _MADE_UP.finditer(new), strict=True)]
        times = any(one["time"] and one[0] != other[0] for one, other in pairs)
        if times and self._steady(title, general(path)):
            return False
        return self._bind([(one[0], other[0]) for one, other in pairs if one["id"]])

    def _bind(self, pairs: list[tuple[Any, Any]]) -> bool:
        """Whether these stand for each other, here as everywhere."""
        fits = all(self._names.get(old, new) == new and self._back.get(new, old) == old for old, new in pairs)
        if fits:
            self._names |= dict(pairs)
            self._back |= {new: old for old, new in pairs}
        return fits


def is_made_up(value: Any) -> bool:
    """Whether a value is an id or a time by its looks."""
    return isinstance(value, str) and _MADE_UP.fullmatch(value) is not None


def made_up_in(text: str) -> list[str]:
    """What in a text looks so."""
    return [found[0] for found in _MADE_UP.finditer(text)]


def has_time(path: Path, value: Any) -> bool:
    """Whether a value is or holds a time."""
    if isinstance(value, str):
        return any(found["time"] for found in _MADE_UP.finditer(value))
    return _is_number(value) and _is_named(path, _NAMED_TIME)


def general(path: Path) -> Path:
    """A path without the places in lists and the names that were made up."""
    return tuple("*" if isinstance(step, int) or _MADE_UP.fullmatch(step) else step for step in path)


def _mask(text: str) -> str:
    return _MADE_UP.sub(lambda found: "\0id" if found["id"] else "\0time", text)


def _is_named(path: Path, pattern: re.Pattern[str]) -> bool:
    names = [step for step in path if isinstance(step, str)]
    return bool(names) and pattern.fullmatch(names[-1]) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
