"""The environment of a recorded server: `env`, `env_from` and `cwd` of `use_cassette`, marks, `record` and `use`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import TapeError, use_cassette
from tests.support.messages import call, lines
from tests.support.plugin import Suite
from tests.support.running import MCP_TAPE, python, run
from tests.support.using import HELLO

TOKEN = "Zx81qqPw7Lk93mNb"
# Prints its directory and its variables.
SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        names = ("ACME_TOKEN", "ACME_HOME", "PLACE")
        answer = {"cwd": os.getcwd(), **{name: os.environ[name] for name in names if name in os.environ}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"""
ASKED = HELLO + lines(call(1, "a"))
FEW = {"PATH": os.environ["PATH"]}  # the few that SDK clients pass on


def ask(command: list[str], environ: dict[str, str] = FEW, **more: Any) -> dict[str, Any]:
    done = run(command, ASKED, env=environ, **more)
    return json.loads(done.stdout.splitlines()[-1])["result"]  # type: ignore[no-any-return]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.db"


@pytest.mark.slow
def test_a_server_gets_the_given_variables_and_no_others(tape: Path, tmp_path: Path) -> None:
    env = {"ACME_TOKEN": TOKEN, "ACME_HOME": tmp_path}
    with use_cassette(tape, command=python(SERVER), env=env, cwd=tmp_path) as used:
        assert TOKEN not in " ".join(used.command)
        answer = ask(used.command)
    assert answer == {"cwd": str(tmp_path), "ACME_TOKEN": TOKEN, "ACME_HOME": str(tmp_path)}
    with use_cassette(tape, "none") as used:
        assert ask(used.command)["ACME_HOME"] == str(tmp_path)


@pytest.mark.slow
def test_secrets_among_them_are_not_on_the_tape(tape: Path) -> None:
    with use_cassette(tape, command=python(SERVER), env={"ACME_TOKEN": TOKEN, "ACME_HOME": "/srv/acme"}) as used:
        ask(used.command)
    assert TOKEN.encode() not in tape.read_bytes()
    assert b"/srv/acme" in tape.read_bytes()  # in the server's answer


