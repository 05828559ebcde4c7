"""The texts of a schema that validators ignore."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.model.texts import texts


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"title": "T", "type": "object"}, [("title",)]),
        ({"properties": {"title": {"type": "string"}}}, []),  # a name, not a text
        ({"properties": {"a": {"examples": [1], "x-prompt": {"b": 1}}}},
         [("properties", "a", "examples"), ("properties", "a", "x-prompt")]),
        ({"$defs": {"unused": {"description": "d"}}}, [("$defs", "unused", "description")]),
        ({"anyOf": [{"$comment": "c"}, {"items": {"description": "d"}}]},
         [("anyOf", 0, "$comment"), ("anyOf", 1, "items", "description")]),
        ({"default": None, "description": ""}, []),
        ({"enum": ["a"], "format": "uri", "$ref": "#/x"}, []),
        ({"items": [{"title": "T"}], "additionalProperties": {"title": "U"}},
         [("items", 0, "title"), ("additionalProperties", "title")]),
        (None, []),
        (True, []),
    ],
)  # fmt: skip
def test_the_texts_of_a_schema_are_found(schema: Any, found: list[Any]) -> None:
    assert [path for path, _ in texts(schema)] == found


def test_a_schema_may_be_nested_as_deep_as_a_stranger_likes() -> None:
    schema: Any = {"title": "T"}
    for _ in range(3000):
        schema = {"items": schema}
    assert len(list(texts(schema))) == 1
