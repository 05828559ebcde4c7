"""An MCP client in a few lines: starts a server command and plays one scripted session with it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"sampling": {}},
    "clientInfo": {"name": "demo-client", "version": "1.0"},
}
_FORECAST = {"name": "forecast", "arguments": {"city": "Bern"}, "_meta": {"progressToken": 3}}
_REQUESTS = [
    ("initialize", _INITIALIZE),
    ("tools/list", {}),
    ("tools/call", _FORECAST),
    ("tools/call", {"name": "hindcast", "arguments": {}}),
]
_SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Sunny, 21 °C."}, "model": "demo"}


def play(command: Sequence[str]) -> list[dict[str, Any]]:
    """Run the session; what the server answered."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        return list(_session(server))


def _session(server: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    assert server.stdin and server.stdout
    for number, (method, params) in enumerate(_REQUESTS, 1):
        _send(server, {"id": number, "method": method, "params": params})
        for line in server.stdout:
            message = orjson.loads(line)
            if message.get("method") == "sampling/createMessage":
                _send(server, {"id": message["id"], "result": _SAMPLED})
            elif "method" not in message:
                yield message
                break
        if method == "initialize":
            _send(server, {"method": "notifications/initialized"})
    server.stdin.close()


def _send(server: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert server.stdin
    server.stdin.write(orjson.dumps({"jsonrpc": "2.0", **message}, option=orjson.OPT_APPEND_NEWLINE))
    server.stdin.flush()
