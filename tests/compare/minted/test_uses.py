"""Values that a server makes up: found on a tape, and read from another answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_tape.compare.minted.uses import TapeMessage, is_lost, put_live_values, uses

LIVE = "7f3c9a1be2"


class Tape:
    """Messages in order, and live answers to the same requests."""

    def __init__(self) -> None:
        self._said: list[TapeMessage] = []
        self._live: dict[Any, Any] = {}

    def ask(self, method: str, **params: Any) -> Tape:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._said.append(TapeMessage((1, len(self._said), 0), "client", "request", method, body))
        return self

    def answer(self, then: Any, now: Any = None) -> Tape:
        key = (1, len(self._said), 0)
        self._said.append(TapeMessage(key, "server", "response", None, {"result": then}))
        if now is not None:
            self._live[key] = {"result": now}
        return self

    def last(self, **how: bool) -> Any:
        """The params of the last request, as sent to the live server."""
        said = self._said[-1]
        found = uses(lambda: self._said).get(said.key, [])
        text = put_live_values(json.dumps(said.body).encode(), found, self._recorded, self._live.get, **how)
        return json.loads(text)["params"]

    def is_lost(self) -> bool:
        found = uses(lambda: self._said).get(self._said[-1].key, [])
        return any(is_lost(use, self._recorded, self._live.get) for use in found)

    def _recorded(self, key: Any) -> Any:
        return next(said.body for said in self._said if said.key == key)


def content(text: str) -> Any:
    return {"content": [{"type": "text", "text": text}]}


def call(**arguments: Any) -> Any:
    return {"name": "get", "arguments": arguments}


@pytest.mark.parametrize(
    ("then", "now", "used", "expected"),
    [
        ({"id": "ab12"}, {"id": LIVE}, "ab12", LIVE),
        ({"a": {"b": [{"c": "ab12"}]}}, {"a": {"b": [{"c": LIVE}]}}, "ab12", LIVE),
        (content('{"id": "ab12"}'), content('{ "id":"' + LIVE + '"}'), "ab12", LIVE),
        (content('[{"x": "{\\"id\\": \\"ab12\\"}"}]'), content('[{"x": "{\\"id\\": \\"zz99\\"}"}]'), "ab12", "zz99"),
        (content("Created ab12."), content(f"Created {LIVE}."), "ab12", LIVE),
        (content("Created ABC-1 (took 3 ms)"), content("Created ABC-77 (took 12 ms)"), "ABC-1", "ABC-77"),
        (content("see https://x.org/i/12 now"), content("see https://x.org/i/345 now"), "https://x.org/i/12",
         "https://x.org/i/345"),
        (content("a: id1a\nb: id2b\n"), content("a: id7a\nb: id8b\n"), "id2b", "id8b"),
        ({"id": 17}, {"id": 4711}, 17, 4711),
        ({"id": 17}, {"id": 4711}, "17", "4711"),
        (content("Created issue #17"), content("Created issue #4711"), 17, 4711),
    ],
    ids=["a leaf", "deeper", "JSON in text", "JSON in JSON", "a word", "a word before a number", "an address",
         "the right word", "a number", "a number used as text", "a number in text"],
)  # fmt: skip
def test_a_value_is_read_where_it_stood(then: Any, now: Any, used: Any, expected: Any) -> None:
    tape = Tape().ask("make").answer(then, now).ask("tools/call", **call(id=used))
    assert tape.last()["arguments"] == {"id": expected}


@pytest.mark.parametrize(
    ("then", "now", "arguments"),
    [
        ({"word": "green"}, {"word": "blue"}, {"colour": "green"}),
        ({"text": "It is 12 o'clock"}, {"text": "It is 3 o'clock"}, {"count": 12}),
        ({"id": 17}, {"id": 4711}, {"count": 17}),
        ({"ids": ["a1b2", "c3d4"]}, {"ids": ["c3d4", "a1b2", "e5f6"]}, {"id": "a1b2"}),
        ({"ids": ["a1b2", "c3d4"]}, {"ids": ["x1y2"]}, {"id": "c3d4"}),
        ({"ids": ["a1b2", "c3d4"]}, {"ids": ["x1y2", "z3w4"]}, {"id": "c3d4"}),
        (content("- a1b2\n- c3d4\n"), content("- x1y2\n- z3w4\n"), {"id": "c3d4"}),
        (content("one a1b2 two"), content("nothing of the kind"), {"id": "a1b2"}),
        (content("at a1b2, at c3d4"), content("at x1y2, at z3w4, at q5r6"), {"id": "c3d4"}),
        ({"id": "a1b2"}, {"id": {"now": "an object"}}, {"id": "a1b2"}),
        ({"id": 17}, {"id": "seventeen"}, {"id": 17}),
    ],
    ids=["a word", "a count in text", "a count", "still there", "fewer of them", "others", "a list in text",
         "no such text", "more of them", "another type", "no number"],
)  # fmt: skip
def test_uncertain_values_go_out_as_recorded(then: Any, now: Any, arguments: Any) -> None:
    tape = Tape().ask("make").answer(then, now).ask("tools/call", **call(**arguments))
    assert tape.last()["arguments"] == arguments


@pytest.mark.parametrize(
    ("then", "now", "given", "expected"),
    [
        ({"id": "ab12cd3"}, {"id": LIVE}, "job://ab12cd3/log", f"job://{LIVE}/log"),
        ({"id": "job-7"}, {"id": "job-12345"}, "job=job-7 and job-7x, job-7", "job=job-12345 and job-7x, job-12345"),
        ({"id": "job-7"}, {"id": "job-12345"}, '{"job": "job-7"}', '{"job": "job-12345"}'),
        ({"a": "x-1y", "b": "x-2y"}, {"a": "x-3y", "b": "x-4y"}, "x-1y and x-2y", "x-3y and x-4y"),
        (content("Created abcd-1234."), content("Created abcd-5678."), "of abcd-1234", "of abcd-5678"),
        ({"link": "https://x.org/i/ab12cd"}, {"link": f"https://x.org/i/{LIVE}"}, "ab12cd", LIVE),
        (content("It runs on py3."), content("It runs on py4."), "the py3 docs", "the py3 docs"),
        ({"id": "ab12"}, {"id": "something else"}, "job://ab12/log", "job://ab12/log"),
        ({"id": "green"}, {"id": "black"}, "green cars", "green cars"),
        ({"id": "17"}, {"id": "18"}, "17 cars", "17 cars"),
        ({"id": "ab12cd3"}, {"id": LIVE}, "ab12cd3 " * 200, "ab12cd3 " * 200),
    ],
    ids=["in an address", "twice", "in JSON", "two of them", "from a text", "from an address", "a short word of a text",
         "not alike", "a plain word", "a number", "in what is content"],
)  # fmt: skip
def test_an_id_is_read_where_it_is_a_word_of_a_longer_text(then: Any, now: Any, given: str, expected: str) -> None:
    tape = Tape().ask("make").answer(then, now).ask("tools/call", **call(q=given))
    assert tape.last()["arguments"] == {"q": expected}


def test_a_text_of_nothing_but_punctuation_takes_no_time() -> None:
    odd = content("." * 300_000 + " ab12 " + "-=" * 100_000)
    tape = Tape().ask("make").answer(odd, odd).ask("tools/call", **call(id="ab12"))
    assert tape.last()["arguments"] == {"id": "ab12"}


def test_values_that_the_client_sent_first_were_not_made_up_by_the_server() -> None:
    tape = Tape().ask("make", note="call it ab12").answer({"id": "ab12"}, {"id": LIVE})
    assert tape.ask("tools/call", **call(id="ab12")).last()["arguments"] == {"id": "ab12"}


def test_a_list_element_is_found_by_its_other_members() -> None:
    then = {"items": [{"name": "a", "id": "aa11"}, {"name": "b", "id": "bb22"}]}
    now = {"items": [{"name": "new", "id": "nn00"}, {"name": "b", "id": "bb99"}, {"name": "a", "id": "aa99"}]}
    tape = Tape().ask("make").answer(then, now).ask("tools/call", **call(id="bb22"))
    assert tape.last()["arguments"] == {"id": "bb99"}


@pytest.mark.parametrize(
    ("then", "now", "is_bound"),
    [
        ("ABC-12", "ABC-345", True),
        ("0b1c2d3e4f", "ffeeddccbb", True),
        ("a" * 8 + "-12345678", "z" * 8 + "-87654321", True),
        ("tmp-1.txt", "important-2.txt", False),
    ],
)
def test_calls_that_write_get_only_values_that_look_alike(then: str, now: str, is_bound: bool) -> None:
    tape = Tape().ask("make").answer({"id": then}, {"id": now}).ask("tools/call", **call(id=then))
    assert tape.last()["arguments"] == {"id": now}
    assert tape.last(careful=True)["arguments"] == {"id": now if is_bound else then}


def test_names_of_tools_are_not_made_up() -> None:
    tools = [{"tools": [{"name": name}]} for name in ("tool-1", "tool-2")]
    assert Tape().ask("tools/list").answer(*tools).ask("tools/call", name="tool-1").last()["name"] == "tool-1"


def test_a_value_that_is_not_there_yet_is_found_where_it_comes_next() -> None:
    tape = Tape().ask("make").answer({"id": "ab12"}).ask("show").answer({"id": "ab12"}, {"id": LIVE})
    assert tape.ask("tools/call", **call(id="ab12")).last()["arguments"] == {"id": LIVE}


@pytest.mark.parametrize(
    ("method", "given", "used"),
    [
        ("tools/list", "nextCursor", "cursor"),
        ("tools/call", "requestState", "requestState"),
        ("tasks/get", "taskId", "taskId"),
    ],
)
def test_values_opaque_by_the_protocol_are_always_the_servers(method: str, given: str, used: str) -> None:
    """Even a plain word that the client used before; the newest value counts."""
    tape = Tape().ask(method, **{used: "next"}).answer({given: "next"}, {given: "old"})
    tape.ask(method, **{used: "next"}).answer({given: "next"}, {given: "new", "text": "next"})
    assert tape.ask(method, **{used: "next"}).last() == {used: "new"}
    assert not tape.is_lost()


def test_an_opaque_value_that_the_live_server_does_not_give_is_lost() -> None:
    tape = Tape().ask("tools/list").answer({"nextCursor": "p2"}, {"tools": []}).ask("tools/list", cursor="p2")
    assert tape.is_lost()
    assert tape.last() == {"cursor": "p2"}


def test_one_that_was_never_asked_for_is_not() -> None:
    assert not Tape().ask("tools/list").answer({"nextCursor": "p2"}).ask("tools/list", cursor="p2").is_lost()


def test_inputs_are_given_under_the_names_that_the_live_server_has_for_them() -> None:
    then = {"inputRequests": {"a": {"method": "roots/list"}, "b": {"method": "elicitation/create"}}}
    now = {"inputRequests": {"x": {"method": "elicitation/create"}, "y": {"method": "roots/list"}}}
    tape = Tape().ask("tools/call").answer(then, now)
    tape.ask("tools/call", inputResponses={"a": {"roots": [1.0]}, "b": {"action": "accept"}})
    assert tape.last() == {"inputResponses": {"y": {"roots": [1.0]}, "x": {"action": "accept"}}}


def test_inputs_that_the_live_server_does_not_ask_for_are_lost() -> None:
    tape = Tape().ask("tools/call").answer({"inputRequests": {"a": {"method": "roots/list"}}}, {"content": []})
    assert tape.ask("tools/call", inputResponses={"a": {}}).is_lost()
