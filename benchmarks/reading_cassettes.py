"""The cassettes that reading.py reads: one session of so many messages, as a server with a few tools has it.

Nothing is random. Of eight calls one is slow and tells its progress; of fifty one fails; one city is asked for once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from mcp_tape.cassette.writer import Writer
from mcp_tape.record.tape import Tape
from mcp_tape.wire.frames import Side

RARE, COMMON, SLOW = "Zuoz", "weather", "read_page"
_WRITTEN = 10_000  # frames at once
_FACTS = {"transport": "stdio", "target": {"command": ["server"]}, "recorder": "benchmark", "note": None, "run": None}
_CITIES = "Bern Zürich Genf Basel Lugano Chur Sion Aarau Olten Thun".split()
_TOOLS = (f"get_{COMMON}", "find_train", "list_news", SLOW)
_ASKED = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
_GREETING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
             "serverInfo": {"name": "cities", "version": "1.0.0"}}  # fmt: skip
_LISTED = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in _TOOLS]}

Said = tuple[Side, dict[str, Any], int]  # with the microseconds since what was said before


def make(place: Path, messages: int) -> Path:
    """A cassette of so many messages."""
    path = place / f"{messages}.db"
    if not path.exists():
        _write(path, islice(_conversation(messages), messages))
    return path


def _write(path: Path, said: Iterator[Said]) -> None:
    writer = Writer(str(path))
    session = writer.begin({"started_at": "2026-01-01T00:00:00Z"} | _FACTS)
    batch: list[Any] = []
    tape = Tape(lambda frame, entries: batch.append((session, frame, entries)), None)
    at = 0
    for side, message, later in said:
        at += later
        tape.feed(side, "stdio", json.dumps({"jsonrpc": "2.0"} | message, ensure_ascii=False).encode() + b"\n", at)
        if len(batch) >= _WRITTEN:
            writer.append(batch, {})
            batch.clear()
    writer.append(batch, {session: tape.ledger.facts})
    writer.finish(session, {"ended_at": "2026-01-01T01:00:00Z", "exit_code": 0})
    writer.close()


def _conversation(messages: int) -> Iterator[Said]:
    """More than enough of it."""
    yield "client", {"id": 1, "method": "initialize", "params": _ASKED}, 0
    yield "server", {"id": 1, "result": _GREETING}, 40_000
    yield "client", {"method": "notifications/initialized"}, 500
    yield "client", {"id": 2, "method": "tools/list"}, 500
    yield "server", {"id": 2, "result": _LISTED}, 900
    rare = messages // 4
    for number in range(3, messages):
        yield from _call(number, RARE if number == rare else _CITIES[number % len(_CITIES)])


def _call(number: int, city: str) -> Iterator[Said]:
    slow = number % 8 == 0
    tool = SLOW if slow else _TOOLS[number % 3]
    params: dict[str, Any] = {"name": tool, "arguments": {"city": city, "day": number % 365}}
    if slow:
        params["_meta"] = {"progressToken": number}
    yield "client", {"id": number, "method": "tools/call", "params": params}, 300
    if slow:
        told = {"progressToken": number, "progress": 1, "total": 2}
        yield "server", {"method": "notifications/progress", "params": told}, 20_000
    failed = number % 50 == 7
    text = f"there is no news of {city}" if failed else _report(number, city)
    result = {"content": [{"type": "text", "text": text}], "isError": failed}
    yield "server", {"id": number, "result": result}, number * 7919 % 9_000 + 200


def _report(number: int, city: str) -> str:
    weather = f"{number % 35} degrees, wind of {number % 90} km/h, rain in {number % 24} hours"
    return f"{city}, day {number % 365}: {weather}. " * 3
