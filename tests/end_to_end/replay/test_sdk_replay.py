"""Real SDK clients with replays of real recordings: each sees the same as with the live server."""

from __future__ import annotations

import fcntl
import functools
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_tape.wire.frames import Frame, parse
from tests.support import provision
from tests.support.running import MCP_TAPE, WAIT, frames, receive, record, run, send, sessions, started
from tests.support.sdk import (
    PROGRESSING,
    TOGETHER,
    Document,
    Replayed,
    Step,
    alone,
    call,
    heard,
    live,
    outcomes,
    protocol,
    steps,
)

SdkClient = Callable[[str, str], list[str]]


ONE_MORE = call("convert_time", source_timezone="UTC", time="12:34", target_timezone="Asia/Tokyo")
# A client that reads nothing for a while is dropped, but not for ever.
BUSY = {"do": "together", "steps": [PROGRESSING, {"do": "busy"}]}
PROGRAMS = {"in turn": [PROGRESSING] * 20, "together": [TOGETHER], "after being busy": [BUSY, TOGETHER]}
EVERYWHERE = [(client, server) for server in provision.SERVERS for client in provision.ALL_CLIENTS]


class Recording(NamedTuple):
    tape: Path
    output: bytes  # the client's own output


Recorded = Callable[[str, str], Recording]
Play = Callable[..., Replayed]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory, sdk_client: SdkClient) -> Recorded:
    """A client's session with a live server, by their names; recorded on first use."""

    @functools.cache
    def recording(client: str, server: str) -> Recording:
        place = tmp_path_factory.mktemp(f"{client}-{server}")
        output = live(sdk_client(client, server), record(place / "tape.db", provision.SERVERS[server]), place)
        return Recording(place / "tape.db", output)

    return recording


@pytest.fixture
def play(tmp_path: Path, sdk_client: SdkClient) -> Play:
    """Replay a tape to a client, without any server."""

    def played(client: str, tape: Path, *options: str, **environment: str) -> Replayed:
        return alone(sdk_client(client, "time"), ["replay", str(tape), *options], tmp_path, **environment)

    return played


# The same client again ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("client", "server"), EVERYWHERE)
def test_a_client_sees_the_same_on_replay_as_live(client: str, server: str, recorded: Recorded, play: Play) -> None:
    recording = recorded(client, server)
    again = play(client, recording.tape)
    assert again.output == recording.output  # identical: on tape, even the clock is fixed
    # The last process started: an earlier one may have served only a probe, and leaves everything unplayed.
    assert {fact["what"] for fact in again.facts if fact["pid"] == again.facts[-1]["pid"]} == {"played"}
    if server == "everything":
        check_shows_everything(json.loads(again.output))


