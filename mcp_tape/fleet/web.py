"""A cassette at http:// or https://: one object, fetched by its URL.

Redirects are followed within the same server only. Another server would see the query of a signed URL; and this machine
may be able to reach servers that the redirecting one cannot.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import format_datetime, parsedate_to_datetime
from socket import SHUT_RDWR, socket
from threading import Event, Timer
from typing import Any

import httpx2

from .. import __version__
from ..transports.http.upstream import resolve_within, trusted_certificates
from . import stores
from .stores import StoreError, UnreachableError

_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_NOT_MODIFIED = 304
_DENIED, _GONE = (401, 403), (404, 410)
_RETRIED = (408, 429)  # and 500 or more
_PAUSES = (0.1, 0.2, 0.4, 0.8, None)  # seconds between tries
_EPOCH = datetime.fromtimestamp(0, timezone.utc)


class WebAnswer:
    """The response to a request for an object, with its body still to be read. Use it in a `with` block."""

    def __init__(self, url: str, name: str, etag: str | None = None, since: datetime | None = None) -> None:
        """`name`: the URL's name, for errors. Raises UnreachableError, GoneError or StoreError if it is not there."""
        self._name = name
        self._connection: socket | None = None
        self._is_late = False
        self._timer = Timer(stores.LONGEST, self._stop)
        self._timer.daemon = True
        self._client = httpx2.Client(
            verify=trusted_certificates(url, None),
            timeout=httpx2.Timeout(stores.PATIENCE, connect=stores.CONNECT),
            headers={"accept": "*/*", "accept-encoding": "identity", "user-agent": f"mcp-tape/{__version__}"},
        )
        self._timer.start()
        try:
            self._response = self._request(url, etag, since)
            self.is_new = self._response.status_code != _NOT_MODIFIED
            self.meta = self._facts()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> WebAnswer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._timer.cancel()
        self._client.close()
        self._forget()

    def stream(self, min_chunk_size: int) -> _Pieces:
        return _Pieces(self._pieces(min_chunk_size))

    def _pieces(self, size: int) -> Iterator[bytes]:
        try:
            yield from self._response.iter_raw(size)
        except (httpx2.HTTPError, OSError) as error:
            raise self._translate_error(error) from None

    def _request(self, url: str, etag: str | None, since: datetime | None) -> httpx2.Response:
        """Make a request; retry for a while if the server fails."""
        headers = {"if-none-match": etag} if etag else {}
        if since and not etag:
            headers["if-modified-since"] = format_datetime(since.astimezone(timezone.utc), usegmt=True)
        for pause in _PAUSES:
            try:
                response = self._follow_redirects(url, headers)
            except (httpx2.HTTPError, OSError) as error:
                if pause is None or self._is_late or _is_certificate(error):
                    raise self._translate_error(error) from None
            else:
                status = response.status_code
                if pause is None or not (status >= 500 or status in _RETRIED):
                    return self._expect_object(response)
                response.close()
            Event().wait(pause)
        raise AssertionError  # the last try returns or raises

    def _follow_redirects(self, url: str, headers: dict[str, str]) -> httpx2.Response:
        for _ in range(_MOST_REDIRECTS):
            request = self._client.build_request("GET", url, headers=headers, extensions={"trace": self._see})
            try:
                response = self._client.send(request, stream=True)
            except httpx2.InvalidURL:
                raise UnreachableError(f"cannot reach {self._name}: it redirects to an invalid URL") from None
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or location is None:
                return response
            response.close()
            target = resolve_within(url, location)
            if target is None:
                raise StoreError(
                    f"{self._name} redirects to {_origin(location)}, another server; nothing was sent there; "
                    "to use that one, give its URL"
                )
            url = target
        raise UnreachableError(f"cannot reach {self._name}: it redirects more than {_MOST_REDIRECTS} times")

    def _expect_object(self, response: httpx2.Response) -> httpx2.Response:
        """Return a response with the object, or with status 304; raise for any other."""
        status = response.status_code
        if status in (200, _NOT_MODIFIED):
            return response
        if status in _GONE:
            raise stores.gone_error(self._name)
        if status in _DENIED:
            raise stores.denied_error(self._name)
        raise UnreachableError(f"cannot reach {self._name}: the server answered with status {status}")

    def _facts(self) -> dict[str, Any]:
        """The size, time and ETag of the object, under obstore's names."""
        headers = self._response.headers
        size = headers.get("content-length", "")
        if self.is_new and not size.isdecimal():
            why = "its server does not send the size; download it another way, and give the file"
            raise UnreachableError(f"cannot reach {self._name}: {why}")
        modified = _EPOCH
        with suppress(TypeError, ValueError):
            modified = parsedate_to_datetime(headers.get("last-modified", "")).replace(tzinfo=timezone.utc)
        return {"size": int(size or 0), "last_modified": modified, "e_tag": headers.get("etag")}

    # -- the limit for the whole download: a server that keeps sending single bytes never exceeds the timeout for one

    def _see(self, event: str, facts: dict[str, Any]) -> None:
        """Keep a handle on the connection: https://www.encode.io/httpcore/extensions/#trace"""
        if event == "connection.connect_tcp.complete":
            self._forget()
            self._connection = facts["return_value"].get_extra_info("socket").dup()

    def _stop(self) -> None:
        self._is_late = True
        if self._connection is not None:
            with suppress(OSError):
                self._connection.shutdown(SHUT_RDWR)

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _translate_error(self, error: Exception) -> UnreachableError:
        """An error in our words: the client's own may quote the URL."""
        why = "the connection broke off"
        if _is_certificate(error):
            why = "its certificate is not trusted"
        elif self._is_late or isinstance(error, httpx2.TimeoutException):
            why = "no answer in time"
        elif isinstance(error, httpx2.ConnectError):
            why = "no connection to its host"
        return UnreachableError(f"cannot reach {self._name}: {why}")


class _Pieces:
    """The pieces of a body, for sync and async loops."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await asyncio.to_thread(next, self._pieces, None)) is not None:
            yield piece


def _is_certificate(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _origin(location: str) -> str:
    """The server of a URL, without the parts that may be secret."""
    url = httpx2.URL(location)
    return str(url.copy_with(userinfo=b"", raw_path=b"/", fragment=None)).rstrip("/")
