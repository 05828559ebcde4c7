import asyncio

from agent import SERVERS, ask


def test_noon_in_tokyo():
    said = asyncio.run(ask(SERVERS))
    assert "21:00" in said
