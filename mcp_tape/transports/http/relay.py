"""Between a client and an HTTP server: each piece is recorded, then passed on as it came.

One request upstream for each request downstream. Nothing is buffered: what a slow reader does not take is not read from
the other side.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...errors import ServerError
from ...redaction.diagnostics import hide_secrets
from ...wire import frames, protocol
from ...wire.channels import http_channel
from ...wire.framing import Events, is_event_stream
from .message import TEXT, ClientLeftError, Headers, header
from .upstream import Failed, Upstream, end_to_end, failure_reason

if TYPE_CHECKING:
    from ...record.production.sampling import Sample
    from ...record.recorder import Recorder, Taker
    from ...wire.frames import Side
    from .message import HttpExchange, Work

_REMEMBERED = 1 << 16  # bytes of a request that are kept until it is answered, to name it in an error


class Proxy:
    """Passes requests on to one server."""

    max_body: int | None = None  # bodies are passed on as they come

    def __init__(
        self,
        upstream: Upstream,
        origin: str,
        recorder: Recorder,
        say: Callable[[str], None],
        sample: Sample | None = None,
    ) -> None:
        """`sample`: of sessions to be recorded, if not all are."""
        self._sample = sample
        self._upstream = upstream
        self.origin = origin
        self._recorder = recorder
        self._say = say
        self._said: str | None = None
        self._paths = {_bare_path(upstream.path)}  # of messages; other requests are passed on and not recorded
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
        """What is refused before it is passed on is the client's to tell."""

    async def pass_on(self, request: HttpExchange, *, is_recorded: bool = True) -> None:
        """Pass a request on, and its response back."""
        tap = self._tap(request, is_recorded)
        try:
            await self._pass(request, _Body(request, tap), tap)
        except ClientLeftError:
            tap.record_abort("client")
        except asyncio.CancelledError:
            if not request.has_left:
                tap.end("server", event="open")
                raise
            tap.record_abort("client")
        except BaseException:  # a bug of ours: the response must not look complete
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
            request.begin(response.status_code, headers)
            async for piece in response.aiter_raw():
                tap.record_received(piece)
                await request.send(endpoint(piece))
            tap.record_close()
            request.end()
        except Failed:
            tap.record_abort("server")
            request.abort()  # an abort downstream, too
        finally:
            await response.aclose()

    async def _fail(self, error: Exception, request: HttpExchange, body: _Body, tap: Tap) -> None:
        """Respond with the reason that there is no response from upstream."""
        self.failures += 1
        await body.read_rest()
        reason = hide_secrets(f"cannot reach {self._upstream.shown}: {failure_reason(error)}")
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

    def _headers(self, target: bytes, headers: Headers, tap: Tap) -> Headers:
        """The headers of a response: a redirect within the server must not lead past us.

        Transfer-Encoding overrides Content-Length: https://www.rfc-editor.org/rfc/rfc9112#section-6.3-2.3
        """
        if header(headers, b"transfer-encoding"):
            headers = [(name, value) for name, value in headers if name != b"content-length"]
        headers, location = end_to_end(headers), header(headers, b"location")
        ours = self._local_uri(location, target, tap) if location else None
        return [(name, ours.encode("latin-1") if ours and name == b"location" else value) for name, value in headers]

    def _local_uri(self, uri: str, base: bytes, tap: Tap) -> str | None:
        """Return a URI of the server as one of ours, to which messages may come; None if it may stay as it is."""
        path = self._upstream.path_of(uri, base)
        if path is None:
            return None
        if tap.is_message:
            self._paths.add(_bare_path(path.encode("latin-1", "replace")))
        return self.origin + path if urlsplit(uri).netloc else None

    def _endpoint(self, request: HttpExchange, headers: Headers, tap: Tap) -> Callable[[bytes], bytes]:
        """Return the function for each piece of a response: only streams of HTTP+SSE are rewritten."""
        session = header(request.headers, protocol.SESSION_HEADER.encode())
        is_stream = is_event_stream(header(headers, b"content-type"))
        if request.verb != "GET" or not tap.is_message or session or not is_stream:
            return lambda piece: piece
        path = request.target.partition(b"?")[0]
        return _EndpointRewriter(lambda uri: self._local_uri(uri, path, tap) or uri).rewrite_piece


class Tap:
    """The recording of one request and its response, on a channel; nothing without a recorder.

    `is_message`: they may hold messages, recorded or not.
    """

    def __init__(self, recorder: Taker | None, channel: str, *, is_message: bool = True) -> None:
        self.is_message = is_message
        self._recorder = recorder
        self._channel = channel
        self._left: int | None = None  # bytes of the body that are still to come, if known
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
            self.record_close()  # everything had arrived: that is no abort
        self.end(side, event="abort")

    def end(self, side: Side, **facts: str) -> None:
        self._control(side, **facts)
        self._done = True

    def _control(self, side: Side, **facts: str | int | dict[str, str]) -> None:
        if not self._done and self._recorder is not None:
            self._recorder.control(side, self._channel, **facts)


class _Body:
    """A request's body, recorded as it is read."""

    def __init__(self, request: HttpExchange, tap: Tap) -> None:
        self._request = request
        self._tap = tap
        self._start = bytearray()
        self._is_read = False
        if not request.expects_body:
            self._watch_client()

    def _watch_client(self) -> None:
        """From now on, the client ends all work for it when it leaves. Before, to read on says that it has left."""
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
        """Read, and so record, the rest."""
        if not self._is_read:
            async for _ in self.pieces():
                pass

    def request_id(self) -> str:
        """The id of the request, for an error; null if there is none, or several."""
        messages = frames.parse(bytes(self._start))[1]
        return (messages[0].rpc_id if len(messages) == 1 else None) or "null"


class _EndpointRewriter:
    """Rewrites the first event of a stream, if that names an endpoint. Only that event is held until it is whole.

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


def _bare_path(path: bytes) -> bytes:
    """A path without its query and a slash at its end, which servers redirect to or from."""
    return path.partition(b"?")[0].rstrip(b"/") or b"/"


@lru_cache(256)  # clients and servers mostly send the same
def _kept_name(key: bytes) -> str | None:
    """The name of a header that is recorded; None for others."""
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
