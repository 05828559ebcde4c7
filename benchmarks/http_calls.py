"""What is said over HTTP: requests as bytes, in both eras, and whether an answer is the right one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from client import FailedError, UnansweredError
from http_client import Connection
from http_programs import STEPS
from patterns import PATTERNS, Asked, Pattern

MODERN, LEGACY = "2026-07-28", "2025-11-25"
_META = "io.modelcontextprotocol/"
_CLIENT = {"name": "bench", "version": "1"}
_PINGS = "pings recorded before"  # which only the legacy era knows


@dataclass(frozen=True, slots=True)
class Case:
    """A way to call and to be answered. The SDK's server answers with JSON where it can, else with a stream."""

    name: str
    version: str = MODERN
    as_json: bool = True
    steps: int = 0  # notifications of progress before the answer
    pattern: Pattern = PATTERNS[0]

    @property
    def recording(self) -> str:
        """The name of what it is played from; several cases ask the same one."""
        way = f"{self.version} {'JSON' if self.as_json else 'SSE'} {self.steps}"
        return f"{way} {self.pattern.recording.name}"


WAYS = (
    Case("modern"),
    Case("modern, progress", as_json=False, steps=STEPS),
    Case("legacy", LEGACY),
    Case("legacy, SSE", LEGACY, as_json=False),
)
CASES = (
    *WAYS,
    *(Case(f"modern, {each.name}", pattern=each) for each in PATTERNS[1:] if each.name != _PINGS),
    *(Case(f"legacy, {each.name}", LEGACY, pattern=each) for each in PATTERNS if each.name == _PINGS),
)


class Talk:
    """One client of a server: what it sends."""

    def __init__(self, url: str, case: Case) -> None:
        place = urlsplit(url)
        self._case = case
        self._where = f"{place.path} HTTP/1.1\r\nHost: {place.netloc}\r\n"
        self._session = ""

    def begin(self, connection: Connection) -> None:
        """The handshake, where the era has one."""
        if self._case.version == MODERN:
            return
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
        answer = connection.ask(self._post("initialize", params, 0, {}))
        self._session = _header(answer, "mcp-session-id")
        answer = connection.ask(self._post("notifications/initialized", None, None, self._headers()))
        if b" 202 " not in answer[:16]:
            raise FailedError(f"the handshake was answered with {answer[:200]!r}")

    def requests(self, asked: Iterable[Asked]) -> list[bytes]:
        tool = "steps" if self._case.steps else "echo"
        headers = {method: self._headers(method, tool) for method in ("tools/call", "ping")}
        made = []
        for one in asked:
            params: dict[str, Any] | None = None
            if one.text is not None:
                params = {"name": tool, "arguments": {"text": one.text}, "_meta": self._meta(_token(one))}
            made.append(self._post(one.method, params, one.id, headers[one.method]))
        return made

    def check(self, answers: Sequence[bytes], asked: Sequence[Asked]) -> None:
        """Refuse answers that are not those of the server, be it in the progress before them."""
        for one, answer in zip(asked, answers, strict=True):
            try:
                *before, last = messages(answer)
                right = last["id"] == one.id and (one.text is None or last["result"]["content"][0]["text"] == one.text)
                steps = [(step["params"]["progressToken"], step["params"]["progress"]) for step in before]
            except (ValueError, LookupError):
                right, steps = False, []
            expected = [(_token(one), step) for step in range(1, self._case.steps + 1)]
            if not right or steps != expected:
                head, _, body = answer.decode(errors="replace").partition("\r\n\r\n")
                said = f"{one.method} {one.id} was answered with {head.splitlines()[0]} {body}"
                raise UnansweredError(said) if '"error"' in body else FailedError(said)

    def stream(self, number: int) -> bytes:
        """What opens a stream that stays open, as the era has it."""
        if self._case.version == LEGACY:
            return self._head("GET", self._headers() | {"Accept": "text/event-stream"})
        params = {"notifications": {"toolsListChanged": True}, "_meta": self._meta(number)}
        return self._post("subscriptions/listen", params, number, self._headers("subscriptions/listen"))

    def _meta(self, token: int | str) -> dict[str, Any]:
        modern = {"protocolVersion": MODERN, "clientInfo": _CLIENT, "clientCapabilities": {}}
        meta: dict[str, Any] = {_META + key: value for key, value in modern.items()}
        if self._case.version == LEGACY:
            meta = {}
        return meta | {"progressToken": token}

    def _headers(self, method: str = "", name: str = "") -> dict[str, str]:
        if self._case.version == LEGACY:
            return {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": self._session}
        return {"MCP-Protocol-Version": MODERN, "Mcp-Method": method} | ({"Mcp-Name": name} if name else {})

    def _post(self, method: str, params: Any, number: int | str | None, headers: dict[str, str]) -> bytes:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        body = json.dumps({key: value for key, value in message.items() if value is not None}, separators=(",", ":"))
        sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        return self._head("POST", sent | headers | {"Content-Length": str(len(body))}) + body.encode()

    def _head(self, verb: str, headers: dict[str, str]) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{verb} {self._where}{lines}\r\n".encode()


def messages(answer: bytes) -> list[Any]:
    """The JSON-RPC messages in an answer, be it JSON or a stream of events. Only of status 200."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head[:16]:
        raise ValueError(head)
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        body = b"".join(_chunks(body))
    if b"application/json" in head:
        return [json.loads(body)]
    lines = body.replace(b"\r\n", b"\n").split(b"\n")
    return [json.loads(line[5:]) for line in lines if line.startswith(b"data:") and line[5:].strip()]


def _chunks(body: bytes) -> Iterable[bytes]:
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        yield rest[:length]
        body = rest[length + 2 :]


def _header(answer: bytes, name: str) -> str:
    for line in answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n"):
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    raise FailedError(f"no {name} in {answer[:200]!r}")


def _token(one: Asked) -> int | str:
    """As SDKs have it, the id, unless another is asked for."""
    return one.id if one.token is None else one.token
