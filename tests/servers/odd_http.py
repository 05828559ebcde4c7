"""The odd server over Streamable HTTP: python tests/servers/odd_http.py

It has everything that is hard to record: a JSON answer on several lines; streams with comments, ids, lines that end in
CR LF, data on several lines, and no charset. It serves one client.
"""

from __future__ import annotations

import json
import queue
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from odd import Odd

PATIENCE = 120  # seconds
SESSION = "odd-1"


class Handler(BaseHTTPRequestHandler):
    answers: queue.Queue[str] = queue.Queue()  # from the client

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        heard = json.loads(body)
        if "method" not in heard:
            self.answers.put(body)
        if "method" not in heard or "id" not in heard:
            return self.begin(202)
        is_plain = heard.get("params", {}).get("arguments") == {"what": "numbers"}
        self.begin(200, "application/json" if is_plain else "text/event-stream")
        write = self.json if is_plain else self.event
        Odd(write, lambda: self.answers.get(timeout=PATIENCE)).hear(heard)
        return None

    def begin(self, status: int, content: str = "") -> None:
        self.send_response(status)
        if content:
            self.send_header("Content-Type", content)
        self.send_header("Mcp-Session-Id", SESSION)
        self.send_header("Access-Control-Expose-Headers", "Mcp-Session-Id")
        self.end_headers()

    def json(self, text: str) -> None:
        self.wfile.write(text.replace(',"', ',\r\n  "').encode() + b"\n")

    def event(self, text: str) -> None:
        first, _, rest = text.partition(", ")  # white space in JSON, like the line break between two data lines
        lines = (": odd", "id: 1", "event: message", f"data: {first},", f"data:{rest}", "", "")
        self.wfile.write("\r\n".join(lines).encode())

    def do_GET(self) -> None:
        self.begin(405 if self.path == "/mcp" else 404, "text/plain")
        self.wfile.write(b"nothing\n")

    def do_DELETE(self) -> None:
        self.begin(200)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
