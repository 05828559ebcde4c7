import asyncio

from agent import SERVERS, ask


def test_noon_and_the_weather():
    said = asyncio.run(ask("When is noon in Tokyo, and how is the weather?", SERVERS))
    assert "21:00" in said and "Sunny in Tokyo" in said
