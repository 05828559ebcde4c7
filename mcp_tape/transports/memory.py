"""The streams that clients of the official SDK and of fastmcp read and write.

Imports the SDK, 1.x or 2.x, which only its users have. Its own transports and fastmcp are imported on use.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
from mcp import types
from mcp.shared.message import SessionMessage

from ..replay.sends import Send, Silence

if TYPE_CHECKING:
    from ..replay.sends import Player

_CHANNEL = "memory"
_NO_BOUND = float("inf")


@contextlib.asynccontextmanager
async def streams(players: Callable[[], contextlib.AbstractContextManager[Player]]) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a ClientSession, connected to a player."""
    to_client, reads = anyio.create_memory_object_stream[Any](_NO_BOUND)
    with players() as player, to_client, reads:
        async with anyio.create_task_group() as tasks:
            writes = _WriteStream(player, to_client, tasks)
            writes.pass_on()
            yield reads, writes
            tasks.cancel_scope.cancel()


class _WriteStream:
    """The stream that a client writes to. Answers are ready when `send` returns; only delayed ones need a task."""

    def __init__(self, player: Player, to_client: Any, tasks: Any) -> None:
        self._player, self._to_client, self._tasks = player, to_client, tasks
        self._alarm: anyio.CancelScope | None = None
        self._hung_up = self._closed = False

    async def send(self, message: Any) -> None:
        await anyio.lowlevel.checkpoint()
        if self._closed:
            raise anyio.ClosedResourceError
        if not self._hung_up:
            self._player.receive(_text(message.message), _CHANNEL, anyio.current_time())
            self.pass_on()

    def pass_on(self) -> None:
        """Send due messages, and wake up for the next."""
        for action in self._player.due(anyio.current_time()):
            if isinstance(action, Silence):
                continue
            if not isinstance(action, Send):
                self._hang_up()  # also for actions that only HTTP has
                return
            if action.recorded is None or action.recorded.kind != "noise":
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # no reader left
                    self._to_client.send_nowait(_message(action.text))
        if self._alarm is not None:
            self._alarm.cancel()
        due = self._player.next_at()
        if due is not None:
            self._alarm = anyio.CancelScope()
            self._tasks.start_soon(self._wait, due, self._alarm)

    async def _wait(self, due: float, alarm: anyio.CancelScope) -> None:
        with alarm:
            await anyio.sleep_until(due)
        if not alarm.cancel_called and not self._hung_up:
            self.pass_on()

    def _hang_up(self) -> None:
        self._hung_up = True
        self._to_client.close()

    async def aclose(self) -> None:
        self._closed = True
        self._hang_up()

    async def __aenter__(self) -> _WriteStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


_sdk: Any = types  # of either generation
_IS_SECOND = hasattr(_sdk, "jsonrpc_message_adapter")


def _text(message: Any) -> bytes:
    left_out = {"exclude_unset": True} if _IS_SECOND else {"exclude_none": True}
    return str(message.model_dump_json(by_alias=True, **left_out)).encode()


def _message(text: bytes) -> SessionMessage | Exception:
    """A message as the SDK's own transports pass it on: an invalid one as an exception."""
    try:
        if _IS_SECOND:
            return SessionMessage(_sdk.jsonrpc_message_adapter.validate_json(text, by_name=False))
        return SessionMessage(_sdk.JSONRPCMessage.model_validate_json(text))
    except ValueError as error:
        return error


# The SDK's own transports, each as two streams ---------------------------------------------------------


@contextlib.asynccontextmanager
async def to_process(parameters: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Start a stdio server."""
    from mcp.client.stdio import stdio_client

    async with stdio_client(parameters) as (reads, writes):
        yield reads, writes


@contextlib.asynccontextmanager
async def to_url(url: str) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to a Streamable HTTP server."""
    from mcp.client import streamable_http

    sdk: Any = streamable_http
    connect = getattr(sdk, "streamable_http_client", None) or sdk.streamablehttp_client
    async with connect(url) as streams:
        yield streams[0], streams[1]


@contextlib.asynccontextmanager
async def to_old_url(url: str) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to an HTTP+SSE server."""
    from mcp.client.sse import sse_client

    async with sse_client(url) as (reads, writes):
        yield reads, writes


# fastmcp -------------------------------------------------------------------------------------------------


def fastmcp_transport(streams: Callable[[], AbstractAsyncContextManager[tuple[Any, Any]]]) -> Any:
    """A transport for fastmcp's Client; each connection opens its own streams."""
    from fastmcp.client.transports import ClientTransport
    from mcp import ClientSession

    class TapeTransport(ClientTransport):  # type: ignore[misc,unused-ignore]
        @contextlib.asynccontextmanager
        async def connect_session(
            self, *, transport_options: Any = None, **kwargs: Any
        ) -> AsyncIterator[ClientSession]:
            make = transport_options.session_class if transport_options else ClientSession
            async with streams() as (reads, writes), make(reads, writes, **kwargs) as session:
                yield session

    return TapeTransport()
