"""Differences in answers: made-up values, data, and invalid answers."""

from __future__ import annotations

import random
import string
from typing import Any
from uuid import UUID, uuid4

import pytest

from mcp_tape.compare.changes import Difference, Subject, change
from mcp_tape.compare.checks.recorded_calls import add_call_params
from mcp_tape.compare.judging import JudgingSettings, parse_ignores
from mcp_tape.compare.minted.patterns import find_made_up, mask
from tests.support.diffs import (
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
    name_of,
    rules,
    said,
    text_of,
    tools,
    wrote,
)

OK = [{"type": "text", "text": "ok"}]
FAILED = {"content": OK, "isError": True}
LETTERS = string.ascii_letters + string.digits


def starred(text: str) -> str:
    return mask(text, find_made_up(text), ("*", "@"))


# Made-up values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("as 550e8400-e29b-41d4-a716-446655440000.", "as *."),
        ("x_550e8400-e29b-41d4-a716-446655440000.log", "x_*.log"),
        ("9e255c8f0ce64d9b829253ffcfb446f2", "*"),
        ("01HZX3V5K8QW2J7N4M6P9R1T0B", "*"),
        ("V1StGXR8_Z5jdHi6B-myT", "*"),
        ("msg_01AbC3dE5fGh7iJkL9mN", "msg_*"),
        ("q2F8/x9Zk3+Lm5TyUv7Wc1==", "*"),
        ("job_277f2f28", "job_*"),
        ("req-8f3a1b2c done", "req-* done"),
        ("api/8f3k2j5h8x9q/items", "api/*/items"),
        ("/tmp/x21afff/a.txt", "/tmp/*/a.txt"),
        ("/tmp/tmpyyoqnef_", "/tmp/*"),
        ("2026-11-16T14:29:42.5+01:00", "@"),
        ("16/11/2026 14:29:42", "@ @"),
        ("11/16/2026", "@"),
        ("16.11.2026", "@"),
        ("20261116T142942Z", "@"),
        ("Mon, 16 Nov 2026 14:29:42 GMT", "@, @ @ GMT"),
        ("Nov 16 2026 02:29 PM", "@ @"),
        ("logs/2026-11-16/x", "logs/@/x"),
        ("at=10:30", "at=@"),
        ("1794841336.2435598", "@"),
    ],
)
def test_ids_and_times_look_made_up(text: str, rest: str) -> None:
    assert starred(text) == rest


@pytest.mark.parametrize(
    "text",
    [
        "us-east-1-prod-cluster",
        "src/module1/handlers",
        "docs/v1/getting-started",
        "claude-3-5-sonnet-latest",
        "gpt-4o-mini-2024-preview",
        "meta-llama/Llama-3-70B-Instruct",
        "x86_64-unknown-linux-gnu",
        "feature/JIRA-1234-fix-login",
        "file_name_v2_final_3",
        "getUserById2ForTeam",
        "api/v1beta1/namespaces",
        "AB-1234-CD-5678-EF",
        "1920x1080",
        "2024Q3FY25",
        "99:99",
        "24:00",
        "2026-13-45",
        "192.168.10.2024",
        "1234567890",
        "/tmp/report2/a.txt",
    ],
)
def test_words_and_numbers_are_data(text: str) -> None:
    assert starred(text) == text


@pytest.mark.parametrize("text", ["a/" * 20_000, "a1b2c3d4/" * 5_000, "x1" * 20_000, "1:" * 20_000, "-" * 40_000])
def test_a_long_text_is_looked_through_once(text: str) -> None:
    assert len(starred(text)) <= len(text)


@pytest.mark.parametrize("alphabet", [LETTERS, f"{LETTERS}_-", string.digits + "ABCDEFGHJKMNPQRSTVWXYZ"])
def test_of_two_random_ids_hardly_any_is_taken_for_data(alphabet: str) -> None:
    """One that happens to look like a word is recognized by the other."""
    chance = random.Random(1)
    ids = ["".join(chance.choices(alphabet, k=22)) for _ in range(400)]
    old, new = ({"all": [f"made {one}" for one in some]} for some in (ids[:200], ids[200:]))
    assert len(compared([gave(old)], [gave(new)]).changes) <= 10  # of 200


