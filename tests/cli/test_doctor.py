"""mcp-tape doctor: problems with clients, their servers and cassettes, with a real server of each kind."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import MCP_TAPE
from tests.support.live import serving
from tests.support.promises import CASSETTES
from tests.support.running import python, run

DEMO = [sys.executable, "-m", "mcp_tape.demo.server"]
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9" * 2
ANSWER = '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"n","version":"1"}}}'
Doctor = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    """The facts that the command finds about a client's servers, by their entries."""
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CODEX_"))}
    environ = kept | {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def doctor(
        *words: str, code: int = 0, servers: dict[str, Any] | None = None, file: str = ".cursor/mcp.json"
    ) -> list[dict[str, Any]]:
        if servers is not None:
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_text(json.dumps({"mcpServers": servers}))
        done = run([*MCP_TAPE, "doctor", *words, "--json"], cwd=tmp_path, env=environ)
        assert done.returncode == code, done
        return [json.loads(line) for line in done.stdout.splitlines()]

    return doctor


def entry(command: list[str], **more: Any) -> dict[str, Any]:
    return {"command": command[0], "args": command[1:]} | more


@pytest.mark.slow
def test_a_working_server_is_reported(doctor: Doctor) -> None:
    found = doctor("cursor", servers={"demo": entry(DEMO)})
    assert [one["ok"] for one in found] == [True, True] and "demo-weather 1.0 answers after" in found[1]["found"]


@pytest.mark.slow
def test_a_wrapped_server_is_asked_itself(doctor: Doctor, tmp_path: Path) -> None:
    tape = shutil.which("mcp-tape", path=str(Path(sys.executable).parent))
    assert tape
    found = doctor("cursor", servers={"demo": entry([tape, "record", "--for", "cursor/demo", "--", *DEMO])})
    assert "demo-weather 1.0 answers after" in found[1]["found"]
    assert not (tmp_path / "home/.local").exists()  # nothing was recorded


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.slow
def test_a_server_at_a_url_is_asked_there_wrapped_or_not(doctor: Doctor, tmp_path: Path, old: bool) -> None:
    with serving(old=old) as live:
        plain = {"type": "sse" if old else "http", "url": live.url, "headers": {"X-Api-Key": SECRET}}
        assert "answers after" in doctor("cursor", servers={"web": plain})[1]["found"]
        path = tmp_path / "home/.cursor/mcp.json"
        assert run([*MCP_TAPE, "wrap", "--all", "--config", str(path)]).returncode == 0
        assert "answers after" in doctor("cursor")[1]["found"]
        assert {one["headers"].get("x-api-key") for one in live.heard if one["method"] != "DELETE"} == {SECRET}
    found = doctor("cursor", code=1)[1]
    assert not found["ok"] and found["advice"].startswith("is the URL right")


@pytest.mark.parametrize(
    ("command", "found", "advice"),
    [
        (["no-such-program-anywhere"], "no-such-program-anywhere is not on the PATH", "full path"),
        (["/no/such/program"], "/no/such/program is not there", "install it"),
        (
            ["mcp-tape", "record", "--for", "cursor/x", "--", *DEMO],
            "mcp-tape has no directory there",
            "wrap --undo",
        ),
        (python("import sys; sys.exit('no token')"), "exit code 1; its stderr ends with: no token", "in a terminal"),
        (python("print('hello', flush=True); input()"), "ended with exit code 0", "in a terminal"),
        (python('input(); print(\'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}\')'), "ended", "terminal"),
    ],
)
def test_problems_of_a_server_are_reported_with_a_remedy(
    doctor: Doctor, command: list[str], found: str, advice: str
) -> None:
    seen = doctor("cursor", code=1, servers={"x": entry(command)})
    assert found in seen[1]["found"] and advice in seen[1]["advice"] and not seen[1]["ok"]


@pytest.mark.slow
def test_a_server_that_never_answers_is_not_waited_for(doctor: Doctor) -> None:
    seen = doctor("cursor", "--timeout", "0.5", code=1, servers={"x": entry(["cat", "/dev/stdin", "-"])})
    assert not seen[1]["ok"]
    seen = doctor("cursor", "--timeout", "0.5", code=1, servers={"x": entry(["sleep", "60"])})
    assert "did not answer initialize within 0.5 s" in seen[1]["found"]


def test_noise_on_stdout_is_a_problem_of_its_own(doctor: Doctor) -> None:
    server = python(f"input(); print('Listening'); print('''{ANSWER}''', flush=True); input()")
    seen = doctor("cursor", code=1, servers={"x": entry(server)})
    assert [one["ok"] for one in seen] == [True, True, False] and "'Listening'" in seen[2]["found"]


def test_variables_are_given_and_those_of_the_client_alone_are_not_guessed(doctor: Doctor) -> None:
    server = python(f"import os; input(); os.environ['KEY'] == 'v' and print('''{ANSWER}''', flush=True); input()")
    assert doctor("cursor", servers={"x": entry(server, env={"KEY": "v"})})[1]["ok"]
    seen = doctor("cursor", servers={"x": entry(server, env={"KEY": "${input:key}"})})
    assert "was not started" in seen[1]["found"]


DESKTOP = ".config/Claude/claude_desktop_config.json"


@pytest.mark.skipif(sys.platform != "linux", reason="the file is elsewhere")
@pytest.mark.slow
def test_a_desktop_client_has_not_the_path_of_the_shell(doctor: Doctor, tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    echo = ["mcp-tape", "replay", str(CASSETTES / "demo.db")]  # on the shell's PATH only
    python_by_env = tmp_path / "server"
    python_by_env.write_text("#!/usr/bin/env mcp-tape\n")
    python_by_env.chmod(0o755)
    for servers, found, advice in [
        ({"x": entry(echo)}, "mcp-tape is on your shell's PATH, but not on the PATH of Claude Desktop", str(tools)),
        ({"x": entry(echo, env={"PATH": "/nowhere"})}, "but not on the PATH of its entry (/nowhere)", str(tools)),
        ({"x": entry([str(python_by_env), "replay"])}, "ended with exit code 127", "terminal"),
    ]:
        for about in ("claude-desktop", None)[: 1 + (advice != "terminal")]:
            seen = doctor(*filter(None, [about]), code=1, servers=servers, file=DESKTOP)
            assert found in seen[-1]["found"] and advice in seen[-1]["advice"]
    doctor("claude-desktop", servers={"x": entry([str(tools / "mcp-tape"), *echo[1:]])}, file=DESKTOP)
    doctor("cursor", servers={"x": entry(["sh", "-c", " ".join(echo)])})  # asks a shell


def test_secrets_that_a_server_says_are_hidden(doctor: Doctor) -> None:
    server = python(f"print('token {SECRET}', flush=True); import sys; sys.exit('token {SECRET}')")
    assert SECRET not in json.dumps(doctor("cursor", code=1, servers={"x": entry(server)}))


def test_without_a_name_nothing_is_started(doctor: Doctor, tmp_path: Path) -> None:
    server = python(f"open({str(tmp_path / 'started')!r}, 'w')")
    seen = doctor(servers={"x": entry(server)})
    assert all(one["ok"] for one in seen) and not (tmp_path / "started").exists()


def test_a_file_that_cannot_be_read_is_a_problem(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "home/.cursor/mcp.json").write_text("{")
    assert any("cannot be read" in one["found"] for one in doctor(code=1))


def test_a_client_without_a_file_is_one_too(doctor: Doctor) -> None:
    (found,) = doctor("zed", code=1)
    assert found["found"] == "has no file here" and "zed/settings.json" in found["advice"]
    assert "{" not in found["advice"]


def test_a_cassette_is_looked_at(doctor: Doctor, tmp_path: Path) -> None:
    shutil.copy(CASSETTES / "demo.db", tmp_path / "tape.db")
    assert all(one["ok"] for one in doctor("tape.db"))
    (tmp_path / "notes.txt").write_text("hello")
    assert "is not a cassette" in doctor("notes.txt", code=1)[-1]["found"]


def test_a_name_that_is_neither_is_wrong_usage(doctor: Doctor) -> None:
    assert doctor("nobody", code=2) == []
