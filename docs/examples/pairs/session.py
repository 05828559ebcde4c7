"""One visit to a server, the same for every release of it: python session.py NAME COMMAND...

Shakes hands, lists all that is offered, makes the calls of calls.py. Needs no SDK, so that nothing but the server can
change between two visits.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from calls import CALLS

PATIENCE = 120  # seconds for the whole visit
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}},
    "clientInfo": {"name": "pairs", "version": "1"},
}
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "prompts/list": "prompts",
}
# What the client says when it is asked.
ANSWERS: dict[str, Any] = {
    "ping": {},
    "roots/list": {"roots": []},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Hello from the client."},
        "model": "scripted",
        "stopReason": "endTurn",
    },
    "elicitation/create": {"action": "accept", "content": {"name": "Ada", "check": True, "integer": 7}},
}


class Server:
    """A server that runs, and is asked one thing at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._asked = 0

    def send(self, **message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer; what the server asks before it is answered, too."""
        self._asked += 1
        self.send(id=self._asked, method=method, params=params)
        for message in self._heard():
            if "method" not in message and message.get("id") == self._asked:
                return message
        raise EOFError(f"{method}: the server is gone")

    def _heard(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" in message and "id" in message:
                self._answer(message)
            yield message

    def _answer(self, message: dict[str, Any]) -> None:
        if message["method"] in ANSWERS:
            self.send(id=message["id"], result=ANSWERS[message["method"]])
        else:
            self.send(id=message["id"], error={"code": -32601, "message": "Method not found"})


def visit(server: Server, calls: Sequence[tuple[str, dict[str, Any]]]) -> None:
    offers = server.ask("initialize", HELLO)["result"]["capabilities"]
    server.send(method="notifications/initialized")
    for method, capability in LISTS.items():
        if capability in offers:
            read_list(server, method)
    for method, params in calls:
        server.ask(method, params)


def read_list(server: Server, method: str) -> None:
    """All pages."""
    params: dict[str, Any] = {}
    while True:
        cursor = server.ask(method, params).get("result", {}).get("nextCursor")
        if cursor is None:
            return
        params = {"cursor": cursor}


def main(name: str, *command: str) -> None:
    server = Server(command)
    watchdog = threading.Timer(PATIENCE, server.process.kill)
    watchdog.start()
    try:
        visit(server, CALLS[name])
        leave(server.process)
    finally:
        watchdog.cancel()


def leave(process: subprocess.Popen[bytes]) -> None:
    """As the SDKs do: most servers end when their stdin does, the others are told to."""
    try:
        process.communicate(timeout=2)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
