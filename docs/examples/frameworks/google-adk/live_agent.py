import asyncio

from agent import TIME, ask, started


def test_noon_in_tokyo():
    said = asyncio.run(ask("When is noon in Tokyo?", started(TIME)))
    assert "21:00" in said
