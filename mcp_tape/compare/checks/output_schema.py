"""Check of results against the output schema of their tool. The only module that knows jsonschema.

"Servers MUST provide structured results that conform to this schema":
https://modelcontextprotocol.io/specification/2025-11-25/server/tools#output-schema
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jsonschema import exceptions, validators
from referencing import Registry
from referencing.exceptions import Unresolvable

from ...wire import jsontext, protocol
from ...wire.jsontext import Path
from ..changes import ABSENT, Difference
from ..schemas.references import Document

_MOST = 3  # per result
_DEEPEST = 8  # nested references and alternatives
_WHERE = ("result", "structuredContent")


def violations(schema: Any, body: Any) -> Iterator[Difference]:
    """Report where a result violates its schema. A schema that cannot be used forbids nothing."""
    result = protocol.member(body, "result")
    if protocol.member(result, "resultType") not in (None, "complete") or protocol.member(result, "task") is not None:
        return  # the result itself comes later
    content = protocol.member(result, "structuredContent")
    if content is None:
        yield Difference("call-violates-output-schema", _WHERE, ABSENT, ABSENT, "there is no structured content")
        return
    try:
        errors = _validator(jsontext.canonical_bytes(schema)).iter_errors(content)
        errors = sorted(errors, key=lambda error: list(map(str, error.path)))
    except (exceptions.SchemaError, Unresolvable, RecursionError, TypeError, ValueError):
        return
    for error in errors[:_MOST]:
        place, words = (*_WHERE, *error.absolute_path), error.message[:200]
        yield Difference("call-violates-output-schema", place, ABSENT, _violating_part(error), words)


def _violating_part(error: exceptions.ValidationError) -> Any:
    """The violating value or keyword, without the values around it, which differ each time."""
    value = error.instance
    if not isinstance(value, (dict, list)):
        return value
    if error.validator == "required" and isinstance(error.validator_value, list):
        return {"required": [name for name in error.validator_value if name not in value]}
    return {str(error.validator): error.validator_value}


def covers(schema: Any, path: Path) -> bool:
    """Return whether a schema constrains a place."""
    return any(isinstance(one, dict) and one for one in _schemas_at(Document(schema), schema, path))


def leaves_out(schema: Any, path: Path) -> bool:
    """Return whether a schema names an object's members, but not this one: it was never promised, or was forbidden."""
    if not path:
        return False
    document = Document(schema)
    holders = [every for one in _schemas_at(document, schema, path[:-1]) for every in _applying_schemas(document, one)]
    named = any(isinstance(holder.get("properties"), dict) and holder["properties"] for holder in holders)
    known = any(True for holder in holders for _ in _schemas_below(holder, path[-1]))
    return named and not known and not any("patternProperties" in holder for holder in holders)


def _schemas_at(document: Document, schema: Any, path: Path) -> list[Any]:
    """The schemas that apply at a path of a value."""
    schemas = [schema]
    for step in path:
        schemas = [
            below
            for one in schemas
            for every in _applying_schemas(document, one)
            for below in _schemas_below(every, step)
        ]
    return schemas


def _applying_schemas(document: Document, schema: Any, left: int = _DEEPEST) -> Iterator[dict[str, Any]]:
    """A schema, and the schemas that apply to the same value."""
    if not isinstance(schema, dict) or not left:
        return
    yield schema
    several = [one for word in ("allOf", "anyOf", "oneOf") for one in _list(schema.get(word))]
    for one in [document.find(schema["$ref"]) if "$ref" in schema else None, *several]:
        yield from _applying_schemas(document, one, left - 1)


def _schemas_below(schema: dict[str, Any], step: str | int) -> Iterator[Any]:
    named = protocol.member(schema.get("properties"), str(step))
    yield from (one for one in (named, schema.get("additionalProperties")) if isinstance(one, dict))
    if step == "*":
        yield schema.get("items")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@lru_cache(256)
def _validator(schema: bytes) -> Any:
    value = jsontext.loads(schema)
    kind = validators.validator_for(value, default=validators.Draft202012Validator)
    kind.check_schema(value)
    return kind(value, registry=Registry())  # a registry that fetches nothing
