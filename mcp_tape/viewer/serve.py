"""The page of cassettes, served to a browser on this machine and to nobody else.

It listens on a loopback address at a port that is free, below a path that cannot be guessed, and answers only requests
that name this address as their host and come from its own page: https://owasp.org/www-community/attacks/DNS_Rebinding
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from threading import Lock  # noqa: TID251 - browsers open connections ahead, which must not hold up others
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from ..errors import TapeError
from .feed import Feed, save
from .page import page

_HOST = "127.0.0.1"
_PATIENCE = 30  # seconds for a request to arrive
_MOST_BODY = 64 << 20
_HTML, _JSON, _DATA = "text/html; charset=utf-8", "application/json", "application/octet-stream"


class Viewer(ThreadingHTTPServer):
    """Serves cassettes until it is closed."""

    daemon_threads = True

    def __init__(self, *paths: str, report: Callable[[str], None]) -> None:
        super().__init__((_HOST, 0), _Handler)
        self.paths, self.report = paths, report
        self.token = secrets.token_urlsafe(24)
        self.feed, self.lock = Feed(*paths), Lock()

    @property
    def origin(self) -> str:
        return f"http://{_HOST}:{self.server_port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a browser that hung up


class _Handler(BaseHTTPRequestHandler):
    server: Viewer
    timeout = _PATIENCE
    server_version, sys_version = "mcp-tape", ""

    def do_GET(self) -> None:
        place = self._place()
        if place is None:
            return
        feed, address = self.server.feed, urlsplit(place)
        given = {name: values[-1] for name, values in parse_qs(address.query).items()}
        if address.path == "":
            self._answer(b"".join(page([], may_ask=True)), _HTML)
        elif address.path == "updates":
            self._try(lambda: feed.since(*_numbers(given, "from", "generation")), _DATA)
        elif address.path == "findings":
            self._try(feed.findings, _JSON, alone=False)
        elif address.path == "compared":
            self._try(lambda: feed.compared(*_numbers(given, "old", "new")), _HTML, alone=False)
        elif address.path.removeprefix("block/").isdecimal():
            number = int(address.path.removeprefix("block/")[:9])
            found = number < len(feed.blocks)
            self._answer(feed.blocks[number], _DATA) if found else self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        place, size = self._place(), self.headers.get("content-length", "")
        if place is None:
            return
        if place != "save":
            self._refuse(HTTPStatus.NOT_FOUND)
        elif not size.isdecimal() or int(size[:12]) > _MOST_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            body = self.rfile.read(int(size))
            self._try(lambda: self._saved(body), _DATA)

    def _saved(self, body: bytes) -> bytes:
        wanted = {int(session): set(seqs) for session, seqs in orjson.loads(body).items()}
        with TemporaryDirectory(prefix="mcp-tape-") as directory:
            to = os.path.join(directory, "saved.db")
            save(self.server.paths, to, wanted, self.server.feed.numbers)
            with open(to, "rb") as file:
                return file.read()

    def _place(self) -> str | None:
        """The path below ours; None for strangers, who are refused."""
        refused = self._refused()
        if refused is None:
            return self.path.removeprefix("/").partition("/")[2]
        self._refuse(refused)
        return None

    def _refused(self) -> HTTPStatus | None:
        """Return why a request is refused: by its host, by the page that makes it, by its token."""
        headers, origin = self.headers, self.server.origin
        if headers.get_all("host") != [origin.removeprefix("http://")]:
            return HTTPStatus.MISDIRECTED_REQUEST
        near = headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        if not near or headers.get("origin", origin) != origin:
            return HTTPStatus.FORBIDDEN
        token = self.path.removeprefix("/").partition("/")[0].encode()
        return None if hmac.compare_digest(token, self.server.token.encode()) else HTTPStatus.NOT_FOUND

    def _try(self, make: Callable[[], bytes], kind: str, *, alone: bool = True) -> None:
        """Answer with what is made, or why it cannot be. `alone`: while nothing else is."""
        try:
            with self.server.lock if alone else nullcontext():
                body = make()
        except (TapeError, ValueError, TypeError, AttributeError, KeyError) as error:
            self.server.report(str(error))
            self._answer(str(error).encode("utf-8", "replace"), "text/plain; charset=utf-8", HTTPStatus.BAD_REQUEST)
        else:
            self._answer(body, kind)

    def _refuse(self, status: HTTPStatus) -> None:
        self._answer(f"mcp-tape: {status.phrase}\n".encode(), "text/plain", status)

    def _answer(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        facts = {
            "Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
        }  # fmt: skip
        for name, value in facts.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by http.server
        pass


def _numbers(given: Mapping[str, str], *names: str) -> list[int]:
    return [int(given.get(name, "0")[:9] or 0) for name in names]
