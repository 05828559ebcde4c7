"""`mcp-tape use --config`: a program in any language, and the servers of its configuration."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import kept
from tests.support.running import MCP_TAPE, WAIT, python, receive_line, run, sessions, started

SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"value": [sys.argv[1], *sys.argv[2:]], "said": os.environ.get("ACME_TOKEN")}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"""
# Calls each server of its configuration in turn, as a client does: fills in variables, passes few on.
PROGRAM = """
import json, os, subprocess, sys

def put_in(text):
    return os.path.expandvars(text)

settings = json.load(open(sys.argv[1]))
(key,) = settings.keys() & {"mcpServers", "servers"}
print(json.dumps({"path": sys.argv[1], "mode": oct(os.stat(sys.argv[1]).st_mode), "settings": settings,
                  "variable": os.environ["MCP_TAPE_CONFIG"]}), flush=True)
for name, entry in settings[key].items():
    environ = {"PATH": os.environ["PATH"]} | {key: put_in(value) for key, value in entry.get("env", {}).items()}
    words = [put_in(word) for word in (entry["command"], *entry["args"])]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as server:
        for number, method in enumerate(("initialize", "tools/call")):
            params = {"name": os.environ.get("TOOL", "a")}
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(asked).encode() + b"\\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
        print(json.dumps({name: answer.get("result", answer.get("error"))}), flush=True)
        server.stdin.close()
        server.stdout.read()
sys.exit(int(os.environ.get("CODE", 0)))
"""
TOKEN = "Zx81qqPw7Lk93mNb"


class Place:
    def __init__(self, directory: Path) -> None:
        self.tape = directory / "tape.db"
        self.config = directory / "mcp.json"
        self.temporary = directory / "tmp"
        self.temporary.mkdir()

    def write(self, text: str) -> None:
        self.config.write_text(text)

    def command(self, *options: str, program: str = PROGRAM) -> list[str]:
        shown = ["--config", str(self.config), "--", *python(program), "{config}"]
        return [*MCP_TAPE, "use", str(self.tape), *options, *shown]

    def environ(self, **more: str) -> dict[str, str]:
        return {**kept(), "PATH": os.environ["PATH"], "TMPDIR": str(self.temporary), **more}

    def run(self, *options: str, program: str = PROGRAM, **environ: str) -> subprocess.CompletedProcess[bytes]:
        return run(self.command(*options, program=program), env=self.environ(**environ))

    def left(self) -> list[Path]:
        return list(self.temporary.rglob("*"))


def said(done: subprocess.CompletedProcess[bytes]) -> list[Any]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def entry(*words: str, **more: Any) -> dict[str, Any]:
    command, *arguments = python(SERVER)
    return {"command": command, "args": [*arguments, *words], **more}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    git = entry("git", "${PLACE}", env={"ACME_TOKEN": "${ACME_TOKEN}"})
    place.write(json.dumps({"mcpServers": {"git": git, "time": entry("time")}, "other": [1]}))
    return place


@pytest.mark.slow
def test_a_program_is_recorded_and_replayed(place: Place) -> None:
    first = place.run(PLACE="Bern", ACME_TOKEN=TOKEN)
    assert first.returncode == 0, first.stderr.decode()
    _, git, time = said(first)
    assert git == {"git": {"value": ["git", "Bern"], "said": TOKEN}} and time["time"]["value"] == ["time"]
    assert [session.label for session in sessions(place.tape)] == ["git", "time"]
    second = place.run("--mode", "none")  # no variable is needed for replay
    assert second.returncode == 0
    assert said(second)[1]["git"]["value"] == ["git", "Bern"]
    assert b"4 played, 0 missed" in second.stderr
    assert place.left() == []


@pytest.mark.slow
def test_the_copy_is_private_and_has_the_rest_of_the_file(place: Place) -> None:
    done = place.run(PLACE="Bern", ACME_TOKEN=TOKEN)
    head = said(done)[0]
    git = head["settings"]["mcpServers"]["git"]
    assert head["mode"] == "0o100600" and head["path"] == head["variable"] and head["path"].endswith("/mcp.json")
    assert head["settings"]["other"] == [1]
    assert git["env"] == {"ACME_TOKEN": "${ACME_TOKEN}"} and git["args"][-1] == "${PLACE}"
    assert TOKEN not in json.dumps(head)
    assert TOKEN.encode() not in place.tape.read_bytes()
    assert not os.path.exists(head["path"])


@pytest.mark.slow
def test_a_secret_in_the_file_itself_is_not_on_the_tape(place: Place) -> None:
    place.write(json.dumps({"mcpServers": {"git": entry("git", env={"ACME_TOKEN": TOKEN})}}))
    assert said(place.run())[1]["git"]["said"] == TOKEN
    assert TOKEN.encode() not in place.tape.read_bytes()


@pytest.mark.slow
def test_comments_and_last_commas_are_as_in_vs_code(place: Place) -> None:
    text = json.dumps(entry("http://a//b", "/* no */", 'c",}'))
    place.write(f'\ufeff{{ // one\n "servers": {{ /* two\n */ "git": {text}, // three\n }}, }}')
    head, git = said(place.run())
    assert git["git"]["value"] == ["http://a//b", "/* no */", 'c",}']
    assert head["settings"]["servers"]["git"]["type"] == "stdio"


