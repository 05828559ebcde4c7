"""A fastmcp 4 server over stateful Streamable HTTP, the same in every run: python fast.py

Prints its origin once it listens. Tools make their requests to the client in the form of its revision: as server
requests, or as a result that requires input.
"""

from __future__ import annotations

import asyncio
import socket
import warnings
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError

# Sampling and logging are deprecated in the underlying SDK, but the older revisions have them.
warnings.simplefilter("ignore")

server = FastMCP("fast", version="1.0", instructions="Adds, counts, asks and reveals.")
server.disable(names={"hidden"})


@server.tool
def add(a: int, b: int) -> int:
    """Two numbers, added."""
    return a + b


@server.tool
def fail(why: str) -> str:
    """Nothing but an error."""
    raise ToolError(why)


@server.tool
async def count(to: int, context: Context) -> str:
    """Counts aloud: a report of progress and a log message for each number."""
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"at {number}")
        await context.info(f"counted {number}")
    return f"counted to {to}"


@server.tool
async def converse(topic: str, context: Context) -> Any:
    """Asks the client's model, then its user, and reports how far it is in between."""
    ask = _in_rounds if _has_rounds(context) else _by_requests
    return await ask(topic, context)


@server.tool
async def reveal(context: Context) -> str:
    """Shows a hidden tool for the rest of the session, and announces the change of the list."""
    if _has_rounds(context):  # and no session
        await context.send_notification(types.ToolListChangedNotification())
    else:
        await context.enable_components(names={"hidden"}, components={"tool"})
    return "revealed"


@server.tool
def hidden() -> str:
    """Shown only after it was revealed."""
    return "found"


@server.resource("fast://poem", mime_type="text/plain")
def poem() -> str:
    """A line that never changes."""
    return "Tapes are black"


@server.resource("fast://squares/{number}")
def square(number: int) -> str:
    """A number times itself."""
    return str(number * number)


@server.prompt
def greet(name: str) -> str:
    """A greeting to be answered."""
    return f"Say hello to {name}."


def _has_rounds(context: Context) -> bool:
    """Whether the client's revision works in rounds: then the server sends no requests."""
    return context.request_context is not None and context.request_context.protocol_version >= "2026"


async def _by_requests(topic: str, context: Context) -> str:
    session, number = context.session, context.request_id
    await context.report_progress(1, 3, "about to ask the model")
    model = _sampling(topic).params
    said = await session.create_message(model.messages, max_tokens=model.max_tokens, related_request_id=number)
    await context.report_progress(2, 3, "about to ask the user")
    user = _elicitation(said.content.text).params
    chosen = await session.elicit(user.message, user.requested_schema, related_request_id=number)
    await context.report_progress(3, 3, "asked")
    return f"{said.content.text} {chosen.action} {chosen.content['name']}"


async def _in_rounds(topic: str, context: Context) -> str | types.InputRequiredResult:
    """The same in rounds: the outcome of an earlier round comes back as the state of the request."""
    answers = context.input_responses or {}
    if chosen := answers.get("user"):
        await context.report_progress(3, 3, "asked")
        return f"{context.request_state} {chosen.action} {chosen.content['name']}"
    if said := answers.get("model"):
        await context.report_progress(2, 3, "about to ask the user")
        text = said.content.text
        return types.InputRequiredResult(input_requests={"user": _elicitation(text)}, request_state=text)
    await context.report_progress(1, 3, "about to ask the model")
    return types.InputRequiredResult(input_requests={"model": _sampling(topic)})


def _sampling(topic: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=topic))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=20))


def _elicitation(said: str) -> types.ElicitRequest:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=said, requested_schema=schema))


def main() -> None:
    # asyncio disables Nagle's algorithm only for sockets that name this protocol.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        asyncio.run(server.run_http_async(show_banner=False, log_level="warning", sockets=[listening]))


if __name__ == "__main__":
    main()
