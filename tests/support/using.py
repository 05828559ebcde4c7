"""Messages for tapes in tests of `use_cassette`, and the answers."""

from __future__ import annotations

import json
from typing import Any

import mcp_tape
from tests.support.live import INITIALIZE, Client
from tests.support.messages import call, lines, result, tell
from tests.support.running import run

HELLO = lines(INITIALIZE, tell("notifications/initialized"))
GREETING = [("client", INITIALIZE), ("server", result(0, "hello")), ("client", tell("notifications/initialized"))]


def session(*calls: tuple[str, Any]) -> list[Any]:
    """A session of the legacy era in which these tools were called and answered."""
    asked = [(number, *each) for number, each in enumerate(calls, 1)]
    pairs = [[("client", call(n, tool)), ("server", result(n, value))] for n, tool, value in asked]
    return [*GREETING, *(line for pair in pairs for line in pair)]


def answers(command: list[str], script: bytes) -> list[Any]:
    """The answers to a client of the command, after its handshake: values, or whole errors."""
    done = run(command, HELLO + script)
    assert done.stderr == b""
    bodies = [json.loads(line) for line in done.stdout.splitlines()][1:]
    return [body["result"].get("value", body["result"]) if "result" in body else body["error"] for body in bodies]


def over_http(tape: mcp_tape.UsedCassette, *texts: str) -> list[Any]:
    client = Client(tape.url).hello()
    return [client.ask(text) for text in texts]


def names(calls: list[mcp_tape.Exchange]) -> list[str | None]:
    return [each.name or each.method for each in calls]
