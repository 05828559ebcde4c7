"""Alternatives that accept values which another one no longer accepts, and alternatives that used to be one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mcp_tape.compare.changes import Difference
from mcp_tape.compare.rule_table import RULES
from mcp_tape.compare.schemas import compare_input, compare_output
from tests.support.schemas import INTEGER, STRING, Schema, an, of

OBJECT: Schema = {"type": "object"}
NUMBER: Schema = {"type": "number"}


def closed(*names: str) -> Schema:
    return an(dict.fromkeys(names, STRING), additionalProperties=False)


def kind(*values: str, **more: Schema) -> Schema:
    return an({"k": {"enum": list(values)} if len(values) > 1 else {"const": values[0]}, **more}, "k")


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def one(*schemas: Schema) -> Schema:
    return {"oneOf": list(schemas)}


def grave(found: Iterable[Difference]) -> list[tuple[str, str]]:
    levels = ((one.rule, one.level or RULES[one.rule].level) for one in found)
    return [(rule, level) for rule, level in levels if level != "info"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (closed("p", "q"), either(closed("p"), OBJECT)),
        (either(an({"v": NUMBER}, "v"), OBJECT), either(an({"v": INTEGER}, "v"), OBJECT)),
        (either(an({"v": NUMBER}, "v"), OBJECT), either(OBJECT, an({"v": INTEGER}, "v"))),
    ],
)
def test_values_that_another_alternative_accepts_are_reported_without_a_break(old: Schema, new: Schema) -> None:
    assert grave(compare_input(of(old), of(new))) == []
    assert "; another alternative takes it" in str([found.note for found in compare_input(of(old), of(new))])
    without = {"anyOf": [part for part in new["anyOf"] if part != OBJECT]}
    assert grave(compare_input(of(old), of(without))) != []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (kind("a", "b"), either(kind("a"), kind("b"))),
        (kind("a", "b"), one(kind("a"), kind("b"))),
        (kind("a", "b", "c"), one(kind("a", "c"), kind("b"))),
        (either(kind("a", "b"), kind("c")), either(kind("a"), kind("b"), kind("c"))),
        (an({"k": {"enum": ["a", "b"]}}), either(an({"k": {"const": "a"}}), an({"k": {"const": "b"}}))),
        (either(one(kind("a"), kind("b")), STRING), either(STRING, kind("a"), kind("b"))),
    ],
)
def test_values_divided_among_alternatives_are_the_same_and_back(old: Schema, new: Schema) -> None:
    for before, after in ((of(old), of(new)), (of(new), of(old))):
        assert list(compare_input(before, after)) == list(compare_output(before, after)) == []


def test_a_value_that_no_alternative_takes_is_gone() -> None:
    old, new = of(kind("a", "b", "c")), of(one(kind("a"), kind("b")))
    assert [(found.rule, found.note) for found in compare_input(old, new)] == [
        ("input-one-of-removed", 'alternative is gone (k "c")')
    ]
    assert grave(compare_output(old, new)) == grave(compare_input(new, old)) == []
    assert grave(compare_output(new, old)) == [("output-one-of-added", "error")]


def test_requirements_of_one_divided_alternative_are_found() -> None:
    new = one(kind("a"), an({"k": {"const": "b"}, "x": STRING}, "k", "x"))
    assert grave(compare_input(of(kind("a", "b", x=STRING)), of(new))) == [
        ("input-property-removed", "warn"),
        ("input-property-became-required", "error"),
    ]


def test_exclusive_alternatives_in_others_are_compared_with_those_that_they_were() -> None:
    narrowed = an({"k": {"const": "b"}, "u": STRING}, "k", "u")
    old, new = of(one(kind("a", u=STRING), kind("b", u=STRING))), of(either(one(kind("a", u=STRING), narrowed), STRING))
    assert [(found.rule, found.path[-1]) for found in compare_input(old, new)] == [
        ("input-property-became-required", "u"),
        ("input-type-widened", 1),
    ]
    assert grave(compare_input(new, old)) == [("input-any-of-removed", "error")]  # a string


@pytest.mark.parametrize("new", [OBJECT, {**OBJECT, "additionalProperties": {}}, {"additionalProperties": True}])
def test_an_object_that_takes_any_members_now_still_takes_those_it_knew(new: Schema) -> None:
    old = an({"name": STRING, "kind": STRING}, "name")
    found = [*compare_input(of(old), of(new))]
    assert [(one.rule, one.level) for one in found if "property" in one.rule] == [
        ("input-property-removed", "info")
    ] * 2
    assert grave(compare_input(of(either(kind("a", x=STRING), kind("b"))), of(new))) == []
    assert grave(compare_output(of(old), of(new))) != []


def test_a_tool_without_arguments_does_not_take_those_it_knew() -> None:
    old = an({"path": STRING, "dry_run": STRING}, "path")
    expected = [("input-property-removed", "error"), ("input-property-removed", "warn")]
    assert grave(compare_input(old, OBJECT)) == expected
    assert grave(compare_input(old, {**OBJECT, "additionalProperties": True})) == []


def test_an_impossible_value_cannot_be_lost() -> None:
    """Closed alternatives next to a member that they refuse."""
    impossible = {"allOf": [an({"name": STRING}, "name"), either(kind("a"), closed("b"))]}
    impossible["allOf"][1]["anyOf"][0]["additionalProperties"] = False
    for new in (OBJECT, STRING, an({"other": STRING}, "other")):
        assert grave(compare_input(of(impossible), of(new))) == []
    assert grave(compare_input(of(OBJECT), of(impossible))) != []
