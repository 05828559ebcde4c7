"""What the recorded calls say about a difference of the surface."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.compare.checks.evidence import reaches
from tests.support.diffs import Talk, call, changes, gave, hello, listing, tool
from tests.support.schemas import AB, STRING, Schema, an


def talk(schema: Schema, *calls: Any) -> Talk:
    return [hello(), listing("tools/list", tool("rm", inputSchema=schema)), *calls]


@pytest.mark.parametrize(
    ("given", "level"), [({"a": "x", "b": "y"}, "error"), ({"a": "x"}, "warn"), ({"a": {"b": 1}}, "warn")]
)
def test_an_argument_that_is_gone_is_an_error_where_a_recorded_call_used_it(given: Any, level: str) -> None:
    old, new = talk(an(AB), call("rm", **given)), talk(an({"a": STRING}), call("rm", **given))
    (found,) = changes(old, new, "input-property-removed")
    assert (found.level, "a recorded call used it" in found.note) == (level, level == "error")


def test_a_call_of_another_tool_is_no_use() -> None:
    old, new = (talk(schema, call("ls", b="y")) for schema in (an(AB), an({"a": STRING})))
    assert [found.level for found in changes(old, new, "input-property-removed")] == ["warn"]


NAMED = {"type": "object", "properties": {"a": STRING}}
LISTED = {"type": "object", "properties": {"all": {"type": "array", "items": NAMED}}}


@pytest.mark.parametrize(
    ("schema", "old", "new", "level"),
    [
        ({**NAMED, "additionalProperties": False}, {"a": "x", "b": 1}, {"a": "x"}, "info"),
        (NAMED, {"a": "x", "b": 1}, {"a": "x"}, "info"),
        (LISTED, {"all": [{"a": "x", "b": 1}]}, {"all": [{"a": "x"}]}, "info"),
        ({**NAMED, "properties": {"b": {}}}, {"a": "x", "b": 1}, {"a": "x"}, "error"),
        ({**NAMED, "patternProperties": {"b": {}}}, {"a": "x", "b": 1}, {"a": "x"}, "error"),
        ({"type": "object"}, {"a": "x", "b": 1}, {"a": "x"}, "error"),  # it says nothing at all
    ],
)
def test_a_member_that_the_old_output_schema_does_not_have_cannot_be_lost(
    schema: Schema, old: Any, new: Any, level: str
) -> None:
    listed = [hello(), listing("tools/list", tool(outputSchema=schema))]
    found = changes([*listed, gave(old)], [*listed, gave(new)], "call-structured-shape-changed")
    assert [change.level for change in found] == [level]


@pytest.mark.parametrize(
    ("value", "path", "expected"),
    [
        ({"a": [{"b": 1}]}, ("properties", "a", "items", "properties", "b"), True),
        ({"a": [{"c": 1}]}, ("properties", "a", "items", "properties", "b"), False),
        ({"a": {"b": 1}}, ("properties", "a", "anyOf", 1, "properties", "b"), True),
        ({"a": {"x": {"b": 1}}}, ("properties", "a", "additionalProperties", "properties", "b"), True),
        ({"a": [1]}, ("properties", "a", "prefixItems", 0), True),
        ({"a": [1]}, ("properties", "a", "prefixItems", 1), False),
        ({"a": 1}, ("properties", "a", "then", "properties", "b"), False),
        (None, ("properties", "a"), False),
    ],
)
def test_a_value_reaches_a_place_of_its_schema_or_not(value: Any, path: Any, expected: bool) -> None:
    assert reaches(value, path) is expected
