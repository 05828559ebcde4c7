"""Texts that a client may pass to a model: every key and every string of a definition or a result, at any depth.

In a JSON Schema these include keywords that validators ignore: titles, descriptions, examples, comments, defaults and
unknown keywords, even in unused definitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..wire.jsontext import Path

_BY_NAME = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems", "items"}
_SINGLE = {
    "items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains",
    "propertyNames", "not", "if", "then", "else", "contentSchema",
}  # fmt: skip
# Assertions and identifiers of a schema: the schema rules compare these.
_ASSERTIONS = {
    "type", "enum", "const", "nullable", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
    "minProperties", "maxProperties", "required", "dependentRequired", "x-mcp-header",
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$ref", "$dynamicRef", "$recursiveRef",
    "$vocabulary", *_BY_NAME, *_LISTS, *_SINGLE,
}  # fmt: skip


# Names, types, numbers, patterns and addresses: one ASCII word.
_WORD = re.compile(r"[!-~]*")


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield a value and all values within it, each with its path. Not recursive: an untrusted value may nest deeply."""
    waiting: list[tuple[Path, Any]] = [(path, value)]
    while waiting:
        at, one = waiting.pop()
        yield at, one
        if isinstance(one, list):
            waiting += reversed([((*at, number), inner) for number, inner in enumerate(one)])
        elif isinstance(one, dict):
            waiting += reversed([((*at, name), inner) for name, inner in one.items()])


def strings(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every key and every string of a value. A key has the path of its value."""
    for at, one in walk(value, path):
        if isinstance(one, str):
            yield at, one
        elif isinstance(one, dict):
            yield from (((*at, name), name) for name in one)


def is_prose(text: str) -> bool:
    """Return whether a text can be prose, rather than a single word of a program."""
    return _WORD.fullmatch(text) is None


def texts(schema: Any) -> Iterator[tuple[Path, Any]]:
    """Yield every text of a schema with its path."""
    for at, one in subschemas(schema):
        for keyword, value in one.items():
            if keyword not in _ASSERTIONS and value not in (None, ""):
                yield (*at, keyword), value


def subschemas(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a schema and all schemas within it, each with its path. Not recursive: an untrusted one may nest deeply."""
    waiting: list[tuple[Path, Any]] = [((), schema)]
    while waiting:
        at, one = waiting.pop()
        if isinstance(one, dict):
            yield at, one
            waiting += reversed([below for keyword, value in one.items() for below in _below((*at, keyword), value)])


def _below(at: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the schemas in a keyword's value."""
    keyword = at[-1]
    if keyword in _BY_NAME and isinstance(value, dict):
        yield from (((*at, name), below) for name, below in value.items())
    elif keyword in _LISTS and isinstance(value, list):
        yield from (((*at, number), below) for number, below in enumerate(value))
    elif keyword in _SINGLE and isinstance(value, dict | bool):
        yield at, value
