"""The page of cassettes, served only to a browser on this machine.

It listens on a loopback address at a free port, below an unguessable path, and answers only requests that name this
address as their host and come from its own page: https://owasp.org/www-community/attacks/DNS_Rebinding
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import orjson

from ..errors import TapeError
from ..transports.http.guard import Accidents
from ..transports.http.listen import Address, Site
from ..transports.http.message import TEXT, Headers
from .feed import Feed, save
from .page import page

if TYPE_CHECKING:
    from ..transports.http.listen import HttpRequest
    from ..transports.http.message import Work

_HOST = "127.0.0.1"
_HTML, _JSON, _DATA = b"text/html; charset=utf-8", b"application/json", b"application/octet-stream"
_DEFLATED: Headers = [(b"content-encoding", b"deflate")]
_FACTS: Headers = [
    (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"), (b"cross-origin-resource-policy", b"same-origin"),
]  # fmt: skip


class Viewer:
    """Serves cassettes on a page."""

    max_body: int | None = 64 << 20

    def __init__(self, *paths: str, report: Callable[[str], None]) -> None:
        self.paths, self.report = paths, report
        self.token = secrets.token_urlsafe(24)
        self.feed, self._lock = Feed(*paths), Lock()
        self.site = Site(Address(_HOST, 0), Accidents(report), own_pages=True)

    @property
    def url(self) -> str:
        return f"{self.site.origin}/{self.token}/"

    def serve(self) -> None:
        """Serve until a signal arrives."""
        self.site.serve(self, lambda origin: None)

    def refuse(self, what: str) -> None:
        """Report nothing about refused requests."""

    def expects(self, target: str) -> bool:
        return False

    def __call__(self, request: HttpRequest) -> Work:
        return self._respond(request)

    async def _respond(self, request: HttpRequest) -> None:
        token, _, place = request.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            _refuse(request, 404, "Not Found")
        elif request.verb == "GET":
            await self._get(request, place)
        elif request.verb != "POST":
            _refuse(request, 405, "Method Not Allowed")
        elif place != "save":
            _refuse(request, 404, "Not Found")
        elif request.body is None:
            _refuse(request, 413, "Content Too Large")
        else:
            await self._try(request, partial(self._save, request.body), _DATA)

    async def _get(self, request: HttpRequest, place: str) -> None:
        feed = self.feed
        given = {name: values[-1] for name, values in parse_qs(request.query).items()}
        if place == "":
            _answer(request, b"".join(page([], may_ask=True)), _HTML)
        elif place == "updates":
            await self._try(request, lambda: feed.update_after(*_numbers(given, "from", "generation")), _DATA)
        elif place == "findings":
            await self._try(request, feed.findings, _JSON, alone=False)
        elif place == "compared":
            await self._try(request, lambda: feed.comparison_page(*_numbers(given, "old", "new")), _HTML, alone=False)
        elif place.removeprefix("block/").isdecimal():
            number = int(place.removeprefix("block/")[:9])
            found = number < len(feed.blocks)
            _answer(request, feed.blocks[number], TEXT, more=_DEFLATED) if found else _refuse(request, 404, "Not Found")
        else:
            _refuse(request, 404, "Not Found")

    def _save(self, body: bytes) -> bytes:
        wanted = {int(session): set(seqs) for session, seqs in orjson.loads(body).items()}
        with TemporaryDirectory(prefix="mcp-tape-") as directory:
            to = os.path.join(directory, "saved.db")
            save(self.paths, to, wanted, self.feed.numbers)
            with open(to, "rb") as file:
                return file.read()

    async def _try(self, request: HttpRequest, make: Callable[[], bytes], kind: bytes, *, alone: bool = True) -> None:
        """Answer with the result, or with the error. `alone`: one at a time."""

        def make_alone() -> bytes:
            with self._lock if alone else nullcontext():
                return make()

        try:
            body = await _in_thread(make_alone)
        except (TapeError, ValueError, TypeError, AttributeError, KeyError) as error:
            self.report(str(error))
            _answer(request, str(error).encode("utf-8", "replace"), TEXT, 400)
        else:
            _answer(request, body, kind)


def _refuse(request: HttpRequest, status: int, reason: str) -> None:
    _answer(request, f"mcp-tape: {reason}\n".encode(), TEXT, status)


def _answer(
    request: HttpRequest, body: bytes, kind: bytes, status: int = 200, more: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    request.respond(status, [(b"content-type", kind), *_FACTS, *more], body)


async def _in_thread(make: Callable[[], bytes]) -> bytes:
    """Run a function in a thread that does not outlive the process."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[bytes] = loop.create_future()

    def tell(done: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has stopped
            loop.call_soon_threadsafe(lambda: result.done() or done())  # type: ignore[func-returns-value]

    def work() -> None:
        try:
            made = make()
        except Exception as error:
            failure = error
            tell(lambda: result.set_exception(failure))
        else:
            tell(lambda: result.set_result(made))

    Thread(target=work, daemon=True).start()
    return await result


def _numbers(given: Mapping[str, str], *names: str) -> list[int]:
    return [int(given.get(name, "0")[:9] or 0) for name in names]
