"""The pairs of cassettes that diff.py compares: the same calls twice, a hundredth of them answered differently.

Each changed answer differs in one place: a value, a member that is new, or a text. Nothing is random.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_tape.cassette.writer import Writer
from mcp_tape.record.tape import Tape
from mcp_tape.wire.frames import Side

EVERY = 100  # of so many calls one is answered differently
_TEXT_AT = 51  # a call that reads a page
_WRITTEN = 2_000  # frames at once
_SEARCH, _PAGE = "search_issues", "read_page"
_FACTS = {"transport": "stdio", "target": {"command": ["server"]}, "recorder": "benchmark", "note": None, "run": None}
_WORDS = "lease queue retry cursor batch socket frame header stream token index shard quorum replica snapshot".split()
_ISSUE = {"type": "object", "properties": {"number": {"type": "integer"}, "title": {"type": "string"}}}
_TOOLS = [
    {"name": _SEARCH, "description": "Search issues.", "inputSchema": {"type": "object"},
     "outputSchema": {"type": "object", "properties": {"issues": {"type": "array", "items": _ISSUE}}}},
    {"name": _PAGE, "description": "Read a page of the manual.", "inputSchema": {"type": "object"}},
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """How the second recording differs from the first besides its answers."""

    name: str
    first_id: int = 2  # what its client counts from
    made_up: bool = False  # each request carries an id that the server made up in the answer before


PLAIN, OTHER_IDS, MADE_UP = CASES = (
    Case("the same ids"),
    Case("other request ids", first_id=1_000_000),
    Case("made-up ids", made_up=True),
)


def make_pair(place: Path, case: Case, calls: int) -> tuple[Path, Path]:
    """The old cassette and the new one."""
    paths = place / f"{case.name}-{calls}-old.db", place / f"{case.name}-{calls}-new.db"
    for path, new in zip(paths, (False, True), strict=True):
        if not path.exists():
            _write(path, _conversation(case, calls, new))
    return paths


def _write(path: Path, said: Iterator[tuple[Side, Any]]) -> None:
    writer = Writer(str(path))
    session = writer.begin({"started_at": "2026-01-01T00:00:00Z"} | _FACTS)
    batch: list[Any] = []
    tape = Tape(lambda frame, entries: batch.append((session, frame, entries)), None)
    for number, (side, message) in enumerate(said):
        tape.feed(side, "stdio", json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n", number * 1000)
        if len(batch) >= _WRITTEN:
            writer.append(batch, {})
            batch.clear()
    writer.append(batch, {session: tape.ledger.facts})
    writer.finish(session, {"ended_at": "2026-01-01T01:00:00Z", "exit_code": 0})
    writer.close()


def _conversation(case: Case, calls: int, new: bool) -> Iterator[tuple[Side, Any]]:
    first = case.first_id if new else 2
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "tracker", "version": "1.1.0" if new else "1.0.0"}}  # fmt: skip
    asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    yield from _exchange(first, "initialize", asked, greeting)
    yield from _exchange(first + 1, "tools/list", {}, {"tools": _TOOLS})
    for number in range(calls):
        name, arguments = _asked(case, number, new)
        result = _answered(case, name, number, new)
        yield from _exchange(first + 2 + number, "tools/call", {"name": name, "arguments": arguments}, result)


def _exchange(number: int, method: str, params: Any, result: Any) -> Iterator[tuple[Side, Any]]:
    yield "client", {"id": number, "method": method, "params": params}
    yield "server", {"id": number, "result": result}


def _asked(case: Case, number: int, new: bool) -> tuple[str, dict[str, Any]]:
    name = _PAGE if number % 4 == 3 else _SEARCH
    if not case.made_up:
        return name, {"query": f"{_word(number)} {number}", "limit": 3}
    return name, {"after": _made_up(number - 1, new) if number else None, "limit": 3}


def _answered(case: Case, name: str, number: int, new: bool) -> dict[str, Any]:
    id_ = _made_up(number, new and case.made_up)
    change = _change(number) if new else None
    if name == _PAGE:
        text = _page(number, id_) + (" No longer." if change == "text" else "")
        return {"content": [{"type": "text", "text": text}], "isError": False}
    issues = [_issue(3 * number + at) for at in range(3)]
    if change == "value":
        issues[1]["comments"] += 1
    elif change == "member":
        issues[1]["state_reason"] = "completed"
    content = {"id": id_, "total": number % 97, "issues": issues}
    # As the SDKs do it: the structured content once more, as text.
    return {
        "content": [{"type": "text", "text": json.dumps(content)}],
        "structuredContent": content,
        "isError": False,
    }


def _change(number: int) -> str | None:
    """What is different in an answer: in the middle of each hundred, where a page is read or just before."""
    change = ("value", "member", "text")[number // EVERY % 3]
    return change if number % EVERY == (_TEXT_AT if change == "text" else _TEXT_AT - 1) else None


def _issue(number: int) -> dict[str, Any]:
    user = {"login": f"{_word(number)}-{number % 41}", "id": number % 41, "type": "User", "site_admin": False}
    labels = [{"name": _word(number + at), "color": f"{number * 7919 % 0xFFFFFF:06x}", "default": at == 0}
              for at in range(2)]  # fmt: skip
    return {
        "number": number,
        "title": f"The {_word(number)} of the {_word(number // 15)} is lost after a restart",
        "state": "open" if number % 3 else "closed",
        "comments": number % 17,
        "user": user,
        "labels": labels,
        "milestone": None if number % 5 else {"title": f"v{number % 9}.0", "open_issues": number % 23},
        "reactions": {"total_count": number % 7, "+1": number % 5, "-1": number % 2},
    }


def _page(number: int, id_: str) -> str:
    lines = (" ".join(_word(number * line + at) for at in range(1, 12)) for line in range(1, 16))
    return f"Page {number}, revision {id_}\n" + ".\n".join(lines)


def _word(number: int) -> str:
    return _WORDS[number % len(_WORDS)]


def _made_up(number: int, new: bool) -> str:
    return hashlib.sha256(f"{new} {number}".encode()).hexdigest()[:24]
