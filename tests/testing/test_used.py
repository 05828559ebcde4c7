"""A contract for the calls of a test: `tape.expect(…)`, replayed and recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_tape import Mode, use_cassette
from tests.support.decks import make_cassette
from tests.support.messages import call, lines, request
from tests.support.running import python, run
from tests.support.using import HELLO, answers, session
from tests.support.vcr import SERVER


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    return make_cassette(tmp_path / "tape.db", session(("search", "one"), ("search", "two"), ("delete_all", "gone")))


def test_a_kept_contract_is_silent(cassette: Path) -> None:
    with use_cassette(cassette, mode="none") as tape:
        answers(tape.command, lines(call(1, "search"), call(2, "search")))
        tape.expect("tool:search", "initialize", forbid="tool:delete_*", max={"tools/call": 2}, max_duration="1s")
        tape.expect(forbid=["tool:delete_*", "status:error"], max_duration=1.5)
        tape.expect()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"filters": ["tool:find"]}, "expect 'tool:find': nothing matches"),
        ({"forbid": "tool:delete_*"}, "forbid 'tool:delete_*': call 4, tools/call delete_all"),
        ({"max": {"tool:search": 1}}, "max 'tool:search<=1': call 3, tools/call search is number 2 of 2"),
        ({"max_duration": 0.0005}, "max-duration 500 µs: call 1, initialize took 1.0 ms"),
        ({"max_definition_bytes": "1k"}, "max-definition-bytes 1.0k: nothing to measure: there is no tools/list"),
    ],
)
def test_a_broken_contract_names_the_breach(cassette: Path, given: dict[str, Any], said: str) -> None:
    with use_cassette(cassette, mode="none") as tape:
        answers(tape.command, lines(call(1, "search"), call(2, "search"), call(3, "delete_all")))
        with pytest.raises(AssertionError) as raised:
            tape.expect(*given.pop("filters", []), **given)
    head, first, *_, last = str(raised.value).split("\n")
    assert head == f"{cassette}: the contract is broken"
    assert first == f"  {said}"
    assert last == "  called: tools/call search ×2, initialize, tools/call delete_all"


def test_only_the_calls_of_this_test_count(cassette: Path) -> None:
    with use_cassette(cassette, mode="none") as tape:
        with pytest.raises(AssertionError, match="nothing matches\n  called: 0 calls"):
            tape.expect("tool:search")
        answers(tape.command, lines(call(1, "search")))
        tape.expect("tool:search", forbid="tool:delete_all")
        tape.rewind()
        tape.expect(forbid="tools/call")


def test_a_miss_is_a_call_without_an_answer(cassette: Path) -> None:
    with use_cassette(cassette, mode="none") as tape:
        answers(tape.command, lines(request(1, "resources/list")))
        with pytest.raises(AssertionError, match="call 2, resources/list"):
            tape.expect(forbid="status:unanswered")


@pytest.mark.slow
def test_a_recorded_call_counts_like_a_replayed_one(tmp_path: Path) -> None:
    modes: tuple[Mode, ...] = ("once", "none")
    for mode in modes:
        with use_cassette(tmp_path / "tape.db", mode=mode, command=[*python(SERVER), str(tmp_path / "log")]) as tape:
            assert run(tape.command, HELLO + lines(call(1, "count"), call(2, "count"))).returncode == 0
            tape.expect("tool:count", max={"tools/call": 2})
            with pytest.raises(AssertionError, match="number 2 of 2"):
                tape.expect(max={"tools/call": 1})


def test_a_filter_that_does_not_parse_is_a_value_error(cassette: Path) -> None:
    with use_cassette(cassette, mode="none") as tape, pytest.raises(ValueError, match="there is no field 'tol'"):
        tape.expect("tol:search")
