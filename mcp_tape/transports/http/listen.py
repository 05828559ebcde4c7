"""Listening for HTTP: a socket, and uvicorn around a plain ASGI callable. All that knows uvicorn and h11 is here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol, RequestResponseCycle

from ...errors import ServerError
from ..signals import SIGNALS
from . import shortcut
from .asgi import TRANSPORT, App, Receive, Scope, Send
from .guard import Guard

# Subclasses H11Protocol and makes its cycles, which uvicorn does not document: tried with 0.30 and 0.54. The
# requirement in pyproject.toml is the same, and tests/transports/http/test_listen.py names what is relied on.
UVICORN = "uvicorn>=0.30,<1"
_BACKLOG = 1024
_READ = 1 << 16  # bytes at once
_BEHIND = 1 << 16  # bytes of further requests that are kept while one is answered
HEAD_TIMEOUT = 30.0  # seconds
_GRACE = 0.3  # seconds that a response may take to end when we stop
_A_MOMENT = 0.005  # seconds
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
    """A listening socket, and an application that is served there.

    `report` gets the exceptions of an application; the client gets a 500, or sees a broken connection.
    """

    def __init__(
        self, address: Address, report: Callable[[Exception], None], *, head_timeout: float = HEAD_TIMEOUT
    ) -> None:
        self._host = address.host
        self._report = report
        self._head_timeout = head_timeout
        self._listener = _bind(address)
        self._server: _Server | None = None
        host, port = self._listener.getsockname()[:2]
        self.origin = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def serve(self, app: App, started: Callable[[str], None]) -> None:
        """Serve until a signal comes. `started` is given our origin once a client may connect."""
        asyncio.run(self.run(app, started, heeds_signals=True))

    async def run(self, app: App, started: Callable[[str], None], *, heeds_signals: bool = False) -> None:
        """Serve until `stop` is called, or a signal comes if those are heeded."""
        for name in ("uvicorn.error", "asyncio") if heeds_signals else ():  # else the process is not ours
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # we report what matters
        asyncio.get_running_loop().set_exception_handler(self._hear)
        config = configured(Guard(app, self._host, self._report), self._head_timeout)
        self._server = _Server(config, lambda: started(self.origin), heeds_signals)
        try:
            await self._server.serve([self._listener])
        finally:
            self._listener.close()

    def _hear(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report the exceptions of timers and tasks. Those of a connection are no fault of ours."""
        error = context.get("exception")
        if isinstance(error, Exception) and "protocol" not in context and "transport" not in context:
            self._report(error)

    def stop(self) -> None:
        """End `run`; from any thread."""
        assert self._server is not None
        self._server.stop()


def configured(guard: Guard, head_timeout: float = HEAD_TIMEOUT) -> uvicorn.Config:
    return uvicorn.Config(
        guard,
        http=partial(_Protocol, head_timeout=head_timeout, buffer=bytearray(_READ)),  # type: ignore[arg-type]  # called like a class
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
    )


def _bind(address: Address) -> socket.socket:
    """Return a listening socket; port 0 picks a free one."""
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


class _Server(uvicorn.Server):
    """uvicorn's server, but told to end: that looks every tenth of a second whether it is to, and whether it has."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], heeds_signals: bool) -> None:
        super().__init__(config)
        self._started = started
        self._heeds_signals = heeds_signals
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._started()

    def stop(self) -> None:
        """End; from any thread."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._told.set)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        if not self.should_exit:
            await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        state, loop = self.server_state, asyncio.get_running_loop()
        for connection in list(state.connections):
            connection.shutdown()
        give_up = loop.time() + _GRACE
        while (state.connections or state.tasks) and loop.time() < give_up:
            await asyncio.sleep(_A_MOMENT)
        for task in list(state.tasks):
            task.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in SIGNALS if self._heeds_signals else ():
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
                loop.add_signal_handler(number, self.stop)
        yield


