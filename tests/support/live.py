"""A live HTTP server, a client, and `mcp-tape use --url` between them, with real sockets and every byte visible."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import signal
import socket
import threading
from collections.abc import Generator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from tests.support.messages import request, result, tell
from tests.support.running import MCP_TAPE, WAIT, frames, receive, receive_line, sessions, started

BOTH = "application/json, text/event-stream"
INITIALIZE = request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c"})
INITIALIZED = tell("notifications/initialized")
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
Body = dict[str, Any]


def modern(rpc_id: Any, tool: str) -> str:
    return request(rpc_id, "tools/call", name=tool, arguments={}, _meta=META)


# A live server -----------------------------------------------------------------------------------------


class Live(ThreadingHTTPServer):
    """A strict server of both eras on a real socket.

    Counts its calls, so that a live answer differs from a replayed one.
    """

    daemon_threads = True

    def __init__(self, old: bool = False, redirects: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.old = old  # HTTP+SSE only
        self.redirects = redirects  # to the same path with a trailing slash
        self.listened: list[dict[str, str]] = []  # the headers of requests for a stream
        self.heard: list[Body] = []  # each message, with its headers
        self.calls = 0
        self.said: queue.Queue[Body] = queue.Queue()  # answers of clients
        self.left = threading.Event()  # a client left a call that was never answered
        self.streams: dict[str, Any] = {}
        self.url = f"http://127.0.0.1:{self.server_port}{'/sse' if old else '/mcp'}"

    def methods(self) -> list[str]:
        """The methods of all messages, with tools by name."""
        return [body.get("params", {}).get("name", body.get("method", "answer")) for body in self.heard]

    def handle_error(self, *_: Any) -> None:
        """A client may disconnect."""


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Live

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        if not self.server.old:
            self.server.listened.append({name.lower(): value for name, value in self.headers.items()})
            self._whole(405, "no stream here")
            return
        self._begin("text/event-stream")
        number = f"s{len(self.server.streams)}"
        self.server.streams[number] = self
        self._chunk(f"event: endpoint\ndata: /messages?sessionId={number}\n\n".encode())
        self.rfile.read(1)  # until the client disconnects

    def do_DELETE(self) -> None:
        self.server.heard.append({"method": "DELETE", "headers": dict(self.headers)})
        self._whole(200, "")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.redirects and not self.path.endswith("/"):
            self._whole(307, "", Location=f"{self.path}/")
            return
        for message in body if isinstance(body, list) else [body]:
            self.server.heard.append(message | {"headers": {k.lower(): v for k, v in self.headers.items()}})
        if self.server.old:
            self._whole(202, "Accepted")
            stream = self.server.streams[self.path.partition("=")[2]]
            if body.get("params", {}).get("name") == "die":
                stream.connection.shutdown(socket.SHUT_RDWR)
            else:
                stream._event(result(body["id"], ["old", self._count()]))
        elif not {"application/json", "text/event-stream"} <= set(self.headers.get("Accept", "").split(", ")):
            self._whole(406, "both must be accepted")
        elif isinstance(body, list):
            self._whole(200, json.dumps([json.loads(result(m["id"], ["batch", self._count()])) for m in body]))
        elif "method" not in body or "id" not in body:
            self._whole(202, "")
            if "result" in body:
                self.server.said.put(body)
        else:
            self._answer(body)

    def _answer(self, body: Body) -> None:
        number, params = body["id"], body.get("params", {})
        is_modern = "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {})
        name = params.get("name", body["method"])
        if body["method"] == "initialize":
            self._whole(200, result(number, "live"), "application/json", **{"Mcp-Session-Id": f"live-{self._count()}"})
        elif not is_modern and "Mcp-Session-Id" not in self.headers:
            self._whole(400, "no session")
        elif (tool := getattr(self, f"_{name}", None)) is not None:
            tool(number, params)
        else:
            self._whole(200, result(number, [name, self._count()]))

    def _ask(self, number: Any, params: Body) -> None:
        self._begin("text/event-stream")
        self._event(request(1, "roots/list"))
        self._event(result(number, self.server.said.get(timeout=WAIT)["result"]))
        self._chunk(b"")

    def _slow(self, number: Any, params: Body) -> None:
        self._begin("text/event-stream")
        token = params["_meta"]["progressToken"]
        self._event(tell("notifications/progress", progressToken=token, progress=1))
        self._event(result(number, "slow"))
        self._chunk(b"")

    def _die(self, number: Any, params: Body) -> None:
        self._begin("text/event-stream")
        self._event(tell("notifications/message", data="farewell"))
        self.close_connection = True  # without the last chunk

    def _refuse(self, number: Any, params: Body) -> None:
        self._whole(400, '{"jsonrpc":"2.0","id":null,"error":{"code":-32099,"message":"not today"}}')

    def _hang(self, number: Any, params: Body) -> None:
        self._begin("text/event-stream")
        self._event(tell("notifications/message", data="wait"))
        if self.rfile.read(1) == b"":
            self.server.left.set()

    def _count(self) -> int:
        self.server.calls += 1
        return self.server.calls

    def _whole(self, status: int, body: str, content: str = "application/json", **headers: str) -> None:
        self._head(status, content, **{"Content-Length": str(len(body))}, **headers)
        self.wfile.write(body.encode())

    def _begin(self, content: str) -> None:
        self._head(200, content, **{"Transfer-Encoding": "chunked"})

    def _head(self, status: int, content: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": content} | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def _event(self, text: str) -> None:
        self._chunk(f"event: message\ndata: {text}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


@contextlib.contextmanager
def serving(**options: bool) -> Iterator[Live]:
    with Live(**options) as live:
        threading.Thread(target=live.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield live
        finally:
            live.shutdown()


@contextlib.contextmanager
def hanging_up() -> Iterator[str]:
    """The URL of a server that reads a request and then closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            with listening.accept()[0] as connection:
                connection.recv(65536)

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            socket.create_connection(listening.getsockname(), WAIT).close()  # if no client came
            thread.join(WAIT)


