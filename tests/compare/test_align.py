"""Alignment of calls from two recordings, and pairs of corresponding values: those that servers make up anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.compare.versions import compare, version_of_sessions
from tests.support.decks import Said, alter
from tests.support.diffs import (
    SAMPLED,
    SAMPLING,
    Talk,
    call,
    changes,
    compare_cassettes,
    compared,
    discovered,
    exchange,
    gave,
    hello,
    listing,
    refused,
    rules,
    said,
    taped,
    text_of,
    told,
    tool,
    tools,
    wrote,
)

IDS = ["6f1c1f0e-9a5b-4a53-8a0b-0d8d0f3a7c11", "b4c1d2e3-0000-4a53-9c9c-aaaaaaaaaaaa"]
OTHERS = ["0a0a0a0a-9a5b-4a53-8a0b-0d8d0f3a7c11", "11111111-2222-4a53-9c9c-bbbbbbbbbbbb"]
NOON, LATER, LATEST = "2026-01-01T12:00:00Z", "2026-03-04T05:06:07Z", "2026-05-06T07:08:09.123Z"


# Pairs of calls ------------------------------------------------------------------------------------------


def test_the_same_call_made_twice_is_paired_in_order() -> None:
    (change,) = compared([gave({"a": 1}), gave({"a": 2})], [gave({"a": 1}), gave({"a": 3})]).changes
    assert (change.before, change.after) == (2, 3)


def test_the_order_of_different_calls_does_not_matter() -> None:
    assert rules([gave(1, n=1), gave(2, n=2)], [gave(2, n=2), gave(1, n=1)]) == []


def made(ids: Sequence[Any], then: Any = "fine", member: str = "note") -> Talk:
    """Create a thing, then another from it; request each by its id."""
    first, second = ids
    return [
        gave({"made": {member: first}}, new=1),
        gave({"made": {member: second}}, of=first),
        gave({"state": then}, about={"deep": [second]}),
    ]


@pytest.mark.parametrize(
    ("old", "new"), [(IDS, OTHERS), (["note-1", "note-2"], ["note-8", "note-9"]), ([17, 18], [20, 21])]
)
def test_an_id_from_one_answer_is_known_again_in_the_next_call(old: list[Any], new: list[Any]) -> None:
    assert rules(made(old, member="id"), made(new, member="id")) == []
    (change,) = changes(made(old, member="id"), made(new, "broken", "id"), "call-structured-value-changed")
    assert (change.before, change.after) == ("fine", "broken")


def test_an_id_in_running_text_is_known_again() -> None:
    def talk(number: str) -> Talk:
        return [wrote(f"Created note {number}."), gave({"a": 1}, note=number)]

    assert "call-missing" not in rules(talk("n17"), talk("n99"))


@pytest.mark.parametrize("member", ["id", "handle"])
@pytest.mark.parametrize(("one", "other"), [(IDS[0], OTHERS[0]), ("job-17", "job-4711")])
@pytest.mark.parametrize("within", ["job://{}/log", "http://x.org/jobs/{}?all", "job={} and x", '{{"job": "{}"}}'])
def test_an_id_within_a_longer_text_is_known_again(within: str, one: str, other: str, member: str) -> None:
    def talk(name: str) -> Talk:
        return [gave({member: name}, new=1), gave({"a": 1}, of=within.format(name))]

    assert "call-missing" not in rules(talk(one), talk(other))


def test_words_that_differ_for_other_reasons_make_no_call_another() -> None:
    old, new = ([gave({"colour": word}), gave({"a": 1}, about=f"{word} cars")] for word in ("green", "black"))
    assert rules(old, new)[:1] == ["call-missing"]


@pytest.mark.parametrize(("one", "other", "paired"), [(IDS[0], OTHERS[0], True), ("n-17", "n-99", True),
                                                      ("Bern", "Basel", False)])  # fmt: skip
def test_a_session_that_extends_another_may_use_ids_of_that(one: str, other: str, paired: bool, tmp_path: Path) -> None:
    old, new = taped(tmp_path / "old.db", [gave(1)], [gave(2, of=one)]), taped(tmp_path / "new.db", [gave(2, of=other)])
    alter(old, "UPDATE sessions SET extends = 1 WHERE id = 2")
    with Cassette(str(old)) as before, Cassette(str(new)) as after:
        found = compare(version_of_sessions(before, [2]), version_of_sessions(after, [1])).changes
        assert ([change.rule for change in found] == []) is paired
        assert compare(
            version_of_sessions(before, [1, 2]), version_of_sessions(after, [1])
        ).changes  # all messages are in these


def paged(cursor: str) -> Talk:
    return [
        hello(capabilities={"tools": {}, "prompts": {}}),
        listing("tools/list", tool("a"), nextCursor=cursor),
        listing("tools/list", tool("b"), cursor=cursor),
        exchange("x/list", {}, {"items": [1], "nextCursor": cursor}),
        exchange("x/list", {"cursor": cursor}, {"items": [2]}),
    ]


def tasked(task: str) -> Talk:
    return [
        call(result={"task": {"taskId": task, "status": "working"}}),
        exchange("tasks/get", {"taskId": task}, {"taskId": task, "status": "working"}),
        exchange("tasks/get", {"taskId": task}, {"taskId": task, "status": "completed"}),
        exchange("tasks/result", {"taskId": task}, {"content": [{"type": "text", "text": "done"}]}),
    ]


def resumed(state: str) -> Talk:
    asked = {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}, "requestState": state}
    params = {"name": "t", "arguments": {}, "inputResponses": {"a": {"roots": []}}, "requestState": state}
    return [call(result=asked), exchange("tools/call", params, {"content": []})]


@pytest.mark.parametrize("talk", [paged, tasked, resumed])
def test_cursors_tasks_and_states_may_be_called_otherwise(talk: Any) -> None:
    assert rules(talk("first"), talk("second")) == []


def test_the_results_of_a_task_are_compared_under_its_other_name() -> None:
    new = [*tasked("second")[:3], exchange("tasks/result", {"taskId": "second"}, {"content": [], "isError": True})]
    assert "call-ok-to-error" in rules(tasked("first"), new)


def test_a_call_with_another_argument_of_the_clients_own_is_another_call() -> None:
    assert rules([call(city="Bern")], [call(city="Basel")]) == ["call-missing", "call-added"]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("[redacted:env:TOKEN]", "s3cret", True),
        ("s3cret", "[redacted:env:TOKEN]", True),
        ("[redacted:env:TOKEN]", "[redacted:shape:jwt]", True),
        ("Bearer [redacted:env:TOKEN]", "Bearer s3cret", True),
        ("Bearer [redacted:env:TOKEN]", "Basic s3cret", False),
    ],
)
def test_a_redacted_value_matches_any_other(old: str, new: str, same: bool) -> None:
    asked = rules([call(header=old)], [call(header=new)])
    answered = rules([gave({"header": old})], [gave({"header": new})])
    assert (asked == [], answered == []) == (same, same)


# Pairs of values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": IDS[0]}, {"a": OTHERS[0]}),
        ({"id": 17}, {"id": 18}),
        ({"note_id": "a"}, {"note_id": "b"}),
        ({"noteId": "a"}, {"noteId": "b"}),
        ({"commit": "0f3a7c11aa"}, {"commit": "9e8d7c6b5a"}),
        ({"at": NOON}, {"at": LATER}),
        ({"a": f"made at {NOON} as {IDS[0]}"}, {"a": f"made at {LATER} as {OTHERS[0]}"}),
        ({"updated_at": 1767225600}, {"updated_at": 1767225999}),
        ({"uptime": 3.25}, {"uptime": 4}),
    ],
)
def test_new_made_up_values_are_not_a_change(old: Any, new: Any) -> None:
    assert rules([gave(old)], [gave(new)]) == []


def test_members_with_names_that_were_made_up_are_not_lost() -> None:
    found = compared([gave({IDS[0]: {"a": 1}})], [gave({OTHERS[0]: {"a": 1}})])
    assert not found.at_least("warn")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": "Bern"}, {"a": "Basel"}),
        ({"a": 17}, {"a": 18}),
        ({"a": f"made {IDS[0]}"}, {"a": f"lost {OTHERS[0]}"}),
        ({"a": NOON}, {"a": "never"}),
        ({"a": IDS[0]}, {"a": "0"}),
    ],
)
def test_new_data_of_a_server_is_a_change(old: Any, new: Any) -> None:
    assert rules([gave(old)], [gave(new)]) == ["call-structured-value-changed"]


def test_an_id_must_correspond_to_the_same_id_everywhere() -> None:
    old = [gave({"a": IDS[0]}, n=1), gave({"a": IDS[0]}, n=2)]
    assert rules(old, [gave({"a": OTHERS[0]}, n=1), gave({"a": OTHERS[1]}, n=2)]) == ["call-structured-value-changed"]


def test_two_ids_must_not_become_one() -> None:
    old = [gave({"a": IDS[0]}, n=1), gave({"a": IDS[1]}, n=2)]
    assert rules(old, [gave({"a": OTHERS[0]}, n=1), gave({"a": OTHERS[0]}, n=2)]) == ["call-structured-value-changed"]


def test_a_time_that_stays_the_same_somewhere_is_data() -> None:
    old = [gave({"due": NOON}, n=1), gave({"due": NOON}, n=2)]
    assert rules(old, [gave({"due": LATER}, n=1), gave({"due": LATEST}, n=2)]) == []
    steady = [gave({"due": NOON}, n=1), gave({"due": LATER}, n=2)]
    assert rules(old, steady) == ["call-structured-value-changed"]


def test_a_number_that_is_a_time_may_be_data_too() -> None:
    old = [gave({"updated_at": 100}, n=1), gave({"updated_at": 100}, n=2)]
    steady = [gave({"updated_at": 100}, n=1), gave({"updated_at": 200}, n=2)]
    assert rules(old, steady) == ["call-structured-value-changed"]


@pytest.mark.parametrize(
    ("name", "then", "now", "changes"),
    [
        ("ts", 1763490000, 1763576400, 0),
        ("ts", 1763490000123, 1763576400456, 0),
        ("ts", 1763490000.25, 1763576400.5, 0),
        ("created_at", 1763490000, 1763576400123, 1),
        ("ts", 1263490000, 1763576400, 1),
        ("ts", 17634900001, 17635764001, 1),
        ("bytes", 1763490000, 1763576400, 1),
        ("totalSize", 1763490000, 1763576400, 1),
    ],
)
def test_a_number_as_large_as_the_time_is_a_clock(name: str, then: float, now: float, changes: int) -> None:
    assert len(rules([gave({name: then})], [gave({name: now})])) == changes


def test_a_number_as_large_as_the_time_that_stays_the_same_is_data() -> None:
    old = [gave({"ts": 1763490000}, n=1), gave({"ts": 1763490000}, n=2)]
    assert rules(old, [gave({"ts": 1763490000}, n=1), gave({"ts": 1763576400}, n=2)]) == [
        "call-structured-value-changed"
    ]


def test_times_of_another_place_say_nothing_about_this_one() -> None:
    old, new = {"born": NOON, "now": NOON}, {"born": NOON, "now": LATER}
    assert rules([gave(old)], [gave(new)]) == []


JOB, TASK = {"state": "done", "n": 1}, {"title": "a"}


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({IDS[0]: {"n": 1}, IDS[1]: {"n": 2}}, {OTHERS[0]: {"n": 1}, OTHERS[1]: {"n": 2}}, 0),  # in order
        ({IDS[0]: JOB, IDS[1]: TASK}, {OTHERS[0]: TASK, OTHERS[1]: JOB}, 0),  # or by shape
        ({IDS[0]: {"n": 1}, IDS[1]: {"n": 2}}, {IDS[0]: {"n": 1}, OTHERS[1]: {"n": 2}}, 0),  # one stayed
        ({IDS[0]: {"n": 1}}, {OTHERS[0]: {"n": 2}}, 1),
        ({IDS[0]: JOB, "total": 1}, {OTHERS[0]: JOB, "total": 2}, 1),
        ({"a": {IDS[0]: [{IDS[1]: 1}]}}, {"a": {OTHERS[0]: [{OTHERS[1]: 1}]}}, 0),
        ({"a": {IDS[0]: [{IDS[1]: 1}]}}, {"a": {OTHERS[0]: [{OTHERS[1]: 2}]}}, 1),
    ],
)
def test_members_whose_names_are_made_up_are_paired(old: Any, new: Any, changes: int) -> None:
    assert len(rules([gave(old)], [gave(new)])) == changes


def test_json_in_a_text_is_compared_by_its_values() -> None:
    old, new = f'{{"id": "{IDS[0]}", "at": "{NOON}"}}', f'{{"at":"{LATER}", "id":"{OTHERS[0]}"}}'
    assert rules([wrote(old)], [wrote(new)]) == []


def test_made_up_values_in_errors_are_bound() -> None:
    old, new = (refused(message=f"no such note {one}") for one in (IDS[0], OTHERS[0]))
    assert rules([old], [new]) == []


# Order, ids, batches, eras ------------------------------------------------------------------------------


def asked(rpc_id: Any, n: int) -> Said:
    return "client", text_of(id=rpc_id, method="tools/call", params={"name": "t", "arguments": {"n": n}})


def answered(rpc_id: Any, value: Any) -> Said:
    return "server", text_of(id=rpc_id, result={"content": [], "structuredContent": value})


def raw(old: list[Said], new: list[Said]) -> list[str]:
    return rules([said(*old)], [said(*new)])


def test_concurrent_calls_may_be_answered_in_another_order() -> None:
    old = [asked(1, 1), asked(2, 2), answered(1, "a"), answered(2, "b")]
    new = [asked(1, 1), asked(2, 2), answered(2, "b"), answered(1, "a")]
    assert raw(old, new) == []


def test_ids_may_be_others() -> None:
    assert raw([asked(1, 1), answered(1, "a")], [asked("x", 1), answered("x", "a")]) == []


def test_both_sides_may_use_the_same_ids() -> None:
    """The server uses the id of the call for its own request."""
    old = [asked(1, 1), SAMPLING, SAMPLED, answered(1, "a")]
    assert raw(old, old) == []
    assert raw(old, [*old[:3], answered(1, "b")]) == ["call-structured-value-changed"]


def test_an_id_may_be_used_again() -> None:
    old = [asked(1, 1), answered(1, "a"), asked(1, 2), answered(1, "b")]
    assert raw(old, [asked(1, 1), answered(1, "a"), asked(2, 2), answered(2, "b")]) == []
    assert raw(old, [*old[:3], answered(1, "c")]) == ["call-structured-value-changed"]


def batch(*parts: Said) -> Said:
    return parts[0][0], f"[{','.join(text for _, text in parts)}]"


def test_calls_in_a_batch_are_those_outside_of_one() -> None:
    apart = [asked(1, 1), answered(1, "a"), asked(2, 2), answered(2, "b")]
    together = [batch(asked(1, 1), asked(2, 2)), batch(answered(2, "b"), answered(1, "a"))]
    assert raw(apart, together) == []
    changed = [together[0], batch(answered(2, "c"), answered(1, "a"))]
    assert raw(apart, changed) == ["call-structured-value-changed"]


def test_a_cancelled_call_may_be_answered_or_not() -> None:
    cancelled: Said = ("client", told("notifications/cancelled", requestId=1))
    with_answer, without = [asked(1, 1), cancelled, answered(1, "a")], [asked(1, 1), cancelled]
    assert raw(with_answer, without) == raw(without, with_answer) == []


@pytest.mark.parametrize("polls", [1, 2, 7])
def test_how_often_a_task_was_asked_after_does_not_matter(polls: int) -> None:
    def task(polls: int, end: str) -> Talk:
        working = exchange("tasks/get", {"taskId": "t-1"}, {"taskId": "t-1", "status": "working"})
        return [*[working] * polls, exchange("tasks/get", {"taskId": "t-1"}, {"taskId": "t-1", "status": end})]

    assert rules(task(3, "completed"), task(polls, "completed")) == []
    assert rules(task(3, "completed"), task(polls, "failed")) == ["call-structured-value-changed"]


def test_a_result_without_a_type_is_complete() -> None:
    told_more = {"content": [], "resultType": "complete", "ttlMs": 1, "_meta": {"a": 1}}
    legacy, modern = [hello(), call(result={"content": []})], [discovered(), call(result=told_more)]
    assert rules(legacy, modern) == []


def test_messages_of_a_resubscribed_stream_are_not_calls() -> None:
    listen = exchange("subscriptions/listen", {"notifications": {}})
    assert rules([call(), listen], [call()]) == []
    ended = exchange("subscriptions/listen", {"notifications": {}}, {})
    assert rules([ended], [listen]) == []


def test_answers_that_are_too_late_are_no_answers_to_others() -> None:
    stray: Said = ("server", text_of(id=99, result={"a": 1}))
    found = raw([asked(1, 1), answered(1, "a")], [asked(1, 1), stray, answered(1, "a"), stray])
    assert found == ["server-answer-unasked"]


@pytest.mark.parametrize(("one", "other"), [(IDS[0], OTHERS[0]), ("note-1", "note-8"), (17, 20)])
def test_a_session_that_extends_another_is_compared_with_it(tmp_path: Path, one: Any, other: Any) -> None:
    old = taped(tmp_path / "old.db", [*tools(tool()), gave({"id": one}, new=1), gave({"a": 1}, of=one)])
    new = taped(tmp_path / "new.db", [*tools(tool()), gave({"id": other}, new=1)])
    taped(new, [hello(), gave({"a": 1}, of=other)], extends=1)
    assert compare_cassettes(str(old), str(new)).changes == compare_cassettes(str(new), str(old)).changes == ()
