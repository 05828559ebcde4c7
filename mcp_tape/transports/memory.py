"""The streams that clients of the official SDK, and of fastmcp, read from and write to.

Imports the SDK, 1.x or 2.x, which only its users have; its own transports and fastmcp only where they are used.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from ..replay.sends import Send

if TYPE_CHECKING:
    from ..replay.sends import Player

_CHANNEL = "memory"
_NO_BOUND = float("inf")


@contextlib.asynccontextmanager
async def streams(players: Callable[[], contextlib.AbstractContextManager[Player]]) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a ClientSession, with a player at their other end."""
    to_client, reads = anyio.create_memory_object_stream[Any](_NO_BOUND)
    writes, from_client = anyio.create_memory_object_stream[Any](_NO_BOUND)
    with players() as player:
        async with anyio.create_task_group() as tasks, to_client, reads, writes, from_client:
            tasks.start_soon(_play, player, from_client, to_client)
            yield reads, writes
            tasks.cancel_scope.cancel()


async def _play(player: Player, from_client: Any, to_client: Any) -> None:
    """Receive and send until one side has ended."""
    with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while await _send(player, to_client):
            due = player.next_at()
            with anyio.move_on_after(None if due is None else max(0.0, due - anyio.current_time())):
                message = await from_client.receive()
                player.receive(_text(message.message), _CHANNEL, anyio.current_time())
    await to_client.aclose()


async def _send(player: Player, to_client: Any) -> bool:
    """Send what is due; False if the player hung up."""
    for action in player.due(anyio.current_time()):
        if not isinstance(action, Send):
            return False  # actions for HTTP alone hang up here too
        if action.recorded is None or action.recorded.kind != "noise":
            await to_client.send(_message(action.text))
    return True


_sdk: Any = types  # of either generation
_IS_SECOND = hasattr(_sdk, "jsonrpc_message_adapter")


def _text(message: Any) -> bytes:
    left_out = {"exclude_unset": True} if _IS_SECOND else {"exclude_none": True}
    return str(message.model_dump_json(by_alias=True, **left_out)).encode()


def _message(text: bytes) -> SessionMessage | Exception:
    """A message as the SDK's own transports pass it on: as an exception if it is none."""
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
