"""Every number and command in a miss report works when pasted."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.decks import Said, make_cassette
from tests.support.messages import call, lines, request, result
from tests.support.running import MCP_TAPE, run

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"value": "live"}}), flush=True)
"""


def said(*calls: str) -> list[Said]:
    """A session of answered calls."""
    return [turn for n, text in enumerate(calls, 1) for turn in (("client", text), ("server", result(n)))]  # type: ignore[misc]


def find(number: int, **arguments: Any) -> str:
    return call(number, "find", **arguments)


OLD = said(find(1, q="old", n=0), find(2, q="older", n=0), find(3, q="oldest", n=0))
NEW = said(request(1, "tools/list"), find(2, q="new", n=1))
ADDED = said(find(1, q="added", n=2))


def one(path: Path) -> None:
    make_cassette(path, NEW)


def several(path: Path) -> None:
    make_cassette(path, OLD, NEW, said(request(1, "ping")))


def servers(path: Path) -> None:
    make_cassette(path, OLD, label="git hub")
    make_cassette(path, NEW, label="time")


def one_without_a_name(path: Path) -> None:
    make_cassette(path, OLD)
    make_cassette(path, NEW, label="time")


def extended(path: Path) -> None:
    make_cassette(path, NEW)
    make_cassette(path, ADDED, extends=1)


def unanswered(path: Path) -> None:
    make_cassette(path, OLD, [("client", find(1, q="hung")), ("client", find(2, q="x")), ("server", result(2))])


class Case(NamedTuple):
    make: Callable[[Path], object]
    asked: str
    expected: list[str]  # options of the suggested commands
    given: tuple[str, ...] = ()
    before: str = ""


MODES = ["--mode rewrite", "--mode new_episodes"]
N = "--ignore 'tools/call:find=$.params.arguments.n'"
CASES = {
    "one session": Case(one, find(9, q="new", n=7), [N, *MODES, ""]),
    "another name of a file": Case(one, find(9, q="new", n=7), [N, *MODES, ""]),
    "a method that is not there": Case(several, request(9, "logging/setLevel"), ["--mode new_episodes", "--session 2"]),
    "several sessions": Case(several, find(9, q="new", n=7), [N, *MODES, "--session 2"]),
    "a session that was given": Case(
        several, find(9, q="old", n=7), [f"--session 1 {N}", *(f"{mode} --session 1" for mode in MODES), "--session 1"],
        ("--session", "1"),
    ),
    "another session has it": Case(several, find(9, q="old", n=0), ["--session all", *MODES, "--session 1"]),
    "another that was not given has it": Case(
        several, find(9, q="old", n=0),
        ["--session all", *(f"{mode} --session 2" for mode in MODES), "--session 1"], ("--session", "2"),
    ),
    "a server of several": Case(
        servers, find(9, q="old", n=7),
        [f"--server 'git hub' {N}", *(f"{mode} --server 'git hub'" for mode in MODES), "--session 1"],
        ("--server", "git hub"),
    ),
    "a session of several servers": Case(
        servers, find(9, q="old", n=7),
        [f"--session 1 {N}", *(f"{mode} --session 1 --server 'git hub'" for mode in MODES), "--session 1"],
        ("--session", "1"),
    ),
    "a session of another server has it": Case(
        servers, find(9, q="old", n=0),
        ["--session 1", *(f"{mode} --session 2 --server time" for mode in MODES), "--session 1"], ("--session", "2"),
    ),
    "a server without a name": Case(
        one_without_a_name, find(9, q="old", n=7),
        [f"--session 1 {N}", "--mode new_episodes --session 1", "--session 1"], ("--session", "1"),
    ),
    "what was added": Case(extended, find(9, q="added", n=7), [N, *MODES, "--session 2"]),
    "nearest": Case(
        one, find(9, q="the new", n=1), ["--match tools/call:find=nearest", *MODES, ""],
    ),
    "options that were given": Case(
        lambda path: make_cassette(path, said(find(1, q="a word of it", n=1, at="10:00:00", by="me"))),
        find(9, q="a word", n=2, at="11:00:00", by="me"),
        [f"{N} --normalize times --match tools/call:find=nearest",
         *(f"{mode} {N} --normalize times" for mode in MODES), ""],
        ("--ignore", "tools/call:find=$.params.arguments.n", "--normalize", "times"),
    ),
    "repeats": Case(one, find(9, q="new", n=1), ["--repeats last", *MODES, ""], before=find(8, q="new", n=1)),
    "no answer": Case(unanswered, find(9, q="hung"), ["--mode rewrite", "--session 2"]),
}  # fmt: skip


@pytest.mark.slow(quick=5)
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_every_number_and_command_in_a_report_works(tmp_path: Path, case: Case) -> None:
    name = "tape's.db" if case is CASES["another name of a file"] else "tape.db"
    case.make(tmp_path / name)
    (tmp_path / "server.py").write_text(SERVER)
    asked = lines(*filter(None, [case.before, case.asked]))
    done = run([*MCP_TAPE, "replay", name, *case.given], asked, cwd=tmp_path)
    report = done.stderr.decode()
    assert done.returncode == 1 and "1 missed" in report, report
    commands = [shlex.split(command) for command in re.findall(r"^    (mcp-tape .*)$", report, re.M)]
    if case.expected:
        words = [command[3:] for command in commands]
        given = [words[: words.index("--")] if "--" in words else words for words in words]
        assert given == [shlex.split(options) for options in case.expected], report
    for number, session, what in re.findall(
        r"nearest: #(\d+)(?: of session (\d+))? (.*?)(?:, already|$)", report, re.M
    ):
        shown = run([*MCP_TAPE, "show", name, number, *(("--session", session) if session else ())], cwd=tmp_path)
        assert shown.returncode == 0 and what in shown.stdout.decode(), number
    for _, verb, _, *options in commands:
        shutil.copy(tmp_path / name, tmp_path / "copy.db")
        command = [sys.executable if word == "SERVER" else word for word in options]
        command += [str(tmp_path / "server.py")] if "SERVER" in options else []
        done = run([*MCP_TAPE, verb, "copy.db", *command], b"" if verb == "show" else asked, cwd=tmp_path)
        assert done.returncode == 0, (verb, command, done.stderr.decode())
        if verb == "show":
            assert b"tools/call" in done.stdout and b"find" in done.stdout
        else:
            assert b'"error"' not in done.stdout


@pytest.mark.slow
def test_a_read_only_cassette_gets_no_advice_to_record(tmp_path: Path) -> None:
    make_cassette(tmp_path / "tape.db", NEW)
    har = tmp_path / "tape.har"
    assert run([*MCP_TAPE, "convert", str(tmp_path / "tape.db"), "--to", "har", str(har)]).returncode == 0
    done = run([*MCP_TAPE, "replay", str(har)], lines(find(9, q="new", n=7)))
    assert b"--ignore" in done.stderr and b"--mode" not in done.stderr
