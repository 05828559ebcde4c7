"""uvicorn's inside as it is relied on, and requests that are handed over to it as they were parsed."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import h11
import pytest
import uvicorn
from uvicorn.protocols.http import h11_impl
from uvicorn.server import ServerState

from mcp_tape.transports.http import listen
from mcp_tape.transports.http.asgi import Receive, Scope, Send, answer
from mcp_tape.transports.http.guard import Guard
from mcp_tape.transports.http.shortcut import Found, Request
from tests.support.running import WAIT

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


# What is relied on ---------------------------------------------------------------------------------------

CYCLE = "scope conn transport flow logger access_logger access_log default_headers message_event on_response".split()
METHODS = (
    "connection_made connection_lost data_received handle_events on_response_complete send_400_response "
    "timeout_keep_alive_handler _unset_keepalive_if_required"
).split()
ATTRIBUTES = (
    "app conn flow cycle transport loop tasks server_state timeout_keep_alive "
    "timeout_keep_alive_task logger access_logger access_log"
).split()
OF_SERVERS = "startup main_loop on_tick shutdown capture_signals should_exit server_state config".split()
OF_FLOWS = "read_paused write_paused pause_reading resume_reading".split()
OF_CYCLES = "conn body more_body message_event disconnected response_complete keep_alive".split()


def told(what: str) -> str:
    return f"uvicorn {uvicorn.__version__} differs inside: {what}; see mcp_tape/transports/http/listen.py"


def test_the_requirement_is_what_the_code_is_known_to_work_with() -> None:
    assert f'"{listen.UVICORN}",' in PYPROJECT.read_text("utf-8")


def test_uvicorn_is_inside_as_it_is_relied_on() -> None:
    missing = [name for name in METHODS if not inspect.isfunction(getattr(h11_impl.H11Protocol, name, None))]
    assert not missing, told(f"H11Protocol has no {missing}")
    taken = list(inspect.signature(h11_impl.RequestResponseCycle).parameters)
    assert taken == CYCLE, told(f"a cycle is made of {taken}")
    assert isinstance(h11_impl.STATUS_PHRASES, dict), told("STATUS_PHRASES is no dict")

    async def look() -> dict[str, list[str]]:
        protocol: Any = made(Echo())
        flow = h11_impl.FlowControl(None)  # type: ignore[arg-type]
        cycle = h11_impl.RequestResponseCycle(**(dict.fromkeys(CYCLE) | {"conn": protocol.conn}))  # type: ignore[arg-type]
        parts = {"protocol": (protocol, ATTRIBUTES), "cycle": (cycle, OF_CYCLES), "flow": (flow, OF_FLOWS)}
        parts["server"] = (uvicorn.Server(uvicorn.Config(Echo())), OF_SERVERS)
        return {part: [name for name in names if not hasattr(one, name)] for part, (one, names) in parts.items()}

    for part, names in asyncio.run(look()).items():
        assert not names, told(f"its {part} has no {names}")


def test_h11_frames_a_response_to_what_it_has_not_read() -> None:
    connection = h11.Connection(h11.SERVER)
    connection.their_http_version = b"1.1"
    sent = connection.send(h11.Response(status_code=200, headers=[], reason=b"OK"))
    assert sent == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert connection.send(h11.Data(data=b"x")) == b"1\r\nx\r\n"
    assert (connection.send(h11.EndOfMessage()), connection.our_state) == (b"0\r\n\r\n", h11.DONE)


# Handing over --------------------------------------------------------------------------------------------

Application = Callable[[Scope, Receive, Send], Any]


def made(app: Application, quick: Callable[[Request], Found] | None = None) -> asyncio.Protocol:
    guard = Guard(app, "127.0.0.1", lambda error: None)
    guard.quick = quick
    config = listen.configured(guard)
    config.load()
    return config.http_protocol_class(config, ServerState(), {})  # type: ignore[call-arg,return-value]


@contextlib.asynccontextmanager
async def connected(app: Application, quick: Callable[[Request], Found] | None) -> AsyncIterator[socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(partial(made, app, quick), theirs)
    with contextlib.closing(ours):
        yield ours
    transport.close()


def posted(path: str, body: str) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


def ended(body: str) -> bytes:
    kind = "content-type: text/plain; charset=utf-8"
    return f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n{kind}\r\n\r\n{body}".encode()


class Echo:
    """Answers with the path and the body, those of `/slow` when it may."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.heard: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"].decode()
        if scope["path"] == "/slow":
            await self.go_on.wait()
        await answer(send, 200, f"{scope['path']} {body}")
        self.heard.append((await receive())["type"])


