"""Compare two JSON values: first their shapes (members and types, whatever the values), then leaf by leaf.

The only module that knows deepdiff.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from ...wire import jsontext
from ...wire.jsontext import Path
from ..changes import ABSENT, Difference
from ..minted.binding import find_made_up_texts, generalize_name
from ..rule_table import Level

SHAPE = "call-structured-shape-changed"
_VALUE = "call-structured-value-changed"
_DEEPEST = 40  # levels that are walked; deepdiff recurses several times for each
_NUMBERED = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{4,}(?![0-9A-Za-z])|\d+|\*")  # a part of a name that may be made up
_LARGEST = 200_000  # bytes; deepdiff's time grows faster than its input
_MOST = 20  # differences per value; the rest are counted

Shape = dict[Path, Counter[str]]  # by path, with list items merged; the count of each type
SameTest = Callable[[Path, Any, Any], bool]


def compare_shapes(old: Any, new: Any, root: Path) -> Iterator[Difference]:
    """Report lost members, changed types and added members."""
    before, after = shape(old), shape(new)
    keyed = _find_data_maps(before, after)
    for path, kinds in before.items():
        if path in after:
            yield from _compare_types(kinds, after[path], (*root, *path))
        elif _is_lost(path, before, after):
            level: Level | None = "info" if path[:-1] in keyed else None
            yield Difference(SHAPE, (*root, *path), _name(kinds), ABSENT, f"{_name(kinds)} is gone", level)
    for path, kinds in after.items():
        if path not in before and not _is_made_up(path) and "object" in before.get(path[:-1], ()):
            yield Difference(SHAPE, (*root, *path), ABSENT, _name(kinds), f"new: {_name(kinds)}", "info")


def restore_old_names(old: Any, new: Any, left: int = _DEEPEST) -> Any:
    """Return the new value with its made-up names replaced by the old side's."""
    if isinstance(old, dict) and isinstance(new, dict) and left:
        names = _match_names(old, new)
        named = {names.get(name, name): value for name, value in new.items()}
        return {name: restore_old_names(old.get(name), value, left - 1) for name, value in named.items()}
    if isinstance(old, list) and isinstance(new, list) and left:
        items = [restore_old_names(*pair, left - 1) for pair in zip(old, new, strict=False)]
        return items + new[len(items) :]
    return new


