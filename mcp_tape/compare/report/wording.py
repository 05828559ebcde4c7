"""The words that all formats share, and the escaping of untrusted text."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import count as count
from ...errors import replace_control_characters
from ...model.characters import escape_disguised
from ..changes import Change
from ..judging import Comparison
from ..rule_table import LEVELS, Level

_LONGEST_NAME = 120
_MOST_UNUSED = 3
_NARROWEST = 30  # room for the start, the end and the omission
_WORTH_READING = 20  # times the displayed width
# The selector that gives an emoji its colours, where no emoji precedes it.
_UNSEEN = re.compile("(?<![#*0-9\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])\ufe0f")
_STEP = re.compile(r"[^.\[\]'\"$ ]+")
# Text that GitHub's runner would read as a command: one kind at the start of a line, even after blanks, the other
# anywhere. https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
_COMMAND = re.compile(r"^( *):(?=:)|#(?=#\[)")


class View(NamedTuple):
    """Options of a report."""

    colour: bool = False
    width: int = 100
    fail_on: Level | None = "error"  # None: nothing fails
    file: str | None = None
    ignore_file: str = ".mcp-tape-ignore"
    full: bool = False  # cut nothing
    level: Level = "info"  # the least level in text
    verdict: str = ""  # the last line of a text


def visible(text: str) -> str:
    """One line in which nothing is active or hidden: control, bidirectional and zero-width characters are escaped."""
    escaped = replace_control_characters(text, _escape)
    if not escaped.isascii():
        escaped = _UNSEEN.sub(_escape_match, escaped)
    if escaped.endswith(" "):
        escaped = escaped[:-1] + r"\x20"
    return _COMMAND.sub(_tame, escaped) if "::" in escaped or "##[" in escaped else escaped


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _escape_match(found: re.Match[str]) -> str:
    return "".join(map(_escape, found[0]))


def _tame(found: re.Match[str]) -> str:
    return found[0][:-1] + f"\\x{ord(found[0][-1]):02x}"


def clip(text: str, width: int) -> str:
    """One visible line. A longer one loses its middle and shows how much, since its end may matter."""
    whole = len(text) <= _WORTH_READING * width
    shown = visible(text) if whole else visible(text[:width])[:width] + visible(text[-width:])[-width:]
    if len(shown) <= width:
        return shown
    if width < _NARROWEST:
        return shown[: max(0, width - 1)] + "…"
    length = len(shown) if whole else len(text)
    room = width - len(f"…({length} more)…")
    last = room // 3
    return f"{shown[: room - last]}…({length - room} more)…{shown[len(shown) - last :]}"


def file_of(comparison: Comparison, view: View) -> str:
    """The file to annotate; empty if there is none."""
    if comparison.file:
        return comparison.file
    name, _, session = comparison.cassette.rpartition("#")
    return (name if session.isdigit() else comparison.cassette) or view.file or ""


def headline(comparison: Comparison) -> str:
    """The number of changes and of unknown parts. Never "no changes" if something is unknown."""
    unknown = f"{count(len(comparison.unknown), 'part')} unknown" if comparison.unknown else ""
    if comparison.changes:
        levels = ", ".join(f"{number} {level}" for level in LEVELS if (number := comparison.count(level)))
        found = f"{count(len(comparison.changes), 'change')}: {levels}"
        return f"{found}, and {unknown}" if unknown else found
    return f"{unknown}, no findings in the rest" if unknown else "no changes"


def versions(comparison: Comparison) -> str:
    """`time 1.0 → 1.1`; both names if they differ; the cassette if there are several."""
    old, new = clip(comparison.old, _LONGEST_NAME), clip(comparison.new, _LONGEST_NAME)
    name, _, version = new.rpartition(" ")
    both = f"{old} → {version if name and name == old.rpartition(' ')[0] else new}"
    return f"{clip(comparison.cassette, _LONGEST_NAME)}: {both}" if comparison.cassette else both


def scope(comparison: Comparison) -> str:
    """The category; if nothing changed, also how much was compared."""
    said = f"category {comparison.category}"
    return said if comparison.changes or not comparison.compared else f"{said}; {describe_compared(comparison)}"


def describe_compared(comparison: Comparison) -> str:
    parts = [count(number, thing.removesuffix("s")) for thing, number in comparison.compared.items()]
    return f"compared: {', '.join(parts) or 'nothing'}"


def subject(change: Change) -> str:
    return clip(f"{change.subject.kind} {escape_disguised(change.subject.name)}".rstrip(), _LONGEST_NAME)


def place(change: Change, width: int) -> str:
    """The path of a change; empty for the subject as a whole."""
    return "" if change.path == "$" else clip(_STEP.sub(lambda step: escape_disguised(step[0]), change.path), width)


def times(change: Change) -> str:
    return f" ×{change.times}" if change.times > 1 else ""


def may_be_accepted(change: Change) -> bool:
    """Return whether accepting a change has an effect: a run in which the server failed never passes."""
    return change.rule != "server-crashed"


def describe_unused_lines(comparison: Comparison, view: View) -> str:
    """All unused lines of the ignore file, in one sentence."""
    number = len(comparison.unused)
    if number == 1 or view.full:
        return "\n".join(map(describe_unused, comparison.unused))
    shown = ", ".join(clip(line, _LONGEST_NAME // 2) for line in comparison.unused[:_MOST_UNUSED])
    more = f" and {number - _MOST_UNUSED} more" if number > _MOST_UNUSED else ""
    return f"{count(number, 'line')} of {view.ignore_file} unused here: {shown}{more} — other cassettes may need them"


def describe_unused(line: str) -> str:
    return f"unused here: {clip(line, 2 * _LONGEST_NAME)} — remove this line if no other cassette needs it"
