"""Connections: the order of requests, the framing of responses, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import h11
import pytest

from mcp_tape.transports.http import listen
from mcp_tape.transports.http.guard import Guard
from mcp_tape.transports.http.listen import HttpRequest, Serving
from mcp_tape.transports.http.message import ClientLeftError, Headers, Work
from tests.support.running import WAIT

MB = 1_000_000
TEXT: Headers = [(b"content-type", b"text/plain")]
Talk = Callable[["Client"], Awaitable[Any]]


class Served:
    """An application that answers by a function, with its refusals and failures."""

    def __init__(self, answer: Callable[[HttpRequest], Work | None], max_body: int | None = MB) -> None:
        self.answer = answer
        self.max_body = max_body
        self.refused: list[str] = []
        self.failed: list[Exception] = []

    def __call__(self, request: HttpRequest) -> Work | None:
        return self.answer(request)

    def expects(self, target: str) -> bool:
        return target == "/expected"

    def refuse(self, what: str) -> None:
        self.refused.append(what)


class Client:
    """The other end of a connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.sock, data)

    async def more(self) -> bytes:
        return await self.loop.sock_recv(self.sock, 1 << 16)

    async def until(self, end: bytes) -> bytes:
        got = b""
        while not got.endswith(end):
            more = await self.more()
            assert more, got
            got += more
        return got

    async def rest(self) -> bytes:
        """All data until the server closes."""
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while more := await self.more():
                got += more
        return got


@contextlib.asynccontextmanager
async def connected(served: Served, **more: Any) -> AsyncIterator[tuple[Client, Serving]]:
    serving = Serving(served, Guard("127.0.0.1"), served.failed.append, **more)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    await serving.adopt(theirs, b"")
    with contextlib.closing(ours):
        yield Client(ours), serving
    await serving.end()


def talk(served: Served, with_client: Talk, **more: Any) -> Any:
    async def run() -> Any:
        async with connected(served, **more) as (client, _):
            return await with_client(client)

    return asyncio.run(asyncio.wait_for(run(), WAIT))


def posted(path: str, body: str = "", more: str = "", version: str = "1.1") -> bytes:
    head = f"POST {path} HTTP/{version}\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return (head + body).encode()


def echo(request: HttpRequest) -> None:
    request.respond(200, TEXT, f"{request.path} {(request.body or b'').decode()}".encode())


def echoed(text: str, close: bool = False) -> bytes:
    closing = "connection: close\r\n" if close else ""
    return f"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\n{closing}\r\n{text}".encode()


# Turns ---------------------------------------------------------------------------------------------------


def test_requests_that_arrive_during_another_wait_for_their_turn() -> None:
    async def run() -> bytes:
        go_on, asked = asyncio.Event(), asyncio.Event()

        def answer(request: HttpRequest) -> Work | None:
            if request.path != "/slow":
                return echo(request)  # type: ignore[func-returns-value]
            return wait(request)

        async def wait(request: HttpRequest) -> None:
            asked.set()
            await go_on.wait()
            echo(request)

        async with connected(Served(answer)) as (client, _):
            await client.send(posted("/slow", "1"))
            await asked.wait()
            await client.send(posted("/fast", "2")[:20])
            await client.send(posted("/fast", "2")[20:] + posted("/slow", "3"))
            go_on.set()
            return await client.until(b"/slow 3")

    got = asyncio.run(asyncio.wait_for(run(), WAIT))
    assert got == echoed("/slow 1") + echoed("/fast 2") + echoed("/slow 3")


def test_requests_that_come_together_are_answered_in_order() -> None:
    together = b"".join(posted(f"/{number}", str(number)) for number in range(500))

    async def with_client(client: Client) -> bytes:
        sending = asyncio.ensure_future(client.send(together))
        got = await client.until(b"/499 499")
        await sending
        return got

    assert talk(Served(echo), with_client) == b"".join(echoed(f"/{number} {number}") for number in range(500))


def test_a_client_that_leaves_is_noticed() -> None:
    async def run() -> list[str]:
        heard: list[str] = []
        left = asyncio.Event()

        def answer(request: HttpRequest) -> None:
            request.begin(200, TEXT)
            request.when_left = lambda: (heard.append("left"), left.set())

        async with connected(Served(answer)) as (client, _):
            await client.send(posted("/mcp"))
            await client.until(b"\r\n\r\n")
            client.sock.shutdown(socket.SHUT_WR)
            await left.wait()
        return heard

    assert asyncio.run(asyncio.wait_for(run(), WAIT)) == ["left"]


# Bodies --------------------------------------------------------------------------------------------------


def test_a_body_is_read_piece_by_piece_where_it_is_not_collected() -> None:
    sizes: list[int] = []

    async def answer(request: HttpRequest) -> None:
        async for piece in request.pieces():
            sizes.append(len(piece))
        request.respond(200, TEXT, b"%d" % sum(sizes))

    async def with_client(client: Client) -> bytes:
        await client.send(posted("/", "x" * 3 * MB))
        return await client.until(b"3000000")

    assert b"200 OK" in talk(Served(answer, None), with_client)
    assert 1 < max(sizes) <= 1 << 17


