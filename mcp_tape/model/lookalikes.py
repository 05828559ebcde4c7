"""Names that look like others: in compatibility forms (NFKC), in mixed scripts, or in letters that look the same.

Scripts and letters follow Unicode (https://www.unicode.org/reports/tr39/), in the tables of confusable_homoglyphs. Most
names are plain ASCII and need no tables.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from .characters import seen

# Scripts that are written together, and with Latin: https://www.unicode.org/reports/tr39/#Restriction_Level_Detection
_TOGETHER = {"HAN", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"}
_NO_SCRIPT = {"COMMON", "INHERITED", "Unknown"}
_DOUBTFUL = re.compile(r"[^\x00-\x7f]|[01I|\"`]|rn")  # names without any of these look different if they differ
_MARK = "\u200e"  # around right-to-left text, in the table


def disguised(name: str) -> str | None:
    """Describe why a name looks like another; None if it does not."""
    if name.isascii():
        return None
    plain = unicodedata.normalize("NFKC", name)
    if plain != unicodedata.normalize("NFC", name):
        return f"looks like {plain!r}, in other characters"
    scripts = {_script(letter) for letter in name if letter.isalpha()} - _NO_SCRIPT - _TOGETHER
    if len(scripts) > 1:
        return f"mixes the scripts {' and '.join(sorted(script.capitalize() for script in scripts))}"
    if "LATIN" not in scripts and scripts and (shape := _shape(name)).isascii():
        return f"looks like {shape!r}, in {''.join(scripts).capitalize()}"
    return None


def spelled(name: str) -> str:
    """Return a name, with its non-ASCII characters escaped if it looks like another name."""
    return name.encode("ascii", "backslashreplace").decode() if disguised(name) else name


def alike(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of different names in a list that look the same, in list order."""
    names = list(names)
    if not any(map(_DOUBTFUL.search, names)):
        return
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(_shape(name), name)
        if first != name:
            yield first, name


def _script(letter: str) -> str:
    from confusable_homoglyphs.categories import alias

    return str(alias(letter))


def _shape(name: str) -> str:
    """Return the skeleton of a name, which all names that look the same share.

    https://www.unicode.org/reports/tr39/#def-skeleton
    """
    return unicodedata.normalize("NFD", "".join(map(_prototype, unicodedata.normalize("NFD", seen(name)))))


@lru_cache(4096)
def _prototype(character: str) -> str:
    """Return the representative of all characters that look alike.

    The table lists the representative for each of them, and all of them for the representative.
    """
    from confusable_homoglyphs.confusables import confusables_data

    others = confusables_data.get(character) or confusables_data.get(f"{_MARK}{character}{_MARK}", ())
    if len(others) != 1:
        return character  # looks like no other, or is the representative itself
    other = str(others[0]["c"])
    is_one_of_two = len(other) == 1 and len(confusables_data[other]) == 1
    return min(character, other) if is_one_of_two else other.strip(_MARK)
