"""Differences between two schemas, rule by rule, and equivalent schemas that are written differently."""

from __future__ import annotations

import pytest

from mcp_tape.compare.changes import ABSENT, Difference
from mcp_tape.compare.rule_table import RULES
from mcp_tape.compare.schemas import compare_input, compare_output
from tests.support.schemas import AB, CAT, DOG, INTEGER, STRING, Schema, an, of

NUMBER: Schema = {"type": "number"}
NULLABLE: Schema = {"anyOf": [STRING, {"type": "null"}]}


def closed(properties: dict[str, Schema], *required: str) -> Schema:
    return an(properties, *required, additionalProperties=False)


OLDER, NEWER = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"
PAIR: Schema = {"type": "array", "prefixItems": [STRING]}
REFERS: Schema = {"$ref": "#/$defs/x", "maxLength": 3}
NAMED: Schema = an({"prefixItems": STRING, "dependencies": STRING})  # names, and no keywords
THEN: Schema = {"if": {"required": ["a"]}, "then": {"required": ["b"]}}
ELSE: Schema = {"if": {"required": ["b"]}, "then": {"required": ["a"]}}

# A rule, an old and a new schema, and whether the rule is found between them.
CASES: list[tuple[str, Schema, Schema, bool]] = [
    ("input-required-property-added", an({}), an({"a": STRING}, "a"), True),
    ("input-required-property-added", an({}), an({"a": {**STRING, "default": "x"}}, "a"), True),
    ("input-required-property-added", an({}), an({"a": STRING}), False),
    ("input-required-property-added", of(STRING), an({"a": STRING}, "a"), False),
    ("input-property-became-required", of(STRING), an({"a": STRING}, "a"), True),
    ("input-property-became-required", of(STRING), {**of(STRING), "allOf": [{"required": ["a"]}]}, True),
    ("input-property-became-required", an({"a": STRING}, "a"), of(STRING), False),
    ("input-property-removed", an(AB), of(STRING), True),
    ("input-property-removed", closed(AB), closed({"a": STRING}), True),
    ("input-property-removed", of(STRING), an(AB), False),
    ("input-property-removed", an(AB), an({"a": STRING}, allOf=[{"properties": {"b": STRING}}]), False),
    ("input-optional-property-added", of(STRING), an(AB), True),
    ("input-optional-property-added", of(STRING), an(AB, "b"), False),
    ("input-property-became-optional", an({"a": STRING}, "a"), of(STRING), True),
    ("input-property-became-optional", of(STRING), an({"a": STRING}, "a"), False),
    ("input-type-changed", of(STRING), of(INTEGER), True),
    ("input-type-changed", of({"type": ["string", "integer"]}), of({"type": ["string", "boolean"]}), True),
    ("input-type-changed", of(INTEGER), of(NUMBER), False),
    ("input-type-changed", of(STRING), of({"type": ["string"]}), False),
    ("input-type-narrowed", of(NUMBER), of(INTEGER), True),
    ("input-type-narrowed", of({}), of(STRING), True),
    ("input-type-narrowed", of({"anyOf": [STRING, INTEGER]}), of(STRING), True),
    ("input-type-narrowed", of(STRING), of(False), True),
    ("input-type-narrowed", of({"const": "x"}), of({"const": "x", "enum": ["y"]}), True),
    ("input-type-narrowed", of({"anyOf": [STRING, {"type": "array"}]}),
     of({"anyOf": [STRING, {"type": "array", "items": STRING}]}), True),
    ("input-type-narrowed", of(NULLABLE), of(STRING), False),
    ("input-type-narrowed", of({"type": ["string", "integer"]}), of({"anyOf": [INTEGER, STRING]}), False),
    ("input-became-not-nullable", of(NULLABLE), of(STRING), True),
    ("input-became-not-nullable", of({**STRING, "nullable": True}), of(STRING), True),
    ("input-became-not-nullable", of({"enum": ["x", None]}), of({"enum": ["x"]}), True),
    ("input-became-not-nullable", of({"anyOf": [CAT, DOG, {"type": "null"}]}), of({"anyOf": [CAT, DOG]}), True),
    ("input-became-not-nullable", of({"anyOf": [CAT, {"type": "null"}]}), of({"oneOf": [NULLABLE, {"type": "null"}]}),
     True),
    ("input-became-not-nullable", of(NULLABLE), of({"type": ["null", "string"]}), False),
    ("input-type-widened", of(INTEGER), of(NUMBER), True),
    ("input-type-widened", of(STRING), of(NULLABLE), True),
    ("input-type-widened", of(CAT), of({"anyOf": [CAT, DOG]}), True),
    ("input-type-widened", of(NUMBER), of(INTEGER), False),
    ("input-enum-value-removed", of({"enum": ["x", "y"]}), of({"enum": ["y"]}), True),
    ("input-enum-value-removed", of({"oneOf": [{"const": "x"}, {"const": "y"}]}), of({"const": "y"}), True),
    ("input-enum-value-removed", of({"enum": ["x", "y"]}), of({"enum": ["y", "x", "z"]}), False),
    ("input-enum-value-removed", of({"enum": [1, 2]}), of({"enum": [2.0, 1]}), False),
    ("input-became-enum", of(STRING), of({"enum": ["x", "y"]}), True),
    ("input-became-enum", of({"enum": ["x"]}), of({"enum": ["x", "y"]}), False),
    ("input-became-enum", of(INTEGER), of({"enum": ["x", "y"]}), False),
    ("input-const-added", of(STRING), of({"const": "x"}), True),
    ("input-const-added", of({"enum": ["x"]}), of({"const": "x"}), False),
    ("input-enum-value-added", of({"enum": ["x"]}), of({"enum": ["x", "y"]}), True),
    ("input-enum-value-added", of({"enum": ["x", "y"]}), of(STRING), True),
    ("input-enum-value-added", of({"enum": ["x", "y"]}), of({"enum": ["x"]}), False),
    ("input-constraint-tightened", of({**INTEGER, "minimum": 1}), of({**INTEGER, "minimum": 5}), True),
    ("input-constraint-tightened", of({**NUMBER, "maximum": 5}), of({**NUMBER, "exclusiveMaximum": 5}), True),
    ("input-constraint-tightened", of({**INTEGER, "multipleOf": 2}), of({**INTEGER, "multipleOf": 6}), True),
    ("input-constraint-tightened", of({**INTEGER, "multipleOf": 4}), of({**INTEGER, "multipleOf": 6}), True),
    ("input-constraint-tightened", of({**STRING, "maxLength": 9}), of({**STRING, "maxLength": 8}), True),
    ("input-constraint-tightened", of({**INTEGER, "minimum": 1}), of({**INTEGER, "exclusiveMinimum": 0}), False),
    ("input-constraint-tightened", of({**INTEGER, "minimum": 0, "exclusiveMinimum": True}),
     of({**INTEGER, "exclusiveMinimum": 0}), False),
    ("input-constraint-tightened", of({**NUMBER, "multipleOf": 0.1}), of({**NUMBER, "multipleOf": 0.01}), False),
    ("input-constraint-set", of(STRING), of({**STRING, "minLength": 1}), True),
    ("input-constraint-set", of({"type": "array"}), of({"type": "array", "uniqueItems": True}), True),
    ("input-constraint-set", an({}), an({}, maxProperties=3), True),
    ("input-constraint-set", of(INTEGER), of({**INTEGER, "multipleOf": 5}), True),
    ("input-constraint-set", of(STRING), of({**STRING, "minLength": 0, "minimum": 5}), False),
    ("input-constraint-set", of(INTEGER), of({**INTEGER, "multipleOf": 1}), False),
    ("input-constraint-loosened", of({**STRING, "maxLength": 8}), of({**STRING, "maxLength": 9}), True),
    ("input-constraint-loosened", of({**STRING, "maxLength": 8}), of(STRING), True),
    ("input-constraint-loosened", an(AB, **{"not": {"required": ["a"]}}), an(AB), True),
    ("input-constraint-loosened", of({**STRING, "maxLength": 9}), of({**STRING, "maxLength": 8}), False),
    ("input-pattern-added", of(STRING), of({**STRING, "pattern": "^x"}), True),
    ("input-pattern-added", of(STRING), of({**STRING, "format": "uri"}), True),
    ("input-pattern-added", of(INTEGER), of({**INTEGER, "format": "int64"}), False),
    ("input-pattern-added", of({**STRING, "pattern": "^x"}), of({**STRING, "pattern": "^y"}), False),
    ("input-pattern-changed", of({**STRING, "pattern": "^x"}), of({**STRING, "pattern": "^y"}), True),
    ("input-pattern-changed", of({**STRING, "pattern": "^x"}), of({"allOf": [STRING, {"pattern": "^x"}]}), False),
    ("input-pattern-removed", of({**STRING, "pattern": "^x"}), of(STRING), True),
    ("input-pattern-removed", of(STRING), of({**STRING, "pattern": "^x"}), False),
    ("input-additional-properties-forbidden", an({}), closed({}), True),
    ("input-additional-properties-forbidden", an({}), an({}, additionalProperties=STRING), True),
    ("input-additional-properties-forbidden", an({}), an({}, unevaluatedProperties=False), True),
    ("input-additional-properties-forbidden", an({}, patternProperties={"^x": STRING}, additionalProperties=False),
     closed({}), True),
    ("input-additional-properties-forbidden", an({}), an({}, additionalProperties=True), False),
    ("input-additional-properties-forbidden", closed({}), an({}), False),
    ("input-additional-properties-allowed", closed({}), an({}), True),
    ("input-additional-properties-allowed", an({}), an({}, additionalProperties={}), False),
    ("input-any-of-removed", of({"anyOf": [CAT, DOG]}), of({"anyOf": [DOG]}), True),
    ("input-any-of-removed", of({"anyOf": [CAT, DOG]}), of({"anyOf": [DOG, CAT, STRING]}), False),
    ("input-any-of-removed", of({"anyOf": [INTEGER, CAT, {"type": "number"}]}),
     of({"anyOf": [CAT, {"type": "number"}]}), False),
    ("input-one-of-removed", of({"oneOf": [CAT, DOG]}), of(DOG), True),
    ("input-one-of-removed", of({"oneOf": [INTEGER, CAT]}), of({"oneOf": [INTEGER, CAT, {"type": "number"}]}), True),
    ("input-one-of-removed", of({"oneOf": [CAT, DOG]}), of({"oneOf": [DOG, CAT, STRING]}), False),
    ("input-one-of-removed", of({"oneOf": [CAT, DOG]}), of({"anyOf": [DOG, CAT]}), False),
    ("input-all-of-added", of(STRING), of({**STRING, "not": {"const": "x"}}), True),
    ("input-all-of-added", an(AB), an(AB, allOf=[{"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}]), True),
    ("input-all-of-added", of({"type": "array"}), of({"type": "array", "contains": STRING}), True),
    ("input-all-of-added", an(AB), an({}, allOf=[of(STRING), {"properties": {"b": STRING}}]), False),
    ("input-all-of-added", of(STRING), of({**STRING, "anyOf": [{}, {"minLength": 2}]}), False),
    ("input-if-then-added", an(AB), an(AB, **THEN), True),
    ("input-if-then-added", an(AB, **THEN), an(AB, allOf=[THEN]), False),
    ("input-dependent-required-added", an(AB), an(AB, dependentRequired={"a": ["b"]}), True),
    ("input-dependent-required-added", an(AB, dependencies={"a": ["b"]}), an(AB, dependentRequired={"a": ["b"]}),
     False),
    ("input-schema-changed", an(AB, **THEN), an(AB, **ELSE), True),
    ("input-schema-changed", of({"not": {"minLength": 1}}), of({"not": {"minLength": 2}}), True),
    ("input-type-changed", of({"not": STRING}), of({"not": INTEGER}), True),
    ("input-additional-properties-forbidden", an({}), an({"a": False}), True),
    ("input-schema-changed", of({"$ref": "https://example.com/a"}), of({"$ref": "https://example.com/b"}), True),
    ("input-schema-changed", of({"$ref": "#/$defs/nowhere"}), of(STRING), True),
    ("input-schema-changed", of(7), of(8), True),
    ("input-schema-changed", of({"$ref": "https://example.com/a"}), of({"$ref": "https://example.com/a", "x": 1}),
     False),
    ("input-schema-changed", of({"not": {"enum": ["x", "y"]}}), of({"not": {"enum": ["y", "x"]}}), False),
    ("input-default-changed", of({**STRING, "default": "x"}), of({**STRING, "default": "y"}), True),
    ("input-default-changed", of(STRING), of({**STRING, "default": "y"}), True),
    ("input-default-changed", of(NULLABLE), of({**NULLABLE, "default": None}), False),
    ("input-default-changed", an({"a": STRING}, "a"), of({**STRING, "default": "y"}), False),
    ("input-header-mapping-changed", of({**STRING, "x-mcp-header": "A"}), of({**STRING, "x-mcp-header": "B"}), True),
    ("input-header-mapping-changed", of({**STRING, "x-mcp-header": "A"}), of({"x-mcp-header": "A", **STRING}), False),
    ("schema-dialect-changed", {"$schema": "http://json-schema.org/draft-07/schema#"}, {}, True),
    ("schema-dialect-changed", {"$schema": "https://json-schema.org/draft/2020-12/schema"}, {"title": "x"}, False),
    ("schema-dialect-changed", {"$schema": "http://json-schema.org/draft-07/schema#"},
     {"$schema": "https://json-schema.org/draft-07/schema"}, False),
    ("input-property-description-changed", of({**STRING, "description": "1"}), of({**STRING, "description": "2"}),
     True),
    ("input-property-description-changed", of({**STRING, "title": "One"}), of({**STRING, "title": "Two"}), True),
    ("input-property-description-changed", of(STRING), of({**STRING, "title": "A"}), False),
    ("input-property-description-changed", an({}), of({**STRING, "description": "New"}), False),
    ("output-required-property-removed", an(AB, "b"), of(STRING), True),
    ("output-required-property-removed", an(AB), of(STRING), False),
    ("output-property-became-optional", an({"a": STRING}, "a"), of(STRING), True),
    ("output-property-became-optional", of(STRING), an({"a": STRING}, "a"), False),
    ("output-became-nullable", of(STRING), of(NULLABLE), True),
    ("output-became-nullable", of(NULLABLE), of(STRING), False),
    ("output-optional-property-removed", an(AB), of(STRING), True),
    ("output-optional-property-removed", an(AB, "b"), of(STRING), False),
    ("output-type-changed", of(STRING), of(INTEGER), True),
    ("output-type-changed", of(NUMBER), of(INTEGER), False),
    ("output-type-widened", of(INTEGER), of(NUMBER), True),
    ("output-type-widened", of(STRING), of({}), True),
    ("output-type-widened", of(NUMBER), of(INTEGER), False),
    ("output-type-narrowed", of(NUMBER), of(INTEGER), True),
    ("output-type-narrowed", of(STRING), an({"a": STRING}, "a"), True),
    ("output-type-narrowed", of(INTEGER), of(NUMBER), False),
    ("output-property-added", of(STRING), an(AB), True),
    ("output-property-added", closed({"a": STRING}), an({"a": STRING}), True),
    ("output-property-added", an(AB), of(STRING), False),
    ("output-enum-value-added", of({"enum": ["x"]}), of({"enum": ["x", "y"]}), True),
    ("output-enum-value-added", of({"enum": ["x", "y"]}), of(STRING), True),
    ("output-enum-value-added", of({"enum": ["x", "y"]}), of({"enum": ["x"]}), False),
    ("output-any-of-added", of(CAT), of({"anyOf": [DOG, CAT]}), True),
    ("output-any-of-added", of({"anyOf": [CAT, DOG]}), of({"anyOf": [DOG, CAT]}), False),
    ("output-one-of-added", of({"oneOf": [CAT, STRING]}), of({"oneOf": [STRING, CAT, DOG]}), True),
    ("output-one-of-added", of({"oneOf": [CAT, DOG]}), of({"oneOf": [DOG]}), False),
    ("output-constraint-loosened", of({**STRING, "maxLength": 8}), of({**STRING, "maxLength": 9}), True),
    ("output-constraint-loosened", of({**STRING, "pattern": "^x"}), of(STRING), True),
    ("output-constraint-loosened", an(AB, **THEN), an(AB), True),
    ("output-constraint-loosened", of({**STRING, "maxLength": 9}), of({**STRING, "maxLength": 8}), False),
    ("output-constraint-tightened", of({**STRING, "maxLength": 9}), of({**STRING, "maxLength": 8}), True),
    ("output-constraint-tightened", of(STRING), of({"enum": ["x", "y"]}), True),
    ("output-constraint-tightened", of({**STRING, "maxLength": 8}), of(STRING), False),
    ("output-schema-changed", of({**STRING, "pattern": "^x"}), of({**STRING, "pattern": "^y"}), True),
    ("output-schema-changed", of({"not": STRING}), of({"not": {"type": ["string"]}}), False),
]  # fmt: skip
_ELSEWHERE = {"output-schema-removed", "output-schema-added"}  # about the tool, not the schema


def compared(rule: str, old: Schema, new: Schema) -> list[Difference]:
    return list((compare_output if rule.startswith("output") else compare_input)(old, new))


@pytest.mark.parametrize(("rule", "old", "new", "expected"), CASES)
def test_a_rule_is_found_where_it_holds(rule: str, old: Schema, new: Schema, expected: bool) -> None:
    assert (rule in {found.rule for found in compared(rule, old, new)}) is expected


@pytest.mark.parametrize("expected", [True, False])
def test_every_rule_of_schemas_has_a_case(expected: bool) -> None:
    rules = {rule.id for rule in RULES.values() if rule.section.startswith(("Tool input", "Tool output"))}
    assert {rule for rule, _, _, found in CASES if found is expected} == rules - _ELSEWHERE


@pytest.mark.parametrize(
    ("rule", "old", "new", "level"),
    [
        ("input-required-property-added", an({}), an({"a": STRING}, "a"), None),
        ("input-required-property-added", an({}), an({"a": {**STRING, "default": "css"}}, "a"), "warn"),
        ("input-property-became-required", of(STRING), an({"a": STRING}, "a"), None),
        ("input-property-became-required", of(STRING), an({"a": {**STRING, "default": "css"}}, "a"), "warn"),
        ("input-property-removed", an(AB), of(STRING), "warn"),
        ("input-property-removed", an(AB, "a", "b"), an({"a": STRING}, "a"), None),
        ("input-property-removed", closed(AB), closed({"a": STRING}), None),
        ("input-property-removed", an(AB), an({"a": STRING}, additionalProperties=INTEGER), None),
        ("input-property-removed", an(AB), an({"a": STRING}, additionalProperties=STRING), "warn"),
        ("input-any-of-removed", of({"anyOf": [of(STRING), an({"b": STRING})]}), of({"anyOf": [of(STRING)]}), "warn"),
        ("input-any-of-removed", of({"anyOf": [CAT, DOG]}), of({"anyOf": [CAT]}), None),
        ("input-pattern-added", of(STRING), of({**STRING, "format": "email"}), None),
        ("input-pattern-added", of(STRING), of({**STRING, "format": "phone"}), "warn"),
        ("input-constraint-set", of(INTEGER), of({**INTEGER, "maximum": 2**53 - 1}), "info"),
        ("input-constraint-set", of(INTEGER), of({**INTEGER, "minimum": 1 - 2**53}), "info"),
        ("input-constraint-set", of(INTEGER), of({**INTEGER, "maximum": 2**31 - 1}), None),
        ("input-default-changed", of({**STRING, "default": "a,b"}), of({**STRING, "default": "b, a"}), "info"),
        ("input-default-changed", of({"default": ["a", "b"]}), of({"default": ["b", "a"]}), "info"),
        ("input-default-changed", of({**STRING, "default": "a,b"}), of({**STRING, "default": "a,c"}), None),
        ("input-default-changed", of({"default": ["a", "a"]}), of({"default": ["a"]}), None),
        ("output-constraint-loosened", of({**INTEGER, "maximum": 2**53 - 1}), of(INTEGER), "info"),
        ("schema-dialect-changed", {"$schema": OLDER, **of(STRING)}, {"$schema": NEWER, **of(STRING)}, "info"),
        ("schema-dialect-changed", {"$schema": OLDER, **of(PAIR)}, {"$schema": NEWER, **of(PAIR)}, None),
        ("schema-dialect-changed", {"$schema": OLDER, **of(REFERS)}, {"$schema": NEWER, **of(REFERS)}, None),
        ("schema-dialect-changed", {"$schema": OLDER, **NAMED}, {"$schema": NEWER, **NAMED}, "info"),
        ("output-property-added", of(STRING), an(AB), None),
        ("output-property-added", closed({"a": STRING}), closed(AB), "warn"),
        ("output-property-added", closed({"a": STRING}), of(STRING), "warn"),
    ],
)
def test_the_level_depends_on_other_allowed_members(rule: str, old: Schema, new: Schema, level: str | None) -> None:
    assert [found.level for found in compared(rule, old, new) if found.rule == rule] == [level]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (an({}), an({"owner": STRING}, "owner"),
         Difference("input-required-property-added", ("properties", "owner"), ABSENT, STRING,
                    "new required property (string)")),
        (of(STRING), of(INTEGER),
         Difference("input-type-changed", ("properties", "a", "type"), "string", "integer", "string → integer")),
        (of({"type": "array", "items": of({**INTEGER, "minimum": 1})}),
         of({"type": "array", "items": of({**INTEGER, "minimum": 5})}),
         Difference("input-constraint-tightened", ("properties", "a", "items", "properties", "a", "minimum"), 1, 5,
                    "minimum 1 → 5")),
        (of({"type": "array", "items": [STRING]}), of({"type": "array", "prefixItems": [INTEGER]}),
         Difference("input-type-changed", ("properties", "a", "prefixItems", 0, "type"), "string", "integer",
                    "string → integer")),
        (of({"$ref": "#/$defs/P"}) | {"$defs": {"P": an(AB)}},
         of({"$ref": "#/$defs/P"}) | {"$defs": {"P": an(AB, "b")}},
         Difference("input-property-became-required", ("properties", "a", "properties", "b"), False, True,
                    "optional → required")),
        (of({"enum": ["x", "y"]}), of({"enum": ["x"]}),
         Difference("input-enum-value-removed", ("properties", "a", "enum"), "y", ABSENT, '"y" is gone')),
        (of({"anyOf": [CAT, DOG]}), of({"anyOf": [DOG]}),
         Difference("input-any-of-removed", ("properties", "a", "anyOf", 0), CAT, ABSENT,
                    "alternative is gone (object)")),
        (of({"anyOf": [CAT, DOG]}), of({"anyOf": [DOG, an({"kind": {"const": "cat"}, "lives": STRING}, "kind")]}),
         Difference("input-type-changed", ("properties", "a", "anyOf", 1, "properties", "lives", "type"),
                    "integer", "string", "integer → string")),
        (an({}), closed({}),
         Difference("input-additional-properties-forbidden", ("additionalProperties",), ABSENT, False,
                    "other properties are refused")),
    ],
)  # fmt: skip
def test_one_change_is_one_finding_at_its_place(old: Schema, new: Schema, expected: Difference) -> None:
    assert list(compare_input(old, new)) == [expected]


def test_a_changed_definition_counts_for_both_members_that_refer_to_it() -> None:
    old = {**an({"a": {"$ref": "#/$defs/P"}, "b": {"$ref": "#/$defs/P"}}), "$defs": {"P": STRING}}
    new = {**old, "$defs": {"P": INTEGER}}
    assert [found.path[1] for found in compare_input(old, new)] == ["a", "b"]
