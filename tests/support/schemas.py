"""Small schemas, to be changed."""

from __future__ import annotations

from typing import Any

Schema = Any
STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
CAT: Schema = {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": INTEGER}, "required": ["kind"]}
DOG: Schema = {"type": "object", "properties": {"kind": {"const": "dog"}, "name": STRING}, "required": ["kind"]}


def an(properties: dict[str, Schema], *required: str, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def of(schema: Schema) -> Schema:
    """An object with one member."""
    return an({"a": schema})


AB: Schema = {"a": STRING, "b": STRING}
