"""A client of the MCP SDK 2.x, and no model: it knows what to ask."""

from __future__ import annotations

from typing import Any

from mcp import Client, StdioServerParameters

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


async def ask(server: Any) -> str:
    async with Client(server) as client:
        result = await client.call_tool("convert_time", NOON)
        return "\n".join(part.text for part in result.content)


def started(command: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:])
