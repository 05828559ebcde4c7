"""Schemas of arguments as common libraries write them, changes to them, and values that fit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from typing import Any

from jsonschema import Draft202012Validator

from mcp_tape.model.texts import subschemas
from mcp_tape.wire.jsontext import Path

Schema = Any
TEXT: Schema = {"type": "string"}
WRITTEN: dict[str, Schema] = {
    "zod 3": {
        "type": "object",
        "properties": {
            "url": {"type": "string", "format": "uri"},
            "formats": {"type": "array", "items": {"type": "string", "enum": ["markdown", "html"]}, "minItems": 1},
            "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 100},
            "mode": {"anyOf": [{"type": "string", "const": "fast"}, {"type": "string", "const": "deep"}]},
        },
        "required": ["url"],
        "additionalProperties": False,
        "$schema": "http://json-schema.org/draft-07/schema#",
    },
    "zod 4": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "scale": {"default": "css", "type": "string", "enum": ["css", "device"]},
            "depth": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
            "block": {
                "oneOf": [
                    {"type": "object", "properties": {"type": {"type": "string", "const": "text"}, "text": TEXT},
                     "required": ["type", "text"]},
                    {"type": "object", "properties": {"type": {"type": "string", "const": "link"}, "url": TEXT},
                     "required": ["type", "url"]},
                ]
            },
        },
        "required": ["scale"],
    },
    "pydantic 1": {
        "title": "Search",
        "type": "object",
        "properties": {
            "query": {"title": "Query", "type": "string"},
            "sort": {"allOf": [{"$ref": "#/definitions/Sort"}], "default": "new"},
        },
        "required": ["query"],
        "definitions": {"Sort": {"title": "Sort", "enum": ["new", "old"], "type": "string"}},
    },
    "pydantic 2": {
        "$defs": {
            "Filter": {
                "type": "object",
                "title": "Filter",
                "properties": {
                    "label": {"anyOf": [TEXT, {"type": "null"}], "default": None, "title": "Label"},
                    "op": {"enum": ["and", "or"], "type": "string", "title": "Op"},
                },
                "required": ["op"],
            }
        },
        "type": "object",
        "properties": {
            "filter": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}], "default": None},
            "limit": {"default": 10, "maximum": 50, "minimum": 1, "title": "Limit", "type": "integer"},
        },
        "title": "searchArguments",
    },
    "fastmcp": {
        "type": "object",
        "properties": {"path": TEXT, "options": {"type": "object", "additionalProperties": {"type": "integer"}}},
        "required": ["path"],
        "additionalProperties": False,
    },
    "Go": {
        "type": "object",
        "properties": {
            "owner": {"type": "string", "description": "Repository owner"},
            "labels": {"type": ["null", "array"], "items": TEXT},
            "perPage": {"type": "number", "minimum": 1, "maximum": 100},
        },
        "required": ["owner"],
    },
    "C#": {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"]},
            "point": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                      "required": ["x"]},
        },
    },
}  # fmt: skip
_TEXTS = ("", "a", "https://a.example", "x" * 40)
_NUMBERS = (0, 1, -1, 2, 7, 49, 50, 51, 99, 100, 101, 2**53 - 1, 1 - 2**53, 1.5)
_MOST = 60  # values of one schema


def fits(schema: Schema, value: Any) -> bool:
    return bool(Draft202012Validator(schema).is_valid(value))


# Changes


def changed(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The schema with one change, each with a name."""
    for path, part in subschemas(schema):
        for name, change in _CHANGES.items():
            other = change(copy.deepcopy(part))
            if other is not None and other != part:
                yield f"{name} at {'.'.join(map(str, path)) or 'the top'}", _put(copy.deepcopy(schema), path, other)


def _put(schema: Schema, path: Path, part: Schema) -> Schema:
    if not path:
        return {**part, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}
    inner = schema
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = part
    return schema


def _with(part: Schema, **more: Any) -> Schema:
    return {**part, **more}


def _divided(keyword: str) -> Callable[[Schema], Schema | None]:
    """Divide an object by the values of a required member."""

    def divide(part: Schema) -> Schema | None:
        for name, inner in part.get("properties", {}).items():
            if name in part.get("required", []) and len(inner.get("enum", [])) > 1:
                each = [_with(inner, enum=[value]) for value in inner["enum"]]
                return {keyword: [_with(part, properties=part["properties"] | {name: one}) for one in each]}
        return None

    return divide


def _first(part: Schema) -> str | None:
    return next(iter(part.get("properties", {})), None)


