"""The quick way to an answer and the long one send the same bytes, whatever comes, in whichever pieces.

MCP_TAPE_FUZZ_SECONDS=600 pytest -n 0 -s tests/end_to_end/http/test_paths.py    # ten minutes of it
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from uvicorn.server import ServerState

from mcp_tape.cassette.reader import Cassette
from mcp_tape.replay.stage import Replay, Stage
from mcp_tape.transports.http import listen, serve, shortcut
from mcp_tape.transports.http.guard import Guard
from tests.support.fuzzing import Case, cases
from tests.support.http_facts import Http, Talk, cassette
from tests.support.live import META
from tests.support.messages import call, progress, request, result, tell
from tests.support.running import WAIT

_QUIET = 12  # turns of the loop in which nothing more comes: then nothing will
_MODERN = request(30, "tools/call", name="modern", arguments={}, _meta=META)
_INITIALIZE = request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c"})


def both_eras(serve: Http) -> None:
    """One session with all that a response may be: JSON, events, an error, a status."""
    serve.post("post-1", _INITIALIZE)
    serve.answer("post-1", result(0), mcp_session_id="S")
    for number, name in enumerate(("a", "b", "c", "a", "modern"), 2):
        text = _MODERN if name == "modern" else call(number, name)
        serve.post(f"post-{number}", text, mcp_session_id="S")
        rpc_id = json.loads(text)["id"]
        if name == "b":
            serve.respond(f"post-{number}")
            serve.event(f"post-{number}", tell("notifications/message", data="é"), f"e{number}")
            serve.event(f"post-{number}", result(rpc_id, name), f"f{number}")
            serve.end("server", f"post-{number}")
        elif name == "c":
            serve.answer(f"post-{number}", '{"detail":"no"}', 422)
        else:
            serve.answer(f"post-{number}", result(rpc_id, name))


# Two ways ------------------------------------------------------------------------------------------------


class Way:
    """A replay that answers connections in the loop of the test; `quick`: as it does for users."""

    def __init__(self, tape: Cassette, quick: bool) -> None:
        server = serve.Server(Stage(tape, Replay(), lambda text: None), lambda: None)
        self.accidents: list[Exception] = []
        guard = Guard(server, "127.0.0.1", self.accidents.append)
        self._guard_quick, guard.quick = guard.quick, self._quick if quick else None
        self.at_once = 0  # responses that were
        config = listen.configured(guard)
        config.load()
        self._state = ServerState()
        self._make = partial(config.http_protocol_class, config, self._state, {})

    def _quick(self, request: shortcut.Request) -> shortcut.Found:
        assert self._guard_quick is not None
        found = self._guard_quick(request)
        self.at_once += isinstance(found, bytes)
        return found

    async def say(self, pieces: list[bytes]) -> bytes:
        """Everything that comes for these pieces, each read by itself."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(self._make, theirs)
        got = bytearray()
        with contextlib.closing(ours):
            for piece in pieces:
                with contextlib.suppress(OSError):  # it was closed on us
                    await loop.sock_sendall(ours, piece)
                await _settled(ours, got)
        transport.close()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
        return bytes(got)


async def _settled(sock: socket.socket, got: bytearray) -> None:
    """Hear what comes until nothing does: all that answers runs in this loop, and waits for nothing else."""
    quiet = 0
    while quiet < _QUIET:
        await asyncio.sleep(0)
        quiet += 1
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            data = sock.recv(1 << 18)
            if data:
                got += data
                quiet = 0


# What comes ----------------------------------------------------------------------------------------------


def plain_request(text: str) -> bytes:
    session = "" if text == _INITIALIZE else "Mcp-Session-Id: S\r\n"
    return f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{session}Content-Length: {len(text)}\r\n\r\n{text}".encode()