def test_an_id_of_digits_corresponds_to_one_with_letters() -> None:
    assert rules([wrote("made job_86462588")], [wrote("made job_18239b3f")]) == []
    assert rules([wrote("made job_86462588")], [wrote("made job_86462589")]) == ["call-text-changed"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("us-east-1-prod-cluster", "eu-west-2-test-cluster"),
        ("src/module1/handlers", "src/other22/somewhere"),
        ("claude-3-5-sonnet-latest, see docs/v1/started", "gpt-4o-mini-2024-preview, see docs/v9/removed"),
        ("10:30", "99:99"),
        ("east/job_277f2f28", "west/job_18239b3f"),
    ],
)
def test_data_with_numbers_is_reported(old: str, new: str) -> None:
    found = compared([gave({"a": old}), wrote(old, n=1)], [gave({"a": new}), wrote(new, n=1)], JudgingSettings("model"))
    assert {one.rule: one.level for one in found.changes} == {
        "call-structured-value-changed": "warn",
        "call-text-changed": "warn",
    }


# Names of members ---------------------------------------------------------------------------------------

MEMBER = {"state": "running", "steps": [1]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("job_277f2f28", "job_18239b3f"),
        (str(UUID(int=7 << 64)), str(UUID(int=9 << 64))),
        ("/tmp/x21afff/a.txt", "/tmp/x9317ae/a.txt"),
        ("16/11/2026 14:29:42", "17/11/2026 10:01:02"),
        ("1794841336.2435598", "1794841399.25"),
    ],
)
@pytest.mark.parametrize("value", [MEMBER, 1])
def test_members_whose_names_were_made_up_are_the_same_member(old: str, new: str, value: Any) -> None:
    assert rules([gave({"jobs": {old: value}})], [gave({"jobs": {new: value}})]) == []
    found = compared([gave({"jobs": {old: [1]}})], [gave({"jobs": {new: [2]}})]).changes
    assert [one.rule for one in found] == ["call-structured-value-changed"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"8833": MEMBER}, {"4726": MEMBER}),
        ({"8833": MEMBER}, {}),
        ({"43fc": MEMBER}, {"672b": MEMBER}),
        ({"job-25855": MEMBER}, {"job-117": MEMBER, "job-4": MEMBER}),
        ({"job-1": 5, "job-2": 6}, {"job-2": 6, "job-3": 7}),
        ({"bern": MEMBER, "thun": MEMBER}, {"basel": MEMBER, "genf": MEMBER}),
    ],
)
def test_an_object_that_is_keyed_by_data_has_lost_nothing(old: Any, new: Any) -> None:
    found = compared([gave({"all": old})], [gave({"all": new})]).changes
    assert found and {one.level for one in found} == {"info"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"width": 1, "height": 2}, {"w": 1, "h": 2}),
        ({"user": MEMBER}, {"account": MEMBER}),
        ({"line1": "a", "line2": "b"}, {"line1": "a"}),
        ({"line1": "a"}, {"row1": "a"}),
        ({"job-1": MEMBER}, {"job-2": 7}),
        ({"job_277f2f28": MEMBER, "total": 1}, {"job_18239b3f": MEMBER}),
        ({"home": MEMBER, "work": 1}, {"house": MEMBER, "office": 1}),
    ],
)
def test_a_member_that_has_another_name_is_lost(old: Any, new: Any) -> None:
    assert "error" in {one.level for one in compared([gave({"all": old})], [gave({"all": new})]).changes}


def test_a_member_with_a_made_up_name_that_has_another_type_is_a_break() -> None:
    (one,) = compared([gave({"job_277f2f28": {"n": 1}})], [gave({"job_18239b3f": {"n": "1"}})]).at_least("error")
    assert one.path == "$.result.structuredContent['job_*'].n"


def asking(name: str, message: str) -> Step:
    asks = {"method": "elicitation/create", "params": {"message": message}}
    return call(result={"resultType": "input_required", "inputRequests": {name: asks}})


def test_requests_for_input_may_have_any_name() -> None:
    for names in (("q-28f98036", "q-01ab23cd"), ("first", "second")):
        assert rules([asking(names[0], "Which?")], [asking(names[1], "Which?")]) == []
        assert rules([asking(names[0], "Which?")], [asking(names[1], "All?")]) == ["call-structured-value-changed"]


# Invalid answers -----------------------------------------------------------------------------------------


def read(result: Any) -> Step:
    return exchange("resources/read", {"uri": "a"}, result)


def bare(method: str = "tools/call", params: Any = None, result: Any = None) -> Step:
    """An answer without the JSON-RPC marker."""
    whole = exchange(method, {"name": "t", "arguments": {}} if params is None else params, result or {"content": OK})
    return lambda at: [(side, text.replace('"jsonrpc": "2.0", ', "") if side == "server" else text)
                       for side, text in whole(at)]  # fmt: skip


def twice() -> Step:
    return lambda at: [*call()(at), call()(at)[-1]]


