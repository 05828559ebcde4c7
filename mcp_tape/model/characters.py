"""Characters that a model reads but people cannot see, and names that people take for others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

_ZERO = "\u200b\u2060-\u2064\ufeff\u180e\u115f\u1160\u3164\uffa0"  # zero width, and letters without a shape
_JOINERS = "\u200c\u200d"  # needed within Persian, Indic scripts and emoji
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_DIRECTIONS = "\u202a-\u202e\u2066-\u2069"
_TAGS = "\U000e0000-\U000e007f"
_ANY = re.compile(f"[{_ZERO}{_JOINERS}{_SELECTORS}{_DIRECTIONS}{_TAGS}]")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{3,6}\U000e007f")  # the flags of Scotland, Wales …
_TAGGED = re.compile(f"[{_TAGS}]+")
_OVERRIDE = re.compile("[\u202d\u202e]")
_RUN = re.compile(f"[{_SELECTORS}]{{2,}}|[{_ZERO}{_JOINERS}]{{4,}}")
# Out of place in a tool's definition.
_ODD_SELECTOR = re.compile(f"(?:\\A|(?<=[\\x00-\\x22\\x24-\\x29\\x2b-\\x2f\\x3a-\\x7f]))[{_SELECTORS}]")
_ODD_ZERO = re.compile(f"(?!\\A)[{_ZERO}]|(?<=[A-Za-z0-9])[{_JOINERS}]|[{_JOINERS}](?=[A-Za-z0-9])")
_DIRECTION = re.compile(f"[{_DIRECTIONS}]")
_MOST_SHOWN = 60


def strip_invisible(text: str) -> str:
    """Return a text without invisible characters."""
    return text if text.isascii() else _ANY.sub("", text)


def normalize_visible(text: str) -> str:
    """Return a text without invisible characters, in compatibility form."""
    return unicodedata.normalize("NFKC", strip_invisible(text))


def describe_hidden(text: str, *, strict: bool) -> Iterator[str]:
    """Describe hidden characters in a text. `strict`: for a definition; in a result, many are legitimate data."""
    if text.isascii() or not _ANY.search(text):
        return
    tagged = "".join(_TAGGED.findall(_FLAG.sub("", text)))
    if tagged:
        said = "".join(chr(ord(character) - 0xE0000) for character in tagged)
        shown = "".join(character for character in said if character.isprintable())[:_MOST_SHOWN]
        yield f"has {len(tagged)} invisible tag characters, which spell {shown!r}"
    if found := _OVERRIDE.search(text):
        yield f"changes the order in which it is shown ({_name(found[0])})"
    if found := _RUN.search(text):
        yield f"has {len(found[0])} invisible characters in a row ({_name(found[0][0])}), which may encode something"
    elif strict and (found := _ODD_ZERO.search(text) or _ODD_SELECTOR.search(text)):
        yield f"has an invisible character ({_name(found[0])})"
    if strict and not _OVERRIDE.search(text) and (found := _DIRECTION.search(text)) and not _is_right_to_left(text):
        yield f"has an invisible character ({_name(found[0])}), and nothing to direct"


def _name(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def _is_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)


# -- names that look like others: in compatibility forms (NFKC), in mixed scripts, or in letters that look the same
#
# Scripts and letters follow Unicode (https://www.unicode.org/reports/tr39/), in the tables of confusable_homoglyphs.
# Most names are plain ASCII and need no tables.

# Scripts that are written together, and with Latin: https://www.unicode.org/reports/tr39/#Restriction_Level_Detection
_TOGETHER = {"HAN", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"}
_NO_SCRIPT = {"COMMON", "INHERITED", "Unknown"}
_DOUBTFUL = re.compile(r"[^\x00-\x7f]|[01I|\"`]|rn")  # names without any of these look different if they differ
_MARK = "\u200e"  # around right-to-left text, in the table


def describe_disguise(name: str) -> str | None:
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


def escape_disguised(name: str) -> str:
    """Return a name, with its non-ASCII characters escaped if it looks like another name."""
    return name.encode("ascii", "backslashreplace").decode() if describe_disguise(name) else name


def find_lookalikes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
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
    return unicodedata.normalize("NFD", "".join(map(_prototype, unicodedata.normalize("NFD", strip_invisible(name)))))


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
