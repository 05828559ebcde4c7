"""Usual requests parsed, and whole responses framed, without a parser for all of HTTP.

Whatever is unusual is left to h11, which accepts all that is accepted here, and frames responses in the same bytes.
https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from .asgi import App, Headers

OF_BROWSERS = (b"origin", b"sec-fetch-site")
_LARGEST = 1 << 16
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\xff](?:[\t\x20-\xff]*[\x21-\xff])?)?[ \t]*")
_PATH = re.compile(rb"/[\x21-\x7e]*")
_LENGTH = re.compile(rb"[0-9]{1,5}")
_UNUSUAL = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"connection", *OF_BROWSERS})
_ONCE = frozenset({b"host", b"content-length"})
_KEEP_ALIVE = (b"connection", b"keep-alive")


class Request(NamedTuple):
    """A POST. `headers` are shared with requests like it; `body` is None if it has not arrived yet."""

    path: str
    headers: Headers
    body: bytes | None


class Wait:
    """Wait for the body of a request."""


WAIT = Wait()
# The whole response; an application that goes on with the request; `WAIT`; or None if nothing was done about it.
Found = bytes | App | Wait | None
Quick = Callable[[Request], Found]


def parsed(data: bytes) -> Request | None:
    """Parse a usual request, whole or without its body; None for all others."""
    head, end, body = data.partition(b"\r\n\r\n")
    known = _parsed_head(head) if end else None
    if known is None or len(body) > known[2]:
        return None
    path, headers, length = known
    return Request(path, headers, body if len(body) == length else None)


@lru_cache(maxsize=64)  # those of one client differ in the length at the most
def _parsed_head(head: bytes) -> tuple[str, Headers, int] | None:
    """Parse the head of a usual request: its path, its headers and the length of its body."""
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or words[0] != b"POST" or words[2] != b"HTTP/1.1" or not _PATH.fullmatch(words[1]):
        return None
    headers: Headers = []
    once: dict[bytes, bytes] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            return None
        header = found[1].lower(), found[2] or b""
        if header[0] in _UNUSUAL and header != _KEEP_ALIVE:
            return None
        if header[0] in _ONCE:
            if header[0] in once:
                return None
            once[header[0]] = header[1]
        headers.append(header)
    length = once.get(b"content-length", b"")
    if len(once) < len(_ONCE) or not _LENGTH.fullmatch(length) or int(length) > _LARGEST:
        return None
    path = words[1].decode("latin-1")
    return None if "%" in path or "?" in path else (path, headers, int(length))


def whole(status: int, headers: Headers, body: bytes) -> bytes:
    """Frame a response with a length."""
    return _head(status, headers) + b"\r\n" + body


def chunked(headers: Headers, pieces: list[bytes]) -> bytes:
    """Frame a response of events, each a chunk: https://www.rfc-editor.org/rfc/rfc9112#section-7.1."""
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    return _head(200, headers) + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def _head(status: int, headers: Headers) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"HTTP/1.1 %d %b\r\n%b" % (status, _PHRASES.get(status, b""), lines)


_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}