class _Protocol(H11Protocol, asyncio.BufferedProtocol):
    """uvicorn's protocol with a shortcut: a usual request is parsed by us, and answered at once if that can be.

    One that cannot is handed over as it was parsed, to a cycle like those that uvicorn makes; h11 never sees it.
    """

    def __init__(self, *arguments: Any, head_timeout: float, buffer: bytearray, **more: Any) -> None:
        """`buffer`: what all connections of a loop read into. Without one, asyncio makes room for 256 KiB each time."""
        super().__init__(*arguments, **more)
        self._buffer = buffer
        self._answered_at = 0.0  # by the loop's clock
        self._head_timeout = head_timeout
        self._head_timer: asyncio.TimerHandle | None = None
        self.logger = _SILENT
        self._held = b""  # of a request whose body is on its way, or behind one that was handed over
        app = self.app
        self._quick: shortcut.Quick | None = getattr(app, "quick", None)

        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            scope[TRANSPORT] = self.transport
            await app(scope, receive, send)

        self.app = with_transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._time_head(is_awaited=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._time_head(is_awaited=False)
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(memoryview(self._buffer)[:nbytes]))

    def data_received(self, data: bytes) -> None:
        if self._is_handed_over():
            self._held += data
            if len(self._held) >= _BEHIND:
                self.flow.pause_reading()
            return
        if self._quick is not None and self._is_idle():
            data, self._held = self._held + data, b""
            if self._is_taken(data, self._quick):
                self._time_head(is_awaited=False)
                return
        super().data_received(data)
        self._stay_attentive()
        self._time_head(is_awaited=self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        held, self._held = self._held, b""
        if held and not self.transport.is_closing():
            self.data_received(held)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, unless a response has begun; either way the connection ends."""
        with contextlib.suppress(h11.LocalProtocolError):  # a response has begun, or may have no body
            super().send_400_response(msg)
        self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _time_head(self, *, is_awaited: bool) -> None:
        """Limit the time for the head of a request: thousands that never end would cost nothing to send."""
        if not is_awaited and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        elif is_awaited and self._head_timer is None:
            self._head_timer = self.loop.call_later(self._head_timeout, self._give_up)

    def _give_up(self) -> None:
        if self.conn.trailing_data[0] and not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
        self.transport.close()

    def _is_taken(self, data: bytes, quick: shortcut.Quick) -> bool:
        """Return whether a usual request was answered or handed over, or waits for its body; else h11 is to read it."""
        request = shortcut.parsed(data)
        found = quick(request) if request is not None else None
        if request is None or (found is None and request.body is None):
            return False
        self.conn.their_http_version = b"1.1"  # as h11 would know by now
        if isinstance(found, bytes):
            self.transport.write(found)
            self._answered_at = self.loop.time()
            if self.timeout_keep_alive_task is None:
                self._keep_alive(self.timeout_keep_alive)
            return True
        self._unset_keepalive_if_required()
        if isinstance(found, shortcut.Wait):
            self._held = data
        else:
            self._hand_over(request, found or self.app)
        return True

    def _keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, unless a response went out since the timer was set: not each sets one of its own."""
        left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._keep_alive(left)
        else:
            super().timeout_keep_alive_handler()

    def _hand_over(self, request: shortcut.Request, app: App) -> None:
        """Run an application with a request that was parsed, as `H11Protocol.handle_events` does with one of h11."""
        writing = h11.Connection(h11.SERVER)  # may respond before it has read: frames one response as RFC 9112 wants it
        writing.their_http_version = b"1.1"
        scope: Any = {"type": "http", "method": "POST", "query_string": b"", TRANSPORT: self.transport}
        scope |= {"path": request.path, "raw_path": request.path.encode(), "headers": request.headers}
        self.cycle = RequestResponseCycle(
            scope=scope,
            conn=writing,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=self.on_response_complete,
        )
        self.cycle.body += request.body or b""
        self.cycle.more_body = False
        self.cycle.message_event.set()
        task = self.loop.create_task(self.cycle.run_asgi(app))  # type: ignore[arg-type]  # which knows less than ASGI allows
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _stay_attentive(self) -> None:
        """Read on although the next request has arrived before the response is through: the client may leave."""
        if self.flow.read_paused and not self.cycle.more_body and len(self.conn.trailing_data[0]) < _BEHIND:
            self.flow.resume_reading()

    def _is_handed_over(self) -> bool:
        """True while a response is on its way that h11 does not know of."""
        return self.cycle is not None and self.cycle.conn is not self.conn and not self.cycle.response_complete

    def _is_idle(self) -> bool:
        """True if a new request begins, and what we write goes out at once."""
        between = self.conn.our_state is h11.IDLE and not self.conn.trailing_data[0]
        return between and not self.flow.write_paused and not self.transport.is_closing()