def test_a_body_that_breaks_off_is_not_whole() -> None:
    ended: list[type[Exception]] = []

    async def run() -> None:
        over = asyncio.Event()

        async def answer(request: HttpRequest) -> None:
            try:
                async for _ in request.pieces():
                    pass
            except ClientLeftError as error:
                ended.append(type(error))
                raise
            finally:
                over.set()

        served = Served(answer, None)
        async with connected(served) as (client, _):
            await client.send(posted("/", "x" * 100)[:-1])
            client.sock.shutdown(socket.SHUT_WR)
            await over.wait()
        assert served.failed == []

    asyncio.run(asyncio.wait_for(run(), WAIT))
    assert ended == [ClientLeftError]


@pytest.mark.parametrize("collected", [True, False])
def test_a_client_that_waits_gets_100_continue(collected: bool) -> None:
    async def stream(request: HttpRequest) -> None:
        request.body = b"".join([piece async for piece in request.pieces()])
        echo(request)

    async def with_client(client: Client) -> tuple[bytes, bytes]:
        head, body = posted("/", "wait", "Expect: 100-continue\r\n").split(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        told = await client.until(b"\r\n\r\n")
        await client.send(body)
        return told, await client.until(b"wait")

    served = Served(echo, 10) if collected else Served(stream, None)
    assert talk(served, with_client) == (b"HTTP/1.1 100 Continue\r\n\r\n", echoed("/ wait"))


@pytest.mark.parametrize("chunked", [True, False])
def test_of_a_body_that_is_too_large_the_rest_is_dropped(chunked: bool) -> None:
    bodies: list[bytes | None] = []

    def answer(request: HttpRequest) -> None:
        bodies.append(request.body)
        request.respond(413, TEXT)

    async def with_client(client: Client) -> bytes:
        size = 5 * MB
        if chunked:
            head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            await client.send(head + b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n")
        else:
            await client.send(posted("/", "x" * size))
        return await client.rest()

    got = talk(Served(answer, 1000), with_client)
    assert (got.count(b"HTTP/1.1 413"), got.count(b"connection: close"), bodies) == (1, 1, [None])


# Responses -----------------------------------------------------------------------------------------------


def read_by_h11(verb: str, data: bytes) -> tuple[int, bytes, bool]:
    """Status and body of a response, and whether the connection stays open, as a strict client reads it."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=verb, target="/", headers=[("host", "127.0.0.1")]))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    status, body = 0, b""
    while not isinstance(event := client.next_event(), h11.EndOfMessage):
        assert event not in (h11.NEED_DATA, h11.PAUSED)
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        if client.their_state is h11.SEND_BODY and not client.trailing_data[0] and b"close" in data:
            client.receive_data(b"")  # the connection's end ends the body
    return status, body, client.their_state is h11.DONE


@pytest.mark.parametrize("verb", ["GET", "HEAD"])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("status", [200, 204, 304, 404, 799])
@pytest.mark.parametrize("how", ["whole", "length", "chunks"])
def test_responses_are_framed_as_http_wants_it(how: str, status: int, version: str, verb: str) -> None:
    def answer(request: HttpRequest) -> None:
        if how == "whole":
            request.respond(status, TEXT, b"both")
        else:
            request.begin(status, [*TEXT, (b"content-length", b"4")] if how == "length" else TEXT)
            request.put(b"bo")
            request.put(b"")
            request.put(b"th")
            request.end()

    async def with_client(client: Client) -> bytes:
        close = "Connection: close\r\n" if version == "1.1" else ""
        await client.send(f"{verb} / HTTP/{version}\r\nHost: 127.0.0.1\r\n{close}\r\n".encode())
        return await client.rest()

    got = talk(Served(answer), with_client)
    body = b"both" if verb == "GET" and status not in (204, 304) else b""
    assert read_by_h11(verb, got)[:2] == (status, body)
    assert got.count(b"connection: close") == 1
    assert got.startswith(b"HTTP/1.1 %d " % status)
    if status == 204:
        assert b"content-length" not in got


def test_a_header_cannot_be_two() -> None:
    def answer(request: HttpRequest) -> None:
        request.respond(200, [(b"x", b"a\r\nb: c")])

    async def with_client(client: Client) -> bytes:
        await client.send(posted("/"))
        return await client.rest()

    served = Served(answer)
    got = talk(served, with_client)
    assert got.startswith(b"HTTP/1.1 500 ") and b"b: c" not in got
    assert [type(error) for error in served.failed] == [ValueError]


@pytest.mark.parametrize("size", [3, 5])
def test_a_response_of_another_length_than_announced_does_not_look_complete(size: int) -> None:
    def answer(request: HttpRequest) -> None:
        request.begin(200, [(b"content-length", b"4")])
        request.put(b"x" * size)
        request.end()

    async def with_client(client: Client) -> bytes:
        await client.send(posted("/"))
        return await client.rest()

    assert len(talk(Served(answer), with_client).partition(b"\r\n\r\n")[2]) < 4


def test_a_response_is_held_up_while_the_client_does_not_read() -> None:
    async def run() -> tuple[int, int]:
        held, sent = asyncio.Event(), 0

        async def answer(request: HttpRequest) -> None:
            nonlocal sent
            request.begin(200, TEXT)
            for _ in range(400):
                sent += 1
                request.put(b"x" * (1 << 16))
                if request.is_held_up:
                    held.set()
                await request.send(b"y")
            request.end()

        async with connected(Served(answer)) as (client, _):
            await client.send(posted("/", more="Connection: close\r\n"))
            await held.wait()
            before = sent
            while await client.more():
                pass
        return before, sent

    before, after = asyncio.run(asyncio.wait_for(run(), WAIT))
    assert before < after == 400


@pytest.mark.slow
def test_a_request_leaves_nothing_for_the_garbage_collector() -> None:
    async def with_client(client: Client) -> int:
        await client.send(posted("/", "x"))
        await client.until(b"/ x")
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                await client.send(posted("/", "x"))
                await client.until(b"/ x")
            return gc.collect()
        finally:
            gc.enable()

    assert talk(Served(echo), with_client) < 50


# Failures and time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("later", [True, False])
def test_a_failure_is_a_500_or_breaks_off(later: bool, begun: bool) -> None:
    def fail(request: HttpRequest) -> None:
        if begun:
            request.begin(200, TEXT)
            request.put(b"first")
        raise KeyError("no")

    async def fail_later(request: HttpRequest) -> None:
        await asyncio.sleep(0)
        fail(request)

    async def with_client(client: Client) -> bytes:
        await client.send(posted("/"))
        return await client.rest()

    served = Served(fail_later if later else fail)
    got = talk(served, with_client)
    assert got.startswith(b"HTTP/1.1 200" if begun else b"HTTP/1.1 500")
    assert not got.endswith(b"0\r\n\r\n")
    assert [type(error) for error in served.failed] == [KeyError]


def test_a_response_that_never_comes_breaks_off() -> None:
    async def nothing(request: HttpRequest) -> None:
        pass

    async def with_client(client: Client) -> bytes:
        await client.send(posted("/"))
        return await client.rest()

    assert talk(Served(nothing), with_client) == b""


def test_a_connection_stays_open_for_a_while_after_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "_KEEP_ALIVE", 0.05)

    async def with_client(client: Client) -> tuple[bytes, bytes]:
        for _ in range(3):
            await client.send(posted("/", "x"))
            got = await client.until(b"/ x")
        return got, await client.rest()

    assert talk(Served(echo), with_client) == (echoed("/ x"), b"")


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (b"no HTTP\r\n\r\n", 400, "this is not an HTTP request"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, 431, "larger than 64 KiB"),
        (posted("/", version="1.9"), 400, "this is not an HTTP request"),
        (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421, "GET / with 421: the host 'evil.test' is not this one"),
        (posted("/x", more="Origin: http://evil.test\r\n"), 403, "POST /x with 403: requests of pages"),
        (posted("/x", more="Sec-Fetch-Site: cross-site\r\n"), 403, "from other sites are refused"),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 405, "CONNECT is not served here"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "the chunks of"),
    ],
)
def test_a_refused_request_is_answered_and_noted(data: bytes, status: int, reason: str) -> None:
    async def with_client(client: Client) -> bytes:
        await client.send(data)
        return await client.until(b"\n")

    served = Served(echo)
    got = talk(served, with_client)
    assert got.startswith(b"HTTP/1.1 %d " % status)
    assert len(served.refused) == 1 and reason in served.refused[0]


def test_a_request_that_asks_for_an_upgrade_is_answered_like_any_other() -> None:
    """Java's client asks for one with every first request."""

    async def with_client(client: Client) -> bytes:
        upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
        await client.send(posted("/", "body", upgrade) + posted("/", "next"))
        return await client.until(b"next")

    assert talk(Served(echo), with_client) == echoed("/ body") + echoed("/ next")


def test_at_the_end_responses_that_are_nearly_done_are_finished() -> None:
    async def run() -> tuple[bytes, bytes]:
        go_on, asked = asyncio.Event(), asyncio.Event()

        async def answer(request: HttpRequest) -> None:
            asked.set()
            await go_on.wait()
            echo(request)

        async with connected(Served(answer)) as (client, serving), connected(Served(echo)) as (idle, other):
            await client.send(posted("/", "soon"))
            await asked.wait()
            ending = asyncio.ensure_future(serving.end())
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.gather(ending, other.end())
            return await client.rest(), await idle.rest()

    first, idle = asyncio.run(asyncio.wait_for(run(), WAIT))
    assert (first, idle) == (echoed("/ soon"), b"")
