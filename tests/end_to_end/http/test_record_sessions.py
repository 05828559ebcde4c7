"""HTTP on the tape: sessions, streams that stay open, the old HTTP+SSE."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support.http import LAST, Client, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import (
    HELLO,
    INITIALIZE,
    INITIALIZED,
    all_frames,
    call,
    event,
    exchanged,
    facts,
    failure,
    modern,
    recording,
    result,
    said,
    texts,
)
from tests.support.running import MCP_TAPE, WAIT, frames, is_recording, run, sessions, until

CHANGED = said(method="notifications/tools/list_changed")


# Sessions ----------------------------------------------------------------------------------------------


class Sessions:
    """A server of the legacy era that counts its sessions, and forgets deleted ones."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def __call__(self, request: Message, wire: Wire) -> None:
        number = request.header("mcp-session-id")
        if number is not None and number not in self.known:
            wire.send(answer(failure(None, -32001, "Session not found"), 404))
        elif request.verb == "DELETE":
            self.known.discard(number or "")
            wire.send(answer(status=204))
        elif request.verb == "GET":
            wire.send(begin(mcp_session_id=number or "") + chunk(event(CHANGED)))
            wire.how_it_ends()
            wire.close()
        elif request.body == INITIALIZE:
            number = f"session-{len(self.known) + 1}"
            self.known.add(number)
            wire.send(answer(result(0, **HELLO), mcp_session_id=number))
        elif "id" in request.document:
            wire.send(answer(result(request.document["id"], session=number)))
        else:
            wire.send(answer(status=202))


def test_there_is_one_session_for_each_id_and_one_for_requests_without(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with Upstream(Sessions()) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, verb="GET", to="/mcp", mcp_session_id="never").status == 404
        ask(recorder.url, modern(1, name="a"))
        for _ in range(2):
            number = ask(recorder.url, INITIALIZE).header("mcp-session-id") or ""
            ask(recorder.url, INITIALIZED, mcp_session_id=number)
        for number in ("session-2", "session-1"):
            ask(recorder.url, call(1), mcp_session_id=number)
        ask(recorder.url, modern(1, name="b"))
        assert ask(recorder.url, verb="DELETE", mcp_session_id="session-1").status == 204
        gone = ask(recorder.url, call(2), mcp_session_id="session-1")
        assert (gone.status, gone.document["error"]["message"]) == (404, "Session not found")
    recorded = sessions(tape)
    assert [session.transport for session in recorded] == ["http"] * 4
    assert [session.incomplete for session in recorded] == [None] * 4
    by_session = [texts(frames(tape, session.id), "client") for session in recorded]
    first = [INITIALIZE, INITIALIZED, call(1), call(2)]
    assert by_session == [[], [modern(1, name="a"), modern(1, name="b")], first, first[:3]]
    told = facts(frames(tape, recorded[2].id))
    verbs = [one["verb"] for one in told if one["event"] == "request"]
    assert verbs == ["POST", "POST", "POST", "DELETE", "POST"]
    assert [one["status"] for one in told if one["event"] == "response"] == [200, 202, 200, 204, 404]
    assert (recorded[2].client_name, recorded[2].server_name) == ("raw", "scripted")


