"""An agent of mcp-agent that calls its MCP tool, without a model."""

from __future__ import annotations

from mcp_agent.agents.agent import Agent
from mcp_agent.app import MCPApp
from mcp_agent.config import MCPServerSettings, MCPSettings, Settings, UsageTelemetrySettings

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = ["mcp-server-time", "--local-timezone", "UTC"]


async def ask(command: list[str]) -> str:
    servers = {"time": MCPServerSettings(command=command[0], args=command[1:])}
    settings = Settings(mcp=MCPSettings(servers=servers), usage_telemetry=UsageTelemetrySettings(enabled=False))
    async with MCPApp("planner", settings=settings).run(), Agent(name="planner", server_names=["time"]) as agent:
        return str((await agent.call_tool("convert_time", NOON)).content)
