import asyncio

import pytest
from agent import SERVERS, ask


@pytest.mark.mcp_tape(servers=SERVERS)
def test_noon_and_the_weather(mcp_tape):
    said = asyncio.run(ask("When is noon in Tokyo, and how is the weather?", mcp_tape.config()["mcpServers"]))
    assert "21:00" in said and "Sunny in Tokyo" in said
