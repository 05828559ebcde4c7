"""Secrets in variables that a recorder does not have: from a test, an .env file, another process."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import use_cassette
from mcp_tape.errors import TapeError
from mcp_tape.redaction.environment import looks_stripped, read_env_file, secrets
from mcp_tape.testing.recorders import Handover
from mcp_tape.transports.environment_handover import RecorderEnvironment, ask_test, from_process
from tests.support.decks import make_cassette
from tests.support.messages import call, lines
from tests.support.running import ECHO, MCP_TAPE, WAIT, python, record, run

SECRET = "q7Hs2-vLm40-tKe9"
# The environment in which SDK clients start servers.
STRIPPED = {name: value for name, value in os.environ.items() if name in ("HOME", "PATH", "USER", "SHELL", "TERM")}
ASKED = lines(call(1, "echo", text=f"deploy with {SECRET} now"))
# Answers with its input, its command line, and its environment.
SERVER = python("""
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        value = [message.get("params"), sys.argv[1:], dict(os.environ)]
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"value": value}}), flush=True)
""")


def on_disk(directory: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def by_command(tape: Any) -> bytes:
    return run(tape.command, ASKED, env=STRIPPED).stdout


def by_sdk(tape: Any) -> bytes:
    from mcp import types
    from mcp.shared.message import SessionMessage

    async def ask() -> bytes:
        async with tape.streams() as (reads, writes):
            adapter = getattr(types, "jsonrpc_message_adapter", None)  # SDK 2
            read = adapter.validate_json if adapter else types.JSONRPCMessage.model_validate_json
            await writes.send(SessionMessage(read(ASKED)))
            answer = await reads.receive()
            return str(answer.message.model_dump_json()).encode()

    return asyncio.run(asyncio.wait_for(ask(), WAIT))


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("ask", [by_command, by_sdk])
def test_the_secrets_of_a_test_are_hidden_although_its_recorder_does_not_inherit_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Any
) -> None:
    with use_cassette(tmp_path / "tape.db", "all", command=SERVER) as tape:
        assert SECRET not in " ".join(tape.command)
        monkeypatch.setenv("ACME_TOKEN", SECRET)  # the value when the recorder starts
        answer = ask(tape)
        meanwhile = on_disk(tmp_path)
    assert answer.count(SECRET.encode()) == 1  # the server got it as a call's argument, and from nowhere else
    assert SECRET.encode() not in meanwhile + on_disk(tmp_path)
    assert b"deploy with [redacted:env:ACME_TOKEN] now" in on_disk(tmp_path)


@pytest.mark.slow
def test_a_new_recording_and_its_messages_hide_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_TOKEN", SECRET)
    path = tmp_path / "tape.db"
    with use_cassette(path, "all", command=SERVER) as tape:
        run(tape.command, lines(call(1, "other")), env=STRIPPED)
    with use_cassette(path, "new_episodes", command=SERVER) as tape:
        done = run(tape.command, lines(call(1, SECRET)), env=STRIPPED)
    assert SECRET.encode() in done.stdout
    assert b"passed on to the live server: tools/call [redacted:env:ACME_TOKEN]" in done.stderr


@pytest.mark.slow
def test_a_recorder_that_cannot_ask_its_test_records_nothing_and_starts_nothing(tmp_path: Path) -> None:
    with use_cassette(tmp_path / "tape.db", "all", command=ECHO) as tape:
        command = tape.command
    before = on_disk(tmp_path), sorted(tmp_path.iterdir())
    done = run(command, ASKED, env=STRIPPED)
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"nothing is recorded: the test cannot be asked which secrets to hide" in done.stderr
    assert (on_disk(tmp_path), sorted(tmp_path.iterdir())) == before


def test_only_this_user_gets_them_and_only_secrets() -> None:
    environ = {"ACME_TOKEN": SECRET, "EDITOR": "vi", "DB": f"postgres://a:{SECRET}@db"}
    handover = Handover(lambda: RecorderEnvironment(secrets(environ)))
    try:
        assert os.stat(os.path.dirname(handover.path)).st_mode & 0o777 == 0o700
        told = ask_test(handover.path)
        assert [name for name, _ in told.secrets] == ["ACME_TOKEN", "DB"]
        assert told.secrets[0] == ("ACME_TOKEN", SECRET) and told == RecorderEnvironment(told.secrets)
    finally:
        handover.close()
    assert not os.path.exists(os.path.dirname(handover.path))
    with pytest.raises(TapeError, match="No such file"):
        ask_test(handover.path)


def test_an_env_file_is_read_as_shells_and_tools_read_it(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(
        '\ufeff# settings\nACME_TOKEN=plain # why\nexport B_TOKEN = "a \\"b\\"\\nc # d"\nC=\'it\\\'\nD=\n'
        'E=a#b\nF="two\nlines"\nnot a line\nG=last'
    )
    assert dict(read_env_file(str(file))) == {
        "ACME_TOKEN": "plain", "B_TOKEN": 'a "b"\nc # d', "C": "it\\", "D": "", "E": "a#b", "F": "two\nlines",
        "G": "last",
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["record", "use"])
@pytest.mark.slow
def test_values_of_an_env_file_are_hidden(tmp_path: Path, mode: str) -> None:
    file, tape = tmp_path / ".env", tmp_path / "tapes" / "tape.db"
    file.write_text(f"ACME_TOKEN='{SECRET}'\n")
    words = ["record", "-o", str(tape)] if mode == "record" else ["use", str(tape)]
    done = run([*MCP_TAPE, *words, "--env-file", str(file), "--", *ECHO], ASKED, env=STRIPPED)
    assert done.returncode == 0
    assert SECRET.encode() not in on_disk(tape.parent)
    assert b"the client has passed on" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.slow
def test_variables_of_the_processes_that_started_us_are_hidden(tmp_path: Path) -> None:
    # A client that passes no variables on, with a shell in between.
    command = record(tmp_path / "tape.db", ECHO, "-q", "--redact-env-from", "parents")
    client = python(
        "import os, subprocess, sys\n"
        "sys.exit(subprocess.run(['sh', '-c', '\"$@\"; exit $?', 'sh', *sys.argv[1:]], "
        "env={'PATH': os.environ['PATH']}).returncode)"
    )
    done = run([*client, *command], ASKED, env=os.environ | {"ACME_TOKEN": SECRET})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"[redacted:env:ACME_TOKEN]" in on_disk(tmp_path)
    assert SECRET.encode() not in on_disk(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_an_unreadable_process_is_reported() -> None:
    with pytest.raises(TapeError, match="cannot read the environment of process 999999999"):
        from_process("pid:999999999")


@pytest.mark.parametrize("words", [["--env-file", "no-such-file"], ["--redact-env-from", "me"]])
def test_an_unreadable_source_stops_the_recording(tmp_path: Path, words: list[str]) -> None:
    done = run(record(tmp_path / "tape.db", ECHO, *words), ASKED)
    assert done.returncode in (1, 2)
    assert words[1].encode() in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_summary_says_that_the_environment_looks_stripped(tmp_path: Path) -> None:
    command = record(tmp_path / "tape.db", ECHO)
    assert b"--redact-env-from parents" in run(command, ASKED, env=STRIPPED).stderr
    assert b"--redact-env-from" not in run(command, ASKED, env=STRIPPED | {"LANG": "C"}).stderr
    assert looks_stripped(["HOME", "PATH", "LC_CTYPE"])
    assert not looks_stripped(["HOME", "PATH", "VIRTUAL_ENV"])


def test_a_cassette_is_checked_and_redacted_later_by_an_env_file(tmp_path: Path) -> None:
    file, tape = tmp_path / ".env", tmp_path / "tape.db"
    file.write_text(f"ACME_TOKEN='{SECRET}'\n")
    make_cassette(tape, [("client", call(1, "echo", text=SECRET))])
    checked = run([*MCP_TAPE, "check", str(tape), "--env-file", str(file)])
    assert b"$.params.arguments.text: looks like a secret (env:ACME_TOKEN)" in checked.stdout
    run([*MCP_TAPE, "redact", str(tape), "--env-file", str(file)])
    assert SECRET.encode() not in tape.read_bytes()
