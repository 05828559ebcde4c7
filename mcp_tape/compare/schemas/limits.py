"""Limits of a JSON Schema: ranges, lengths, counts and multiples, and the stricter of two.

https://json-schema.org/draft/2020-12/json-schema-validation, section 6
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

Number = int | float

# For each keyword: the sign of a stricter value, and the types that it applies to.
LIMITS: dict[str, tuple[int, frozenset[str]]] = {
    "minimum": (1, frozenset({"integer", "fraction"})),
    "maximum": (-1, frozenset({"integer", "fraction"})),
    "minLength": (1, frozenset({"string"})),
    "maxLength": (-1, frozenset({"string"})),
    "minItems": (1, frozenset({"array"})),
    "maxItems": (-1, frozenset({"array"})),
    "minProperties": (1, frozenset({"object"})),
    "maxProperties": (-1, frozenset({"object"})),
    "uniqueItems": (1, frozenset({"array"})),
}
EXACT = 2**53 - 1
_EXCLUSIVE = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}


class SchemaLimit(NamedTuple):
    """A limit as written, and its rank: of two limits, the one with the greater rank is stricter."""

    keyword: str
    value: Any
    rank: tuple[Number, bool]


class UnusableKeyword(NamedTuple):
    """A keyword with a value of a wrong type."""

    keyword: str
    value: Any


def is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def limits(schema: Mapping[str, Any]) -> Iterator[tuple[str, SchemaLimit] | UnusableKeyword]:
    """Read the limits of a schema, except those without effect."""
    for name, (sign, _) in LIMITS.items():
        if name == "uniqueItems":
            yield from _unique(schema)
            continue
        exclusive = _EXCLUSIVE.get(name)
        other = schema.get(exclusive) if exclusive else None
        if name in schema:
            keyword = exclusive if exclusive and other is True else name  # draft 4: true
            yield from _limit(name, keyword, schema[name], sign, keyword == exclusive)
        if exclusive and other is not None and not isinstance(other, bool):
            yield from _limit(name, exclusive, other, sign, True)


def _limit(
    name: str, keyword: str, value: Any, sign: int, strict: bool
) -> Iterator[tuple[str, SchemaLimit] | UnusableKeyword]:
    if not is_number(value):
        yield UnusableKeyword(keyword, value)
    elif name in _EXCLUSIVE or sign < 0 or value > 0:  # nothing is shorter than 0
        yield name, SchemaLimit(keyword, value, (sign * value, strict))


def _unique(schema: Mapping[str, Any]) -> Iterator[tuple[str, SchemaLimit] | UnusableKeyword]:
    value = schema.get("uniqueItems", False)
    if value is True:
        yield "uniqueItems", SchemaLimit("uniqueItems", True, (1, False))
    elif value is not False:
        yield UnusableKeyword("uniqueItems", value)


def merge_limits(one: Mapping[str, SchemaLimit], other: Mapping[str, SchemaLimit]) -> dict[str, SchemaLimit]:
    """Merge two sets of limits that must both hold."""
    merged = dict(one)
    for name, limit in other.items():
        merged[name] = max(merged.get(name, limit), limit, key=lambda item: item.rank)
    return merged


def to_whole(limit: SchemaLimit) -> SchemaLimit:
    """Convert a limit to one for integers: more than 0 is at least 1."""
    value, strict = limit.rank
    return limit._replace(rank=(math.floor(value) + 1 if strict else math.ceil(value), False))


def is_above(low: SchemaLimit | None, high: SchemaLimit | None, kind: str) -> bool:
    """Return whether no value of this type lies between two limits."""
    if low is None or high is None:
        return False
    if kind == "integer":
        low, high = to_whole(low), to_whole(high)
    least, most = low.rank[0], -high.rank[0]
    return least > most or (least == most and (low.rank[1] or high.rank[1]))


def is_of_numbers(limit: SchemaLimit) -> bool:
    """Return whether a limit is the range of exact integers, which some libraries always set.

    https://www.rfc-editor.org/rfc/rfc8259#section-6
    """
    return limit.keyword in ("minimum", "maximum") and limit.rank[0] <= -EXACT


def multiple(value: Any) -> Fraction | None:
    """The value of `multipleOf`, exact; None if it is not a positive number."""
    if not is_number(value) or value <= 0:
        return None
    return to_fraction(value)


def to_fraction(value: Number) -> Fraction:
    return Fraction(repr(value) if isinstance(value, float) else value)  # 0.1 as written


def common_multiple(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    if one is None or other is None:
        return one or other
    above = math.lcm(one.numerator * other.denominator, other.numerator * one.denominator)
    return Fraction(above, one.denominator * other.denominator)


def multiple_value(value: Fraction) -> Number:
    try:
        return int(value) if value.denominator == 1 else float(value)
    except OverflowError:
        return math.inf
