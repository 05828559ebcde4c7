"""Before and after as few short lines: the differences, and one line of context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from ...model.characters import escape_disguised
from ...wire import jsontext
from ..changes import ABSENT, Change
from .wording import clip, count

_MOST = 200  # lines that are compared one by one; server text may be endless
_MOST_OF_DEFINITION = 2_000
_DEEPEST = 30  # levels of a definition that have lines of their own
_AROUND = 3  # equal lines around different ones
Sign = Literal["-", "+", " ", "…"]


class Cut(NamedTuple):
    """Limits of the displayed values."""

    lines: int
    width: int


WHOLE = Cut(1 << 30, 1 << 30)
PLENTY = Cut(10_000, 100_000)  # more than people write, but not endless


class DiffRow(NamedTuple):
    """One line: from the old side, the new side or both, or a note about omitted lines."""

    sign: Sign
    text: str

    def __str__(self) -> str:
        return f"{self.sign} {self.text}".rstrip()


def is_text(change: Change) -> bool:
    """Return whether the values are text for people: words or lines, on each side that has a value."""
    sides = [side for side in (change.before, change.after) if side is not ABSENT]
    return all(isinstance(side, str) for side in sides) and any(" " in side or "\n" in side for side in sides)


def one_line(change: Change) -> str | None:
    """`before → after`, if both exist, differ, and are not text."""
    if is_text(change) or ABSENT in (change.before, change.after) or change.before == change.after:
        return None
    if _is_noted(change):
        return None
    if _is_renamed(change):
        return f'"{escape_disguised(change.before)}" → "{escape_disguised(change.after)}"'
    return f"{jsontext.compact_text(change.before)} → {jsontext.compact_text(change.after)}"


def rows(change: Change, cut: Cut) -> list[DiffRow]:
    """Before and after: lines of text, or values as JSON."""
    if _is_noted(change):
        return []
    text = is_text(change)
    old, new = _trim(_lines(change.before, text), _lines(change.after, text))
    if _is_renamed(change):
        old, new = ([f'"{escape_disguised(side)}"'] for side in (change.before, change.after))
    found = list(_rows(old[:_MOST], new[:_MOST], cut))
    found += [DiffRow("-", clip(line, cut.width)) for line in old[_MOST:]]
    found += [DiffRow("+", clip(line, cut.width)) for line in new[_MOST:]]
    return found if len(found) <= cut.lines + 1 else _without_middle(found, cut.lines)


def definition_rows(before: Any, after: Any, width: int) -> list[DiffRow]:
    """Two definitions, a line for each member: the lines that differ, and a few around them. Empty if none does."""
    old, new = (list(_outline(side))[:_MOST_OF_DEFINITION] for side in (before, after))
    found: list[DiffRow] = []
    done = 0
    # Frequent lines may be paired less well: a text of one line again and again must not take long.
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_AROUND):
        if group[0][1] > done:
            found.append(DiffRow("…", count(group[0][1] - done, "equal line")))
        for tag, a, b, c, d in group:
            if tag == "equal":
                found += [DiffRow(" ", clip(line, width)) for line in old[a:b]]
            else:
                found += [DiffRow("-", clip(line, width)) for line in old[a:b]]
                found += [DiffRow("+", clip(line, width)) for line in new[c:d]]
        done = group[-1][2]
    if found and len(old) > done:
        found.append(DiffRow("…", count(len(old) - done, "equal line")))
    return found


def _outline(value: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """The members of an object, a line each, with the members of objects below them."""
    margin = "  " * depth
    for name, inner in value.items():
        if isinstance(inner, dict) and inner and depth < _DEEPEST:
            yield f"{margin}{name}:"
            yield from _outline(inner, depth + 1)
        else:
            yield from (f"{margin}{'  ' * (number > 0)}{line}" for number, line in enumerate(_member(name, inner)))


def _is_noted(change: Change) -> bool:
    """True for a boolean that a note describes in words."""
    return bool(change.note) and isinstance(change.before, bool) and isinstance(change.after, bool)


def _is_renamed(change: Change) -> bool:
    return change.rule == "tool-renamed" and isinstance(change.before, str) and isinstance(change.after, str)


def _without_middle(found: list[DiffRow], lines: int) -> list[DiffRow]:
    """The first and the last of many lines: the end may matter."""
    last = lines // 3
    more = sum(row.sign != "…" for row in found[lines - last : len(found) - last])
    return [*found[: lines - last], DiffRow("…", count(more, "more line")), *found[len(found) - last :]]


def _lines(side: Any, text: bool) -> list[str]:
    if side is ABSENT:
        return []
    if isinstance(side, dict) and side:  # added, removed or changed as a whole: member by member
        return [line for name, value in side.items() for line in _member(name, value)]
    return side.split("\n") if text else [jsontext.compact_text(side)]


def _member(name: str, value: Any) -> list[str]:
    return f"{name}: {value if isinstance(value, str) else jsontext.compact_text(value)}".split("\n")


def _common_length(old: Sequence[str], new: Sequence[str]) -> int:
    """The number of lines, or characters, that both begin with."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))


def _trim(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Cut the common beginning and end, except for one line of each."""
    head = _common_length(old, new)
    tail = _common_length(old[head:][::-1], new[head:][::-1])
    start, end = max(0, head - 1), max(0, tail - 1)
    return old[start : len(old) - end], new[start : len(new) - end]


def _rows(old: Sequence[str], new: Sequence[str], cut: Cut) -> Iterator[DiffRow]:
    groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(1)
    for number, group in enumerate(groups):
        if number:
            yield DiffRow("…", "")
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (DiffRow(" ", clip(line, cut.width)) for line in old[a:b])
            else:
                yield from _replaced_rows(old[a:b], new[c:d], cut)


def _replaced_rows(old: Sequence[str], new: Sequence[str], cut: Cut) -> Iterator[DiffRow]:
    """The old lines, then the new; if there is room for only some, some of both."""
    pairs = [_around(a, b, cut.width) for a, b in zip_longest(old, new, fillvalue="")]
    gone = [DiffRow("-", a) for a, _ in pairs[: len(old)]]
    come = [DiffRow("+", b) for _, b in pairs[: len(new)]]
    half = cut.lines // 2 if len(gone) + len(come) > cut.lines else len(pairs)
    yield from (*gone[:half], *come[:half], *gone[half:], *come[half:])


def _around(old: str, new: str, width: int) -> tuple[str, str]:
    """Two lines, cut so that the first difference is visible."""
    start = _common_length(old, new) - width // 3
    if max(len(old), len(new)) <= width or start <= 1:
        return clip(old, width), clip(new, width)
    return clip(f"…{old[start:]}", width), clip(f"…{new[start:]}", width)
