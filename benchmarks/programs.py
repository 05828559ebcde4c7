"""The programs that are measured beside mcp-tape: two small servers, and a relay that records nothing.

    python programs.py server
    python programs.py orjson
    python programs.py relay COMMAND...

All do as little as they can. The first server does not even parse, so that what is measured is what stands
between client and server; the second reads and writes JSON as fast as Python can, as a yardstick for replays.
"""

from __future__ import annotations

import os
import sys

CHUNK = 1 << 16
_BLOCK = 1 << 20


def server() -> None:
    """Answer `tools/call` by the tool's name: echo, sink (a large request), blob (a large answer), pid."""
    with open(0, "rb", buffering=CHUNK) as lines:
        for line in lines:
            head = line[:160]
            number = head.partition(b'"id":')[2].partition(b",")[0]
            tool = head.partition(b'"name":"')[2].partition(b'"')[0]
            # one write for each message, as servers do
            write(1, b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":"%b"}]}}\n'
                     % (number, _answer(tool, line)))  # fmt: skip


def _answer(tool: bytes, line: bytes) -> bytes:
    if tool == b"echo":
        return line.partition(b'"text":"')[2].partition(b'"')[0]
    if tool == b"blob":
        return blob(int(line.partition(b'"size":')[2].partition(b"}")[0]))
    return b"%d" % (os.getpid() if tool == b"pid" else len(line))


def blob(size: int) -> bytes:
    """So many bytes of base64, as images are sent; the same every time."""
    from base64 import b64encode
    from random import Random

    block = b64encode(Random(1).randbytes(_BLOCK * 3 // 4))
    return (block * (size // _BLOCK + 1))[:size]


def orjson_server() -> None:
    """Answer `initialize`, and any other request with the text that it was given; every message is parsed."""
    import orjson

    with open(0, "rb", buffering=CHUNK) as lines:
        for line in lines:
            request = orjson.loads(line)
            if "id" in request:
                answer = {"jsonrpc": "2.0", "id": request["id"], "result": _result(request)}
                os.write(1, orjson.dumps(answer) + b"\n")  # one write for each message, as servers do


def _result(request) -> dict[str, object]:  # type: ignore[no-untyped-def]  # typing costs start-up
    if request["method"] == "initialize":
        server = {"name": "bench", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
    return {"content": [{"type": "text", "text": request["params"]["arguments"]["text"]}]}


def relay(command: list[str]) -> int:
    """Move bytes both ways, one thread each, and keep nothing."""
    import subprocess
    import threading

    child = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin and child.stdout
    threading.Thread(target=_pump, args=(0, child.stdin.fileno(), child.stdin.close), daemon=True).start()
    _pump(child.stdout.fileno(), 1, lambda: None)
    return child.wait()


def _pump(source: int, target: int, at_end) -> None:  # type: ignore[no-untyped-def]  # typing costs start-up
    while data := os.read(source, CHUNK):
        write(target, data)
    at_end()


def write(target: int, data: bytes) -> None:
    """All of it: a pipe may take less at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        sys.exit(relay(sys.argv[2:]))
    server() if sys.argv[1] == "server" else orjson_server()
