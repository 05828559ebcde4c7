"""The shape of a value: which members it has and of which types, whatever their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..jsontext import Path
from .bound import general
from .changes import ABSENT, Difference
from .rules import Level

_RULE = "call-structured-shape-changed"
Shape = dict[Path, Counter[str]]  # by path, with lists as one; how often each type was seen


def compare_shapes(old: Any, new: Any, root: Path) -> Iterator[Difference]:
    """Members lost and types changed; members that were only added."""
    before, after = shape(old), shape(new)
    for path, kinds in before.items():
        if path in after:
            yield from _types(kinds, after[path], (*root, *path))
        elif _is_lost(path, before, after):
            note = f"{_name(kinds)} is gone"
            yield Difference(_RULE, (*root, *path), _name(kinds), ABSENT, note)
    for path, kinds in after.items():
        if path not in before and path[-1:] != ("*",) and "object" in before.get(path[:-1], ()):
            yield Difference(_RULE, (*root, *path), ABSENT, _name(kinds), f"new: {_name(kinds)}", "info")


def _is_lost(path: Path, before: Shape, after: Shape) -> bool:
    """A member that was always there, of an object that still is."""
    holder = path[:-1]
    always = before[path].total() == before[holder]["object"]
    return path[-1:] != ("*",) and always and "object" in after.get(holder, ())


def _types(old: Counter[str], new: Counter[str], path: Path) -> Iterator[Difference]:
    come = set(new) - set(old)
    if come and set(old) != {"null"}:
        # That something can be null may have been so all the time.
        level: Level | None = "warn" if come == {"null"} else None
        yield Difference(_RULE, path, _name(old), _name(new), f"{_name(old)} → {_name(new)}", level)


def _name(kinds: Counter[str]) -> str:
    return " or ".join(sorted(kinds))


def shape(value: Any) -> Shape:
    found: Shape = {}
    stack: list[tuple[Path, Any]] = [((), value)]
    while stack:
        path, item = stack.pop()
        found.setdefault(path, Counter())[kind_of(item)] += 1
        if isinstance(item, dict):
            stack += [((*path, *general((key,))), inner) for key, inner in item.items()]
        elif isinstance(item, list):
            stack += [((*path, "*"), inner) for inner in item]
    return dict(sorted(found.items(), key=lambda entry: tuple(map(str, entry[0]))))


def kind_of(value: Any) -> str:
    """The type of a value as JSON has it; integers are numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
