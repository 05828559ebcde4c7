"""Sessions of mcp-time-travel 0.3: tool calls in `recording.jsonl`, beside `metadata.json`. The rest is invented."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...wire import protocol
from ..foreign import (
    NO_HANDSHAKE,
    RESERIALISED,
    Clock,
    Item,
    JsonRow,
    Loss,
    Reader,
    SessionStart,
    SourceFile,
    command,
    milliseconds,
)
from ..foreign import sent_value as sent_value

_ONLY = "only tool calls and lists of tools: no notifications, prompts, resources or requests of the server"


def _fits(source: SourceFile) -> bool:
    first = source.first
    return (first.get("type") == "tools_list" and "tools" in first) or (
        first.get("type") == "tool_call" and {"tool", "input", "output"} <= first.keys()
    )


def _read(source: SourceFile) -> Iterator[Item]:
    meta = source.document_beside("metadata.json") or JsonRow("{}", {})
    clock, number = Clock(meta.get("startTime") or source.first.get("timestamp")), 0
    target = command(meta.get("serverConfig", "command"), meta.get("serverConfig", "args"))
    yield SessionStart(clock.started_at, target)
    yield from (Loss(NO_HANDSHAKE), Loss(RESERIALISED), Loss(_ONLY))
    yield from _handshake(meta.get("serverName"))
    for row in source.rows():
        if isinstance(row, Loss):
            yield row
            continue
        number += 1
        at, took = clock.at(row.get("timestamp")), milliseconds(row.get("latency_ms"))
        if row.get("type") == "tools_list":
            yield _request(at, number, protocol.TOOLS)
            yield sent_value(at, "server", _answer(number, {"tools": row.get("tools")}))
        elif row.get("type") == "tool_call":
            yield _request(at - took, number, protocol.CALL, {"name": row.get("tool"), "arguments": row.get("input")})
            yield sent_value(at, "server", _answer(number, row.get("output")))


def _handshake(name: Any) -> Iterator[Item]:
    info = {"name": name if isinstance(name, str) else "unknown", "version": "unknown"}
    both = {"protocolVersion": protocol.LAST_LEGACY_VERSION}
    client = {"name": "mcp-time-travel", "version": "unknown"}
    yield _request(0, 0, protocol.INITIALIZE, both | {"capabilities": {}, "clientInfo": client})
    yield sent_value(0, "server", _answer(0, both | {"capabilities": {"tools": {}}, "serverInfo": info}))
    yield sent_value(0, "client", {"jsonrpc": "2.0", "method": protocol.INITIALIZED})


def _request(at: int, number: int, method: str, params: Any = None) -> Item:
    more = {} if params is None else {"params": params}
    return sent_value(at, "client", {"jsonrpc": "2.0", "id": number, "method": method} | more)


def _answer(number: int, output: Any) -> dict[str, Any]:
    """A response. The file stores a JSON-RPC error as an output with that member only."""
    error = output.get("error") if isinstance(output, dict) and output.keys() == {"error"} else None
    is_error = isinstance(error, dict) and "code" in error
    return {"jsonrpc": "2.0", "id": number} | ({"error": error} if is_error else {"result": output})


READERS = (Reader("mcp-time-travel", _fits, _read),)
