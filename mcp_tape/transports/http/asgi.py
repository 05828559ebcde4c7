"""ASGI's words, and what its applications share: https://asgi.readthedocs.io/en/latest/specs/www.html"""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

TRANSPORT = "mcp_tape.transport"  # in a scope: the connection of the request


def header(headers: Headers, name: bytes) -> str | None:
    """The value of the first header of this name; names are in lower case, as ASGI has them."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


async def answer(
    send: Send,
    status: int,
    text: str | bytes,
    content: bytes = b"text/plain; charset=utf-8",
    *more: tuple[bytes, bytes],
) -> None:
    """Send a response of our own."""
    body = text.encode() if isinstance(text, str) else text
    headers = [(b"content-length", b"%d" % len(body)), *([(b"content-type", content)] if body else []), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def abort(scope: Scope) -> None:
    """End the connection of a request at once: an incomplete response must not look complete.

    https://www.rfc-editor.org/rfc/rfc9112#section-8
    """
    scope[TRANSPORT].abort()


def reset(scope: Scope) -> None:
    """Reset the connection of a request, as a network fault would."""
    at_once = struct.pack("ii", 1, 0)  # to linger for no time makes the system send a reset, see SO_LINGER in socket(7)
    scope[TRANSPORT].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    abort(scope)
