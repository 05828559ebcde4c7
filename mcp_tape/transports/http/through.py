"""Asking a live HTTP server through the proxy that records it, without a client of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from ...wire import protocol, rewrite
from ...wire.framing import Event, Events, Whole
from .listen import Headers, Scope, header
from .upstream import origin_of

if TYPE_CHECKING:
    from .relay import Proxy

    Hear = Callable[[bytes, str | None], None]  # a message, and the name of the event that brought it

_SESSION = protocol.SESSION_HEADER.encode()
# Of the client's headers those are left out that are about its own connection, its own session, or ours to say.
_OURS = (b"content-length", b"transfer-encoding", b"accept-encoding", b"accept", b"host", _SESSION)
_ACCEPTS = {"POST": b"application/json, text/event-stream", "GET": b"text/event-stream"}
_REDIRECTS = (307, 308)
_MOST_REDIRECTS = 3


class Through:
    """One client's requests to the live server, in a session that it has there."""

    def __init__(self, proxy: Proxy, path: bytes) -> None:
        self._proxy = proxy
        self.path = path
        self.session: bytes | None = None

    async def ask(
        self, verb: str, headers: Headers, body: bytes, hear: Hear, left: asyncio.Event | None = None
    ) -> Refused | None:
        """One request; each message of the response is heard. `left`: set when the client leaves."""
        path = self.path
        for _ in range(_MOST_REDIRECTS):
            response = _Response(hear)
            await self._proxy(self._scope(verb, path, headers, body), _receive(body, left), response.send)
            self.session = self.session or response.session
            if response.redirect is None:
                return response.refused
            here = self.path_here(path, response.redirect)
            if here is None:
                return _elsewhere(response.redirect)
            path = here
        return _refused(f"the server redirects more than {_MOST_REDIRECTS} times")

    def path_here(self, path: bytes, location: str) -> bytes | None:
        """Where a redirect, or an endpoint, leads within the server; None where it leads to another."""
        try:
            url = urljoin(self._proxy.origin + path.decode("latin-1"), location)
            if origin_of(url) != origin_of(self._proxy.origin):
                return None
        except ValueError:
            return None
        parts = urlsplit(url)
        return f"{parts.path}?{parts.query}".rstrip("?").encode("latin-1", "replace")

    def _scope(self, verb: str, path: bytes, headers: Headers, body: bytes) -> Scope:
        own = [(b"accept", _ACCEPTS[verb])]
        own += [(b"content-length", b"%d" % len(body))] if body else []
        own += [(_SESSION, self.session)] if self.session else []
        kept = [(name, value) for name, value in headers if name not in _OURS and (body or name != b"content-type")]
        raw, _, query = path.partition(b"?")
        return {"method": verb, "raw_path": raw, "query_string": query, "headers": [*kept, *own]}


class Refused(NamedTuple):
    """A response that is an error of HTTP."""

    status: int
    content_type: str
    body: bytes


def _elsewhere(location: str) -> Refused:
    url = location.partition("?")[0]  # what stands behind it may be secret
    return _refused(f"the server redirects to {url}, which is another server and was sent nothing")


def _refused(reason: str) -> Refused:
    error = rewrite.error(rewrite.REFUSED, f"mcp-tape: {reason}")
    return Refused(502, "application/json", f'{{"jsonrpc":"2.0","id":null,"error":{error}}}'.encode())


class _Response:
    """Takes a response apart as it comes."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._framing: Events | Whole = Whole()
        self.session: bytes | None = None
        self.redirect: str | None = None
        self.refused: Refused | None = None

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._begin(message["status"], message["headers"])
            return
        if self.refused is not None:
            self.refused = self.refused._replace(body=self.refused.body + message["body"])
            return
        units: list[Any] = [*self._framing.feed(message["body"])]
        for unit in units if message.get("more_body") else [*units, *self._framing.close()]:
            if isinstance(unit, Event):
                if unit.text:
                    self._hear(unit.text, unit.field(b"event"))
            else:
                self._hear(unit[0], None)

    def _begin(self, status: int, headers: Headers) -> None:
        session, location = header(headers, _SESSION), header(headers, b"location")
        self.session = session.encode() if session else None
        if status in _REDIRECTS and location:
            self.redirect = location
        content_type = header(headers, b"content-type") or ""
        if status >= 400:
            self.refused = Refused(status, content_type, b"")
        elif content_type.lower().startswith("text/event-stream"):
            self._framing = Events()


def _receive(body: bytes, left: asyncio.Event | None) -> Callable[[], Any]:
    """What an application is given to read a request, and to hear that the client has left."""
    requests = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> MutableMapping[str, Any]:
        message = next(requests, None)
        if message is not None:
            return message
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return receive
