"""The pytest plugin's report of cassettes: unplayed requests, and orphans."""

from __future__ import annotations

import pytest

from tests.support.plugin import Suite

FACTORY = """
@pytest.fixture(scope="session")
def tape(mcp_tape_factory): return mcp_tape_factory("shared"{})
"""


@pytest.fixture
def taped(suite: Suite) -> Suite:
    """A suite with a cassette of two calls, for a test of this name."""
    for name in ("test_it/test_one", "shared"):
        suite.record(name, "a", "b")
    return suite


@pytest.mark.slow
def test_unplayed_requests_are_ignored_by_default(taped: Suite) -> None:
    taped.test("def test_one(mcp_tape): ask(mcp_tape, 'a')\n")
    taped.passes("-Werror")
    taped.passes("-Werror", "--mcp-unplayed=ignore")


@pytest.mark.slow
def test_unplayed_requests_may_be_a_warning(taped: Suite) -> None:
    taped.test("def test_one(mcp_tape): ask(mcp_tape, 'a')\n")
    result = taped.passes("--mcp-unplayed=warn", passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*test_it.py:4: TapeWarning: 1 recorded request not made on *test_one.db: #5 of session 1 tools/call b"]
    )
    taped.run("--mcp-unplayed=warn", "-Werror::mcp_tape.testing.plugin.TapeWarning").assert_outcomes(failed=1)


@pytest.mark.slow
def test_unplayed_requests_may_be_an_error(taped: Suite) -> None:
    taped.record("test_it/test_two", *"abcdefghijkl")
    taped.add("pytest.ini", "mcp_unplayed = error\n")
    taped.test(
        "def test_one(mcp_tape): ask(mcp_tape, 'a')\n"
        "def test_two(mcp_tape): pass\n"
        "@pytest.mark.mcp_tape('shared')\ndef test_three(mcp_tape): ask(mcp_tape, 'a', 'b')\n"
        "@pytest.mark.mcp_tape('test_it/test_one')\ndef test_four(mcp_tape): ask(mcp_tape, 'a')\n"
    )
    result = taped.run()
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "1 recorded request not made on *test_one.db: #5 of session 1 tools/call b",
            "13 recorded requests not made on *test_two.db: #1 * initialize; #3 * tools/call a; *h; #19 *i; and 3 more",
        ]
    )


@pytest.mark.slow
def test_unplayed_requests_come_not_on_top_of_a_failure(taped: Suite) -> None:
    taped.test("def test_one(mcp_tape): assert ask(mcp_tape, 'a') == 1\n")
    result = taped.run("--mcp-unplayed=error")
    result.assert_outcomes(failed=1)
    assert "not made" not in result.stdout.str()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "'shared'"])
def test_requests_recorded_in_this_run_are_not_unplayed(suite: Suite, name: str) -> None:
    suite.test(
        f"@pytest.mark.mcp_tape({name})\n@pytest.mark.parametrize('tool', 'ab')\n"
        "def test_one(mcp_tape, tool): ask(mcp_tape, tool)\n"
    )
    for _ in range(2):
        assert suite.run("--mcp-record=once", "--mcp-unplayed=error").ret == pytest.ExitCode.OK


@pytest.mark.slow
def test_new_episodes_leaves_unmade_calls_unplayed(taped: Suite) -> None:
    taped.test("def test_one(mcp_tape): ask(mcp_tape, 'a', 'z')\n")
    before = taped.cassettes()
    result = taped.run("--mcp-record=new_episodes", "--mcp-unplayed=error")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["1 recorded request not made on *test_one.db: #5 of session 1 tools/call b"])
    assert taped.cassettes() == before


SHARING = """
pytestmark = pytest.mark.mcp_tape("shared", unplayed={!r})
def test_one(mcp_tape): ask(mcp_tape, "a")
def test_two(mcp_tape): ask(mcp_tape, {!r})
"""


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("level", ["warn", "error"])
def test_of_a_shared_cassette_the_tests_must_play_all_together(taped: Suite, level: str) -> None:
    taped.test(SHARING.format(level, "b"))
    assert "no test has made" not in taped.passes(passed=2).stdout.str()
    taped.test(SHARING.format(level, "a"))
    result = taped.passes(passed=2)
    assert result.ret == (pytest.ExitCode.TESTS_FAILED if level == "error" else pytest.ExitCode.OK)
    result.stdout.fnmatch_lines(
        [
            "*mcp-tape: recorded requests that no test has made*",
            f"{level}: cassettes/shared.db: #5 of session 1 tools/call b",
        ]
    )
    taped.test(SHARING.format(level, "z"))
    result = taped.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "no test has made" not in result.stdout.str()  # a test that used it failed


@pytest.mark.slow
def test_of_a_tape_of_the_factory_the_tests_must_play_all_together(taped: Suite) -> None:
    both = FACTORY.format(", unplayed='error'") + "def test_one(tape): ask(tape, 'a')\n"
    taped.test(both + "def test_two(tape): ask(tape, 'b')\n")
    assert taped.passes(passed=2).ret == pytest.ExitCode.OK
    taped.test(both)
    result = taped.passes()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["error: cassettes/shared.db: #5 of session 1 tools/call b"])
    taped.test(both + "def test_two(tape): assert 0\n")
    assert "no test has made" not in taped.run().stdout.str()


# -- orphans


@pytest.mark.slow
def test_orphans_are_the_cassettes_that_no_test_uses(taped: Suite) -> None:
    for name in ("test_it/test_renamed", "test_gone/test_one", "test_it/test_slow", "test_it/test_skipped", "named"):
        taped.record(name, "a")
    taped.record("../below/cassettes/test_no_more/test_one", "a")
    taped.test("def test_other(): pass\n", "below/test_below.py")
    taped.test(
        FACTORY.format("")
        + "def test_one(mcp_tape): ask(mcp_tape, 'a')\n"
        + "def test_shared(tape): pass\n"
        + "def test_slow(mcp_tape): pass\n"
        + "@pytest.mark.mcp_tape('named')\n@pytest.mark.skip\ndef test_named(mcp_tape): pass\n"
        + "def test_skipped(mcp_tape): pytest.skip()\n"
    )
    before = taped.cassettes()
    assert "that no test" not in taped.run("-k", "not slow").stdout.str()
    taped.add("pytest.ini", "mcp_orphans = true\n")
    for options in (["--mcp-orphans"], []):
        result = taped.run("-k", "not slow", *options)
        result.assert_outcomes(passed=3, skipped=2, deselected=1)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(
            [
                "*mcp-tape: cassettes that no test of this run uses*",
                "below/cassettes/test_no_more/test_one.db",
                "cassettes/test_gone/test_one.db",
                "cassettes/test_it/test_renamed.db",
                "3 of 8",
            ],
            consecutive=True,
        )
    assert taped.cassettes() == before


def test_orphans_are_looked_for_in_the_directory_that_is_named(taped: Suite) -> None:
    (taped.path / "cassettes").rename(taped.path / "tapes")
    taped.test("def test_one(mcp_tape): pass\n", "below/test_it.py")
    (taped.path / "tapes" / "below").mkdir()
    (taped.path / "tapes" / "test_it").rename(taped.path / "tapes" / "below" / "test_it")
    result = taped.run("--mcp-orphans", "--mcp-tape-dir=../tapes", cwd="below")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["tapes/shared.db", "1 of 2"])
