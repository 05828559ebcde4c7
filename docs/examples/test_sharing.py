"""One cassette for several tests: by its name, or in a fixture that lives as long as the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_tape import UsedCassette

SERVER = ["mcp-server-time", "--local-timezone", "UTC"]
CASSETTES = Path(__file__).parent / "cassettes"
shared = pytest.mark.mcp_tape("shared/time", server=SERVER)


async def offset(server: Any, zone: str) -> str:
    async with Client(server) as client:
        result = await client.call_tool("get_current_time", {"timezone": zone})
        return str(json.loads(result.content[0].text)["datetime"][-6:])


# Each test plays the cassette from its start. Recorded anew, it is kept only if all of them pass.


@shared
async def test_tokyo_is_nine_hours_ahead(mcp_tape: UsedCassette) -> None:
    assert await offset(mcp_tape.streams(), "Asia/Tokyo") == "+09:00"


@shared
@pytest.mark.parametrize(("zone", "ahead"), [("Asia/Kathmandu", "+05:45"), ("Asia/Dubai", "+04:00")])
async def test_other_zones_are_ahead_too(mcp_tape: UsedCassette, zone: str, ahead: str) -> None:
    assert await offset(mcp_tape.streams(), zone) == ahead


# One tape in use by all: they go on where the one before them stopped, so an answer may be given more than once.


@pytest.fixture(scope="session")
def clock(mcp_tape_factory: Callable[..., UsedCassette]) -> UsedCassette:
    return mcp_tape_factory("shared/clock", directory=CASSETTES, server=SERVER, repeats="last")


@pytest.mark.parametrize("time", ["morning", "evening"])
async def test_the_clock_of_a_tape_stands_still(clock: UsedCassette, time: str) -> None:
    assert await offset(clock.streams(), "Asia/Seoul") == "+09:00"
