"""The pytest plugin: the marker, its fixtures, precedence, places of cassettes, and errors."""

from __future__ import annotations

import re
import shlex
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tape.testing.tape_settings import safe_name
from tests.support.plugin import Suite

ONE = "@pytest.mark.mcp_tape\ndef test_one(mcp_tape):\n    assert ask(mcp_tape, 'a') == ['a 1']\n"


@pytest.mark.slow
def test_one_marker_is_enough(suite: Suite) -> None:
    suite.test(ONE)
    suite.passes("--mcp-record=once")
    assert list(suite.cassettes()) == ["cassettes/test_it/test_one.db"]
    suite.passes()
    suite.passes("--mcp-record=once")
    assert suite.starts() == 1


@pytest.mark.slow
def test_the_fixture_needs_no_marker(suite: Suite) -> None:
    suite.test(ONE.partition("\n")[2])
    suite.record("test_it/test_one", "a")
    suite.passes()


@pytest.mark.slow
def test_without_a_cassette_a_test_fails_with_the_command_that_records_it(suite: Suite) -> None:
    suite.test(ONE)
    result = suite.run()
    result.assert_outcomes(errors=1)
    text = result.stdout.str()
    assert "cassettes/test_it/test_one.db has nothing to play, and mode none records nothing" in text
    assert suite.cassettes() == {}
    assert suite.starts() == 0
    suite.passes(*command_in(text)[1:])
    suite.passes()


@pytest.mark.slow
def test_that_command_works_where_it_is_read_and_for_any_test(suite: Suite) -> None:
    parameter = "it's $HOME & more"
    suite.test(f"@pytest.mark.parametrize('x', [{parameter!r}])\n{ONE.replace('(mcp_tape)', '(mcp_tape, x)')}")
    (suite.path / "below").mkdir()
    text = suite.run("../test_it.py", cwd="below").stdout.str()
    words = command_in(text)
    assert words[1] == f"../test_it.py::test_one[{parameter}]"
    suite.run(*words[1:], cwd="below").assert_outcomes(passed=1)
    suite.passes()


def command_in(text: str) -> list[str]:
    found = re.search(r"^E? *To record it: (pytest .*)$", text, re.M)
    assert found, text
    return shlex.split(found[1])


def test_recording_without_a_live_server_says_where_to_name_it(suite: Suite) -> None:
    suite.write("conftest.py", "")
    suite.test(ONE)
    result = suite.run("--mcp-record=once")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Give the live server to the marker or to mcp_tape_config: server=*"])


@pytest.mark.slow
def test_a_file_that_is_no_cassette_is_called_that_and_no_more(suite: Suite) -> None:
    suite.test(ONE)
    suite.write("cassettes/test_it/test_one.db", "this is not a cassette" * 10)
    for mode in ("none", "once", "rewrite"):
        result = suite.run(f"--mcp-record={mode}")
        result.assert_outcomes(errors=1)
        assert "test_one.db is not" in result.stdout.str()
        assert "To record it" not in result.stdout.str()
    assert len(suite.cassettes()) == 1


# -- names


@pytest.mark.slow
def test_parametrised_tests_and_classes_have_their_own_cassettes(suite: Suite) -> None:
    suite.test(
        "@pytest.mark.parametrize('x', ['a', 'A', 'a::b', 'a.b', '../../up', 'x' * 300])\n"
        "def test_one(mcp_tape, x): ask(mcp_tape, 'a')\n"
        "class TestIt:\n    def test_one(self, mcp_tape): ask(mcp_tape, 'a')\n"
        "    class TestDeep:\n        def test_one(self, mcp_tape): ask(mcp_tape, 'a')\n"
    )
    suite.passes("--mcp-record=once", passed=8)
    names = [name.removeprefix("cassettes/test_it/") for name in suite.cassettes()]
    assert len({name.lower() for name in names}) == 8
    assert {"test_one[a].db", "TestIt.test_one.db", "TestIt.TestDeep.test_one.db"} < set(names)
    assert not [name for name in names if "/" in name or len(name) > 83]
    suite.passes(passed=8)
    assert suite.starts() == 8


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_of_files_are_safe_and_tell_tests_apart(one: str, other: str) -> None:
    names = {safe_name(one), safe_name(other)}
    assert len(names) == len({one, other})
    for name in names:
        assert 0 < len(name) <= 80
        assert set(name) <= set(string.ascii_letters + string.digits + "_.[]=,+-")
        assert not name.startswith(".")


