"""The programs that mcp-tape is compared with: two small servers, and a relay that records nothing.

python programs.py server
python programs.py orjson
python programs.py relay COMMAND...

All are minimal. The first server does not even parse, so that the measured time is that of the program between client
and server. The second reads and writes JSON as fast as Python can, as a yardstick for replays.
"""

from __future__ import annotations

import os
import sys

CHUNK = 1 << 16
CHATTER, NOISE = 6, 200  # lines of a chatty server, and of one that prints invalid messages
_NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%b, %d"}}\n'


def server() -> None:
    """Answer each `tools/call` with its own text, sometimes with more messages. A batch is answered with a batch."""
    with open(0, "rb", buffering=CHUNK) as lines:
        for line in lines:
            if line.startswith(b"["):
                ids = [part.partition(b",")[0] for part in line.split(b'"id":')[1:]]
                write(1, b"[%b]\n" % b",".join([b'{"jsonrpc":"2.0","id":%b,"result":{}}' % each for each in ids]))
                continue
            head = line[:160]
            number = head.partition(b'"id":')[2].partition(b",")[0]
            tool = head.partition(b'"name":"')[2].partition(b'"')[0]
            if tool == b"chatter":
                write(1, b"".join([_NOTE % (number, step) for step in range(CHATTER - 1)]))
            elif tool == b"noise":
                write(1, b"ok\n" * (NOISE - 1))
            result = line.partition(b'"arguments":')[2].rstrip()[:-2]  # the mirror answers with its arguments
            if tool != b"mirror":
                said = line.partition(b'"text":"')[2].partition(b'"')[0]
                result = b'{"content":[{"type":"text","text":"%b"}]}' % said
            # one write per message, like real servers
            write(1, b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (number, result))


def orjson_server() -> None:
    """Answer `initialize`, `ping`, `tools/list`, and any other request with its own text; every message is parsed."""
    import orjson

    with open(0, "rb", buffering=CHUNK) as lines:
        for line in lines:
            request = orjson.loads(line)
            if "id" in request:
                answer = {"jsonrpc": "2.0", "id": request["id"], "result": _result(request)}
                os.write(1, orjson.dumps(answer) + b"\n")  # one write per message, like real servers


def _result(request) -> dict[str, object]:  # type: ignore[no-untyped-def]  # typing costs start-up
    if request["method"] == "initialize":
        server = {"name": "bench", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
    if request["method"] == "ping":
        return {}
    if request["method"] == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return {"tools": [{"name": "echo", "description": "Say it again.", "inputSchema": schema}]}
    return {"content": [{"type": "text", "text": request["params"]["arguments"]["text"]}]}


def relay(command: list[str]) -> int:
    """Move bytes both ways, with a thread for each, and keep nothing."""
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
    """Write everything: a pipe may accept less at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        sys.exit(relay(sys.argv[2:]))
    server() if sys.argv[1] == "server" else orjson_server()
