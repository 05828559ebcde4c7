"""The words that all forms share, and a stranger's text made harmless."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import count as count
from ...errors import harmless
from ..changes import Change
from ..judging import Comparison
from ..rules import LEVELS, Level

_LONGEST_NAME = 120
_TRAILING = re.compile(r" $")
# What GitHub's runner takes for a command: the one at the start of a line, behind blanks, too, the other anywhere.
# https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
_COMMAND = re.compile(r"^( *):(?=:)|#(?=#\[)")


class View(NamedTuple):
    """Options of a report."""

    colour: bool = False
    width: int = 100
    fail_on: Level | None = "error"  # None: nothing fails
    file: str | None = None
    ignore_file: str = ".mcp-tape-ignore"


def visible(text: str) -> str:
    """One line on which nothing acts and nothing hides: control, direction and zero-width characters as escapes."""
    escaped = harmless(text, lambda char: char.encode("unicode_escape").decode())
    return _COMMAND.sub(_tame, _TRAILING.sub(r"\\x20", escaped))


def _tame(found: re.Match[str]) -> str:
    return found[0][:-1] + f"\\x{ord(found[0][-1]):02x}"


def clip(text: str, width: int) -> str:
    """One visible line, cut to a width."""
    shown = visible(text[: width + 1])
    return shown if len(shown) <= width else shown[: max(0, width - 1)] + "…"


def headline(comparison: Comparison) -> str:
    """Number of changes and of unknown parts. Where something is unknown, never "no changes"."""
    unknown = f"{count(len(comparison.unknown), 'part')} unknown" if comparison.unknown else ""
    if comparison.changes:
        levels = ", ".join(f"{number} {level}" for level in LEVELS if (number := comparison.count(level)))
        found = f"{count(len(comparison.changes), 'change')}: {levels}"
        return f"{found}, and {unknown}" if unknown else found
    return f"{unknown}, no findings in the rest" if unknown else "no changes"


def versions(comparison: Comparison) -> str:
    """`time 1.0 → 1.1`; both names where they differ; the cassette where there are several."""
    old, new = clip(comparison.old, _LONGEST_NAME), clip(comparison.new, _LONGEST_NAME)
    name, _, version = new.rpartition(" ")
    both = f"{old} → {version if name and name == old.rpartition(' ')[0] else new}"
    return f"{clip(comparison.cassette, _LONGEST_NAME)}: {both}" if comparison.cassette else both


def scope(comparison: Comparison) -> str:
    """The category; without changes also how much was compared."""
    said = f"category {comparison.category}"
    return said if comparison.changes or not comparison.compared else f"{said}; {compared(comparison)}"


def compared(comparison: Comparison) -> str:
    parts = [count(number, thing.removesuffix("s")) for thing, number in comparison.compared.items()]
    return f"compared: {', '.join(parts) or 'nothing'}"


def subject(change: Change) -> str:
    return clip(str(change.subject), _LONGEST_NAME)


def place(change: Change, width: int) -> str:
    """The path of a change; empty for the subject as a whole."""
    return "" if change.path == "$" else clip(change.path, width)


def times(change: Change) -> str:
    return f" ×{change.times}" if change.times > 1 else ""


def to_accept(comparison: Comparison) -> Change | None:
    """The change that shows how one is accepted. Where the server failed, that would help nobody."""
    if not all(map(may_be_accepted, comparison.changes)):
        return None
    return next(iter(comparison.at_least("warn")), None)


def may_be_accepted(change: Change) -> bool:
    """Return whether accepting a change makes a difference: a run in which the server failed is never fine."""
    return change.rule != "server-crashed"


def unused(line: str) -> str:
    return f"unused here: {clip(line, 2 * _LONGEST_NAME)} — remove this line if no other cassette needs it"
