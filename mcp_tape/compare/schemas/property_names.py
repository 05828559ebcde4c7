"""Matching of names of members against patterns, where that is safe: patterns are strangers'."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

# Patterns that are tried: a sequence of characters and classes of them. Each repetition makes a search longer; one
# within another may take for ever.
_PLAIN = re.compile(
    r"""\^? (?: (?: [^\\()\[\]{}|*+?^$] | \\[dDwWsS./_*+?()\[\]{}|^$\\-] | \[\^?(?:[^\\\[\]]|\\[^pPbBkux])+\] )
        (?: [*+?] | \{\d{1,2}(?:,\d{0,2})?\} )?  |  \((?:\?:)?  |  \) (?![*+?{])  |  \| )* \$?""",
    re.VERBOSE,
)
_CHOICES = re.compile(r"(?<!\\)[*+?|{]")
_MOST_CHOICES = 2
_LONGEST = 64
_LONGEST_TO_COMPILE = 1000
_SAYS_NOTHING = frozenset({"", "^", "$", ".*", "^.*", ".*$", "(.*)", "^(.*)", "[\\s\\S]*", "^[\\s\\S]*$"})
_ANY = frozenset({"", ".*", "^.*", ".*$", "^.*$", "^(.*)$", ".+", "^.+$", "^(.+)$"})


def fits_any(pattern: str) -> bool:
    return pattern in _ANY


def says_nothing(pattern: str) -> bool:
    """Return whether every text matches, one with line breaks and the empty one, too."""
    return pattern in _SAYS_NOTHING


@lru_cache(maxsize=1024)
def refuses_empty(pattern: str) -> bool:
    """Return whether the empty text surely does not match. To try that is quick, whatever the pattern."""
    if len(pattern) > _LONGEST_TO_COMPILE:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets within sets, which other dialects have
            return re.search(pattern, "") is None
    except (re.error, OverflowError, RecursionError):
        return False


@lru_cache(maxsize=4096)
def fits(pattern: str, name: str) -> bool | None:
    """Return whether a name matches; None if that is not tried."""
    expression = compiled(pattern)
    if expression is None or len(name) > _LONGEST:
        return None
    return expression.search(name) is not None


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str] | None:
    """Compile a pattern; None if it is not tried on names."""
    if len(pattern) > _LONGEST or len(_CHOICES.findall(pattern)) > _MOST_CHOICES or not _PLAIN.fullmatch(pattern):
        return None
    try:
        return re.compile(pattern, re.ASCII)
    except re.error:
        return None
