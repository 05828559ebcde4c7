"""The golden cassettes are as described, and contain nothing of the machine they were made on."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from mcp_tape.cassette.reader import Cassette, Session
from mcp_tape.wire.frames import Frame, Message, parse
from tests.servers.conversations import CONVERSATIONS
from tests.support.golden import GOLDEN, MADE_OF, path_of

MOST_BYTES = 200_000

# The messages that each must contain, by sender and method.
HOLDS = {
    "demo": {
        ("client", "tools/call"): 2,
        ("server", "notifications/progress"): 2,
        ("server", "sampling/createMessage"): 1,
    },
    "everything": {
        ("server", "notifications/progress"): 9,
        ("server", "sampling/createMessage"): 2,
        ("server", "elicitation/create"): 1,
        ("server", "roots/list"): 1,
        ("client", "prompts/get"): 3,
        ("client", "resources/read"): 3,
        ("client", "ping"): 1,
    },
    "everything-ts2": {("client", "server/discover"): 1, ("client", "initialize"): 1, ("client", "tools/call"): 18},
    "git": {("client", "initialize"): 1, ("client", "tools/call"): 14},
    "time": {("client", "initialize"): 1, ("client", "tools/call"): 8, ("client", "ping"): 1},
    "time-modern": {("client", "server/discover"): 1, ("client", "tools/call"): 8},
}
OPEN = {"cancelled": 3}  # requests that stay unanswered
PATHS = re.compile(rb"/(?:root|home|Users|tmp|var|work|opt|private)/[^\s\"'\\]*")


def test_every_golden_cassette_is_described_here() -> None:
    assert {path.stem for path in GOLDEN} == set(MADE_OF)


@pytest.mark.parametrize("name", MADE_OF)
def test_a_golden_cassette_is_whole_and_small(name: str) -> None:
    command, revisions = MADE_OF[name]
    found = sessions(name)
    assert [s.incomplete for s in found] == [None] * len(revisions)
    assert [s.protocol_version for s in found] == revisions
    assert {s.target for s in found} == {json.dumps({"command": command}, separators=(",", ":"))}
    assert path_of(name).stat().st_size < MOST_BYTES


@pytest.mark.parametrize("name", MADE_OF)
def test_a_golden_cassette_has_an_answer_for_every_request_that_got_one(name: str) -> None:
    with Cassette(path_of(name)) as tape:
        counts = [tape.counts(s.id) for s in tape.sessions()]
    assert sum(c["open"] for c in counts) == OPEN.get(name, 0)
    assert sum(c["exchanges"] for c in counts) > 0
    assert not sum(frame.redactions for frame in recorded(name))


@pytest.mark.parametrize("name", HOLDS)
def test_a_golden_cassette_covers_its_subject(name: str) -> None:
    found = Counter((frame.sender, m.method) for frame, m in messages(name) if m.method)
    assert {key: found[key] for key in HOLDS[name]} == HOLDS[name]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_scripted_conversation_is_on_tape_byte_for_byte(name: str) -> None:
    for sender, channel in (("client", "client"), ("server", "server"), ("server", "stderr")):
        said = b"".join(line.data for line in CONVERSATIONS[name] if line.sender == channel)
        kept = [f for f in recorded(name) if f.sender == sender and (f.kind == "stderr") == (channel == "stderr")]
        assert b"".join(f.text + f.eol for f in kept if f.kind != "control") == said


def test_concurrent_calls_are_really_concurrent() -> None:
    # The server takes some time for two of them, so this does not depend on a race.
    assert most_open_at_once("everything") >= 2


def test_failures_are_among_the_answers() -> None:
    statuses = {name: Counter(m.status for _, m in messages(name) if m.status) for name in MADE_OF}
    for name in ("demo", "everything", "git", "time", "batch", "modern", "noisy"):
        assert statuses[name]["error"] >= 1, name
    for name in ("everything", "git", "time"):
        assert statuses[name]["tool-error"] >= 1, name
    assert statuses["modern"]["input-required"] == 2


def test_an_image_is_among_the_answers() -> None:
    assert any(b'"type":"image"' in frame.text for frame in recorded("everything"))


@pytest.mark.parametrize("name", MADE_OF)
def test_a_golden_cassette_names_no_place_on_the_machine_that_made_it(name: str) -> None:
    assert PATHS.findall(path_of(name).read_bytes()) == []


def sessions(name: str) -> list[Session]:
    with Cassette(path_of(name)) as tape:
        return tape.sessions()


def recorded(name: str) -> list[Frame]:
    with Cassette(path_of(name)) as tape:
        return [frame for session in tape.sessions() for frame in tape.frames(session.id)]


def messages(name: str) -> Iterator[tuple[Frame, Message]]:
    for frame in recorded(name):
        if frame.kind in ("message", "batch"):
            yield from ((frame, message) for message in parse(frame.text)[1])


def most_open_at_once(name: str) -> int:
    waiting: set[str | None] = set()
    most = 0
    for frame, message in messages(name):
        if frame.sender == "client" and message.kind == "request":
            waiting.add(message.rpc_id)
        elif frame.sender == "server" and message.kind == "response":
            waiting.discard(message.rpc_id)
        most = max(most, len(waiting))
    return most