_NAMES = (
    b"Host Content-Length Content-Type Accept Mcp-Session-Id MCP-Protocol-Version Origin Sec-Fetch-Site Connection "
    b"Transfer-Encoding Expect Upgrade X-Odd Last-Event-ID"
).split()
_ODD = [
    *(
        b"0 00002 +1 -1 1e3 \xe9 \x7f close keep-alive Keep-Alive chunked identity 100-continue h2c S S-2 s localhost "
        b"evil.test 127.0.0.1:1 [::1] null http://localhost:1 http://evil.test none cross-site 2026-07-28 2025-11-25 e2"
    ).split(),
    b"",
    b" ",
    b"2, 2",
    b"a\tb",
    b"a\0b",
    b"\x01",
    b"9" * 5000,
    b"\xff" * 300,
]
_BODIES = [
    *(call(number, name) for number, name in ((2, "a"), ("x", "b"), (3, "c"), (4, "nowhere"), (1e3, "a"))),
    *(_MODERN, _INITIALIZE, request(7, "ping"), request(8, "no/such"), tell("notifications/initialized"), result(1)),
    *("[]", "", "{", "no", " " * 70_000, f"[{call(1, 'a')},{call(2, 'b')}]", call(9, "a", _meta={"progressToken": 1})),
]
_TARGETS = (
    "/mcp /mcp/ /mcp// //mcp /MCP /mcp?x=1 /m%63p / /sse /messages /messages?sessionId=S http://127.0.0.1/mcp * /mcp#x "
    "/\xe9"
).split()


_OPENING = [[plain_request(text)] for text in (_INITIALIZE, _INITIALIZE, call(2, "a"))]


def headers_of(case: Case, body: bytes) -> list[tuple[bytes, bytes]]:
    """Usual ones, mostly, with something odd among them, twice, missing, or in another order."""
    headers = [(b"Host", b"127.0.0.1"), (b"Content-Type", b"application/json"), (b"Accept", b"*/*")]
    headers += [(b"Content-Length", b"%d" % (len(body) + case.choice([0] * 9 + [-1, 1])))]
    headers += [(b"Mcp-Session-Id", b"S")] if case.random() < 0.7 else []
    if case.random() < 0.3:
        for _ in range(case.randint(1, 3)):
            name = case.choice(_NAMES)
            name = case.choice([name, name.lower(), name.upper(), name + b" ", b" " + name])
            headers.insert(case.randint(0, len(headers)), (name, case.choice(_ODD)))
    if case.random() < 0.1:
        headers.pop(case.randrange(len(headers)))
    if case.random() < 0.1:
        headers.append(case.choice(headers))
    if case.random() < 0.2:
        case.shuffle(headers)
    return headers


def a_request(case: Case) -> bytes:
    """The bytes of a request, most of them good."""
    body = case.choice(_BODIES).encode()
    usual = case.random() < 0.8
    verb, target, version = ("POST", "/mcp", "HTTP/1.1") if usual else (
        case.choice(["POST", "GET", "DELETE", "HEAD", "OPTIONS", "PUT", "CONNECT", "TRACE", "post", "P\xd6ST"]),
        case.choice(_TARGETS),
        case.choice(["HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2", "http/1.1"]),
    )  # fmt: skip
    headers = headers_of(case, body)
    if case.random() < 0.1:
        headers = [(name, value) for name, value in headers if name != b"Content-Length"]
        headers.append((b"Transfer-Encoding", b"chunked"))
        body = chunked(case, body)
    colon, eol = case.choice([b": "] * 8 + [b":", b":\t", b" :"]), case.choice([b"\r\n"] * 20 + [b"\n", b"\r"])
    lines = [f"{verb} {target} {version}".encode("latin-1"), *(name + colon + value for name, value in headers)]
    return eol.join([*lines, b"", b""]) + body


