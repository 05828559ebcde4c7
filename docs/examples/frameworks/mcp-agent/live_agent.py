import asyncio

from agent import TIME, ask


def test_noon_in_tokyo():
    said = asyncio.run(ask(TIME))
    assert "21:00" in said
