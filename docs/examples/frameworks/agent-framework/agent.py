"""The MCP tools of Microsoft's Agent Framework, called without a model."""

from __future__ import annotations

from agent_framework import MCPStdioTool

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


async def ask(command: list[str]) -> str:
    async with MCPStdioTool("time", command[0], args=command[1:], load_prompts=False) as server:
        result = await server.call_tool("convert_time", **NOON)
        return "\n".join(str(part.text) for part in result)
