import asyncio

import pytest
from agent import TIME, ask


@pytest.mark.mcp_tape(server=TIME)
def test_noon_in_tokyo(mcp_tape):
    said = asyncio.run(ask(mcp_tape.command))
    assert "21:00" in said