CASES = [
    Case("call-answer-malformed", [call()], [call(result={"content": "oops"})], True),
    Case("call-answer-malformed", [call()], [call(result={})], True),
    Case("call-answer-malformed", [gave({"a": 1})], [call(result={"structuredContent": {"a": 1}})], True),
    Case("call-answer-malformed", [call()], [call(result={"content": ["oops"]})], True),
    Case("call-answer-malformed", [call()], [call(result={"content": [{"text": "oops"}]})], True),
    Case("call-answer-malformed", [call()], [call(result="oops")], True),
    Case("call-answer-malformed", [read({"contents": []})], [read({"contents": {}})], True),
    Case("call-answer-malformed", [call()], [bare()], True),
    Case("call-answer-malformed", tools(), [hello(), bare("tools/list", {}, {"tools": []})], True),
    Case("call-answer-malformed", [bare()], [bare()], False),
    Case("call-answer-malformed", [bare()], [call()], False),
    Case("call-answer-malformed", [call()], [call(result={"content": []})], False),
    Case("server-answer-unasked", [call()], [twice()], True),
    Case("server-answer-unasked", [call()], [call(), said(("server", text_of(id="z", result={})))], True),
    Case("server-answer-unasked", [twice()], [twice()], False),
    Case("server-answer-unasked", [call()], [call(), said(("server", text_of(id=None, error={})))], False),
    Case("call-answer-malformed", [call(result={})], [call(result={"content": "oops"})], False),
    Case("call-answer-malformed", [call(result={})], [call()], False),
    Case("call-answer-malformed", [call()], [call(result={"task": {"taskId": "1"}})], False),
    Case("call-answer-malformed", [exchange("x/y", {}, {"content": []})], [exchange("x/y", {}, {})], False),
]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_an_invalid_answer_is_reported(case: Case) -> None:
    expect(case)


# The call of an answer -----------------------------------------------------------------------------------


def mark(old: Any, new: Any) -> str:
    found = Difference("call-ok-to-error", ("result", "isError"), "ok", "isError", "no")
    asked = ({"name": "t", "arguments": given} for given in (old, new))
    return change(Subject("call", "tools/call t"), add_call_params(found, "tools/call", *asked)).fingerprint


def test_a_failure_of_another_call_is_another_change() -> None:
    assert len({mark({"x": 1}, {"x": 1}), mark({"x": 2}, {"x": 2}), mark({}, {}), mark({"x": [1]}, {"x": [1]})}) == 4


def test_made_up_values_do_not_distinguish_calls() -> None:
    assert mark({"of": 17, "y": 1}, {"of": 40, "y": 1}) == mark({"of": 18, "y": 1}, {"of": 41, "y": 1})
    assert mark({"of": 17, "y": 1}, {"of": 40, "y": 1}) != mark({"of": 17, "y": 2}, {"of": 40, "y": 2})
    assert mark({"of": [17, 1]}, {"of": [40, 1]}) != mark({"of": [17, 2]}, {"of": [40, 2]})
    assert mark({"of": [17]}, {"of": [40, 1]}) == mark({"of": [18]}, {"of": [41, 1]})


@pytest.mark.parametrize(
    "bad", [call(n=2, result=FAILED), exchange("tools/call", {"name": "t", "arguments": {"n": 2}})]
)
def test_a_failure_that_was_accepted_hides_no_other(bad: Step) -> None:
    old: Talk = [call(n=n) for n in (1, 2, 3)]
    (one,) = compared(old, [call(n=1), bad, call(n=3)]).at_least("error")
    settings = JudgingSettings(ignores=parse_ignores(one.fingerprint, "ignores"))
    worse: Talk = [call(n=n, result=FAILED) for n in (1, 3)]
    found = compared(old, [worse[0], bad, worse[1]], settings)
    assert {change.note for change in found.at_least("error")} == {'ok; asked with {"n":1}', 'ok; asked with {"n":3}'}
    assert [change.fingerprint for change in found.ignored] == [one.fingerprint]


def test_made_up_parts_of_a_text_are_not_in_its_fingerprint() -> None:
    def total(number: int) -> list[Step]:
        return [wrote(f"job {uuid4()}: total {number}")]

    prints = {change.fingerprint for _ in range(3) for change in changes(total(14), total(16), "call-text-changed")}
    assert len(prints) == 1
    assert prints.isdisjoint(change.fingerprint for change in changes(total(14), total(17), "call-text-changed"))


def test_an_id_that_stays_is_data_and_part_of_the_fingerprint() -> None:
    one, other = (f"job {UUID(int=number, version=4)}: total" for number in (2**100 + 7, 2**101 + 9))
    prints = {
        change.fingerprint
        for job in (one, other)
        for change in changes([wrote(f"{job} 14")], [wrote(f"{job} 16")], "call-text-changed")
    }
    assert len(prints) == 2