# A client ----------------------------------------------------------------------------------------------


class Client:
    """A client that sees every byte. Each request has its own connection."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url = url
        self.headers = headers
        self.session: str | None = None

    @contextlib.contextmanager
    def send(self, verb: str, text: str | None = None, accept: str = BOTH) -> Iterator[http.client.HTTPResponse]:
        """The response to a request; leaving it early closes the connection."""
        parts = urlsplit(self.url)
        headers = self.headers | {"Accept": accept, "Content-Type": "application/json"}
        headers |= {"Mcp-Session-Id": self.session} if self.session else {}
        with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=WAIT)) as connection:
            connection.request(verb, f"{parts.path}?{parts.query}".rstrip("?"), text, headers)
            with connection.getresponse() as response:
                self.session = self.session or response.headers.get("Mcp-Session-Id")
                yield response

    def told(self, text: str) -> Generator[Body, None, None]:
        """Each message of the response to a request, as it arrives."""
        with self.send("POST", text) as response:
            if response.headers.get_content_type() == "text/event-stream":
                yield from events(response)
            elif body := response.read():
                parsed = json.loads(body)
                yield from parsed if isinstance(parsed, list) else [parsed]

    def ask(self, text: str) -> Any:
        """The value of the answer, or the error."""
        *_, last = self.told(text)
        assert last["id"] == json.loads(text)["id"], last
        return last["result"]["value"] if "result" in last else last["error"]

    def hello(self) -> Client:
        self.ask(INITIALIZE)
        assert list(self.told(INITIALIZED)) == []
        return self


def events(response: http.client.HTTPResponse) -> Iterator[Body]:
    for line in iter(response.readline, b""):
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


@contextlib.contextmanager
def old_client(url: str) -> Iterator[tuple[Client, Iterator[Body]]]:
    """A client of HTTP+SSE: one for posts, and its events."""
    stream = Client(urljoin(url, "/sse"))
    with stream.send("GET", accept="text/event-stream") as response:
        assert response.readline() == b"event: endpoint\n"
        path = response.readline().decode().removeprefix("data: ").strip()
        yield Client(urljoin(url, path)), events(response)


def posted(client: Client, text: str) -> int:
    with client.send("POST", text, "*/*") as response:  # as its SDKs do
        return response.status


class Vcr:
    """One cassette and one live server, used repeatedly."""

    def __init__(self, directory: Path, live: Live) -> None:
        self.live = live
        self.tape = directory / "tape.db"
        self.code = 0
        self.stderr = ""

    @contextlib.contextmanager
    def use(self, mode: str, *options: str, url: str | None = None) -> Iterator[str]:
        """Yield the URL that is served; keep the exit code and stderr."""
        command = [*MCP_TAPE, "use", str(self.tape), "--mode", mode, "--url", url or self.live.url, *options]
        with (self.tape.parent / "stderr").open("w+") as stderr, started(command, stderr=stderr) as process:
            assert process.stdout
            line = receive_line(process.stdout).decode()
            yield line.strip()
            process.send_signal(signal.SIGTERM)
            self.code = process.wait(WAIT)
            assert receive(process.stdout) == b""
            stderr.seek(0)
            self.stderr = stderr.read()

    def run(self, mode: str, *texts: str, options: Sequence[str] = (), url: str | None = None) -> list[Any]:
        """The answers to a client of the legacy era."""
        with self.use(mode, *options, url=url) as url:
            client = Client(url).hello()
            return [client.ask(text) for text in texts]

    def all_said(self) -> list[str]:
        return [frame.text.decode() for session in sessions(self.tape) for frame in frames(self.tape, session.id)]


DISCOVER = request("d", "server/discover", _meta=META)
