"""The quick way to an answer and the usual one send the same bytes, and what is unusual takes the usual way."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.lookup import messages as lookup
from mcp_tape.cassette.reader import Cassette
from mcp_tape.replay.stage import Replay, Stage
from mcp_tape.transports.http import serve
from mcp_tape.transports.http.shortcut import Request, chunked, parsed, whole
from mcp_tape.wire import frames, match
from tests.support import messages
from tests.support.http import Client
from tests.support.http_facts import Http, cassette
from tests.support.http_running import INITIALIZE, call, modern, replaying
from tests.support.http_tapes import legacy_tape, modern_tape, tool, with_token

HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"


def test_a_usual_request_is_taken_apart() -> None:
    request = parsed(HEAD + b"X-Empty:\r\nMcp-Name: \xc3\xa9 \t\r\n\r\n{}")
    headers = [(b"host", b"127.0.0.1"), (b"content-length", b"2"), (b"x-empty", b""), (b"mcp-name", b"\xc3\xa9")]
    assert request == Request("/mcp", headers, b"{}")


def test_one_that_is_not_whole_has_no_body_yet() -> None:
    data = HEAD + b"\r\n{}"
    requests = [parsed(data[:size]) for size in (len(data) - 2, len(data) - 1)]
    assert [request and (request.path, request.body) for request in requests] == [("/mcp", None)] * 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD,
        HEAD + b"\r\n{}POST",
        HEAD.replace(b"POST", b"GET") + b"\r\n{}",
        HEAD.replace(b"1.1", b"1.0") + b"\r\n{}",
        HEAD.replace(b"/mcp", b"http://127.0.0.1/mcp") + b"\r\n{}",
        HEAD.replace(b"/mcp", b"/mcp?x=1") + b"\r\n{}",
        HEAD.replace(b"/mcp", b"/m%63p") + b"\r\n{}",
        HEAD.replace(b" /mcp ", b"  /mcp ") + b"\r\n{}",
        HEAD.replace(b": 2", b": +2") + b"\r\n{}",
        HEAD.replace(b": 2", b": 2, 2") + b"\r\n{}",
        HEAD.replace(b": 2", b": 99999999") + b"\r\n{}",
        HEAD + b"Content-Length: 2\r\n\r\n{}",
        HEAD + b"Host: 127.0.0.1\r\n\r\n{}",
        HEAD.replace(b"Host", b"Hast") + b"\r\n{}",
        HEAD.replace(b": 2", b": " + b"9" * 5000) + b"\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n{}",
        HEAD + b"Expect: 100-continue\r\n\r\n{}",
        HEAD + b"Connection: close\r\n\r\n{}",
        HEAD + b" folded: x\r\n\r\n{}",
        HEAD + b"space : x\r\n\r\n{}",
        HEAD + b"bare: a\nb: c\r\n\r\n{}",
        HEAD + b"nul: a\0\r\n\r\n{}",
        HEAD.replace(b"\r\n", b"\n") + b"\n{}",
        b"POST /mcp HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
def test_whatever_is_unusual_is_left_alone(data: bytes) -> None:
    assert parsed(data) is None


def test_responses_are_written_as_uvicorn_does() -> None:
    assert whole(404, [(b"a", b"b")], b"x") == b"HTTP/1.1 404 Not Found\r\na: b\r\n\r\nx"
    events = b"HTTP/1.1 200 OK\r\na: b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    assert chunked([(b"a", b"b")], [b"abc", b""]) == events


END = b"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


def said(url: str, body: bytes, *, quick: bool, **more: str) -> bytes:
    """Every byte that answers a request; one with a query takes the usual way."""
    with Client(url) as client:
        client.ask(body, to="/mcp" if quick else "/mcp?usual", **more)
        answer = client.sock.recv(1 << 16)
        client.send(END)  # only now: two requests at once would not be usual
        while data := client.sock.recv(1 << 16):
            answer += data
        return answer


LEGACY = [call(1, "tools/list"), tool(2, "plain"), with_token(3, "events", "t"), tool(6, "no_rpc"), tool(7, "bad")]
MODERN = [modern(0, "server/discover"), modern(1, "tools/list")]
MISSES = [tool(8, "nowhere"), call(9, "no/such")]


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_both_ways_say_the_same(era: str, tmp_path: Path) -> None:
    tape = (legacy_tape if era == "legacy" else modern_tape)(tmp_path / "tape.db")
    misses = MISSES if era == "legacy" else [modern(8, name="nowhere"), modern(9, "no/such")]
    both = []
    for quick in (True, False):
        with replaying(tape, code=1) as replay, Client(replay.url) as client:
            client.ask(INITIALIZE if era == "legacy" else MODERN[0])  # from here on there is somebody to be quick for
            own = {"mcp_session_id": number} if (number := client.answer().header("mcp-session-id")) else {}
            asked = [*(LEGACY if era == "legacy" else MODERN), *misses]
            both.append([said(replay.url, body, quick=quick, **own) for body in asked])
    assert both[0] == both[1]
    assert all(answer.startswith(b"HTTP/1.1 ") for answer in both[0])


def test_a_web_page_is_refused_on_the_quick_way_too(tmp_path: Path) -> None:
    with replaying(legacy_tape(tmp_path / "tape.db")) as replay, Client(replay.url) as client:
        client.ask(INITIALIZE)
        own = {"mcp_session_id": client.answer().header("mcp-session-id") or ""}
        statuses = []
        for site in ("none", "cross-site"):
            client.ask(call(1, "tools/list"), sec_fetch_site=site, **own)
            statuses.append(client.answer().status)
    assert statuses == [200, 403]


@pytest.mark.parametrize("quick", [True, False])
def test_a_request_is_parsed_once(quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of it: answered at once, or handed over to the server."""
    parsed: list[bytes] = []
    original = frames.parse

    def parse(text: bytes) -> frames.Parsed:
        parsed.append(text)
        return original(text)

    monkeypatch.setattr(frames, "parse", parse)
    texts = [call(1, "tools/list"), tool(2, "plain"), with_token(3, "events", "t"), tool(7, "bad"), tool(8, "nowhere")]
    notified = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()

    async def talk() -> list[int]:
        with Cassette(legacy_tape(tmp_path / "tape.db")) as tape:
            server = serve.Server(Stage(tape, Replay(), lambda text: None), lambda: None)
            session = {"mcp-session-id": await posted(server, INITIALIZE, {}, quick=False)}
            found = []
            for text in (*texts, notified):
                parsed.clear()
                await posted(server, text, session, quick=quick)
                found.append(parsed.count(text))
        return found

    assert asyncio.run(talk()) == [1] * 6


