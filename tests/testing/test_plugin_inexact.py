"""Inexact answers in tests: which are reported, and how a run treats them."""

from __future__ import annotations

import json

import pytest

from mcp_tape import use_cassette
from tests.support.decks import Said, make_cassette
from tests.support.messages import call, request, result
from tests.support.plugin import Suite

RECORDED = "/tmp/pytest-of-ann/pytest-1"
TESTS = """
pytestmark = pytest.mark.mcp_tape("shared", normalize=["paths"])

@pytest.mark.parametrize("name", "abcd")
def test_file(mcp_tape, tmp_path, name):
    path = str(tmp_path / "x.txt")
    assert ask(mcp_tape, "read", "read", path=path) == [f"{name}1 of {path}", f"{name}2 of {path}"]
    assert [(found.rung, found.call.name) for found in mcp_tape.inexact] == [("normalize", "read")] * 2
    (difference,) = mcp_tape.inexact[0].differences
    assert difference.path == "$.params.arguments.path" and path[:100] in difference.live
"""


def shared(suite: Suite, names: str = "abcd") -> None:
    """Each test has recorded its session: two reads of a file in its own directory."""
    sessions = []
    for name in names:
        path = f"{RECORDED}/test_file_{name}_0/x.txt"
        said: list[Said] = [("client", request(0, "initialize")), ("server", result(0))]
        for number in (1, 2):
            said.append(("client", call(number, "read", path=path)))
            said.append(("server", result(number, f"{name}{number} of {path}")))
        sessions.append(said)
    (suite.path / "cassettes").mkdir()
    make_cassette(suite.path / "cassettes" / "shared.db", *sessions)


@pytest.mark.slow
def test_a_shared_cassette_gives_each_test_its_own_answers_in_any_order_and_in_parallel(suite: Suite) -> None:
    shared(suite)
    suite.test(TESTS)
    for order in ("abcd", "dcba", "cadb", "b"):
        suite.passes(*(f"test_it.py::test_file[{name}]" for name in order), passed=len(order))
    result = suite.run_apart("-n2")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*mcp-tape: answers that were not exact*", "cassettes/shared.db: 8 (8 by normalize)"])


NEAREST = """
@pytest.mark.mcp_tape(match="nearest"{more})
def test_one(mcp_tape):
    assert ask(mcp_tape, "read", text="the first") == {expected}
"""


def near(suite: Suite, more: str = "", expected: str = "['one']") -> None:
    said: list[Said] = [("client", request(0, "initialize")), ("server", result(0))]
    said += [("client", call(1, "read", text="a first")), ("server", result(1, "one"))]
    (suite.path / "cassettes/test_it").mkdir(parents=True)
    make_cassette(suite.path / "cassettes/test_it/test_one.db", said)
    suite.test(NEAREST.format(more=more, expected=expected))


@pytest.mark.slow
def test_the_summary_has_the_inexact_answers(suite: Suite) -> None:
    near(suite)
    suite.passes().stdout.fnmatch_lines(
        ["*mcp-tape: answers that were not exact*", "cassettes/test_it/test_one.db: 1 (1 by nearest)"]
    )


DIFFERENCE = '*$.params.arguments.text  recorded "a first", live "the first"*'


@pytest.mark.parametrize("by", ["mark", "ini", "command line"])
@pytest.mark.slow
def test_inexact_answers_may_be_errors(suite: Suite, by: str) -> None:
    near(suite, ", inexact='error'" if by == "mark" else "")
    if by == "ini":
        suite.add("pytest.ini", "mcp_inexact = error\n")
    result = suite.run(*(["--mcp-inexact=error"] if by == "command line" else []))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["1 answer on *test_one.db not exact:", "  tools/call read by #3 of session 1, nearest (0.*)", DIFFERENCE]
    )


@pytest.mark.slow
def test_inexact_answers_may_be_warnings(suite: Suite) -> None:
    near(suite, ", inexact='warn'")
    result = suite.run()
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*TapeWarning: 1 answer on *test_one.db not exact:*"])


@pytest.mark.slow
def test_inexact_answers_explain_a_failure(suite: Suite) -> None:
    near(suite, expected="['other']")
    result = suite.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([DIFFERENCE])


def test_a_level_that_is_none_is_refused(suite: Suite) -> None:
    near(suite, ", inexact='fail'")
    suite.run().stdout.fnmatch_lines(["*inexact is 'fail' (nearest mark); it may be one of ignore, warn, error*"])


@pytest.mark.slow
def test_misses_are_recorded_and_inexact_answers_are_not(suite: Suite) -> None:
    near(suite, expected="['one']", more=", mode='new_episodes'")
    suite.add(
        "test_it.py",
        "    (found,) = mcp_tape.inexact\n"
        "    assert found.title == 'tools/call read by #3 of session 1, nearest (0.99)'\n",
    )
    suite.passes()
    assert suite.starts() == 0


def upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def test_a_function_normalizes(suite: Suite) -> None:
    near(suite)
    path = suite.path / "cassettes/test_it/test_one.db"
    with use_cassette(path, "none", normalize=[upper]) as tape, tape._player() as player:  # type: ignore[attr-defined]
        player.receive(call(1, "read", text="A FIRST").encode(), "stdio", 0.0)
        (send,) = player.due(0.0)
    assert json.loads(send.text)["result"]["value"] == "one"
    assert [found.rung for found in tape.inexact] == ["normalize"]
    tape.rewind()
    assert tape.inexact == []
