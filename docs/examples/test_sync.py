"""Code without async: a client that starts its server, and one that asks a URL."""

from __future__ import annotations

import json
import subprocess
from typing import Any
from urllib.request import Request, urlopen

import pytest
from mcp_tape import UsedCassette

SERVER = ["mcp-server-time", "--local-timezone", "UTC"]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "sync", "version": "1"}}
QUESTION = {"name": "get_current_time", "arguments": {"timezone": "Asia/Tokyo"}}
pytestmark = pytest.mark.mcp_tape("sync", server=SERVER)


def time_from_command(command: list[str]) -> str:
    """Code under test: starts a server, and asks it for the time."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin and server.stdout
        for message in (
            {"id": 1, "method": "initialize", "params": HELLO},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": QUESTION},
        ):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline()) if "id" in message else None
        server.stdin.close()
    return told(answer)


def time_from_url(url: str) -> str:
    """Code under test: asks a server on the network."""
    answer, session = post(url, {"id": 1, "method": "initialize", "params": HELLO})
    post(url, {"method": "notifications/initialized"}, session)
    answer, _ = post(url, {"id": 2, "method": "tools/call", "params": QUESTION}, session)
    return told(answer)


def post(url: str, message: dict[str, Any], session: str = "") -> tuple[Any, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session:
        headers["Mcp-Session-Id"] = session
    with urlopen(Request(url, json.dumps({"jsonrpc": "2.0", **message}).encode(), headers), timeout=30) as response:
        return json.loads(response.read() or b"null"), response.headers["Mcp-Session-Id"]


def told(answer: Any) -> str:
    return str(json.loads(answer["result"]["content"][0]["text"])["datetime"])


def test_a_client_that_starts_its_server(mcp_tape: UsedCassette) -> None:
    assert time_from_command(mcp_tape.command).endswith("+09:00")
    assert [call.method for call in mcp_tape.calls()] == ["initialize", "tools/call"]


def test_the_same_tape_at_a_url(mcp_tape: UsedCassette) -> None:
    if mcp_tape.is_recording:
        pytest.skip("a server that has a command is recorded through its command")
    assert time_from_url(mcp_tape.url) == time_from_command(mcp_tape.command)
