"""An agent and a replayed server: what it answers, what it asks for, and what it does when a tool fails."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_tape import UsedCassette

SERVER = ["mcp-server-time", "--local-timezone", "UTC"]
TEAM = ["Asia/Tokyo", "Asia/Dubai", "Moon/Tycho"]
pytestmark = pytest.mark.mcp_tape("agent", server=SERVER)


async def plan(server: Any, time: str, zones: list[str]) -> dict[str, str]:
    """The agent under test: when a call at this time in Kolkata is for the others, "?" where the tool cannot tell."""
    times = {}
    async with Client(server) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert "convert_time" in tools
        for zone in zones:
            question = {"source_timezone": "Asia/Kolkata", "time": time, "target_timezone": zone}
            try:
                result = await client.call_tool("convert_time", question)
            except MCPError:
                times[zone] = "?"
            else:
                times[zone] = "?" if result.is_error else result.structured_content["target"]["datetime"][11:16]
    return times


@pytest.fixture
def playing(mcp_tape: UsedCassette) -> UsedCassette:
    """For tests that change what the tape says: there is nothing to record."""
    if mcp_tape.is_recording:
        pytest.skip("needs a tape that plays")
    return mcp_tape


async def test_the_agent_finds_the_time_for_everybody(mcp_tape: UsedCassette) -> None:
    assert await plan(mcp_tape.streams(), "09:30", TEAM) == {
        "Asia/Tokyo": "13:00",
        "Asia/Dubai": "08:00",
        "Moon/Tycho": "?",
    }


async def test_the_agent_asks_once_for_each_zone(mcp_tape: UsedCassette) -> None:
    await plan(mcp_tape.streams(), "09:30", TEAM)
    calls = mcp_tape.calls("tools/call", tool="convert_time")
    assert [call.params["arguments"]["target_timezone"] for call in calls] == TEAM
    assert len(mcp_tape.calls("tools/list")) == 1


@pytest.mark.mcp_tape(faults=["tools/call:convert_time@1=error:-32000"])
async def test_the_agent_goes_on_when_a_call_fails(playing: UsedCassette) -> None:
    times = await plan(playing.streams(), "09:30", TEAM)
    assert times["Asia/Tokyo"] == "?"
    assert times["Asia/Dubai"] == "08:00"


async def test_the_agent_goes_on_when_the_tool_refuses(playing: UsedCassette) -> None:
    @playing.on("tools/call", tool="convert_time")
    def convert_time(target_timezone: str, **_: str) -> None:
        raise ValueError(f"{target_timezone} is closed on Sundays")

    assert set((await plan(playing.streams(), "09:30", TEAM)).values()) == {"?"}
