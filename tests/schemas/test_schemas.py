"""The published schemas: each stands alone, and fits everything of its shape; see `tests/support/json_schemas.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator, ValidationError

from mcp_tape.cli import cli
from mcp_tape.schemas import read_schema, schema_names
from tests.support.json_schemas import OF_COMMAND, validate, validate_output
from tests.support.promises import CASSETTES, ROOT
from tests.support.reading import invoke

STUBS = [
    {"tool": "search", "arguments": {"q": "x"}, "result": "three hits"},
    {"method": "tools/list", "params": {}, "error": {"code": -32000, "message": "no"}},
    {"lock": "mcp.lock"},
]


@pytest.mark.parametrize("name", schema_names())
def test_a_schema_is_printed_whole(name: str) -> None:
    printed = json.loads(invoke("schema", name).stdout)
    assert printed == read_schema(name)
    Draft202012Validator.check_schema(printed)
    references = {one for one in _members(printed, "$ref") if not one.startswith("#")}
    assert references <= set(_members(printed, "$id"))


def _members(value: Any, name: str) -> list[str]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value[name]] if isinstance(value, dict) and name in value else []
    return own + [one for each in inside for one in _members(each, name)]


def test_without_a_name_all_are_listed() -> None:
    listed = invoke("schema").stdout.splitlines()
    assert [line.split()[0] for line in listed] == schema_names()


def test_an_unknown_name_is_refused_with_those_that_are_there() -> None:
    done = invoke("schema", "rows")
    assert done.exit_code == 2 and "there is no schema 'rows'; there are: comparison, " in done.stderr


def test_every_command_with_json_has_a_schema() -> None:
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    with_json = {name for name, one in commands.items() if one and any("--json" in each.opts for each in one.params)}
    assert {OF_COMMAND.get(name, name) for name in with_json} <= {*schema_names()}


@pytest.mark.parametrize("path", sorted((CASSETTES / "text").glob("*.jsonl")), ids=lambda path: path.stem)
def test_text_cassettes_fit_their_schema(path: Path) -> None:
    for line in path.read_text("utf-8").splitlines():
        validate("text-cassette", json.loads(line))


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: next(iter(stub)))
def test_stubs_fit_their_schema(stub: dict[str, Any]) -> None:
    validate("stub", stub)


@pytest.mark.parametrize(
    "wrong", [{"tool": "search"}, {"tool": "a", "prompt": "b", "result": ""}, {"tool": 1, "result": ""}]
)
def test_an_invalid_stub_does_not_fit(wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="not as `mcp-tape schema stub` has it"):
        validate("stub", wrong)


def test_a_member_that_is_not_in_the_schema_is_found_here_and_allowed_to_users() -> None:
    printed = invoke("ls", ROOT / "cassettes" / "demo.db", "--json").stdout
    more = json.loads(printed) | {"more": 1}
    Draft202012Validator(read_schema("ls")).validate(more)
    with pytest.raises(AssertionError, match="more"):
        validate_output(["ls", "demo.db", "--json"], 0, json.dumps(more))
    with pytest.raises(ValidationError):
        Draft202012Validator(read_schema("ls")).validate(more | {"id": "1"})