def _if(keyword: str, change: Callable[[Schema], Schema]) -> Callable[[Schema], Schema | None]:
    return lambda part: change(part) if keyword in part else None


_CHANGES: dict[str, Callable[[Schema], Schema | None]] = {
    "closed": _if("properties", lambda part: _with(part, additionalProperties=False)),
    "opened": _if("additionalProperties", lambda part: {k: v for k, v in part.items() if k != "additionalProperties"}),
    "all required": _if("properties", lambda part: _with(part, required=[*part["properties"]])),
    "none required": _if("required", lambda part: _with(part, required=[])),
    "a member less": _if("properties", lambda part: _with(
        part, properties={k: v for k, v in part["properties"].items() if k != _first(part)},
        required=[name for name in part.get("required", []) if name != _first(part)])),
    "a member more": _if("properties", lambda part: _with(part, properties={**part["properties"], "new": TEXT})),
    "a value less": _if("enum", lambda part: _with(part, enum=part["enum"][1:] or ["none"])),
    "a value more": _if("enum", lambda part: _with(part, enum=[*part["enum"], "more"])),
    "any value": _if("enum", lambda part: {k: v for k, v in part.items() if k != "enum"}),
    "less": _if("maximum", lambda part: _with(part, maximum=part["maximum"] // 2)),
    "without a maximum": _if("maximum", lambda part: {k: v for k, v in part.items() if k != "maximum"}),
    "an alternative less": _if("anyOf", lambda part: _with(part, anyOf=part["anyOf"][1:])),
    "any of": _if("oneOf", lambda part: {**{k: v for k, v in part.items() if k != "oneOf"}, "anyOf": part["oneOf"]}),
    "any object": _if("properties", lambda part: {"type": "object"}),
    "a map": _if("properties", lambda part: {"type": "object", "additionalProperties": {}}),
    "or any object": _if("properties", lambda part: {
        "anyOf": [_with(part, additionalProperties=False), {"type": "object"}]}),
    "or a text": _if("oneOf", lambda part: {"anyOf": [part, TEXT]}),
    "divided": _divided("anyOf"),
    "divided exclusively": _divided("oneOf"),
}  # fmt: skip


# Values


def values(schema: Schema, root: Schema | None = None, left: int = 6) -> list[Any]:
    """Values that fit, as different from each other as possible."""
    root = schema if root is None else root
    found = list(islice(_candidates(schema, root, left), 4 * _MOST))
    whole = {**schema, **{key: root[key] for key in ("$defs", "definitions") if key in root}}
    return [value for value in found if fits(whole, value)][:_MOST]


def _candidates(schema: Schema, root: Schema, left: int) -> Iterator[Any]:
    if not left or not isinstance(schema, dict):
        return
    if "$ref" in schema:
        target: Any = root
        for step in schema["$ref"].split("/")[1:]:
            target = target[step]
        yield from values(target, root, left - 1)
        return
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            rest = {key: value for key, value in schema.items() if key != keyword}
            each = [values({**rest, **one}, root, left - 1) for one in schema[keyword]]
            yield from (value for row in zip_longest(*each, fillvalue=None) for value in row)
            return
    if "enum" in schema or "const" in schema:
        yield from schema.get("enum", [schema.get("const")])
        return
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        yield from _of_kind(kind, schema, root, left)


def _of_kind(kind: str, schema: Schema, root: Schema, left: int) -> Iterator[Any]:
    if kind == "object":
        yield from _objects(schema, root, left)
    elif kind == "array":
        inner = values(schema.get("items", {}), root, left - 1)
        yield from ([], inner[:1], inner[:3], *([one] for one in inner))
    elif kind in ("integer", "number"):
        yield from _NUMBERS
    else:
        yield from {"string": _TEXTS, "boolean": (True, False), "null": (None,)}.get(kind, ())


def _objects(schema: Schema, root: Schema, left: int) -> Iterator[Any]:
    """Objects with all members, with as few as possible, and with each value of each member."""
    known = {name: values(part, root, left - 1) for name, part in schema.get("properties", {}).items()}
    whole = {name: found[0] for name, found in known.items() if found}
    few = {name: value for name, value in whole.items() if name in schema.get("required", [])}
    yield from (whole, few)
    more = schema.get("additionalProperties", True)
    if more is not False:  # members beyond the schema may be sent
        yield from (whole | {"beyond": 1}, whole | {"beyond": "a"})
    for name, found in known.items():
        yield from ({**few, name: value} for value in found)
