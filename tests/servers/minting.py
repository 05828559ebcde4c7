"""A server that makes up new values in each run, and accepts no others: python -m tests.servers.minting

Cursors, ids in JSON, in text and as numbers, tasks, states and names of inputs; in both eras, on stdio.
"""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any

Body = dict[str, Any]
VERSION = "io.modelcontextprotocol/protocolVersion"
READ_ONLY = {"annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object"}}
TOOLS = [
    {"name": name, **READ_ONLY, **({"annotations": {}} if name.startswith("create") else {})}
    for name in ("create", "create_issue", "create_number", "get", "get_issue", "get_number", "book", "dig", "found")
]
HALF = len(TOOLS) // 2


class Error(Exception):
    """An error of the client."""


class Mint:
    """One run. It recognizes the values that it has given out."""

    def __init__(self) -> None:
        self._given: dict[str, set[str]] = {}

    def new(self, kind: str, value: str | None = None) -> str:
        value = value or secrets.token_hex(8)
        self._given.setdefault(kind, set()).add(value)
        return value

    def known(self, kind: str, value: Any) -> None:
        if str(value) not in self._given.get(kind, ()):
            raise Error(f"{value!r} is no {kind} of mine")

    def answer(self, body: Body) -> Body:
        """The response to a request."""
        params = body.get("params") or {}
        head = {"jsonrpc": "2.0", "id": body["id"]}
        try:
            method = getattr(self, "_" + body["method"].replace("/", "_"), None)
            if method is None:
                return head | {"error": {"code": -32601, "message": "Method not found"}}
            result = method(params)
        except Error as error:
            return head | {"error": {"code": -32602, "message": str(error)}}
        is_modern = VERSION in params.get("_meta", {})
        return head | {"result": ({"resultType": "complete"} if is_modern else {}) | result}

    def _initialize(self, params: Body) -> Body:
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "minting", "version": "1.0"},
        }

    def _server_discover(self, params: Body) -> Body:
        return {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "minting", "version": "1.0"},
        }

    def _tools_list(self, params: Body) -> Body:
        if params.get("cursor") is None:
            return {"tools": TOOLS[:HALF], "nextCursor": self.new("cursor")}
        self.known("cursor", params["cursor"])
        return {"tools": TOOLS[HALF:]}

    def _tools_call(self, params: Body) -> Body:
        return getattr(self, "_tool_" + params["name"])(params, params.get("arguments", {}))  # type: ignore[no-any-return]

    def _tool_create(self, params: Body, arguments: Body) -> Body:
        return text(
            json.dumps({"things": [{"name": "other", "id": "fixed-1"}, {"name": "mine", "id": self.new("id")}]})
        )

    def _tool_create_issue(self, params: Body, arguments: Body) -> Body:
        key = self.new("key", f"ABC-{secrets.randbelow(90_000) + 10_000}")
        return text(f"It took {secrets.randbelow(900) + 100} ms.\nCreated issue {key}. See https://example.org/{key}.")

    def _tool_create_number(self, params: Body, arguments: Body) -> Body:
        number = int(self.new("number", str(secrets.randbelow(90_000) + 10_000)))
        return text("created") | {"structuredContent": {"number": number}}

    def _tool_get(self, params: Body, arguments: Body) -> Body:
        self.known("id", arguments["id"])
        return text("mine")

    def _tool_get_issue(self, params: Body, arguments: Body) -> Body:
        self.known("key", arguments["key"])
        return text("open")

    def _tool_get_number(self, params: Body, arguments: Body) -> Body:
        self.known("number", arguments["number"])
        return text("counted")

    def _tool_book(self, params: Body, arguments: Body) -> Body:
        """Ask for two inputs, with made-up names and a made-up state."""
        given = params.get("inputResponses")
        if given is None:
            ask = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {}}}
            inputs = {self.new("input"): ask, self.new("input"): {"method": "roots/list"}}
            return {"resultType": "input_required", "inputRequests": inputs, "requestState": self.new("state")}
        self.known("state", params["requestState"])
        for name in given:
            self.known("input", name)
        actions = [answer.get("action", "roots") for answer in given.values()]
        return text(f"Booked: {', '.join(actions)}")

    def _tool_dig(self, params: Body, arguments: Body) -> Body:
        return {"resultType": "task", "taskId": self.new("task"), "status": "working"}

    def _tasks_get(self, params: Body) -> Body:
        self.known("task", params["taskId"])
        return {"taskId": params["taskId"], "status": "completed"}


def text(said: str) -> Body:
    return {"content": [{"type": "text", "text": said}]}


def main() -> None:
    mint = Mint()
    for line in sys.stdin:
        body = json.loads(line)
        if "id" in body:
            print(json.dumps(mint.answer(body)), flush=True)


if __name__ == "__main__":
    main()
