"""A server of one's own: it is recorded anew, and must answer as it did on the committed cassette.

The server is started by a name relative to this directory, so run pytest here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_tape import Cassette, Exchange, UsedCassette, use_cassette

SERVER = ["python", "shop.py"]
COMMITTED = Path(__file__).parent / "cassettes" / "test_own_server" / "test_a_visit_to_the_shop.db"


@pytest.mark.mcp_tape(server=SERVER)
async def test_a_visit_to_the_shop(mcp_tape: UsedCassette) -> None:
    """Replays in a moment, and is how the cassette is recorded."""
    async with Client(mcp_tape.streams()) as client:
        await client.list_tools()
        (found,) = (await client.call_tool("search", {"text": "red"})).content
        assert found.text == "red shoes"
        await client.call_tool("price", {"name": found.text})
        assert (await client.call_tool("price", {"name": "moon"})).is_error


async def test_the_server_still_answers_as_recorded(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--mcp-block-live"):
        pytest.skip("live servers are blocked")
    with Cassette(COMMITTED) as cassette:
        before = cassette.exchanges(cassette.session().id)
    with use_cassette(tmp_path / "fresh.db", "all", command=SERVER) as fresh:
        async with Client(fresh.streams()) as client:
            await client.list_tools()
            for call in before:
                if call.method == "tools/call":
                    await client.call_tool(call.name, call.params["arguments"])
        now = fresh.calls()
    assert answers(now) == answers(before)


def answers(calls: Iterable[Exchange]) -> list[tuple[str, str | None, Any]]:
    """What clients depend on: the tools, and the content of each answer."""
    said = []
    for call in calls:
        if call.method == "tools/list":
            said.append((call.method, None, {tool["name"]: tool["inputSchema"] for tool in call.result["tools"]}))
        elif call.method == "tools/call":
            said.append((call.method, call.name, (call.result["content"], call.result.get("isError", False))))
    return said
