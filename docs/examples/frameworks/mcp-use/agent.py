"""The client of mcp-use, without a model."""

from __future__ import annotations

import os
from typing import Any

os.environ["MCP_USE_ANONYMIZED_TELEMETRY"] = "false"  # before it is imported
from mcp_use import MCPClient

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
SERVERS = {"time": {"command": "mcp-server-time", "args": ["--local-timezone", "UTC"]}}


async def ask(config: dict[str, Any]) -> str:
    client = MCPClient.from_dict(config)
    try:
        session = await client.create_session("time")
        return str((await session.call_tool("convert_time", NOON)).content)
    finally:
        await client.close_all_sessions()
