"""Parses requests with llhttp, the parser of Node.js, through httptools: https://github.com/MagicStack/httptools.

llhttp is strict by default. This module adds stricter checks and limits.

httptools does not report where in its input a message ended. So it gets a head up to the empty line, and a chunked body
in pieces whose last one is known to end it; the caller keeps the rest.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

import httptools

from .message import Headers

MAX_HEAD = 1 << 16  # bytes
_END = b"\r\n\r\n"  # of a head, and of a chunked body: https://www.rfc-editor.org/rfc/rfc9112#section-7.1
_KEPT = len(_END) - 1  # bytes that may be the beginning of `_END`
_ABSOLUTE = re.compile(rb"https?://[^/?#]*", re.I)
_WHO = (b"host", b"origin", b"sec-fetch-site")
_CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


class BadRequestError(Exception):
    """A request that can't be served: the status of the response, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Head(NamedTuple):
    """The head of a request."""

    verb: str
    target: bytes  # in origin form, undecoded
    path: str
    query: str
    headers: Headers
    fields: dict[bytes, bytes]  # the first header of each name
    who: tuple[tuple[bytes, bytes], ...]  # the headers that name the host and the asking page
    keep_alive: bool
    is_old: bool  # HTTP/1.0, whose clients know neither chunks nor 100 Continue
    length: int | None  # of the body; None if it is chunked
    waits: bool  # for 100 Continue, before the body: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1


class HeadReader:
    """Reads the head of one request."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._fed = 0
        self._target = b""
        self._headers: Headers = []
        self._is_whole = self._keep_alive = False

    def read(self, data: bytes) -> tuple[Head, int] | None:
        """Return the head and its size; None while it is incomplete. `data`: the input since its beginning."""
        while not self._is_whole and self._fed < len(data):
            end = data.find(_END, max(0, self._fed - _KEPT))
            until = len(data) if end < 0 else end + len(_END)
            if until > MAX_HEAD:
                raise BadRequestError(431, f"the head of a request is larger than {MAX_HEAD >> 10} KiB")
            self._feed(data[self._fed : until])
            self._fed = until
        return (self._head(), self._fed) if self._is_whole else None

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # a server may ignore it: https://www.rfc-editor.org/rfc/rfc9110#section-7.8
        except httptools.HttpParserError as error:
            raise BadRequestError(400, f"this is not an HTTP request: {error}") from None

    # -- called by the parser

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self._is_whole = True
        self._keep_alive = self._parser.should_keep_alive()  # known only now

    # -- checks that the parser leaves to us

    def _head(self) -> Head:
        version, headers = self._parser.get_http_version(), self._headers
        if version not in ("1.0", "1.1"):
            raise BadRequestError(505, "only HTTP/1.1 and HTTP/1.0 are supported")
        is_old, fields, names = version == "1.0", dict(reversed(headers)), [name for name, _ in headers]
        # llhttp has checked that there is at most one, of digits.
        length: int | None = int(fields.get(b"content-length", 0))
        if b"transfer-encoding" in fields:
            length = None
            if fields[b"transfer-encoding"].lower() != b"chunked" or names.count(b"transfer-encoding") > 1:
                raise BadRequestError(501, "the only supported transfer coding is chunked")
        hosts = names.count(b"host")
        if hosts > 1 or (not hosts and not is_old):  # https://www.rfc-editor.org/rfc/rfc9112#section-3.2-6
            raise BadRequestError(400, "a request must have exactly one Host header")
        waits = not is_old and fields.get(b"expect", b"").lower() == b"100-continue"
        verb = self._parser.get_method().decode()
        keep_alive = not is_old and verb != "CONNECT" and self._keep_alive
        del self._parser  # it refers to us; without the cycle, both are freed at once
        who = tuple(one for one in headers if one[0] in _WHO)
        return Head(verb, *_place(self._target), headers, fields, who, keep_alive, is_old, length, waits)


def whole_head(data: bytes) -> tuple[Head, int] | None:
    """Return the head at the beginning of a request, and its size; None if it is incomplete."""
    end = data.find(_END, 0, MAX_HEAD)
    return None if end < 0 else _whole_head(bytes(data[: end + len(_END)]))


@lru_cache(64)  # a client's requests mostly have the same head
def _whole_head(data: bytes) -> tuple[Head, int] | None:
    return HeadReader().read(data)


@lru_cache(64)  # different heads mostly have the same target
def _place(target: bytes) -> tuple[bytes, str, str]:
    """The target in origin form, its path, and its query."""
    own = _origin_form(target)
    path, _, query = own.partition(b"?")
    return own, unquote(path.decode("latin-1")), query.decode("latin-1")


def _origin_form(target: bytes) -> bytes:
    """Strip the origin off a target in absolute form, which clients send to proxies.

    https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2
    """
    found = None if target.startswith(b"/") else _ABSOLUTE.match(target)
    if found is None:
        return target
    rest = target[found.end() :]
    return rest if rest.startswith(b"/") else b"/" + rest


class ChunkedReader:
    """Reads a chunked body."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(_CHUNKED)  # not the head of the request itself, which may ask for an upgrade
        self._before = b""
        self._pieces: list[bytes] = []
        self.is_whole = False

    def read(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the part of a piece that is in the body, and the rest after the body."""
        while data and not self.is_whole:
            seen = self._before + data
            end = seen.find(_END)
            taken = len(data) if end < 0 else end + len(_END) - len(self._before)
            try:
                self._parser.feed_data(data[:taken])
            except httptools.HttpParserError as error:
                raise BadRequestError(400, f"the chunks of the request's body are invalid: {error}") from None
            self._before = (self._before + data[:taken])[-_KEPT:]
            data = data[taken:]
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces), data

    # -- called by the parser

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        self.is_whole = True
        del self._parser  # as above; it is still in its last call
