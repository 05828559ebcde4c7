"""Disjoint alternatives, members that match a pattern, large documents."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.compare.rule_table import RULES
from mcp_tape.compare.schemas import compare_input, compare_output
from mcp_tape.compare.schemas.property_names import fits
from tests.support.schemas import INTEGER, STRING, Schema, an, of

LOW, HIGH = {**INTEGER, "maximum": 3}, {**INTEGER, "exclusiveMinimum": 3}


def found(old: Schema, new: Schema) -> list[tuple[str, str]]:
    return [(one.rule, one.level or RULES[one.rule].level) for one in compare_input(old, new)]


def either(one: Schema, other: Schema, keyword: str, **definitions: Schema) -> Schema:
    return {**of({keyword: [one, other]}), "$defs": definitions}


def kind(schema: Schema) -> Schema:
    return an({"kind": schema, "size": INTEGER}, "kind")


# Alternatives -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LOW, HIGH),
        ({**STRING, "maxLength": 3}, {**STRING, "minLength": 4}),
        ({"type": "array", "maxItems": 1}, {"type": "array", "minItems": 2}),
        ({"type": ["integer", "string"], "maximum": 1, "maxLength": 1}, {"minimum": 2, "minLength": 2}),
        (kind({"const": 1}), kind({"const": 2})),
        (kind({"const": True}), kind({"enum": [False, "no"]})),
        (kind({"$ref": "#/$defs/x"}), kind({"$ref": "#/$defs/y"})),
        (kind(STRING), kind({"type": ["integer", "null"]})),
        (kind(kind({"const": "x"})), kind(kind({"const": "y"}))),
        (an({"a": STRING}, "a", additionalProperties=False), an({"a": STRING, "b": STRING}, "b")),
    ],
)
def test_alternatives_that_nothing_fits_twice_may_be_exclusive_or_not(one: Schema, other: Schema) -> None:
    schemas = [either(one, other, word, x={"const": "x"}, y={"const": "y"}) for word in ("anyOf", "oneOf")]
    assert found(*schemas) == found(*reversed(schemas)) == []


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        (INTEGER, HIGH, "error"),
        (LOW, {**HIGH, "exclusiveMinimum": 2}, "warn"),
        (kind({"enum": [1, 2]}), kind({"enum": [2, 3]}), "warn"),
        (kind({"type": ["string", "null"]}), kind({"type": ["integer", "null"]}), "warn"),
        ({**STRING, "pattern": "^a"}, {**STRING, "pattern": "^b"}, "warn"),  # undecidable
        (an({"a": STRING}, "a"), an({"a": STRING, "b": STRING}, "b"), "warn"),  # with both
    ],
)
def test_overlapping_alternatives_are_reported_as_certain_or_possible(one: Schema, other: Schema, level: str) -> None:
    assert ("input-one-of-removed", level) in found(either(one, other, "anyOf"), either(one, other, "oneOf"))


def test_a_new_alternative_out_of_range_of_the_others_breaks_no_client() -> None:
    new = of({"oneOf": [LOW, STRING, {**INTEGER, "minimum": 9}]})
    assert found(of({"oneOf": [LOW, STRING]}), new) == [("input-type-widened", "info")]


def test_a_boolean_with_another_type_still_accepts_the_same() -> None:
    old, new = of({"type": "boolean"}), of({"enum": [True, False, "auto"]})
    assert found(old, new) == [("input-type-widened", "info")]
    assert found(new, old) == [("input-type-narrowed", "error")]
    assert [one.rule for one in compare_output(old, new)] == ["output-type-widened"]


# Patterns of names --------------------------------------------------------------------------------------


def mapped(properties: dict[str, Schema], patterns: dict[str, Schema], *required: str) -> Schema:
    return an(properties, *required, patternProperties=patterns, additionalProperties=False)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (mapped({"x-a": STRING}, {}), mapped({}, {"^x-": STRING}), [("input-additional-properties-allowed", "info")]),
        (mapped({"x-a": STRING}, {"^x-": STRING}), mapped({}, {"^x-": STRING}), []),
        (mapped({}, {"^x-": STRING}), mapped({"x-a": STRING}, {"^x-": STRING}), []),
        (mapped({"x-a": STRING}, {"^x-": {}}), mapped({}, {"^x-": INTEGER}), [("input-type-changed", "error"),
         ("input-additional-properties-forbidden", "error")]),
        (mapped({"a": STRING}, {"^x-": STRING}), mapped({}, {"^x-": STRING}), [("input-property-removed", "error")]),
        (mapped({"x-a": STRING}, {}), mapped({"x-a": STRING}, {"^x-": INTEGER}), [("input-type-narrowed", "error"),
         ("input-additional-properties-allowed", "info")]),
        (mapped({}, {"^x-": STRING}), mapped({}, {"^x-": STRING}, "x-a"),
         [("input-property-became-required", "error")]),
        ({"type": "object", "additionalProperties": STRING}, mapped({}, {"^.*$": STRING}), []),
        (an({"a": INTEGER}, patternProperties={".*": INTEGER}), an({"a": INTEGER}, additionalProperties=INTEGER), []),
        (mapped({"a": STRING}, {}), mapped({"a": STRING}, {"^(a+)+$": INTEGER}),
         [("input-additional-properties-allowed", "info"), ("input-schema-changed", "warn")]),
        ({"allOf": [an({}, patternProperties={"^x-": STRING}), mapped({}, {})]}, mapped({}, {"^x-": False}), []),
    ],
)  # fmt: skip
def test_a_member_is_known_by_its_name_or_by_a_pattern(old: Schema, new: Schema, expected: list[Any]) -> None:
    assert found(old, new) == expected


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("^x-", "x-a", True),
        ("^[a-z_]{1,3}$", "abcd", False),
        (r"^\d+\.json$", "12.json", True),
        ("^(get|set)_", "set_a", True),
        ("^(a+)+$", "a" * 40 + "!", None),
        ("(a|a)(a|a)(a|a)", "aaa", None),
        (r"^\p{L}+$", "a", None),
        ("(?=a)", "a", None),
        ("[", "[", None),
        ("^x", "x" * 100, None),
    ],
)
def test_only_harmless_patterns_are_tried(pattern: str, name: str, expected: bool | None) -> None:
    assert fits(pattern, name) is expected


# Large documents ----------------------------------------------------------------------------------------


def definitions(number: int, changed: int) -> Schema:
    """Many definitions that refer to one another in several ways, one of them different from the others."""

    def one(at: int) -> Schema:
        near, far = ({"$ref": f"#/$defs/d{(at * step + 1) % number}"} for step in (1, 7))
        union = {"oneOf": [near, {"type": "array", "items": far}, {"type": "null"}]}
        return an({"value": INTEGER if at == changed else STRING, "near": near, "far": {"anyOf": [far]}, "any": union})

    return {**of({"$ref": "#/$defs/d0"}), "$defs": {f"d{at}": one(at) for at in range(number)}}


@pytest.mark.slow
def test_a_change_in_one_of_hundreds_of_definitions_is_found_where_it_is_nearest() -> None:
    facts = list(compare_input(definitions(300, -1), definitions(300, 250)))
    assert {one.rule for one in facts} == {"input-type-changed"}
    assert min(len(one.path) for one in facts) < 40


@pytest.mark.parametrize("around", [lambda to: {"$ref": to}, lambda to: {"allOf": [{"$ref": to}]}])
@pytest.mark.parametrize("steps", [30, 90])
def test_a_change_at_the_end_of_many_references_is_found(around: Any, steps: int) -> None:
    def chain(leaf: Schema) -> Schema:
        links = {f"d{at}": around(f"#/$defs/d{at + 1}") for at in range(steps)}
        return {**of({"$ref": "#/$defs/d0"}), "$defs": {**links, f"d{steps}": leaf}}

    assert {level for _, level in found(chain(STRING), chain(INTEGER))} <= {"error", "warn"}
    assert found(chain(STRING), chain(INTEGER))
    assert found(chain(STRING), chain(STRING)) == []
