"""An MCP tool for DSPy, called without a model."""

from __future__ import annotations

from typing import Any

import dspy
from mcp import Client, StdioServerParameters

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


async def ask(server: Any) -> str:
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        convert_time = next(tool for tool in tools if tool.name == "convert_time")
        return str(await dspy.Tool.from_mcp_tool(client.session, convert_time).acall(**NOON))


def started(command: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:])
