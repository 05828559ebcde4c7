"""A fault that is never applied: without a warning, its test would pass."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tape import use_cassette
from tests.support.decks import make_cassette
from tests.support.http import ask as ask_http
from tests.support.http_running import replaying
from tests.support.messages import call, lines, request, result
from tests.support.plugin import Suite
from tests.support.running import MCP_TAPE, run

ASKED = [request(1, "initialize"), request(2, "tools/list"), call(3, "find", q=1)]
# A fault, the message at its start, and whether it is applied.
FAULTS = {
    "tools/lst=error:-1": "no session has tools/lst; there is initialize, tools/call, tools/list",
    "tools/call:fnd=drop": "no session has tools/call fnd; there is find",
    "tools/call:find@2=drop": "",
    "tools/call:find=error:-1": None,
}


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    said = [turn for n, text in enumerate(ASKED, 1) for turn in (("client", text), ("server", result(n, {})))]
    return make_cassette(tmp_path / "tape.db", said)  # type: ignore[arg-type]


def stdio(tape: Path, *options: str) -> tuple[str, int]:
    done = run([*MCP_TAPE, "replay", str(tape), *options], lines(*ASKED))
    return done.stderr.decode(), done.returncode


def http(tape: Path, *options: str) -> tuple[str, int]:
    with replaying(tape, *options, code=int("--strict" in options)) as replay:
        first = ask_http(replay.url, ASKED[0].encode())
        session = {"Mcp-Session-Id": first.header("mcp-session-id")}
        for text in ASKED[1:]:
            ask_http(replay.url, text.encode(), **session)
        code = replay.stop()
        return replay.said, code


@pytest.mark.parametrize("over", [stdio, http])
@pytest.mark.parametrize("fault", FAULTS)
def test_it_is_reported_and_strict_fails(tape: Path, over: Callable[..., tuple[str, int]], fault: str) -> None:
    begins, ends = FAULTS[fault], f"mcp-tape: the fault {fault} has struck nothing on {tape}\n"
    if begins is None:
        said, code = over(tape, "--fault", fault)
        assert (code, "struck" in said, "can strike" in said) == (0, False, False)
        return
    said, code = over(tape, "-q", "--fault", fault)
    assert code == 0 and said.endswith(ends)
    assert (f"mcp-tape: the fault {fault} can strike nothing on {tape}: {begins}\n" in said) is bool(begins)
    said, code = over(tape, "--strict", "--fault", fault)
    assert code == 1 and ends in said


def test_it_is_in_the_report(tape: Path, tmp_path: Path) -> None:
    stdio(tape, "--fault", "tools/lst=drop", "--report", str(tmp_path / "report"))
    rows = map(json.loads, (tmp_path / "report").read_text().splitlines())
    (row,) = [row for row in rows if row["what"] == "unstruck"]
    assert row["text"] == f"the fault tools/lst=drop has struck nothing on {tape}"


def test_use_cassette_warns_of_it(tape: Path) -> None:
    used = use_cassette(tape, "none", faults=["tools/lst=drop", "tools/list=delay:0"])
    assert used.unstruck == ["tools/lst=drop", "tools/list=delay:0"]
    with used._player() as player:  # type: ignore[attr-defined]
        for text in ASKED:
            player.receive(text.encode(), "stdio", 0.0)
            player.due(0.0)
    assert used.unstruck == ["tools/lst=drop"]
    with pytest.warns(UserWarning, match=r"1 fault struck nothing on .*: tools/lst=drop"):
        used.__exit__(None, None, None)
    failed = use_cassette(tape, "none", faults=["tools/lst=drop"])
    with warnings.catch_warnings(record=True) as found:
        failed.__exit__(KeyError, KeyError(), None)  # the test failed before the fault was due
    assert found == []


TEST = """
@pytest.mark.mcp_tape(faults=["tools/lst=drop"]{more})
def test_one(mcp_tape):
    assert ask(mcp_tape, "find")
"""


@pytest.mark.parametrize("unplayed", ["ignore", "error"])
def test_a_test_with_it_is_warned_of_or_fails(suite: Suite, unplayed: str) -> None:
    suite.record("test_it/test_one", "find")
    suite.test(TEST.format(more=f", unplayed={unplayed!r}"))
    result = suite.run()
    result.assert_outcomes(**({"failed": 1} if unplayed == "error" else {"passed": 1, "warnings": 1}))
    result.stdout.fnmatch_lines(["*1 fault struck nothing on *test_one.db: tools/lst=drop*"])
