"""Renamed things: arguments, prompts, resources, and renames that are too doubtful to report."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.compare.renames import renames, spelling
from tests.support.diffs import Talk, compared, exchange, hello, tool, tools
from tests.support.schemas import an

CITY = {"type": "string", "description": "The city."}


def noted(old: Talk, new: Talk, rule: str) -> list[str]:
    return [change.note for change in compared(old, new).changes if change.rule == rule]


def taking(properties: Any) -> Talk:
    return tools(tool("t", inputSchema=an(properties)))


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ({"city_name": {}}, {"cityName": {}}, "probably cityName now"),
        ({"city": {**CITY, "title": "City"}}, {"place": {**CITY, "title": "Place"}}, "probably place now"),
        ({"city": CITY}, {"place": {**CITY, "type": "integer"}}, ""),
        ({"city": {"type": "string"}}, {"place": {"type": "string"}}, ""),  # any text has this schema
        ({"a": CITY, "b": CITY}, {"place": CITY}, ""),
        ({"a": CITY}, {"b": CITY, "c": CITY}, ""),
        ({"city": CITY}, {"pl\u0430ce": CITY}, "probably pl\\u0430ce now"),
    ],
)
def test_a_renamed_argument_is_reported(old: Any, new: Any, note: str) -> None:
    first, *_ = noted(taking(old), taking(new), "input-property-removed")
    assert first.partition("; ")[2] == note


def offering(**prompt: Any) -> Talk:
    declared = hello(capabilities={"prompts": {}, "resources": {}})
    return [declared, exchange("prompts/list", {}, {"prompts": [prompt]})]


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ({"name": "simple_prompt"}, {"name": "simple-prompt"}, "probably simple-prompt now"),
        ({"name": "a", "description": "Plans."}, {"name": "b", "description": "Plans."}, "probably b now"),
        ({"name": "a"}, {"name": "b"}, ""),
        ({"name": "a", "description": "Plans."}, {"name": "b", "description": "Packs."}, ""),
    ],
)
def test_a_renamed_prompt_is_reported(old: Any, new: Any, note: str) -> None:
    assert noted(offering(**old), offering(**new), "prompt-removed") == [note]


def test_a_renamed_argument_of_a_prompt_is_reported() -> None:
    old, new = ({"name": "p", "arguments": [{"name": name}]} for name in ("home_town", "homeTown"))
    assert noted(offering(**old), offering(**new), "prompt-argument-removed") == ["probably homeTown now"]


def test_a_likeness_that_says_nothing_pairs_nothing() -> None:
    assert renames({"_": 1}, {"-": 1}, (spelling,)) == {}
    assert renames({"a": 1, "b": 1}, {"c": 1}, (lambda name, thing: thing,)) == {}
    assert renames({"a": 1, "kept": 1}, {"c": 1, "kept": 2}, (lambda name, thing: thing,)) == {"a": "c"}
