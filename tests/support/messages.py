"""JSON-RPC messages as text, in short forms for tests."""

from __future__ import annotations

import json
from typing import Any


def request(rpc_id: Any, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "method": method} | ({"params": params} if params else {}))


def call(rpc_id: Any, tool: str = "echo", token: Any = None, **arguments: Any) -> str:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return request(rpc_id, "tools/call", name=tool, arguments=arguments, **meta)


def result(rpc_id: Any, value: Any = "ok") -> str:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": {"value": value}})


def tell(method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {}))


def progress(token: Any, step: int) -> str:
    return tell("notifications/progress", progressToken=token, progress=step)


def values(texts: list[str]) -> list[Any]:
    return [json.loads(text)["result"]["value"] for text in texts]


def error(texts: list[str]) -> dict[str, Any]:
    assert len(texts) == 1
    found: dict[str, Any] = json.loads(texts[0])["error"]
    return found


def lines(*texts: str) -> bytes:
    return "".join(text + "\n" for text in texts).encode()
