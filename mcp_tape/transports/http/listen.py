"""Listening for HTTP: a socket, who may talk to it, and uvicorn around a plain ASGI callable."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import struct
import traceback
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from ...errors import ServerError, TapeError
from . import shortcut
from .addresses import is_address, is_loopback

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Refusal = tuple[int, str]

_BACKLOG = 1024
_BEHIND = 1 << 16  # bytes of further requests that are kept while one is answered
HEAD_TIMEOUT = 30.0  # seconds
_GRACE = 0.3  # seconds that a response may take to end when we are told to stop
_TRANSPORT = "mcp_tape.transport"
OPENED = "mcp_tape.opened"  # what came of a request that could not be answered at once
_ABSOLUTE = re.compile(rb"https?://[^/]*", re.I)
_ORIGIN, _SITE = shortcut.OF_BROWSERS
_TOO_SLOW = shortcut.whole(
    408,
    [(b"content-type", b"text/plain"), (b"connection", b"close")],
    b"mcp-tape: the head of a request took too long\n",
)
_SILENT = logging.Logger("mcp_tape.silent", logging.CRITICAL + 1)


STATUS_PHRASES.update(dict.fromkeys(range(600, 1000), b""))  # of servers' own making


class Address(NamedTuple):
    host: str
    port: int


class Site:
    """A listening socket, and what is served there until somebody says to stop.

    `report` hears of what went wrong within an application; the client then gets a 500, or sees a broken connection.
    """

    def __init__(
        self, address: Address, report: Callable[[Exception], None], *, head_timeout: float = HEAD_TIMEOUT
    ) -> None:
        self._host = address.host
        self._report = report
        self._head_timeout = head_timeout
        self._listener = _bind(address)
        self._server: uvicorn.Server | None = None
        host, port = self._listener.getsockname()[:2]
        self.origin = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def serve(self, app: App, started: Callable[[str], None]) -> None:
        """Serve until a signal comes. `started` is given our origin once a client may connect."""
        asyncio.run(self.run(app, started, heeds_signals=True))

    async def run(self, app: App, started: Callable[[str], None], *, heeds_signals: bool = False) -> None:
        """Serve until told to stop."""
        for name in ("uvicorn.error", "asyncio") if heeds_signals else ():  # else the process is not ours
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what matters is said by us
        asyncio.get_running_loop().set_exception_handler(self._hear)
        config = configured(Guard(app, self._host, self._report), self._head_timeout)
        self._server = _Server(config, lambda: started(self.origin), heeds_signals)
        try:
            await self._server.serve([self._listener])
        finally:
            self._listener.close()

    def _hear(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What a timer or a task ended with. What a client wrote to a connection is no fault of ours."""
        error = context.get("exception")
        if isinstance(error, Exception) and "protocol" not in context and "transport" not in context:
            self._report(error)

    def stop(self) -> None:
        assert self._server is not None
        self._server.should_exit = True


def configured(guard: Guard, head_timeout: float = HEAD_TIMEOUT) -> uvicorn.Config:
    """How uvicorn serves for us."""
    return uvicorn.Config(
        guard,
        http=partial(_Protocol, head_timeout=head_timeout),  # type: ignore[arg-type]  # called like a class
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACE,  # type: ignore[arg-type]  # waited for as it is
    )


