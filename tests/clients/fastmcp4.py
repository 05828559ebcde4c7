"""fastmcp 4 as a client: python fastmcp4.py COMMAND... | URL"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import ClientTransport, SSETransport, StdioTransport, StreamableHttpTransport
from http_session import TIMEOUT, Heard, Stream, is_old, is_url
from scripted_session import ELICITED, ROOTS, SAMPLED, Seen, Step, offered

# Ping and similar requests are deprecated in the underlying SDK, but the older revisions have them.
warnings.simplefilter("ignore")


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def callbacks(seen: Seen) -> dict[str, Any]:
    async def sample(_messages: Any, params: Any, _context: Any) -> types.CreateMessageResult:
        seen.asked("sampling", plain(params))
        return types.CreateMessageResult.model_validate(SAMPLED)

    async def elicit(_message: str, _type: Any, params: Any, _context: Any) -> types.ElicitResult:
        seen.asked("elicitation", plain(params))
        return types.ElicitResult.model_validate(ELICITED)

    async def list_roots(_: Any) -> list[types.Root]:
        seen.asked("roots", {})
        return types.ListRootsResult.model_validate(ROOTS).roots

    async def notified(message: Any) -> None:
        if isinstance(message, Exception):
            raise message
        seen.notified(plain(message))

    return {
        "sampling_handler": sample,
        "elicitation_handler": elicit,
        "roots": list_roots,
        "message_handler": notified,
    }


async def do(client: Client[Any], step: Step, on_progress: Callable[..., Awaitable[None]]) -> Any:
    match step["do"]:
        case "tools":
            return plain(await client.list_tools_mcp())
        case "call":
            progress = on_progress if step.get("progress") else None
            return plain(await client.call_tool_mcp(step["name"], step["arguments"], progress_handler=progress))
        case "resources":
            return plain(await client.list_resources_mcp())
        case "templates":
            return plain(await client.list_resource_templates_mcp())
        case "read":
            return plain(await client.read_resource_mcp(step["uri"]))
        case "prompts":
            return plain(await client.list_prompts_mcp())
        case "prompt":
            return plain(await client.get_prompt_mcp(step["name"], step["arguments"]))
        case "complete":
            ref = types.PromptReference(type="ref/prompt", name=step["prompt"])
            return plain(await client.complete_mcp(ref, {"name": step["argument"], "value": step["value"]}))
        case "ping":
            return await client.ping()
        case "log-level":
            return await client.set_logging_level(step["level"])
    raise ValueError(step["do"])


def transport(stream: Stream, target: str, *args: str) -> ClientTransport:
    """The transport to a command or a URL."""
    if not is_url(target):
        # Without keep_alive the server ends with the session, as it does with the other clients.
        return StdioTransport(target, list(args), keep_alive=False)
    if is_old(target):
        return SSETransport(target)

    def http(**options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(event_hooks=stream.hooks, **options)

    return StreamableHttpTransport(target, httpx_client_factory=http)


async def main(*target: str) -> None:
    seen, stream = Heard(), Stream(target[0])
    async with Client(transport(stream, *target), timeout=TIMEOUT, **offered(callbacks(seen))) as client:
        tools = await client.list_tools()
        seen.document["connected"] = {
            "protocol": client.protocol_version,
            "server": plain(client.server_info) if client.server_info else None,
            "capabilities": plain(client.server_capabilities),
            "instructions": client.instructions,
        }
        modern = (client.protocol_version or "") >= "2026"
        await stream.opened(modern)
        await seen.play(lambda step, report: do(client, step, report), [t.name for t in tools], modern)
    seen.print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
