"""The official Python SDK 1.x as a client: python mcp1.py COMMAND... | URL"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
from http_session import NO_TLS, TIMEOUT, Heard, Stream, is_old, is_url
from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from scripted_session import ELICITED, ROOTS, SAMPLED, Seen, Step, offered


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
        if isinstance(message, types.ServerNotification):
            seen.notified(plain(message))

    return {
        "sampling_callback": sample,
        "elicitation_callback": elicit,
        "list_roots_callback": list_roots,
        "message_handler": notified,
    }


async def do(session: ClientSession, step: Step, on_progress: Callable[..., Awaitable[None]]) -> Any:
    match step["do"]:
        case "tools":
            return plain(await session.list_tools())
        case "call":
            progress = on_progress if step.get("progress") else None
            return plain(await session.call_tool(step["name"], step["arguments"], progress_callback=progress))
        case "resources":
            return plain(await session.list_resources())
        case "templates":
            return plain(await session.list_resource_templates())
        case "read":
            return plain(await session.read_resource(step["uri"]))
        case "prompts":
            return plain(await session.list_prompts())
        case "prompt":
            return plain(await session.get_prompt(step["name"], step["arguments"]))
        case "complete":
            ref = types.PromptReference(type="ref/prompt", name=step["prompt"])
            return plain(await session.complete(ref, {"name": step["argument"], "value": step["value"]}))
        case "ping":
            return plain(await session.send_ping())
        case "log-level":
            return plain(await session.set_logging_level(step["level"]))
    raise ValueError(step["do"])


@contextlib.asynccontextmanager
async def connected(stream: Stream, target: str, *args: str) -> AsyncIterator[tuple[Any, Any]]:
    """The two ways to connect: to a command or a URL."""
    if not is_url(target):
        async with stdio_client(StdioServerParameters(command=target, args=list(args))) as both:
            yield both
    elif is_old(target):
        async with sse_client(target, timeout=TIMEOUT) as both:
            yield both
    else:
        async with (
            httpx.AsyncClient(verify=NO_TLS, timeout=TIMEOUT, event_hooks=stream.hooks) as http,
            streamable_http_client(target, http_client=http) as (reader, writer, _),
        ):
            yield reader, writer


async def main(*target: str) -> None:
    seen, stream = Heard(), Stream(target[0])
    patience = timedelta(seconds=TIMEOUT)
    async with (
        connected(stream, *target) as (reader, writer),
        ClientSession(reader, writer, read_timeout_seconds=patience, **offered(callbacks(seen))) as session,
    ):
        seen.document["connected"] = plain(await session.initialize())
        await stream.opened(modern=False)
        tools = await session.list_tools()
        await seen.play(lambda step, report: do(session, step, report), [t.name for t in tools.tools], modern=False)
    seen.print()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