def _match_names(old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
    """Old names by new ones: each is matched with the next name of the same form whose value has the same shape."""
    free: dict[Any, list[str]] = defaultdict(list)
    for name in reversed([name for name in old if name not in new and find_made_up_texts(name)]):
        free[_form(name, old[name])].append(name)
    made_up = [name for name in new if free and name not in old and find_made_up_texts(name)]
    same = ((name, free[_form(name, new[name])]) for name in made_up)
    return {name: names.pop() for name, names in same if names}


def _form(name: str, value: Any) -> tuple[str, frozenset[tuple[Path, frozenset[str]]]]:
    return generalize_name(name), _types_in(shape(value))


def _types_in(found: Shape, root: Path = ()) -> frozenset[tuple[Path, frozenset[str]]]:
    start = len(root)
    return frozenset((path[start:], frozenset(kinds)) for path, kinds in found.items() if path[:start] == root)


def _find_data_maps(before: Shape, after: Shape) -> set[Path]:
    """The objects that are maps: their members are alike, and their names are data."""
    holders = {path[:-1] for path in before if path and path not in after and path[:-1] in after}
    return {holder for holder in holders if _is_keyed_by_data(holder, before, after)}


def _is_keyed_by_data(holder: Path, before: Shape, after: Shape) -> bool:
    own, others = ({str(path[-1]) for path in side if path and path[:-1] == holder} for side in (before, after))
    gone, come = own - others, others - own
    kinds = [_types_in(found, (*holder, name)) for found, names in ((before, gone), (after, come)) for name in names]
    if not gone or not come or len(set(kinds)) != 1:
        return False
    forms = {_NUMBERED.sub("#", name) for name in gone | come}
    # Words are names of members, unless none stayed and all of them name objects of the same shape.
    words = own.isdisjoint(others) and min(len(own), len(others)) > 1 and len(kinds[0]) > 1
    return words or (len(forms) == 1 and "#" in forms.pop())


def _is_made_up(path: Path) -> bool:
    return "*" in str(path[-1])


def _is_lost(path: Path, before: Shape, after: Shape) -> bool:
    """True if a member was always present, and the object around it still is."""
    holder = path[:-1]
    always = before[path].total() == before[holder]["object"]
    return not _is_made_up(path) and always and "object" in after.get(holder, ())


def _compare_types(old: Counter[str], new: Counter[str], path: Path) -> Iterator[Difference]:
    come = set(new) - set(old)
    if come and set(old) != {"null"}:
        # It may always have been nullable.
        level: Level | None = "warn" if come == {"null"} else None
        yield Difference(SHAPE, path, _name(old), _name(new), f"{_name(old)} → {_name(new)}", level)


def _name(kinds: Counter[str]) -> str:
    return " or ".join(sorted(kinds))


def shape(value: Any) -> Shape:
    """The types at every path of a value. Not recursive: a value may be deep."""
    found: Shape = {}
    stack: list[tuple[Path, Any]] = [((), value)]
    while stack:
        path, item = stack.pop()
        found.setdefault(path, Counter())[kind_of(item)] += 1
        if isinstance(item, dict):
            stack += [((*path, generalize_name(key)), inner) for key, inner in item.items()]
        elif isinstance(item, list):
            stack += [((*path, "*"), inner) for inner in item]
    return dict(sorted(found.items(), key=lambda entry: tuple(map(str, entry[0]))))


def kind_of(value: Any) -> str:
    """The JSON type of a value; integers are numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def compare_values(old: Any, new: Any, root: Path, same: SameTest, rule: str = _VALUE) -> Iterator[Difference]:
    """Report the leaves that differ, up to a limit. `same` accepts values that are not a change."""
    if same(root, old, new):
        return
    if _is_leaf(old) or _is_leaf(new) or _is_too_large(old) or _is_too_large(new):
        note = "" if _is_leaf(old) or _is_leaf(new) else "too large to be compared piece by piece"
        yield Difference(rule, root, old, new, note)
        return
    leaves = [leaf for leaf in _leaves(old, new, root) if not same(*leaf)]
    for path, before, after in leaves[:_MOST]:
        yield Difference(rule, path, before, after)
    if leaves[_MOST:]:
        more = f"and {len(leaves) - _MOST} more differences below"
        yield Difference(rule, root, jsontext.compact_text(old), jsontext.compact_text(new), more)


def compare_meta(rule: str, old: Any, new: Any, path: Path, same: SameTest) -> Iterator[Difference]:
    """Compare metadata. Its numbers are more often measurements than contracts."""
    if _is_equal(old, new):
        return
    for found in compare_values(old, new, path, same, rule):
        if any(kind_of(side) != "number" for side in (found.before, found.after) if side is not ABSENT):
            yield found


def _is_leaf(value: Any) -> bool:
    return not isinstance(value, (dict, list))


def _is_too_large(value: Any) -> bool:
    return len(jsontext.canonical_bytes(value)) > _LARGEST or _depth(value) > _DEEPEST


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        inner = (item.values() if isinstance(item, dict) else item for item in level if not _is_leaf(item))
        level, depth = [one for items in inner for one in items], depth + 1
    return depth


def _leaves(old: Any, new: Any, root: Path) -> list[tuple[Path, Any, Any]]:
    from deepdiff import DeepDiff
    from deepdiff.helper import notpresent

    # Integers and floats are one type in JSON; none of deepdiff's other leniency is wanted.
    tree = DeepDiff(
        old, new, view="tree", ignore_type_in_groups=[(int, float)], threshold_to_diff_deeper=0,
        custom_operators=[_EqualOperator()],
    )  # fmt: skip
    found = {}
    for levels in tree.values():
        for level in levels:
            path = (*root, *level.path(output_format="list"))
            one, other = (ABSENT if value is notpresent else value for value in (level.t1, level.t2))
            found[path] = (path, one, other)
    return sorted(found.values(), key=lambda leaf: tuple((isinstance(step, str), step) for step in leaf[0]))


class _EqualOperator:
    """An operator of deepdiff that skips equal objects and lists: leaf by leaf, they take ten times as long.

    https://zepworks.com/deepdiff/current/custom.html
    """

    def match(self, level: Any) -> bool:
        return not _is_leaf(level.t1) and not _is_leaf(level.t2)

    def give_up_diffing(self, level: Any, diff_instance: Any) -> bool:
        return _is_equal(level.t1, level.t2)


def _is_equal(old: Any, new: Any) -> bool:
    return jsontext.canonical_bytes(old) == jsontext.canonical_bytes(new)
