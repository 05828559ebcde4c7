"""The calls of a recording and the orders of a replay, as lines on stdio and as requests over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from http_programs import STEPS
from measure import FailedError
from processes import Connection

MODERN, LEGACY = "2026-07-28", "2025-11-25"
_META = "io.modelcontextprotocol/"
_CLIENT = {"name": "bench", "version": "1"}
HELLO = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n'
)
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


class Call(NamedTuple):
    """A `tools/call` with a text, which is also its answer."""

    id: int
    text: str


def recorded(count: int) -> list[Call]:
    return [Call(number, f"hello, tape {number}") for number in range(1, count + 1)]


def _numbered(calls: Sequence[Call], first: int) -> list[Call]:
    return [call._replace(id=number) for number, call in enumerate(calls, first)]


# A client numbers its requests as it makes them, so shuffled calls also get other ids.
ORDERS: dict[str, Callable[[Sequence[Call]], list[Call]]] = {
    "recorded order": list,
    "shuffled": lambda calls: _numbered(Random(15).sample(calls, len(calls)), 1),
    "other ids": lambda calls: _numbered(calls, 7_000_001),
}


def line(call: Call) -> bytes:
    params = {"name": "echo", "arguments": {"text": call.text}}
    message = {"jsonrpc": "2.0", "id": call.id, "method": "tools/call", "params": params}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def lines(calls: Sequence[Call]) -> list[bytes]:
    """The handshake and the calls, as lines for a pipe."""
    first, *rest = map(line, calls)
    return [HELLO, _INITIALIZED + first, *rest]  # clients send it without waiting for an answer


def check(answers: bytes, calls: Sequence[Call]) -> None:
    """Refuse answers that are not the server's, in order. They include the handshake's, if there is one."""
    found = [json.loads(line) for line in answers.splitlines()]
    for answer, call in zip(found[-len(calls) :] if calls else (), calls, strict=True):
        if answer["id"] != call.id or answer.get("result", {}).get("content", [{}])[0].get("text") != call.text:
            raise FailedError(f"request {call.id} was answered with {json.dumps(answer)[:200]}")


class Way(NamedTuple):
    """The form of calls over HTTP: answered by JSON or a stream, with progress or without."""

    name: str
    version: str = MODERN
    as_json: bool = True
    steps: int = 0


WAYS = (
    Way("modern"),
    Way("modern, progress", as_json=False, steps=STEPS),
    Way("legacy", LEGACY),
    Way("legacy, SSE", LEGACY, as_json=False),
)


class Talk:
    """One client over HTTP: its requests, and the check of their answers."""

    def __init__(self, url: str, way: Way) -> None:
        place = urlsplit(url)
        self._way, self._session = way, ""
        self._where = f"{place.path} HTTP/1.1\r\nHost: {place.netloc}\r\n"

    def begin(self, connection: Connection) -> None:
        """Make the handshake, if the era has one."""
        if self._way.version == MODERN:
            return
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
        answer = connection.ask(self._post("initialize", params, 0, {}))
        lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._session = fields.get("mcp-session-id", "")
        answer = connection.ask(self._post("notifications/initialized", None, None, self._headers()))
        if b" 202 " not in answer[:16]:
            raise FailedError(f"the handshake was answered with {answer[:200]!r}")

    def requests(self, calls: Sequence[Call]) -> list[bytes]:
        tool = "steps" if self._way.steps else "echo"
        headers = self._headers("tools/call", tool)
        return [
            self._post(
                "tools/call",
                {"name": tool, "arguments": {"text": call.text}, "_meta": self._meta(call.id)},
                call.id,
                headers,
            )
            for call in calls
        ]

    def check(self, answers: Sequence[bytes], calls: Sequence[Call]) -> None:
        """Refuse answers that are not the server's, including the progress before them."""
        for call, answer in zip(calls, answers, strict=True):
            try:
                *before, last = _messages(answer)
                right = last["id"] == call.id and last["result"]["content"][0]["text"] == call.text
                steps = [(step["params"]["progressToken"], step["params"]["progress"]) for step in before]
            except (ValueError, LookupError):
                right, steps = False, []
            if not right or steps != [(call.id, step) for step in range(1, self._way.steps + 1)]:
                raise FailedError(f"call {call.id} was answered with {answer[:300]!r}")

    def stream(self, number: int) -> bytes:
        """The request for a stream of events that stays open."""
        params = {"notifications": {"toolsListChanged": True}, "_meta": self._meta(number)}
        return self._post("subscriptions/listen", params, number, self._headers("subscriptions/listen"))

    def _meta(self, token: int) -> dict[str, Any]:
        modern = {"protocolVersion": MODERN, "clientInfo": _CLIENT, "clientCapabilities": {}}
        meta = {_META + key: value for key, value in modern.items()} if self._way.version == MODERN else {}
        return meta | {"progressToken": token}

    def _headers(self, method: str = "", name: str = "") -> dict[str, str]:
        if self._way.version == LEGACY:
            return {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": self._session}
        return {"MCP-Protocol-Version": MODERN, "Mcp-Method": method} | ({"Mcp-Name": name} if name else {})

    def _post(self, method: str, params: Any, number: int | None, headers: dict[str, str]) -> bytes:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        body = json.dumps({key: value for key, value in message.items() if value is not None}, separators=(",", ":"))
        sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        fields = sent | headers | {"Content-Length": str(len(body))}
        head = "".join(f"{key}: {value}\r\n" for key, value in fields.items())
        return f"POST {self._where}{head}\r\n{body}".encode()


def _messages(answer: bytes) -> list[Any]:
    """The JSON-RPC messages in an answer, as JSON or a stream of events. The status must be 200."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head[:16]:
        raise ValueError(head)
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        parts = []
        while body:
            size, _, body = body.partition(b"\r\n")
            parts.append(body[: int(size, 16)])
            body = body[int(size, 16) + 2 :]
        body = b"".join(parts)
    if b"application/json" in head:
        return [json.loads(body)]
    found = body.replace(b"\r\n", b"\n").split(b"\n")
    return [json.loads(line[5:]) for line in found if line.startswith(b"data:") and line[5:].strip()]
