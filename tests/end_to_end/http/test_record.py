"""Recording an HTTP server: each side gets exactly the bytes of the other, piece by piece, once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.http import EVENTS, LAST, Client, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import Running, all_frames, call, event, facts, recording, result, said, texts
from tests.support.running import WAIT


class Baton:
    """Passed from the reader to the writer, so that nothing is written too early."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(0)

    def hand_over(self) -> None:
        self._free.release()

    def take(self) -> None:
        assert self._free.acquire(timeout=WAIT)


def in_turn(pieces: list[bytes], head: bytes, tape: Path) -> list[bytes]:
    """The pieces that a client receives, each written only after the previous one has arrived."""
    baton = Baton()

    def script(request: Message, wire: Wire) -> None:
        wire.send(head)
        for piece in pieces:
            baton.take()
            wire.send(chunk(piece))
        baton.take()
        wire.send(LAST)

    got = []
    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder, Client(recorder.url) as client:
        client.ask(call(1))
        client.answer_head()
        for piece in pieces:
            baton.hand_over()
            got.append(client.read(len(piece)))
        baton.hand_over()
        assert client.chunk() == b""
    return got


# Streams -----------------------------------------------------------------------------------------------


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("eol", [b"\n", b"\r\n", b"\r"])
def test_each_event_is_passed_on_before_the_next_is_written(eol: bytes, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    answered = result(1, text="naïve ✓")
    progress = said(method="notifications/progress", params={"progressToken": 1, "progress": 1})
    pieces = [
        b"id: 0" + eol + b"data:" + eol + eol,  # prepares the client for a resumption
        b": ping" + eol + eol,
        b"retry: 250" + eol + eol,
        b"id: 1" + eol + b"event: message" + eol + b": aside" + eol + b"data: " + progress + eol + eol,
        b"data:" + answered + eol + b"id: 2" + eol + eol,
    ]
    assert in_turn(pieces, begin(), tape) == pieces
    frames = all_frames(tape)
    came = [(f.head, f.text, f.eol) for f in frames if f.sender == "server" and f.kind != "control"]
    assert came == [
        (b"id: 0" + eol, b"", eol),
        (b"retry: 250" + eol, b"", b"\n"),
        (b"id: 1" + eol + b"event: message" + eol + b": aside" + eol, progress, eol),
        (b"id: 2" + eol, answered, eol),
    ]
    assert [one["text"].encode() for one in facts(frames, "comment")] == [b": ping" + eol]
    assert [one["status"] for one in facts(frames, "response")] == [200]
    times = [frame.at for frame in frames if frame.sender == "server"]
    assert times == sorted(set(times))  # each has a different one


@pytest.mark.slow
def test_incomplete_responses_are_passed_on_too(tmp_path: Path) -> None:
    whole = b'id: 7\r\ndata: {"jsonrpc":"2.0",\r\ndata: "id":1,"result":{"text":"\xc3\xa9\xf0\x9f\x8e\xb6"}}\r\n\r\n'
    pieces = [bytes([byte]) for byte in whole]  # splits every line end and every character
    assert b"".join(in_turn(pieces, begin(), tmp_path / "tape.db")) == whole
    (frame,) = [frame for frame in all_frames(tmp_path / "tape.db") if frame.head is not None]
    assert frame.text.decode() == '{"jsonrpc":"2.0",\n"id":1,"result":{"text":"é🎶"}}'


@pytest.mark.slow
def test_a_json_body_is_passed_on_in_pieces_and_kept_as_one(tmp_path: Path) -> None:
    pieces = [b'{"jsonrpc":"2.0",\n', b' "id":1,\n "result"', b": {}}\n"]
    assert in_turn(pieces, begin("application/json; charset=utf-8"), tmp_path / "tape.db") == pieces
    frames = all_frames(tmp_path / "tape.db")
    assert texts(frames, "server") == [b'{"jsonrpc":"2.0",\n "id":1,\n "result": {}}']


@pytest.mark.slow
def test_a_request_is_passed_on_in_pieces_too(tmp_path: Path) -> None:
    tape, body, half = tmp_path / "tape.db", call(1, text="é"), threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(WAIT)

    def serve() -> None:
        wire = Wire(listener.accept()[0])
        head = wire.head()
        assert head and wire.read(5) == body[:5]
        half.set()
        rest = b"".join(iter(wire.chunk, b""))
        wire.send(answer(result(1), x_got=str(len(rest))))
        wire.how_it_ends()
        wire.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    port = listener.getsockname()[1]
    with recording(tape, f"http://127.0.0.1:{port}/mcp") as recorder, Client(recorder.url) as client:
        client.ask(transfer_encoding="chunked")
        client.send(chunk(body[:5]))
        assert half.wait(WAIT)
        client.send(chunk(body[5:]) + LAST)
        assert client.answer().header("x-got") == str(len(body) - 5)
    thread.join(WAIT)
    listener.close()
    assert texts(all_frames(tape), "client") == [body]


# Requests and responses --------------------------------------------------------------------------------

ANSWERS = {
    "ok": answer(result(1), mcp_session_id="s", x_more="1"),
    "events": begin() + chunk(event(result(1))) + LAST,
    "until the end": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n" + result(1),
    "old": b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + result(1),
    "accepted": answer(status=202),
    "nothing": b"HTTP/1.1 204 No Content\r\nx-more: 1\r\n\r\n",
    "not modified": b'HTTP/1.1 304 Not Modified\r\netag: "1"\r\n\r\n',
    "bad": answer(b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad"}}', 400),
    "who": answer(b"", 401, www_authenticate='Bearer realm="x"'),
    "expired": answer(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}', 404),
    "not allowed": answer(b"Method Not Allowed", 405, "text/plain", allow="POST, DELETE"),
    "not acceptable": answer(b"{}", 406),
    "broken": answer(b"<h1>\xff</h1>\n", 500, "text/html; charset=latin-1"),
    "later": answer(b"", 503, retry_after="120"),
    "own": answer(b"what?", 299, "x-own/type"),
    "two lengths": begin("application/json", content_length="3") + chunk(result(1)) + LAST,
}
Menu = tuple[Upstream, Running]
HOP_BY_HOP = {"connection", "transfer-encoding"}


@pytest.fixture(scope="module")
def menu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Menu]:
    """An upstream that answers as the header x-want requests, behind a recorder."""

    def script(request: Message, wire: Wire) -> None:
        wanted = ANSWERS[request.header("x-want") or "ok"]
        wire.send(wanted)
        if b"connection: close" in wanted or wanted.startswith(b"HTTP/1.0"):
            wire.close()

    place = tmp_path_factory.mktemp("menu")
    with Upstream(script) as upstream, recording(place / "tape.db", upstream.url) as recorder:
        yield upstream, recorder


@pytest.mark.parametrize("wanted", ANSWERS)
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
def test_each_request_goes_upstream_once_and_its_answer_comes_back_unchanged(
    verb: str, wanted: str, menu: Menu
) -> None:
    upstream, recorder = menu
    body = call(1) if verb == "POST" else None
    before = len(upstream.requests)
    more = {"x-Want": wanted, "Accept": "application/json;q=0.5, */*", "User-Agent": "x/1", "X-Odd": "é"}
    through = ask(recorder.url, body, verb=verb, **more)
    (request,) = upstream.requests[before:]
    direct = ask(upstream.url, body, verb=verb, **more)
    assert through.status == direct.status and through.body == direct.body
    assert meant(through) == meant(direct)
    assert (request.verb, request.target, request.body) == (verb, "/mcp", body or b"")
    assert sorted(request.headers) == sorted([*upstream.requests[-1].headers, ("accept-encoding", "identity")])


def meant(message: Message) -> set[tuple[str, str]]:
    """The end-to-end headers; a length is meaningless with chunks."""
    is_chunked = message.header("transfer-encoding") is not None
    dropped = HOP_BY_HOP | ({"content-length"} if is_chunked else set())
    return {(name, value) for name, value in message.headers if name not in dropped}


def test_heads_and_options_pass(tmp_path: Path) -> None:
    def script(request: Message, wire: Wire) -> None:
        wire.send(answer(b"" if request.verb == "HEAD" else b"x" * 10, 200, "text/plain", content_length="10"))

    with Upstream(script) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        for verb in ("HEAD", "OPTIONS"):
            done = ask(recorder.url, verb=verb, access_control_request_method="POST")
            assert (done.status, done.header("content-length")) == (200, "10")
            assert upstream.requests[-1].header("access-control-request-method") == "POST"
        assert ask(recorder.url, call(1)).body == b"x" * 10
    assert [request.verb for request in upstream.requests] == ["HEAD", "OPTIONS", "POST"]


@pytest.mark.parametrize(
    "target",
    [
        "/mcp?a=1&b=%7E%2f&c=a+b",
        "/mcp?q=%zz&x=\"'|{}[]^`\\",
        "/mcp?a=1?b=2",
        "/other//x/../y/%2e%2e/./z;p=1",
        "/%C3%A9/%00",
    ],
)
def test_a_target_arrives_byte_for_byte(target: str, menu: Menu) -> None:
    upstream, recorder = menu
    assert ask(recorder.url, call(1), to=target).status == 200
    assert upstream.requests[-1].target == target


def test_an_offer_to_speak_another_protocol_is_not_passed_on(menu: Menu) -> None:
    upstream, recorder = menu
    offer = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2_settings": "AAEAAEAA"}
    assert ask(recorder.url, call(1), **offer).body == result(1)  # sent by Java's client
    assert {"upgrade", "http2-settings"}.isdisjoint(dict(upstream.requests[-1].headers))


@pytest.mark.slow
def test_the_query_of_the_url_is_kept_and_never_shown(tmp_path: Path) -> None:
    with (
        Upstream(lambda request, wire: wire.send(answer(result(1)))) as upstream,
        recording(tmp_path / "tape.db", f"{upstream.url}?tenant=7&mode=a") as recorder,
    ):
        assert recorder.url.endswith("/mcp")
        ask(recorder.url, call(1))
        ask(recorder.url, call(1), to="/mcp?own=1")
    assert [request.target for request in upstream.requests] == ["/mcp?tenant=7&mode=a", "/mcp?own=1"]


@pytest.mark.slow
def test_pipelined_and_kept_connections_keep_their_order(tmp_path: Path) -> None:
    def script(request: Message, wire: Wire) -> None:
        number = request.document["id"]
        wire.send(answer(result(number)) if number % 2 else begin() + chunk(event(result(number))) + LAST)

    tape, numbers = tmp_path / "tape.db", range(1, 21)
    with (
        Upstream(script) as upstream,
        recording(tape, upstream.url) as recorder,
        Client(recorder.url) as client,
    ):
        for number in numbers:
            client.ask(call(number))
        answers = [client.answer() for _ in numbers]
        client.ask(call(0), expect="100-continue")
        assert client.answer_head().status == 100
        assert client.answer().status == 200
    assert [one.body for one in answers] == [result(n) if n % 2 else event(result(n)) for n in numbers]
    assert [one.header("content-type") == EVENTS for one in answers] == [n % 2 == 0 for n in numbers]
    assert len(texts(all_frames(tape), "server")) == len(upstream.requests) == 21
