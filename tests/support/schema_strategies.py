"""Strategies for JSON Schemas, for other ways to write the same one, for changes, and for values that fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

Schema = Any
NAMES = ("a", "b", "c")
# Values to choose from; the validator decides which of them fit.
POOL: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 50, 100, -1, -5, 0.5, 1.5, 2.5, 7.25),
    *("", "a", "b", "c", "ab", "abc", "abcd", "x1", "1", "12", "12345", "z" * 8, "z" * 12),
)


@lru_cache(maxsize=4096)
def _validator(text: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(text))


def fits(schema: Schema, value: Any) -> bool:
    return bool(_validator(json.dumps(schema)).is_valid(value))


@lru_cache(maxsize=4096)
def _fitting(text: str) -> tuple[Any, ...]:
    """The values to choose from for a schema."""
    return tuple(filter(_validator(text).is_valid, POOL)) or POOL


# Schemas


def _some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the keywords."""
    return st.fixed_dictionaries({}, optional=keywords)


def _with(constant: dict[str, Any], more: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return more.map(lambda extra: {**constant, **extra})


PATTERNS = st.sampled_from(["^a", "^[0-9]+$", "b"])
# The last one is not tried on names: it would be too dangerous.
NAME_PATTERNS = st.sampled_from(["^a", "[bc]", "^.*$", "^(a|b)*$"])
LEAVES: st.SearchStrategy[Schema] = st.one_of(
    _with({"type": "string"}, _some(minLength=st.integers(0, 2), maxLength=st.integers(1, 8), pattern=PATTERNS)),
    _with(
        {"type": "integer"},
        _some(minimum=st.integers(0, 3), maximum=st.integers(5, 20), multipleOf=st.sampled_from([1, 2, 3, 5])),
    ),
    _with({"type": "number"}, _some(exclusiveMinimum=st.integers(0, 3), maximum=st.integers(5, 20))),
    st.sampled_from(
        [{"type": "boolean"}, {"type": "null"}, {"type": ["string", "integer"]}, {"enum": [False, True]}, {}]
    ),
    st.lists(st.sampled_from(["a", "b", "c", 1, 2]), min_size=1, max_size=3, unique=True).map(lambda v: {"enum": v}),
    st.sampled_from(["a", "b", 1]).map(lambda value: {"const": value}),
)


def objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.builds(
        lambda properties, required, more: {
            "type": "object",
            "properties": properties,
            "required": [name for name in required if name in properties],
            **more,
        },
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        st.lists(st.sampled_from(NAMES), unique=True),
        _some(
            additionalProperties=st.one_of(st.just(False), LEAVES),
            patternProperties=st.dictionaries(NAME_PATTERNS, LEAVES, min_size=1, max_size=2),
        ),
    )


def _wrapped(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(
        objects(inner),
        _with({"type": "array"}, _some(items=inner, minItems=st.integers(0, 1), maxItems=st.integers(1, 3))),
        inner.map(nullable),
        st.lists(inner, min_size=2, max_size=3).map(lambda found: {"anyOf": found}),
        st.lists(inner, min_size=2, max_size=3).map(lambda found: {"oneOf": found}),
    )


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


SCHEMAS: st.SearchStrategy[Schema] = st.recursive(LEAVES, _wrapped, max_leaves=5)
ROOTS: st.SearchStrategy[Schema] = objects(SCHEMAS)
FLAT: st.SearchStrategy[Schema] = objects(LEAVES)


# Equivalent schemas


def shuffled(value: Any) -> Any:
    """The same schema, with everything unordered in reverse."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in reversed(value)] if isinstance(value, list) else value


def _moved_into_all_of(schema: dict[str, Any]) -> Schema:
    return {"allOf": [schema]}


def _split_into_all_of(schema: dict[str, Any]) -> Schema:
    if schema.keys() & {"additionalProperties", "patternProperties"} or "properties" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("properties", "required")}
    return {**rest, "allOf": [{"properties": schema["properties"]}, {"required": schema["required"]}]}


def _const_as_enum(schema: dict[str, Any]) -> Schema:
    rest = {key: value for key, value in schema.items() if key != "const"}
    return {**rest, "enum": [schema["const"]]} if "const" in schema else schema


def _type_as_values(schema: dict[str, Any]) -> Schema:
    return {**schema, "enum": [True, False]} if schema.get("type") == "boolean" else schema


def _all_names_by_pattern(schema: dict[str, Any]) -> Schema:
    if schema.get("properties") or "additionalProperties" not in schema or "patternProperties" in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "additionalProperties"}
    return {**rest, "patternProperties": {".*": schema["additionalProperties"]}}


def _types_as_alternatives(schema: dict[str, Any]) -> Schema:
    types = schema.get("type")
    alone = isinstance(types, list) and len(schema) == 1
    return {"anyOf": [{"type": name} for name in types]} if alone else schema


def _null_as_type(schema: dict[str, Any]) -> Schema:
    first, *others = schema.get("anyOf", [{}])
    if len(schema) > 1 or others != [{"type": "null"}] or not isinstance(first.get("type"), str):
        return schema
    return schema if first.keys() & {"anyOf", "oneOf", "not", "if"} else {**first, "type": [first["type"], "null"]}


def _exclusive(schema: dict[str, Any]) -> Schema:
    if schema.get("type") != "integer" or "minimum" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "minimum"}
    return {**rest, "exclusiveMinimum": schema["minimum"] - 1}


def _annotated(schema: dict[str, Any]) -> Schema:
    return {**schema, "examples": [1], "$comment": "nothing", "deprecated": True}


REWRITES: tuple[Callable[[dict[str, Any]], Schema], ...] = (
    _moved_into_all_of,
    _split_into_all_of,
    _const_as_enum,
    _type_as_values,
    _all_names_by_pattern,
    _types_as_alternatives,
    _null_as_type,
    _exclusive,
    _annotated,
)


@st.composite
def rewritten(draw: st.DrawFn, schema: Schema) -> Schema:
    """An equivalent schema: parts written in another way, or moved behind a `$ref`."""
    definitions: dict[str, Schema] = {}

    def again(part: Schema) -> Schema:
        if not isinstance(part, dict):
            return part
        part = draw(st.sampled_from(REWRITES))(_within(part, again)) if draw(st.booleans()) else _within(part, again)
        if draw(st.integers(0, 3)):
            return part
        name = f"x/{len(definitions)}~"
        definitions[name] = part
        return {"$ref": f"#/$defs/x~1{len(definitions) - 1}~0"}

    return {**_within(schema, again), "$defs": definitions}


@st.composite
def altered(draw: st.DrawFn, schema: Schema) -> Schema:
    """The schema with one changed part: replaced, without some keywords, or with other ones."""
    places = iter(draw(st.lists(st.integers(0, 3), min_size=12, max_size=12)))
    left = [1]

    def again(part: Schema) -> Schema:
        if not left or not isinstance(part, dict):
            return part
        if next(places, 0):
            return _within(part, again)
        left.pop()
        kept = {key: value for key, value in part.items() if key in draw(st.sets(st.sampled_from(sorted(part))))}
        return draw(st.sampled_from([kept, {**part, **draw(LEAVES)}, draw(SCHEMAS), nullable(part)])) if part else kept

    return again(schema)


def _within(schema: dict[str, Any], again: Callable[[Schema], Schema]) -> dict[str, Any]:
    """The schema with each inner schema rebuilt."""
    made = dict(schema)
    for key in schema.keys() & {"items", "additionalProperties"}:
        made[key] = again(schema[key])
    for key in schema.keys() & {"anyOf", "oneOf", "allOf"}:
        made[key] = [again(part) for part in schema[key]]
    for key in schema.keys() & {"properties", "patternProperties"}:
        made[key] = {name: again(part) for name, part in schema[key].items()}
    return made


# Values that fit


@st.composite
def instances(draw: st.DrawFn, schema: Schema) -> Any:
    """A value that mostly fits, with the schema's members only."""
    if not isinstance(schema, dict):
        return draw(st.sampled_from(POOL))
    for keyword in schema.keys() & {"anyOf", "oneOf", "allOf"}:
        return draw(_of_alternatives(schema, keyword))
    kinds = schema.get("type", "object" if "properties" in schema else "")
    if kinds == "object":
        return {name: draw(instances(part)) for name, part in draw(_chosen(schema)).items()}
    if kinds == "array":
        few = st.lists(instances(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=3)
        return draw(few)
    return draw(st.sampled_from(_fitting(json.dumps(schema))))


@st.composite
def _of_alternatives(draw: st.DrawFn, schema: dict[str, Any], keyword: str) -> Any:
    """Merge all of `allOf`, or one of the others, with the rest."""
    found = schema[keyword] if keyword == "allOf" else [draw(st.sampled_from(schema[keyword]))]
    merged = {key: value for key, value in schema.items() if key != keyword}
    for one in found:
        properties = {**merged.get("properties", {}), **one.get("properties", {})}
        required = [*merged.get("required", []), *one.get("required", [])]
        merged |= {**one, **({"properties": properties, "required": required} if properties or required else {})}
    return draw(instances(merged))


@st.composite
def _chosen(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Schema]:
    """The members to send, and their schemas."""
    known = schema.get("properties", {})
    chosen = {name: part for name, part in known.items() if name in schema.get("required", []) or draw(st.booleans())}
    if isinstance(schema.get("additionalProperties"), dict) and draw(st.booleans()):
        name = draw(st.sampled_from(["more", *(name for name in NAMES if name not in known)]))
        chosen[name] = schema["additionalProperties"]
    for pattern, part in schema.get("patternProperties", {}).items():
        name = draw(st.sampled_from(NAMES))
        if name not in known and re.search(pattern, name) and draw(st.booleans()):
            chosen[name] = part
    return chosen


# Changes


class Family(NamedTuple):
    """A kind of change: pairs of a wider and a narrower schema, and the rules for each direction."""

    name: str
    pairs: st.SearchStrategy[tuple[Schema, Schema]]
    input: str  # from wide to narrow
    back: str  # from narrow to wide
    output: str  # from narrow to wide, in an output schema
    one_way: bool = True  # whatever fits the narrower one also fits the wider one


def _fixed(*pairs: tuple[Schema, Schema]) -> st.SearchStrategy[tuple[Schema, Schema]]:
    return st.sampled_from(pairs)


def _an(properties: dict[str, Schema], *required: str, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def _limit(keyword: str, kind: str, wide: int, narrow: int) -> Iterator[tuple[Schema, Schema]]:
    items = {"items": {"type": "string"}} if kind == "array" else {}
    few = {"properties": {name: {"type": "integer"} for name in NAMES}} if kind == "object" else {}
    plain = {"type": kind, **items, **few}
    yield {**plain, keyword: wide}, {**plain, keyword: narrow}


_LIMITS = [
    *_limit("minimum", "integer", 1, 5),
    *_limit("maximum", "number", 9, 5),
    *_limit("exclusiveMinimum", "integer", 0, 2),
    *_limit("exclusiveMaximum", "number", 9, 5),
    *_limit("minLength", "string", 1, 3),
    *_limit("maxLength", "string", 8, 2),
    *_limit("minItems", "array", 1, 2),
    *_limit("maxItems", "array", 3, 1),
    *_limit("minProperties", "object", 1, 2),
    *_limit("maxProperties", "object", 2, 1),
    *_limit("multipleOf", "integer", 2, 4),
]
_SET = [({key: value for key, value in narrow.items() if key in ("type", "items", "properties")}, narrow)
        for _, narrow in _LIMITS]  # fmt: skip
_UNIQUE = {"type": "array", "items": {"type": "boolean"}}
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
_CAT = _an({"kind": {"const": "a"}, "lives": INTEGER}, "kind")
_DOG = _an({"kind": {"const": "b"}, "name": STRING}, "kind")
_MAP = {"type": "object", "additionalProperties": STRING}

FAMILIES = (
    Family("required property added", _fixed((_an({"a": STRING}), _an({"a": STRING, "b": INTEGER}, "b"))),
           "input-required-property-added", "input-property-removed", "output-required-property-removed"),
    Family("became required", _fixed((_an({"a": STRING}), _an({"a": STRING}, "a"))),
           "input-property-became-required", "input-property-became-optional", "output-property-became-optional"),
    Family("property removed", _fixed((_an({"a": STRING, "b": INTEGER}, additionalProperties=False),
                                       _an({"b": INTEGER}, additionalProperties=False))),
           "input-property-removed", "input-optional-property-added", "output-property-added"),
    Family("type changed", _fixed((STRING, INTEGER), ({"type": "boolean"}, {"type": "array"}), (STRING, _an({}))),
           "input-type-changed", "input-type-changed", "output-type-changed", False),
    Family("type narrowed", _fixed(({"type": ["string", "integer"]}, STRING), ({"type": "number"}, INTEGER),
                                   ({}, {"type": "number"}), ({"anyOf": [STRING, {"type": "boolean"}]}, STRING)),
           "input-type-narrowed", "input-type-widened", "output-type-widened"),
    Family("null lost", LEAVES.filter(lambda one: one.get("type") in ("string", "integer", "boolean"))
           .map(lambda one: (nullable(one), one)),
           "input-became-not-nullable", "input-type-widened", "output-became-nullable"),
    Family("value lost", _fixed(({"enum": ["a", "b", 1]}, {"enum": ["a", 1]}), ({"enum": ["a", "b"]}, {"const": "a"})),
           "input-enum-value-removed", "input-enum-value-added", "output-enum-value-added"),
    Family("became an enum", _fixed((STRING, {"enum": ["a", "b"]}), (INTEGER, {"type": "integer", "enum": [1, 2]})),
           "input-became-enum", "input-enum-value-added", "output-enum-value-added"),
    Family("became constant", _fixed((STRING, {"const": "a"}), (INTEGER, {"enum": [2]})),
           "input-const-added", "input-enum-value-added", "output-enum-value-added"),
    Family("limit tightened", _fixed(*_LIMITS),
           "input-constraint-tightened", "input-constraint-loosened", "output-constraint-loosened"),
    Family("limit set", _fixed(*_SET, (_UNIQUE, {**_UNIQUE, "uniqueItems": True})),
           "input-constraint-set", "input-constraint-loosened", "output-constraint-loosened"),
    Family("multiple changed", _fixed(({**INTEGER, "multipleOf": 4}, {**INTEGER, "multipleOf": 10})),
           "input-constraint-tightened", "input-constraint-tightened", "output-constraint-loosened", False),
    Family("pattern added", PATTERNS.map(lambda pattern: (STRING, {**STRING, "pattern": pattern})),
           "input-pattern-added", "input-pattern-removed", "output-constraint-loosened"),
    Family("pattern changed", _fixed(({**STRING, "pattern": "^a"}, {**STRING, "pattern": "b"})),
           "input-pattern-changed", "input-pattern-changed", "output-schema-changed", False),
    Family("closed", _fixed((_MAP, {"type": "object", "additionalProperties": False})),
           "input-additional-properties-forbidden", "input-additional-properties-allowed", "output-property-added"),
    Family("any of lost", _fixed(({"anyOf": [_CAT, _DOG]}, {"anyOf": [_DOG]}), ({"anyOf": [_CAT, STRING]}, STRING)),
           "input-any-of-removed", "input-type-widened", "output-any-of-added"),
    Family("one of lost", _fixed(({"oneOf": [_CAT, _DOG]}, _DOG), ({"oneOf": [_CAT, _DOG, STRING]},
                                                                  {"oneOf": [_DOG, STRING]})),
           "input-one-of-removed", "input-type-widened", "output-one-of-added"),
    Family("one of overlaps", _fixed(({"oneOf": [INTEGER, _CAT]},
                                      {"oneOf": [INTEGER, _CAT, {**INTEGER, "minimum": 3}]})),
           "input-one-of-removed", "input-type-widened", "output-one-of-added", False),
    Family("condition added", _fixed((STRING, {**STRING, "not": {"const": "a"}}),
                                     (INTEGER, {**INTEGER, "allOf": [{"not": {"minimum": 4}}]}),
                                     (_an({"a": STRING, "b": STRING}), _an({"a": STRING, "b": STRING},
                                      anyOf=[{"required": ["a"]}, {"required": ["b"]}]))),
           "input-all-of-added", "input-constraint-loosened", "output-constraint-loosened"),
    Family("if added", _fixed((_an({"a": INTEGER, "b": STRING}), _an({"a": INTEGER, "b": STRING},
                               **{"if": {"required": ["a"]}, "then": {"required": ["b"]}}))),
           "input-if-then-added", "input-constraint-loosened", "output-constraint-loosened"),
    Family("dependency added", _fixed((_an({"a": INTEGER, "b": STRING}),
                                       _an({"a": INTEGER, "b": STRING}, dependentRequired={"a": ["b"]}))),
           "input-dependent-required-added", "input-constraint-loosened", "output-constraint-loosened"),
)  # fmt: skip


@st.composite
def placed(draw: st.DrawFn, family: Family) -> tuple[Schema, Schema]:
    """A pair of a family, somewhere in a schema: the wider and the narrower."""
    wide, narrow = draw(family.pairs)
    for _ in range(draw(st.integers(0, 2))):
        around = draw(st.sampled_from([_as_item, _as_member, _as_definition]))
        wide, narrow = around(wide), around(narrow)
    root = {key: value for key, value in draw(FLAT).items() if key != "patternProperties"}
    return tuple({**root, "properties": {**root["properties"], "it": one}, "required": [*root["required"], "it"]}
                 for one in (wide, narrow))  # type: ignore[return-value]  # fmt: skip


def _as_item(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _as_member(schema: Schema) -> Schema:
    return _an({"inner": schema, "b": INTEGER}, "inner")


def _as_definition(schema: Schema) -> Schema:
    return {"allOf": [_an({"outer": schema}), {"required": ["outer"]}]}
