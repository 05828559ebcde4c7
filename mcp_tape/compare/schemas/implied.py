"""Limits that follow from the rest of a node. Writing out a limit that was already implied changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from ...wire import jsontext
from .limits import LIMITS, SchemaLimit, is_number, to_fraction
from .nodes import NUMBER, SchemaNode, by_value, type_of
from .property_names import fits, refuses_empty

_MEASURES: Mapping[str, Callable[[Any], Any]] = {
    "minimum": lambda value: value,
    "maximum": lambda value: value,
    "uniqueItems": lambda items: len(set(map(jsontext.canonical_bytes, items))) == len(items),
} | dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), len)


def effective(node: SchemaNode, name: str, written: SchemaLimit | None) -> SchemaLimit | None:
    """The strictest of the written limit and those that follow from values, patterns and members."""
    found = [limit for limit in (written, *_implied_limits(node, name)) if limit is not None]
    return max(found, key=lambda limit: limit.rank, default=None)


def _implied_limits(node: SchemaNode, name: str) -> Iterable[SchemaLimit | None]:
    sign, about = LIMITS[name]
    listed = [_MEASURES[name](value) for value in _values(node, about)]
    if listed:
        yield _limit(name, min(listed) if sign > 0 else max(listed))
    if name == "minLength" and any(map(refuses_empty, node.patterns)):
        yield _limit(name, 1)
    if name == "minProperties" and node.required:
        yield _limit(name, len(node.required))
    if name == "maxProperties" and node.is_closed:
        yield _limit(name, sum(node.at(member) is not False for member in node.properties))
    if name == "maxItems" and node.items is False:
        yield _limit(name, len(node.prefix))
    if name == "uniqueItems":
        most = effective(node, "maxItems", node.limits.get("maxItems"))
        if most is not None and most.rank[0] >= -1:
            yield _limit(name, True)


def _limit(name: str, value: Any) -> SchemaLimit:
    return SchemaLimit(name, value, (LIMITS[name][0] * value, False))


def _values(node: SchemaNode, about: frozenset[str]) -> list[Any]:
    """The values that a node lists, of some types."""
    listed = [value for value in (node.values or {}).values() if type_of(value) in about]
    return listed if not about & NUMBER or all(map(is_number, listed)) else []


def all_multiples(node: SchemaNode, of: Fraction) -> bool:
    """Return whether a node lists its numbers, and all of them are multiples."""
    listed = _values(node, NUMBER)
    return bool(listed) and all(to_fraction(value) % of == 0 for value in listed)


def all_fit(node: SchemaNode, pattern: str) -> bool:
    """Return whether a node lists its texts, and all of them certainly match a pattern."""
    listed = _values(node, frozenset({"string"}))
    return bool(listed) and all(fits(pattern, value) is True for value in listed)


def takes_names(node: SchemaNode, names: Iterable[str]) -> bool:
    """Return whether all names certainly fit the node of `propertyNames`."""
    return all(_takes_name(node, name) for name in names)


def _takes_name(node: SchemaNode, name: str) -> bool:
    if node.groups or node.conditions or node.opaque or node.formats:
        return False  # undecidable
    listed = node.values is None or by_value([name]).keys() <= node.values.keys()
    least, most = node.limits.get("minLength"), node.limits.get("maxLength")
    long = least is None or len(name) >= least.rank[0]
    short = most is None or len(name) <= -most.rank[0]
    fitting = all(fits(pattern, name) is True for pattern in node.patterns)
    return "string" in node.types and listed and long and short and fitting
