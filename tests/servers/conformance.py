"""A server with everything that the official conformance suite requires, over Streamable HTTP, in both eras.

python -m tests.servers.conformance

It prints its URL once it listens. Its messages depend on no clock and no chance, except for the session ids that the
SDK makes.
"""

from __future__ import annotations

import asyncio
import socket
import warnings
from typing import Any

import uvicorn
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import EmptyResult, JSONRPCMessage

from . import conformance_content as content
from . import conformance_inputs as inputs
from .conformance_tasks import EXTENSION, TaskParams, Tasks, UpdateParams
from .conformance_tools import Toolbox

# Logging and similar features are deprecated in this SDK, but the older revisions have them.
warnings.simplefilter("ignore")

Ctx = ServerRequestContext[Any, Any]
LISTS: tuple[CacheableMethod, ...] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)


class Events(EventStore):
    """The events of every stream, so that a disconnected client can resume."""

    def __init__(self) -> None:
        self.events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        if not 0 < last <= len(self.events):
            return None
        stream_id = self.events[last - 1][0]
        for number, (stream, message) in enumerate(self.events[last:], last + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


def build() -> Server[Any]:
    """The server, with everything that it offers."""
    bus, board = InMemorySubscriptionBus(), Tasks()
    toolbox = Toolbox(bus, board)

    async def get_prompt(ctx: Ctx, params: Any) -> Any:
        if form := inputs.FORMS.get(params.name):
            asked, told = inputs.fill(form, ctx)
            return await done(asked or content.said(content.text(told)))
        return await done(content.get_prompt(params.name, params.arguments or {}))

    async def call_tool(ctx: Ctx, params: Any) -> Any:
        return await done(await toolbox.call(ctx, params.name, params.arguments or {}))

    server: Server[Any] = Server(
        "conformance",
        version="1.0.0",
        cache_hints={method: CacheHint(ttl_ms=60_000, scope="public") for method in LISTS},
        on_list_tools=always(toolbox.listed),
        on_call_tool=call_tool,
        on_list_resources=always(content.list_resources),
        on_list_resource_templates=always(content.list_templates),
        on_read_resource=read_resource,
        on_subscribe_resource=acknowledge,
        on_unsubscribe_resource=acknowledge,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=always(content.list_prompts),
        on_get_prompt=get_prompt,
        on_completion=always(lambda: {"completion": {"values": ["test", "testing"], "total": 2, "hasMore": False}}),
        on_set_logging_level=acknowledge,
    )
    server.extensions[EXTENSION] = {}
    server.add_request_handler("tasks/get", TaskParams, board.get)
    server.add_request_handler("tasks/update", UpdateParams, board.update)
    server.add_request_handler("tasks/cancel", TaskParams, board.cancel)
    return server


async def read_resource(_: Ctx, params: Any) -> Any:
    return await done(content.read_resource(params.uri))


def always(make: Any) -> Any:
    """A handler that ignores the params of a request."""
    return lambda *_: done(make())


async def acknowledge(*_: object) -> EmptyResult:
    return EmptyResult()


async def done(result: dict[str, Any]) -> dict[str, Any]:
    """A result for the newest revision; for the others the SDK removes unknown members."""
    return {"resultType": "complete", **result}


async def serve(app: Any) -> None:
    """Listen, and print the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        runner = uvicorn.Server(uvicorn.Config(app, http="h11", log_level="warning", timeout_graceful_shutdown=1))
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        await runner.serve([listening])


if __name__ == "__main__":
    asyncio.run(serve(build().streamable_http_app(event_store=Events(), retry_interval=100)))
