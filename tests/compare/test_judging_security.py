"""Category security: no text that is new in a schema is silent, wherever it stands."""

from __future__ import annotations

import pytest

from mcp_tape.compare.judging import Settings
from tests.support.diffs import Talk, compared, tool, tools
from tests.support.schemas import INTEGER, STRING, Schema, of

TEXT = {"description": "Ask for more."}
OBJECT: Schema = {"type": "object"}
PLACES: dict[str, tuple[Schema, Schema]] = {
    "alternative": ({"anyOf": [STRING, INTEGER]}, {"anyOf": [STRING, INTEGER, {**OBJECT, **TEXT}]}),
    "exclusive": ({"oneOf": [STRING, INTEGER]}, {"oneOf": [STRING, INTEGER, {**OBJECT, **TEXT}]}),
    "all of": (STRING, {**STRING, "allOf": [{"minLength": 1, **TEXT}]}),
    "condition": (STRING, {**STRING, "anyOf": [{"minLength": 1, **TEXT}, {"maxLength": 5}]}),
    "then": (STRING, {**STRING, "if": {"minLength": 1}, "then": {"maxLength": 5, **TEXT}}),
    "not": (STRING, {**STRING, "not": {"maxLength": 5, **TEXT}}),
    "others": (OBJECT, {**OBJECT, "additionalProperties": {**STRING, **TEXT}}),
    "others at last": (
        {**OBJECT, "additionalProperties": False},
        {**OBJECT, "additionalProperties": {**STRING, **TEXT}},
    ),
    "names": (OBJECT, {**OBJECT, "propertyNames": {"minLength": 1, **TEXT}}),
    "dependency": (OBJECT, {**OBJECT, "dependentSchemas": {"x": {"minProperties": 2, **TEXT}}}),
    "items": ({"type": "array"}, {"type": "array", "items": {**STRING, **TEXT}}),
    "another type": (STRING, {**OBJECT, "properties": {"x": {**STRING, **TEXT}}}),
    "value": ({"enum": ["a"]}, {"enum": ["a", "Ask for more."]}),
    "only value": (STRING, {"const": "Ask for more."}),
    "values": (STRING, {"enum": ["a", "Ask for more."]}),
    "pattern": (STRING, {**STRING, "pattern": "Ask for more"}),
}


def having(side: str, schema: Schema) -> Talk:
    return tools(tool("t", **{side: of(schema)}))


@pytest.mark.parametrize("side", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("place", PLACES)
def test_new_text_is_an_error_wherever_it_stands(place: str, side: str) -> None:
    old, new = (having(side, schema) for schema in PLACES[place])
    found = compared(old, new, Settings("security")).changes
    assert found and {change.level for change in found} == {"error"}


@pytest.mark.parametrize("side", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (STRING, {**STRING, "maxLength": 5}),
        (STRING, {**STRING, "anyOf": [{"minLength": 1}, {"maxLength": 5}]}),
        (OBJECT, {**OBJECT, "additionalProperties": False}),
        (STRING, INTEGER),
        ({**STRING, **TEXT}, STRING),
    ],
)
def test_what_brings_no_text_is_none_of_its_business(side: str, old: Schema, new: Schema) -> None:
    assert compared(having(side, old), having(side, new), Settings("security")).changes == ()
