"""Reader: from a written JSON Schema to a node. Follows references, merges `allOf`, reduces alternatives.

Reads draft 4 to 2020-12. Unusable values are kept as opaque: equal or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...wire import jsontext
from ..changes import ABSENT
from .limits import UnusableKeyword, limits, multiple
from .nodes import (
    NULL,
    TYPES,
    Alternative,
    AlternativeGroup,
    Condition,
    Schema,
    SchemaNode,
    allow_null,
    by_value,
    drop_impossible,
    fold_patterns,
    open_both,
    parse_types,
)
from .property_names import says_nothing
from .references import Document

DEEPEST = 40  # nested references and allOf at one place
DEEPER = "deeper"  # marks a schema that is left for later
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NOTES = ("description", "title", "default", "x-mcp-header")


class SchemaReader:
    """Reads the schemas of one document. `spend` is called for each schema, and may raise."""

    def __init__(self, document: Document, spend: Callable[[int], None]) -> None:
        self._document = document
        self._spend = spend
        self._targets: dict[str, SchemaNode] = {}
        self._read: dict[bytes, SchemaNode] = {}

    def node(self, schema: Schema) -> SchemaNode:
        written = jsontext.canonical_bytes(schema)
        if written not in self._read:
            self._read[written] = self._node(schema, ())
        return self._read[written]

    def _node(self, schema: Schema, within: tuple[str, ...]) -> SchemaNode:
        """Read a schema; `within`: the references being followed."""
        self._spend(1)
        if isinstance(schema, bool):
            return SchemaNode() if schema else SchemaNode(types=frozenset())
        if not isinstance(schema, dict):
            return _opaque(("schema", schema))
        if len(within) > DEEPEST:
            return _opaque((DEEPER, schema))
        node = _own(schema)
        for keyword in _REFERENCES:
            if keyword in schema:
                node = open_both(node, _without_title(self._target(keyword, schema[keyword], within)))
        for part in _parts(schema, "allOf"):
            node = open_both(node, self._node(part, (*within, "")))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                node = open_both(node, _without_title(self._choice(keyword, schema, within)))
        if "not" in schema:
            node = self._exclude(schema["not"], node, within)
        return _read_contains(schema, node)

    def _exclude(self, refused: Schema, node: SchemaNode, within: tuple[str, ...]) -> SchemaNode:
        """`not`: whole types are excluded; excluding what was impossible anyway is not a condition."""
        types = (inner := self._node(refused, (*within, ""))).reach
        if not types & node.reach and not inner.opaque:
            return node
        is_whole = _bare(inner) == SchemaNode(types=types)
        return open_both(node, SchemaNode(types=TYPES - types) if is_whole else _opaque(("not", refused)))

    def _target(self, keyword: str, reference: Any, within: tuple[str, ...]) -> SchemaNode:
        target = self._document.find(reference)
        if target is ABSENT or reference in within:
            return _opaque((keyword, reference))
        if reference not in self._targets:
            self._targets[reference] = self._node(target, (*within, reference))
        return self._targets[reference]

    def _choice(self, keyword: str, schema: Mapping[str, Any], within: tuple[str, ...]) -> SchemaNode:
        """Reduce alternatives to types, values, null or a single one; otherwise make a group of them."""
        written = _parts(schema, keyword)
        if not written:
            return _opaque((keyword, schema[keyword]))
        found = self._alternatives(keyword, written, within)
        nulls = sum("null" in one.node.reach for one in found)
        null = nulls == 1 if keyword == "oneOf" else nulls > 0
        others = [one._replace(node=_not_null(one.node)) for one in found if one.node.reach - NULL]
        return (
            _one_of_types(keyword, others, null)
            or _one_of_values(keyword, others, null)
            or _only_one(others, null)
            or SchemaNode(groups=(AlternativeGroup(keyword, tuple(others), null, _key(keyword, written)),))
        )

    def _alternatives(self, keyword: str, written: list[Schema], within: tuple[str, ...]) -> list[Alternative]:
        found: list[Alternative] = []
        for index, one in enumerate(written):
            node = self._node(one, (*within, ""))
            inner = only_choice(node)
            if keyword == "anyOf" and inner is not None and inner.keyword == "anyOf":
                self._spend(len(inner.alternatives) // 4)
                nested = [part._replace(path=(keyword, index, *part.path)) for part in inner.alternatives]
                found += nested + [Alternative((keyword, index), None, SchemaNode(types=NULL))] * inner.null
            else:
                found.append(Alternative((keyword, index), one, node))
        return (
            found
            if keyword == "oneOf"
            else list({jsontext.canonical_bytes(one.written): one for one in found}.values())
        )


def _own(schema: Mapping[str, Any]) -> SchemaNode:
    fields: dict[str, Any] = {}
    opaque: dict[str, Any] = {k: schema[k] for k in ("unevaluatedItems",) if k in schema}
    for keyword, (field, read) in _READERS.items():
        if keyword in schema:
            value = read(schema[keyword])
            fields.update({field: value} if value is not None else {})
            opaque.update({keyword: schema[keyword]} if value is None else {})
    found: dict[str, Any] = {}
    for limit in limits(schema):
        if isinstance(limit, UnusableKeyword):
            opaque[limit.keyword] = limit.value
        elif limit[0] not in found or found[limit[0]].rank < limit[1].rank:
            found[limit[0]] = limit[1]
    for more in _MORE:
        fields.update(more(schema))
    if not isinstance(schema.get("allOf", []), list):
        opaque["allOf"] = schema["allOf"]
    node = SchemaNode(limits=found, opaque=_opaque(*opaque.items()).opaque, notes=_notes(schema), **fields)
    return drop_impossible(fold_patterns(node))


def _schemas(value: Any) -> dict[str, Schema] | None:
    return value if isinstance(value, dict) else None


def _names(value: Any) -> frozenset[str] | None:
    return frozenset(value) if isinstance(value, list) and all(isinstance(name, str) for name in value) else None


def _name_lists(value: Any) -> dict[str, frozenset[str]] | None:
    if not isinstance(value, dict) or any(_names(names) is None for names in value.values()):
        return None
    return {name: frozenset(names) for name, names in value.items() if names}


def _text(value: Any) -> frozenset[str] | None:
    return frozenset({value}) if isinstance(value, str) else None


def _pattern(value: Any) -> frozenset[str] | None:
    return frozenset() if isinstance(value, str) and says_nothing(value) else _text(value)


_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "type": ("types", parse_types),
    "enum": ("values", lambda value: by_value(value) if isinstance(value, list) else None),
    "multipleOf": ("multiple", multiple),
    "pattern": ("patterns", _pattern),
    "format": ("formats", _text),
    "properties": ("properties", _schemas),
    "required": ("required", _names),
    "patternProperties": ("patterned", _schemas),
    "additionalProperties": ("additional", lambda schema: schema),
    "propertyNames": ("names", lambda schema: schema),
    "prefixItems": ("prefix", lambda value: tuple(value) if isinstance(value, list) else None),
    "dependentRequired": ("dependent", _name_lists),
    "dependentSchemas": ("dependents", _schemas),
}


def _read_nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAPI's `nullable`, in schemas generated from OpenAPI:
    https://spec.openapis.org/oas/v3.0.3#schema-object
    """
    given = parse_types(schema["type"]) if "type" in schema and schema.get("nullable") is True else None
    return {"types": given | NULL} if given else {}


