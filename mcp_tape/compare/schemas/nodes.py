"""Nodes: the assertions of a JSON Schema at one place, in a normal form. Equivalent ways to write them give one node.

A node keeps the schemas below it as written. Two nodes that must both hold merge into one (`both`), so `$ref` and
`allOf` leave no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ...wire import jsontext
from ...wire.jsontext import Path
from ..changes import ABSENT
from .limits import SchemaLimit, common_multiple, merge_limits
from .property_names import compile_pattern, fits, fits_any

Schema = Any  # as written: an object, a boolean, or an invalid schema

# An integer is a number too, so numbers that are not integers have a name of their own.
TYPES = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
NUMBER = frozenset({"integer", "fraction"})
NULL = frozenset({"null"})
_FEW = frozenset({"null", "boolean"})  # all their values can be listed
_MOST_PATTERNS = 4  # to match against names: each pair may take long


class Alternative(NamedTuple):
    """One of several schemas: its path below the node, its source and its node."""

    path: Path
    written: Schema
    node: SchemaNode


class AlternativeGroup(NamedTuple):
    """Alternatives of which one must hold. `null`: null is allowed as well."""

    keyword: str  # anyOf or oneOf
    alternatives: tuple[Alternative, ...]
    null: bool
    key: bytes


class AlternativeChoice(NamedTuple):
    """Alternatives to compare with others."""

    keyword: str  # empty if there was no choice originally
    alternatives: tuple[Alternative, ...]


class Condition(NamedTuple):
    """`if`, `then`, `else`."""

    when: Schema
    then: Schema
    otherwise: Schema


class SchemaNode(NamedTuple):
    """All assertions at one place."""

    types: frozenset[str] = TYPES
    values: Mapping[bytes, Any] | None = None  # enum and const, by their canonical form
    limits: Mapping[str, SchemaLimit] = {}
    multiple: Fraction | None = None
    patterns: frozenset[str] = frozenset()
    formats: frozenset[str] = frozenset()
    properties: Mapping[str, Schema] = {}
    required: frozenset[str] = frozenset()
    patterned: Mapping[str, Schema] = {}  # patternProperties
    additional: Schema = True
    names: Schema = True  # propertyNames
    prefix: tuple[Schema, ...] = ()
    items: Schema = True
    dependent: Mapping[str, frozenset[str]] = {}  # dependentRequired
    dependents: Mapping[str, Schema] = {}  # dependentSchemas
    conditions: Mapping[bytes, Condition] = {}
    groups: tuple[AlternativeGroup, ...] = ()
    opaque: Mapping[bytes, tuple[str, Any]] = {}  # compared only for equality: keyword and value
    notes: Mapping[str, Any] = {}  # annotations

    @property
    def reach(self) -> frozenset[str]:
        """The types that are possible, given the alternatives."""
        types = self.types
        for group in self.groups:
            inner = frozenset[str]().union(*(alternative.node.reach for alternative in group.alternatives))
            types &= inner | NULL if group.null else inner - NULL
        return types

    @property
    def is_closed(self) -> bool:
        """True if an object allows no members except those that the schema names."""
        return self.additional is False and not self.patterned

    @property
    def declared_names(self) -> tuple[str, ...]:
        """Names of members that the schema names, in order."""
        return (*self.properties, *sorted(self.required - self.properties.keys()))

    def at(self, name: str) -> Schema:
        """The schema of a member; open if undecidable."""
        if not self.patterned:
            return self.properties.get(name, self.additional)
        fitting = [self.patterned[pattern] for pattern in self.patterned if self._fits(pattern, name)]
        if name in self.properties or fitting:
            return merge_schemas(self.properties.get(name, True), *fitting)
        return self.additional if self.speaks_of(name) is False else True

    def speaks_of(self, name: str) -> bool | None:
        """Return whether a member is known, by name or by a pattern; None if undecidable."""
        if name in self.properties or name in self.required:
            return True
        found = {self._fits(pattern, name) for pattern, schema in self.patterned.items() if schema is not False}
        return True if True in found else None if None in found else False

    def tries(self, pattern: str) -> bool:
        return len(self.patterned) <= _MOST_PATTERNS and compile_pattern(pattern) is not None

    def _fits(self, pattern: str, name: str) -> bool | None:
        return fits(pattern, name) if self.tries(pattern) else None

    def item(self, index: int) -> Schema:
        return self.prefix[index] if index < len(self.prefix) else self.items


def open_both(one: SchemaNode, other: SchemaNode) -> SchemaNode:
    """Merge two nodes that must both hold; annotations of the first win."""
    notes = {**other.notes, **one.notes}
    for this, that in ((one, other), (other, one)):
        if this._replace(notes={}) == SchemaNode():
            return that._replace(notes=notes)
    properties = dict.fromkeys((*one.properties, *other.properties))
    merged = SchemaNode(
        types=one.types & other.types,
        values=_common(one.values, other.values),
        limits=merge_limits(one.limits, other.limits),
        multiple=common_multiple(one.multiple, other.multiple),
        patterns=one.patterns | other.patterns,
        formats=one.formats | other.formats,
        properties={name: merge_schemas(one.at(name), other.at(name)) for name in properties},
        required=one.required | other.required,
        patterned=_merge_patterns(one, other),
        additional=merge_schemas(one.additional, other.additional),
        names=merge_schemas(one.names, other.names),
        prefix=tuple(merge_schemas(one.item(n), other.item(n)) for n in range(max(len(one.prefix), len(other.prefix)))),
        items=merge_schemas(one.items, other.items),
        dependent={
            name: one.dependent.get(name, frozenset()) | other.dependent.get(name, frozenset())
            for name in dict.fromkeys((*one.dependent, *other.dependent))
        },
        dependents=_each(one.dependents, other.dependents),
        conditions={**one.conditions, **other.conditions},
        groups=tuple({group.key: group for group in (*one.groups, *other.groups)}.values()),
        opaque={**one.opaque, **other.opaque},
        notes=notes,
    )
    return drop_impossible(merged)


def drop_impossible(node: SchemaNode) -> SchemaNode:
    """Drop values of excluded types, and types without a value. A type whose values are all listed is just named."""
    if "object" in node.types and any(node.at(name) is False for name in node.required):
        node = node._replace(types=node.types - {"object"})  # it requires a member that it forbids
    if node.values is None:
        return node
    values = {key: value for key, value in node.values.items() if type_of(value) in node.types}
    types = frozenset(type_of(value) for value in values.values())
    every = types and types <= _FEW and (values.keys() >= BOOLEANS or "boolean" not in types)
    return node._replace(values=None if every else values, types=types)


def fold_patterns(node: SchemaNode) -> SchemaNode:
    """Fold patterns that match every name into the other members: none is additional then."""
    every = [schema for pattern, schema in node.patterned.items() if fits_any(pattern)]
    if not every:
        return node
    return node._replace(
        properties={name: merge_schemas(schema, *every) for name, schema in node.properties.items()},
        patterned={name: merge_schemas(node.patterned[name], *every) for name in node.patterned if not fits_any(name)},
        additional=merge_schemas(*every),
    )


def merge_schemas(*schemas: Schema) -> Schema:
    """A schema for several that must all hold."""
    parts: dict[bytes, Schema] = {}
    for schema in schemas:
        inner = schema["allOf"] if isinstance(schema, dict) and schema.keys() == {"allOf"} else [schema]
        for part in inner if isinstance(inner, list) else [schema]:
            if part is False:
                return False
            if not is_open(part):
                parts[jsontext.canonical_bytes(part)] = part
    return {"allOf": list(parts.values())} if len(parts) > 1 else next(iter(parts.values()), True)


def is_open(schema: Schema) -> bool:
    """Return whether a schema obviously allows everything."""
    return schema is True or schema == {}


def allow_null(node: SchemaNode) -> SchemaNode | None:
    """Allow null as well; None if a single node cannot express that."""
    if node.opaque or node.conditions:
        return None
    return node._replace(
        types=node.types | NULL,
        values=node.values if node.values is None else {**node.values, **by_value([None])},
        groups=tuple(group._replace(null=True) for group in node.groups),
    )


def by_value(values: Iterable[Any]) -> dict[bytes, Any]:
    """Values by their canonical form: 1 and 1.0 are equal."""
    return {
        jsontext.canonical_bytes(int(value) if isinstance(value, float) and value.is_integer() else value): value
        for value in values
    }


BOOLEANS = by_value([True, False]).keys()


def type_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "integer" if value == value // 1 else "fraction"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def parse_types(value: Any) -> frozenset[str] | None:
    """Parse the value of `type`; None if it is invalid."""
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in TYPES - {"fraction"} | {"number"} for name in names):
        return None
    return frozenset[str]().union(*(NUMBER if name == "number" else {name} for name in names))


def type_names(types: frozenset[str]) -> list[str]:
    """Types as a schema names them."""
    if types >= NUMBER:
        types = types - NUMBER | {"number"}
    return sorted((name.replace("fraction", "number") for name in types), key=lambda name: (name == "null", name))


def type_value(types: frozenset[str]) -> Any:
    """Types as the value of `type`; absent if there is none."""
    names = type_names(types)
    return ABSENT if types == TYPES else names[0] if len(names) == 1 else names


def describe(node: SchemaNode) -> str:
    """Describe in a few words what a node allows."""
    if node.notes.get("name") and node.types <= {"object"}:
        return str(node.notes["name"])
    return "anything" if node.reach == TYPES else " or ".join(type_names(node.reach)) or "nothing"


def _common(one: Mapping[bytes, Any] | None, other: Mapping[bytes, Any] | None) -> Mapping[bytes, Any] | None:
    if one is None or other is None:
        return other if one is None else one
    return {key: value for key, value in one.items() if key in other}


def _merge_patterns(one: SchemaNode, other: SchemaNode) -> dict[str, Schema]:
    """Merge `patternProperties`. If the other has no patterns at all, matching members are additional there."""
    mine, yours = (True if node.patterned else node.additional for node in (one, other))
    names = dict.fromkeys((*one.patterned, *other.patterned))
    return {name: merge_schemas(one.patterned.get(name, mine), other.patterned.get(name, yours)) for name in names}


def _each(one: Mapping[str, Schema], other: Mapping[str, Schema]) -> dict[str, Schema]:
    return {name: merge_schemas(one.get(name, True), other.get(name, True)) for name in dict.fromkeys((*one, *other))}
