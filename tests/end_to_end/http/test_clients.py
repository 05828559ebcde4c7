"""Real clients and real servers over HTTP: direct, recorded and replayed, over HTTP and over stdio, are the same."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.clients.http_steps import check_heard, scripted
from tests.end_to_end.record.test_sdk_clients import BLOB, CLOCK, METHODS, methods, steps
from tests.end_to_end.replay.test_sdk_replay import alone, protocol
from tests.support import provision
from tests.support.running import MCP_TAPE, WAIT, receive, receive_line, run, started, until

SdkClient = Callable[[str, str], list[str]]
Document = dict[str, Any]
Serving = Callable[[str], str]

PAIRS = [
    *[(client, server) for server in ("everything-http", "fast") for client in provision.ALL_CLIENTS],
    *[(client, "everything-sse") for client in ("mcp2-auto", "mcp1", "ts1", "ts2-auto")],
]


class Recording(NamedTuple):
    tape: Path
    direct: bytes  # what the client printed without a recorder
    output: bytes  # and with it


Recorded = Callable[[str, str], Recording]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The URL of a server by its name, started on first use."""
    with contextlib.ExitStack() as running:

        @functools.cache
        def url(name: str) -> str:
            return running.enter_context(served(name, tmp_path_factory.mktemp(name)))

        yield url


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, sdk_client: SdkClient, serving: Serving) -> Recorded:
    """A client's session with a live server, by their names; made on first use."""

    @functools.cache
    def recording(client: str, server: str) -> Recording:
        program, tape = sdk_client(client, server), tmp_path_factory.mktemp(f"{client}-{server}") / "tape.db"
        upstream, environment = serving(server), live_environment(server)
        with recorder(tape, upstream) as url:
            direct, output = both(
                lambda: printed([*program, upstream], environment), lambda: printed([*program, url], environment)
            )
        return Recording(tape, direct, output)

    return recording


@pytest.mark.slow
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_client_sees_the_same_through_record_as_without_it(client: str, server: str, recorded: Recorded) -> None:
    recording = recorded(client, server)
    document = json.loads(recording.output)
    assert settled(recording.output, server) == settled(recording.direct, server)
    check_heard(document)
    assert {"sampling", "elicitation"} <= set(document["asked"])
    check_tape(recording.tape, document)


