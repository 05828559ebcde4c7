"""What fits on a terminal: columns of characters, and text that it must not act on."""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence

WIDTH_OF_A_PIPE = 200
_UNUSUAL = re.compile("[^\x00-\u02ff\u2010-\u20cf\u2100-\u22ff]")  # what may not take one column each
_PLAIN = str.maketrans({"→": ">", "←": "<", "…": "~", "µ": "u", "·": ".", "—": "-", "–": "-"})


def columns() -> int:
    """How wide a line may be."""
    # Some terminals do not know their width and say 0.
    return (shutil.get_terminal_size().columns or 80) if sys.stdout.isatty() else WIDTH_OF_A_PIPE


def wide(text: str) -> int:
    """The columns that a printable text takes."""
    return len(text) if text.isascii() or not _UNUSUAL.search(text) else sum(map(_wide, text))


def _wide(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def harmless(text: str) -> str:
    """The text with what a terminal would act on made visible."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{MIDDLE DOT}" for c in text)


def fit(text: str, width: int) -> str:
    """One line of harmless text, cut to so many columns."""
    text = harmless(text[: 2 * width + 100])  # marks that take no column are no way around this
    if wide(text) <= width:
        return text
    if not _UNUSUAL.search(text):
        return text[: max(0, width - 1)] + "…"
    used = kept = 0
    for kept, character in enumerate(text):  # noqa: B007 - used below
        used += _wide(character)
        if used > width - 1:
            break
    return text[:kept] + "…"


def pad(text: str, width: int) -> str:
    """The text, filled up to so many columns."""
    return text + " " * (width - wide(text))


def wrap(parts: Sequence[str], width: int, indent: int) -> str:
    """Parts on one line where they fit, else on more; none is broken in two."""
    line = "  ".join(parts)
    if len(line) <= width and wide(line := harmless(line)) <= width:
        return line  # as nearly all are
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}  {part}" if lines[-1] else part
        if lines[-1].strip() and wide(longer) > width:
            lines.append(fit(" " * indent + part, width))
        else:
            lines[-1] = fit(longer, width)
    return "\n".join(lines)


def can_write(characters: str) -> bool:
    """Whether the output's encoding has these."""
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def writable(text: str) -> str:
    """The text, with a stand-in for what the output's encoding has not."""
    if can_write(text):
        return text
    encoding = sys.stdout.encoding or "ascii"
    return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
