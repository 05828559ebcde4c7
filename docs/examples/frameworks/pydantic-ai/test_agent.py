import asyncio

import pytest
from agent import TIME, WEATHER, ask


@pytest.mark.mcp_tape(servers={"time": TIME, "weather": WEATHER})
def test_noon_and_the_weather(mcp_tape):
    servers = [mcp_tape["time"].transport, mcp_tape["weather"].transport]
    said = asyncio.run(ask("When is noon in Tokyo, and how is the weather?", servers))
    assert "21:00" in said and "Sunny in Tokyo" in said