def each_kind(http: Http) -> None:
    """Calls of which the answer is all, more than are read with the first few; and others."""
    http.post("post-1", INITIALIZE.decode())
    http.answer("post-1", messages.result(0), mcp_session_id="S")
    batch = [messages.call(number, "batch", n=number) for number in (3, 4)]
    progress = messages.progress("t", 1)
    http.post("post-2", messages.call(2, "progress", token="t"), mcp_session_id="S")
    http.respond("post-2")
    http.event("post-2", progress)
    http.event("post-2", messages.result(2))
    http.end("server", "post-2")
    http.post("post-3", f"[{', '.join(batch)}]", mcp_session_id="S")
    http.answer("post-3", f"[{messages.result(3)}, {messages.result(4)}]")
    for number in range(5, 400):
        http.post(f"post-{number}", messages.call(number, "plain", n=number), mcp_session_id="S")
        http.answer(f"post-{number}", messages.result(number))


# What is asked, how often it is keyed, and how often looked up.
KINDS = [
    (messages.call(2, "progress", token="x"), 1, 1),
    (messages.call(2, "progress"), 1, 1),  # once more: a miss
    (messages.call(2, "nowhere"), 1, 1),
    (f"[{messages.call(6, 'batch', n=4)}, {messages.call(7, 'batch', n=3)}]", 2, 2),
    (messages.request(7, "tools/call", arguments={"n": 399}, name="plain"), 1, 1),
    (messages.call(8, "plain", n=399), 1, 1),  # once more: a miss
    (messages.call(9, "plain", n=398), 1, 1),
    (messages.call(31, "plain", n=31), 1, 1),  # byte for byte as recorded
]


@pytest.mark.parametrize("way", ["stdio", "quick", "long"])
def test_a_request_is_keyed_and_looked_up_once(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyed: list[str] = []
    looked_up: list[str] = []
    original, statement = match.request_key, lookup._NEXT_REQUEST.partition("?")[0]

    def request_key(method: str, params: Any) -> bytes:
        keyed.append(method)
        return original(method, params)

    monkeypatch.setattr(match, "request_key", request_key)

    async def talk() -> list[tuple[int, int]]:
        with Cassette(cassette(tmp_path / "tape.db", each_kind)) as tape:
            tape._db.set_trace_callback(lambda sql: looked_up.append(sql) if sql.startswith(statement) else None)
            stage = Stage(tape, Replay(), lambda text: None)
            server, player = serve.Server(stage, lambda: None), stage.player()[0]
            found = []
            for text in (INITIALIZE, *(text.encode() for text, *_ in KINDS)):
                keyed.clear()
                looked_up.clear()
                if way != "stdio":
                    more = {} if text == INITIALIZE else {"mcp-session-id": "S"}
                    await posted(server, text, more, quick=way == "quick")
                else:
                    player.receive(text, "stdio", 0.0)
                    player.due(0.0)
                found.append((len(keyed), len(looked_up)))
        return found[1:]

    expected = [(keys, looks) for _, keys, looks in KINDS]
    assert asyncio.run(talk()) == expected


async def posted(server: serve.Server, body: bytes, more: dict[str, str], *, quick: bool) -> str:
    """Post as the listener does; the session id of the response."""
    headers = [(name.encode(), value.encode()) for name, value in {"host": "127.0.0.1", **more}.items()]
    found = server.quick(Request("/mcp", headers, body)) if quick else None
    if isinstance(found, bytes):
        return ""
    app = server if found is None else found
    sent: list[Any] = []
    requests = iter([{"type": "http.request", "body": body}])

    async def receive() -> Any:
        return next(requests, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"method": "POST", "path": "/mcp", "raw_path": b"/mcp", "query_string": b"", "headers": headers}
    await app(scope, receive, send)  # type: ignore[operator]
    return dict(sent[0]["headers"]).get(b"mcp-session-id", b"").decode()
