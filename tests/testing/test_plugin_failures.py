"""Misses in the pytest plugin: they fail the test that made the request, with an explanation."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.support.plugin import Suite

MISSED = "1 call missed: tools/call z"
SECTION = "*- mcp-tape -*"


@pytest.fixture
def taped(suite: Suite) -> Suite:
    """A suite with a cassette of two calls, for a test of this name."""
    for name in ("test_it/test_one", "shared"):
        suite.record(name, "a", "b")
    return suite


@pytest.mark.slow
def test_a_swallowed_miss_fails_the_test_and_explains_itself(taped: Suite) -> None:
    taped.test("def test_one(mcp_tape): assert ask(mcp_tape, 'a', 'z') == ['a 1', -32010]\n")
    result = taped.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            MISSED,
            "miss: tools/call z",
            "*/cassettes/test_it/test_one.db, played so far: 2",
            '*$.params.name  recorded "b", live "z"',
            "    # to record the missing call",
            "    pytest test_it.py::test_one --mcp-record=new_episodes",
            "FAILED test_it.py::test_one - Failed: 1 call missed: tools/call z",
        ]
    )
    assert "mcp_tape/testing/" not in result.stdout.str()  # no trace through the plugin
    taped.run("--mcp-record=new_episodes").assert_outcomes(passed=0, failed=1)  # now it is answered
    assert taped.starts() == 2


@pytest.mark.slow
def test_a_miss_comes_not_on_top_of_a_failure_but_explains_it(taped: Suite) -> None:
    taped.test("def test_one(mcp_tape): assert ask(mcp_tape, 'z') == ['a 1']\n")
    result = taped.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * assert [[]-32010] == [[]'a 1']", SECTION, MISSED, "miss: tools/call z"])
    summary = "FAILED test_it.py::test_one - 1 call missed: tools/call z; *"
    result.stdout.fnmatch_lines([summary])
    result = taped.run("--tb=no", "--show-capture=no")
    result.stdout.fnmatch_lines([summary])


@pytest.mark.parametrize("expected", ["-32010", "'a 1'"])
@pytest.mark.slow
def test_the_xml_for_ci_has_the_miss(taped: Suite, expected: str) -> None:
    taped.test(f"def test_one(mcp_tape): assert ask(mcp_tape, 'a', n=2) == [{expected}]\n")
    taped.run("--junitxml=result.xml", "--show-capture=no").assert_outcomes(failed=1)
    (failure,) = ElementTree.parse(taped.path / "result.xml").iter("failure")
    assert "1 call missed: tools/call a" in failure.attrib["message"].partition("\n")[0]
    assert '@pytest.mark.mcp_tape(ignore=["tools/call:a=$.params.arguments"])' in (failure.text or "")


def test_of_many_misses_the_first_are_reported_and_each_once(taped: Suite) -> None:
    taped.test("def test_one(mcp_tape): ask(mcp_tape, *'qrstuvwxyz' * 2)\n")
    said = taped.run().stdout.str()
    assert "20 calls missed: tools/call q, tools/call r," in said
    assert (said.count("\nmiss: "), said.count("\nand 5 more\n")) == (5, 1)


UNINSTALLED = "@pytest.mark.mcp_tape(server=['no-such-server'])\ndef test_one(mcp_tape): "
CAUSE = "cannot start the server: there is no command 'no-such-server'; check its spelling and the PATH"


@pytest.mark.slow
@pytest.mark.parametrize("wanted", ["-32010", "'z 1'"])
def test_a_server_that_is_not_there_is_named_before_the_miss(taped: Suite, wanted: str) -> None:
    before = taped.cassettes()
    taped.test(f"{UNINSTALLED}assert ask(mcp_tape, 'z') == [{wanted}]\n")
    result = taped.run_apart("--mcp-record=new_episodes")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([CAUSE, MISSED, "miss: tools/call z", f"FAILED test_it.py::test_one - *{CAUSE[:30]}*"])
    said = result.stdout.str() + result.stderr.str()
    assert (said.count("miss: tools/call z"), said.count(".part")) == (1, 0)
    assert taped.cassettes() == before


@pytest.mark.slow
def test_a_recording_without_its_server_fails_the_test_even_if_the_code_ignores_it(suite: Suite) -> None:
    suite.test(f"{UNINSTALLED}\n    with pytest.raises(Exception): ask(mcp_tape, 'a')\n")
    result = suite.run_apart("--mcp-record=once")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([CAUSE])
    assert suite.cassettes() == {}


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
    result.stdout.fnmatch_lines([SECTION, "miss: tools/call z", "ERROR test_it.py::test_one - 1 call missed: *"])
    assert "pytest_plugin" not in result.stdout.str()  # no trace through the plugin


def test_a_miss_after_the_test_fails_its_teardown(taped: Suite) -> None:
    taped.test(
        "@pytest.fixture\ndef asked(mcp_tape):\n    yield\n    ask(mcp_tape, 'z')\ndef test_one(asked): pass\n"
        "def test_two(): pass\n"
    )
    result = taped.run()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_one*", MISSED, "miss: tools/call z"])


def test_an_expected_failure_may_be_a_miss(taped: Suite) -> None:
    taped.test("@pytest.mark.xfail(strict=True)\ndef test_one(mcp_tape): ask(mcp_tape, 'z')\n")
    taped.run().assert_outcomes(xfailed=1)


@pytest.mark.slow
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
    result.stdout.fnmatch_lines_random([MISSED, "E * != [[]'a 1'[]]", SECTION])


FACTORY = """
@pytest.fixture(scope="session")
def tape(mcp_tape_factory): return mcp_tape_factory("shared"{})
"""


@pytest.mark.slow
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


@pytest.mark.slow
def test_misses_on_two_tapes_are_reported_together_and_once(taped: Suite) -> None:
    taped.test(
        FACTORY.format("")
        + "def test_one(tape, mcp_tape): ask(tape, 'a', 'a', n=2); ask(mcp_tape, 'z')\n"
        + "def test_two(tape): ask(tape, 'a')\n"
    )
    result = taped.run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "3 calls missed: tools/call z, tools/call a",
            "*/test_one.db, played so far: 1",
            "*/shared.db, played so far: 1",
            '    mcp_tape_factory(..., ignore=[[]"tools/call:a=$.params.arguments"[]])',
        ]
    )


@pytest.mark.slow
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