def _const(schema: Mapping[str, Any]) -> dict[str, Any]:
    if "const" not in schema:
        return {}
    value, listed = by_value([schema["const"]]), schema.get("enum")
    return {"values": value if not isinstance(listed, list) or value.keys() <= by_value(listed).keys() else {}}


def _items(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`items`. Before 2020-12 it could be a list, followed by `additionalItems`:
    https://json-schema.org/draft/2020-12/release-notes
    """
    items = schema.get("items", True)
    if isinstance(items, list):
        return {"prefix": tuple(items), "items": schema.get("additionalItems", True)}
    return {"items": items}


def _dependencies(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`dependencies`, which 2019-09 divided into `dependentRequired` and `dependentSchemas`:
    https://json-schema.org/draft/2019-09/release-notes
    """
    found = schema.get("dependencies")
    if not isinstance(found, dict):
        return {}
    names = {name: frozenset(value) for name, value in found.items() if _names(value)}
    return {"dependent": names, "dependents": {k: v for k, v in found.items() if isinstance(v, dict | bool)}}


def _condition(schema: Mapping[str, Any]) -> dict[str, Any]:
    if "if" not in schema or not schema.keys() & {"then", "else"}:
        return {}
    condition = Condition(schema["if"], schema.get("then", True), schema.get("else", True))
    return {"conditions": {_key(*condition): condition}}


_MORE = (_read_nullable, _const, _items, _dependencies, _condition)


def _opaque(*found: tuple[str, Any]) -> SchemaNode:
    return SchemaNode(opaque={_key(*entry): entry for entry in found})


def _notes(schema: Mapping[str, Any]) -> dict[str, Any]:
    notes = {keyword: schema[keyword] for keyword in _NOTES if keyword in schema}
    return notes | ({"name": schema["title"]} if isinstance(schema.get("title"), str) else {})


def _without_title(node: SchemaNode) -> SchemaNode:
    """A node without its title, which belongs only to the place where it is written."""
    return node._replace(notes={key: value for key, value in node.notes.items() if key != "title"})


def _read_contains(schema: Mapping[str, Any], node: SchemaNode) -> SchemaNode:
    """`contains` with its counts, and `unevaluatedProperties`."""
    if "contains" in schema:
        counts = {key: schema[key] for key in ("minContains", "maxContains") if key in schema}
        counted = ("counted contains", {"contains": schema["contains"], **counts})
        node = open_both(node, _opaque(counted if counts else ("contains", schema["contains"])))
    if "unevaluatedProperties" not in schema:
        return node
    rest = schema["unevaluatedProperties"]
    if node.additional is True and not (node.groups or node.conditions or node.dependents or node.patterned):
        return node._replace(additional=rest)
    return open_both(node, _opaque(("unevaluatedProperties", rest)))


def _parts(schema: Mapping[str, Any], keyword: str) -> list[Schema]:
    parts = schema.get(keyword)
    return parts if isinstance(parts, list) else []


def _not_null(node: SchemaNode) -> SchemaNode:
    return drop_impossible(
        node._replace(types=node.types - NULL, groups=tuple(g._replace(null=False) for g in node.groups))
    )


def _bare(node: SchemaNode) -> SchemaNode:
    return node._replace(notes={})


def only_choice(node: SchemaNode) -> AlternativeGroup | None:
    """The group of a node that consists of nothing else."""
    return node.groups[0] if len(node.groups) == 1 and _bare(node) == SchemaNode(groups=node.groups) else None


def _one_of_types(keyword: str, others: list[Alternative], null: bool) -> SchemaNode | None:
    """`anyOf: [{type: string}, {type: integer}]`, also with null."""
    found: frozenset[str] = NULL if null else frozenset()
    for one in others:
        if _bare(one.node) != SchemaNode(types=one.node.types) or (keyword == "oneOf" and found & one.node.types):
            return None
        found |= one.node.types
    return SchemaNode(types=found)


def _one_of_values(keyword: str, others: list[Alternative], null: bool) -> SchemaNode | None:
    """`oneOf: [{const: a, title: A}, {const: b, title: B}]`."""
    values: dict[bytes, Any] = by_value([None]) if null else {}
    for one in others:
        if one.node.values is None or _bare(one.node) != SchemaNode(types=one.node.types, values=one.node.values):
            return None
        if keyword == "oneOf" and values.keys() & one.node.values.keys():
            return None
        values |= one.node.values
    return drop_impossible(SchemaNode(values=values))


def _only_one(others: list[Alternative], null: bool) -> SchemaNode | None:
    if len(others) != 1:
        return None
    return allow_null(others[0].node) if null else others[0].node


def _key(*parts: Any) -> bytes:
    return b"\0".join(map(jsontext.canonical_bytes, parts))
