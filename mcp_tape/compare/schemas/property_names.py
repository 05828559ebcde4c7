"""Matching of member names against patterns, if that is safe: patterns are untrusted."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

# Patterns that are tried: a sequence of characters and character classes. Each repetition makes a search slower, and
# nested repetitions may take for ever.
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
    """Return whether every text matches, including the empty one and those with line breaks."""
    return pattern in _SAYS_NOTHING


@lru_cache(maxsize=1024)
def refuses_empty(pattern: str) -> bool:
    """Return whether the empty text certainly does not match. That is quick to test, whatever the pattern."""
    if len(pattern) > _LONGEST_TO_COMPILE:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about nested sets, which other dialects have
            return re.search(pattern, "") is None
    except (re.error, OverflowError, RecursionError):
        return False


@lru_cache(maxsize=4096)
def fits(pattern: str, name: str) -> bool | None:
    """Return whether a name matches; None if the pattern is not tried."""
    expression = compile_pattern(pattern)
    if expression is None or len(name) > _LONGEST:
        return None
    return expression.search(name) is not None


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str] | None:
    """Compile a pattern; None if it is unsafe to try on names."""
    if len(pattern) > _LONGEST or len(_CHOICES.findall(pattern)) > _MOST_CHOICES or not _PLAIN.fullmatch(pattern):
        return None
    try:
        return re.compile(pattern, re.ASCII)
    except re.error:
        return None
