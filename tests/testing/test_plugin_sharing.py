"""Cassettes of several tests in the pytest plugin: by a name in their marks, or from the factory."""

from __future__ import annotations

import pytest

from tests.support.plugin import Suite
from tests.support.running import is_one_file, sessions

MARKED = """
pytestmark = pytest.mark.mcp_tape("shared")
def test_one(mcp_tape): assert ask(mcp_tape, "a") == ["a 1"]
def test_two(mcp_tape): assert ask(mcp_tape, "b") == ["b 2"]
"""
MADE = """
from conftest import SERVER
@pytest.fixture(scope="session")
def tape(mcp_tape_factory): return mcp_tape_factory("shared", server=SERVER)
def test_one(tape): assert ask(tape, "a") == ["a 1"]
def test_two(tape): assert ask(tape, "b") == ["b 2"]
"""
MODES = ["once", "new_episodes", "all", "rewrite"]
PATH = "cassettes/shared.db"
both = pytest.mark.parametrize("tests", [MARKED, MADE], ids=["marked", "made"])


@pytest.mark.slow
@pytest.mark.parametrize(("tests", "mode"), [(MARKED, mode) for mode in MODES] + [(MADE, "once"), (MADE, "rewrite")])
def test_tests_record_a_cassette_together_and_each_finds_its_part(suite: Suite, tests: str, mode: str) -> None:
    suite.test(tests)
    suite.passes(f"--mcp-record={mode}", passed=2)
    assert list(suite.cassettes()) == [PATH]
    assert is_one_file(suite.path / PATH)
    suite.passes("--mcp-block-live", passed=2)
    suite.passes("-k", "two", passed=1, deselected=1)
    assert suite.starts() == 2


@pytest.mark.slow
@pytest.mark.parametrize(("tests", "mode"), [(MARKED, mode) for mode in MODES[1:]] + [(MADE, "all")])
def test_it_is_kept_only_if_every_test_that_used_it_passed(suite: Suite, tests: str, mode: str) -> None:
    suite.record("shared", "a", "b")
    before = suite.cassettes()
    suite.test(tests.replace('"a") == ["a 1"]', '"y") == ["y 2"]').replace('== ["b 2"]', "== 0"))
    result = suite.run(f"--mcp-record={mode}")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*/shared.db was not changed, because these failed: test_it.py::test_two"])
    assert suite.cassettes() == before


@pytest.mark.slow
@both
def test_it_is_kept_when_others_fail_and_users_are_skipped(suite: Suite, tests: str) -> None:
    fixture = "tape" if tests is MADE else "mcp_tape"
    suite.test(
        f"{tests}def test_skipped({fixture}): pytest.skip()\n"
        f"@pytest.fixture\ndef playing({fixture}): pytest.skip()\ndef test_playing(playing): pass\n"
        "def test_other(): assert 0\n"
    )
    suite.run("--mcp-record=once").assert_outcomes(passed=2, skipped=2, failed=1)
    assert list(suite.cassettes()) == [PATH]
    suite.passes("-k", "one or two", passed=2, deselected=3)


@pytest.mark.slow(quick=1)
@both
def test_it_is_not_kept_when_the_run_stops_before_all_have_recorded(suite: Suite, tests: str) -> None:
    suite.record("shared", "a", "b")
    before = suite.cassettes()
    suite.test(tests.replace("def test_two", "def test_other(): assert 0\ndef test_two").replace("a 1", "a 2"))
    result = suite.run("--mcp-record=rewrite", "-x")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*/shared.db was not changed, because the run was stopped"])
    assert suite.cassettes() == before


@pytest.mark.slow
def test_a_failing_user_that_asks_for_the_fixture_as_it_runs_counts(suite: Suite) -> None:
    suite.test(f"{MADE}def test_three(request): assert ask(request.getfixturevalue('tape'), 'c') == 0\n")
    suite.run("--mcp-record=once").assert_outcomes(passed=2, failed=1)
    assert suite.cassettes() == {}


@pytest.mark.slow
def test_a_name_that_one_test_has_is_recorded_with_it(suite: Suite) -> None:
    suite.test(
        "@pytest.mark.mcp_tape('shared')\ndef test_one(mcp_tape): ask(mcp_tape, 'a')\n"
        "def test_two(mcp_tape): assert 0\n"
    )
    suite.run("--mcp-record=once").assert_outcomes(passed=1, failed=1)
    assert list(suite.cassettes()) == [PATH]


