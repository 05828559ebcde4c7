"""Requests and responses as applications see them, without connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Protocol

    class HttpExchange(Protocol):
        """A request, and the response to it."""

        verb: str
        target: bytes  # path and query, as they came
        headers: Headers
        expects_body: bool
        has_left: bool  # the client, before the end of the response
        when_left: Callable[[], object]

        def pieces(self) -> AsyncIterator[bytes]:
            """Yield the body as it arrives."""

        def begin(self, status: int, headers: Headers) -> None:
            """Begin a response."""

        async def send(self, data: bytes) -> None:
            """Send a piece of the body, and wait while the client reads slowly."""

        def end(self) -> None:
            """End the response."""

        def respond(self, status: int, headers: Headers, body: bytes) -> None:
            """Send a whole response."""

        def abort(self) -> None:
            """End the connection at once: a response that has begun must not look complete.

            https://www.rfc-editor.org/rfc/rfc9112#section-8
            """


class ClientLeftError(Exception):
    """The client has left before the end of its request."""


Headers = list[tuple[bytes, bytes]]  # names in lower case
Work = Coroutine[Any, Any, None]
TEXT = b"text/plain; charset=utf-8"
_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}
_EMPTY = (204, 304)  # statuses without a body


def header(headers: Headers, name: bytes) -> str | None:
    """The value of the first header with this name."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def has_body(verb: str, status: int) -> bool:
    """Return whether a body follows the head of a response: https://www.rfc-editor.org/rfc/rfc9112#section-6.3."""
    return verb != "HEAD" and status not in _EMPTY and status >= 200


def response_head(status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> bytes:
    """The head of a response. `length`: bytes of its body, unless a header gives it."""
    return _response_head(status, *headers) + (b"\r\n" if length is None else b"content-length: %d\r\n\r\n" % length)


@lru_cache(64)  # most responses have the same headers
def _response_head(status: int, *headers: tuple[bytes, bytes]) -> bytes:
    """The lines of a head. Raises ValueError for a header that contains a line break."""
    lines = [b"HTTP/1.1 %d %b" % (status, _PHRASES.get(status, b"")), *(b"%b: %b" % one for one in headers)]
    head = b"\r\n".join([*lines, b""])
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\0" in head:
        raise ValueError(f"not the head of a response: {head!r}")
    return head
