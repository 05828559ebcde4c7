"""Cassettes written without a recorder: large ones, and pairs to compare. Nothing in them is random."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from mcp_tape.cassette.writer import Writer
from mcp_tape.record.tape import Tape
from mcp_tape.wire.frames import Side

_WRITTEN = 10_000  # frames per transaction
_FACTS = {"transport": "stdio", "target": {"command": ["server"]}, "recorder": "benchmark", "note": None, "run": None}
_ASKED = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}

Said = tuple[Side, dict[str, Any], int]  # with the microseconds since the previous message


def write(path: str, said: Iterable[tuple[Any, bytes, int]]) -> None:
    """Write one session of these lines, each with its side and the microseconds since the previous one."""
    writer = Writer(path)
    session = writer.begin({"started_at": "2026-01-01T00:00:00Z"} | _FACTS)
    batch: list[Any] = []
    tape = Tape(lambda frame, entries: batch.append((session, frame, entries)), None)
    at = 0
    for side, line, later in said:
        at += later
        tape.feed(side, "stdio", line, at)
        if len(batch) >= _WRITTEN:
            writer.append(batch, {})
            batch.clear()
    writer.append(batch, {session: tape.ledger.facts})
    writer.finish(session, {"ended_at": "2026-01-01T01:00:00Z", "exit_code": 0})
    writer.close()


def _write(path: Path, said: Iterable[Said]) -> Path:
    if not path.exists():
        lines = ((side, json.dumps({"jsonrpc": "2.0"} | message, ensure_ascii=False), at) for side, message, at in said)
        write(str(path), ((side, text.encode() + b"\n", at) for side, text, at in lines))
    return path


def _exchange(number: int, method: str, params: Any, result: Any, took: int = 900) -> Iterator[Said]:
    yield "client", {"id": number, "method": method, "params": params}, 300
    yield "server", {"id": number, "result": result}, took


# A long session of a server with a few tools. One call in eight is slow and reports progress, one in fifty fails, and
# one city occurs only once.

RARE, COMMON, SLOW = "Zuoz", "weather", "read_page"
_CITIES = "Bern Zürich Genf Basel Lugano Chur Sion Aarau Olten Thun".split()
_TOOLS = (f"get_{COMMON}", "find_train", "list_news", SLOW)


def make_long(place: Path, messages: int) -> Path:
    return _write(place / f"{messages}.db", islice(_long(messages), messages))


def _long(messages: int) -> Iterator[Said]:
    server = {"name": "cities", "version": "1.0.0"}
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
    yield from _exchange(1, "initialize", _ASKED, greeting, 40_000)
    yield "client", {"method": "notifications/initialized"}, 500
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in _TOOLS]
    yield from _exchange(2, "tools/list", {}, {"tools": tools})
    for number in range(3, messages):
        city = RARE if number == messages // 4 else _CITIES[number % len(_CITIES)]
        slow, failed = number % 8 == 0, number % 50 == 7
        params: dict[str, Any] = {"name": SLOW if slow else _TOOLS[number % 3]}
        params["arguments"] = {"city": city, "day": number % 365}
        weather = f"{number % 35} degrees, wind of {number % 90} km/h, rain in {number % 24} hours"
        text = f"there is no news of {city}" if failed else f"{city}, day {number % 365}: {weather}. " * 3
        result = {"content": [{"type": "text", "text": text}], "isError": failed}
        asked, answered = _exchange(number, "tools/call", params, result, number * 7919 % 9_000 + 200)
        if slow:
            params["_meta"] = {"progressToken": number}
        yield asked
        if slow:
            step = {"progressToken": number, "progress": 1, "total": 2}
            yield "server", {"method": "notifications/progress", "params": step}, 20_000
        yield answered


# The same calls recorded twice; one in a hundred has another answer in one place.

EVERY = 100
_WORDS = "lease queue retry cursor batch socket frame header stream token index shard quorum replica snapshot".split()


def make_pair(place: Path, calls: int, first_id: int = 2, made_up: bool = False) -> tuple[Path, Path]:
    """The old cassette and the new one: its client starts at another id, or its server makes up other ids."""
    old = _write(place / f"{calls}-old-{made_up}.db", _tracked(calls, 2, made_up, False))
    return old, _write(place / f"{calls}-new-{made_up}-{first_id}.db", _tracked(calls, first_id, made_up, True))


def _tracked(calls: int, first: int, made_up: bool, new: bool) -> Iterator[Said]:
    server = {"name": "tracker", "version": "1.1.0" if new else "1.0.0"}
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
    yield from _exchange(first, "initialize", _ASKED, greeting)
    tool = {"name": "search", "description": "Search issues.", "inputSchema": {"type": "object"}}
    yield from _exchange(first + 1, "tools/list", {}, {"tools": [tool]})
    for number in range(calls):
        arguments: dict[str, Any] = {"query": f"{_word(number)} {number}", "limit": 3}
        if made_up:  # each request has the made-up id of the previous answer
            arguments = {"after": _made_up(number - 1, new) if number else None, "limit": 3}
        issues = [_issue(3 * number + at) for at in range(3)]
        if new and number % EVERY == EVERY // 2:
            issues[1]["comments"] += 1
        content = {"id": _made_up(number, new and made_up), "total": number % 97, "issues": issues}
        # Like the SDKs: the structured content repeated as text.
        result = {"content": [{"type": "text", "text": json.dumps(content)}], "structuredContent": content}
        yield from _exchange(first + 2 + number, "tools/call", {"name": "search", "arguments": arguments}, result)


def _issue(number: int) -> dict[str, Any]:
    labels = [{"name": _word(number + at), "color": f"{number * 7919 % 0xFFFFFF:06x}"} for at in range(2)]
    return {
        "number": number,
        "title": f"The {_word(number)} of the {_word(number // 15)} is lost after a restart",
        "state": "open" if number % 3 else "closed",
        "comments": number % 17,
        "user": {"login": f"{_word(number)}-{number % 41}", "id": number % 41, "type": "User", "site_admin": False},
        "labels": labels,
        "milestone": None if number % 5 else {"title": f"v{number % 9}.0", "open_issues": number % 23},
        "reactions": {"total_count": number % 7, "+1": number % 5, "-1": number % 2},
    }


def _word(number: int) -> str:
    return _WORDS[number % len(_WORDS)]


def _made_up(number: int, new: bool) -> str:
    return hashlib.sha256(f"{new} {number}".encode()).hexdigest()[:24]
