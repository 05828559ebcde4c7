"""Recording over HTTP when things go wrong, or are too many, too large or too slow."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.http import JSON, LAST, Client, CutOffError, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import all_frames, call, event, recording, result, said, texts
from tests.support.running import WAIT

MiB = 1 << 20
NOTE = event(said(method="notifications/x"))


def echo(request: Message, wire: Wire) -> None:
    wire.send(answer(result(request.document["id"])))


def last_events(tape: Path) -> dict[str, str]:
    """How each channel ended."""
    controls = [frame for frame in all_frames(tape) if frame.kind == "control"]
    return {frame.channel: f"{frame.sender} {json.loads(frame.text)['event']}" for frame in controls}


# Disconnects -----------------------------------------------------------------------------------------------


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("leave", [Client.close, Client.reset])
def test_a_client_that_leaves_is_gone_upstream_too(leave: Callable[[Client], None], tmp_path: Path) -> None:
    tape, asked, left = tmp_path / "tape.db", threading.Semaphore(0), threading.Semaphore(0)
    openings = [b"", begin(), begin() + chunk(NOTE), begin(JSON) + chunk(b'{"half":')]

    def script(request: Message, wire: Wire) -> None:
        wire.send(openings[request.document["id"]])
        asked.release()
        wire.how_it_ends()
        left.release()
        wire.close()

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        for number, opening in enumerate(openings):
            client = Client(recorder.url)
            client.ask(call(number))
            if opening:
                client.answer_head()
            assert asked.acquire(timeout=WAIT)
            leave(client)
            assert left.acquire(timeout=WAIT)
    assert last_events(tape) == {f"post-{number}": "client abort" for number in range(1, 5)}


def test_a_client_that_leaves_behind_another_request_is_gone_upstream_too(tmp_path: Path) -> None:
    left = threading.Event()

    def script(request: Message, wire: Wire) -> None:
        wire.send(begin() + chunk(NOTE))
        wire.how_it_ends()
        if request.document["id"] == 1:
            left.set()
        wire.close()

    with Upstream(script) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        with Client(recorder.url) as client:
            client.ask(call(1))
            client.answer_head()
            client.read(len(NOTE))
            client.ask(call(2))
            with Client(recorder.url) as other:  # its request comes later, so the second was seen
                other.ask(call(3))
                other.answer_head()
        assert left.wait(WAIT)


def test_a_client_that_leaves_its_stream_is_gone_upstream_too(tmp_path: Path) -> None:
    tape, left = tmp_path / "tape.db", threading.Event()

    def script(request: Message, wire: Wire) -> None:
        wire.send(begin())
        wire.how_it_ends()
        left.set()
        wire.close()

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        with Client(recorder.url) as client:
            client.ask(verb="GET")
            client.answer_head()
        assert left.wait(WAIT)
    assert last_events(tape) == {"get-1": "client abort"}


@pytest.mark.slow
def test_a_client_that_leaves_within_its_request_is_gone_upstream_too(tmp_path: Path) -> None:
    tape, body = tmp_path / "tape.db", call(1, text="x" * 100)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT)
        with recording(tape, f"http://127.0.0.1:{listener.getsockname()[1]}/mcp") as recorder:
            client = Client(recorder.url)
            client.ask(body, content_length="1000")
            wire = Wire(listener.accept()[0])
            assert wire.head() and wire.exactly(len(body)) == body
            client.close()
            assert wire.how_it_ends() in ("closed", "reset")
            wire.close()
    assert last_events(tape) == {"post-1": "client abort"}
    assert texts(all_frames(tape), "client") == []  # it never arrived whole


DYING = {
    "in a chunk": begin() + chunk(NOTE) + b"ff\r\ndata: {",
    "in an event": begin() + chunk(NOTE) + chunk(b"data: {"),
    "behind an event": begin() + chunk(NOTE),
    "before a body": begin(),
    "in a body": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n" + result(1),
}


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("leave", [Wire.close, Wire.reset])
def test_a_server_that_dies_is_no_clean_end_for_the_client(leave: Callable[[Wire], None], tmp_path: Path) -> None:
    tape, got = tmp_path / "tape.db", threading.Semaphore(0)

    def script(request: Message, wire: Wire) -> None:
        wire.send(DYING[request.document["id"]])
        assert got.acquire(timeout=WAIT)
        leave(wire)

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        for how, said_before in DYING.items():
            with Client(recorder.url) as client:
                client.ask(call(how))
                head = client.answer_head()
                if NOTE in said_before:
                    assert client.read(len(NOTE)) == NOTE
                got.release()
                with pytest.raises((CutOffError, ConnectionResetError)):
                    client.whole(head)
    assert last_events(tape) == {f"post-{number}": "server abort" for number in range(1, len(DYING) + 1)}
    assert [event(text) for text in texts(all_frames(tape), "server")] == [NOTE] * 3
    assert len(upstream.requests) == len(DYING)


# Unusual servers -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_that_sends_no_response_is_reported_in_the_answer(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with (
        Upstream(lambda request, wire: wire.close()) as upstream,
        recording(tape, upstream.url, code=4) as recorder,
    ):
        done = ask(recorder.url, call("x-1"))
        assert (done.status, done.header("content-type"), done.document["id"]) == (502, JSON, "x-1")
        assert done.document["error"]["code"] == -32000
        assert upstream.url in done.document["error"]["message"]
    assert len(upstream.requests) == 1


@pytest.mark.slow
def test_a_server_may_close_its_connections_between_requests(tmp_path: Path) -> None:
    closed = threading.Semaphore(0)

    def script(request: Message, wire: Wire) -> None:
        echo(request, wire)
        wire.close()
        closed.release()

    with (
        Upstream(script) as upstream,
        recording(tmp_path / "tape.db", upstream.url) as recorder,
        Client(recorder.url) as client,
    ):
        for number in range(20):
            client.ask(call(number))
            assert client.answer().document == json.loads(result(number))
            assert closed.acquire(timeout=WAIT)
    assert len(upstream.requests) == 20


@pytest.mark.slow
def test_hints_and_statuses_of_the_servers_own_pass(tmp_path: Path) -> None:
    statuses = iter([299, 418, 599, 600, 999])

    def script(request: Message, wire: Wire) -> None:
        wire.send(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
        wire.send(answer(result(1), next(statuses)))

    with Upstream(script) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        got = [ask(recorder.url, call(1)) for _ in range(5)]
        assert [done.status for done in got] == [299, 418, 599, 600, 999]
        assert {done.body for done in got} == {result(1)}


@pytest.mark.slow
def test_an_endpoint_that_is_no_url_neither_ends_the_stream_nor_the_recording(tmp_path: Path) -> None:
    tape, opening = tmp_path / "tape.db", b"event: endpoint\ndata: http://[x\n\n"

    def script(request: Message, wire: Wire) -> None:
        if request.verb == "GET":
            wire.send(begin() + chunk(opening) + chunk(NOTE) + LAST)
        else:
            echo(request, wire)

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, verb="GET").body == opening + NOTE
        assert ask(recorder.url, call(1)).status == 200
        assert recorder.stop() == 0
        assert "INCOMPLETE" not in recorder.said
    assert texts(all_frames(tape), "server").count(result(1)) == 1


# Clients that break the rules ------------------------------------------------------------------------------

MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"nonsense\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: many\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nbad header\r\n\r\n",
    b"GET / HTTP/1.1\r\nx: " + b"x" * 400_000,
]


def test_malformed_and_incomplete_requests_disturb_no_other_client(tmp_path: Path) -> None:
    with (
        Upstream(echo) as upstream,
        recording(tmp_path / "tape.db", upstream.url) as recorder,
        contextlib.ExitStack() as open_,
    ):
        for number in range(50):
            client = open_.enter_context(Client(recorder.url))
            client.send(b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-le"[: 10 + number])
        for malformed in MALFORMED:
            with Client(recorder.url) as client, contextlib.suppress(ConnectionError):
                client.send(malformed)
                head = client.head()
                assert head is None or head.status in (400, 431), malformed[:40]
        assert [ask(recorder.url, call(n)).body for n in range(5)] == [result(n) for n in range(5)]
        assert recorder.stop() == 0
        assert "Traceback" not in recorder.said


def test_targets_in_other_forms_are_understood(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with Upstream(echo) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, call(1), to=recorder.url).body == result(1)  # as sent to a proxy
        assert upstream.requests[0].target == "/mcp"
        assert ask(recorder.url, call(1), verb="OPTIONS", to="*").status < 500
    assert texts(all_frames(tape), "server") == [result(1)]