def _bind(address: Address) -> socket.socket:
    """A listening socket; port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Where the protocol is not named, asyncio leaves Nagle's algorithm on, which costs 40 ms a response.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or error
        raise ServerError(
            f"cannot listen on {address.host}:{address.port}: {why}; choose another address with --listen"
        ) from None
    return listener


class Guard:
    """Lets through what was meant for us: a web page must not reach a local server, by a name of its own or by ours."""

    def __init__(self, app: App, host: str, report: Callable[[Exception], None]) -> None:
        self._app = app
        self._report = report
        self._names = {host.lower(), "localhost", socket.gethostname().lower()}
        self._usual: str | None = None  # the last host that was ours
        self._asked: shortcut.Quick | None = getattr(app, "quick", None)
        self.quick: shortcut.Quick | None = self._quick if self._asked else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _to_origin_form(scope)
        refused = (
            _refused_verb(scope["method"]) or self._refused_host(scope["headers"]) or _refused_page(scope["headers"])
        )
        if refused is not None:
            await answer(send, refused[0], f"mcp-tape: {refused[1]}\n")
            return
        try:
            if isinstance(scope.get(OPENED), Exception):
                raise scope[OPENED]
            await self._app(scope, receive, send)
        except Exception as error:
            self._report(error)
            raise  # uvicorn answers with a 500, or closes the connection

    def _quick(self, request: shortcut.Request) -> object:
        """The same for a request that may be answered at once, which none of a browser is."""
        host = header(request.headers, b"host")
        if self._asked is None:
            return None
        if host != self._usual:
            if self._refused_host(request.headers):
                return None
            self._usual = host
        try:
            return self._asked(request)
        except Exception as error:
            return error  # raised again where it can be answered

    def _refused_host(self, headers: Headers) -> Refusal | None:
        host = header(headers, b"host")
        if host is not None and self._is_ours(_hostname(f"//{host}")):
            return None
        return 421, f"the host {host!r} is not this one; use the URL that mcp-tape printed"

    def _is_ours(self, name: str) -> bool:
        return name in self._names or is_address(name)


def _refused_page(headers: Headers) -> Refusal | None:
    """Pages of this machine may talk to us, others may not.

    Browsers name the page in `Origin`, but for images, scripts and links they only say how far away it is:
    https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header. Only clients that are no browsers send neither.
    """
    source = header(headers, _ORIGIN)
    if source is not None:
        return None if is_loopback(_hostname(source)) else (403, f"requests of pages from {source!r} are refused")
    near = {"none", "same-origin"}
    if is_loopback(_hostname(f"//{header(headers, b'host')}")):
        near.add("same-site")  # another port of this machine
    far = sorted({value.decode("latin-1") for name, value in headers if name == _SITE} - near)
    return (403, f"requests of pages from other sites are refused (Sec-Fetch-Site: {', '.join(far)})") if far else None


def _refused_verb(verb: str) -> Refusal | None:
    """A tunnel would lead past us, and an echo of the request would show what we add to it."""
    return (405, f"{verb} is not served here") if verb in ("CONNECT", "TRACE") else None


def _to_origin_form(scope: Scope) -> None:
    """A client that takes us for a proxy names the whole URL."""
    found = _ABSOLUTE.match(scope["raw_path"])
    if found:
        scope["raw_path"] = scope["raw_path"][found.end() :] or b"/"
        scope["path"] = unquote(scope["raw_path"].decode("latin-1"))


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


async def answer(
    send: Send,
    status: int,
    text: str | bytes,
    content: bytes = b"text/plain; charset=utf-8",
    *more: tuple[bytes, bytes],
) -> None:
    """A response of our own."""
    body = text.encode() if isinstance(text, str) else text
    headers = [(b"content-length", b"%d" % len(body)), *([(b"content-type", content)] if body else []), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Accidents:
    """What goes wrong within mcp-tape while it serves: said once each, as it happens, and told by the exit code."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    @property
    def code(self) -> int:
        return int(bool(self._said))

    def __call__(self, error: Exception) -> None:
        if isinstance(error, TapeError):
            return  # whoever serves ends with it
        from ...redaction.diagnostics import hidden

        *_, (frame, line) = traceback.walk_tb(error.__traceback__) if error.__traceback__ else [(None, 0)]
        where = f" ({os.path.basename(frame.f_code.co_filename)}:{line})" if frame else ""
        told = " ".join(f"{type(error).__name__}: {error}".split())
        text = hidden(f"a request failed within mcp-tape, please report it: {told}{where}")
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def header(headers: Headers, name: bytes) -> str | None:
    """The first header of this name; uvicorn gives names in lower case."""
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


def abort(scope: Scope) -> None:
    """End the connection of a request at once, so that nobody takes it for a clean end."""
    scope[_TRANSPORT].abort()


def reset(scope: Scope) -> None:
    """The same as a network fault would."""
    at_once = struct.pack("ii", 1, 0)  # lingering for no time makes the system send a reset
    scope[_TRANSPORT].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    abort(scope)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None], heeds_signals: bool) -> None:
        super().__init__(config)
        self._started = started
        self._heeds_signals = heeds_signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if self._heeds_signals else ():
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
                loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        self.should_exit = True


class _Protocol(H11Protocol):
    """Puts its connection within an application's reach, and asks it first for a quick answer, if it gives such."""

    def __init__(self, *arguments: Any, head_timeout: float, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._head_timeout = head_timeout
        self._head_timer: asyncio.TimerHandle | None = None
        self.logger = _SILENT
        self._held = b""
        self._opened: object = None
        app = self.app
        self._quick: shortcut.Quick | None = getattr(app, "quick", None)

        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            scope[_TRANSPORT], scope[OPENED], self._opened = self.transport, self._opened, None
            await app(scope, receive, send)

        self.app = with_transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._time_head(is_awaited=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._time_head(is_awaited=False)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._quick is not None and self._is_idle():
            data, self._held = self._held + data, b""
            if self._is_done(data, self._quick):
                self._time_head(is_awaited=False)
                return
        super().data_received(data)
        self._stay_attentive()
        self._time_head(is_awaited=self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def send_400_response(self, msg: str) -> None:
        """Turn away what is no HTTP, unless a response has begun; either way nobody listens to what is answered."""
        with contextlib.suppress(h11.LocalProtocolError):  # a response has begun, or may have no body
            super().send_400_response(msg)
        self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _time_head(self, *, is_awaited: bool) -> None:
        """A head is waited for, but not for ever: thousands that never end would cost nothing to send."""
        if not is_awaited and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        elif is_awaited and self._head_timer is None:
            self._head_timer = self.loop.call_later(self._head_timeout, self._give_up)

    def _give_up(self) -> None:
        if self.conn.trailing_data[0] and not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
        self.transport.close()

    def _is_done(self, data: bytes, quick: shortcut.Quick) -> bool:
        """Whether nothing more is to be done for now: a request was answered at once, or its body is on its way."""
        request = shortcut.parsed(data)
        found = quick(request) if request is not None else None
        if found is shortcut.WAIT:
            self._held = data
            self._unset_keepalive_if_required()
        elif isinstance(found, bytes):
            self._unset_keepalive_if_required()
            self.conn.their_http_version = b"1.1"  # as h11 would know by now
            self.transport.write(found)
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            self._opened = found
            return False
        return True

    def _stay_attentive(self) -> None:
        """Read on, though the next request is there before the response is through: a client may leave."""
        if self.flow.read_paused and not self.cycle.more_body and len(self.conn.trailing_data[0]) < _BEHIND:
            self.flow.resume_reading()

    def _is_idle(self) -> bool:
        """Whether a new request begins, and what we write goes out at once."""
        between = self.conn.our_state is h11.IDLE and not self.conn.trailing_data[0]
        return between and not self.flow.write_paused and not self.transport.is_closing()
