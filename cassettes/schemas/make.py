"""Makes the cassette of today's schema: python cassettes/schemas/make.py

One for each version of the schema, made when that was new, and never again: they show that what was recorded once can
be read for ever. It has every table, column and kind of frame in use, and is the same each time it is made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from mcp_tape.cassette import schema  # noqa: E402 (found only after the line above)
from mcp_tape.cassette.writer import Writer  # noqa: E402 (found only after the line above)
from mcp_tape.record.tape import Tape  # noqa: E402 (found only after the line above)
from mcp_tape.redaction.redactor import Redactor  # noqa: E402 (found only after the line above)

FACTS = {
    "target": {"command": ["server", "--verbose"]},
    "recorder": "mcp-tape",
    "note": None,
    "run": None,
    "label": "git",
}
GREETING = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}\n'
GREETED = (
    b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","serverInfo":{"name":"golden","version":"1"}}}\n'
)


def over_stdio(tape: Tape) -> None:
    tape.feed("client", "stdio", GREETING, 1_000)
    tape.feed("server", "stdio", GREETED, 2_000)
    tape.feed("server", "stderr", b"a line on stderr\nbytes \xff\x00\n", 3_000)
    tape.feed("server", "stdio", b"a line that is no message\r\n", 4_000)
    login = b'{"name":"login","arguments":{"user":"Zo\\u00eb","password":"hunter2-hunter2","n":1e2}}'
    tape.feed("client", "stdio", b'{"jsonrpc":"2.0","id":"two","method":"tools/call","params":' + login + b"}\n", 5_000)
    tape.feed("server", "stdio", b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1}}\n', 6_000)
    tape.feed("server", "stdio", b'{"jsonrpc":"2.0","id":"two","result":{"content":[],"isError":true}}\n', 7_000)
    batch = b'[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","id":4,"method":"prompts/list"}]\n'
    tape.feed("client", "stdio", batch, 8_000)
    answers = b'[{"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"no"}},{"jsonrpc":"2.0","id":3,"result":{}}]\n'
    tape.feed("server", "stdio", answers, 9_000)
    tape.control("client", "stdio", {"event": "close"}, 10_000)
    tape.control("server", "stdio", {"event": "exit", "code": 0}, 11_000)


def over_http(tape: Tape) -> None:
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    events = b': hello\n\nid: 7\nevent: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}\n\n'
    tape.control("client", "post-1", {"event": "request", "verb": "POST", "path": "/mcp", "headers": {}}, 1_000)
    tape.feed("client", "post-1", asked, 2_000)
    tape.end("client", "post-1", 2_000)
    headers = {"content-type": "text/event-stream"}
    tape.control("server", "post-1", {"event": "response", "status": 200, "headers": headers}, 3_000)
    tape.feed("server", "post-1", events, 4_000)
    tape.end("server", "post-1", 5_000)
    tape.control("server", "post-1", {"event": "close"}, 5_000)


def cut_short(tape: Tape) -> None:
    tape.feed("client", "stdio", b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"slow"}}\n', 1_000)


def add(path: Path, day: int, play: Callable[[Tape], None], ended: dict[str, Any], **facts: Any) -> None:
    writer = Writer(str(path))
    session = writer.begin(FACTS | {"started_at": f"2026-01-0{day}T00:00:00.000000Z", "transport": "stdio"} | facts)
    tape = Tape(lambda frame, entries: writer.append([(session, frame, entries)], {}), Redactor({}))
    play(tape)
    end = {"ended_at": f"2026-01-0{day}T00:00:01.000000Z", "exit_code": None, "incomplete": None}
    writer.finish(session, tape.ledger.facts | end | ended)
    writer.close()


def main() -> None:
    path = HERE / f"{schema.VERSION}.db"
    if path.exists():
        sys.exit(f"{path.name} is there, and stays as it is: a cassette of each schema is made once")
    add(path, 1, over_stdio, {"exit_code": 0}, note="golden")
    add(path, 2, over_http, {}, transport="http", target={"url": "http://127.0.0.1:8000/mcp"}, run="run-1")
    add(path, 3, cut_short, {"incomplete": "cut short"}, extends=1)


if __name__ == "__main__":
    main()