@pytest.mark.slow
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_client_sees_on_replay_what_it_saw_live(
    client: str, server: str, recorded: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    recording, program, path = recorded(client, server), sdk_client(client, server), provision.HTTP_SERVERS[server]
    over_http, over_stdio = both(
        lambda: replayed(program, recording.tape, tmp_path / "http", path, **scripted(server)),
        lambda: replayed_over_stdio(program, recording.tape, tmp_path / "stdio", **scripted(server)),
    )
    assert over_http == recording.output  # to the byte, without a server
    assert over_stdio == recording.output
    check_heard(json.loads(over_http))


# What they share ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(name: str, place: Path) -> Iterator[str]:
    """The URL of a server that runs meanwhile."""
    command = provision.http_server(name)
    with (
        (place / "stdout").open("wb") as stdout,
        (place / "stderr").open("wb") as stderr,
        started(command, stdout=stdout, stderr=stderr, cwd=place) as process,
    ):
        until(lambda: process.poll() is not None or origin(place), f"{name} to listen")
        yield origin(place) + provision.HTTP_SERVERS[name]
        assert process.poll() is None, (place / "stderr").read_text()


def origin(place: Path) -> str:
    """Where a server said that it listens."""
    said = re.search(r"^http://\S+$\n", (place / "stdout").read_text(), re.MULTILINE)
    return said[0].strip() if said else ""


@contextlib.contextmanager
def listening(command: Sequence[str], place: Path, **more: Any) -> Iterator[str]:
    """The URL that an mcp-tape prints; told to end at the end, which it is to do without complaint."""
    with (place / "stderr").open("wb") as stderr, started(command, stderr=stderr, **more) as process:
        assert process.stdout
        line = receive_line(process.stdout).decode()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\w+\n", line), (place / "stderr").read_text()
        yield line.strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0, (place / "stderr").read_text()
        assert receive(process.stdout) == b""


def recorder(tape: Path, url: str) -> contextlib.AbstractContextManager[str]:
    return listening([*MCP_TAPE, "record", "--url", url, "-o", str(tape)], tape.parent)


@contextlib.contextmanager
def replaying(tape: Path, place: Path, *options: str) -> Iterator[str]:
    """The origin of a replay that can reach no server; nothing may be missed."""
    nowhere, report = provision.nowhere(place / "nowhere"), place / "report"
    command = [*provision.alone(place / "codes"), "replay", str(tape), "--listen", "127.0.0.1:0"]
    with listening([*command, "--report", str(report), *options], place, env=nowhere) as url:
        yield url.removesuffix("/mcp")
    facts = {json.loads(line)["what"] for line in report.read_text().splitlines()}
    assert "played" in facts and not facts & {"miss", "note"}, (place / "stderr").read_text()
    assert " 0 missed" in (place / "stderr").read_text()


def replayed(program: Sequence[str], tape: Path, place: Path, path: str, *options: str, **client: str) -> bytes:
    """What a client prints of a replay, over the transport that is served at the path."""
    place.mkdir()
    # Over HTTP+SSE the TypeScript SDKs lose progress that shares a read with the response, of live servers too.
    patience = {"CLIENT_PATIENT": "yes"} if path == "/sse" else {}
    with replaying(tape, place, *options) as url:
        return printed([*program, url + path], client | patience)


def replayed_over_stdio(program: Sequence[str], tape: Path, place: Path, **client: str) -> bytes:
    place.mkdir()
    return alone(program, ["replay", str(tape)], place, **client).output


def printed(command: Sequence[str], environment: dict[str, str]) -> bytes:
    done = run(command, env=provision.environment() | environment)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def live_environment(server: str) -> dict[str, str]:
    """The same for a client that takes its time, so that it loses nothing."""
    return scripted(server) | {"CLIENT_PATIENT": "yes"}


def both(*work: Callable[[], bytes]) -> list[bytes]:
    """What two programs print that run at the same time."""
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(each) for each in work]]


def settled(output: bytes, server: str) -> Document:
    """A document without what two runs with a live server need not agree on."""
    text = json.dumps(json.loads(output), ensure_ascii=False)
    document: Document = json.loads(CLOCK.sub("(time)", BLOB.sub('"blob": "(time)"', text)))
    if server == "everything-http":
        # Said right after the handshake, and heard by those who are fast to listen.
        early = {"method": "notifications/tools/list_changed"}
        document["notifications"] = [each for each in document["notifications"] if each != early]
    return document


def check_tape(tape: Path, document: Document) -> None:
    """Every message of the session is on the tape, once."""
    with Cassette(tape) as cassette:
        recorded = cassette.sessions()
        every = [frame for session in recorded for frame in cassette.frames(session.id)]
        assert [cassette.counts(session.id)["open"] for session in recorded] == [0] * len(recorded)
    assert [session.incomplete for session in recorded] == [None] * len(recorded)
    assert recorded[-1].protocol_version == protocol(document)
    # Events that only carry an id, and what the old transport answers a message with.
    assert {frame.text for frame in every if frame.kind == "noise"} <= {b"", b"Accepted"}
    made = Counter(METHODS[step["do"]] for step in steps(document) if step["do"] in METHODS)
    sent, asked = methods(every, "client"), methods(every, "server")
    if protocol(document) >= "2026":
        # It asks in results, and is called again with the answers: both times it converses, twice more.
        made["tools/call"] += 4
    else:
        wanted = {"sampling": "sampling/createMessage", "elicitation": "elicitation/create", "roots": "roots/list"}
        assert {what for what, method in wanted.items() if asked[method]} == set(document["asked"])
    assert {method: sent[method] for method in made} == dict(made)
