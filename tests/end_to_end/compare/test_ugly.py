"""Comparing under bad conditions, and harmless changes that look like breaks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mcp_tape.compare.changes import Change
from tests.support.diffs import Body, Said, Talk, compared, exchange, gave, hello, listing, taped, told, tool, tools
from tests.support.running import MCP_TAPE, WAIT, run, started

OPEN = {"type": "object"}
READING = {"type": "object", "properties": {"degrees": {"type": "number"}, "gusts": {"type": "number"}},
           "required": ["degrees"]}  # fmt: skip
COUNTS = {"type": "object", "properties": {"counts": {"$ref": "#/$defs/counts"}},
          "$defs": {"counts": {"type": "object", "additionalProperties": {"type": "integer"}}}}  # fmt: skip
LIST = {"type": "object", "properties": {"all": {"type": "array", "items": {"anyOf": [READING, {"type": "null"}]}}}}


@pytest.fixture
def broken(tmp_path: Path) -> tuple[str, str]:
    old = taped(tmp_path / "old.db", tools(*[tool(f"t{number}", description="x" * 99) for number in range(2000)]))
    return str(old), str(taped(tmp_path / "new.db", tools()))


def levels(old: Talk, new: Talk, rule: str) -> list[str]:
    return [change.level for change in compared(old, new).changes if change.rule == rule]


def promising(schema: Body, value: Any) -> Talk:
    return [*tools(tool(outputSchema=schema)), gave(value)]


# Conditions ---------------------------------------------------------------------------------------------


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("option", ["--timeout", "--slower-than"])
@pytest.mark.parametrize("value", ["nan", "inf", "1e10"])
def test_an_endless_timeout_is_refused(broken: tuple[str, str], option: str, value: str) -> None:
    done = run([*MCP_TAPE, "diff", *broken, option, value])
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"is not a number up to 1,000,000" in done.stderr


@pytest.mark.parametrize("words", [["diff", "a.db", "b.db"], ["verify", "a.db", "--", "true"], ["review"]])
@pytest.mark.slow
def test_a_removed_working_directory_is_reported(tmp_path: Path, words: list[str]) -> None:
    done = run(["sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "-", *MCP_TAPE, *words], cwd=tmp_path,
               env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])})  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.decode().startswith("mcp-tape: the working directory is gone")


@pytest.mark.slow
def test_the_exit_code_counts_even_if_the_reader_has_gone(broken: tuple[str, str]) -> None:
    with started([*MCP_TAPE, "breaking", *broken]) as process:
        assert process.stdout
        process.stdout.close()
        assert process.wait(WAIT) == 1
        assert process.stderr and process.stderr.read() == b""


@pytest.mark.slow
def test_a_closed_output_is_no_traceback(broken: tuple[str, str]) -> None:
    done = run(["sh", "-c", 'exec "$@" >&-', "-", *MCP_TAPE, "breaking", *broken])
    assert (done.returncode, done.stderr) == (1, b"")


# Harmless changes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [{"name": "t"}, tool(inputSchema={}), tool(inputSchema=None)], ids=str)
def test_arguments_are_an_object_also_where_the_schema_does_not_say_so(old: Body) -> None:
    assert compared(tools(old), tools(tool(inputSchema=OPEN))).changes == ()
    assert compared(tools(tool(inputSchema=OPEN)), tools(old)).changes == ()


@pytest.mark.parametrize(
    ("schema", "old", "new"),
    [
        (READING, {"degrees": 1, "gusts": 2}, {"degrees": 1}),
        (COUNTS, {"counts": {"bern": 1}}, {"counts": {"thun": 1}}),
        (LIST, {"all": [{"degrees": 1, "gusts": 2}]}, {"all": [{"degrees": 1}]}),
        (LIST, {"all": [{"degrees": 1}]}, {"all": [None]}),
    ],
)
def test_removing_a_member_that_the_old_output_schema_does_not_promise_breaks_no_client(
    schema: Body, old: Any, new: Any
) -> None:
    found = levels(promising(schema, old), promising(schema, new), "call-structured-shape-changed")
    assert set(found) == {"info"}


@pytest.mark.parametrize("schema", [OPEN, OPEN | {"additionalProperties": True}, {"$ref": "#"}, {"allOf": [OPEN]}])
def test_a_member_that_went_is_a_break_where_the_schema_says_nothing_about_it(schema: Body) -> None:
    old, new = promising(schema, {"degrees": 1}), promising(schema, {})
    assert levels(old, new, "call-structured-shape-changed") == ["error"]


def test_a_member_that_went_is_a_break_where_the_schema_requires_it() -> None:
    old, new = promising(READING, {"degrees": 1}), promising(READING, {"gusts": 1})
    assert "error" in levels(old, new, "call-structured-shape-changed")


def walked(steps: int) -> Talk:
    progress: Said = ("server", told("notifications/progress", progressToken=1, progress=1))
    params = {"name": "t", "arguments": {}, "_meta": {"progressToken": 1}}
    return [*tools(tool()), exchange("tools/call", params, {"content": []}, beside=[progress] * steps)]


def test_less_progress_is_a_matter_of_timing_and_none_is_not() -> None:
    assert levels(walked(5), walked(4), "notification-missing") == ["info"]
    assert levels(walked(5), walked(0), "notification-missing") == ["warn"]
    assert (
        compared(walked(5), walked(4)).changes[0].fingerprint == compared(walked(7), walked(2)).changes[0].fingerprint
    )


def test_an_empty_cursor_is_the_end_of_a_list() -> None:
    comparison = compared(tools(tool()), [hello(), listing("tools/list", tool(), nextCursor="")])
    assert (comparison.changes, comparison.unknown) == ((), ())


def test_null_and_an_empty_result_both_say_nothing() -> None:
    null, empty = ([hello(), exchange("ping", {}, result)] for result in (None, {}))
    assert compared(null, empty).changes == compared(empty, null).changes == ()


def templates(uri: str) -> Talk:
    capable = hello(capabilities={"resources": {}})
    return [capable, listing("resources/templates/list", {"uriTemplate": uri, "name": "n"})]


@pytest.mark.parametrize(
    ("new", "level"), [("a:{x}{?q}", "info"), ("a:{x}{?q,r}{&s}", "info"), ("a:{x}/{q}", "error"), ("a:{?q}", "error")]
)
def test_a_variable_of_a_query_may_be_left_out(new: str, level: str) -> None:
    assert set(levels(templates("a:{x}"), templates(new), "template-variable-added")) == {level}


def test_a_variable_of_a_query_that_has_another_name_is_a_break() -> None:
    assert levels(templates("a:{?q}"), templates("a:{?p}"), "template-variable-added") == ["error"]


# Fingerprints -------------------------------------------------------------------------------------------


def violated(value: Any) -> Change:
    schema = {"type": "object", "required": ["degrees"]}
    old, new = promising(schema, {"degrees": 1}), promising(schema, value)
    (found,) = (change for change in compared(old, new).changes if change.rule == "call-violates-output-schema")
    return found


def test_a_violation_is_recognized_whatever_values_surround_it() -> None:
    one, other = (violated({"at": str(uuid4())}) for _ in range(2))
    assert one.after == {"required": ["degrees"]}
    assert one.fingerprint == other.fingerprint
