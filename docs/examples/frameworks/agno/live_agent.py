import asyncio

from agent import TIME, ask, started


def test_noon_in_tokyo():
    said = asyncio.run(ask(started(TIME)))
    assert "21:00" in said
