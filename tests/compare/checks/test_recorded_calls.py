"""Differences in recorded behaviour: calls, their answers, and the messages around them."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.compare.judging import JudgingSettings
from tests.support.decks import Said
from tests.support.diffs import (
    SAMPLED,
    SAMPLING,
    Case,
    Step,
    Talk,
    call,
    changes,
    compared,
    exchange,
    expect,
    gave,
    hello,
    listing,
    name_of,
    refused,
    rules,
    text_of,
    told,
    tool,
    tools,
    wrote,
)

FAILED = {"content": [{"type": "text", "text": "no"}], "isError": True}
PICTURE = {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
SLOWER = JudgingSettings(slower_than=2.0)
LOGGED: Said = ("server", told("notifications/message", data="a"))
RELISTED: Said = ("server", told("notifications/tools/list_changed"))


def blocks(*texts: str) -> Step:
    return call(result={"content": [{"type": "text", "text": text} for text in texts]})


def progress(step: int) -> Said:
    return "server", told("notifications/progress", progressToken=1, progress=step)


def moved(*steps: Said) -> Step:
    """A call that reports progress."""
    params = {"name": "t", "arguments": {}, "_meta": {"progressToken": 1}}
    return exchange("tools/call", params, {"content": []}, beside=steps)


def elicited(message: str, schema: Any = None) -> list[Said]:
    """A person is asked, and accepts."""
    asked = {"message": message, "requestedSchema": {"type": "object", "properties": schema or {}}}
    return [
        ("server", text_of(id=1, method="elicitation/create", params=asked)),
        ("client", text_of(id=1, result={"action": "accept"})),
    ]


def asking(message: str, schema: Any = None, **given: Any) -> Step:
    return call(beside=elicited(message, schema), **given)


def refusing(message: str) -> Step:
    return call(error={"code": 1, "message": "no"}, beside=elicited(message))


def sampling(words: str, most: int = 9) -> Step:
    messages = [{"role": "user", "content": {"type": "text", "text": words}}]
    asked = text_of(id=1, method="sampling/createMessage", params={"messages": messages, "maxTokens": most})
    return call(beside=[("server", asked), SAMPLED])


def cached(**more: Any) -> Step:
    return exchange("resources/read", {"uri": "a"}, {"contents": []} | more)


def read(text: str, **members: Any) -> Step:
    return exchange("resources/read", {"uri": "a"}, {"contents": [{"uri": "a", "text": text} | members]})


def typed(result_type: str | None, **more: Any) -> Step:
    return call(result={"content": []} | ({"resultType": result_type} if result_type else {}) | more)


def promised(value: Any, **schema: Any) -> Talk:
    """A tool with an output schema, and its result."""
    return [*tools(tool(outputSchema={"type": "object"} | schema)), gave(value)]


def paged(*pages: str) -> Talk:
    """A list in pages, each with its cursor."""
    last = len(pages) - 1
    steps = [
        listing(
            "tools/list",
            tool(name),
            cursor=str(at) if at else None,
            **({"nextCursor": str(at + 1)} if at < last else {}),
        )
        for at, name in enumerate(pages)
    ]
    return [hello(), *steps]


def took(*milliseconds: int) -> Talk:
    """Calls with these durations."""

    def step(wait: int, number: int) -> Step:
        start = number * 1_000_000
        asked, answer = (text[1] for text in call(n=number)(number))
        return lambda _: [("client", asked, start), ("server", answer, start + wait * 1000)]  # type: ignore[list-item]

    return [step(wait, number) for number, wait in enumerate(milliseconds, 1)]


A_NUMBER = {"properties": {"a": {"type": "number"}}, "required": ["a"]}
OUTCOMES = [
    Case("call-ok-to-error", [call()], [call(result=FAILED)], True),
    Case("call-ok-to-error", [call()], [refused()], True),
    Case("call-ok-to-error", [call(result=FAILED)], [refused()], False),
    Case("call-ok-to-error", [call()], [call(result={"content": [], "isError": False})], False),
    Case("call-error-to-ok", [refused()], [call()], True),
    Case("call-error-to-ok", [call(result=FAILED)], [call()], True),
    Case("call-error-to-ok", [call()], [call(result=FAILED)], False),
    Case("call-error-code-changed", [refused(-32000)], [refused(-32001)], True),
    Case("call-error-code-changed", [call(result=FAILED)], [refused()], True),
    Case("call-error-code-changed", [refused(-32000)], [refused(-32000, "never")], False),
    Case("call-error-code-changed", [refused(1)], [refused(1.0)], False),
    Case("call-error-message-changed", [refused(message="no")], [refused(message="never")], True),
    Case("call-error-message-changed", [call(result=FAILED)],
         [call(result={"content": [{"type": "text", "text": "never"}], "isError": True})], True),
    Case("call-error-message-changed", [refused(message="no, at 10:00")], [refused(message="no, at 11:12")], False),
    Case("call-error-message-changed", [refused(-32000)], [refused(-32001)], False),
    Case("call-result-type-changed", [typed("complete")], [typed("input_required")], True),
    Case("call-result-type-changed", [typed(None)], [typed(None, task={"taskId": "1"})], True),
    Case("call-result-type-changed", [typed("complete")], [typed(None)], False),
    Case("call-unanswered", [call()], [exchange("tools/call", {"name": "t", "arguments": {}})], True),
    Case("call-unanswered", [exchange("tools/call", {"name": "t", "arguments": {}})], [call()], False),
    Case("call-missing", [call(n=1), call(n=2)], [call(n=1)], True),
    Case("call-missing", [call(n=1), call(n=1)], [call(n=1)], True),
    Case("call-missing", [call(n=1), call(n=2)], [call(n=2), call(n=1.0)], False),
    Case("call-missing", [exchange("ping", {}, {}), *tools()], [call()], False),
    Case("call-added", [call(n=1)], [call(n=1), call(n=2)], True),
    Case("call-added", [call(n=1)], [call(n=1), exchange("ping", {}, {}), *tools()], False),
]  # fmt: skip
RESULTS = [
    Case("call-structured-shape-changed", [gave({"a": 1, "b": 1})], [gave({"a": 1})], True),
    Case("call-structured-shape-changed", [gave({"a": 1})], [gave({"a": "1"})], True),
    Case("call-structured-shape-changed", [gave({"a": [{"b": 1}]})], [gave({"a": [{"b": 1}, {"b": []}]})], True),
    Case("call-structured-shape-changed", [gave({"a": 1})], [gave({"a": 1, "b": 1})], True),
    Case("call-structured-shape-changed", [gave({"a": 1})], [gave({"a": None})], True),
    Case("call-structured-shape-changed", [gave({"a": 1})], [call()], True),
    Case("call-structured-shape-changed", [gave({"a": None})], [gave({"a": 1})], False),
    Case("call-structured-shape-changed", [gave({"a": 1})], [gave({"a": 2.5})], False),
    # An empty list, or an item without a member that another has, is a matter of data.
    Case("call-structured-shape-changed", [gave({"a": [{"b": 1}]})], [gave({"a": []})], False),
    Case("call-structured-shape-changed", [gave([{"b": 1}, {}])], [gave([{}, {}])], False),
    Case("call-structured-value-changed", [gave({"a": 1})], [gave({"a": 2})], True),
    Case("call-structured-value-changed", [exchange("x/y", {}, {"a": "b"})], [exchange("x/y", {}, {"a": "c"})], True),
    Case("call-structured-value-changed", [call(result=PICTURE)],
         [call(result={"content": [PICTURE["content"][0] | {"data": "BBBB"}]})], True),
    Case("call-structured-value-changed", [gave({"a": 1})], [gave({"a": 1.0})], False),
    Case("call-structured-value-changed", [gave({"a": 1, "b": 2})], [gave({"b": 2, "a": 1})], False),
    Case("call-structured-value-changed", [gave({"a": 1})], [gave({"a": "1"})], False),
    Case("call-text-changed", [wrote("a")], [wrote("b")], True),
    Case("call-text-changed", [blocks("a", "b")], [blocks("a")], True),
    Case("call-text-changed", [read("a")], [read("b")], False),
    Case("resource-text-changed", [read("a")], [read("b")], True),
    Case("resource-text-changed", [read("job_86462588")], [read("job_18239b3f")], False),
    Case("resource-text-changed", [wrote("a")], [wrote("b")], False),
    Case("call-meta-changed", [call(result=PICTURE)], [call(result=PICTURE | {"_meta": {"a": "b"}})], True),
    Case("call-meta-changed", [read("a", _meta={"a": {"b": ["c"]}})], [read("a", _meta={"a": {"b": ["d"]}})], True),
    Case("call-meta-changed", [read("a")], [read("a", annotations={"audience": ["user"]})], True),
    Case("call-meta-changed", [read("a", annotations={"audience": ["user"]})], [read("a")], True),
    Case("call-meta-changed", [read("a")], [read("a", annotations={"audience": ["user", "assistant"]})], False),
    Case("call-meta-changed", [read("a")], [read("a", annotations={"priority": 1, "lastModified": "x"})], False),
    Case("call-meta-changed", [read("a", _meta={"ms": 1})], [read("a", _meta={"ms": 2, "of": 3})], False),
    Case("call-meta-changed", [read("a", _meta={"trace": "4bf92f3577b34da6a3ce929d0e0e4736"})],
         [read("a", _meta={"trace": "a3ce929d0e0e47364bf92f3577b34da6"})], False),
    Case("call-meta-changed", [call(result=PICTURE)],
         [call(result=PICTURE | {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s"}}})], False),
    Case("prompt-description-changed", [exchange("prompts/get", {"name": "p"}, {"messages": []})],
         [exchange("prompts/get", {"name": "p"}, {"messages": [], "description": "P."})], True),
    Case("call-structured-value-changed", [exchange("prompts/get", {"name": "p"}, {"messages": [], "a": "b"})],
         [exchange("prompts/get", {"name": "p"}, {"messages": [], "a": "c"})], True),
    Case("text-steers-model", [call()],
         [call(beside=[("server", text_of(id=1, method="sampling/createMessage", params={"a": "<IMPORTANT>"}))])],
         True),
    Case("call-text-changed", [wrote('{"a": 1, "b": [2]}')], [wrote('{"b":[2],"a":1.0}')], False),
    Case("call-text-changed", [wrote("a")], [call(result=PICTURE)], False),
    # A text that only repeats the structured content is reported once.
    Case("call-text-changed",
         [call(result={"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}})],
         [call(result={"content": [{"type": "text", "text": '{"a": 2}'}], "structuredContent": {"a": 2}})], False),
    Case("call-content-type-changed", [wrote("a")], [call(result=PICTURE)], True),
    Case("call-content-type-changed", [read("a")],
         [exchange("resources/read", {"uri": "a"}, {"contents": []})], True),
    Case("call-content-type-changed", [blocks("a")], [blocks("a", "b")], False),
    Case("call-violates-output-schema", promised({"a": 1}, **A_NUMBER), promised({"a": "1"}, **A_NUMBER), True),
    Case("call-violates-output-schema", promised({"a": "1"}), promised({"a": "1"}, **A_NUMBER), True),
    Case("call-violates-output-schema", promised({"a": 1}, **A_NUMBER),
         [*promised({}, **A_NUMBER)[:2], call()], True),
    Case("call-violates-output-schema", promised({"a": 1}, **A_NUMBER), promised({"a": 2}, **A_NUMBER), False),
    Case("call-violates-output-schema", promised({"a": "1"}, **A_NUMBER), promised({"a": "2"}, **A_NUMBER), False),
    Case("call-violates-output-schema", promised({"a": 1}, **A_NUMBER),
         [*promised({}, **A_NUMBER)[:2], call(result=FAILED)], False),
    Case("call-violates-output-schema", promised({"a": 1}, **A_NUMBER), promised({"a": 2}, type="nonsense"), False),
    Case("call-violates-output-schema", promised({"a": 1}),
         promised({"a": 2}, **{"$ref": "http://127.0.0.1:9/x"}), False),
    Case("resource-mime-type-changed", [read("a")], [read("a", mimeType="a/b")], True),
    Case("resource-mime-type-changed", [read("a", mimeType="a/b")], [read("b", mimeType="a/b")], False),
]  # fmt: skip
BESIDE = [
    Case("server-request-added", [call()], [call(beside=[SAMPLING, SAMPLED])], True),
    Case("server-request-added", [call(beside=[SAMPLING, SAMPLED])], [call(beside=[SAMPLING, SAMPLED])], False),
    # On one pipe, assigning it to one of several open calls is a guess.
    Case("server-request-added", [call(n=1, beside=[SAMPLING, SAMPLED]), call(n=2)],
         [call(n=1), call(n=2, beside=[SAMPLING, SAMPLED])], False),
    Case("server-request-changed", [asking("Which?")], [asking("All?")], True),
    Case("server-request-changed", [asking("Which?", schema={"a": {}})], [asking("Which?", schema={"b": {}})], True),
    Case("server-request-changed", [asking("Which?")], [refusing("All?")], True),
    Case("server-request-changed", [asking("Which?", n=1), call(n=2)], [call(n=1), asking("All?", n=2)], True),
    Case("server-request-changed", [asking("Is it 6f1c1f0e9a5b?")], [asking("Is it 0a0a0a0a9a5b?")], False),
    Case("server-request-changed", [asking("Which?", n=1), call(n=2)], [call(n=1), asking("Which?", n=2)], False),
    Case("server-request-changed", [asking("Which?")], [call()], False),
    # Other arguments explain another question.
    Case("server-request-changed", [gave({"id": 17}), asking("Delete 17?", of=17)],
         [gave({"id": 40}), asking("Delete 40?", of=40)], False),
    Case("server-request-changed", [gave({"id": 17}), asking("Delete 17?", of=17)],
         [gave({"id": 40}), asking("Delete 23?", of=40)], True),
    Case("server-request-removed", [call(beside=[SAMPLING, SAMPLED])], [call()], True),
    Case("server-request-removed", [call()], [call(beside=[SAMPLING, SAMPLED])], False),
    Case("notification-missing", [moved(progress(1), progress(2))], [moved(progress(1))], True),
    Case("notification-missing", [call(beside=[LOGGED])], [call()], True),
    Case("notification-missing", [call(n=1, beside=[LOGGED]), call(n=2)], [call(n=1), call(n=2, beside=[LOGGED])],
         False),
    Case("notification-missing", [call(beside=[LOGGED, LOGGED])], [call(beside=[LOGGED])], False),
    Case("notification-missing", [moved(progress(1))], [moved(progress(2))], False),
    Case("notification-added", [moved()], [moved(progress(1))], True),
    Case("notification-added", [call()], [call(beside=[LOGGED])], True),
    Case("notification-added", [moved(progress(1))], [moved()], False),
    Case("notification-reordered", [moved(progress(1), LOGGED)], [moved(LOGGED, progress(1))], True),
    Case("notification-reordered", [moved(progress(1), LOGGED)], [moved(progress(1), LOGGED, LOGGED)], False),
    Case("notification-reordered", [moved(LOGGED, progress(1))], [moved(LOGGED, progress(2))], False),
    Case("pagination-changed", paged("a", "b"), tools(tool("a"), tool("b")), True),
    Case("pagination-changed", paged("a", "b"), paged("a", "b"), False),
    Case("pagination-changed", paged("a", "b"), [hello(capabilities={})], False),
    Case("cache-scope-widened", [cached(cacheScope="private")], [cached(cacheScope="public")], True),
    Case("cache-scope-widened", tools(cacheScope="private"), tools(cacheScope="public"), True),
    Case("cache-scope-widened", [cached(cacheScope="public")], [cached(cacheScope="private")], False),
    Case("cache-scope-widened", [cached()], [cached(cacheScope="public")], False),
    Case("cache-ttl-changed", [cached(ttlMs=1)], [cached(ttlMs=2)], True),
    Case("cache-ttl-changed", tools(ttlMs=1), tools(ttlMs=2), True),
    Case("cache-ttl-changed", [cached(ttlMs=1)], [cached(ttlMs=1.0)], False),
    Case("cache-ttl-changed", [cached()], [cached(ttlMs=2)], False),
    Case("call-slower", took(10, 10, 10), took(30, 30, 30), True, SLOWER),
    Case("call-slower", took(10, 10, 10), took(30, 30, 30), False),
    Case("call-slower", took(10, 10, 10), took(19, 15, 900), False, SLOWER),
    Case("call-slower", took(0, 0), took(1, 1), False, SLOWER),
]  # fmt: skip
CASES = [*OUTCOMES, *RESULTS, *BESIDE]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_rule_finds_its_case_and_no_other(case: Case) -> None:
    expect(case)


@pytest.mark.parametrize(
    ("rule", "old", "new", "level"),
    [
        ("call-error-code-changed", refused(-32002), refused(-32602), "info"),
        ("call-error-code-changed", refused(-32002), refused(-32603), "warn"),
        ("call-result-type-changed", typed("complete"), typed("input_required"), "error"),
        ("call-result-type-changed", typed("input_required"), typed("complete"), "info"),
        ("notification-missing", call(beside=[LOGGED]), call(), "info"),
        ("notification-missing", call(beside=[RELISTED]), call(), "warn"),
        ("call-structured-shape-changed", gave({"a": 1}), gave({"a": 1, "b": 2}), "info"),
        ("call-structured-shape-changed", gave({"a": 1}), gave({"a": None}), "warn"),
        ("call-structured-shape-changed", gave({"a": 1}), gave({"a": "b"}), "error"),
        ("call-structured-shape-changed", gave({"a": 1}), gave({}), "error"),
        ("call-structured-shape-changed", call(result={"content": []}), gave({}), "info"),
        ("call-structured-shape-changed", gave({}), call(result={"content": []}), "error"),
        ("server-request-changed", sampling("sum up a"), sampling("sum up b"), "info"),
        ("server-request-changed", sampling("sum up a"), sampling("sum up a", 10), "warn"),
        ("server-request-changed", asking("Which?"), asking("All?"), "warn"),
    ],
)
def test_some_rules_have_a_second_level(rule: str, old: Step, new: Step, level: str) -> None:
    assert [change.level for change in changes([old], [new], rule)] == [level]


def test_a_change_of_shape_is_not_repeated_as_a_change_of_values() -> None:
    old, new = gave({"a": [{"b": 1, "c": 1}, {"b": 2, "c": 2}]}), gave({"a": [{"b": "1", "c": 1}, {"b": "2", "c": 3}]})
    found = compared([old], [new]).changes
    assert [(change.rule, change.path) for change in found] == [
        ("call-structured-shape-changed", "$.result.structuredContent.a['*'].b"),
        ("call-structured-value-changed", "$.result.structuredContent.a[1].c"),
    ]


def test_another_kind_of_result_is_not_compared_with_the_result_it_replaces() -> None:
    old, new = call(), call(result={"resultType": "input_required", "inputRequests": {"a": {}}, "requestState": "s"})
    assert rules([old], [new]) == ["call-result-type-changed"]


def test_missing_progress_is_reported_for_its_call_alone() -> None:
    (change,) = compared([moved(progress(1))], [moved()]).changes
    assert (change.rule, str(change.subject)) == ("notification-missing", "call tools/call t")


def test_a_change_has_its_place_and_the_values_before_and_after() -> None:
    (change,) = compared([gave({"a": {"b c": [1, 2]}})], [gave({"a": {"b c": [1, 3]}})]).changes
    assert (str(change.subject), change.path) == ("call tools/call t", "$.result.structuredContent.a['b c'][1]")
    assert (change.before, change.after) == (2, 3)


def test_the_same_change_found_twice_is_counted() -> None:
    (change,) = compared([gave({"a": 1}, n=n) for n in "12"], [gave({"a": 2}, n=n) for n in "12"]).changes
    assert change.times == 2


def test_only_calls_that_both_sides_made_are_compared() -> None:
    found = compared([*tools(tool()), call(n=1), call(n=2)], [*tools(tool()), call(n=2), call(n=3)])
    assert found.compared == {"tools": 1, "calls": 1}
    assert [
        (change.rule, change.before if change.rule == "call-missing" else change.after) for change in found.changes
    ] == [
        ("call-missing", {"name": "t", "arguments": {"n": 1}}),
        ("call-added", {"name": "t", "arguments": {"n": 3}}),
    ]
