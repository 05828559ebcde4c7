"""Texts that a client may hand to a model: every key and every string of a definition or a result, wherever it stands.

Of a JSON Schema, also the keywords that no validator looks at: titles, descriptions, examples, comments, defaults,
keywords that nobody knows; also in definitions that nothing uses.
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
# What a schema asserts, or is called by: the rules of schemas compare these.
_ASSERTIONS = {
    "type", "enum", "const", "nullable", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
    "minProperties", "maxProperties", "required", "dependentRequired", "x-mcp-header",
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$ref", "$dynamicRef", "$recursiveRef",
    "$vocabulary", *_BY_NAME, *_LISTS, *_SINGLE,
}  # fmt: skip


# Names, types, numbers, patterns and addresses: one word in ASCII.
_WORD = re.compile(r"[!-~]*")


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """A value and all within it, each with its path; without recursion, as a stranger may nest deeply."""
    waiting: list[tuple[Path, Any]] = [(path, value)]
    while waiting:
        at, one = waiting.pop()
        yield at, one
        if isinstance(one, list):
            waiting += reversed([((*at, number), inner) for number, inner in enumerate(one)])
        elif isinstance(one, dict):
            waiting += reversed([((*at, name), inner) for name, inner in one.items()])


def strings(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every key and every string of a value; the path of a key is that of its value."""
    for at, one in walk(value, path):
        if isinstance(one, str):
            yield at, one
        elif isinstance(one, dict):
            yield from (((*at, name), name) for name in one)


def is_prose(text: str) -> bool:
    """Return whether a text can say something, and is no single word of a program."""
    return _WORD.fullmatch(text) is None


def texts(schema: Any) -> Iterator[tuple[Path, Any]]:
    """Every text of a schema with its path."""
    for at, one in subschemas(schema):
        for keyword, value in one.items():
            if keyword not in _ASSERTIONS and value not in (None, ""):
                yield (*at, keyword), value


def subschemas(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A schema and all schemas within it, each with its path; without recursion, as a stranger may nest deeply."""
    waiting: list[tuple[Path, Any]] = [((), schema)]
    while waiting:
        at, one = waiting.pop()
        if isinstance(one, dict):
            yield at, one
            waiting += reversed([below for keyword, value in one.items() for below in _below((*at, keyword), value)])


def _below(at: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """The schemas that are the value of a keyword, or in it."""
    keyword = at[-1]
    if keyword in _BY_NAME and isinstance(value, dict):
        yield from (((*at, name), below) for name, below in value.items())
    elif keyword in _LISTS and isinstance(value, list):
        yield from (((*at, number), below) for number, below in enumerate(value))
    elif keyword in _SINGLE and isinstance(value, dict | bool):
        yield at, value
