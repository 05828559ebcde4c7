"""Marks of the pytest plugin that have no effect: a test that uses no tape talks to live servers."""

from __future__ import annotations

import pytest

from tests.support.plugin import ASYNCIO, Suite

NO_EFFECT = "the marker mcp_tape has no effect: this test uses no tape, so it talks to live servers"
OWN = "@pytest.mark.mcp_tape(server=['server'])\n"
SECTION = "*mcp-tape: markers without effect*"
MODULE = "pytestmark = pytest.mark.mcp_tape('shared')\n"


@pytest.fixture
def taped(suite: Suite) -> Suite:
    suite.record("shared", "a")
    return suite


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("options", [[], ["--mcp-block-live"], ["--mcp-record=once"]])
def test_a_marked_test_without_a_tape_does_not_run(suite: Suite, options: list[str]) -> None:
    suite.test(f"{OWN}def test_one(tmp_path): open('ran', 'w')\n")
    result = suite.run(*options)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([NO_EFFECT, "Give the test the argument mcp_tape, *"])
    assert not (suite.path / "ran").exists()
    assert "marks.py" not in result.stdout.str()  # no trace through the plugin


def test_one_that_could_have_asked_for_a_tape_and_did_not_fails(suite: Suite) -> None:
    suite.test(
        f"{OWN}def test_one(request): pass\n"
        f"@pytest.fixture\ndef late(request): pass\n{OWN}def test_two(late): assert 0\n"
        f"@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.mcp_tape('x'))])\ndef test_three(n): pass\n"
        f"{OWN}@pytest.mark.asyncio\nasync def test_four(): pass\n"
        f"{OWN}@pytest.mark.skip\ndef test_five(): pass\n"
        f"{OWN}def test_six(request): pytest.skip()\n"
    )
    result = suite.run(*ASYNCIO)
    result.assert_outcomes(failed=2, errors=2, skipped=2)
    assert result.stdout.str().count(NO_EFFECT) == 3


def test_a_tape_may_be_asked_for_in_any_way(taped: Suite) -> None:
    taped.test(
        "import unittest\n"
        "@pytest.fixture\ndef tape(mcp_tape): return mcp_tape\n"
        "@pytest.fixture\ndef late(request): return lambda: request.getfixturevalue('mcp_tape')\n"
        "@pytest.fixture(scope='module')\ndef made(mcp_tape_factory): return mcp_tape_factory('shared')\n"
        "own = pytest.mark.mcp_tape('shared')\n"
        "@own\ndef test_through_a_fixture(tape): pass\n"
        "@own\ndef test_late(late): late()\n"
        "@own\ndef test_later(request): request.getfixturevalue('tape')\n"
        "@own\ndef test_made(made): pass\n"
        "@own\n@pytest.mark.usefixtures('mcp_tape')\ndef test_named(): pass\n"
        "@own\n@pytest.mark.asyncio\nasync def test_async(mcp_tape): pass\n"
        "@own\n@pytest.mark.usefixtures('tape')\nclass TestCase(unittest.TestCase):\n    def test_it(self): pass\n"
        "class TestAuto:\n    @pytest.fixture(autouse=True)\n    def all(self, mcp_tape): pass\n"
        "    @own\n    def test_it(self): pass\n"
    )
    assert taped.passes(*ASYNCIO, passed=8).ret == pytest.ExitCode.OK


MIXED = """
def test_one(mcp_tape): pass
def test_two(): pass
class TestIt:
    pytestmark = pytest.mark.mcp_tape(repeats="last")
    def test_three(self, mcp_tape): pass
    def test_four(self): pass
"""


@pytest.mark.slow
def test_marks_of_modules_and_classes_are_defaults_for_tests_with_a_tape(taped: Suite) -> None:
    taped.test(MODULE + MIXED)
    for options, ran in ([], 4), (["-k", "two or four"], 2), (["test_it.py::test_two"], 1), (["-m", "not mcp_tape"], 0):
        result = taped.run(*options)
        result.assert_outcomes(passed=ran, deselected=4 - ran if options and options[0] in "-k-m" else 0)
        assert result.ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


@pytest.mark.slow
def test_a_mark_that_no_test_under_it_uses_fails_the_run(taped: Suite) -> None:
    taped.test(MODULE + MIXED.replace("mcp_tape)", "tmp_path)"))
    taped.test(MODULE + MIXED.replace("self, mcp_tape", "self"), "test_other.py")
    taped.test(MODULE + "@pytest.mark.skip\ndef test_one(mcp_tape): pass\ndef test_two(): pass\n", "test_skipped.py")
    result = taped.passes(passed=9, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    live = "none of its tests uses mcp_tape, so they talk to live servers"
    scopes = ["test_it.py", "test_it.py::TestIt", "test_other.py::TestIt"]
    result.stdout.fnmatch_lines([SECTION, *(f"{scope}: {live}" for scope in scopes)], consecutive=True)
    assert "test_skipped.py:" not in result.stdout.str()
    assert taped.passes("-k", "two", passed=3, deselected=7).ret == pytest.ExitCode.OK
    assert taped.passes("test_it.py::test_two").ret == pytest.ExitCode.OK


def test_a_mark_is_not_judged_by_a_part_of_the_tests_under_it(taped: Suite) -> None:
    """Such as one of several jobs that share a suite, or a package with a mark of which only some modules are run."""
    taped.add(
        "conftest.py", "def pytest_collection_modifyitems(items): items[:] = [i for i in items if 'two' in i.name]\n"
    )
    taped.test(MODULE + MIXED)
    taped.test(MODULE, "package/__init__.py")
    taped.test("def test_two(): pass\n", "package/test_that.py")
    assert taped.passes(passed=2).ret == pytest.ExitCode.OK
    assert taped.passes("package/test_that.py").ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_a_mark_takes_stubs_in_place_of_a_cassette(suite: Suite) -> None:
    hello = {"method": "initialize", "result": {"value": "hello"}}
    stubs = [hello, {"tool": "a", "result": {"content": [], "value": "one hit"}}]
    suite.test(
        f"@pytest.mark.mcp_tape(stubs={stubs!r})\ndef test_one(mcp_tape): assert ask(mcp_tape, 'a') == ['one hit']\n"
        f"@pytest.mark.mcp_tape(stubs={stubs!r})\ndef test_two(mcp_tape): ask(mcp_tape, 'b')\n"
    )
    result = suite.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "tools/call b" in result.stdout.str() and suite.cassettes() == {} and suite.starts() == 0
