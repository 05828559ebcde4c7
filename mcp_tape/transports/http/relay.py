"""The recording HTTP proxy: each piece is recorded, then passed on unchanged.

Each request downstream becomes one request upstream. Messages are not buffered: if the reader is slow, the proxy stops
reading from the sender. Side requests, such as those of a login, name servers in URLs that are rewritten (login.py), so
their small bodies are read whole and then passed on.
"""

from __future__ import annotations

import asyncio
import re
from binascii import b2a_base64
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from ...errors import ServerError
from ...redaction.diagnostics import hide_secrets
from ...wire import frames, protocol
from ...wire.channels import SIDE, http_channel
from ...wire.compression import Decoder
from ...wire.framing import Events, is_event_stream
from .login import Destination, LoginRewriter, secrets_in, secrets_in_query
from .message import TEXT, ClientLeftError, Headers, header
from .upstream import Failed, Upstream, end_to_end, failure_reason, origin_of

if TYPE_CHECKING:
    from httpx2 import Response

    from ...record.production.sampling import Sample
    from ...record.recorder import Recorder, Taker
    from ...wire.frames import Side
    from .message import HttpExchange, Work

_REMEMBERED = 1 << 16  # bytes of a request that are kept until its response, to find its id for an error
_SMALL = 1 << 19  # bytes of the largest body of a side request that is read whole and recorded
_MOST_NAMES = 16  # names of our address to keep rewriters for
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_CHALLENGE = b"www-authenticate"
_OF_PAGES = ((b"content-type", TEXT), (b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer"))
_CREDENTIALS = frozenset((b"authorization", b"cookie", b"dpop", b"proxy-authorization", b"set-cookie"))


class Proxy:
    """Passes requests on to one server, and those of a login to its authorization servers."""

    max_body: int | None = None  # bodies are passed on as they come

    def __init__(
        self,
        upstream: Upstream,
        origin: str,
        recorder: Recorder,
        say: Callable[[str], None],
        sample: Sample | None = None,
    ) -> None:
        """`sample`: chooses the sessions to record, if not all are recorded."""
        self._sample = sample
        self._upstream = upstream
        self.origin = origin
        self._recorder = recorder
        self._say = say
        self._said: str | None = None
        self._paths = {_bare_path(upstream.path)}  # paths for messages
        self._rewriters: dict[str, LoginRewriter] = {}  # by our origin, as the client names it
        self._others: dict[str, Upstream] = {}  # authorization servers, by origin
        self._numbers: Counter[str] = Counter()
        self.reached = False
        self.failures = 0

    @property
    def code(self) -> int:
        """The exit code: an error if the server was never reached."""
        return ServerError.exit_code if self.failures and not self.reached else 0

    def __call__(self, request: HttpExchange) -> Work:
        return self.pass_on(request)

    def refuse(self, what: str) -> None:
        """Report nothing: the client gets the reason in the response."""

    def expects(self, target: str) -> bool:
        is_beside = _bare_path(target.encode("latin-1")) not in self._paths
        return is_beside and any(login.expects(target) for login in self._rewriters.values())

    async def pass_on(self, request: HttpExchange, *, is_recorded: bool = True) -> None:
        """Pass a request on, and the response back."""
        tap = self._tap(request, is_recorded)
        body = _Body(request, tap)
        try:
            is_beside = is_recorded and not tap.is_message
            await (self._pass_beside(request, body) if is_beside else self._pass(request, body, tap))
        except ClientLeftError:
            tap.record_abort("client")
        except asyncio.CancelledError:
            if not request.has_left:
                tap.end("server", event="open")
                raise
            tap.record_abort("client")
        except BaseException:  # a bug in mcp-tape: the response must not look complete
            tap.record_abort("server")
            raise

    def _tap(self, request: HttpExchange, is_recorded: bool) -> Tap:
        verb = request.verb
        if not is_recorded or _bare_path(request.target) not in self._paths:
            return Tap(None, "", is_message=False)
        sample = self._sample
        if sample is not None:
            session = header(request.headers, protocol.SESSION_HEADER.encode())
            if not sample.share or (session and not sample.takes(session)):
                return Tap(None, "")
        self._numbers[verb] += 1
        return Tap(self._recorder, http_channel(verb, self._numbers[verb]))

    async def _pass(self, request: HttpExchange, body: _Body, tap: Tap) -> None:
        target = request.target
        tap.record_request(request.verb, target, request.headers)
        content = body.pieces() if request.expects_body else None
        try:
            response = await self._upstream.send(request.verb, target, request.headers, content)
        except Failed as error:
            await self._fail(error, request, body, tap)
            return
        self.reached = True
        headers = self._headers(target, self._upstream.headers_of(response), tap)
        tap.record_response(response.status_code, headers)
        endpoint = self._endpoint(request, headers, tap)
        try:
            request.begin(response.status_code, self._rewrite_challenges(request, headers))
            async for piece in response.aiter_raw():
                tap.record_received(piece)
                await request.send(endpoint(piece))
            tap.record_close()
            request.end()
        except Failed:
            tap.record_abort("server")
            request.abort()
        finally:
            await response.aclose()

    async def _fail(
        self, error: Exception, request: HttpExchange, body: _Body, tap: Tap, server: Upstream | None = None
    ) -> None:
        """Respond with the reason why the server sent no response."""
        self.failures += 1
        await body.read_rest()
        reason = hide_secrets(f"cannot reach {(server or self._upstream).shown}: {failure_reason(error)}")
        if reason != self._said:
            self._said = reason
            self._say(reason)
        tap.end("server", event="failed", why=reason)
        if request.expects_body and tap.is_message:
            from ...wire import rewrite  # only where the server cannot be reached

            message = rewrite.error_response(body.request_id(), protocol.SERVER_ERROR, f"mcp-tape {reason}")
            request.respond(502, [(b"content-type", b"application/json")], message)
        else:
            request.respond(502, [(b"content-type", TEXT)], f"mcp-tape {reason}\n".encode())

    # -- side requests

    async def _pass_beside(self, request: HttpExchange, body: _Body) -> None:
        """Pass on a request for a path without messages: metadata, a step of a login, a server card, an icon."""
        login, target = self._rewriter(request), request.target.decode("latin-1")
        place = login.destination(target)
        if place is None:
            await body.read_rest()
            request.respond(404, [(b"content-type", TEXT)], b"mcp-tape: no metadata has named this server\n")
            return
        self._hide_values(secrets_in_query(target) | _credentials(request.headers))
        if request.verb == "GET" and self._lead_browser(request, login, place):
            return
        server = self._server(place.origin)
        headers, content = await self._sent_beside(request, body, login, place)
        try:
            response = await server.send(request.verb, place.target.encode("latin-1"), headers, content)
        except Failed as error:
            await self._fail(error, request, body, Tap(None, "", is_message=False), server)
            return
        self.reached = self.reached or server is self._upstream
        try:
            await self._respond_beside(request, login, place, response)
        except Failed:
            request.abort()
        finally:
            await response.aclose()

    def _lead_browser(self, request: HttpExchange, login: LoginRewriter, place: Destination) -> bool:
        """Send a browser on to the login page, or back to the client; return False for any other request."""
        page = login.login_page(place)
        back = login.way_back(place) if page is None else None
        onward = (page or back or "").encode("latin-1", "replace")
        if not onward:
            return False
        # A redirect still counts as the submission of the login form, whose page may limit where forms lead. A refresh
        # does not: https://www.w3.org/TR/CSP3/#directive-form-action
        is_form = back is not None and header(request.headers, b"sec-fetch-mode") == "navigate"
        status = 200 if is_form else 302
        self._record_beside(request, place, status)
        if is_form:
            request.respond(status, [(b"refresh", b"0;url=" + onward), *_OF_PAGES], b"mcp-tape: back to the client\n")
        else:
            request.respond(status, [(b"location", onward)], b"")
        return True

    async def _sent_beside(
        self, request: HttpExchange, body: _Body, login: LoginRewriter, place: Destination
    ) -> tuple[Headers, AsyncIterator[bytes] | None]:
        """Return the headers and the body to send: forms and registrations are rewritten."""
        headers, kind = request.headers, header(request.headers, b"content-type") or ""
        if not request.expects_body:
            return headers, None
        if not kind.startswith((_FORM, _JSON)):
            return headers, body.pieces()
        start, rest = await _beginning(body.pieces())
        if rest is None:
            self._hide_values(secrets_in(kind, start))
            start = login.rewrite_form(start) if kind.startswith(_FORM) else login.add_callback(place, start)
            headers = [*_without(headers, b"content-length"), (b"content-length", b"%d" % len(start))]
        return headers, _chain_pieces(start, rest)

    async def _respond_beside(
        self, request: HttpExchange, login: LoginRewriter, place: Destination, response: Response
    ) -> None:
        """Pass a response back: metadata and registrations are rewritten."""
        headers, status = self._upstream.headers_of(response), response.status_code
        kind = header(headers, b"content-type") or ""
        self._hide_values(_credentials(headers))
        start = b""
        rest: AsyncIterator[bytes] | None = None
        is_metadata = request.verb == "GET" and login.is_metadata(place)
        if is_event_stream(kind):
            rest = response.aiter_raw()
        else:
            start, rest = await _beginning(response.aiter_raw())
        if rest is None:
            plain = _decode_body(headers, start)
            self._hide_values(secrets_in(kind, plain))
            self._record_beside(request, place, status, kind, plain)
            body = login.rewrite_metadata(plain) if is_metadata else login.strip_callback(plain)
            if body != plain:
                start = body
                headers = _without(headers, b"content-length", b"content-encoding", b"transfer-encoding")
                headers = [*headers, (b"content-length", b"%d" % len(body))]
        else:
            self._record_beside(request, place, status)
        ours = [
            (name, self._location(login, place, value, is_metadata) if name == b"location" else value)
            for name, value in self._rewrite_challenges(request, _passed_headers(headers))
        ]
        request.begin(status, ours)
        async for piece in _chain_pieces(start, rest):
            await request.send(piece)
        request.end()

    def _location(self, login: LoginRewriter, place: Destination, value: bytes, is_metadata: bool) -> bytes:
        """Translate the target of a redirect. Only redirects to another server, such as a login page, bypass us."""
        uri = value.decode("latin-1").strip()
        try:
            whole = urljoin(place.url, uri)
            stays = origin_of(whole) == origin_of(place.origin)
            is_relative = not urlsplit(uri).netloc
        except ValueError:
            return value
        if not (stays or is_metadata) or (is_relative and place.origin == login.server):
            return value
        return login.local_url(whole).encode("latin-1", "replace")

    def _rewriter(self, request: HttpExchange) -> LoginRewriter:
        """The rewriter for the origin that this client uses for us: clients compare it with the metadata."""
        host = header(request.headers, b"host")
        origin = f"http://{host}" if host else self.origin
        found = self._rewriters.get(origin)
        if found is None:
            found = self._rewriters[origin] = LoginRewriter(str(self._upstream.url), origin)
            if len(self._rewriters) > _MOST_NAMES:
                del self._rewriters[next(iter(self._rewriters))]
        return found

    def _rewrite_challenges(self, request: HttpExchange, headers: Headers) -> Headers:
        """Rewrite the metadata URL in challenges. The tape keeps the server's own."""
        if not header(headers, _CHALLENGE):
            return headers
        login = self._rewriter(request)
        return [
            (name, login.rewrite_challenge(value.decode("latin-1")).encode("latin-1") if name == _CHALLENGE else value)
            for name, value in headers
        ]

    def _server(self, origin: str) -> Upstream:
        if origin_of(origin) == origin_of(str(self._upstream.url)):
            return self._upstream
        if origin not in self._others:
            self._others[origin] = self._upstream.beside(origin)
        return self._others[origin]

    def _hide_values(self, secrets: dict[str, str]) -> None:
        """Redact secrets of a login in everything that is recorded from now on."""
        if secrets:
            self._recorder.control("server", "", event="secret", values=secrets)

    def _record_beside(
        self, request: HttpExchange, place: Destination, status: int, kind: str = "", body: bytes | None = None
    ) -> None:
        """Record a side request. Body and query are kept only if they may be public: of a GET without credentials."""
        if self._sample is not None:  # a side request belongs to no session that could be chosen
            return
        own = _CREDENTIALS.intersection(name for name, _ in request.headers) or secrets_in_query(place.target)
        is_public = body is not None and request.verb == "GET" and status == 200 and not own
        facts: dict[str, str | int] = {"verb": request.verb, "path": place.target if is_public else place.path}
        if origin_of(place.origin) != origin_of(str(self._upstream.url)):
            facts["origin"] = place.origin
        facts["status"] = status
        if is_public and body is not None:
            facts["type"] = kind
            try:
                facts["body"] = body.decode()
            except UnicodeDecodeError:
                facts["base64"] = b2a_base64(body, newline=False).decode()
        self._numbers[SIDE] += 1
        self._recorder.control("server", f"{SIDE}{self._numbers[SIDE]}", event="side", **facts)

    # -- headers

    def _headers(self, target: bytes, headers: Headers, tap: Tap) -> Headers:
        """The headers of a response, with redirects within the server translated."""
        headers, location = _passed_headers(headers), header(headers, b"location")
        ours = self._local_uri(location, target, tap) if location else None
        return [(name, ours.encode("latin-1") if ours and name == b"location" else value) for name, value in headers]

    def _local_uri(self, uri: str, base: bytes, tap: Tap) -> str | None:
        """Translate a URI of the server that clients may post messages to; None if it needs no translation."""
        path = self._upstream.path_of(uri, base)
        if path is None:
            return None
        if tap.is_message:
            self._paths.add(_bare_path(path.encode("latin-1", "replace")))
        return self.origin + path if urlsplit(uri).netloc else None

    def _endpoint(self, request: HttpExchange, headers: Headers, tap: Tap) -> Callable[[bytes], bytes]:
        """Return a function that rewrites the pieces of a response. It changes only streams of HTTP+SSE."""
        session = header(request.headers, protocol.SESSION_HEADER.encode())
        is_stream = is_event_stream(header(headers, b"content-type"))
        if request.verb != "GET" or not tap.is_message or session or not is_stream:
            return lambda piece: piece
        path = request.target.partition(b"?")[0]
        return _EndpointRewriter(lambda uri: self._local_uri(uri, path, tap) or uri).rewrite_piece


class Tap:
    """Records one request and its response on a channel. Without a recorder, it does nothing.

    `is_message`: the request may hold messages, even if it is not recorded.
    """

    def __init__(self, recorder: Taker | None, channel: str, *, is_message: bool = True) -> None:
        self.is_message = is_message
        self._recorder = recorder
        self._channel = channel
        self._left: int | None = None  # missing bytes of the body, if known
        self._done = recorder is None
        if recorder is not None:
            self._client, self._server = recorder.stream("client", channel), recorder.stream("server", channel)

    def record_request(self, verb: str, target: bytes, headers: Headers) -> None:
        if not self._done:
            path = target.decode("latin-1")
            self._control("client", event="request", verb=verb, path=path, headers=_recorded_headers(headers))

    def record_sent(self, data: bytes) -> None:
        if not self._done:
            self._client(data)

    def record_response(self, status: int, headers: Headers) -> None:
        if not self._done:
            length = header(headers, b"content-length")
            self._left = int(length) if length and length.isdigit() else None
            self._control("server", event="response", status=status, headers=_recorded_headers(headers))

    def record_received(self, data: bytes) -> None:
        if self._left is not None:
            self._left -= len(data)
        if not self._done and data:
            self._server(data)

    def record_close(self) -> None:
        if not self._done:
            self._server(b"")
            self._done = True

    def record_abort(self, side: Side) -> None:
        if self._left == 0:
            self.record_close()  # the whole body had arrived
        self.end(side, event="abort")

    def end(self, side: Side, **facts: str) -> None:
        self._control(side, **facts)
        self._done = True

    def _control(self, side: Side, **facts: str | int | dict[str, str]) -> None:
        if not self._done and self._recorder is not None:
            self._recorder.control(side, self._channel, **facts)


class _Body:
    """The body of a request, recorded while it is read."""

    def __init__(self, request: HttpExchange, tap: Tap) -> None:
        self._request = request
        self._tap = tap
        self._start = bytearray()
        self._is_read = False
        if not request.expects_body:
            self._watch_client()

    def _watch_client(self) -> None:
        """Cancel the current task when the client leaves. Until the body is read, reading it shows that."""
        task = asyncio.current_task()
        assert task is not None
        self._is_read = True
        self._request.when_left = task.cancel
        if self._request.has_left:
            task.cancel()

    async def pieces(self) -> AsyncIterator[bytes]:
        async for data in self._request.pieces():
            self._tap.record_sent(data)
            if len(self._start) < _REMEMBERED:
                self._start += data
            yield data
        self._tap.record_sent(b"")
        self._watch_client()

    async def read_rest(self) -> None:
        """Read and record the rest."""
        if not self._is_read:
            async for _ in self.pieces():
                pass

    def request_id(self) -> str:
        """The id of the request, for an error; null if there is none or more than one."""
        messages = frames.parse(bytes(self._start))[1]
        return (messages[0].rpc_id if len(messages) == 1 else None) or "null"


class _EndpointRewriter:
    """Rewrites the `endpoint` event at the start of a stream. Only the first event is buffered.

    https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
    """

    def __init__(self, rewrite: Callable[[str], str]) -> None:
        self._rewrite = rewrite
        self._events: Events | None = Events()
        self._held = b""

    def rewrite_piece(self, piece: bytes) -> bytes:
        if self._events is None:
            return piece
        self._held += piece
        first = next((event for event in self._events.feed(piece) if event.text is not None), None)
        if first is None and self._events.pending and len(self._held) < _REMEMBERED:
            return b""
        held, self._held = self._held, b""
        if first is not None or self._events.pending:
            self._events = None
        if first is None or first.text is None or first.field(b"event") != "endpoint":
            return held
        line = re.compile(rb"((?:^|[\r\n])(?:\xef\xbb\xbf)?data: ?)" + re.escape(first.text))
        ours = self._rewrite(first.text.decode("utf-8", "replace")).encode()
        return line.sub(lambda found: found[1] + ours, held, count=1)


def _passed_headers(headers: Headers) -> Headers:
    """The headers of a response to pass on.

    Transfer-Encoding overrides Content-Length: https://www.rfc-editor.org/rfc/rfc9112#section-6.3-2.3
    """
    return end_to_end(_without(headers, b"content-length") if header(headers, b"transfer-encoding") else headers)


def _without(headers: Headers, *names: bytes) -> Headers:
    return [(name, value) for name, value in headers if name not in names]


async def _beginning(pieces: AsyncIterator[bytes]) -> tuple[bytes, AsyncIterator[bytes] | None]:
    """Read a small body whole. Of a larger one, return the beginning and an iterator of the rest."""
    start = bytearray()
    async for piece in pieces:
        start += piece
        if len(start) > _SMALL:
            return bytes(start), pieces
    return bytes(start), None


async def _chain_pieces(start: bytes, rest: AsyncIterator[bytes] | None) -> AsyncIterator[bytes]:
    yield start
    if rest is not None:
        async for piece in rest:
            yield piece


def _decode_body(headers: Headers, body: bytes) -> bytes:
    """Decompress a body. If that fails, return it unchanged."""
    coding = header(headers, b"content-encoding") or "identity"
    if coding.lower() == "identity":
        return body
    try:
        return b"".join(Decoder(coding, 2 * _SMALL).feed(body))
    except ValueError:
        return body


def _bare_path(path: bytes) -> bytes:
    """A path without its query and trailing slash: servers redirect from one form to the other."""
    return path.partition(b"?")[0].rstrip(b"/") or b"/"


def _credentials(headers: Headers) -> dict[str, str]:
    """The headers that bring credentials, by name."""
    return {name.decode(): value.decode("latin-1") for name, value in headers if name in _CREDENTIALS}


@lru_cache(256)  # most requests have the same headers
def _kept_name(key: bytes) -> str | None:
    """The lower-case name of a header to record; None for one that is not recorded."""
    name = key.decode("latin-1").lower()
    return name if protocol.is_kept_header(name) else None


def _recorded_headers(headers: Headers) -> dict[str, str]:
    kept: dict[str, str] = {}
    for key, value in headers:
        name = _kept_name(key)
        if name is not None:
            text = value.decode("latin-1")
            kept[name] = f"{kept[name]}, {text}" if name in kept else text
    return kept
