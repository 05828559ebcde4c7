"""The MCP tools of Strands, called through an agent without its model."""

from __future__ import annotations

from mcp import StdioServerParameters, stdio_client
from strands import Agent
from strands.tools.mcp import MCPClient

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


def ask(server: StdioServerParameters) -> str:
    with MCPClient(lambda: stdio_client(server)) as client:
        agent = Agent(tools=client.list_tools_sync())
        return str(agent.tool.convert_time(**NOON))


def started(command: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:])
