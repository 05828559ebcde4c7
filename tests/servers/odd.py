"""A small server whose answers others' recorders find hard to keep: python -m tests.servers.odd

Numbers that no double holds, escapes, a request of its own with a text as its id, notifications around an answer,
progress, errors with data, and words on stderr. It is of the legacy era.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Body = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
NUMBERS = '{"whole":123456789012345678901234567890,"hundred":1e2,"tenth":0.10,"nothing":-0.0,"caf\\u00e9":"\\u2028"}'


def write(text: str) -> None:
    print(text, flush=True)


def say(**body: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0"} | body, ensure_ascii=False))


def note(data: str) -> None:
    say(method="notifications/message", params={"level": "info", "data": data})


def answer(number: Any, text: str, **more: Any) -> None:
    say(id=number, result={"content": [{"type": "text", "text": text}]} | more)


def numbers(number: Any, params: Body) -> None:
    content = '[{"type":"text","text":"odd \\ud83e\\udd9c"}]'
    write(f'{{"result":{{"structuredContent":{NUMBERS},"content":{content}}},"id":{number},"jsonrpc":"2.0"}}')


def notes(number: Any, params: Body) -> None:
    note("before")
    answer(number, "noted")
    note("behind")


def asks(number: Any, params: Body) -> None:
    say(id="a-1", method="roots/list")
    told = json.loads(sys.stdin.readline())
    answer(number, json.dumps([told["id"], told.get("result", {}).get("roots")]))


def progress(number: Any, params: Body) -> None:
    token = params.get("_meta", {}).get("progressToken")
    for step in (1, 2, 3):
        say(method="notifications/progress", params={"progressToken": token, "progress": step, "total": 3})
    answer(number, "done")


def fails(number: Any, params: Body) -> None:
    print("odd: it failed", file=sys.stderr, flush=True)
    answer(number, "no such luck", isError=True)


def refuses(number: Any, params: Body) -> None:
    say(id=number, error={"code": -32050, "message": "not today", "data": {"until": "tomorrow"}})


CALLS = {call.__name__: call for call in (numbers, notes, asks, progress, fails, refuses)}


def hear(method: str, number: Any, params: Body) -> None:
    if method == "initialize":
        info = {"name": "odd", "version": "0.1 β"}
        say(id=number, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        say(id=number, result={"tools": [{"name": "odd", "description": "Odd: “ä”", "inputSchema": SCHEMA}]})
    elif method == "tools/call":
        CALLS[params["arguments"]["what"]](number, params)
    else:
        say(id=number, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    print("odd: ready", file=sys.stderr, flush=True)
    for line in iter(sys.stdin.readline, ""):
        heard = json.loads(line)
        if "id" in heard and "method" in heard:
            hear(heard["method"], heard["id"], heard.get("params") or {})
