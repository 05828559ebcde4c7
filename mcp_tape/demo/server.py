"""An MCP server in a few lines: `forecast` reports progress and asks the client's model, if it may; all else fails.

`python -m mcp_tape.demo.server next` is its next version, which breaks clients: `forecast` needs `days` too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import orjson

_NEXT = sys.argv[1:] == ["next"]
_ARGUMENTS = {"city": {"type": "string"}} | ({"days": {"type": "integer"}} if _NEXT else {})
_TOOLS = [
    {
        "name": "forecast",
        "description": "The weather of tomorrow, in the words of the client's model.",
        "inputSchema": {"type": "object", "properties": _ARGUMENTS, "required": [*_ARGUMENTS]},
    }
]


def main() -> None:
    lines, has_model = _messages(), False
    for message in lines:
        if "id" in message:
            has_model |= "sampling" in message.get("params", {}).get("capabilities", {})
            send({"jsonrpc": "2.0", "id": message["id"], **_answer(message, lines, has_model)})


def send(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def _messages() -> Iterator[dict[str, Any]]:
    for line in sys.stdin.buffer:
        yield orjson.loads(line)


def _answer(message: dict[str, Any], lines: Iterator[dict[str, Any]], has_model: bool) -> dict[str, Any]:
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            info = {"name": "demo-weather", "version": "1.1" if _NEXT else "1.0"}
            version = params["protocolVersion"]
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            return {"result": {"tools": _TOOLS}}
        case "tools/call" if params["name"] == "forecast" and not params["arguments"].keys() >= _ARGUMENTS.keys():
            return {"error": {"code": -32602, "message": "days is missing"}}
        case "tools/call" if params["name"] == "forecast":
            return {"result": {"content": [{"type": "text", "text": _forecast(params, lines, has_model)}]}}
        case "tools/call":
            return {"error": {"code": -32602, "message": f"Unknown tool: {params['name']}"}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def _forecast(params: dict[str, Any], lines: Iterator[dict[str, Any]], has_model: bool) -> str:
    token, city = params.get("_meta", {}).get("progressToken"), params["arguments"]["city"]
    for step in (1, 2) if token is not None else ():
        progress = {"progressToken": token, "progress": step, "total": 2}
        send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
    words = f"Sunny in {city}."
    if not has_model:
        return words
    prompt = {"role": "user", "content": {"type": "text", "text": f"Weather in {city}?"}}
    sampling = {"messages": [prompt], "maxTokens": 20}
    # The server's own ids start at 1 too: each direction has its own ids.
    send({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": sampling})
    reply = next(message for message in lines if "method" not in message)
    return str(reply["result"]["content"]["text"]) if "result" in reply else words


if __name__ == "__main__":
    main()
