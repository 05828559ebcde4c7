"""A small server with answers that are hard to record: python -m tests.servers.odd

Numbers that no double can hold, escapes, a server request with a string as its id, notifications around an answer,
progress, errors with data, and text on stderr. Legacy era; `odd_http` serves it over HTTP.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
NUMBERS = '{"whole":123456789012345678901234567890,"hundred":1e2,"tenth":0.10,"nothing":-0.0,"caf\\u00e9":"\\u2028"}'
CALLS = ("numbers", "notes", "asks", "progress", "fails", "refuses")


class Odd:
    """Writes message texts, and waits for answers to its own requests."""

    def __init__(self, write: Callable[[str], None], read: Callable[[], str]) -> None:
        self.write = write
        self.read = read

    def say(self, **body: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0"} | body, ensure_ascii=False))

    def note(self, data: str) -> None:
        self.say(method="notifications/message", params={"level": "info", "data": data})

    def answer(self, number: Any, text: str, **more: Any) -> None:
        self.say(id=number, result={"content": [{"type": "text", "text": text}]} | more)

    def hear(self, heard: Body) -> None:
        method, number, params = heard.get("method"), heard.get("id"), heard.get("params") or {}
        if method is None or number is None:
            return
        if method == "initialize":
            result: Body = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            self.say(id=number, result=result | {"serverInfo": {"name": "odd", "version": "0.1 β"}})
        elif method == "tools/list":
            self.say(id=number, result={"tools": [{"name": "odd", "description": "Odd: “ä”", "inputSchema": SCHEMA}]})
        elif method == "tools/call" and params["arguments"]["what"] in CALLS:
            getattr(self, params["arguments"]["what"])(number, params)
        else:
            self.say(id=number, error={"code": -32601, "message": "Method not found"})

    def numbers(self, number: Any, params: Body) -> None:
        content = '[{"type":"text","text":"odd \\ud83e\\udd9c"}]'
        result = f'{{"structuredContent":{NUMBERS},"content":{content}}}'
        self.write(f'{{"result":{result},"id":{json.dumps(number)},"jsonrpc":"2.0"}}')

    def notes(self, number: Any, params: Body) -> None:
        self.note("before")
        self.answer(number, "noted")
        self.note("behind")

    def asks(self, number: Any, params: Body) -> None:
        self.say(id="a-1", method="roots/list")
        told = json.loads(self.read())
        self.answer(number, json.dumps([told["id"], told.get("result", {}).get("roots")]))

    def progress(self, number: Any, params: Body) -> None:
        token = params.get("_meta", {}).get("progressToken")
        for step in (1, 2, 3):
            self.say(method="notifications/progress", params={"progressToken": token, "progress": step, "total": 3})
        self.answer(number, "done")

    def fails(self, number: Any, params: Body) -> None:
        print("odd: it failed", file=sys.stderr, flush=True)
        self.answer(number, "no such luck", isError=True)

    def refuses(self, number: Any, params: Body) -> None:
        self.say(id=number, error={"code": -32050, "message": "not today", "data": {"until": "tomorrow"}})


if __name__ == "__main__":
    print("odd: ready", file=sys.stderr, flush=True)
    server = Odd(lambda text: print(text, flush=True), sys.stdin.readline)
    for line in iter(sys.stdin.readline, ""):
        server.hear(json.loads(line))
