"""OpenTelemetry collectors: one that accepts spans, and one that never answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector(ThreadingHTTPServer):
    """Accepts spans after answering with some other statuses; reports some spans as rejected."""

    def __init__(self, statuses: list[int], refused: int) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.statuses, self.refused = statuses, refused
        self.taken, self.paths = list[Any](), list[str]()
        self.url = f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> list[Any]:
        """All accepted spans."""
        return [
            span for one in self.taken for by in one.resource_spans for scope in by.scope_spans for span in scope.spans
        ]


class Answering(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.paths.append(self.path)
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status == 200:
            self.server.taken.append(ExportTraceServiceRequest.FromString(body))
        partial = ExportTracePartialSuccess(rejected_spans=self.server.refused, error_message="too old")
        refused = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
        answer = refused if status == 200 else b"later"
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def collecting(*statuses: int, refused: int = 0) -> Iterator[Collector]:
    with Collector(list(statuses), refused) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def hanging() -> Iterator[str]:
    """The URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def nobody() -> str:
    """A URL without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