@pytest.mark.slow
def test_the_factory_gives_the_same_cassette_to_several_fixtures(suite: Suite) -> None:
    suite.test(
        "from conftest import SERVER\n"
        "@pytest.fixture(scope='module', params=['a', 'b'])\n"
        "def tape(request, mcp_tape_factory): return mcp_tape_factory('shared', server=SERVER), request.param\n"
        "def test_one(tape): assert ask(*tape)[0][0] == tape[1]\n"
    )
    suite.passes("--mcp-record=once", passed=2)
    assert len(sessions(suite.path / PATH)) == 2
    result = suite.passes("--mcp-unplayed=error", passed=2)
    assert result.ret == pytest.ExitCode.OK


def test_the_factory_explains_how_to_record_a_missing_cassette(suite: Suite) -> None:
    suite.test(MADE)
    result = suite.run()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["To record it: pytest test_it.py::test_one --mcp-record=once"])


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("said", ["directory", "dir"])
def test_the_factory_takes_a_directory_but_the_command_line_counts_first(suite: Suite, said: str) -> None:
    suite.test(MADE.replace("server=", f"{said}='below/cassettes', server="))
    suite.passes("--mcp-record=once", passed=2)
    assert list(suite.cassettes()) == ["below/cassettes/shared.db"]
    suite.passes(passed=2)
    suite.run("--mcp-tape-dir=other").assert_outcomes(errors=2)


@pytest.mark.slow
def test_tests_that_record_together_must_agree_on_the_options_that_matter(suite: Suite) -> None:
    suite.test(
        MARKED.replace("def test_two", "@pytest.mark.mcp_tape(redact_values=['hidden'])\ndef test_two")
        + "@pytest.mark.mcp_tape(ignore=['$.params.arguments.now'], faults=['tools/call=drop'])\n"
        + "def test_three(mcp_tape): assert ask(mcp_tape, 'c') == ['c 2']\n"
    )
    result = suite.run("--mcp-record=once")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*/shared.db is being recorded by tests with another redact_values; *"])
    assert suite.cassettes() == {}


@pytest.mark.slow
def test_a_test_that_may_only_replay_does_not_go_live_with_others(suite: Suite) -> None:
    suite.record("shared", "a", "b")
    suite.test(
        MARKED.replace('"shared"', '"shared", mode="all"').replace("b 2", "b 3").replace("a 1", "a 2")
        + "@pytest.mark.mcp_tape(mode='none')\ndef test_three(mcp_tape): assert ask(mcp_tape, 'a') == ['a 1']\n"
    )
    suite.passes(passed=3)
    assert suite.starts() == 3
    assert len(sessions(suite.path / PATH)) == 3


# Like pytest-repeat: after all other parameters, with a fixture that returns the number.
REPEATED = """
@pytest.fixture
def __pytest_repeat_step_number(request): return request.param

@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc):
    metafunc.fixturenames.append("__pytest_repeat_step_number")
    ids = lambda number: f"{number + 1}-12"
    metafunc.parametrize("__pytest_repeat_step_number", range(12), indirect=True, ids=ids)
"""


@pytest.mark.slow
def test_repetitions_of_a_test_share_its_cassette(suite: Suite) -> None:
    suite.add("conftest.py", REPEATED)
    suite.test(
        "def test_one(mcp_tape): assert ask(mcp_tape, 'a') == ['a 1']\n"
        "@pytest.mark.parametrize('n', ['1-12', 2])\n"
        "def test_two(mcp_tape, n): ask(mcp_tape, 'b')\n"
    )
    result = suite.run("-k", "test_two and 1-12-1-12")
    result.stdout.fnmatch_lines(["To record it: pytest 'test_it.py::test_two[[]1-12[]]' --mcp-record=once"])
    suite.passes("--mcp-record=once", passed=36)
    assert suite.starts() == 3
    names = ["test_one.db", "test_two[1-12].db", "test_two[2].db"]
    assert sorted(suite.cassettes()) == [f"cassettes/test_it/{name}" for name in names]
    suite.passes(passed=36)
