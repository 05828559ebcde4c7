"""The tests of the test suites: each initializes, lists the tools and calls one. Which server, is the contestant.

What they need of the machine is in the environment: see suites.py, which copies this file and runs it with pytest.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

SERVER = [sys.executable, os.environ.get("SUITE_SERVER", "")]
URL = os.environ.get("SUITE_URL", "")
times = pytest.mark.parametrize("number", range(int(os.environ.get("SUITE_TESTS", "1"))))
tape = pytest.mark.mcp_tape(mode=os.environ.get("SUITE_MODE", "none"), server=SERVER)


async def visit(server: Any) -> str:
    async with Client(server, mode="legacy") as client:
        (tool,) = (await client.list_tools()).tools
        return str((await client.call_tool(tool.name, {"name": "Ada"})).content[0].text)


def check(server: Any) -> None:
    assert asyncio.run(visit(server)) == "Hello, Ada."


@times
def test_nothing(number: int) -> None:
    """What pytest itself takes."""


@times
def test_memory(number: int) -> None:
    """In this process, as the SDK's own tests do it."""
    from suites_server import server

    check(server)


@times
def test_live_command(number: int) -> None:
    check(StdioServerParameters(command=SERVER[0], args=SERVER[1:]))


@times
def test_live_url(number: int) -> None:
    check(URL)


@times
@tape
def test_tape_streams(mcp_tape: Any, number: int) -> None:
    check(mcp_tape.streams())


@times
@pytest.mark.mcp_tape("suite", mode="none")
def test_one_cassette(mcp_tape: Any, number: int) -> None:
    check(mcp_tape.streams())


@times
@tape
def test_tape_url(mcp_tape: Any, number: int) -> None:
    check(mcp_tape.url)


@times
@tape
def test_tape_command(mcp_tape: Any, number: int) -> None:
    check(mcp_tape.server_params)


@times
@pytest.mark.mcp_cassette(os.environ.get("SUITE_RECORDER", ""))
def test_recorder(mcp_replay_url: str, number: int) -> None:
    check(mcp_replay_url)
