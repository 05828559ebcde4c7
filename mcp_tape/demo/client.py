"""An MCP client in a few lines: starts a server command and plays a scripted session with it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"sampling": {}},
    "clientInfo": {"name": "demo-client", "version": "1.0"},
}
_FORECAST = {"name": "forecast", "arguments": {"city": "Bern"}, "_meta": {"progressToken": 3}}
Requests = Sequence[tuple[str, dict[str, Any]]]
Answer = dict[str, Any]
REQUESTS: Requests = [
    ("initialize", _INITIALIZE),
    ("tools/list", {}),
    ("tools/call", _FORECAST),
    ("tools/call", {"name": "hindcast", "arguments": {}}),
]
# A call that the session above does not have: of another city.
ELSEWHERE: Requests = [("initialize", _INITIALIZE), ("tools/call", _FORECAST | {"arguments": {"city": "Basel"}})]
_SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Sunny, 21 °C."}, "model": "demo"}


class Outcome(NamedTuple):
    """The answers of the server, and its exit code."""

    answers: list[Answer]
    code: int


def play(command: Sequence[str], directory: str | None = None, requests: Requests = REQUESTS) -> Outcome:
    """Run a session with a server command."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=directory) as server:
        answers = list(_session(server, requests))
    return Outcome(answers, server.returncode)


def forecast(answer: Answer) -> str:
    """The text of a tool's result."""
    return str(answer["result"]["content"][0]["text"])


def _session(server: subprocess.Popen[bytes], requests: Requests) -> Iterator[Answer]:
    assert server.stdin and server.stdout
    for number, (method, params) in enumerate(requests, 1):
        _send(server, {"id": number, "method": method, "params": params})
        for line in server.stdout:
            message = orjson.loads(line)
            if message.get("method") == "sampling/createMessage":
                _send(server, {"id": message["id"], "result": _SAMPLED})
            elif "method" not in message:
                yield message
                break
        else:
            return  # the server is gone
        if method == "initialize":
            _send(server, {"method": "notifications/initialized"})
    server.stdin.close()


def _send(server: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert server.stdin
    server.stdin.write(orjson.dumps({"jsonrpc": "2.0", **message}, option=orjson.OPT_APPEND_NEWLINE))
    server.stdin.flush()
