"""Which names of members a pattern fits, where that can be told without danger: patterns are strangers'."""

from __future__ import annotations

import re
from functools import lru_cache

# All that is tried: a sequence of characters and classes of them. The more of it may repeat, the longer a search may
# take; what repeats within a repetition may take for ever.
_PLAIN = re.compile(
    r"""\^? (?: (?: [^\\()\[\]{}|*+?^$] | \\[dDwWsS./_*+?()\[\]{}|^$\\-] | \[\^?(?:[^\\\[\]]|\\[^pPbBkux])+\] )
        (?: [*+?] | \{\d{1,2}(?:,\d{0,2})?\} )?  |  \((?:\?:)?  |  \) (?![*+?{])  |  \| )* \$?""",
    re.VERBOSE,
)
_CHOICES = re.compile(r"(?<!\\)[*+?|{]")
_MOST_CHOICES = 2
_LONGEST = 64
_ANY = frozenset({"", ".*", "^.*", ".*$", "^.*$", "^(.*)$", ".+", "^.+$", "^(.+)$"})


def fits_any(pattern: str) -> bool:
    """Whether every name fits."""
    return pattern in _ANY


def is_plain(pattern: str) -> bool:
    """Whether it is tried on names."""
    return _compiled(pattern) is not None


@lru_cache(maxsize=4096)
def fits(pattern: str, name: str) -> bool | None:
    """Whether a name fits; None if that cannot be told."""
    expression = _compiled(pattern)
    if expression is None or len(name) > _LONGEST:
        return None
    return expression.search(name) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if len(pattern) > _LONGEST or len(_CHOICES.findall(pattern)) > _MOST_CHOICES or not _PLAIN.fullmatch(pattern):
        return None
    try:
        return re.compile(pattern, re.ASCII)
    except re.error:
        return None