@pytest.mark.slow
def test_removing_a_session_does_not_affect_the_others(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with Upstream(Sessions()) as upstream, recording(tape, upstream.url) as recorder:
        numbers = [ask(recorder.url, INITIALIZE).header("mcp-session-id") or "" for _ in range(3)]
        until(lambda: is_recording(tape) and len(sessions(tape)) == 3, "the sessions are there")
        assert run([*MCP_TAPE, "rm", str(tape), "--session", "2", "--force"]).returncode == 0
        for number in numbers:
            ask(recorder.url, call(1), mcp_session_id=number)
        until(lambda: "session 2 was removed" in recorder.said, "the recorder says so")
        for number in numbers:
            ask(recorder.url, call(2), mcp_session_id=number)
        assert recorder.stop() == 0
        assert recorder.said.count("it is no longer recorded") == 1 and "INCOMPLETE" not in recorder.said
    assert [(session.id, session.incomplete) for session in sessions(tape)] == [(1, None), (3, None)]
    with Cassette(tape) as cassette:
        assert [cassette.counts(number)["exchanges"] for number in (1, 3)] == [3, 3]


def test_concurrent_clients_with_the_same_ids_are_kept_apart(tmp_path: Path) -> None:
    tape, names = tmp_path / "tape.db", "abcdefgh"
    together = threading.Barrier(len(names))

    def script(request: Message, wire: Wire) -> None:
        together.wait(WAIT)  # all arrive before one is answered
        name = request.document["params"]["name"]
        wire.send(answer(result(7, name=name)) if name < "e" else begin() + chunk(event(result(7, name=name))) + LAST)

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder, contextlib.ExitStack() as open_:
        clients = {name: open_.enter_context(Client(recorder.url)) for name in names}
        for name, client in clients.items():
            client.ask(modern(7, name=name))
        for name, client in reversed(clients.items()):
            assert result(7, name=name) in client.answer().body
    assert len(sessions(tape)) == 1
    assert exchanged(tape) == {(modern(7, name=name), result(7, name=name)) for name in names}


@pytest.mark.slow
def test_streams_that_are_open_at_the_end_are_marked_so(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    listen = modern("sub", "subscriptions/listen", notifications={})

    def script(request: Message, wire: Wire) -> None:
        wire.send(begin() + chunk(event(said(method="notifications/x"))))
        assert wire.how_it_ends() in ("closed", "reset")
        wire.close()

    with (
        Upstream(script) as upstream,
        recording(tape, upstream.url) as recorder,
        Client(recorder.url) as listener,
        Client(recorder.url) as getter,
    ):
        listener.ask(listen)
        getter.ask(verb="GET", mcp_session_id="s")
        for client in (listener, getter):
            client.answer_head()
            client.read(10)
        assert recorder.stop() == 0
    ends = {frame.channel: json.loads(frame.text)["event"] for frame in all_frames(tape) if frame.kind == "control"}
    assert ends == {"post-1": "open", "get-1": "open"}
    assert [session.incomplete for session in sessions(tape)] == [None, None]
    assert sorted(request.verb for request in upstream.requests) == ["GET", "POST"]


@pytest.mark.slow
def test_a_resumed_stream_is_recorded_with_its_event(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"

    def script(request: Message, wire: Wire) -> None:
        if request.verb == "POST":
            wire.send(begin(mcp_session_id="s") + chunk(b"id: a/1\nretry: 5\ndata:\n\n") + LAST)
        else:
            assert request.header("last-event-id") == "a/1"
            wire.send(begin(mcp_session_id="s") + chunk(event(result(1, text="late"), b"id: a/2\n")) + LAST)

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, call(1), mcp_session_id="s").body == b"id: a/1\nretry: 5\ndata:\n\n"
        assert b"late" in ask(recorder.url, verb="GET", mcp_session_id="s", last_event_id="a/1").body
    assert exchanged(tape) == {(call(1), result(1, text="late"))}
    told = facts(all_frames(tape), "request")
    assert [one["headers"].get("last-event-id") for one in told] == [None, "a/1"]


# HTTP+SSE ----------------------------------------------------------------------------------------------


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("eol", [b"\n", b"\r\n"])
def test_the_endpoint_of_the_old_transport_leads_through_us(absolute: bool, eol: bytes, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    streams: list[Wire] = []
    open_ = threading.Event()

    def script(request: Message, wire: Wire) -> None:
        if request.verb == "GET":
            endpoint = (upstream.origin if absolute else "") + f"/messages/?session_id={len(streams)}"
            streams.append(wire)  # before the client gets it: the next request may come at once
            wire.send(begin() + chunk(b": hi" + eol + eol) + chunk(b"event: endpoint" + eol + b"data: "))
            wire.send(chunk(endpoint.encode() + eol + eol))
            assert open_.wait(WAIT)
        else:
            wire.send(answer(b"Accepted", 202, "text/plain"))
            number = int(request.target.rpartition("=")[2])
            streams[number].send(chunk(event(result(1, stream=number), eol=eol)))

    with Upstream(script, "/sse") as upstream, recording(tape, upstream.url) as recorder:
        with Client(recorder.url) as one, Client(recorder.url) as other:
            for number, client in enumerate((one, other)):
                client.ask(verb="GET")
                client.answer_head()
                origin = recorder.origin if absolute else ""
                told = b"event: endpoint" + eol + f"data: {origin}/messages/?session_id={number}".encode() + eol + eol
                expected = b": hi" + eol + eol + told
                assert client.read(len(expected)) == expected
            for number, client in reversed([*enumerate((one, other))]):
                posted = ask(recorder.origin + "/messages/", call(1, n=number), to=f"/messages/?session_id={number}")
                assert (posted.status, posted.body) == (202, b"Accepted")
                expected = event(result(1, stream=number), eol=eol)
                assert client.read(len(expected)) == expected
        open_.set()
    assert [session.transport for session in sessions(tape)] == ["sse", "sse"]
    assert exchanged(tape) == {(call(1, n=n), result(1, stream=n)) for n in range(2)}


@pytest.mark.slow
def test_an_endpoint_that_a_comment_names_too_leads_through_us(tmp_path: Path) -> None:
    def stream(origin: str) -> bytes:
        aside = f": see {upstream.origin}/messages\n: data: {upstream.origin}/messages\nid: data: x\n"
        return f"{aside}event: endpoint\ndata: {origin}/messages\n\n".encode()

    def script(request: Message, wire: Wire) -> None:
        wire.send(begin() + chunk(stream(upstream.origin)) + LAST)

    with Upstream(script, "/sse") as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        assert ask(recorder.url, verb="GET").body == stream(recorder.origin)


def test_an_endpoint_is_relative_to_where_its_stream_is(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"

    def script(request: Message, wire: Wire) -> None:
        if request.target == "/sse":
            wire.send(answer(b"", 307, location="/v1/sse"))
        elif request.verb == "GET":
            wire.send(begin() + chunk(event(b"messages?id=1", b"event: endpoint\n")))
            wire.how_it_ends()
            wire.close()
        else:
            wire.send(answer(b"Accepted", 202, "text/plain"))

    with Upstream(script, "/sse") as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, verb="GET").header("location") == "/v1/sse"
        with Client(recorder.url) as stream:
            stream.ask(verb="GET", to="/v1/sse")
            stream.answer_head()
            stream.chunk()
            assert ask(recorder.url, call(1), to="/v1/messages?id=1").status == 202
    assert texts(all_frames(tape), "client") == [call(1)]
