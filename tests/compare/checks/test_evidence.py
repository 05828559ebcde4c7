"""Recorded calls as evidence for a difference of the surface."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.compare.checks.evidence import reaches
from tests.support.diffs import Talk, call, changes, gave, hello, listing, tool, wrote
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
        ({"type": "object"}, {"a": "x", "b": 1}, {"a": "x"}, "error"),  # no member is declared
    ],
)
def test_a_member_that_the_old_output_schema_does_not_have_cannot_be_lost(
    schema: Schema, old: Any, new: Any, level: str
) -> None:
    listed = [hello(), listing("tools/list", tool(outputSchema=schema))]
    found = changes([*listed, gave(old)], [*listed, gave(new)], "call-structured-shape-changed")
    assert [change.level for change in found] == [level]


ORDER = {"id": "ord-77", "total": 5}
IDS = {"type": "object", "properties": {"id": STRING, "total": {"type": "integer"}}}
TOTALS = {"type": "object", "properties": {"total": {"type": "integer"}}}


def followed(schema: Schema | None, result: Any, **given: Any) -> Talk:
    """A call, and one that may have used its result."""
    described = {} if schema is None else {"outputSchema": schema}
    return [hello(), listing("tools/list", tool("t", **described)), result, call("pay", **given)]


@pytest.mark.parametrize(("given", "level"), [({"order": "ord-77"}, "error"), ({"order": "ord-78"}, "info")])
def test_a_member_of_a_result_that_a_later_call_used_cannot_be_lost(given: Any, level: str) -> None:
    """Whatever its schema."""
    old, new = (followed(IDS, gave(value), **given) for value in (ORDER, {"total": 5}))
    (found,) = changes(old, new, "call-structured-shape-changed")
    assert (found.path, found.level, "a later call used it" in found.note) == (
        "$.result.structuredContent.id",
        level,
        level == "error",
    )


@pytest.mark.parametrize(("given", "level"), [({"order": "ord-77"}, "error"), ({"order": "ord-78"}, "warn")])
def test_an_optional_member_that_a_later_call_used_must_not_leave_the_output_schema(given: Any, level: str) -> None:
    old, new = (followed(schema, gave(ORDER), **given) for schema in (IDS, TOTALS))
    (found,) = changes(old, new, "output-optional-property-removed")
    assert (found.level, "a later call used it" in found.note) == (level, level == "error")


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        ({**IDS, "required": ["id"]}, "output-property-became-optional"),
        ({**IDS, "properties": {"id": {"type": "integer"}}}, "output-type-changed"),
    ],
)
def test_an_error_notes_that_a_later_call_used_the_changed_part(schema: Schema, rule: str) -> None:
    for given, used in (("ord-77", True), ("ord-78", False)):
        old, new = (followed(one, gave(ORDER), order=given) for one in (schema, IDS))
        (found,) = changes(old, new, rule)
        assert (found.level, "a later call used it" in found.note) == ("error", used)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ('{"total": 5}', "error"),
        ('{"id": 77, "total": 5}', "error"),
        ('{"id": "ord-77", "total": 6}', "info"),
        ('{"id": "ord-77", "total": 5, "more": 1}', "info"),
        ("Order ord-77 of 5", "info"),  # not JSON: no program relies on its structure
    ],
)
def test_a_text_of_json_lost_a_part_that_a_later_call_used(text: str, level: str) -> None:
    old, new = (followed(None, wrote(one), order="ord-77") for one in ('{"id": "ord-77", "total": 5}', text))
    (found,) = changes(old, new, "call-text-changed")
    assert (found.level, "a later call used it" in found.note) == (level, level == "error")


def test_values_that_the_client_knew_before_are_not_from_a_result() -> None:
    old, new = (
        [
            hello(),
            listing("tools/list", tool("t", outputSchema=IDS)),
            gave(value, order="ord-77"),
            call("pay", order="ord-77"),
        ]
        for value in (ORDER, {"total": 5})
    )
    assert [found.level for found in changes(old, new, "call-structured-shape-changed")] == ["info"]


def test_an_item_that_is_null_is_lost_only_where_it_was_the_one_that_was_used() -> None:
    values = [[{"id": "ord-77"}, {"id": "ord-78"}], [{"id": "ord-77"}, {"id": None}], [{"id": None}, {"id": "ord-78"}]]
    old, other, same = (followed(None, gave({"all": value}), order="ord-77") for value in values)
    assert [found.level for found in changes(old, other, "call-structured-shape-changed")] == ["warn"]
    assert [found.level for found in changes(old, same, "call-structured-shape-changed")] == ["error"]


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