def check_shows_everything(document: Document) -> None:
    done = {(step["do"], step.get("name")): step for step in steps(document)}
    assert set(document["asked"]) == {"sampling", "elicitation", "roots"}
    assert heard(document) == [4, 3, 2]
    assert [part["type"] for part in done["call", "get-tiny-image"]["result"]["content"]] == ["text", "image", "text"]
    assert done["prompt", "args-prompt"]["result"]["messages"][0]["content"]["text"] == "What's weather in Bern, BE?"
    assert done["call", "no-such-tool"]["result"]["isError"] is True and done["prompt", "no-such-prompt"]["error"]
    assert {("tools", None), ("resources", None), ("prompts", None), ("templates", None)} <= set(done)
    assert "result" in done["ping", None] and "error" not in done["ping", None]
    assert len(document["steps"][-2]["steps"]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("client", ["ts1", "ts2-auto"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_every_progress_callback_fires_however_fast_the_answer_is(
    client: str, program: list[Step], recorded: Recorded, play: Play
) -> None:
    again = play(client, recorded(client, "everything").tape, "--repeats", "cycle", CLIENT_STEPS=json.dumps(program))
    assert heard(json.loads(again.output))[-20:] == [4] * 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a large pipe")
def test_a_client_that_reads_nothing_is_not_waited_for_each_time(recorded: Recorded) -> None:
    tape = recorded("mcp1", "everything").tape
    asked = b"".join(request(n, PROGRESSING) for n in range(150))  # at half a second each, too many to wait for
    with started([*MCP_TAPE, "replay", str(tape), "--repeats", "cycle"]) as process:
        assert process.stdin and process.stdout
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 1 << 20)  # large enough for all of it
        send(process.stdin, asked)
        process.stdin.close()
        assert process.wait(WAIT) == 0
        assert receive(process.stdout).count(b"\n") == 150 * 5


def test_a_program_run_alone_cannot_start_a_server(tmp_path: Path) -> None:
    done = run([*provision.alone(tmp_path / "codes"), "record", "-o", str(tmp_path / "tape.db"), "--", "true"])
    assert done.returncode == 97 and b"not alone" in done.stderr


# Another client ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "before", "now"),
    [
        *[("everything", "mcp1", now) for now in ("mcp2-auto", "ts1", "ts2-auto", "fastmcp4")],
        ("everything", "ts2-auto", "mcp1"),
        ("everything", "mcp2-auto", "ts1"),
        ("time", "mcp2-auto", "ts2-auto"),
        ("time", "ts2-auto", "fastmcp4"),
        ("git", "ts2-auto", "mcp2-auto"),
        ("git", "mcp1", "ts2-auto"),
    ],
)
def test_a_tape_of_one_client_plays_to_another(
    server: str, before: str, now: str, recorded: Recorded, play: Play
) -> None:
    recording = recorded(before, server)
    again = play(now, recording.tape)
    then, document = json.loads(recording.output), json.loads(again.output)
    assert not [fact for fact in again.facts if fact["what"] in ("miss", "note")]
    assert outcomes(document) == outcomes(then)
    assert set(document["asked"]) == set(then["asked"])
    assert heard(document) == heard(then)
    assert protocol(document) == protocol(then)


@pytest.mark.slow
@pytest.mark.parametrize("client", ["mcp2-auto", "ts2-auto", "fastmcp4"])
def test_a_newer_client_learns_at_once_that_the_tape_is_older(
    client: str, recorded: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    wire = tmp_path / "wire.db"
    replay = [*MCP_TAPE, "replay", str(recorded("mcp1", "everything").tape)]
    document = json.loads(live(sdk_client(client, "everything"), record(wire, replay), tmp_path, CLIENT_STEPS="[]"))
    first, *others = said(frame for session in sessions(wire) for frame in frames(wire, session.id))
    answer = next(message for sender, message in others if sender == "server")
    assert first[0] == "client" and first[1]["method"] == "server/discover"
    assert answer == {"jsonrpc": "2.0", "id": first[1]["id"], "error": {"code": -32601, "message": "Method not found"}}
    assert others[1][1]["method"] == "initialize" and protocol(document) == "2025-11-25"


@pytest.mark.slow
@pytest.mark.parametrize("client", ["mcp1", "ts1", "mcp2-legacy"])
def test_a_tape_of_a_newer_client_plays_to_an_older_one(client: str, recorded: Recorded, play: Play) -> None:
    recording = recorded("mcp2-auto", "time")
    again = play(client, recording.tape)
    then, document = json.loads(recording.output), json.loads(again.output)
    assert protocol(then) == "2026-07-28" and protocol(document) == "2025-11-25"
    assert outcomes(document) == outcomes(then)
    (note,) = [fact["text"] for fact in again.facts if fact["what"] == "note"]
    assert "the client is older than the tape" in note


@pytest.mark.slow
@pytest.mark.parametrize("client", ["mcp1", "mcp2-legacy", "fastmcp4"])
def test_a_client_without_a_capability_is_noted_and_play_goes_on(client: str, recorded: Recorded, play: Play) -> None:
    recording = recorded("mcp2-legacy", "everything")
    again = play(client, recording.tape, CLIENT_WITHOUT="sampling")
    note = "sampling/createMessage was answered differently than recorded: with an error"
    assert [fact["text"] for fact in again.facts if fact["what"] == "note"] == [note] * 2
    assert again.stderr.count(f"mcp-tape: note: {note}") == 2
    document, then = json.loads(again.output), json.loads(recording.output)
    assert set(document["asked"]) == {"elicitation", "roots"} and outcomes(document) == outcomes(then)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("client", ["mcp2-auto", "ts1"])
@pytest.mark.parametrize("times", [0, 7])
def test_a_client_may_list_tools_more_or_less_often_than_recorded(
    client: str, times: int, recorded: Recorded, play: Play
) -> None:
    recording = recorded(client, "time")
    listed, first, *_ = then = json.loads(recording.output)["steps"]
    program = [{"do": "tools"}] * times + [made(first)]
    again = play(client, recording.tape, CLIENT_STEPS=json.dumps(program))
    assert json.loads(again.output)["steps"] == [listed] * times + [first] and then[-1] == listed


@pytest.mark.slow
def test_a_client_that_skips_the_handshake_gets_its_answers(recorded: Recorded) -> None:
    recording = recorded("mcp1", "time")
    asked = next(step for step in json.loads(recording.output)["steps"] if step["do"] == "call")
    done = run([*MCP_TAPE, "replay", str(recording.tape)], request("first", asked))
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": "first", "result": asked["result"]}
    assert done.returncode == 0


# Modes -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("client", ["mcp2-auto", "mcp1", "ts2-auto"])
def test_once_records_the_first_time_and_replays_the_second(client: str, tmp_path: Path, sdk_client: SdkClient) -> None:
    program, tape = sdk_client(client, "time"), tmp_path / "tape.db"
    use = ["use", str(tape), "--", *provision.SERVERS["time"]]
    first = live(program, [*MCP_TAPE, *use], tmp_path)
    kept = tape.read_bytes()
    assert len(sessions(tape)) == (2 if client == "ts2-auto" else 1)
    assert alone(program, use, tmp_path).output == first and tape.read_bytes() == kept


@pytest.mark.slow
@pytest.mark.parametrize("client", ["mcp2-auto", "mcp2-legacy", "ts1", "ts2-auto"])
def test_new_episodes_adds_the_one_call_that_was_not_recorded(
    client: str, recorded: Recorded, play: Play, tmp_path: Path, sdk_client: SdkClient
) -> None:
    recording, tape = recorded(client, "time"), tmp_path / "tape.db"
    shutil.copy(recording.tape, tape)
    before, then = sessions(tape), json.loads(recording.output)["steps"]
    program = [*map(made, then), ONE_MORE]
    use = [*MCP_TAPE, "use", str(tape), "--mode", "new_episodes", "--", *provision.SERVERS["time"]]
    output = live(sdk_client(client, "time"), use, tmp_path, CLIENT_STEPS=json.dumps(program))
    *same, more = json.loads(output)["steps"]
    assert same == then and "21:34" in more["result"]["content"][0]["text"]
    assert [session.extends for session in sessions(tape)[len(before) :]] == [before[-1].id]
    assert play(client, tape, CLIENT_STEPS=json.dumps(program)).output == output


@pytest.mark.slow
def test_rewrite_puts_a_new_recording_in_place(recorded: Recorded, tmp_path: Path, sdk_client: SdkClient) -> None:
    program, tape = sdk_client("mcp2-auto", "git"), tmp_path / "tape.db"
    shutil.copy(recorded("mcp1", "git").tape, tape)
    use = [*MCP_TAPE, "use", str(tape), "--mode", "rewrite", "--", *provision.SERVERS["git"]]
    output = live(program, use, tmp_path)
    assert [session.protocol_version for session in sessions(tape)] == [protocol(json.loads(output))]
    assert alone(program, ["replay", str(tape)], tmp_path).output == output


# Helpers ---------------------------------------------------------------------------------------------------


def request(number: Any, step: Step) -> bytes:
    """A call as a client without an SDK would make it."""
    params = {"name": step["name"], "arguments": step["arguments"], "_meta": {"progressToken": number}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"


def said(recorded: Iterator[Frame]) -> list[tuple[str, dict[str, Any]]]:
    return [(frame.sender, message.body) for frame in recorded for message in parse(frame.text)[1]]


def made(step: Step) -> Step:
    """A step without its outcome."""
    if "steps" in step:
        return step | {"steps": [made(part) for part in step["steps"]]}
    return {name: value for name, value in step.items() if name not in ("result", "error", "progressed")}
