"""Real SDK clients and real servers see the same with and without the recorder."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_tape.cassette.reader import Cassette, Session
from mcp_tape.wire.frames import Frame
from tests.support import provision
from tests.support.running import WAIT, frames, record, run, sessions, started
from tests.support.sdk import BLOB, CLOCK, METHODS, Document, methods, steps

SdkClient = Callable[[str, str], list[str]]

NAMES = {"mcp1": "mcp", "mcp2-auto": "mcp", "mcp2-legacy": "mcp", "ts1": "ts1", "ts2-auto": "ts2"}
SERVER_NAMES = {"time": "mcp-time", "git": "mcp-git", "everything": "mcp-servers/everything"}


class Recording(NamedTuple):
    tape: Path
    document: Document  # the client's view


Recorded = Callable[[str, str], Recording]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, sdk_client: SdkClient) -> Recorded:
    """A client's session with a server, by their names; recorded on first use."""

    @functools.cache
    def recording(client: str, server: str) -> Recording:
        place = tmp_path_factory.mktemp(f"{client}-{server}")
        tape = place / "tape.db"
        command = record(tape, provision.SERVERS[server])
        return Recording(tape, play(sdk_client(client, server), command, place / "recorded"))

    return recording


@pytest.mark.slow
@pytest.mark.parametrize("client", provision.CLIENTS)
@pytest.mark.parametrize("server", provision.SERVERS)
def test_a_client_sees_the_same_through_record_as_without_it(
    client: str, server: str, tmp_path: Path, sdk_client: SdkClient, recorded: Recorded
) -> None:
    direct = play(sdk_client(client, server), provision.SERVERS[server], tmp_path / "direct")
    tape, document = recorded(client, server)
    assert settled(document, client) == settled(direct, client)
    check_sessions(sessions(tape), client, server, document)
    check_traffic(tape, document)


@pytest.mark.slow
def test_a_command_that_is_started_twice_leaves_two_sessions(recorded: Recorded) -> None:
    tape = recorded("ts2-auto", "time").tape
    probe, session = (methods(frames(tape, each.id), "client") for each in sessions(tape))
    assert probe == {"server/discover": 1}
    # The probe's answer is sufficient: the second process gets no handshake at all.
    assert "initialize" not in session and "server/discover" not in session and session["tools/call"] == 8


@pytest.mark.slow
def test_a_legacy_server_is_probed_in_a_session_of_its_own(recorded: Recorded) -> None:
    tape = recorded("ts2-auto", "everything").tape
    probe, session = (methods(frames(tape, each.id), "client") for each in sessions(tape))
    assert probe == {"server/discover": 1}
    assert session["initialize"] == 1 and "server/discover" not in session


@pytest.mark.slow
def test_a_probe_and_its_fallback_share_a_session(recorded: Recorded) -> None:
    tape = recorded("mcp2-auto", "everything").tape
    seen = methods(frames(tape), "client")
    assert len(sessions(tape)) == 1 and seen["server/discover"] == seen["initialize"] == 1


@pytest.mark.slow
def test_schemas_on_the_tape_are_the_bytes_that_the_server_sends(recorded: Recorded) -> None:
    kept_frames = frames(recorded("mcp2-legacy", "everything").tape)
    sent = {m: f for f in kept_frames for m in methods([f], "client")}
    # The ping makes sure that the server has handled the notification before it lists its tools.
    opening = [sent[m] for m in ("initialize", "notifications/initialized", "ping", "tools/list")]
    kept = [f for f in kept_frames if f.sender == "server" and b'"inputSchema"' in f.text][-1]
    assert kept.text + kept.eol == last_answer(provision.SERVERS["everything"], opening)


def play(program: Sequence[str], command: Sequence[str], cwd: Path) -> Document:
    """The client program's view of a server, in a private directory with a fresh repository."""
    provision.git_repository(cwd)
    done = run([*program, *command], cwd=cwd, env=provision.environment())
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    document: Document = json.loads(done.stdout)
    return document


def last_answer(command: Sequence[str], requests: Sequence[Frame]) -> bytes:
    """The server's own last answer to these requests, sent in turn."""
    line = b""
    with started(command, env=provision.environment()) as server, bounded(server):
        assert server.stdin and server.stdout
        for request in requests:
            server.stdin.write(request.text + request.eol)
            if b'"id"' in request.text:
                line = next(line for line in iter(server.stdout.readline, b"") if b'"result"' in line)
    return line


@contextlib.contextmanager
def bounded(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Limits the time to read from a process that may print nothing."""
    alarm = threading.Timer(WAIT, process.kill)
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()


def settled(document: Document, client: str) -> Any:
    """The document without the parts that may differ between two runs."""
    text = CLOCK.sub("(time)", BLOB.sub('"blob": "(time)"', json.dumps(document, ensure_ascii=False)))
    document = json.loads(text)
    if client.startswith("ts"):
        # These SDKs lose progress that shares a read with its response, recorded or not; everything that
        # arrived is under "arrived".
        for step in steps(document):
            step.pop("progressed", None)
    return document


def check_sessions(recorded: list[Session], client: str, server: str, document: Document) -> None:
    assert len(recorded) == (2 if client == "ts2-auto" else 1)
    assert [s.incomplete for s in recorded] == [None] * len(recorded)
    assert all(json.loads(s.target) == {"command": provision.SERVERS[server]} for s in recorded)
    last = recorded[-1]
    connected = document["connected"]
    assert last.protocol_version == connected.get("protocol", connected.get("protocolVersion"))
    assert (last.client_name, last.server_name, last.exit_code) == (NAMES[client], SERVER_NAMES[server], 0)


def check_traffic(tape: Path, document: Document) -> None:
    with Cassette(tape) as cassette:
        every = [frame for s in cassette.sessions() for frame in cassette.frames(s.id)]
        assert [cassette.counts(s.id)["open"] for s in cassette.sessions()] == [0] * len(cassette.sessions())
    assert sum(frame.redactions for frame in every) == 0
    assert not [frame.text for frame in every if frame.kind == "noise"]
    sent = methods(every, "client")
    made = Counter(METHODS[step["do"]] for step in steps(document) if step["do"] in METHODS)
    assert {method: sent[method] for method in made} == dict(made)
    asked = methods(every, "server")
    wanted = {"sampling": "sampling/createMessage", "elicitation": "elicitation/create", "roots": "roots/list"}
    assert {what for what, method in wanted.items() if asked[method]} == set(document["asked"])
