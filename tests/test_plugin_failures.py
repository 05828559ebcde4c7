"""Misses in the pytest plugin: they fail the test that asked, and explain themselves."""

from __future__ import annotations

import pytest

from .plugin import Suite

MISSED = "1 call of this test missed on *test_one.db: tools/call z"
SECTION = "*- Captured mcp-tape {} -*"


@pytest.fixture
def taped(suite: Suite) -> Suite:
    """A suite with a cassette of two calls, for whoever is called so."""
    for name in ("test_it/test_one", "shared"):
        suite.record(name, "a", "b")
    return suite


def test_a_swallowed_miss_fails_the_test_and_explains_itself(taped: Suite) -> None:
    taped.test("def test_one(mcp_tape): assert ask(mcp_tape, 'a', 'z') == ['a 1', -32010]\n")
    result = taped.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            MISSED,
            "To record what is missing: pytest test_it.py::test_one --mcp-record=new_episodes",
            SECTION.format("call"),
            "miss: tools/call z",
            '*$.params.name  recorded "b", live "z"',
        ]
    )
    assert "pytest_tapes" not in result.stdout.str()  # no trace through the plugin
    taped.run("--mcp-record=new_episodes").assert_outcomes(passed=0, failed=1)  # now it is answered
    assert taped.starts() == 2


def test_a_miss_comes_not_on_top_of_a_failure_but_explains_it(taped: Suite) -> None:
    taped.test("def test_one(mcp_tape): assert ask(mcp_tape, 'z') == ['a 1']\n")
    result = taped.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * assert [[]-32010] == [[]'a 1']", SECTION.format("call"), "miss: tools/call z"])
    assert "of this test missed" not in result.stdout.str()


@pytest.mark.parametrize("shown", ["no", "stderr", "log"])
def test_a_miss_is_told_where_sections_are_not_shown(taped: Suite, shown: str) -> None:
    taped.test("def test_one(mcp_tape): ask(mcp_tape, 'z')\n")
    result = taped.run(f"--show-capture={shown}")
    result.stdout.fnmatch_lines([MISSED, "miss: tools/call z"])


def test_a_miss_of_a_fixture_fails_its_test(taped: Suite) -> None:
    taped.test("@pytest.fixture\ndef asked(mcp_tape): ask(mcp_tape, 'z')\ndef test_one(asked): pass\n")
    result = taped.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([MISSED, "miss: tools/call z"])


def test_a_miss_explains_a_fixture_that_fails(taped: Suite) -> None:
    taped.add(
        "conftest.py", "from ask import ask\n@pytest.fixture\ndef asked(mcp_tape): assert not ask(mcp_tape, 'z')\n"
    )
    taped.test("def test_one(asked): pass\n")
    result = taped.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([SECTION.format("setup"), "miss: tools/call z"])
    assert "pytest_plugin" not in result.stdout.str()  # no trace through the plugin


def test_a_miss_after_the_test_fails_its_teardown(taped: Suite) -> None:
    taped.test(
        "@pytest.fixture\ndef asked(mcp_tape):\n    yield\n    ask(mcp_tape, 'z')\ndef test_one(asked): pass\n"
        "def test_two(): pass\n"
    )
    result = taped.run()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_one*", MISSED, SECTION.format("teardown")])


def test_an_expected_failure_may_be_a_miss(taped: Suite) -> None:
    taped.test("@pytest.mark.xfail(strict=True)\ndef test_one(mcp_tape): ask(mcp_tape, 'z')\n")
    taped.run().assert_outcomes(xfailed=1)


def test_unittest_cases_fail_on_misses_too(taped: Suite) -> None:
    taped.test(
        "import unittest\n"
        "@pytest.fixture\ndef tape(request, mcp_tape): request.cls.tape = mcp_tape\n"
        "@pytest.mark.mcp_tape('shared')\n@pytest.mark.usefixtures('tape')\n"
        "class TestIt(unittest.TestCase):\n"
        "    def test_one(self): ask(self.tape, 'z')\n"
        "    def test_two(self): self.assertEqual(ask(self.tape, 'a'), ['a 1'])\n"
        "    def test_three(self): self.assertEqual(ask(self.tape, 'z'), ['a 1'])\n"
    )
    result = taped.run()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines_random(["1 call of this test missed on *: tools/call z", "E * != [[]'a 1'[]]"])


FACTORY = """
@pytest.fixture(scope="session")
def tape(mcp_tape_factory): return mcp_tape_factory("shared"{})
"""


def test_a_miss_on_a_shared_tape_is_that_of_the_test_that_asked(taped: Suite) -> None:
    taped.test(
        FACTORY.format("")
        + "def test_swallowed(tape): ask(tape, 'y')\n"
        + "def test_failed(tape): assert ask(tape, 'z') == ['a 1']\n"
        + "def test_fine(tape): assert ask(tape, 'a') == ['a 1']\n"
        + "def test_dynamic(request): ask(request.getfixturevalue('tape'), 'z')\n"
        + "def test_none(tape): pass\n"
    )
    result = taped.run("-rA")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines_random(
        ["PASSED test_it.py::test_fine", "PASSED test_it.py::test_none", "FAILED test_it.py::test_dynamic - *missed*"]
    )


def test_misses_on_two_tapes_are_told_together_and_once(taped: Suite) -> None:
    taped.test(
        FACTORY.format("")
        + "def test_one(tape, mcp_tape): ask(tape, 'y', 'y'); ask(mcp_tape, 'z')\n"
        + "def test_two(tape): ask(tape, 'a')\n"
    )
    result = taped.run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([MISSED, "2 calls of this test missed on *shared.db: tools/call y"])


def test_a_tape_that_is_rewound_misses_again(taped: Suite) -> None:
    taped.test(
        FACTORY.format("")
        + "def test_one(tape): ask(tape, 'y')\n"
        + "def test_two(tape): tape.rewind(); ask(tape, 'z')\n"
        + "def test_three(tape): tape.rewind(); ask(tape, 'a')\n"
    )
    taped.run().assert_outcomes(passed=1, failed=2)


def test_a_miss_when_the_last_shared_fixture_ends_fails_the_run(taped: Suite) -> None:
    taped.test(
        "@pytest.fixture(scope='session')\ndef asked(mcp_tape_factory):\n"
        "    tape = mcp_tape_factory('shared')\n    yield\n    ask(tape, 'z')\n"
        "def test_one(asked): pass\n"
    )
    result = taped.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["miss: tools/call z"])
