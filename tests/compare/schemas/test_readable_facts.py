"""Descriptions that moved, definitions that are used in many places, and alternatives that others cover."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.compare.changes import ABSENT, Difference
from mcp_tape.compare.rule_table import RULES
from mcp_tape.compare.schemas import compare_input, compare_output
from tests.support.diffs import compared, tool, tools
from tests.support.schemas import INTEGER, STRING, Schema, an, of

NULL: Schema = {"type": "null"}
OBJECT: Schema = {"type": "object"}
ARRAY: Schema = {"type": "array", "items": {"type": "string"}}
SAID = {"description": "D"}


def either(*schemas: Schema, **more: Any) -> Schema:
    return {"anyOf": list(schemas), **more}


def judged(found: Difference) -> tuple[str, str]:
    return found.rule, found.level or RULES[found.rule].level


# Descriptions --------------------------------------------------------------------------------------------

MOVED = [
    ({"type": ["string", "null"], **SAID}, either({**STRING, **SAID}, NULL)),
    ({"type": ["string", "integer"], **SAID}, either({**STRING, **SAID}, INTEGER)),
    (
        either({**STRING, "pattern": "a"}, INTEGER, **SAID),
        either({**STRING, "pattern": "a", **SAID}, {**INTEGER, **SAID}),
    ),
    ({**an({"a": STRING}), **SAID}, {"allOf": [{**an({"a": STRING}), **SAID}]}),
]


@pytest.mark.parametrize(("one", "other"), MOVED)
def test_a_description_that_moves_into_an_alternative_or_out_of_it_is_the_same(one: Schema, other: Schema) -> None:
    assert list(compare_input(of(one), of(other))) == []
    assert list(compare_input(of(other), of(one))) == []


@pytest.mark.parametrize(("one", "other"), MOVED)
def test_a_description_that_changes_while_it_moves_is_reported(one: Schema, other: Schema) -> None:
    changed = {**one, "description": "Another"}
    assert "input-property-description-changed" in [found.rule for found in compare_input(of(changed), of(other))]
    assert "input-property-description-changed" in [found.rule for found in compare_input(of(other), of(changed))]


def test_a_description_that_moves_to_another_argument_is_reported() -> None:
    found = list(compare_input(an({"a": {**STRING, **SAID}, "b": STRING}), an({"a": STRING, "b": {**STRING, **SAID}})))
    assert [one.path for one in found] == [("properties", "a", "description"), ("properties", "b", "description")]


# Definitions ---------------------------------------------------------------------------------------------

POINT = {**an({"x": {**INTEGER, "description": "Across."}}), "description": "A point."}


def defined(schema: Schema, **definitions: Schema) -> Schema:
    return {**schema, "$defs": definitions}


def using(*names: str, **definitions: Schema) -> Schema:
    return defined(an({name: {"$ref": "#/$defs/point"} for name in names}), **definitions)


def test_a_new_part_is_shown_with_the_definition_that_it_refers_to() -> None:
    new = using("a", point=POINT)
    changes = compared(tools(tool(inputSchema=an({}))), tools(tool(inputSchema=new))).changes
    assert [(one.rule, one.after) for one in changes] == [("input-optional-property-added", POINT)]


def test_siblings_of_a_reference_stay_and_recursion_is_shown_once() -> None:
    tree = an({"left": {"$ref": "#/$defs/point"}, "right": {"$ref": "#/$defs/elsewhere"}})
    old, new = an({}), defined(an({"a": {"$ref": "#/$defs/point", "description": "Mine."}}), point=tree)
    (found,) = compare_input(old, new)
    assert found.after == {**tree, "description": "Mine."}


def test_many_references_are_written_out_in_bounded_size() -> None:
    definitions = {
        f"d{at}": an({"a": {"$ref": f"#/$defs/d{at + 1}"}, "b": {"$ref": f"#/$defs/d{at + 1}"}}) for at in range(99)
    }
    (found,) = compare_input(an({}), defined(an({"a": {"$ref": "#/$defs/d0"}}), **definitions))
    assert 500 < len(str(found.after)) < 5_000


def test_a_text_written_once_is_reported_once_wherever_it_is_used() -> None:
    old, new = (using(*"abc", point=point) for point in (an({"x": INTEGER}), POINT))
    found = sorted((one.after, one.note) for one in compare_input(old, new))
    note = "the description differs, in 3 places"
    assert found == [("A point.", note), ("Across.", note)]


def test_a_text_written_in_several_places_is_reported_for_each() -> None:
    old, new = (an(dict.fromkeys("ab", point)) for point in (an({"x": INTEGER}), {**an({"x": INTEGER}), **SAID}))
    assert [one.path[1] for one in compare_input(old, new)] == ["a", "b"]


# Alternatives --------------------------------------------------------------------------------------------

CAT, DOG = ({**an({name: STRING}, name), "description": name} for name in ("cat", "dog"))


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        (either(STRING, an({"a": STRING})), either(STRING, ARRAY), "object → array"),
        (an({"a": STRING}), either({**STRING, "pattern": "a"}, {**ARRAY, "items": STRING}), "object → array or string"),
        (either(CAT, DOG), STRING, "object → string"),
    ],
)
def test_a_type_in_the_place_of_another_is_one_break_and_nothing_narrower(old: Schema, new: Schema, note: str) -> None:
    (of_results,), (of_arguments,) = compare_output(of(old), of(new)), compare_input(of(old), of(new))
    assert (*judged(of_results), of_results.note) == ("output-any-of-added", "error", note)
    assert (*judged(of_arguments), of_arguments.note) == ("input-any-of-removed", "error", note)
    assert of_results.before and of_results.after


def test_alternatives_of_one_type_are_lost_and_gained() -> None:
    old, new = of(either(STRING, CAT)), of(either(STRING, DOG))
    assert {judged(one) for one in compare_output(old, new)} == {
        ("output-type-narrowed", "info"),
        ("output-any-of-added", "error"),
    }


@pytest.mark.parametrize(
    ("old", "new", "of_arguments", "of_results"),
    [
        # Alternatives that only named members, when any member is accepted now, or was before.
        (either(an({"a": STRING}), an({"b": STRING})), OBJECT,
         ("input-constraint-loosened", "info"), ("output-constraint-loosened", "warn")),
        (OBJECT, either(an({"a": STRING}), an({"b": STRING})),
         ("input-all-of-added", "info"), ("output-constraint-tightened", "info")),
        # Values that another alternative accepts.
        (either(CAT, DOG), an({"cat": STRING, "dog": STRING}),
         ("input-any-of-removed", "info"), ("output-type-narrowed", "info")),
    ],
)  # fmt: skip
def test_alternatives_are_reported_even_if_nothing_breaks_without_them(
    old: Schema, new: Schema, of_arguments: tuple[str, str], of_results: tuple[str, str]
) -> None:
    assert of_arguments in map(judged, compare_input(of(old), of(new)))
    assert of_results in map(judged, compare_output(of(old), of(new)))


def test_their_texts_are_reported_with_them() -> None:
    old, new = of(either(CAT, DOG)), of(an({"cat": STRING, "dog": STRING}))
    changes = compared(tools(tool(inputSchema=old)), tools(tool(inputSchema=new))).changes
    assert [one.before for one in changes if one.rule == "input-any-of-removed"] == [DOG]
    assert "schema-text-changed" not in [one.rule for one in changes]


def test_alternatives_without_own_texts_are_not_reported() -> None:
    silent = ({keyword: value for keyword, value in one.items() if keyword != "description"} for one in (CAT, DOG))
    found = list(compare_input(of(either(*silent)), of(an({"cat": STRING, "dog": STRING}))))
    assert "input-any-of-removed" not in [one.rule for one in found]
    assert not [one for one in found if one.before is ABSENT is one.after]
