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

from ..signals import SIGNALS
from ..workers.listeners import BACKLOG, listeners
from ..workers.listeners import Address as Address
from ..workers.passing import Passing
from . import shortcut
from .asgi import TRANSPORT, App, Headers, Receive, Scope, Send
from .guard import Guard

# Subclasses H11Protocol and makes its cycles, which uvicorn does not document: tried with 0.30 and 0.54. The
# requirement in pyproject.toml is the same, and tests/transports/http/test_listen.py names what is relied on.
UVICORN = "uvicorn>=0.30,<1"
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


class Others(NamedTuple):
    """The other workers at an address: which of them a request is for, by its target and headers, and the way to it."""

    elsewhere: Callable[[str, Headers], int | None]
    passing: Passing


class Site:
    """A listening socket, and an application that is served there.

    `report` gets the exceptions of an application; the client gets a 500, or sees a broken connection.
    """

    def __init__(
        self,
        address: Address,
        report: Callable[[Exception], None],
        *,
        head_timeout: float = HEAD_TIMEOUT,
        listener: socket.socket | None = None,
        others: Others | None = None,
    ) -> None:
        """`listener`: one of several at the address, and `others` the workers that have them."""
        self._host = address.host
        self._report = report
        self._head_timeout = head_timeout
        self._listener = listener or listeners(address)[0]
        self._others = others
        self._server: _Server | None = None
        self.origin = origin_of(self._listener)

    def serve(self, app: App, started: Callable[[str], None]) -> None:
        """Serve until a signal comes. `started` is given our origin once a client may connect."""
        asyncio.run(self.run(app, started, heeds_signals=True))

    async def run(self, app: App, started: Callable[[str], None], *, heeds_signals: bool = False) -> None:
        """Serve until `stop` is called, or a signal comes if those are heeded."""
        if heeds_signals or self._others is not None:  # else the process is not ours
            for name in ("uvicorn.error", "asyncio"):
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # we report what matters
        asyncio.get_running_loop().set_exception_handler(self._hear)
        config = configured(Guard(app, self._host, self._report), self._head_timeout, self._others)
        passing = self._others.passing if self._others else None
        self._server = _Server(config, lambda: started(self.origin), heeds_signals, passing)
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


def origin_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def configured(guard: Guard, head_timeout: float = HEAD_TIMEOUT, others: Others | None = None) -> uvicorn.Config:
    made = partial(_Protocol, head_timeout=head_timeout, buffer=bytearray(_READ), others=others)
    return uvicorn.Config(
        guard,
        http=made,  # type: ignore[arg-type]  # called like a class
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
    )


class _Server(uvicorn.Server):
    """uvicorn's server, but told to end: that looks every tenth of a second whether it is to, and whether it has."""

    def __init__(
        self, config: uvicorn.Config, started: Callable[[], None], heeds_signals: bool, passing: Passing | None
    ) -> None:
        super().__init__(config)
        self._passing = passing
        self._started = started
        self._heeds_signals = heeds_signals
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self._passing is not None:
            self._passing.open(self._adopt)
        self._started()

    async def _adopt(self, connection: socket.socket, data: bytes) -> None:
        """Serve a connection that another worker has passed on, with what it had read of it."""

        def made() -> asyncio.Protocol:
            protocol: Any = self.config.http_protocol_class(self.config, self.server_state, self.lifespan.state)  # type: ignore[call-arg]
            protocol.brought = data
            return protocol  # type: ignore[no-any-return]

        await asyncio.get_running_loop().connect_accepted_socket(made, connection)

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
        for listener in (*self.servers, *(sockets or ()), *([self._passing] if self._passing else ())):
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

    def __init__(
        self, *arguments: Any, head_timeout: float, buffer: bytearray, others: Others | None, **more: Any
    ) -> None:
        """`buffer`: what all connections of a loop read into. Without one, asyncio makes room for 256 KiB each time."""
        super().__init__(*arguments, **more)
        self._others = others
        self._leaving: tuple[int, socket.socket, bytes] | None = None  # for another worker
        self.brought = b""  # by one, before we have read anything
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
        if self.brought:
            self.data_received(self.brought)

    def connection_lost(self, exc: Exception | None) -> None:
        self._time_head(is_awaited=False)
        super().connection_lost(exc)
        if self._leaving is not None and self._others is not None:
            self._others.passing.pass_on(*self._leaving)

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

    def handle_events(self) -> None:
        """Go on with what has arrived, unless a request begins that is for another worker."""
        is_new = self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE
        if self._others is not None and is_new and self._leaving is None:
            data = self.conn.trailing_data[0]
            self._leaves(data, _looked_at(data, self._others.elsewhere))
        if self._leaving is None:
            super().handle_events()

    def _leaves(self, data: bytes, owner: int | None) -> bool:
        """Return whether what has arrived is for another worker, which gets the connection with it."""
        if owner is None:
            return False
        # What we have written goes out first; then the connection is lost, for us alone.
        self._leaving = owner, self.transport.get_extra_info("socket").dup(), data
        self.transport.close()
        return True

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
        if found is None and self._others and self._leaves(data, self._others.elsewhere(*request[:2])):
            return True
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


def _looked_at(data: bytes, elsewhere: Callable[[str, Headers], int | None]) -> int | None:
    """The other worker that a request is for, once its head is whole."""
    reader = h11.Connection(h11.SERVER)  # one of its own, as h11 gives nothing back
    reader.receive_data(data)
    try:
        request = reader.next_event()
    except h11.RemoteProtocolError:
        return None  # to be refused here
    if not isinstance(request, h11.Request):
        return None
    return elsewhere(request.target.decode("latin-1"), list(request.headers))
