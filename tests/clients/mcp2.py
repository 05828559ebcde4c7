"""The official Python SDK 2.x as a client: python mcp2.py auto|legacy COMMAND... | URL"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import mcp_types as types
from http_session import NO_TLS, TIMEOUT, Heard, Stream, is_old, is_url
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from scripted_session import ELICITED, ROOTS, SAMPLED, Seen, Step, offered

# Ping and similar requests are deprecated in this SDK, but the older revisions have them.
warnings.simplefilter("ignore")


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def callbacks(seen: Seen) -> dict[str, Any]:
    async def sample(_: Any, params: Any) -> types.CreateMessageResult:
        seen.asked("sampling", plain(params))
        return types.CreateMessageResult.model_validate(SAMPLED)

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        seen.asked("elicitation", plain(params))
        return types.ElicitResult.model_validate(ELICITED)

    async def list_roots(_: Any) -> types.ListRootsResult:
        seen.asked("roots", {})
        return types.ListRootsResult.model_validate(ROOTS)

    async def notified(message: Any) -> None:
        if isinstance(message, Exception):
            raise message
        seen.notified(plain(message))

    return {
        "sampling_callback": sample,
        "elicitation_callback": elicit,
        "list_roots_callback": list_roots,
        "message_handler": notified,
    }


async def do(client: Client, step: Step, on_progress: Callable[..., Awaitable[None]]) -> Any:
    match step["do"]:
        case "tools":
            return plain(await client.list_tools())
        case "call":
            progress = on_progress if step.get("progress") else None
            return plain(await client.call_tool(step["name"], step["arguments"], progress_callback=progress))
        case "resources":
            return plain(await client.list_resources())
        case "templates":
            return plain(await client.list_resource_templates())
        case "read":
            return plain(await client.read_resource(step["uri"]))
        case "prompts":
            return plain(await client.list_prompts())
        case "prompt":
            return plain(await client.get_prompt(step["name"], step["arguments"]))
        case "complete":
            ref = types.PromptReference(type="ref/prompt", name=step["prompt"])
            return plain(await client.complete(ref, {"name": step["argument"], "value": step["value"]}))
        case "ping":
            return plain(await client.send_ping())
        case "log-level":
            return plain(await client.set_logging_level(step["level"]))
    raise ValueError(step["do"])


def server(stream: Stream, target: str, *args: str) -> Any:
    """A command or a URL, in the form that the client accepts."""
    if not is_url(target):
        return StdioServerParameters(command=target, args=list(args))
    if is_old(target):
        return sse_client(target, timeout=TIMEOUT)
    http = httpx2.AsyncClient(verify=NO_TLS, timeout=TIMEOUT, event_hooks=stream.hooks)
    return streamable_http_client(target, http_client=http)


async def main(mode: str, *target: str) -> None:
    seen, stream = Heard(), Stream(target[0])
    # In the newest revision a client gets log messages only on request.
    options = {"mode": mode, "read_timeout_seconds": TIMEOUT, "log_level": "info"}
    async with Client(server(stream, *target), **options, **offered(callbacks(seen))) as client:
        tools = await client.list_tools()
        seen.document["connected"] = {
            "protocol": client.protocol_version,
            "server": plain(client.server_info) if client.server_info else None,
            "capabilities": plain(client.server_capabilities),
            "instructions": client.instructions,
        }
        modern = client.protocol_version >= "2026"
        await stream.opened(modern)
        await seen.play(lambda step, report: do(client, step, report), [t.name for t in tools.tools], modern)
    seen.print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
