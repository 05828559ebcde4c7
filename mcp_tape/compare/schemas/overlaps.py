"""Overlaps: values that fit two alternatives at once, which `oneOf` refuses; and members that distinguish them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

from ...wire import jsontext
from ...wire.jsontext import Path
from ..changes import ABSENT
from .facts import SchemaFact, narrows, widens
from .limits import LIMITS, is_above
from .nodes import Alternative, AlternativeChoice, Schema, SchemaNode, merge_schemas
from .walk import SchemaWalk

_DEEPEST = 3  # nested members that may distinguish two objects
_RANGES = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
_Pairs = list[tuple[int, ...]]
_Read = Callable[[Schema], SchemaNode]
Tags = Mapping[str, set[bytes]]


def overlaps(
    walk: SchemaWalk,
    old: AlternativeChoice,
    new: AlternativeChoice,
    pairs: dict[int, int],
    found: dict[int, list[SchemaFact]],
    path: Path,
) -> Iterator[SchemaFact]:
    """Report new and lost overlaps of alternatives. Whether two overlap is not always certain."""
    walk.spend((len(old.alternatives) ** 2 + len(new.alternatives) ** 2) // 4)  # each is compared with each
    mine, yours = overlapping_pairs(old, walk.old_node), overlapping_pairs(new, walk.new_node)
    wider = {i for i, facts in found.items() if widens(facts)}
    narrower = {pairs[i] for i, facts in found.items() if narrows(facts)}
    for one in _grown_overlaps(yours, mine, {j: i for i, j in pairs.items()}, wider):
        written, said = [new.alternatives[j].written for j in one], _overlap_note(new, one, "overlap", "may overlap")
        yield SchemaFact("one-of-lost", "narrower", (*path, "oneOf"), ABSENT, written, *said)
    for one in _grown_overlaps(mine, yours, pairs, narrower):
        written, said = (
            [old.alternatives[i].written for i in one],
            _overlap_note(old, one, "overlapped", "may have overlapped"),
        )
        yield SchemaFact("one-of-gained", "wider", (*path, "oneOf"), written, ABSENT, *said)


def _overlap_note(choice: AlternativeChoice, pair: tuple[int, ...], do: str, may: str) -> tuple[str, bool]:
    """The note on an overlap, and whether it is in doubt."""
    sure = _surely(*(choice.alternatives[index].node for index in pair))
    return f"alternatives {do if sure else may}, and a value that fits two fits none", not sure


def _grown_overlaps(overlaps: _Pairs, others: _Pairs, partner: dict[int, int], grown: set[int]) -> _Pairs:
    """Overlaps that are new or grew on one side, without those of two unpaired alternatives."""
    found = []
    for one in overlaps:
        there = tuple(sorted(partner[index] for index in one if index in partner))
        if there and (there not in others or grown.intersection(there)):
            found.append(one)
    return found


def overlapping_pairs(choice: AlternativeChoice, read: _Read) -> _Pairs:
    """Pairs of `oneOf` alternatives that are not certainly disjoint."""
    nodes = [one.node for one in choice.alternatives] if choice.keyword == "oneOf" else []
    return [pair for pair in combinations(range(len(nodes)), 2) if not _are_apart(nodes[pair[0]], nodes[pair[1]], read)]


def _surely(one: SchemaNode, other: SchemaNode) -> bool:
    """True if some value obviously fits both: one has no conditions, or both list a value."""
    bare = any(node._replace(notes={}) == SchemaNode(types=node.types) for node in (one, other))
    return bare or (one.values is not None and other.values is not None)


def _are_apart(one: SchemaNode, other: SchemaNode, read: _Read, left: int = _DEEPEST) -> bool:
    """True if no value fits both, assuming that only members named in the schema are sent."""
    common = one.reach & other.reach
    if one.values is not None and other.values is not None:
        return not one.values.keys() & other.values.keys()
    if all(_out_of_range(one, other, kind) for kind in common):
        return True
    if common != {"object"}:
        return False
    return (_asks_more(one, other) and _asks_more(other, one)) or _are_members_apart(one, other, read, left)


def _out_of_range(one: SchemaNode, other: SchemaNode, kind: str) -> bool:
    """True if the minimum of one is above the maximum of the other."""
    ranges = [(low, high) for low, high in _RANGES if kind in LIMITS[low][1]]
    sides = ((one.limits, other.limits), (other.limits, one.limits))
    return any(is_above(a.get(low), b.get(high), kind) for a, b in sides for low, high in ranges)


def _asks_more(one: SchemaNode, other: SchemaNode) -> bool:
    """True if one requires a member that the other does not name."""
    return any(other.speaks_of(name) is False for name in one.required)


def _are_members_apart(one: SchemaNode, other: SchemaNode, read: _Read, left: int) -> bool:
    return left > 0 and any(
        _are_apart(read(one.at(name)), read(other.at(name)), read, left - 1)
        for name in sorted(one.required | other.required)
    )


def divide(choice: AlternativeChoice, other: AlternativeChoice, read: _Read, read_other: _Read) -> AlternativeChoice:
    """Divide alternatives by the values of a member that distinguishes the other side's alternatives.

    `{kind: cat or dog}` becomes `{kind: cat}` or `{kind: dog}`.
    """
    listed = [_listed_members(one.node, read_other) for one in other.alternatives]
    found: list[Alternative] = []
    for one in choice.alternatives:
        found += next(
            (
                parts
                for name in sorted(_listed_members(one.node, read))
                if len(parts := _parts(one, name, listed, read)) > 1
            ),
            [one],
        )
    return choice._replace(alternatives=tuple(found))


def _parts(one: Alternative, name: str, others: list[dict[str, Mapping[bytes, Any]]], read: _Read) -> list[Alternative]:
    """The parts of an alternative by the values of a member, grouped as in the others; the rest is one part."""
    left = dict(_listed_members(one.node, read)[name])
    found: list[Alternative] = []
    apart = [other[name] for other in others if name in other and left.keys() & other[name].keys()]
    if len(apart) < 2:
        return [one]
    for values in (*apart, left):
        mine = [left.pop(key) for key in list(left) if key in values]
        if mine:
            schema = merge_schemas(one.node.properties[name], {"enum": mine})
            notes = {"name": f"{name} {jsontext.compact_text(mine)[1:-1]}", **one.node.notes}
            node = one.node._replace(properties={**one.node.properties, name: schema}, notes=notes)
            found.append(Alternative(one.path, {"properties": {name: {"enum": mine}}}, node))
    return found


def _listed_members(node: SchemaNode, read: _Read) -> dict[str, Mapping[bytes, Any]]:
    """Members with an enumeration of values, required or not."""
    found = {name: read(schema).values for name, schema in node.properties.items()}
    return {name: values for name, values in found.items() if values}


def tags(node: SchemaNode, read: _Read) -> Tags:
    """Required members with an enumeration of values: discriminators."""
    found = {name: read(node.properties[name]).values for name in sorted(node.required & node.properties.keys())}
    return {name: set(values) for name, values in found.items() if values}


def are_tagged_apart(one: Tags, other: Tags) -> bool:
    """Return whether a discriminator has disjoint values in the two."""
    return any(not one[name] & other[name] for name in one.keys() & other.keys())
