"""The MCP tools of LlamaIndex, called without a model."""

from __future__ import annotations

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


async def ask(command: list[str]) -> str:
    client = BasicMCPClient(command[0], args=command[1:])
    tools = await McpToolSpec(client).to_tool_list_async()
    convert_time = next(tool for tool in tools if tool.metadata.name == "convert_time")
    return str(await convert_time.acall(**NOON))
