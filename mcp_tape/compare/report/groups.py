"""Equal changes of several subjects as one group: what is told once is read."""

from __future__ import annotations

from collections.abc import Sequence

from ..changes import Change, canonical
from . import wording

_SEVERAL = 3  # from which on they are one group
Group = tuple[Change, ...]


def grouped(changes: Sequence[Change]) -> list[Group]:
    """All changes in groups, each group at the place of its first."""
    alike: dict[tuple[str | bytes, ...], list[Change]] = {}
    for change in changes:
        alike.setdefault(_key(change), []).append(change)
    groups: list[Group] = []
    for change in changes:
        group = alike[_key(change)]
        if len(group) < _SEVERAL:
            groups.append((change,))
        elif group[0] is change:
            groups.append(tuple(group))
    return groups


def _key(change: Change) -> tuple[str | bytes, ...]:
    """What is the same for all of a group; calls are each of their own, and so is what has no place."""
    if change.subject.kind in ("call", "server") or change.path == "$":
        return (change.fingerprint,)
    keyword = change.path.rpartition(".")[2]
    return change.level, change.rule, keyword, change.note, canonical(change.before), canonical(change.after)


def title(group: Group) -> str:
    """The subjects in a few words: `tool a and 21 more`."""
    return wording.subject(group[0]) + (f" and {len(group) - 1} more" if group[1:] else "")


def others(group: Group, width: int = 1000) -> list[str]:
    """The other changes of a group: subject, place where that differs, up to a width, and fingerprint."""
    first = group[0]
    return [
        " ".join(filter(None, (wording.subject(one), _place(one, first, width), one.fingerprint))) for one in group[1:]
    ]


def _place(change: Change, first: Change, width: int) -> str:
    return wording.place(change, width) if change.path != first.path else ""
