"""The report for a terminal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import groupby

from ...model.characters import escape_disguised
from ...wire.jsontext import compact_text
from ..changes import ABSENT, Change
from ..judging import Comparison
from ..rule_table import LEVELS
from . import wording
from .before_after import WHOLE, Cut, is_text, one_line, rows
from .groups import ChangeGroup, acceptable_group, are_gone, describe_others, group_changes, line_to_accept
from .wording import View, clip

_INDENT = " " * 8
_NARROWEST = 40
_MOST_LINES = 12
_MOST_NAMED = 3
_SHORT = 200  # characters of two values that share a line
_MOST_ALIKE = 50  # if a tool always fails, a thousand calls need not be listed
_WORDS = re.compile(r"[\W_]")
_COLOURS = {"error": "31", "warn": "33", "info": "36", "loud": "1;31", "-": "31", "+": "32", "dim": "2"}


def top(comparison: Comparison, view: View) -> Iterator[str]:
    """The headline; then, in bold, the unknown parts."""
    found = _style(wording.headline(comparison), "loud" if comparison.unknown else "", view)
    yield f"{found}        {wording.versions(comparison)}   ({wording.scope(comparison)})"
    for entry in comparison.unknown:
        said = f"UNKNOWN {clip(entry.what, view.width)}: {clip(entry.why, 4 * view.width)}"
        yield _style(said, "loud", view)


def block(change: Change, view: View, columns: tuple[int, int] = (0, 0)) -> list[str]:
    """One change: rule and subject, then place and values."""
    rule, subject = columns
    known = f"{f'[{change.rule}]':<{rule}}  {wording.subject(change):<{subject}}  "
    level = _style(change.level, change.level, view)
    # The padding is not coloured, since some terminals would underline it.
    head = f"{level}{' ' * (6 - len(change.level))}{known}{change.fingerprint}{wording.times(change)}"
    return [head, *(_INDENT + line for line in _details(change, view))]


def listing(comparison: Comparison, view: View) -> Iterator[str]:
    """The changes, without advice on how to accept them."""
    view = view._replace(width=max(_NARROWEST, view.width))
    yield from top(comparison, view)
    changes = comparison.at_least(view.level)
    columns = _columns(changes, view.width)
    groups = [(change,) for change in changes] if view.full else group_changes(changes)
    for _, several in groupby(groups, key=lambda group: (group[0].level, group[0].rule, group[0].subject)):
        alike = list(several)
        for group in alike[:_MOST_ALIKE]:
            yield from group_block(group, view, columns)
        if len(alike) > _MOST_ALIKE:
            yield f"{_INDENT}and {len(alike) - _MOST_ALIKE} more like these; to see all: --format json"


def group_block(group: ChangeGroup, view: View, columns: tuple[int, int] = (0, 0)) -> Iterator[str]:
    """Equal changes: the first of them, and the subjects of the others."""
    if are_gone(group):
        yield from block(group[0], view, columns)[:1]
        yield _INDENT + _also_gone(group, view.width - len(_INDENT))
    else:
        yield from block(group[0], view, columns)
        yield from _others(group)


def _also_gone(group: ChangeGroup, width: int) -> str:
    """The names of the other things that are gone, as many as fit on a line."""
    names, left = (
        [clip(escape_disguised(one.subject.name), width) for one in group[1:]],
        width - len("and  and 1000 more; to see all: --full"),
    )
    fitting = next((n for n in range(len(names)) if len(", ".join(names[: n + 1])) > left), len(names))
    shown = ", ".join(names[: max(1, fitting)])
    more = len(names) - max(1, fitting)
    return f"and {shown}" + (f" and {more} more; to see all: --full" if more else "")


def _others(group: ChangeGroup) -> Iterator[str]:
    """The other subjects of the same change, each with its fingerprint."""
    names = describe_others(group, _NARROWEST)
    if names:
        more = f" and {len(names) - _MOST_NAMED} more; to see all: --full" if len(names) > _MOST_NAMED else ""
        yield f"{_INDENT}the same in {', '.join(names[:_MOST_NAMED])}{more}"


def _columns(changes: tuple[Change, ...], width: int) -> tuple[int, int]:
    """Widths of rules and subjects. One very long name must not push all fingerprints away."""
    rule = max((len(change.rule) + 2 for change in changes), default=0)
    subject = max((len(wording.subject(change)) for change in changes), default=0)
    return rule, min(subject, max(20, width - rule - 22))


def _details(change: Change, view: View) -> Iterator[str]:
    cut = WHOLE if view.full else Cut(_MOST_LINES, view.width - len(_INDENT) - 2)
    room = cut.width if view.full else view.width - len(_INDENT)
    place, note = wording.place(change, room), clip(change.note, room)
    value = _short(change, room)
    joined = "   ".join(filter(None, (place, note or value)))
    if len(joined) <= room:
        yield from filter(None, [joined])
    else:
        yield from filter(None, (place, note or value))
    if value:
        yield from [value] if note and not _says_all(change) else ()
    elif not note or is_text(change) or ABSENT not in (change.before, change.after) or _says_more(change):
        # The note alone may describe a value that was added or removed.
        for row in rows(change if view.full else _brief(change), cut):
            yield _style(str(row), row.sign if row.sign in _COLOURS else "", view)


def _brief(change: Change) -> Change:
    """A change; if the subject is gone, only its description."""
    if change.path != "$" or change.after is not ABSENT or not isinstance(change.before, dict):
        return change
    known = {"description": change.before["description"]} if "description" in change.before else ABSENT
    return change._replace(before=known)


def _says_more(change: Change) -> bool:
    """True if an added or removed schema has more than its type and a title like its name."""
    schema = change.before if change.after is ABSENT else change.after
    if not isinstance(schema, dict):
        return False
    name = _WORDS.sub("", change.path.rpartition(".")[2]).lower()
    titled = _WORDS.sub("", str(schema.get("title", ""))).lower() == name
    return not schema.keys() <= ({"type", "title"} if titled else {"type"})


def _says_all(change: Change) -> bool:
    """True if the note or the subject already contains the values."""
    said = f"{change.subject} {change.note}"
    return all(
        (escape_disguised(side) if isinstance(side, str) else compact_text(side)) in said
        for side in (change.before, change.after)
    )


def _short(change: Change, room: int) -> str | None:
    value = one_line(change)
    return clip(value, room) if value is not None and len(value) <= min(room, _SHORT) else None


def report(comparison: Comparison, view: View) -> Iterator[str]:
    yield from listing(comparison, view)
    if comparison.ignored:
        yield f"{view.ignore_file}: {wording.count(len(comparison.ignored), 'change')} ignored"
    if comparison.unused:
        yield _style(wording.describe_unused_lines(comparison, view), "warn", view)
    if group := acceptable_group(comparison):
        several = group if not view.full else group[:1]
        which = f"Accept these {len(several)}" if several[1:] else "Accept one"
        line = line_to_accept(several)
        yield f"{which}:  echo {line} >> {shlex.quote(view.ignore_file)}"
    left_out = comparison.changes[len(comparison.at_least(view.level)) :]
    if left_out:
        levels = ", ".join(f"{number} {one}" for one in LEVELS if (number := sum(c.level == one for c in left_out)))
        yield f"Not shown: {levels}; to see them: --level info"
    if view.verdict:
        yield view.verdict


def _style(text: str, style: str, view: View) -> str:
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if view.colour and style else text
