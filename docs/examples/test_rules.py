"""Rules of one's own: which calls are the same, what no recording may hold, and which calls go wrong."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_tape import Cassette, UsedCassette

SERVER = ["python", "shop.py"]


def same_words(recorded: dict[str, Any], live: dict[str, Any]) -> str | None:
    """A rule: None if the recorded request answers the live one, else why not. Here case and spaces do not count."""
    return None if words(recorded) == words(live) else f"{words(recorded)} are not {words(live)}"


def words(request: dict[str, Any]) -> list[str]:
    params = request.get("params", {})
    return f"{params.get('name')} {params.get('arguments')}".lower().split()


def without_addresses(text: str) -> str:
    """A redaction. In place of what begins with `[redacted:`, a replay takes any text."""
    return re.sub(r"[\w.]+@[\w.]+", "[redacted:email]", text)


def no_coats(request: dict[str, Any]) -> str | None:
    """A fault: what strikes this request, or None."""
    return "error:-32000" if "coat" in str(request["params"].get("arguments")) else None


pytestmark = pytest.mark.mcp_tape("rules", server=SERVER, redactions=[without_addresses])


@pytest.fixture
def playing(mcp_tape: UsedCassette) -> UsedCassette:
    if mcp_tape.is_recording:
        pytest.skip("needs a tape that plays")
    return mcp_tape


async def visit(tape: UsedCassette, *questions: tuple[str, dict[str, str]]) -> list[str]:
    """What the shop says to each question."""
    said = []
    async with Client(tape.streams()) as client:
        for tool, arguments in questions:
            try:
                said += [part.text for part in (await client.call_tool(tool, arguments)).content]
            except MCPError as error:
                said.append(f"error {error.code}")
    return said


async def test_what_is_recorded(mcp_tape: UsedCassette) -> None:
    search, price = ("search", {"text": "red shoes"}), ("price", {"name": "green coat"})
    order = ("order", {"name": "blue hat", "email": "ada@example.org"})
    said = await visit(mcp_tape, search, price, order)
    assert said[:2] == ["red shoes", "149"]
    assert said[2].startswith("25 to be paid for blue hat")


async def test_an_address_is_not_on_the_tape_and_any_other_will_do(playing: UsedCassette) -> None:
    with Cassette(playing.path) as cassette:
        said = b"".join(frame.text for session in cassette.sessions() for frame in cassette.frames(session.id))
    assert b"[redacted:email]" in said and b"@" not in said
    assert await visit(playing, ("order", {"name": "blue hat", "email": "bob@example.org"}))


@pytest.mark.mcp_tape(match_on=[same_words])
async def test_the_shop_does_not_mind_capitals(playing: UsedCassette) -> None:
    assert await visit(playing, ("search", {"text": "Red  SHOES"})) == ["red shoes"]


@pytest.mark.mcp_tape(faults=[no_coats])
async def test_coats_are_sold_out(playing: UsedCassette) -> None:
    assert await visit(playing, ("price", {"name": "green coat"})) == ["error -32000"]
