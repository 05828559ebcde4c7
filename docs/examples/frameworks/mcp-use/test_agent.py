import asyncio

import pytest
from agent import SERVERS, ask


@pytest.mark.mcp_tape(servers=SERVERS)
def test_noon_in_tokyo(mcp_tape):
    said = asyncio.run(ask(mcp_tape.config()))
    assert "21:00" in said
