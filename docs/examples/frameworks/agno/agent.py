"""The MCP tools of agno, called without a model."""

from __future__ import annotations

import os
from typing import Any

os.environ["AGNO_TELEMETRY"] = "false"  # before it is imported
from agno.tools.mcp import MCPTools
from mcp import StdioServerParameters

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


async def ask(server: StdioServerParameters) -> str:
    async with MCPTools(server_params=server, timeout_seconds=60) as tools:
        result: Any = await tools.functions["convert_time"].entrypoint(**NOON)
        return str(result.content)


def started(command: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:])
