"""A suite with text cassettes: replayed, recorded and extended, without leftovers beside them."""

from __future__ import annotations

import pytest

from tests.support.plugin import Suite
from tests.support.running import sessions

TEXT = "cassettes/test_it/test_one.jsonl"
TEST = "def test_one(mcp_tape): print(ask(mcp_tape, {}))\n"


@pytest.mark.parametrize("how", ["ini", "mark", "option", "name"])
@pytest.mark.slow
def test_a_suite_may_say_that_its_cassettes_are_text(suite: Suite, how: str) -> None:
    mark = {"mark": 'format="jsonl"', "name": '"test_it/test_one.jsonl"'}.get(how, "")
    suite.test(f"@pytest.mark.mcp_tape({mark})\n" + TEST.format("'a'"))
    suite.add("pytest.ini", "mcp_tape_format = jsonl\n" if how == "ini" else "")
    options = ["--mcp-format=jsonl"] if how == "option" else []
    suite.passes("--mcp-record=once", *options)
    assert list(suite.cassettes()) == [TEXT]
    before = suite.cassette().read_bytes()
    assert before.startswith(b'{"kind":"session"')
    suite.passes(*options)
    assert suite.cassettes() == {TEXT: before}
    assert suite.starts() == 1


@pytest.mark.slow
def test_every_mode_writes_text(suite: Suite) -> None:
    suite.add("pytest.ini", "mcp_tape_format = jsonl\n")
    suite.test(TEST.format("'a'"))
    suite.passes("--mcp-record=all")
    first = suite.cassette().read_bytes()
    suite.test(TEST.format("'a', 'z'"))
    suite.passes("--mcp-record=new_episodes")
    assert [session.extends for session in sessions(suite.path / TEXT)] == [None, 1]
    assert suite.cassette().read_bytes().startswith(first)
    suite.passes("--mcp-record=rewrite")
    assert [session.extends for session in sessions(suite.path / TEXT)] == [None]
    assert list(suite.cassettes()) == [TEXT]


def test_a_value_that_is_no_format_is_refused(suite: Suite) -> None:
    suite.add("pytest.ini", "mcp_tape_format = yaml\n")
    suite.test(TEST.format("'a'"))
    result = suite.run_apart()
    assert "mcp_tape_format is 'yaml' in the ini file; it may be one of db, jsonl" in result.stderr.str()


@pytest.mark.slow
def test_text_that_no_test_uses_is_an_orphan(suite: Suite) -> None:
    suite.add("pytest.ini", "mcp_tape_format = jsonl\n")
    suite.test(TEST.format("'a'"))
    suite.passes("--mcp-record=once")
    suite.write("cassettes/other.jsonl", '{"sender":"client","text":"{}"}\n')
    suite.write("cassettes/data.jsonl", '{"no": "cassette"}\n')
    result = suite.passes("--mcp-orphans")
    assert "cassettes/other.jsonl" in result.stdout.str()
    assert "data.jsonl" not in result.stdout.str()


SAME = """
import subprocess, sys, pytest
@pytest.mark.mcp_tape(server=[sys.executable, "-m", "mcp_tape.demo.server"])
def test_one(mcp_tape):
    ask = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\\n'
    subprocess.run(mcp_tape.command, input=ask, check=True)
"""


@pytest.mark.parametrize("form", ["db", "jsonl"])
@pytest.mark.slow
def test_a_rewrite_that_says_the_same_changes_no_byte_and_warns_of_nothing(suite: Suite, form: str) -> None:
    suite.add("pytest.ini", f"mcp_tape_format = {form}\n")
    suite.test(SAME)
    suite.passes("--mcp-record=once")
    before = suite.cassettes()
    assert "TapeWarning" not in suite.passes("--mcp-record=rewrite").stdout.str()
    assert suite.cassettes() == before
