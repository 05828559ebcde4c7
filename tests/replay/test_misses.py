"""The miss report: printed in three places, with enough detail to act on."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.decks import Player, Said, make_cassette, played
from tests.support.messages import call, request, result
from tests.support.running import MCP_TAPE, run


def search(rpc_id: int, **arguments: object) -> str:
    return call(rpc_id, "search", **arguments)


def tape(tmp_path: Path) -> Path:
    return make_cassette(
        tmp_path / "tape.db",
        [
            ("client", search(1, query="cats", limit=10, where={"lang": "en"})),
            ("server", result(1, "about cats")),
            ("client", search(2, query="dogs", limit=5, where={"lang": "de"})),
            ("server", result(2, "about dogs")),
            ("client", call(3, "delete", query="cats", limit=10, where={"lang": "en"})),
            ("server", result(3, "gone")),
        ],
    )


def test_the_report_shows_the_nearest_recording_and_each_difference(tmp_path: Path) -> None:
    player = Player(tape(tmp_path))
    player.say(search(1, query="cats", limit=10, where={"lang": "fr"}))
    (report,) = player.told("miss")
    nearest = report.split("nearest:")
    assert "tools/call search" in nearest[0]
    assert "#1 tools/call search" in nearest[1]
    assert '$.params.arguments.where.lang  recorded "en", live "fr"' in nearest[1]
    assert 'would have answered: {"value":"about cats"}' in nearest[1]
    assert "#3 tools/call search" in nearest[2]
    assert nearest[2].count("recorded ") == 3
    assert "#5 tools/call delete" in nearest[3]  # another tool, regardless of its arguments


def test_the_report_has_commands_to_type(tmp_path: Path) -> None:
    path = tape(tmp_path)
    player = Player(path)
    player.say(search(1, query="cats", limit=10, where={"lang": "fr"}))
    (report,) = player.told("miss")
    assert f"mcp-tape replay {path} --ignore 'tools/call:search=$.params.arguments.where.lang'\n" in report
    assert f"mcp-tape use {path} --mode new_episodes -- SERVER" in report
    ignoring = Player(path, ignore=["$.params.arguments.where.lang"])
    assert ignoring.say(search(9, query="cats", limit=10, where={"lang": "fr"})) == [result(9, "about cats")]


def test_no_report_advises_to_ignore_which_tool_is_called(tmp_path: Path) -> None:
    player = Player(tape(tmp_path))
    player.say(call(1, "insert", query="cats", limit=10, where={"lang": "en"}))
    (report,) = player.told("miss")
    assert '$.params.name  recorded "search", live "insert"' in report or 'recorded "delete", live "insert"' in report
    assert "--ignore" not in report
    assert "--mode rewrite" in report


def test_the_report_file_has_the_advice_for_programs(tmp_path: Path) -> None:
    log = tmp_path / "report.jsonl"
    asked = search(1, query="birds", limit=10, where={"lang": "en"}).encode() + b"\n"
    run([*MCP_TAPE, "replay", str(tape(tmp_path)), "-q", "--report", str(log)], asked + call(2, "x").encode() + b"\n")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    (first, *_), _ = [row["advice"] for row in rows if row["what"] == "miss"]
    assert first == {
        "why": "if this value may differ",
        "what": "ignore",
        "value": "tools/call:search=$.params.arguments.query",
    }


def test_a_method_that_no_session_has_gets_advice_too(tmp_path: Path) -> None:
    path = tape(tmp_path)
    player = Player(path)
    player.say('{"jsonrpc":"2.0","id":1,"method":"prompts/list"}')
    assert f"mcp-tape use {path} --mode new_episodes -- SERVER" in player.told("miss")[0]


def test_something_added_or_left_out_is_a_difference_too(tmp_path: Path) -> None:
    player = Player(tape(tmp_path))
    player.say(search(1, query="cats", where={"lang": "en"}, page=2))
    (report,) = player.told("miss")
    assert "$.params.arguments.limit  recorded 10, live nothing" in report
    assert "$.params.arguments.page  recorded nothing, live 2" in report


def test_a_played_recording_is_named_as_the_reason(tmp_path: Path) -> None:
    player = Player(tape(tmp_path))
    asked = search(1, query="cats", limit=10, where={"lang": "en"})
    player.say(asked)
    player.say(asked)
    (report,) = player.told("miss")
    assert "tools/call search is played out" in report
    assert "#1 tools/call search, already played" in report
    assert "--repeats last" in report


def test_the_error_carries_the_report_as_data(tmp_path: Path) -> None:
    (answer,) = Player(tape(tmp_path)).say(search(1, query="cats", limit=11, where={"lang": "en"}))
    error = json.loads(answer)["error"]
    assert error["code"] == -32010
    assert error["data"]["nearest"][0]["differing"] == [
        {"path": "$.params.arguments.limit", "recorded": "10", "live": "11"}
    ]


def test_a_miss_is_in_the_error_on_stderr_and_in_the_exit_code(tmp_path: Path) -> None:
    done = run([*MCP_TAPE, "replay", str(tape(tmp_path)), "-q"], search(1, query="birds").encode() + b"\n")
    assert json.loads(done.stdout)["error"]["code"] == -32010
    assert b"miss: tools/call search" in done.stderr
    assert done.returncode == 1


def test_a_secret_in_a_live_request_does_not_reach_stderr_or_the_report_file(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    log = tmp_path / "report.jsonl"
    asked = search(1, query=f"token {secret}", password="hunter2hunter2").encode() + b"\n"
    done = run([*MCP_TAPE, "replay", str(tape(tmp_path)), "--report", str(log)], asked)
    assert done.returncode == 1
    for text in (done.stderr, log.read_bytes(), done.stdout):
        assert secret.encode() not in text
        assert b"hunter2hunter2" not in text


@pytest.mark.slow
def test_a_huge_or_deep_request_still_gets_its_report(tmp_path: Path) -> None:
    deep = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":'
        + "[" * 3000
        + "]" * 3000
        + "}}"
    )
    huge = search(2, query="x" * 1_000_000)
    done = run([*MCP_TAPE, "replay", str(tape(tmp_path))], f"{deep}\n{huge}\n".encode())
    codes = [json.loads(line)["error"]["code"] for line in done.stdout.splitlines()]
    assert codes == [-32010, -32010]
    assert len(done.stderr) < 20_000


def test_parts_that_do_not_count_are_not_reported(tmp_path: Path) -> None:
    player = Player(tape(tmp_path), match_on=["$.params.name"])
    player.say(call(1, "find", query="cats"))
    (report,) = player.told("miss")
    assert '$.params.name  recorded "search", live "find"' in report
    assert "$.params.arguments" not in report


@pytest.mark.slow
def test_the_nearest_is_found_on_a_long_tape(tmp_path: Path) -> None:
    many = [turn for n in range(1000) for turn in (("client", call(n, "noise", n=n)), ("server", result(n)))]
    path = make_cassette(
        tmp_path / "tape.db", [*many, ("client", search(1000, query="cats")), ("server", result(1000))]
    )
    player = Player(path)
    player.say(search(1, query="dogs"))
    assert '$.params.arguments.query  recorded "cats", live "dogs"' in player.told("miss")[0]


@pytest.mark.parametrize("hint", [True, False, None])
def test_a_tool_that_may_write_is_to_be_recorded_with_all_others(tmp_path: Path, hint: bool | None) -> None:
    tools = [{"name": "save", "annotations": {"readOnlyHint": hint}}, {"name": "other"}, "odd"]
    listed = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}})
    player = played(tmp_path, ("client", request(1, "tools/list")), ("server", listed), ("client", call(2, "other")))
    player.say(call(3, "save"))
    (report,) = player.told("miss")
    modes = re.findall(r"--mode (\w+)", report)
    assert modes == (["new_episodes"] if hint else ["rewrite", "new_episodes"])


@pytest.mark.parametrize(
    ("recorded", "live", "advice"),
    [
        ({"path": "/tmp/tmpab12cd34/x"}, {"path": "/tmp/tmpxy98zw76/x"}, ["--normalize paths"]),
        (
            {"path": "/home/ann/x", "at": "2026-01-01"},
            {"path": "/home/bob/x", "at": "2026-01-02"},
            ["--normalize paths", "--normalize times"],
        ),
        (
            {"path": "/home/ann/x", "q": "a"},
            {"path": "/home/bob/x", "q": "b"},
            ["--normalize paths", "--ignore 'tools/call:echo=$.params.arguments.q'"],
        ),
        ({"q": "weather in Bern"}, {"q": "the weather in Bern"}, ["--match tools/call:echo=nearest"]),
        (
            {"q": "weather in Bern"},
            {"q": "fair weather in Bern"},
            ["--match tools/call:echo=nearest:0.6", "--ignore 'tools/call:echo=$.params.arguments.q'"],
        ),
        (
            {"q": "weather in Bern", "r": "rain"},
            {"q": "Bern weather", "r": "rain", "limit": 5},
            ["--match tools/call:echo=nearest"],
        ),
        ({"q": "Bern", "n": 1}, {"q": "Basel", "n": 2}, []),
    ],
)
def test_the_strictest_rung_that_helps_is_advised(tmp_path: Path, recorded: Any, live: Any, advice: list[str]) -> None:
    said: list[Said] = [("client", call(1, **recorded)), ("server", result(1))]
    path = make_cassette(tmp_path / "tape.db", said)
    player = Player(path)
    player.say(call(1, **live))
    (report,) = player.told("miss")
    options = [option for line in report.splitlines() if "replay" in line for option in [line.partition(f"{path} ")[2]]]
    assert options == advice
    given: dict[str, list[str]] = {}
    for option in options:
        flag, value = shlex.split(option)
        given.setdefault(flag.removeprefix("--"), []).append(value)
    if advice:
        assert Player(path, **given).say(call(9, **live)) == [result(9)]  # type: ignore[arg-type]
