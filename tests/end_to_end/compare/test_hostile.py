"""Untrusted cassettes: whatever their content, a comparison ends in time, with as much of a result as possible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.diffs import (
    Talk,
    call,
    compared,
    compared_both_ways,
    exchange,
    gave,
    hello,
    listing,
    rules,
    said,
    text_of,
    tool,
    tools,
    wrote,
)

RESOURCE = {"uri": "file:///a", "name": "a"}
TEMPLATE = {"uriTemplate": "file:///{path}", "name": "files"}
PROMPT = {"name": "p", "arguments": []}
WHOLE = tools(tool("a"))


def prompts(arguments: Any) -> Talk:
    return [hello(capabilities={"prompts": {}}), listing("prompts/list", {"name": "p", "arguments": arguments})]


def templates(uri: str) -> Talk:
    return [hello(capabilities={"resources": {}}), listing("resources/templates/list", TEMPLATE | {"uriTemplate": uri})]


def versioned(version: str, *items: Any) -> Talk:
    return [hello(serverInfo={"name": "s", "version": version}), listing("tools/list", *items)]


# Servers' declarations -------------------------------------------------------------------------------------


ODD: list[Any] = [
    None,
    1,
    "x",
    [],
    {},
    [None],
    [[]],
    [1, "a", None],
    [{"name": None}],
    [{"name": 3}],
    [{}, {"name": ["a"]}],
]


@pytest.mark.parametrize("items", ODD)
@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list"])
def test_lists_that_are_none_are_compared_without_a_crash(method: str, items: Any) -> None:
    member = {"resources/templates/list": "resourceTemplates"}.get(method, method.split("/")[0])
    greeting = hello(capabilities={"tools": {}, "resources": {}, "prompts": {}})
    odd = [greeting, exchange(method, {}, {member: items})]
    assert compared_both_ways([greeting, listing(method, tool(), RESOURCE, TEMPLATE, PROMPT)], odd)


@pytest.mark.parametrize("odd", [None, 1, "x", [], {"type": 3}, {"properties": []}, {"a": "\ud800"}, {"a": 10**400}])
@pytest.mark.parametrize(
    "member", ["description", "title", "icons", "inputSchema", "outputSchema", "annotations", "execution", "_meta"]
)
def test_members_of_tools_may_be_anything(member: str, odd: Any) -> None:
    strange = tools(tool(**{member: odd}))
    assert compared_both_ways(tools(tool()), strange)
    assert compared_both_ways(strange, tools(tool(**{member: {"type": "object", "a": 1}})))


@pytest.mark.parametrize("odd", [None, 1, "x", [], {"tools": None}, {"extensions": []}, {"tools": [1]}])
def test_handshakes_may_be_anything(odd: Any) -> None:
    assert compared_both_ways(WHOLE, [hello(capabilities=odd, serverInfo=odd, instructions=odd, protocolVersion=odd)])
    assert compared_both_ways([hello(capabilities=odd)], [hello(capabilities={"extensions": {"ui": odd}})])


@pytest.mark.parametrize("arguments", [None, "a", {"a": 1}, [None, 1, {}, {"name": 2}, {"name": "a", "required": "x"}]])
def test_arguments_of_prompts_may_be_anything(arguments: Any) -> None:
    assert compared_both_ways(prompts([{"name": "a"}]), prompts(arguments))


def test_of_two_tools_with_one_name_the_first_counts() -> None:
    old, new = tools(tool(title="A"), tool(title="B")), tools(tool(title="A"), tool(title="C"))
    assert rules(old, new) == []


@pytest.mark.parametrize("uri", ["{", "}{", "{}", "{a", "{a*}{b:3}{?c,d}", "{" * 50_000])
def test_templates_may_be_malformed(uri: str) -> None:
    assert compared_both_ways(templates("a:{x}"), templates(uri))


def test_a_version_with_thousands_of_digits_is_no_crash() -> None:
    assert compared_both_ways(versioned("9" * 10_000, tool()), versioned("1.0"))


def test_an_answer_that_is_no_object_is_no_handshake() -> None:
    odd = [exchange("initialize", {}, []), said(("server", text_of(id=7, result={}))), listing("tools/list", tool("a"))]
    assert not compared(odd, WHOLE).changes


# Results of calls ------------------------------------------------------------------------------------------

STRANGE: list[Any] = [None, True, 0, "x", [], [1], {}, {"content": None}, {"content": "x"}, {"content": {}},
           {"content": [None, 1]},
           {"content": [{"type": 1, "text": 2}]}, {"content": [{"text": "\ud800"}]}, {"structuredContent": "\udfff"},
           {"structuredContent": 10**400}, {"structuredContent": [1, {"a": None}]}, {"isError": True, "content": 7},
           {"resultType": []}, {"task": {}}, {"messages": 1}, {"contents": [1, None]}, {"\ud800": {"": 1}}]  # fmt: skip
METHODS = {"tools/call": {"name": "t"}, "prompts/get": {"name": "t"}, "resources/read": {"uri": "a"}, "x/y": {}}


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("method", METHODS)
def test_results_may_be_anything(method: str) -> None:
    """Each odd result compared with each other one."""
    sides = [(one, other) for one in STRANGE for other in STRANGE]
    old, new = (
        [exchange(method, METHODS[method] | {"n": at}, pair[side]) for at, pair in enumerate(sides)] for side in (0, 1)
    )
    found = compared(old, new)
    assert found.compared == {"calls": len(sides)}
    assert compared(old, old).changes == ()


@pytest.mark.parametrize("error", [1, "x", [], {}, {"code": "x"}, {"code": {}, "message": []}, {"message": "\ud800"}])
def test_errors_may_be_anything(error: Any) -> None:
    odd = exchange("tools/call", {"name": "t"}, error=error)
    assert rules([exchange("tools/call", {"name": "t"}, {})], [odd]) == ["call-ok-to-error"]
    assert compared([odd], [exchange("tools/call", {"name": "t"}, error={"code": 1, "message": "a"})])


@pytest.mark.parametrize("params", [None, 1, "x", [], [1], {"name": 1}, {"name": None}, {"name": ["a"]}])
def test_calls_may_name_nothing(params: Any) -> None:
    old, new = (exchange("tools/call", params, {"structuredContent": value}) for value in (1, 2))
    assert rules([*WHOLE, old], [*WHOLE, new]) == ["call-structured-value-changed"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from jsonschema if it fetched anything
def test_a_schema_is_never_fetched(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "string"}')
    schema = {"type": "object", "$ref": (tmp_path / "schema.json").as_uri()}
    old, new = [*tools(tool()), gave({"a": 1})], [*tools(tool(outputSchema=schema)), gave({"a": 1})]
    assert "call-violates-output-schema" not in rules(old, new)


def test_lines_that_are_no_messages_are_passed_over() -> None:
    noise = said(("server", "oops"), ("server", "[]"), ("client", '{"id": null}'), ("server", '{"jsonrpc": "2.0"}'))
    assert rules([call()], [noise, call(), noise]) == []


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("levels", [10, 60, 90, 150, 5_000])
def test_deeply_nested_values_are_compared_as_a_whole(levels: int) -> None:
    def gives(leaf: int) -> Talk:
        text = text_of(id=1, result={"structuredContent": "x"}).replace(
            '"x"', '{"a":[' * levels + str(leaf) + "]}" * levels
        )
        return [said(("client", text_of(id=1, method="tools/call", params={"name": "t"})), ("server", text))]

    assert rules(gives(1), gives(1)) == []
    (change,) = compared(gives(1), gives(2)).changes
    assert change.level == "info" and change.before != change.after


@pytest.mark.slow
def test_nested_arguments_are_no_obstacle() -> None:
    text = text_of(id=1, method="tools/call", params={"name": "t", "arguments": "x"})
    asked = text.replace('"x"', '{"a":' * 5_000 + "1" + "}" * 5_000)
    one, other = ([said(("client", asked), ("server", text_of(id=1, result={"a": n})))] for n in (1, 2))
    assert rules(one, one) == []
    assert rules(one, other) == ["call-structured-value-changed"]


@pytest.mark.slow
@pytest.mark.parametrize("give", [wrote, lambda text: gave({"a": text})], ids=["text", "structured"])
def test_a_result_of_megabytes_is_compared(give: Any) -> None:
    text = "".join(f"{n} word " for n in range(400_000))
    assert len(rules([give(text)], [give(text + "!")])) == 1


@pytest.mark.slow
def test_of_thousands_of_differences_some_are_shown_and_the_rest_counted() -> None:
    old, new = ({f"k{n}": n + by for n in range(3_000)} for by in (0, 1))
    found = compared([gave(old)], [gave(new)]).changes
    assert len(found) == 21
    assert [change.note for change in found if change.note] == ["and 2980 more differences below"]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("odd", ["a" * 100_000, "1" * 100_000, "-" * 100_000, "12:" * 40_000, "[redacted:" * 10_000,
                                 "2026-" * 30_000, "Mon " * 30_000, "0a" * 50_000])  # fmt: skip
def test_texts_that_look_made_up_are_read_in_linear_time(odd: str) -> None:
    assert len(rules([wrote(odd)], [wrote(odd + "!?")])) <= 1


@pytest.mark.slow
def test_ten_thousand_leaves_are_compared() -> None:
    old = [{"a": n, "b": str(n), "c": [n]} for n in range(3_400)]
    new = json.loads(json.dumps(old))
    new[1_700]["b"] = "other"
    (change,) = compared([gave(old)], [gave(new)]).changes
    assert change.rule == "call-structured-value-changed"


def test_huge_integers_differ_by_their_last_digit() -> None:
    assert len(rules([gave({"a": 10**30})], [gave({"a": 10**30 + 1})])) == 1
    assert rules([gave({"a": 10**30})], [gave({"a": 10**30})]) == []


def test_half_characters_differ() -> None:
    assert rules([wrote("\ud800")], [wrote("\udfff")]) == ["call-text-changed"]
