"""The tests for suites.py, the plugin that times them, and their live server: `python suites_cases.py [http]`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Generator
from time import perf_counter
from typing import Any

import pytest

URL = os.environ.get("SUITE_URL", "")
SERVER = [sys.executable, __file__]
_milliseconds: list[float] = []
times = pytest.mark.parametrize("number", range(int(os.environ.get("SUITE_TESTS", "1"))))
tape = pytest.mark.mcp_tape(mode=os.environ.get("SUITE_MODE", "none"), server=SERVER)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    before = perf_counter()
    result = yield
    _milliseconds.append((perf_counter() - before) * 1e3)
    return result


def pytest_sessionfinish() -> None:
    with open(os.environ["SUITE_TIMES"], "w") as file:
        json.dump(_milliseconds, file)


def make_server() -> Any:
    from mcp.server import MCPServer

    server = MCPServer("suite", version="1.0")

    @server.tool()
    def greet(name: str) -> str:
        """Say hello."""
        return f"Hello, {name}."

    return server


def check(server: Any) -> None:
    from mcp import Client

    async def visit() -> str:
        async with Client(server, mode="legacy") as client:
            (tool,) = (await client.list_tools()).tools
            return str((await client.call_tool(tool.name, {"name": "Ada"})).content[0].text)

    assert asyncio.run(visit()) == "Hello, Ada."


@times
def test_nothing(number: int) -> None:
    """The cost of pytest itself."""


@times
def test_memory(number: int) -> None:
    """In this process, like the SDK's own tests."""
    check(make_server())


@times
def test_live_command(number: int) -> None:
    from mcp import StdioServerParameters

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


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        from http_programs import serve

        serve(make_server().streamable_http_app(), "/mcp")
    else:
        make_server().run("stdio")
