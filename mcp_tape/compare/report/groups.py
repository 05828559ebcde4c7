"""Groups of equal changes to several subjects, reported together and accepted with one line."""

from __future__ import annotations

from collections.abc import Sequence

from ..changes import Change, comparable_bytes
from ..judging import Comparison
from . import wording
from .before_after import Cut, DiffRow, rows

_SEVERAL = 3  # the smallest group
ChangeGroup = tuple[Change, ...]


def group_changes(changes: Sequence[Change]) -> list[ChangeGroup]:
    """All changes in groups, each group at the place of its first change."""
    alike: dict[tuple[str | bytes, ...], list[Change]] = {}
    for change in changes:
        alike.setdefault(_key(change), []).append(change)
    groups: list[ChangeGroup] = []
    for change in changes:
        group = alike[_key(change)]
        if len(group) < _SEVERAL:
            groups.append((change,))
        elif group[0] is change:
            groups.append(tuple(group))
    return groups


def _key(change: Change) -> tuple[str | bytes, ...]:
    """The group's key. Changes of calls, and changes without a place, are never grouped, except removals."""
    if change.path == "$" and change.is_removal:
        return change.level, change.rule, change.subject.kind, change.note
    if change.subject.kind in ("call", "server") or change.path == "$":
        return (change.fingerprint,)
    keyword = change.path.rpartition(".")[2]
    return (
        change.level,
        change.rule,
        keyword,
        change.note,
        comparable_bytes(change.before),
        comparable_bytes(change.after),
    )


def group_title(group: ChangeGroup) -> str:
    """The subjects in a few words: `tool a and 21 more`."""
    return wording.subject(group[0]) + (f" and {len(group) - 1} more" if group[1:] else "")


def shared_rows(group: ChangeGroup, cut: Cut) -> list[DiffRow]:
    """Before and after, if the whole group shares them: not for removals, each of which removes something else."""
    return [] if are_gone(group) else rows(group[0], cut)


def are_gone(group: ChangeGroup) -> bool:
    """True if several things are gone."""
    return len(group) > 1 and group[0].is_removal


def acceptable_group(comparison: Comparison) -> ChangeGroup | None:
    """The changes for the example of how to accept some. None if the server failed, which cannot be accepted."""
    if not all(map(wording.may_be_accepted, comparison.changes)):
        return None
    return next(iter(group_changes(comparison.at_least("warn"))), None)


def line_to_accept(group: ChangeGroup) -> str:
    """The ignore-file line that accepts the whole group."""
    return " ".join(change.fingerprint for change in group)


def describe_others(group: ChangeGroup, width: int = 1000) -> list[str]:
    """The other changes of a group: subject, place if it differs (up to a width), and fingerprint."""
    first = group[0]
    return [
        " ".join(filter(None, (wording.subject(one), _place(one, first, width), one.fingerprint))) for one in group[1:]
    ]


def _place(change: Change, first: Change, width: int) -> str:
    return wording.place(change, width) if change.path != first.path else ""
