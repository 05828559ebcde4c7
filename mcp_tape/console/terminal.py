"""Terminal output: fitted lines, colours, questions; and JSON for programs."""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

import click

from ..errors import replace_control_characters

WIDTH_OF_A_PIPE = 200
_UNUSUAL = re.compile("[^\x00-\u02ff\u2010-\u20cf\u2100-\u22ff]")  # characters that may not be one column wide
_PLAIN = str.maketrans({"→": ">", "←": "<", "…": "~", "µ": "u", "·": ".", "—": "-", "–": "-"})


def echo_json(value: dict[str, Any]) -> None:
    """Print a JSON object on its own line."""
    from ..cassette.text.safe_lines import json_line

    click.echo(json_line(value), nl=False)


def echo(text: str, **style: Any) -> None:
    """Print a line for people, coloured if the terminal shows colours."""
    click.secho(text, color=shows_colours(), **style)


def echo_one_of_many(text: str, **style: Any) -> None:
    """Print a line for people. Into a pipe without a flush, as it may be one of millions."""
    if sys.stdout.isatty():
        echo(text, **style)
    else:
        sys.stdout.write(text + "\n")


def shows_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def clip(text: str, width: int) -> str:
    """Cut a text to a number of characters, and replace control characters."""
    return replace_control_characters(text if len(text) <= width else text[: max(0, width - 1)] + "…")


def columns() -> int:
    # Some terminals do not know their width and report 0.
    return (shutil.get_terminal_size().columns or 80) if sys.stdout.isatty() else WIDTH_OF_A_PIPE


def display_width(text: str) -> int:
    """The number of columns that a printable text takes."""
    return len(text) if text.isascii() or not _UNUSUAL.search(text) else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Cut a text to a number of columns, and replace control characters."""
    text = replace_control_characters(text[: 2 * width + 100])  # limited even if it has only zero-width marks
    if display_width(text) <= width:
        return text
    if not _UNUSUAL.search(text):
        return text[: max(0, width - 1)] + "…"
    used = kept = 0
    for kept, character in enumerate(text):  # noqa: B007 - used below
        used += _character_width(character)
        if used > width - 1:
            break
    return text[:kept] + "…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad a text to a number of columns; `right` aligns it right."""
    room = " " * (width - display_width(text))
    return room + text if right else text + room


def wrap(parts: Sequence[str], width: int, indent: int) -> str:
    """Join parts on one line if they fit, else on several. Never breaks a part in two."""
    line = "  ".join(parts)
    if len(line) <= width and display_width(line := replace_control_characters(line)) <= width:
        return line  # the usual case
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}  {part}" if lines[-1] else part
        if lines[-1].strip() and display_width(longer) > width:
            lines.append(fit(" " * indent + part, width))
        else:
            lines[-1] = fit(longer, width)
    return "\n".join(lines)


def can_write(characters: str) -> bool:
    """Return whether the output's encoding has these characters."""
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def writable_text(text: str) -> str:
    """Replace the characters that the output's encoding lacks."""
    if can_write(text):
        return text
    encoding = sys.stdout.encoding or "ascii"
    return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)


def is_attended() -> bool:
    """Return whether a person at a terminal can answer questions."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def lay_out_line(parts: Sequence[str]) -> str:
    """Join the parts of a line so that it fits the terminal."""
    return writable_text(wrap([part for part in parts if part], columns(), indent=5))


def pick_one(lines: Sequence[tuple[Sequence[str], str | None]]) -> int:
    """Print numbered lines, each with parts and a colour, and ask for one of them; the first is the default."""
    for number, (parts, colour) in enumerate(lines, 1):
        echo(lay_out_line([f"{number:>3}", *parts]), fg=colour)
    chosen: int = click.prompt("Which?", type=click.IntRange(1, len(lines)), default=1)
    return chosen - 1


def pick_several(question: str, lines: Sequence[Sequence[str]]) -> list[int]:
    """Print numbered lines, each with parts, and ask for some of them, or all."""
    for number, parts in enumerate(lines, 1):
        echo(lay_out_line([f"{number:>3}", *parts]))
    answer: str = click.prompt(f"{question} Numbers, or all", default="", show_default=False)
    if answer.strip() == "all":
        return [*range(len(lines))]
    words = answer.replace(",", " ").split()
    if not all(word.isdecimal() and 0 < int(word) <= len(lines) for word in words):
        raise click.UsageError(f"{answer!r} is not a choice: give numbers from 1 to {len(lines)}, or all")
    return [int(word) - 1 for word in dict.fromkeys(words)]
