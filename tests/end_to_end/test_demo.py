"""The demo: real programs, everything local, no leftovers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mcp_tape.demo import client
from tests.support.running import MCP_TAPE, python, run, sessions


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of one demo, for all tests: stdout and stderr in order."""
    return demo(tmp_path_factory.mktemp("demo"))


def demo(tmp_path: Path) -> str:
    done = run(["sh", "-c", 'exec "$@" 2>&1', "sh", *MCP_TAPE, "demo"], env=os.environ | {"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout
    return done.stdout.decode()


def step(shown: str, title: str) -> str:
    """One part of the demo."""
    return next(part for part in shown.strip().split("\n\n") if part.startswith(title))


@pytest.mark.slow
def test_the_demo_shows_a_call_progress_a_server_request_and_an_error(shown: str) -> None:
    assert " → #3   tools/call forecast" in shown
    assert shown.count("notifications/progress") == 2
    assert " ← #1   sampling/createMessage" in shown
    assert " ← #3   tools/call ok" in shown
    assert "!← #4   tools/call error" in shown
    assert "exits 0" in shown


@pytest.mark.slow
def test_the_demo_replays_the_session_without_a_server(shown: str) -> None:
    replay = step(shown, "2. Replay")
    assert "no server is running" in replay
    assert "$ mcp-tape replay tape.db\nmcp-tape: 4 played, 0 missed" in replay
    assert "the same 4 answers" in replay
    assert "Sunny, 21 °C." in replay


@pytest.mark.slow
def test_the_demo_shows_a_miss_as_a_person_sees_it(shown: str) -> None:
    miss = step(shown, "3. Miss")
    assert '$.params.arguments.city  recorded "Bern", live "Basel"' in miss
    assert "mcp-tape use tape.db --mode new_episodes" in miss
    assert miss.endswith("The client got error -32010, and mcp-tape exits with 1.")


@pytest.mark.slow
def test_the_demo_finds_a_breaking_change_in_the_servers_next_version(shown: str) -> None:
    found = step(shown, "4. Diff")
    assert "$ mcp-tape breaking tape.db next.db\n3 changes: 2 error, 1 info        demo-weather 1.0 → 1.1" in found
    assert "new required property (integer)" in found
    assert found.endswith("mcp-tape exits with 1: such a release would not pass CI.")


def test_the_demo_ends_with_commands_to_type_next(shown: str) -> None:
    last = step(shown, "Now your own server")
    assert [line.split()[:2] for line in last.splitlines()[1:]] == [
        ["mcp-tape", command] for command in ("record", "show", "replay", "use", "verify")
    ]


def test_the_demos_own_lines_fit_a_small_terminal(shown: str) -> None:
    # Replay and show print the rest, and show cuts its lines to the terminal's width.
    told = [*step(shown, "1. Record").splitlines()[:2], *step(shown, "Now your own server").splitlines()]
    own = ("$ ", "The client", "What they", "2. ", "3. ", "4. ", "mcp-tape exits")
    told += [line for line in shown.splitlines() if line.startswith(own)]
    assert len(told) >= 12
    assert max(map(len, told)) <= 80


@pytest.mark.slow
def test_the_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    demo(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_the_demo_keeps_its_cassettes_in_the_given_directory(tmp_path: Path) -> None:
    place = tmp_path / "new" / "place"
    done = run([*MCP_TAPE, "demo", "-o", str(place)])
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(place)) == ["next.db", "tape.db"]
    assert f"Kept: {place}/tape.db and {place}/next.db".encode() in done.stdout
    for name, version in (("tape.db", "1.0"), ("next.db", "1.1")):
        (session,) = sessions(place / name)
        assert (session.server_version, session.incomplete) == (version, None)


@pytest.mark.parametrize("name", ["tape.db", "next.db"])
def test_the_demo_records_over_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"mine")
    done = run([*MCP_TAPE, "demo", "-o", str(tmp_path)])
    assert done.returncode == 2 and f"there is a {name} in {tmp_path} already".encode() in done.stderr
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_bytes() == b"mine"


def test_the_demo_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run([*MCP_TAPE, "demo", "-o", str(tmp_path / "file" / "below")])
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"cannot write to" in done.stderr and b"Not a directory" in done.stderr


def test_the_demos_server_and_client_also_talk_directly() -> None:
    answers, code = client.play([sys.executable, "-m", "mcp_tape.demo.server"])
    assert code == 0
    assert [answer["id"] for answer in answers] == [1, 2, 3, 4]
    assert answers[2]["result"]["content"][0]["text"] == "Sunny, 21 °C."
    assert answers[3]["error"]["code"] == -32602


def test_the_demos_client_stops_when_its_server_does() -> None:
    assert client.play(python("input()")).answers == []


@pytest.mark.parametrize("capabilities", [{}, {"sampling": {}}])
def test_the_demos_server_does_without_a_progress_token_and_a_model(capabilities: dict[str, object]) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "x", "version": "1"}}
    asked = {"name": "forecast", "arguments": {"city": "Bern"}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"id": 2, "method": "tools/call", "params": asked},
        *([{"id": 1, "error": {"code": -1, "message": "No model"}}] if capabilities else []),
    ]
    lines = b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)
    done = run([sys.executable, "-m", "mcp_tape.demo.server"], lines)
    assert json.loads(done.stdout.splitlines()[-1])["result"]["content"][0]["text"] == "Sunny in Bern.", done.stderr
    assert b"notifications/progress" not in done.stdout
    assert (b"sampling/createMessage" in done.stdout) == bool(capabilities)
