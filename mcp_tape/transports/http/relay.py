"""Between a client and an HTTP server: each piece is recorded, then passed on as it came.

One request upstream for each request downstream. Nothing is buffered: what a slow reader does not take is not read from
the other side.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...errors import ServerError
from ...redaction.diagnostics import hidden
from ...wire import frames, protocol
from ...wire.channels import http_channel
from ...wire.framing import Events, is_event_stream
from .asgi import Headers, Receive, Scope, Send, abort, answer, header
from .upstream import Failed, Upstream, end_to_end, why

if TYPE_CHECKING:
    from ...record.production.sampling import Sample
    from ...record.recorder import Recorder
    from ...wire.frames import Side

_REMEMBERED = 1 << 16  # bytes of a request that are kept until it is answered, to name it in an error


UNRECORDED = "mcp_tape.unrecorded"  # of a request that is passed on, and not recorded


class ClientLeftError(Exception):
    """The client has left before its request was through."""


class Proxy:
    """An ASGI application that passes requests on to one server."""

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
        self._paths = {_bare(upstream.path)}  # of messages; other requests are passed on and not recorded
        self._numbers: Counter[str] = Counter()
        self.reached = False
        self.failures = 0

    @property
    def code(self) -> int:
        """The exit code: an error if the server was never reached."""
        return ServerError.exit_code if self.failures and not self.reached else 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tap = self._tap(scope)
        body = _Body(receive, tap, scope["headers"])
        passing = asyncio.ensure_future(self._pass(scope, body, send, tap))
        leaving = asyncio.ensure_future(body.left())
        try:
            await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            tap.end("server", event="open")
            passing.cancel()
            raise
        finally:
            leaving.cancel()
        if not passing.done():
            tap.aborted("client")
            passing.cancel()
        await asyncio.wait((passing,))
        error = None if passing.cancelled() else passing.exception()
        if error is not None:  # a bug of ours: the response must not look complete
            tap.aborted("server")
            if tap.has_responded:
                abort(scope)
            raise error

    def _tap(self, scope: Scope) -> Tap:
        verb = scope["method"]
        if _bare(scope["raw_path"]) not in self._paths or scope.get(UNRECORDED):
            return Tap(None, "")
        session = header(scope["headers"], protocol.SESSION_HEADER.encode())
        if self._sample is not None and session and not self._sample.takes(session):
            from ...record.production.sampling import Passing  # only where there is a sample

            return Tap(Passing(), "")
        self._numbers[verb] += 1
        return Tap(self._recorder, http_channel(verb, self._numbers[verb]))

    async def _pass(self, scope: Scope, body: _Body, send: Send, tap: Tap) -> None:
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        tap.request(scope["method"], target, scope["headers"])
        content = body.pieces() if body.expected else None
        try:
            response = await self._upstream.send(scope["method"], target, scope["headers"], content)
        except ClientLeftError:
            tap.aborted("client")
            return
        except Failed as error:
            await self._fail(error, body, send, tap)
            return
        self.reached = True
        headers = self._headers(target, self._upstream.headers_of(response), tap)
        tap.response(response.status_code, headers)
        endpoint = self._endpoint(scope, headers, tap)
        try:
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            async for piece in response.aiter_raw():
                tap.received(piece)
                await send({"type": "http.response.body", "body": endpoint(piece), "more_body": True})
            tap.closed()
            await send({"type": "http.response.body", "body": b""})
        except Failed:
            tap.aborted("server")  # left unfinished, the response ends as an abort downstream too
        finally:
            await response.aclose()

    async def _fail(self, error: Exception, body: _Body, send: Send, tap: Tap) -> None:
        """Respond with the reason that there is no response from upstream."""
        self.failures += 1
        try:
            await body.rest()
        except ClientLeftError:
            tap.aborted("client")
            return
        reason = hidden(f"cannot reach {self._upstream.shown}: {why(error)}")
        if reason != self._said:
            self._said = reason
            self._say(reason)
        tap.end("server", event="failed", why=reason)
        if body.expected and tap.recorder is not None:
            from ...wire import rewrite  # only where the server cannot be reached

            message = rewrite.error_response(body.request_id(), protocol.SERVER_ERROR, f"mcp-tape {reason}")
            await answer(send, 502, message, b"application/json")
        else:
            await answer(send, 502, f"mcp-tape {reason}\n")

    def _headers(self, target: bytes, headers: Headers, tap: Tap) -> Headers:
        """The headers of a response: a redirect within the server must not lead past us.

        Transfer-Encoding overrides Content-Length: https://www.rfc-editor.org/rfc/rfc9112#section-6.3-2.3
        """
        if header(headers, b"transfer-encoding"):
            headers = [(name, value) for name, value in headers if name != b"content-length"]
        headers, location = end_to_end(headers), header(headers, b"location")
        ours = self._ours(location, target, tap) if location else None
        return [(name, ours.encode("latin-1") if ours and name == b"location" else value) for name, value in headers]

    def _ours(self, uri: str, base: bytes, tap: Tap) -> str | None:
        """Return a URI of the server as one of ours, to which messages may come; None if it may stay as it is."""
        path = self._upstream.path_of(uri, base)
        if path is None:
            return None
        if tap.recorder is not None:
            self._paths.add(_bare(path.encode("latin-1", "replace")))
        return self.origin + path if urlsplit(uri).netloc else None

    def _endpoint(self, scope: Scope, headers: Headers, tap: Tap) -> Callable[[bytes], bytes]:
        """Return the function for each piece of a response: only streams of HTTP+SSE are rewritten."""
        session = header(scope["headers"], protocol.SESSION_HEADER.encode())
        is_stream = is_event_stream(header(headers, b"content-type"))
        if scope["method"] != "GET" or tap.recorder is None or session or not is_stream:
            return lambda piece: piece
        return _Endpoint(lambda uri: self._ours(uri, scope["raw_path"], tap) or uri).rewritten


class Tap:
    """The recording of one request and its response, on a channel; nothing without a recorder."""

    def __init__(self, recorder: Recorder | None, channel: str) -> None:
        self.recorder = recorder
        self._channel = channel
        self._left: int | None = None  # bytes of the body that are still to come, if known
        self._done = recorder is None
        self.has_responded = False
        if recorder is not None:
            self._client, self._server = recorder.stream("client", channel), recorder.stream("server", channel)

    def request(self, verb: str, target: bytes, headers: Headers) -> None:
        self._control("client", event="request", verb=verb, path=target.decode("latin-1"), headers=_kept(headers))

    def sent(self, data: bytes) -> None:
        if not self._done:
            self._client(data)

    def response(self, status: int, headers: Headers) -> None:
        self.has_responded = True
        length = header(headers, b"content-length")
        self._left = int(length) if length and length.isdigit() else None
        self._control("server", event="response", status=status, headers=_kept(headers))

    def received(self, data: bytes) -> None:
        if self._left is not None:
            self._left -= len(data)
        if not self._done and data:
            self._server(data)

    def closed(self) -> None:
        if not self._done:
            self._server(b"")
            self._done = True

    def aborted(self, side: Side) -> None:
        if self._left == 0:
            self.closed()  # everything had arrived: that is no abort
        self.end(side, event="abort")

    def end(self, side: Side, **facts: str) -> None:
        self._control(side, **facts)
        self._done = True

    def _control(self, side: Side, **facts: str | int | dict[str, str]) -> None:
        if not self._done and self.recorder is not None:
            self.recorder.control(side, self._channel, **facts)


class _Body:
    """A request's body, recorded as it is read."""

    def __init__(self, receive: Receive, tap: Tap, headers: Headers) -> None:
        self._receive = receive
        self._tap = tap
        self._start = bytearray()
        self._read = asyncio.Event()
        length = header(headers, b"content-length")
        self.expected = header(headers, b"transfer-encoding") is not None or length not in (None, "0")
        if not self.expected:
            self._read.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeftError
            data, more = message.get("body", b""), message.get("more_body", False)
            if data:
                self._tap.sent(data)
                if len(self._start) < _REMEMBERED:
                    self._start += data
                yield data
        self._tap.sent(b"")
        self._read.set()

    async def rest(self) -> None:
        """Read, and so record, the rest."""
        if not self._read.is_set():
            async for _ in self.pieces():
                pass

    async def left(self) -> None:
        """Wait for the client to leave, once its request is read."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def request_id(self) -> str:
        """The id of the request, for an error; null if there is none, or several."""
        messages = frames.parse(bytes(self._start))[1]
        return (messages[0].rpc_id if len(messages) == 1 else None) or "null"


class _Endpoint:
    """Rewrites the first event of a stream, if that names an endpoint. Only that event is held until it is whole.

    https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
    """

    def __init__(self, rewrite: Callable[[str], str]) -> None:
        self._rewrite = rewrite
        self._events: Events | None = Events()
        self._held = b""

    def rewritten(self, piece: bytes) -> bytes:
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


def _bare(path: bytes) -> bytes:
    """A path without its query and a slash at its end, which servers redirect to or from."""
    return path.partition(b"?")[0].rstrip(b"/") or b"/"


def _kept(headers: Headers) -> dict[str, str]:
    kept: dict[str, str] = {}
    for key, value in headers:
        name = key.decode("latin-1").lower()
        if protocol.kept_header(name):
            text = value.decode("latin-1")
            kept[name] = f"{kept[name]}, {text}" if name in kept else text
    return kept
