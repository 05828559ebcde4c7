"""Conversations written by hand, for traffic that SDKs rarely produce.

Each is a list of lines in wire order. A line is sent only when all earlier ones have arrived, so its recording has
exactly these lines in exactly this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Sender = Literal["client", "server", "stderr"]


@dataclass(frozen=True, slots=True)
class Line:
    sender: Sender
    data: bytes


def _lines(text: str) -> list[Line]:
    """One line of the conversation per line of text: `>` the client, `<` the server, `!` its stderr."""
    senders: dict[str, Sender] = {">": "client", "<": "server", "!": "stderr"}
    rows = [row for row in text.strip().split("\n") if row]
    return [Line(senders[row[0]], row[2:].encode() + b"\n") for row in rows]


_HELLO = """
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"VERSION","capabilities":{"roots":{}},"clientInfo":{"name":"by-hand","version":"1.0"}}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"VERSION","capabilities":{"tools":{}},"serverInfo":{"name":"scripted","version":"1.0"}}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
"""  # noqa: E501 (a line is a line)


def _hello(version: str) -> list[Line]:
    return _lines(_HELLO.replace("VERSION", version))


# The one revision with batches: answered by a batch, by single messages, and with a notification inside.
_BATCH = """
> [{"jsonrpc":"2.0","id":2,"method":"tools/list"},{"jsonrpc":"2.0","id":3,"method":"ping"}]
< [{"jsonrpc":"2.0","id":3,"result":{}},{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}}]}}]
> [{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},"_meta":{"progressToken":"p4"}}},{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"add","arguments":{"a":3,"b":4}}},{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p4","progress":1,"total":1}}
< {"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"7"}]}}
< [{"jsonrpc":"2.0","id":1,"method":"roots/list"},{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"3"}]}}]
> [{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///project","name":"project"}]}}]
> [{"jsonrpc":"2.0","method":"notifications/roots/list_changed"},{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"subtract","arguments":{}}}]
< [{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"Unknown tool: subtract"}},{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"no such tool"}}]
"""  # noqa: E501

_META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientInfo":{"name":"by-hand","version":"1.0"},'
    '"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}'
)
_TAG = '"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"}'
_CALL = '"name":"book","arguments":{"city":"Bern"}'
_DONE = '"resultType":"complete"'

# No handshake; a request that needs input twice; a listen stream among other calls; a task polled four times.
_MODERN = """
> {"jsonrpc":"2.0","id":"a","method":"server/discover","params":{META}}
< {"jsonrpc":"2.0","id":"a","result":{DONE,"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"scripted","version":"1.0"},"ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"scripted","version":"1.0"}}}}
> {"jsonrpc":"2.0","id":"listen-1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["demo://clock"]},META}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["demo://clock"]},TAG}}
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{META}}
< {"jsonrpc":"2.0","id":1,"result":{DONE,"tools":[{"name":"book","inputSchema":{"type":"object","properties":{"city":{"type":"string"}}}}],"ttlMs":0,"cacheScope":"private"}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{CALL,META}}
< {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"demo://clock",TAG}}
< {"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"date":{"method":"elicitation/create","params":{"message":"Which day?","requestedSchema":{"type":"object","properties":{"day":{"type":"string"}}}}}},"requestState":"state-1"}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{CALL,"inputResponses":{"date":{"action":"accept","content":{"day":"Monday"}}},"requestState":"state-1",META}}
< {"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required","inputRequests":{"sure":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{"yes":{"type":"boolean"}}}}}},"requestState":"state-2"}}
< {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{TAG}}
> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{CALL,"inputResponses":{"sure":{"action":"accept","content":{"yes":true}}},"requestState":"state-2",META}}
< {"jsonrpc":"2.0","id":4,"result":{DONE,"content":[{"type":"text","text":"Booked: Bern, Monday."}]}}
> {"jsonrpc":"2.0","id":5,"method":"tools/list","params":{META}}
< {"jsonrpc":"2.0","id":5,"result":{DONE,"tools":[{"name":"book","inputSchema":{"type":"object"}},{"name":"dig","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}}
> {"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"dig","arguments":{"depth":3},META}}
< {"jsonrpc":"2.0","id":6,"result":{"resultType":"task","taskId":"task-1","status":"working","createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z","ttlMs":60000,"pollIntervalMs":10}}
> {"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":"task-1",META}}
< {"jsonrpc":"2.0","id":7,"result":{DONE,"taskId":"task-1","status":"working","statusMessage":"1 m"}}
> {"jsonrpc":"2.0","id":8,"method":"tasks/get","params":{"taskId":"task-1",META}}
< {"jsonrpc":"2.0","id":8,"result":{DONE,"taskId":"task-1","status":"working","statusMessage":"2 m"}}
> {"jsonrpc":"2.0","id":9,"method":"tasks/get","params":{"taskId":"task-1",META}}
< {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"demo://clock",TAG}}
< {"jsonrpc":"2.0","id":9,"result":{DONE,"taskId":"task-1","status":"working","statusMessage":"3 m"}}
> {"jsonrpc":"2.0","id":10,"method":"tasks/get","params":{"taskId":"task-1",META}}
< {"jsonrpc":"2.0","id":10,"result":{DONE,"taskId":"task-1","status":"completed","result":{"content":[{"type":"text","text":"A hole of 3 m."}]}}}
> {"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"sing","arguments":{},META}}
< {"jsonrpc":"2.0","id":11,"error":{"code":-32602,"message":"Unknown tool: sing"}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"listen-1"}}
< {"jsonrpc":"2.0","id":"listen-1","result":{DONE,TAG}}
"""  # noqa: E501

# 2 is cancelled and never answered, 3 is answered although it was cancelled, 4 continues meanwhile; the
# server cancels a request of its own (also number 2); 6 is still open when the client leaves.
_CANCELLED = """
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{"n":1},"_meta":{"progressToken":2}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1,"total":9}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"slow","arguments":{"n":2},"_meta":{"progressToken":3}}}
> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"slow","arguments":{"n":3}}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"changed my mind"}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"stopped 1"}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":9,"total":9}}
< {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"too late to stop 2"}]}}
< {"jsonrpc":"2.0","id":2,"method":"roots/list"}
< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"no longer needed"}}
< {"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"3 is done"}]}}
> {"jsonrpc":"2.0","id":5,"method":"ping"}
< {"jsonrpc":"2.0","id":5,"result":{}}
> {"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"slow","arguments":{"n":4}}}
"""  # noqa: E501

_NOISY = [
    Line("stderr", b"scripted server: hello on stderr\n"),
    Line("stderr", b"\x1b[33mcolour\x1b[0m and invalid UTF-8: \xff\xfe\n"),
    Line("server", b"Starting up, listening on stdio...\n"),
    Line("server", b"\n"),
    *_lines(
        """
> {"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{},"sampling":{}},"clientInfo":{"name":"by-hand","version":"1.0"}}}
"""  # noqa: E501
    ),
    Line(
        "server",
        b'{"jsonrpc":"2.0","id":"1","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'
        b'"serverInfo":{"name":"scripted","version":"1.0"}}}\r\n',
    ),
    Line("client", b'{"jsonrpc":"2.0","method":"notifications/initialized"}\r\n'),
    # Numbers, escapes and white space that decoding and encoding would change.
    Line(
        "client",
        b' {"jsonrpc" : "2.0",\t"id": 1, "method": "tools/call", "params": {"name": "sum", "arguments": '
        b'{"a": 1E2, "b": 1.0, "c": 123456789012345678901234567890, "d": "\\u00e9\\ud800", "a2": -0}}}\n',
    ),
    # Both sides count from 1, with numbers and with strings, at the same time.
    Line("server", b'{"id":1,"jsonrpc":"2.0","method":"roots/list","params":{}}\n'),
    Line("client", b'{"jsonrpc":"2.0","id":"one","method":"ping"}\n'),
    Line("server", b'{"jsonrpc":"2.0","id":"one","method":"ping"}\n'),
    Line("client", b'{"jsonrpc":"2.0","id":"one","result":{}}\n'),
    Line("server", b'{"jsonrpc":"2.0","result":{},"id":"one"}\n'),
    Line(
        "server",
        b'{"jsonrpc":"2.0","id":"1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}\n',
    ),
    Line("client", b'{"jsonrpc":"2.0","id":"1","error":{"code":-1,"message":"User rejected sampling"}}\n'),
    Line("client", b'{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}\n'),
    Line("server", b'DEBUG {"jsonrpc":"2.0","id":1,"result":"not this one"}\n'),
    Line(
        "server",
        b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"2.02E2 \\ud83d\\ude00 \\/"}],'
        b'"structuredContent":{"sum":2.02E2}}}   \n',
    ),
    Line("client", b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bytes","arguments":{}}}\n'),
    Line("server", b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"\xff\xfe not UTF-8"}]}}\n'),
    Line("server", b"nul: \0, cr in the middle: \r, line separator: \xe2\x80\xa8.\n"),
    Line("client", b"\n"),
    Line("client", b"this is not JSON\n"),
    Line("server", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'),
    Line("client", b'{"jsonrpc":"2.0","id":3.0,"method":"tools/list"}\n'),
    Line("server", b'{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}\n'),
    Line("server", b"the last line has no newline"),
]

CONVERSATIONS: dict[str, list[Line]] = {
    "batch": [*_hello("2025-03-26"), *_lines(_BATCH)],
    "modern": _lines(_MODERN.replace("META", _META).replace("TAG", _TAG).replace("CALL", _CALL).replace("DONE", _DONE)),
    "cancelled": [*_hello("2025-06-18"), *_lines(_CANCELLED)],
    "noisy": _NOISY,
}
