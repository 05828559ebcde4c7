"""The MCP tool of Haystack, called without a model."""

from __future__ import annotations

import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"  # before it is imported
from haystack_integrations.tools.mcp import MCPTool, StdioServerInfo

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


def ask(command: list[str]) -> str:
    server = StdioServerInfo(command=command[0], args=command[1:])
    tool = MCPTool("convert_time", server, eager_connect=True)
    try:
        return str(tool.invoke(**NOON))
    finally:
        tool.close()
