"""A client of fastmcp 2, 3 or 4 with two MCP servers, and no model: it knows what to ask."""

from __future__ import annotations

from typing import Any

from fastmcp import Client

NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
SERVERS: dict[str, Any] = {
    "time": {"command": "mcp-server-time", "args": ["--local-timezone", "UTC"]},
    "weather": {"command": "python", "args": ["-m", "mcp_tape.demo.server"]},
}


async def ask(config: dict[str, Any]) -> str:
    async with Client(config) as client:
        time = await client.call_tool("time_convert_time", NOON)
        weather = await client.call_tool("weather_forecast", {"city": "Tokyo"})
    return "\n".join(part.text for result in (time, weather) for part in result.content)
