"""What two schemas mean, however they are written: as libraries do, with references, recursive, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from mcp_tape.compare.changes import ABSENT
from mcp_tape.compare.rules import RULES
from mcp_tape.compare.schemas import compare_input, compare_output
from tests.support.schemas import AB, CAT, DOG, INTEGER, STRING, Schema, an, of

# As the usual libraries write them.
PYDANTIC: Schema = {
    "$defs": {
        "Sort": {"enum": ["created", "updated"], "title": "Sort", "type": "string"},
        "Filter": {
            "properties": {
                "label": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Label"},
                "sort": {"$ref": "#/$defs/Sort", "default": "created"},
                "inner": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}], "default": None},
            },
            "title": "Filter",
            "type": "object",
        },
    },
    "properties": {
        "query": {"title": "Query", "type": "string"},
        "filter": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}], "default": None},
        "limit": {"default": 10, "maximum": 100, "minimum": 1, "title": "Limit", "type": "integer"},
    },
    "required": ["query"],
    "title": "search_issuesArguments",
    "type": "object",
}
ZOD: Schema = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
    },
    "required": ["query"],
    "additionalProperties": False,
    "$schema": "http://json-schema.org/draft-07/schema#",
}


def changed(schema: Schema, path: tuple[str, ...], value: Any) -> Schema:
    """The schema with another value at a path."""
    if not path:
        return value
    return {**schema, path[0]: changed(schema.get(path[0], {}), path[1:], value)}


def renamed() -> Schema:
    """The same class of another name, its own title included."""
    moved = {name.replace("Filter", "Narrow"): value for name, value in PYDANTIC["$defs"].items()}
    inner = {**moved["Narrow"]["properties"], "inner": {"anyOf": [{"$ref": "#/$defs/Narrow"}, {"type": "null"}]}}
    moved["Narrow"] = {**moved["Narrow"], "title": "Narrow", "properties": inner}
    given = {"anyOf": [{"$ref": "#/$defs/Narrow"}, {"type": "null"}]}
    return changed(changed(PYDANTIC, ("$defs",), moved), ("properties", "filter"), given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PYDANTIC, renamed()),
        (PYDANTIC, changed(PYDANTIC, ("title",), "find_issuesArguments")),
        (PYDANTIC, changed(PYDANTIC, ("properties", "filter"),
                           {"anyOf": [{"type": "null"}, PYDANTIC["$defs"]["Filter"]], "default": None})),
        (PYDANTIC, changed(PYDANTIC, ("properties", "query"), STRING)),
        (ZOD, {key: ZOD[key] for key in reversed(ZOD)}),
        (ZOD, changed(ZOD, ("properties", "labels", "propertyNames"), STRING)),
        (of({"$ref": "#/definitions/p%20q"}) | {"definitions": {"p q": STRING}}, of(STRING)),
        (of({"$ref": "#named"}) | {"$defs": {"x": {"$anchor": "named", **STRING}}}, of(STRING)),
        ({"$id": "https://example.com/s", **of({"$ref": "https://example.com/s#/$defs/x"}), "$defs": {"x": STRING}},
         of(STRING)),
        (of({"$ref": "#/properties/b", "maxLength": 3}) | {}, of({"$ref": "#/properties/b", "maxLength": 3})),
        (an({"a": {"$ref": "#/properties/b", "maxLength": 3}, "b": STRING}),
         an({"a": {**STRING, "maxLength": 3}, "b": STRING})),
        (of({"oneOf": [{"const": "x", "title": "X"}, {"const": "y", "title": "Y"}]}), of({"enum": ["y", "x"]})),
        (of({"anyOf": [CAT, {"anyOf": [DOG, {"type": "null"}]}]}), of({"anyOf": [DOG, CAT, {"type": "null"}]})),
        (of({"type": "array", "items": [STRING], "additionalItems": False}),
         of({"type": "array", "prefixItems": [STRING], "items": False})),
        (of(True), of({})),
        (of({"type": "boolean"}), of({"enum": [True, False]})),
        (of({"type": ["boolean", "null"]}), of({"enum": [None, False, True]})),
        (of({"type": "boolean"}), of({"oneOf": [{"const": True, "title": "Yes"}, {"const": False, "title": "No"}]})),
        (of({"type": ["boolean", "string"]}), of({"anyOf": [{"enum": [True, False]}, STRING]})),
        (of({"type": "null"}), of({"const": None})),
        (of({"type": "string", "enum": ["x", "y"]}), of({"enum": ["y", "x"]})),
        (of({"const": "x"}), of({"type": "string", "enum": ["x"]})),
        ({**STRING, "minLength": 3, "allOf": [{"minLength": 2}]}, {**STRING, "minLength": 3}),
    ],
)  # fmt: skip
def test_the_same_meaning_written_differently_is_no_change(old: Schema, new: Schema) -> None:
    for one, other in ((old, new), (new, old)):
        assert list(compare_input(one, other)) == []
        assert list(compare_output(one, other)) == []


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        (PYDANTIC, changed(PYDANTIC, ("$defs", "Sort", "enum"), ["created"]), {"input-enum-value-removed"}),
        (PYDANTIC, changed(PYDANTIC, ("properties", "filter"), {"$ref": "#/$defs/Filter"}),
         {"input-became-not-nullable"}),
        (PYDANTIC, changed(PYDANTIC, ("properties", "limit", "maximum"), 50), {"input-constraint-tightened"}),
        (PYDANTIC, changed(PYDANTIC, ("properties", "owner"), STRING), {"input-optional-property-added"}),
        (PYDANTIC, changed(PYDANTIC, ("$defs", "Filter", "required"), ["label"]), {"input-property-became-required"}),
        (ZOD, changed(ZOD, ("properties",), {k: v for k, v in ZOD["properties"].items() if k != "limit"}),
         {"input-property-removed"}),
        (ZOD, changed(ZOD, ("$schema",), "https://json-schema.org/draft/2020-12/schema"), {"schema-dialect-changed"}),
        (ZOD, changed(ZOD, ("properties", "labels", "additionalProperties"), INTEGER), {"input-type-changed"}),
        (ZOD, changed(ZOD, ("properties", "query", "description"), "Words"), {"input-property-description-changed"}),
    ],
)  # fmt: skip
def test_changes_of_real_looking_schemas_are_told_once(old: Schema, new: Schema, rules: set[str]) -> None:
    found = list(compare_input(old, new))
    assert {one.rule for one in found} == rules
    assert len({(one.rule, one.path) for one in found}) == len(found)


def test_an_output_schema_has_no_words_that_count() -> None:
    assert (
        list(compare_output(of({**STRING, "description": "One"}), of({"title": "Two", "default": "x", **STRING}))) == []
    )


def linked(name: str, value: Schema, *others: str) -> Schema:
    """A list of itself, or of definitions that lead back to it."""
    ring = [name, *others, name]
    definitions = {here: an({"value": value, "next": {"$ref": f"#/$defs/{there}"}}) for here, there in pairwise(ring)}
    return {"$ref": f"#/$defs/{name}", "$defs": definitions}


def unrolled(value: Schema, times: int) -> Schema:
    schema: Schema = linked("n", value)["$defs"]["n"]
    for _ in range(times):
        schema = an({"value": value, "next": schema})
    return schema | {"$defs": linked("n", value)["$defs"]}


@pytest.mark.parametrize(
    "other", [linked("m", STRING), linked("m", STRING, "k"), linked("a", STRING, "b", "c"), unrolled(STRING, 3)]
)
def test_recursive_schemas_are_the_same_however_they_are_rolled_up(other: Schema) -> None:
    assert list(compare_input(linked("n", STRING), other)) == []
    assert list(compare_input(other, linked("n", STRING))) == []
    assert "input-type-changed" in {one.rule for one in compare_input(other, linked("n", INTEGER))}


def deep(levels: int, leaf: Schema) -> Schema:
    return leaf if not levels else an({"a": deep(levels - 1, leaf)})


def wide(leaf: Schema, levels: int = 40) -> Schema:
    """Two to the power of many places, each of them the same."""
    definitions = {f"d{n}": an({"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}})
                   for n in range(levels)}  # fmt: skip
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": leaf}}


def crowded(leaf: Schema) -> Schema:
    return an({f"a{n}": {"type": "array", "items": leaf} for n in range(30_000)})


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(
    ("make", "rules"),
    [
        (lambda leaf: deep(150, leaf), {"input-schema-changed"}),
        (lambda leaf: wide(leaf, 30), {"input-type-changed"}),
        (crowded, {"input-schema-changed"}),
    ],
    ids=["deep", "wide", "crowded"],
)
def test_what_is_too_deep_or_too_large_is_changed_or_told_once(make: Any, rules: set[str]) -> None:
    assert {one.rule for one in compare_input(make(STRING), make(INTEGER))} == rules
    assert list(compare_input(make(STRING), make(STRING))) == []


def garbage() -> Iterator[Schema]:
    yield from ([], "x", 5, None, [{}], {"$ref": 5}, {"$ref": "#"}, {"$ref": "#/$defs/%"}, {"$ref": "#/x/-1"})
    yield from (
        {keyword: 7}
        for keyword in """properties required enum type items prefixItems anyOf oneOf allOf not if
        additionalProperties patternProperties propertyNames dependentRequired dependentSchemas dependencies minimum
        multipleOf pattern format contains $defs $anchor title description $schema exclusiveMinimum""".split()
    )
    yield from ({"allOf": [{"$ref": "#"}]}, {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, {"oneOf": []}, {"enum": []})
    yield {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    yield {"type": ["string", 5], "required": ["a", 5], "minimum": "1", "exclusiveMaximum": True, "multipleOf": 0}
    yield {"": True, "minLength": 10**400, "maxLength": -1, "multipleOf": 1e-300, "maximum": float("inf")}
    yield {"properties": {"a": 7, "b": [], "c": None}, "items": [7, []], "anyOf": [7, None], "if": 7, "then": []}


@pytest.mark.parametrize("schema", list(garbage()))
def test_what_is_no_schema_is_the_same_or_not(schema: Schema) -> None:
    assert list(compare_input(schema, schema)) == []
    for other in (True, {}, STRING, an(AB, "a"), {**an(AB), "anyOf": [CAT, DOG]}, linked("n", STRING), *garbage()):
        assert all(found.rule in RULES for found in compare_input(schema, other))
        assert all(found.rule in RULES for found in compare_output(other, schema))


@pytest.mark.parametrize("schema", [[], "x", {"properties": 7}, {"$ref": 5}, {"type": "text"}, {"required": True}])
def test_what_is_no_schema_differs_from_one_in_an_unknown_way(schema: Schema) -> None:
    assert "input-schema-changed" in {found.rule for found in compare_input(schema, {})}
    assert "output-schema-changed" in {found.rule for found in compare_output({}, schema)}


# What changes nothing --------------------------------------------------------------------------------------

CLOSED: Schema = {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False}
LIST: Schema = {"type": "array"}
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
# A schema, keywords that change nothing in it, and keywords like them that do.
MOOT: list[tuple[Schema, Schema, Schema]] = [
    ({**STRING, "pattern": EMAIL}, {"minLength": 1}, {"minLength": 2}),
    ({"enum": ["ab", "abc"]}, {"minLength": 2}, {"minLength": 3}),
    ({"enum": ["ab", "abc"]}, {"maxLength": 3}, {"maxLength": 2}),
    ({"enum": ["ab", "abc"]}, {"pattern": "^a"}, {"pattern": "c$"}),
    ({"enum": [4, 8]}, {"minimum": 4}, {"minimum": 5}),
    ({"enum": [4, 8]}, {"exclusiveMinimum": 3}, {"exclusiveMinimum": 4}),
    ({"enum": [4, 8]}, {"maximum": 8}, {"maximum": 7}),
    ({"enum": [4, 8]}, {"multipleOf": 2}, {"multipleOf": 8}),
    ({"enum": [[1], [1, 2]]}, {"minItems": 1}, {"minItems": 2}),
    ({"enum": [[1], [1, 2]]}, {"uniqueItems": True}, {"maxItems": 1}),
    ({"enum": [[1], [1, 1]]}, {"maxItems": 2}, {"uniqueItems": True}),
    ({"type": "object", "required": ["a"]}, {"minProperties": 1}, {"minProperties": 2}),
    ({"type": "object", "required": ["a"]}, {"dependentRequired": {"b": ["a"]}}, {"dependentRequired": {"a": ["b"]}}),
    (CLOSED, {"maxProperties": 2}, {"maxProperties": 1}),
    (CLOSED, {"propertyNames": {"maxLength": 1}}, {"propertyNames": {"maxLength": 0}}),
    (CLOSED, {"propertyNames": {"pattern": "^[ab]$"}}, {"propertyNames": {"pattern": "^[bc]$"}}),
    (CLOSED, {"propertyNames": {"enum": ["a", "b", "c"]}}, {"propertyNames": {"enum": ["a", "c"]}}),
    (STRING, {"not": {"type": "null"}}, {"not": {"minLength": 3}}),
    (STRING, {"not": {"const": None}}, {"not": {"const": "a"}}),
    (STRING, {"not": {"type": "integer", "minimum": 3}}, {"not": {"type": "string", "maxLength": 3}}),
    (STRING, {"pattern": ".*"}, {"pattern": ".+"}),
    ({**LIST, "maxItems": 1}, {"uniqueItems": True}, {"minItems": 1}),
    ({**LIST, "prefixItems": [{}], "items": False}, {"maxItems": 1}, {"maxItems": 0}),
    ({**LIST, "prefixItems": [{}], "items": False}, {"uniqueItems": True}, {"minItems": 1}),
]


@pytest.mark.parametrize("compare", [compare_input, compare_output])
@pytest.mark.parametrize(("schema", "more", "less"), MOOT, ids=str)
def test_a_limit_that_follows_from_the_rest_changes_nothing(
    compare: Any, schema: Schema, more: Schema, less: Schema
) -> None:
    assert [*compare(of(schema), of({**schema, **more}))] == []
    assert [*compare(of({**schema, **more}), of(schema))] == []
    there, back = compare(of(schema), of({**schema, **less})), compare(of({**schema, **less}), of(schema))
    assert any((one.level or RULES[one.rule].level) in ("error", "warn") for one in [*there, *back])


def test_a_pattern_that_gives_way_to_a_limit_is_only_gone() -> None:
    old, new = of({**STRING, "pattern": EMAIL}), of({**STRING, "minLength": 1})
    assert [one.rule for one in compare_input(old, new)] == ["input-pattern-removed"]


@pytest.mark.parametrize(("one", "other"), [(100, 100.0), ([1.0, 2], [1, 2.0]), ({"a": 1}, {"a": 1.0})], ids=str)
def test_a_default_is_the_same_however_its_numbers_are_written(one: Any, other: Any) -> None:
    assert [*compare_input(of({"default": one}), of({"default": other}))] == []
    assert [*compare_input(of({"default": one}), of({"default": 1.5}))] != []


# Conditions -------------------------------------------------------------------------------------------------


def within(keyword: str, most: int) -> Schema:
    """A schema in which a limit holds in one case of a condition."""
    consequences = {"then": {"properties": {"n": {"maximum": 9}}}, keyword: {"properties": {"n": {"maximum": most}}}}
    return an({"n": INTEGER}, **{"if": {"required": ["a"]}}, **consequences)


@pytest.mark.parametrize("keyword", ["then", "else"])
def test_both_consequences_of_a_condition_are_compared(keyword: str) -> None:
    (found,) = compare_input(within(keyword, 8), within(keyword, 7))
    assert (found.rule, found.path) == ("input-constraint-tightened", (keyword, "properties", "n", "maximum"))


def test_a_condition_with_no_consequence_but_the_other_one_counts() -> None:
    alone = an({}, **{"if": {"required": ["a"]}, "else": {"required": ["b"]}})
    assert [found.rule for found in compare_input(an({}), alone)] == ["input-if-then-added"]


def test_one_condition_is_shown_as_it_is_and_several_as_a_list() -> None:
    one, other = {"minLength": 1}, {"maxLength": 5}
    (found,) = compare_input(of(STRING), of({**STRING, "not": one}))
    assert found.after == one
    (found,) = compare_input(of(STRING), of({**STRING, "allOf": [{"not": one}, {"not": other}]}))
    assert found.after == [one, other]
    (found,) = compare_input(of({**STRING, "not": one}), of(STRING))
    assert (found.before, found.after) == (one, ABSENT)
