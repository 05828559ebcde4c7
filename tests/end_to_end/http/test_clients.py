"""Real clients and real servers over HTTP: direct, recorded and replayed, over HTTP and over stdio, are the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support import provision
from tests.support.http_steps import check_heard, scripted
from tests.support.sdk import BLOB, CLOCK, METHODS, alone, methods, protocol, steps
from tests.support.sdk_http import Recording, both, replayed

SdkClient = Callable[[str, str], list[str]]
Document = dict[str, Any]

PAIRS = [
    *[(client, server) for server in ("everything-http", "fast") for client in provision.ALL_CLIENTS],
    *[(client, "everything-sse") for client in ("mcp2-auto", "mcp1", "ts1", "ts2-auto")],
]


Recorded = Callable[[str, str], Recording]


@pytest.mark.slow
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_client_sees_the_same_through_record_as_without_it(
    client: str, server: str, recorded_over_http: Recorded
) -> None:
    recording = recorded_over_http(client, server)
    document = json.loads(recording.output)
    assert settled(recording.output, server) == settled(recording.direct, server)
    check_heard(document)
    assert {"sampling", "elicitation"} <= set(document["asked"])
    check_tape(recording.tape, document)


@pytest.mark.slow
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_a_client_sees_the_same_on_replay_as_live(
    client: str, server: str, recorded_over_http: Recorded, tmp_path: Path, sdk_client: SdkClient
) -> None:
    recording, program, path = (
        recorded_over_http(client, server),
        sdk_client(client, server),
        provision.HTTP_SERVERS[server],
    )
    over_http, over_stdio = both(
        lambda: replayed(program, recording.tape, tmp_path / "http", path, **scripted(server)),
        lambda: replayed_over_stdio(program, recording.tape, tmp_path / "stdio", **scripted(server)),
    )
    assert over_http == recording.output  # to the byte, without a server
    assert over_stdio == recording.output
    check_heard(json.loads(over_http))


# Helpers ---------------------------------------------------------------------------------------------------


def replayed_over_stdio(program: Sequence[str], tape: Path, place: Path, **client: str) -> bytes:
    place.mkdir()
    return alone(program, ["replay", str(tape)], place, **client).output


def settled(output: bytes, server: str) -> Document:
    """A document without the parts that may differ between two runs with a live server."""
    text = json.dumps(json.loads(output), ensure_ascii=False)
    document: Document = json.loads(CLOCK.sub("(time)", BLOB.sub('"blob": "(time)"', text)))
    if server == "everything-http":
        # Sent right after the handshake, and received only by clients that listen early.
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
    # Events with only an id, and the old transport's responses to a message.
    assert {frame.text for frame in every if frame.kind == "noise"} <= {b"", b"Accepted"}
    made = Counter(METHODS[step["do"]] for step in steps(document) if step["do"] in METHODS)
    sent, asked = methods(every, "client"), methods(every, "server")
    if protocol(document) >= "2026":
        # It asks in results, and is called again with the answers: two more rounds for each of the two conversations.
        made["tools/call"] += 4
    else:
        wanted = {"sampling": "sampling/createMessage", "elicitation": "elicitation/create", "roots": "roots/list"}
        assert {what for what, method in wanted.items() if asked[method]} == set(document["asked"])
    assert {method: sent[method] for method in made} == dict(made)