@pytest.mark.parametrize("how", ["by h11", "left to the application", "by another application"])
def test_what_comes_while_a_request_is_answered_waits_for_its_turn(how: str) -> None:
    async def talk() -> bytes:
        echo = Echo()

        def quick(request: Request) -> Found:
            if request.path == "/quick":
                return ended("at once")
            return echo if how == "by another application" else None

        loop = asyncio.get_running_loop()
        async with connected(echo, None if how == "by h11" else quick) as ours:
            for piece in (
                posted("/slow", "1"),
                posted("/fast", "2")[:20],
                posted("/fast", "2")[20:] + posted("/slow", "3"),
            ):
                await loop.sock_sendall(ours, piece)
                await asyncio.sleep(0.01)
            echo.go_on.set()
            got = b""
            while got.count(b"HTTP/1.1") < 3 or not got.endswith(b"3"):
                got += await loop.sock_recv(ours, 1 << 16)
        return got

    got = asyncio.run(asyncio.wait_for(talk(), WAIT))
    assert got == ended("/slow 1") + ended("/fast 2") + ended("/slow 3")


def test_a_quick_answer_follows_one_that_was_handed_over() -> None:
    async def talk() -> tuple[bytes, bytes, list[str]]:
        echo, loop = Echo(), asyncio.get_running_loop()
        quick = {"/quick": ended("at once"), "/slow": None}
        async with connected(echo, lambda request: quick[request.path]) as ours:
            await loop.sock_sendall(ours, posted("/slow", "1"))
            await asyncio.sleep(0.01)
            echo.go_on.set()
            first = await loop.sock_recv(ours, 1 << 16)
            await loop.sock_sendall(ours, posted("/quick", "2"))
            return first, await loop.sock_recv(ours, 1 << 16), echo.heard

    first, second, heard = asyncio.run(asyncio.wait_for(talk(), WAIT))
    assert (first, second, heard) == (ended("/slow 1"), ended("at once"), ["http.disconnect"])


def test_a_client_that_leaves_is_noticed() -> None:
    async def talk() -> str:
        left: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def wait(scope: Scope, receive: Receive, send: Send) -> None:
            assert (await receive())["body"] == b"1"
            left.set_result((await receive())["type"])

        async with connected(wait, lambda request: None) as ours:
            await asyncio.get_running_loop().sock_sendall(ours, posted("/mcp", "1"))
            await asyncio.sleep(0.01)
        return await left

    assert asyncio.run(asyncio.wait_for(talk(), WAIT)) == "http.disconnect"


def test_a_connection_stays_open_for_a_while_after_each_answer() -> None:
    async def talk() -> tuple[bool, bytes]:
        loop, (ours, theirs) = asyncio.get_running_loop(), socket.socketpair()
        ours.setblocking(False)
        make = partial(made, Echo(), lambda request: ended("at once"))
        transport, protocol = await loop.connect_accepted_socket(make, theirs)
        quiet: Any = protocol
        with contextlib.closing(ours):
            for _ in range(2):
                await loop.sock_sendall(ours, posted("/quick", ""))
                await loop.sock_recv(ours, 1 << 16)
            quiet.timeout_keep_alive_handler()  # the timer of the first answer
            stayed = not transport.is_closing()
            quiet.timeout_keep_alive = 0
            quiet.timeout_keep_alive_handler()
            return stayed, await loop.sock_recv(ours, 1 << 16)

    assert asyncio.run(asyncio.wait_for(talk(), WAIT)) == (True, b"")


def test_a_request_larger_than_what_is_read_at_once_arrives_whole() -> None:
    body = "x" * 300_000

    async def talk() -> bytes:
        loop, echo, got = asyncio.get_running_loop(), Whole(), b""
        async with connected(echo, lambda request: None) as ours:
            await loop.sock_sendall(ours, posted("/mcp", body))
            while not got.endswith(b"300000"):
                got += await loop.sock_recv(ours, 1 << 16)
        return got

    assert asyncio.run(asyncio.wait_for(talk(), WAIT)) == ended("300000")


class Whole:
    """Answers with the length of the body."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length, more = 0, True
        while more:
            message = await receive()
            length, more = length + len(message["body"]), message["more_body"]
        await answer(send, 200, str(length))