@pytest.mark.slow
def test_variables_of_the_test_are_passed_on_by_name(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with use_cassette(tape, command=python(SERVER), env_from=["ACME_TOKEN", "PLACE"]) as used:
        command = used.command
        monkeypatch.setenv("ACME_TOKEN", TOKEN)  # the values when the server starts
        monkeypatch.setenv("PLACE", "Bern")
        monkeypatch.setenv("ACME_HOME", "/srv/acme")
        answer = ask(command)
    assert (answer["ACME_TOKEN"], answer["PLACE"], answer.get("ACME_HOME")) == (TOKEN, "Bern", None)
    assert TOKEN.encode() not in tape.read_bytes()


def test_a_variable_that_is_not_set_fails_the_recording(tape: Path) -> None:
    used = use_cassette(tape, command=python(SERVER), env_from=["ACME_TOKEN"])
    run(used.command, ASKED, env=FEW)
    with pytest.raises(TapeError, match="it needs ACME_TOKEN, which is not set"):
        used.finish(keep=True)
    assert not tape.exists()


def test_a_directory_that_is_not_there_fails_the_recording(tape: Path, tmp_path: Path) -> None:
    used = use_cassette(tape, command=python(SERVER), cwd=tmp_path / "gone")
    run(used.command, ASKED, env=FEW)
    with pytest.raises(TapeError, match="where it should start, is not a directory"):
        used.finish(keep=True)


@pytest.mark.slow
def test_none_of_it_is_needed_to_replay(tape: Path, tmp_path: Path) -> None:
    with use_cassette(tape, command=python(SERVER)) as used:
        ask(used.command)
    with use_cassette(tape, command=python(SERVER), cwd=tmp_path / "gone", env_from=["ACME_TOKEN"]) as used:
        assert ask(used.command)


@pytest.mark.slow
def test_new_episodes_start_the_server_the_same_way(tape: Path, tmp_path: Path) -> None:
    with use_cassette(tape, command=python(SERVER)) as used:
        run(used.command, HELLO + lines(call(1, "other")), env=FEW)
    with use_cassette(tape, "new_episodes", command=python(SERVER), env={"PLACE": "Bern"}, cwd=tmp_path) as used:
        assert ask(used.command) == {"cwd": str(tmp_path), "PLACE": "Bern"}


@pytest.mark.parametrize("bad", [{"env": {"A": 1}}, {"env": {1: "A"}}, {"env": {"A=B": "C"}}, {"env": {"A": "\0"}}])
def test_an_invalid_variable_is_refused_without_its_value(tape: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(TapeError, match="env"):
        use_cassette(tape, command=["server"], **bad)


def test_a_server_at_a_url_has_no_environment_of_ours(tape: Path) -> None:
    with pytest.raises(TapeError, match="env needs a command"):
        use_cassette(tape, url="http://127.0.0.1:9/mcp", env={"A": "B"})


Made = Callable[..., list[str]]


@pytest.fixture(params=["record", "use"])
def made(request: pytest.FixtureRequest, tape: Path) -> Made:
    """The recorder's command line."""
    words = {"record": ["record", "-o", str(tape)], "use": ["use", str(tape)]}[request.param]
    return lambda *options: [*MCP_TAPE, *words, *options, "--", *python(SERVER)]


@pytest.mark.slow
def test_on_a_command_line(made: Made, tape: Path, tmp_path: Path) -> None:
    command = made("--env", f"ACME_TOKEN={TOKEN}", "--env=PLACE=a=b", "--cwd", str(tmp_path))
    assert ask(command) == {"cwd": str(tmp_path), "ACME_TOKEN": TOKEN, "PLACE": "a=b"}
    assert TOKEN.encode() not in tape.read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_a_command_line_finds_variables_that_the_client_has_not_passed_on(made: Made, tape: Path) -> None:
    command = made("--env-from", "ACME_TOKEN")
    client = f"import subprocess; subprocess.run({command}, env={{}}, check=True)"
    assert ask(python(client), FEW | {"ACME_TOKEN": TOKEN})["ACME_TOKEN"] == TOKEN
    assert TOKEN.encode() not in tape.read_bytes()


def test_a_command_line_names_the_missing_variable(made: Made) -> None:
    done = run(made("--env-from", "ACME_NOWHERE"), ASKED, env=FEW)
    assert done.returncode != 0 and b"it needs ACME_NOWHERE, which is not set" in done.stderr


def test_it_goes_with_a_command_only() -> None:
    done = run([*MCP_TAPE, "record", "--url", "http://127.0.0.1:9/mcp", "--cwd", "/"])
    assert done.returncode == 2 and b"--cwd needs a command" in done.stderr


@pytest.mark.slow
def test_in_marks_and_the_fixture(pytester: pytest.Pytester) -> None:
    suite = Suite(pytester)
    suite.write("server.py", SERVER.replace('"result": answer', '"result": {"value": answer}'))
    suite.test(
        """
        @pytest.fixture
        def mcp_tape_config(mcp_tape_config, tmp_path):
            return mcp_tape_config | {"cwd": tmp_path, "env_from": ["PLACE"]}

        @pytest.mark.mcp_tape(env={"ACME_TOKEN": "t0ken-t0ken"})
        def test_it(mcp_tape, tmp_path, monkeypatch):
            monkeypatch.setenv("PLACE", "Bern")
            answer = ask(mcp_tape, "a")[0]
            if mcp_tape.is_recording:
                assert answer == {"cwd": str(tmp_path), "ACME_TOKEN": "t0ken-t0ken", "PLACE": "Bern"}
        """.replace("\n        ", "\n")
    )
    suite.passes("--mcp-record=once")
    assert b"t0ken-t0ken" not in suite.cassette().read_bytes()
    suite.passes()
