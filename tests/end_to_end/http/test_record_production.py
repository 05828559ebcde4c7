"""Recording in production over HTTP: each session is in the sample or not, and bodies stay off the tape."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from mcp_tape.record.production.sampling import draw_sample
from tests.support.collector import collecting
from tests.support.http import Client, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import (
    HELLO,
    INITIALIZE,
    INITIALIZED,
    Running,
    call,
    event,
    modern,
    recording,
    result,
    said,
    texts,
)
from tests.support.rows import cassettes
from tests.support.running import frames, sessions, until

SEED = "seed"
SAMPLE = draw_sample(0.5, SEED)
HALF = ["--sample", "50%", "--sample-seed", SEED]
NAMES = [f"session-{number}" for number in range(1, 13)]
TAKEN = [name for name in NAMES if SAMPLE.takes(name)]
PLANTED = "planted-4711"


class Sessions:
    """A server of the legacy era that counts its sessions."""

    def __init__(self) -> None:
        self.begun = 0

    def __call__(self, request: Message, wire: Wire) -> None:
        number = request.header("mcp-session-id")
        if request.verb == "DELETE":
            wire.send(answer(status=204))
        elif request.body == INITIALIZE:
            self.begun += 1
            wire.send(answer(result(0, **HELLO), mcp_session_id=NAMES[self.begun - 1]))
        elif "id" in request.document:
            wire.send(answer(result(request.document["id"], content=[{"type": "text", "text": f"{number} {PLANTED}"}])))
        else:
            wire.send(answer(status=202))


def ended(recorder: Running) -> str:
    """Stop it, and return its output."""
    assert recorder.stop() == 0
    return recorder.said


def talk(url: str, times: int) -> None:
    """Sessions in turn, each with one call."""
    for _ in range(times):
        name = ask(url, INITIALIZE).header("mcp-session-id") or ""
        assert ask(url, INITIALIZED, mcp_session_id=name).status == 202
        found = ask(url, call(1, arguments={"q": PLANTED}), mcp_session_id=name).document
        assert found["result"]["content"][0]["text"] == f"{name} {PLANTED}"
        assert ask(url, verb="DELETE", mcp_session_id=name).status == 204


@pytest.mark.slow
def test_each_session_is_in_the_sample_or_not_as_a_whole(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with Upstream(Sessions()) as upstream, recording(tape, upstream.url, *HALF) as recorder:
        talk(recorder.url, len(NAMES))
        told = ended(recorder)
    assert f"sampled 50%: {len(TAKEN)} of {len(NAMES)} sessions\n" in told
    found = sessions(tape)
    assert len(found) == len(TAKEN) and 0 < len(TAKEN) < len(NAMES)
    assert all(session.recorder.endswith(" --sample 50%") and session.incomplete is None for session in found)
    for session, name in zip(found, TAKEN, strict=True):
        kept = frames(tape, session.id)
        assert texts(kept, "client") == [INITIALIZE, INITIALIZED, call(1, arguments={"q": PLANTED})]
        assert name.encode() in texts(kept, "server")[-1]


def test_without_a_session_in_the_sample_there_is_no_cassette(tmp_path: Path) -> None:
    place = tmp_path / "tapes"
    with Upstream(Sessions()) as upstream, recording(place / "tape.db", upstream.url, "--sample", "0%") as recorder:
        talk(recorder.url, 2)
        ask(recorder.url, modern(1, name="a"))
        told = ended(recorder)
    assert "sampled 0%: no session is recorded, or counted" in told
    assert "nothing was recorded: no session was in the sample" in told
    assert not list(place.iterdir())


@pytest.mark.slow
def test_requests_of_the_modern_era_are_chosen_by_their_trace_or_one_by_one(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    traces = [f"{number:032x}" for number in range(8)]
    posted = [
        said(id=n, method="tools/list", params={"_meta": {"traceparent": f"00-{traces[n % 8]}-{'b' * 16}-01"}})
        for n in range(24)
    ]
    with Upstream(Sessions()) as upstream, recording(tape, upstream.url, *HALF) as recorder:
        for text in posted:
            assert ask(recorder.url, text).status == 200
        told = ended(recorder)
    (session,) = sessions(tape)
    expected = [text for n, text in enumerate(posted) if SAMPLE.takes(traces[n % 8])]
    assert texts(frames(tape, session.id), "client") == expected and 0 < len(expected) < 24
    assert f"{len(expected)} of 24 requests without one" in told


class Streams:
    """A server of HTTP+SSE: each stream is a session and carries the answers."""

    def __init__(self) -> None:
        self.wires: dict[str, Wire] = {}

    def __call__(self, request: Message, wire: Wire) -> None:
        if request.verb == "GET":
            path = f"/messages?s={len(self.wires) + 1}"
            self.wires[path] = wire
            wire.send(begin() + chunk(event(path.encode(), b"event: endpoint\n")))
            wire.how_it_ends()
            wire.close()
        else:
            self.wires[request.target].send(chunk(event(result(request.document["id"], ok=True))))
            wire.send(answer(status=202))


@pytest.mark.slow
def test_each_stream_of_http_and_sse_is_in_the_sample_or_not(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    paths = [f"/messages?s={number}" for number in range(1, 7)]
    with Upstream(Streams(), "/sse") as upstream, recording(tape, upstream.url, *HALF) as recorder:
        for number, path in enumerate(paths):
            with Client(recorder.url) as stream:
                stream.ask(verb="GET", to="/sse")
                stream.answer_head()
                assert path.encode() in stream.chunk()
                assert ask(recorder.url, call(number), to=path).status == 202
                assert json.loads(stream.chunk().split(b"data: ")[1])["id"] == number
        told = ended(recorder)
    taken = [number for number, path in enumerate(paths) if SAMPLE.takes(path)]
    assert f"sampled 50%: {len(taken)} of 6 sessions\n" in told and 0 < len(taken) < 6
    assert [texts(frames(tape, one.id), "client") for one in sessions(tape)] == [[call(number)] for number in taken]


@pytest.mark.parametrize("bodies", ["hash", "none"])
@pytest.mark.slow
def test_no_message_content_is_on_the_tape(tmp_path: Path, bodies: str) -> None:
    tape = tmp_path / "tape.db"
    headers = {"user_agent": f"agent {PLANTED}", "mcp_param_q": PLANTED}
    with Upstream(Sessions()) as upstream, recording(tape, upstream.url, "--bodies", bodies) as recorder:
        ask(f"{recorder.url}?q={PLANTED}", INITIALIZE, to=f"/mcp?q={PLANTED}", **headers)
        talk(recorder.url, 2)
        ask(recorder.url, modern(1, name="a", arguments={"q": PLANTED}), **headers)
        os.kill(recorder.process.pid, signal.SIGKILL)
        recorder.process.wait()
    until(lambda: [bool(one.ended_at) for one in sessions(tape)] == [True] * 4, "the end of the recording")
    assert not any(PLANTED.encode() in path.read_bytes() for path in tmp_path.iterdir())
    named = [session.server_name for session in sessions(tape)]
    assert named.count("scripted") == 3
    first = [json.loads(frame.text) for frame in frames(tape, 1) if frame.kind == "control"]
    assert first[0]["headers"]["content-type"] == "application/json" and first[0]["path"].startswith("/mcp?[")


@pytest.mark.slow
def test_spans_of_http_name_its_session(tmp_path: Path) -> None:
    with (
        collecting() as collector,
        Upstream(Sessions()) as upstream,
        recording(tmp_path / "tape.db", upstream.url, "--otlp", collector.url) as recorder,
    ):
        talk(recorder.url, 2)
        told = ended(recorder)
    ids = {one.value.string_value for span in collector.spans for one in span.attributes if one.key == "mcp.session.id"}
    assert ids == set(NAMES[:2]) and "4 spans sent, 0 dropped" in told
    assert sorted(span.name for span in collector.spans) == ["initialize"] * 2 + ["tools/call"] * 2


@pytest.mark.slow
def test_cassettes_of_a_sample_are_handed_over(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    hook = ["--rotate", "40k", "--on-rotate", f"cp {{}} {tmp_path / 'there'}"]
    with Upstream(Sessions()) as upstream, recording(tmp_path / "t.db", upstream.url, *HALF, *hook) as recorder:
        talk(recorder.url, len(NAMES))
        told = ended(recorder)
    names = [path.name for path in cassettes(tmp_path)]
    assert [path.name for path in cassettes(tmp_path / "there")] == names
    assert f"--on-rotate: {len(names)} done, 0 failed" in told


@pytest.mark.slow
def test_a_server_that_cannot_be_reached_answers_alike_in_and_out_of_the_sample(tmp_path: Path) -> None:
    with Upstream(Sessions()) as upstream:
        url = upstream.url
    with recording(tmp_path / "tape.db", url, *HALF, code=4) as recorder:
        answers = [ask(recorder.url, call(1), mcp_session_id=name) for name in NAMES]
        assert {found.status for found in answers} == {502}
        assert len({found.body for found in answers}) == 1 and "error" in answers[0].document
