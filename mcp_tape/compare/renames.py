"""Renames: things that disappeared under one name and appeared under another, if the match is unambiguous."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")
Likeness = Callable[[str, T], Hashable]  # from a name and its thing; None: nothing to compare


def renames(old: Mapping[str, T], new: Mapping[str, T], likenesses: Sequence[Likeness[T]]) -> dict[str, str]:
    """New names by old ones. Two things are a match if no others are alike; the first likeness that decides wins."""
    gone, come = ({name: one[name] for name in one if name not in other} for one, other in ((old, new), (new, old)))
    found: dict[str, str] = {}
    for likeness in likenesses:
        before, after = ({name: likeness(name, thing) for name, thing in side.items()} for side in (gone, come))
        for name, known in before.items():
            alike = [other for other, its in after.items() if its == known]
            if known is not None and len(alike) == 1 and list(before.values()).count(known) == 1:
                del gone[name], come[alike[0]]
                found[name] = alike[0]
    return found


def spelling(name: str, _: object = None) -> Hashable:
    """A name without case and punctuation; None if nothing is left."""
    return re.sub(r"[\W_]", "", name).lower() or None
