"""The HTTP client of the proxy: sends requests to the real server and reads its responses."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx2

from ...errors import ServerError
from ...wire import protocol
from ...wire.compression import BodyTooLargeError, Decoder, readable_codings
from ...wire.framing import Event, Events, Line, WholeBody, is_event_stream
from .message import Headers, header

Failed = httpx2.HTTPError
_CONNECT = 30.0  # seconds; reading has no limit
_IDLE = 2.0  # seconds to keep an idle connection: servers keep theirs longer, so they do not close one in use
_AS_CAME = "mcp_tape.headers"
_REDIRECTS = (307, 308)  # they keep the method and the body
# Headers that concern a single connection.
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade expect".split()
)


class Upstream:
    """Sends requests to one server. `headers` replace headers of the same name in each request."""

    def __init__(self, url: str, headers: Sequence[tuple[str, str]] = (), cacert: str | None = None) -> None:
        self.url = httpx2.URL(url)
        self.shown = str(self.url.copy_with(userinfo=b"", query=None))  # without the parts that may be secret
        self._cacert = cacert
        self._given = [(name.lower().encode(), value.encode()) for name, value in headers]
        self._client = httpx2.AsyncClient(
            verify=trusted_certificates(url, cacert),
            timeout=httpx2.Timeout(None, connect=_CONNECT),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=_IDLE),
            trust_env=True,
            event_hooks={"response": [_hide_location]},
        )

    def beside(self, origin: str) -> Upstream:
        """An upstream for another server, which gets none of this server's `headers`."""
        return Upstream(origin, (), self._cacert)

    @property
    def path(self) -> bytes:
        return self.url.raw_path.partition(b"?")[0]

    async def send(
        self, verb: str, target: bytes, headers: Headers, body: AsyncIterator[bytes] | None
    ) -> httpx2.Response:
        """Send a request and return the response with its body unread. `target`: a path with an optional query."""
        if target == self.path and self.url.query:
            target = self.url.raw_path
        request = httpx2.Request(verb, self.url, headers=self._forwarded_headers(verb, headers), content=body)
        request.extensions["target"] = target  # byte for byte: a URL would be normalized
        return await self._client.send(request, stream=True)

    @staticmethod
    def headers_of(response: httpx2.Response) -> Headers:
        """The headers of a response, unchanged."""
        return [(name.lower(), value) for name, value in response.extensions[_AS_CAME]]

    async def close(self) -> None:
        await self._client.aclose()

    def path_of(self, url: str, base: bytes) -> str | None:
        """The path and query of a URL, resolved against a path; None if it leads to another server."""
        found = resolve_within(str(self.url), url.strip(), base.decode("latin-1"))
        return found and path_and_query(found)

    def _forwarded_headers(self, verb: str, headers: Headers) -> Headers:
        dropped = {b"host", b"accept-encoding", *(name for name, _ in self._given)}
        kept = end_to_end(headers, dropped)
        asked = next((value for name, value in headers if name == b"accept-encoding"), b"").decode("latin-1")
        # Events are passed on one by one, and an `endpoint` event is rewritten, so streams are not compressed.
        coding = "identity" if verb == "GET" else readable_codings(asked)
        return [*kept, (b"accept-encoding", coding.encode()), *self._given]


async def _hide_location(response: httpx2.Response) -> None:
    """Hide `Location` from httpx2: it parses the header even if it does not follow it, and fails on invalid URLs."""
    response.extensions[_AS_CAME] = response.headers.raw
    response.headers.pop("location", None)


def end_to_end(headers: Headers, without: set[bytes] | frozenset[bytes] = frozenset()) -> Headers:
    """Headers without those of the connection: https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1."""
    named = {
        token.strip().lower() for key, value in headers if key.lower() == b"connection" for token in value.split(b",")
    }
    dropped = _HOP_BY_HOP | named | without
    return [(key.lower(), value) for key, value in headers if key.lower() not in dropped]


class ReceivedMessage(NamedTuple):
    """A message or other data, and the name of its event."""

    text: bytes
    event: str | None = None