@pytest.mark.slow
def test_a_miss_is_reported_and_the_exit_code_is_1(place: Place) -> None:
    place.run(PLACE="Bern")
    done = place.run("--mode", "none", TOOL="other")
    assert done.returncode == 1
    for name in (b"git", b"time"):
        assert b"miss: " + name + b": tools/call other" in done.stderr
    assert b"--mode new_episodes --config" in done.stderr
    assert b"2 played, 2 missed" in done.stderr


@pytest.mark.slow
def test_the_exit_code_of_the_program_is_ours_and_nothing_is_kept_then(place: Place) -> None:
    done = place.run(PLACE="Bern", CODE="7")
    assert done.returncode == 7
    assert b"tape.db was not made: the program ended with 7" in done.stderr
    assert not place.tape.exists()


@pytest.mark.slow
def test_unplayed_requests_are_a_finding_if_asked_for(place: Place) -> None:
    place.run(PLACE="Bern")
    program = "pass"
    assert place.run("--mode", "none", program=program).returncode == 0
    strict = place.run("--mode", "none", "--strict", program=program)
    assert strict.returncode == 1 and b"unplayed: git: #" in strict.stderr


@pytest.mark.slow
def test_inexact_answers_are_reported_and_are_a_finding_if_asked_for(place: Place) -> None:
    program = PROGRAM.replace('"params": params', '"params": params | {"arguments": {"q": os.environ["Q"]}}')
    place.run(PLACE="Bern", Q="the weather in Bern", program=program)
    near = "--mode", "none", "--match", "tools/call=nearest"
    noted = place.run(*near, Q="the weather of Bern", program=program)
    assert noted.returncode == 0
    assert b"note: git: tools/call a was answered by #" in noted.stderr
    assert b"4 played, 0 missed, 2 inexact (2 by nearest)" in noted.stderr
    failed = place.run(*near, "--fail-on", "inexact", "-q", Q="the weather of Bern", program=program)
    assert failed.returncode == 1 and b"inexact: time: tools/call a by #" in failed.stderr
    exact = place.run(*near, "--fail-on", "inexact", "-q", Q="the weather in Bern", program=program)
    assert (exact.returncode, exact.stderr) == (0, b"")


@pytest.mark.slow
def test_a_server_that_cannot_start(place: Place) -> None:
    place.write(json.dumps({"mcpServers": {"bad": {"command": "/no/such/server", "args": []}}}))
    done = place.run()
    assert done.returncode != 0 and b"bad: cannot start the server: there is no command" in done.stderr
    assert not place.tape.exists() and place.left() == []


def test_a_program_that_cannot_start(place: Place) -> None:
    words = [*MCP_TAPE, "use", str(place.tape), "--config", str(place.config), "--", "/no/such/program"]
    done = run(words, env=place.environ())
    assert done.returncode == 127 and b"cannot start the program: there is no command" in done.stderr
    assert place.left() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.slow
def test_a_signal_goes_to_the_program_and_nothing_is_left(place: Place, number: signal.Signals) -> None:
    waits = (
        "import sys, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); print('here', flush=True); signal.pause()"
    )
    with started(place.command(program=waits), env=place.environ(), start_new_session=True) as process:
        assert process.stdout and receive_line(process.stdout) == b"here\n"
        process.send_signal(number)
        assert process.wait(WAIT) == 128 + number
    assert place.left() == [] and not place.tape.exists()


BAD = [
    ("", "cannot read the configuration"),
    ("[]", "it must be a JSON object with one of mcpServers, servers"),
    ('{"mcpServers": []}', "it must be a JSON object with one of mcpServers, servers"),
    ('{"mcpServers": {}, "servers": {}}', "with one of mcpServers, servers"),
    ('{"mcpServers": {}}', "at least one"),
    ('{"mcpServers": {"a": {}}}', "'a' needs either a command or a url"),
]


@pytest.mark.parametrize(("text", "why"), BAD)
def test_an_invalid_configuration_is_refused(place: Place, text: str, why: str) -> None:
    place.write(text)
    done = place.run()
    assert done.returncode not in (0, 1) and why in done.stderr.decode()


@pytest.mark.parametrize(
    ("options", "why"),
    [(["--listen", "127.0.0.1:0"], "--listen does not go"), (["--url", "http://a/mcp"], "--url does not go"),
     (["--run", "r"], "--run does not go"), (["--server", "git"], "--server does not go")],
)  # fmt: skip
def test_options_of_one_server_are_refused(place: Place, options: list[str], why: str) -> None:
    done = place.run(*options)
    assert done.returncode == 2 and why in done.stderr.decode()


def test_a_program_is_needed(place: Place) -> None:
    done = run([*MCP_TAPE, "use", str(place.tape), "--config", str(place.config)])
    assert done.returncode == 2 and b"which program should run?" in done.stderr


@pytest.mark.slow
def test_options_count_for_all_servers(place: Place) -> None:
    place.run(PLACE="Bern")
    assert place.run("--mode", "none", "--ignore", "$.params.name", TOOL="other").returncode == 0
