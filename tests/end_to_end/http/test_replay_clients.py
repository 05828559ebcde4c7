"""Real clients with replays over another transport than the recorded one, and of another client's recording."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import provision
from tests.support.http_steps import check_heard, scripted
from tests.support.running import MCP_TAPE, record
from tests.support.sdk import PROGRESSING, TOGETHER, heard, live, outcomes, protocol
from tests.support.sdk_http import Recording, both, listening, printed, replayed, replaying

SdkClient = Callable[[str, str], list[str]]
OVER = {"everything-http": "/sse", "everything-sse": "/mcp"}  # the other transport


Recorded = Callable[[str, str], Recording]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, sdk_client: SdkClient, recorded_over_http: Recorded) -> Recorded:
    """A client's session with a live server, by their names, over HTTP or over stdio; made on first use."""

    @functools.cache
    def recording(client: str, server: str) -> Recording:
        if server in provision.HTTP_SERVERS:
            return recorded_over_http(client, server)
        program, place = sdk_client(client, server), tmp_path_factory.mktemp(f"{client}-{server}")
        tape = place / "tape.db"
        return Recording(tape, live(program, record(tape, provision.SERVERS[server]), place, **steps_for(server)))

    return recording


def steps_for(server: str) -> dict[str, str]:
    return scripted(server) if server == "everything" else {}


# Over another transport --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("client", ["mcp1", "mcp2-auto", "ts1", "ts2-auto", "fastmcp4"])
def test_a_recording_over_stdio_plays_the_same_over_http(
    client: str, recorded: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    recording, program = recorded(client, "everything"), sdk_client(client, "everything")
    streamable, old = both(
        lambda: replayed(program, recording.tape, tmp_path / "mcp", "/mcp", **steps_for("everything")),
        lambda: replayed(program, recording.tape, tmp_path / "sse", "/sse", **steps_for("everything")),
    )
    assert streamable == recording.output
    assert old == recording.output
    check_heard(json.loads(old))


@pytest.mark.slow
@pytest.mark.parametrize(("client", "server"), [("mcp2-auto", "time"), ("fastmcp4", "time"), ("ts2-auto", "git")])
def test_the_newest_revision_recorded_over_stdio_is_the_same_over_http(
    client: str, server: str, recorded: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    recording = recorded(client, server)
    again = replayed(sdk_client(client, server), recording.tape, tmp_path / "mcp", "/mcp")
    assert again == recording.output and protocol(json.loads(again)) == "2026-07-28"


@pytest.mark.slow
@pytest.mark.parametrize("client", ["mcp1", "mcp2-auto", "ts1"])
@pytest.mark.parametrize("server", OVER)
def test_each_http_transport_plays_recordings_of_the_other(
    client: str, server: str, recorded: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    recording = recorded(client, server)
    again = replayed(sdk_client(client, server), recording.tape, tmp_path / "again", OVER[server], **scripted(server))
    assert again == recording.output
    check_heard(json.loads(again))


# Another client ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "before", "now"),
    [
        *[("everything-http", "mcp1", now) for now in ("mcp2-auto", "ts1", "ts2-auto")],
        ("everything-sse", "mcp2-auto", "ts1"),
        ("fast", "mcp2-auto", "ts2-auto"),
        ("fast", "ts2-auto", "fastmcp4"),
        ("fast", "ts1", "mcp2-legacy"),
    ],
)
def test_a_tape_of_one_client_plays_to_another(
    server: str, before: str, now: str, recorded: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    recording = recorded(before, server)
    path = provision.HTTP_SERVERS[server]
    again = replayed(sdk_client(now, server), recording.tape, tmp_path / "again", path, **scripted(server))
    then, document = json.loads(recording.output), json.loads(again)
    assert outcomes(document) == outcomes(then)
    assert set(document["asked"]) == set(then["asked"])
    assert protocol(document) == protocol(then)
    check_heard(document)


# Many calls, many clients ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("client", ["ts1", "ts2-auto"])
@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_every_progress_callback_fires_however_fast_the_answer_is(
    client: str, path: str, recorded: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    tape, steps = recorded("mcp1", "everything-http").tape, json.dumps([*[PROGRESSING] * 20, TOGETHER])
    command = sdk_client(client, "everything-http")
    output = replayed(command, tape, tmp_path / "run", path, "--repeats", "cycle", CLIENT_STEPS=steps)
    assert heard(json.loads(output)) == [4] * 40


@pytest.mark.slow
def test_clients_at_the_same_time_get_the_whole_tape_each(
    recorded: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    recording = recorded("mcp1", "everything-http")
    program, steps = sdk_client("mcp1", "everything-http"), scripted("everything-http")
    with replaying(recording.tape, tmp_path) as origin:
        for output in both(*[lambda path=path: printed([*program, origin + path], steps) for path in ("/mcp", "/sse")]):
            assert output == recording.output
        assert printed([*program, origin + "/mcp"], steps) == recording.output  # and the next one too


@pytest.mark.slow
@pytest.mark.parametrize("client", ["mcp1", "mcp2-auto", "ts1"])
def test_a_session_is_whole_whichever_of_several_workers_its_connections_come_to(
    client: str, recorded: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    recording, program = recorded(client, "everything-http"), sdk_client(client, "everything-http")
    steps = scripted("everything-http") | {"CLIENT_PATIENT": "yes"}
    command = [*MCP_TAPE, "replay", str(recording.tape), "--listen", "127.0.0.1:0", "--workers", "3"]
    with listening(command, tmp_path) as url:
        paths = ("/mcp", "/sse", "/mcp")
        own = [url.removesuffix("/mcp") + path for path in paths]
        outputs = both(*[lambda where=where: printed([*program, where], steps) for where in own])
        assert outputs == [recording.output] * len(paths)
