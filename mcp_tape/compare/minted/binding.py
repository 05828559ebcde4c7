"""Binding: pairs of corresponding values, one from each side. They are not a change, but must be consistent."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...wire.jsontext import Path
from ...wire.match import fits_redacted
from .patterns import find_made_up, find_made_up_in_both, is_epoch, mask

_SIGNS = "\0id", "\0time"
_NAMED_ID = re.compile(r"(?i)(?:^|.*[_-])(?:id|uuid|guid|cursor|token|etag|nonce|requeststate)$|.*(?:Id|Uuid|Cursor)$")
_NAMED_TIME = re.compile(r"(?i).*(?:time|timestamp|date|_at|At|since|until|expires|uptime)$")

_NAMED_AMOUNT = re.compile(r"(?i).*(?:size|bytes|length|count|total|sum|amount|balance|price|cost|population)s?$")


class BoundValues:
    """Pairs of ids, found so far. `steady`: whether times at a place of a call ever stay the same, and so are data."""

    def __init__(self, steady: Callable[[str, Path], bool] = lambda title, path: False) -> None:
        self._steady = steady
        self._names: dict[Any, Any] = {}
        self._back: dict[Any, Any] = {}

    def is_same(self, title: str, path: Path, old: Any, new: Any) -> bool:
        """Return whether two values differ only in made-up or redacted parts."""
        if isinstance(old, str) and isinstance(new, str):
            if fits_redacted(old, new) or fits_redacted(new, old):
                return True
            if _is_named(path, _NAMED_ID):
                return self._bind([(old, new)])
            return self._is_same_text(title, path, old, new)
        if is_number(old) and is_number(new):
            if _is_named(path, _NAMED_ID):
                return self._bind([(old, new)])
            is_time = _is_time(path, old) and _is_time(path, new) and is_epoch(old) == is_epoch(new)
            if is_time and is_epoch(old) and len(str(int(old))) != len(str(int(new))):
                return False  # the unit differs
            return is_time and not self._steady(title, generalize(path))
        return False

    def _is_same_text(self, title: str, path: Path, old: str, new: str) -> bool:
        one, other = find_made_up_in_both(old, new)
        if mask(old, one, _SIGNS) != mask(new, other, _SIGNS):
            return False
        pairs = [*zip(one, other, strict=True)]
        times = any(before.kind == "time" and before.text != after.text for before, after in pairs)
        if times and self._steady(title, generalize(path)):
            return False
        return self._bind([(before.text, after.text) for before, after in pairs if before.kind == "id"])

    def _bind(self, pairs: list[tuple[Any, Any]]) -> bool:
        """Bind pairs; False if one contradicts an earlier binding."""
        fits = all(self._names.get(old, new) == new and self._back.get(new, old) == old for old, new in pairs)
        if fits:
            self._names |= dict(pairs)
            self._back |= {new: old for old, new in pairs}
        return fits


def is_made_up(value: Any) -> bool:
    """Return whether a whole value looks like an id or a time."""
    return isinstance(value, str) and mask(value, find_made_up(value), ("", "")) == "" != value


def mask_made_up(old: str, new: str) -> tuple[str, str]:
    """Two texts with signs for the made-up parts of each that are not in the other."""
    one, other = find_made_up_in_both(old, new)
    before, after = ([made for made in one if made.text not in new], [made for made in other if made.text not in old])
    return mask(old, before, _SIGNS), mask(new, after, _SIGNS)


def find_made_up_texts(text: str) -> list[str]:
    return [found.text for found in find_made_up(text)]


def has_time(path: Path, value: Any) -> bool:
    if isinstance(value, str):
        return any(found.kind == "time" for found in find_made_up(value))
    return is_number(value) and _is_time(path, value)


def _is_time(path: Path, value: float) -> bool:
    """Return whether a number is a time: by its name, or by its size unless its name means an amount."""
    return _is_named(path, _NAMED_TIME) or (is_epoch(value) and not _is_named(path, _NAMED_AMOUNT))


def generalize(path: Path) -> Path:
    """Generalize a path: stars for indexes and for made-up parts of names."""
    return tuple("*" if isinstance(step, int) else generalize_name(step) for step in path)


@lru_cache(4096)
def generalize_name(name: str) -> str:
    """Generalize a name: stars for its made-up parts, and for a number."""
    return "*" if name.isdecimal() else mask(name, find_made_up(name), ("*", "*"))


def _is_named(path: Path, pattern: re.Pattern[str]) -> bool:
    names = [step for step in path if isinstance(step, str)]
    return bool(names) and pattern.fullmatch(names[-1]) is not None


def is_number(value: Any) -> bool:
    """Return whether a value is a number in JSON. Booleans are not, though they are in Python."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