class ResumeMark:
    """The last event of a stream, and the seconds to wait before resuming it.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
    """

    def __init__(self) -> None:
        self.last = ""
        self.retry = 1.0

    def update(self, number: str | None, retry: str | None) -> None:
        self.last = number or self.last
        # "If the field value consists of only ASCII digits". Eight digits would be hours.
        # https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
        self.retry = int(retry) / 1000 if retry and re.fullmatch("[0-9]{1,7}", retry) else self.retry


class IncomingResponse:
    """A response that is read in pieces: a JSON body, an event stream, an error, or a redirect.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
    """

    def __init__(self, status: int, headers: Headers, mark: ResumeMark | None = None) -> None:
        """`mark`: where the stream that this response resumes was cut off."""
        headers = [(name.lower(), value) for name, value in headers]
        self.status = status
        self.content_type = header(headers, b"content-type") or ""
        self.session = header(headers, protocol.SESSION_HEADER.encode())
        self.location = header(headers, b"location") if status in _REDIRECTS else None
        self.mark = mark or ResumeMark()
        self._error = bytearray()
        self._framing: Events | WholeBody = Events() if is_event_stream(self.content_type) else WholeBody()
        coding = header(headers, b"content-encoding") or "identity"
        self._decoder = Decoder(coding) if coding.lower() != "identity" else None

    @property
    def is_error(self) -> bool:
        return self.status >= 400

    @property
    def error(self) -> bytes:
        """The body of an error, as far as it has been read."""
        return bytes(self._error)

    def feed(self, data: bytes) -> Iterator[ReceivedMessage]:
        """Yield the messages that this piece of the body completes."""
        for piece in self._decompress(data):
            if self.is_error:
                self._error += piece
            elif self.location is None:
                yield from self._messages_of(self._framing.feed(piece))

    def close(self) -> Iterator[ReceivedMessage]:
        """Yield the messages that the end of the body completes."""
        # For events, "once the end of the file is reached, any pending data must be discarded".
        # https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
        if isinstance(self._framing, WholeBody) and self.location is None:
            yield from self._messages_of(self._framing.close())

    def _messages_of(self, units: Iterable[Event | Line]) -> Iterator[ReceivedMessage]:
        for unit in units:
            if not isinstance(unit, Event):
                yield ReceivedMessage(unit[0])
                continue
            self.mark.update(unit.field(b"id"), unit.field(b"retry"))
            if unit.text:
                yield ReceivedMessage(unit.text, unit.field(b"event"))

    def _decompress(self, data: bytes) -> list[bytes]:
        """Decompress data. It is returned unchanged if that fails, and dropped if it is too large."""
        if self._decoder is None:
            return [data]
        try:
            return list(self._decoder.feed(data))
        except BodyTooLargeError:
            return []
        except ValueError:
            self._decoder = None
            return [data]


def failure_reason(error: Exception) -> str:
    """The reason for a failure, in words."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message}); --cacert FILE trusts another authority"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed ({cause.reason or cause})"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.ConnectTimeout):
        return f"no connection within {_CONNECT:.0f} s"
    return str(error) or type(error).__name__


def trusted_certificates(url: str, cacert: str | None) -> ssl.SSLContext | bool:
    """The certificates to trust: the system's, or those in a file.

    For an http URL it trusts none. Requests stay with that server, and loading the system's certificates takes longer
    than a whole session.
    """
    if cacert is None:
        return urlsplit(url).scheme != "http" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no certificate
    try:
        return ssl.create_default_context(cafile=cacert)
    except (OSError, ssl.SSLError) as error:
        raise ServerError(f"--cacert {cacert}: {getattr(error, 'strerror', None) or error}") from None


def resolve_within(server: str, url: str, base: str = "") -> str | None:
    """Resolve a URL against the URL of a server, or a path there; None if it leads to another server."""
    try:
        whole = urljoin(server, urljoin(base, url))
        return whole if origin_of(whole) == origin_of(server) else None
    except ValueError:
        return None  # not a URL


def path_and_query(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port: https://www.rfc-editor.org/rfc/rfc6454#section-4."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1  # equal to no valid port
    return parts.scheme, parts.hostname, port or {"http": 80, "https": 443}.get(parts.scheme)