def chunked(case: Case, body: bytes) -> bytes:
    cuts = sorted(case.randint(0, len(body)) for _ in range(case.randint(0, 3)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + case.choice(
        [b"0\r\n\r\n"] * 6 + [b"", b"0\r\nX: y\r\n\r\n", b"zz\r\n"]
    )


def a_connection(case: Case) -> list[bytes]:
    """One to five requests in pieces: each by itself, all at once, cut anywhere, and sometimes damaged."""
    requests = [a_request(case) for _ in range(case.randint(1, 5))]
    how = case.random()
    if how < 0.5:
        return requests
    data = bytearray(b"".join(requests))
    if how > 0.9:
        for _ in range(case.randint(1, 3)):
            data[case.randrange(min(len(data), 400))] = case.choice(b"\r\n\0: \xff09az")
    cuts = sorted({case.randint(1, len(data)) for _ in range(case.randint(0, 12))} | {len(data)})
    return [bytes(data[start:end]) for start, end in zip([0, *cuts], cuts, strict=False)]


@contextlib.asynccontextmanager
async def two_ways(path: Path) -> AsyncIterator[tuple[Way, Way]]:
    with Cassette(path) as one, Cassette(path) as other:
        yield Way(one, quick=True), Way(other, quick=False)


@pytest.mark.slow
def test_both_ways_say_the_same_to_anything(tmp_path: Path) -> None:
    path = cassette(tmp_path / "tape.db", both_eras)

    async def compare(case: Case) -> None:
        async with two_ways(path) as (quick, long):
            for pieces in [*_OPENING, *(a_connection(case) for _ in range(6))]:
                said = await quick.say(pieces), await long.say(pieces)
                assert said[0] == said[1], pieces
            assert quick.accidents == long.accidents == []
            assert quick.at_once > long.at_once == 0

    for case in cases(25):
        asyncio.run(asyncio.wait_for(compare(case), WAIT))


# What comes for a call that was answered at once, later ---------------------------------------------------


def _plain_calls(http: Http) -> None:
    """Two calls of which the answer is all, one of them as an event, and a stream of the server's own."""
    http.post("post-1", _INITIALIZE)
    http.answer("post-1", result(0), mcp_session_id="S")
    http.open("get-1", mcp_session_id="S")
    http.respond("get-1")
    http.post("post-2", call(1, "a", token="a"), mcp_session_id="S")
    http.answer("post-2", result(1, "a"))
    http.post("post-3", call(2, "b", token="b"), mcp_session_id="S")
    http.respond("post-3")
    http.event("post-3", result(2, "b"), "e1")
    http.end("server", "post-3")


def _heard(http: Http, channel: str, text: str) -> None:
    http.post(channel, text, mcp_session_id="S")
    http.answer(channel, "", 202)


def late_progress(http: Http) -> None:
    _plain_calls(http)
    _heard(http, "post-4", _ROOTS)
    http.event("get-1", progress("a", 1), "g1")
    http.event("get-1", progress("b", 1), "g2")


def late_cancels(http: Http) -> None:
    _plain_calls(http)
    for number in (2, 1):
        _heard(http, f"post-{6 - number}", tell("notifications/cancelled", requestId=number))
        http.event("get-1", tell("notifications/message", data=f"of {number}"), f"g{number}")
        http.event("get-1", result(number, "once more"))


def behind_the_answer(http: Http) -> None:
    _plain_calls(http)
    http.open("get-2", mcp_session_id="S", last_event_id="e1")
    http.respond("get-2")
    _heard(http, "post-4", _ROOTS)
    http.event("get-2", progress("b", 1), "e2")


_ROOTS = tell("notifications/roots/list_changed")
_CANCELS = [tell("notifications/cancelled", requestId=number) for number in (31, 30)]


def listening(event: str = "") -> bytes:
    resumes = f"Last-Event-ID: {event}\r\n" if event else ""
    return f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nMcp-Session-Id: S\r\n{resumes}\r\n".encode()


@pytest.mark.parametrize(
    ("talk", "texts", "expected"),
    [
        (late_progress, [_ROOTS], [b'"progressToken": "x"', b'"progressToken": "y"']),
        (late_cancels, _CANCELS, [b"of 2", b'"id": 31', b"of 1", b'"id": 30']),
        (behind_the_answer, [_ROOTS], [b"id: e2", b'"progressToken": "y"']),
    ],
)
def test_both_ways_say_the_same_of_calls_that_were_answered(
    talk: Talk, texts: list[str], expected: list[bytes], tmp_path: Path
) -> None:
    path = cassette(tmp_path / "tape.db", talk)
    asked = [call(30, "a", token="x"), call(31, "b", token="y"), *texts]

    async def said(way: Way) -> list[bytes]:
        pieces = [plain_request(text) for text in (_INITIALIZE, *asked)] + [
            listening(),
            listening("e1"),
            listening("e2"),
        ]
        return [await way.say([piece]) for piece in pieces]

    async def compare() -> None:
        async with two_ways(path) as (quick, long):
            one, other = await said(quick), await said(long)
            assert one == other
            assert quick.at_once >= 2
            places = [b"".join(one[-3:]).find(text) for text in expected]
            assert places == sorted(places) and -1 not in places

    asyncio.run(asyncio.wait_for(compare(), WAIT))