@pytest.mark.slow
def test_files_of_the_same_name_do_not_meet_in_one_directory(suite: Suite) -> None:
    for package in ("one", "two"):
        suite.test(ONE.replace("== ['a 1']", ""), f"{package}/test_it.py")
        suite.write(f"{package}/__init__.py", "")
    suite.passes("--mcp-record=once", "--mcp-tape-dir=cassettes/of all", passed=2)
    assert set(suite.cassettes()) == {f"cassettes/of all/{name}/test_it/test_one.db" for name in ("one", "two")}
    suite.passes("--mcp-tape-dir=cassettes/of all", passed=2)
    assert suite.starts() == 2


@pytest.mark.slow
def test_a_directory_is_relative_to_its_setting(suite: Suite) -> None:
    suite.test(ONE, "below/test_it.py")
    suite.record("below/test_it/test_one", "a")
    (suite.path / "cassettes").rename(suite.path / "tapes")
    suite.run("--mcp-tape-dir=../tapes", cwd="below").assert_outcomes(passed=1)
    suite.run("--mcp-tape-dir=tapes", cwd="below").assert_outcomes(errors=1)
    suite.add("pytest.ini", "mcp_tape_dir = tapes\n")
    suite.run(cwd="below").assert_outcomes(passed=1)
    assert suite.starts() == 1


@pytest.mark.slow
def test_a_name_makes_a_cassette_of_several_tests(suite: Suite) -> None:
    suite.test(
        "pytestmark = pytest.mark.mcp_tape('shared/github')\n"
        "def test_one(mcp_tape): assert ask(mcp_tape, 'a') == ['a 1']\n"
        "@pytest.mark.mcp_tape('shared/github.db')\n"
        "def test_two(mcp_tape): assert ask(mcp_tape, 'b') == ['b 2']\n"
        "@pytest.mark.mcp_tape(ignore=['$.params.arguments.now'])\n"
        "def test_three(mcp_tape):\n    assert ask(mcp_tape, 'c', now=3) == ['c 3']\n"
    )
    suite.passes("--mcp-record=once", passed=3)
    assert list(suite.cassettes()) == ["cassettes/shared/github.db"]
    suite.passes(passed=3)
    suite.write("test_it.py", (suite.path / "test_it.py").read_text().replace("now=3", "now=4"))
    suite.passes("-k", "three", passed=1, deselected=2)
    assert suite.starts() == 3


# -- errors


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("serverr=['x']", "mcp_tape has no option serverr; it has auth, block_live, cacert, command,*server*url"),
        ("mode='nome'", "mode is 'nome' (nearest mark); it may be one of none, once, new_episodes, all, *"),
        ("unplayed='fail'", "unplayed is 'fail' (nearest mark); it may be one of ignore, warn, error"),
        ("server='uvx mcp-server-git'", "the command must be a list of words, as in [[]'uvx', 'mcp-server-git'[]]"),
        ("'one', 'two'", "the marker mcp_tape takes one name, not 2: 'one', 'two'"),
        ("7", "the name of a cassette is a text, not 7"),
        ("server=['x'], url='http://127.0.0.1:1/mcp'", "either the command x or the URL http://127.0.0.1:1/mcp, *"),
        ("ignore=['params.now']", "*params.now*"),
    ],
)
def test_a_mistake_in_a_mark_is_explained(suite: Suite, mark: str, told: str) -> None:
    suite.record("test_it/test_one", "a")
    suite.test(ONE.replace("mcp_tape\n", f"mcp_tape({mark})\n", 1))
    (suite.path / "cassettes/7.db").write_bytes(suite.cassette().read_bytes())
    result = suite.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{told}"])
    assert "mcp_tape/testing/" not in result.stdout.str()  # no trace through the plugin
    assert suite.starts() == 1


def test_a_mistake_in_the_config_fixture_is_explained(suite: Suite) -> None:
    suite.test(ONE)
    suite.write("conftest.py", CONFIG.format("{'mode': 'live'}"))
    suite.run().stdout.fnmatch_lines(["mode is 'live' (mcp_tape_config); it may be one of none, *"])
    suite.write("conftest.py", CONFIG.format("None"))
    suite.run().stdout.fnmatch_lines(["the fixture mcp_tape_config must give a dict, not None"])


CONFIG = "import pytest\n@pytest.fixture\ndef mcp_tape_config(): return {}\n"


@pytest.mark.parametrize("line", ["mcp_record = live", "mcp_unplayed = fail"])
def test_a_mistake_in_the_ini_file_stops_pytest(suite: Suite, line: str) -> None:
    suite.test("def test_one(): pass\n")
    suite.add("pytest.ini", line)
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name, value = line.split(" = ")
    result.stderr.fnmatch_lines([f"*{name} is '{value}' in the ini file; it may be one of *"])


@pytest.mark.parametrize("option", ["--mcp-record=live", "--mcp-unplayed=fail"])
def test_a_mistake_on_the_command_line_stops_pytest(suite: Suite, option: str) -> None:
    suite.test("def test_one(): pass\n")
    result = suite.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*invalid choice*"])
