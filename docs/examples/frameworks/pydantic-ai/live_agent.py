import asyncio

from agent import TIME, WEATHER, ask, started


def test_noon_and_the_weather():
    servers = [started(TIME), started(WEATHER)]
    said = asyncio.run(ask("When is noon in Tokyo, and how is the weather?", servers))
    assert "21:00" in said and "Sunny in Tokyo" in said
