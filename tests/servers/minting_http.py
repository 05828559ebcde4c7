"""The same server over HTTP, strict about headers: python -m tests.servers.minting_http [sse]

Streamable HTTP of both eras at /mcp, or the old HTTP+SSE at /sse. Prints its URL.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .minting import VERSION, Body, Mint

SESSION = "Mcp-Session-Id"


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.mint = Mint()
        self.lock = threading.Lock()
        self.sessions: set[str] = set()
        self.streams: dict[str, Handler] = {}

    def answer(self, body: Body) -> bytes:
        with self.lock:
            return json.dumps(self.mint.answer(body)).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        if not self.path.startswith("/sse"):
            self._whole(405, b"no stream here")
            return
        number = secrets.token_hex(4)
        self._begin()
        self.server.streams[number] = self
        self._event(f"/messages?sessionId={number}".encode(), b"endpoint")
        self.rfile.read(1)  # until the client disconnects

    def do_DELETE(self) -> None:
        self.server.sessions.discard(self.headers.get(SESSION, ""))
        self._whole(200)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.startswith("/messages"):
            self._whole(202, b"Accepted")
            if "id" in body:
                self.server.streams[self.path.partition("=")[2]]._event(self.server.answer(body))
            return
        why = self._wrong(body)
        if why:
            self._whole(
                400, json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32020, "message": why}}).encode()
            )
        elif "id" not in body:
            self._whole(202)
        elif body["method"] == "tools/call":
            self._begin()
            self._event(self.server.answer(body))
            self._chunk(b"")
        else:
            self._whole(200, self.server.answer(body), **self._own(body))

    def _wrong(self, body: Body) -> str:
        """A strict server's objections to the headers of a request."""
        params = body.get("params") or {}
        version = params.get("_meta", {}).get(VERSION)
        if version is None:
            is_in = self.headers.get(SESSION) in self.server.sessions and "MCP-Protocol-Version" in self.headers
            return "" if is_in or body["method"] == "initialize" else "no session"
        wanted = {"MCP-Protocol-Version": version, "Mcp-Method": body["method"]}
        if body["method"] == "tools/call":
            wanted["Mcp-Name"] = params["name"]
        return next((f"{name} is not {value}" for name, value in wanted.items() if self.headers.get(name) != value), "")

    def _own(self, body: Body) -> dict[str, str]:
        if body["method"] != "initialize":
            return {}
        number = secrets.token_hex(8)
        self.server.sessions.add(number)
        return {SESSION: number}

    def _whole(self, status: int, body: bytes = b"", **headers: str) -> None:
        self._head(status, {"Content-Type": "application/json", "Content-Length": str(len(body))} | headers)
        self.wfile.write(body)

    def _begin(self) -> None:
        self._head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _event(self, text: bytes, name: bytes = b"message") -> None:
        self._chunk(b"event: " + name + b"\ndata: " + text + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def main(arguments: list[str]) -> None:
    with Server() as server:
        print(f"http://127.0.0.1:{server.server_port}/{'sse' if arguments else 'mcp'}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
