"""fastmcp: its client takes the tape as a transport."""

from __future__ import annotations

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from mcp_tape import UsedCassette

SERVER = ["mcp-server-time", "--local-timezone", "UTC"]
pytestmark = pytest.mark.mcp_tape(server=SERVER)


async def test_the_time_is_told_with_its_zone(mcp_tape: UsedCassette) -> None:
    async with Client(mcp_tape.transport) as client:
        assert {tool.name for tool in await client.list_tools()} == {"convert_time", "get_current_time"}
        result = await client.call_tool("get_current_time", {"timezone": "Asia/Tokyo"})
        assert "+09:00" in result.content[0].text
        with pytest.raises(ToolError, match="Moon/Tycho"):
            await client.call_tool("get_current_time", {"timezone": "Moon/Tycho"})
    assert len(mcp_tape.calls("tools/call", tool="get_current_time")) == 2
