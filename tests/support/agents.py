"""An agent for the tests: the official SDK's client with `mcp-tape mcp` over stdio, and tools in this process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_tape.agent.paging import ToolAnswer
from mcp_tape.agent.places import ReadableCassettes, ToolCall
from mcp_tape.agent.tool_table import find_tool
from tests.support import provision, warm
from tests.support.warm import WAIT

if TYPE_CHECKING:
    from mcp import Client

MODES = ("auto", "legacy")


def server(*places: object) -> list[str]:
    """The command of `mcp-tape mcp`, forked from a process that has loaded it."""
    return [*warm.command(sys.executable, "-m", provision.AGENT), "mcp_tape", "mcp", *map(str, places)]


def answer(tool: str, *places: object, **arguments: Any) -> ToolAnswer:
    """The answer of a tool, in this process."""
    return find_tool(tool).call(ToolCall(ReadableCassettes([str(place) for place in places])), arguments)


def pages(tool: str, *places: object, **arguments: Any) -> Iterator[ToolAnswer]:
    """Yield all answers to a call, up to the end."""
    cursor: dict[str, str] = {}
    while True:
        found = answer(tool, *places, **arguments, **cursor)
        yield found
        following = next_of(found)
        if following is None:
            return
        assert following != cursor.get("cursor"), "it does not go on"
        cursor = {"cursor": following}


def next_of(found: ToolAnswer) -> str | None:
    """The cursor at the end of an answer, as a model that only reads text would find it."""
    *_, last = found.text.splitlines() or [""]
    said = last.partition('[There is more: call again with "cursor": "')[2].removesuffix('"]') or None
    if found.structured is not None:
        assert found.structured["next_cursor"] == said
    return said


def text_of(found: ToolAnswer) -> str:
    """The text of an answer, without its line with the cursor."""
    return found.text if next_of(found) is None else found.text.rpartition("\n")[0]


def with_client(
    work: Callable[[Client], Awaitable[Any]], *places: object, mode: str = "auto", command: Sequence[str] = (),
    cwd: Path | None = None,
) -> Any:  # fmt: skip
    """The result of some work with an SDK client, with a time limit."""
    from mcp import Client, StdioServerParameters  # imported late: it takes a second

    program, *options = command or server(*places)
    started = StdioServerParameters(command=program, args=options, env=dict(os.environ), cwd=cwd)

    async def main() -> Any:
        async with Client(started, mode=mode, read_timeout_seconds=WAIT) as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(main(), 2 * WAIT))
