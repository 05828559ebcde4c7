"""Where two values of the same shape differ. The only place that knows deepdiff, and only for what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...wire import jsontext
from ...wire.jsontext import Path
from ..changes import ABSENT, Difference

_DEEPEST = 40  # levels; deepdiff recurses several times for each
_LARGEST = 200_000  # bytes; deepdiff's time grows faster than what it compares
_MOST = 20  # differences of one value; the rest are counted
_SAME: dict[str, Any] = {}  # stands for an item that is equal; no leaf, or deepdiff would treat its list differently
_RULE = "call-structured-value-changed"

Same = Callable[[Path, Any, Any], bool]


def compare_values(old: Any, new: Any, root: Path, same: Same, rule: str = _RULE) -> Iterator[Difference]:
    """Each leaf that is not the same, up to a number."""
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
        yield Difference(rule, root, jsontext.compact(old), jsontext.compact(new), more)


def _is_leaf(value: Any) -> bool:
    return not isinstance(value, (dict, list))


def _is_too_large(value: Any) -> bool:
    return len(jsontext.canonical(value)) > _LARGEST or _depth(value) > _DEEPEST


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        inner = (item.values() if isinstance(item, dict) else item for item in level if not _is_leaf(item))
        level, depth = [one for items in inner for one in items], depth + 1
    return depth


def _leaves(old: Any, new: Any, root: Path) -> list[tuple[Path, Any, Any]]:
    from deepdiff import DeepDiff

    # Integers and floats are one type in JSON; nothing else of its leniency is wanted.
    before, after = _differing(old, new)
    tree = DeepDiff(before, after, view="tree", ignore_type_in_groups=[(int, float)], threshold_to_diff_deeper=0)
    found = {}
    for levels in tree.values():
        for level in levels:
            path = (*root, *level.path(output_format="list"))
            found[path] = (path, _value(level.t1), _value(level.t2))
    return sorted(found.values(), key=lambda leaf: tuple((isinstance(step, str), step) for step in leaf[0]))


def _differing(old: Any, new: Any) -> tuple[Any, Any]:
    """Both without what is equal: deepdiff takes its time even for that. Items of lists keep their places."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = {key: _differing(old[key], new[key]) for key in old.keys() & new if not _equal(old[key], new[key])}
        gone, come = ({key: one[key] for key in one.keys() - other} for one, other in ((old, new), (new, old)))
        before, after = ({key: pair[side] for key, pair in pairs.items()} for side in (0, 1))
        return gone | before, come | after
    if isinstance(old, list) and isinstance(new, list) and not all(map(_is_leaf, old + new)):
        items = [(_SAME, _SAME) if _equal(*pair) else _differing(*pair) for pair in zip(old, new, strict=False)]
        shared = len(items)
        return [pair[0] for pair in items] + old[shared:], [pair[1] for pair in items] + new[shared:]
    return old, new  # lists of texts and numbers too: what was put in between is told by deepdiff alone


def _equal(old: Any, new: Any) -> bool:
    return jsontext.canonical(old) == jsontext.canonical(new)


def _value(value: Any) -> Any:
    from deepdiff.helper import notpresent

    return ABSENT if value is notpresent else value
