"""The report for a comment on a pull request.

Text from a cassette is always in code spans or blocks, where markup has no effect and mentions notify nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from ..changes import comparable_bytes
from ..judging import Comparison
from ..rule_table import Level
from . import wording
from .before_after import WHOLE, Cut, one_line
from .groups import ChangeGroup, acceptable_group, describe_others, group_changes, line_to_accept, shared_rows
from .wording import View, clip

_CUT = Cut(40, 300)  # to fit a comment
_LONGEST = 1000
_LARGEST = 20_000  # characters of one change
_SHORT = 80
_ROOM = 60_000  # GitHub accepts 65,536 characters
_HEADINGS: dict[Level, str] = {"error": "❌ {}", "warn": "⚠️ {}", "info": "ℹ️ {}"}
_TAME = re.compile(r"(?:[^\W_]|[ ,;()'→×-])+")  # cannot form markup, a link, a mention or a reference


def report(comparison: Comparison, view: View) -> list[str]:
    top, end = list(_top(comparison)), list(_end(comparison, view))
    groups = group_changes(comparison.changes)
    blocks = [(group[0].level, "\n".join(_block(group))) for group in groups]
    room = _ROOM - sum(map(len, top + end))
    fitting = _count_fitting([text for _, text in blocks], room)
    lines = [*top, *_levels(comparison, blocks[:fitting])]
    if more := sum(map(len, groups[fitting:])):
        lines += ["", f"… and {wording.count(more, 'change')} more than fit here."]
    return [*lines, *end]


def _top(comparison: Comparison) -> Iterator[str]:
    mark = "❌ " if comparison.unknown or comparison.count("error") else ""
    yield from (f"### {mark}{wording.headline(comparison)}", "")
    yield f"{_code(wording.versions(comparison))} ({wording.scope(comparison)})"
    for entry in comparison.unknown:
        yield from ("", f"> ⚠️ **UNKNOWN** {_sentence(entry.what)}: {_sentence(entry.why)}")


def _count_fitting(blocks: list[str], room: int) -> int:
    """The number of blocks that fit; the worst come first."""
    for number, text in enumerate(blocks):
        room -= len(text) + 40  # and its heading
        if room < 0:
            return number
    return len(blocks)


def _levels(comparison: Comparison, blocks: list[tuple[Level, str]]) -> Iterator[str]:
    for level, group in groupby(blocks, key=lambda block: block[0]):
        yield from ("", f"#### {_HEADINGS[level].format(f'{comparison.count(level)} {level}')}", "")
        yield from (text for _, text in group)


def _block(group: ChangeGroup) -> Iterator[str]:
    change = group[0]
    yield f"- **{change.rule}** {_code(wording.subject(change))} · `{change.fingerprint}`{wording.times(change)}"
    said = [_code(place) if (place := wording.place(change, _LONGEST)) else "", _sentence(change.note)]
    value = one_line(change)
    short = value is not None and len(value) <= _SHORT
    where = " — ".join(filter(None, [*said, _code(wording.visible(value)) if short and value else ""]))
    if where:
        yield f"  <br>{where}"
    if not short and comparable_bytes(change.before) != comparable_bytes(change.after):
        lines = [str(row) for row in shared_rows(group, WHOLE)]
        if sum(map(len, lines)) > _LARGEST:
            lines = [str(row) for row in shared_rows(group, _CUT)]
        yield from _fold("before and after", "diff", lines) if lines else ()
    if same := describe_others(group):
        yield from _fold(f"the same in {len(same)} more", "text", same)


def _fold(summary: str, kind: str, lines: list[str]) -> Iterator[str]:
    fence = "`" * max(3, 1 + _longest_run("\n".join(lines)))
    folded = (f"<details><summary>{summary}</summary>", "", f"{fence}{kind}", *lines, fence, "", "</details>")
    yield from (f"  {line}".rstrip() for line in folded)


def _end(comparison: Comparison, view: View) -> Iterator[str]:
    if comparison.ignored:
        yield from ("", f"{_code(view.ignore_file)}: {wording.count(len(comparison.ignored), 'change')} ignored")
    for line in comparison.unused:
        unused = _code(clip(line, _LONGEST))
        yield from ("", f"Unused here: {unused} — remove this line if no other cassette needs it")
    if group := acceptable_group(comparison):
        which = f"Accept these {len(group)}" if group[1:] else "Accept one"
        yield from ("", f"{which}: `echo {line_to_accept(group)} >> {wording.visible(view.ignore_file)}`")


def _sentence(text: str) -> str:
    """A sentence, unchanged if it cannot be taken for markup."""
    short = clip(text, _LONGEST)
    return short if not short or _TAME.fullmatch(short) else _code(short)


def _code(text: str) -> str:
    """A code span that its content cannot end."""
    fence = "`" * (1 + _longest_run(text))
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
