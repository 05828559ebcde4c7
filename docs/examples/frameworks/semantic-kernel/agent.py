"""The MCP plugin of Semantic Kernel, called without a model."""

from __future__ import annotations

from semantic_kernel import Kernel
from semantic_kernel.connectors.mcp import MCPStdioPlugin

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


async def ask(command: list[str]) -> str:
    async with MCPStdioPlugin("time", command[0], args=command[1:], load_prompts=False) as plugin:
        kernel = Kernel()
        kernel.add_plugin(plugin)
        return str(await kernel.invoke(plugin_name="time", function_name="convert_time", **NOON))
