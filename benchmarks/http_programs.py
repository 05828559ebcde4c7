"""The programs that mcp-tape is compared with over HTTP. Each prints the URL it listens on, and ends on SIGTERM.

python http_programs.py upstream PATH            answers at once, and parses as little as possible
python http_programs.py proxy URL                passes everything through and keeps nothing
python http_programs.py sdk json|stream          the MCP SDK's own server
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from typing import Any

STEPS = 5  # progress notifications before an answer
STREAMS = "/streams"
_HELD_BACK = {b"host", b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}

_JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_RESULT = (
    b'{"jsonrpc":"2.0","id":%b,"result":{"resultType":"complete","content":[{"type":"text","text":"%b"}],'
    b'"isError":false}}'
)
_PROGRESS = (
    b'{"jsonrpc":"2.0","method":"notifications/progress",'
    b'"params":{"progressToken":%b,"progress":%d,"total":%d}}'
)  # fmt: skip
_LISTENING = (
    b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},'
    b'"_meta":{"io.modelcontextprotocol/subscriptionId":%b}}}'
)


class Upstream(asyncio.Protocol):
    """Answers a `tools/call` with its text, in the form of the path: /json, /sse, /progress; /streams stays open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._unread = b""

    def data_received(self, data: bytes) -> None:
        self._unread += data
        head, found, rest = self._unread.partition(b"\r\n\r\n")
        length = int(_between(head.lower(), b"\r\ncontent-length:", b"\r\n") or 0)
        if found and len(rest) >= length:
            self._unread = rest[length:]
            self._answer(_between(head, b" ", b" "), rest[:length])

    def _answer(self, path: bytes, body: bytes) -> None:
        write = self._transport.write
        number, text = _between(body, b'"id":', b",") or b"0", _between(body, b'"text":"', b'"')
        result = _RESULT % (number, text)
        if path == b"/json":
            write(_JSON % (len(result), result))
            return
        write(_STREAM)
        if path == STREAMS.encode():
            write(_chunk(_LISTENING % number))
            return
        if path == b"/progress":
            for step in range(1, STEPS + 1):
                write(_chunk(_PROGRESS % (number, step, STEPS)))  # one write per event, like real servers
        write(_chunk(result) + b"0\r\n\r\n")


def _between(data: bytes, before: bytes, after: bytes) -> bytes:
    return data.partition(before)[2].partition(after)[0]


def _event(message: bytes) -> bytes:
    return b"event: message\r\ndata: %b\r\n\r\n" % message


def _chunk(message: bytes) -> bytes:
    event = _event(message)
    return b"%x\r\n%b\r\n" % (len(event), event)


async def upstream(path: str) -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, sock=_listening(path))
    await server.serve_forever()


def proxy(target: str) -> None:
    """A minimal streaming reverse proxy on the same libraries as the recording one."""
    import httptools
    import httpx2

    origin, _, path = target.rpartition("/")
    # The defaults allow only a hundred connections, and drop a quiet stream.
    unbounded = httpx2.Limits(max_connections=None, max_keepalive_connections=None)

    class Proxy(asyncio.Protocol):
        """One connection: reads one request at a time as a whole, and streams its answer."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport: Any = transport
            self._parser = httptools.HttpRequestParser(self)
            self._task: asyncio.Task[None] | None = None

        def connection_lost(self, _: Exception | None) -> None:
            if self._task:
                self._task.cancel()

        def data_received(self, data: bytes) -> None:
            self._parser.feed_data(data)

        def on_message_begin(self) -> None:
            self._url, self._headers, self._body = b"", [], b""

        def on_url(self, url: bytes) -> None:
            self._url += url

        def on_header(self, name: bytes, value: bytes) -> None:
            if name.lower() not in _HELD_BACK:
                self._headers.append((name, value))

        def on_body(self, body: bytes) -> None:
            self._body += body

        def on_message_complete(self) -> None:
            self._task = asyncio.create_task(self._pass_on(self._parser.get_method().decode()))

        async def _pass_on(self, verb: str) -> None:
            where = origin + self._url.decode()
            request = client.build_request(verb, where, headers=self._headers, content=self._body)
            response = await client.send(request, stream=True)
            try:
                kept = [pair for pair in response.headers.raw if pair[0].lower() not in _HELD_BACK]
                is_chunked = not any(name.lower() == b"content-length" for name, _ in kept)
                kept += [(b"Transfer-Encoding", b"chunked")] * is_chunked
                lines = b"".join(b"%b: %b\r\n" % pair for pair in kept)
                self._transport.write(b"HTTP/1.1 %d .\r\n%b\r\n" % (response.status_code, lines))
                async for data in response.aiter_raw():
                    self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if is_chunked else data)
                if is_chunked:
                    self._transport.write(b"0\r\n\r\n")
            finally:
                await response.aclose()

    client = httpx2.AsyncClient(timeout=None, limits=unbounded, trust_env=False)
    client.headers.clear()

    async def listen() -> None:
        server = await asyncio.get_running_loop().create_server(Proxy, sock=_listening(f"/{path}"))
        await server.serve_forever()

    asyncio.run(listen())


def sdk(as_json: bool) -> None:
    """A minimal tool in the SDK's low-level server, without a look-up of tools for each call."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
    from mcp.server.transport_security import TransportSecuritySettings

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [types.Tool(name=name, input_schema=schema) for name in ("echo", "steps")]

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "steps":
            for step in range(1, STEPS + 1):
                await context.session.report_progress(step, STEPS)
        text = (params.arguments or {})["text"]
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server: Server[Any] = Server(
        "bench",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call,
        on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus()),
        get_tool_input_schema=lambda _: schema,
    )
    # The default for this address, but a host without a port is allowed: a peer sends no other.
    hosts = TransportSecuritySettings(allowed_hosts=["127.0.0.1:*", "127.0.0.1"])
    app = server.streamable_http_app(json_response=as_json, transport_security=hosts)
    serve(app, "/mcp")


def serve(app: Any, path: str) -> None:
    """Serve an ASGI application, as the SDK's servers do."""
    import uvicorn

    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[_listening(path)])


def _listening(path: str) -> socket.socket:
    """A listening socket; prints its URL."""
    # asyncio turns off Nagle's algorithm, which costs 40 ms per answer, only for sockets that name this protocol.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}{path}", flush=True)
    return listening


def main(program: str, *arguments: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn catches it and raises it again
    if program == "upstream":
        asyncio.run(upstream(arguments[0]))
    elif program == "proxy":
        proxy(arguments[0])
    else:
        sdk(arguments[0] == "json")


if __name__ == "__main__":
    main(*sys.argv[1:])
