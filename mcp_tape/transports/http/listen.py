"""A listening socket, and its clients' connections: an HTTP/1.1 server for any application.

A connection answers one request at a time; a bounded amount of further input waits. The state of a connection decides
how it reads:

    an open request whose body is incomplete    reads the body: collects it, or passes it on piece by piece
    an open request with its whole body         reads little, to notice that the client has left
    no open request                             reads a head, within a time limit
    a response that ends the connection         reads and drops further input for a while
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..signals import SIGNALS, call_at_signal
from ..workers.listeners import BACKLOG, listeners
from ..workers.listeners import Address as Address
from .guard import Guard
from .message import TEXT, ClientLeftError, Headers, Work, has_body, header, response_head
from .parse import BadRequestError, ChunkedReader, Head, HeadReader, whole_head

if TYPE_CHECKING:
    from typing import Protocol

    from ..workers.passing import ConnectionPasser

    class Application(Protocol):
        """An application that a site serves."""

        max_body: int | None  # bytes collected before it is called; None if it reads bodies itself

        def __call__(self, request: HttpRequest) -> Work | None:
            """Answer a request, or return an awaitable that answers it."""

        def refuse(self, what: str) -> None:
            """Note that a request was refused before the application got it."""

        def expects(self, target: str) -> bool:
            """Return whether a page of another site may link or redirect here, as in a login."""


HEAD_TIMEOUT = 30.0  # seconds
_KEEP_ALIVE = 5.0  # seconds between requests
_DROPPING = 5.0  # seconds to read on after a response that ends a connection: a client that still sends can't read it
_GRACE = 0.3  # seconds for responses to end when we stop
_READ = 1 << 16  # bytes at once
_AHEAD = 1 << 16  # most bytes of a body, or of further requests, that wait
_LARGE = 1 << 16  # bytes that are written at once
_REFUSED = ((b"content-type", TEXT), (b"connection", b"close"))
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class OtherWorkers(NamedTuple):
    """The other workers at an address: finds the one for a request, by target and headers, and passes it on."""

    elsewhere: Callable[[str, Headers], int | None]
    passing: ConnectionPasser


class Site:
    """A listening socket and its application.

    `report` gets the application's exceptions; the client gets a 500 or a broken connection.
    """

    def __init__(
        self,
        address: Address,
        report: Callable[[Exception], None],
        *,
        head_timeout: float = HEAD_TIMEOUT,
        listener: socket.socket | None = None,
        others: OtherWorkers | None = None,
        own_pages: bool = False,
    ) -> None:
        """`listener`: one of several at the address; `others`: the workers that have the rest.

        `own_pages`: refuse requests from all pages except those served here.
        """
        self._listener = listener or listeners(address)[0]
        self.origin = origin_of(self._listener)
        self._guard = Guard(address.host, self.origin if own_pages else None)
        self._report = report
        self._head_timeout = head_timeout
        self._others = others
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()

    def serve(self, app: Application, started: Callable[[str], None]) -> None:
        """Serve until a signal arrives. `started` is called with our origin once clients may connect."""
        asyncio.run(self.run(app, started, heeds_signals=True))

    async def run(self, app: Application, started: Callable[[str], None], *, heeds_signals: bool = False) -> None:
        """Serve until `stop` is called, or with `heeds_signals` until a signal arrives."""
        if heeds_signals or self._others is not None:  # otherwise the process is the user's
            logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)  # we report what matters
        loop = self._loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._report_exception)
        serving = Serving(app, self._guard, self._report, self._head_timeout, self._others)
        server = await loop.create_server(lambda: _Connection(serving), sock=self._listener, backlog=BACKLOG)
        for number in SIGNALS if heeds_signals else ():
            call_at_signal(loop, number, self.stop)
        if self._others is not None:
            self._others.passing.open(serving.adopt)
        try:
            started(self.origin)
            await self._told.wait()
        finally:
            server.close()
            if self._others is not None:
                self._others.passing.close()
            await serving.end()

    def _report_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report exceptions in timers, tasks and connections, except broken connections."""
        error = context.get("exception")
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self._report(error)

    def stop(self) -> None:
        """End `run`; from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._told.set)


def origin_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Serving:
    """The state that all connections of a site share."""

    def __init__(
        self,
        app: Application,
        guard: Guard,
        report: Callable[[Exception], None],
        head_timeout: float = HEAD_TIMEOUT,
        others: OtherWorkers | None = None,
    ) -> None:
        self.app = app
        self.guard = guard
        self.report = report
        self.head_timeout = head_timeout
        self.others = others
        self.loop = asyncio.get_running_loop()
        # All connections read into this buffer. Without it, asyncio allocates 256 KiB for each read.
        self.buffer = bytearray(_READ)
        self.connections: set[_Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._all_left = asyncio.Event()
        self.is_ending = False

    async def adopt(self, connection: socket.socket, data: bytes) -> None:
        """Serve a connection from another worker, with the data already read."""
        await self.loop.connect_accepted_socket(lambda: _Connection(self, data), connection)

    def start(self, work: Work) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def lose(self, connection: _Connection) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self._all_left.set()

    async def end(self) -> None:
        """Wait a moment for responses to end, then break off the rest."""
        self.is_ending = True
        for connection in list(self.connections):
            connection.end_idle()
        if self.connections:
            self._all_left.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._all_left.wait(), _GRACE)
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for connection in list(self.connections):
            connection.abort()


class HttpRequest:
    """A request on a connection, and the response to it."""

    body: bytes | None = b""  # if it is collected; None if it is too large
    has_left = False
    has_begun = False
    is_over = False
    _is_chunked = False
    _has_body = True
    _left: int | None = None  # bytes of the response's body not sent yet, if known
    _size = 0  # bytes of the body that have arrived
    _more: asyncio.Future[None] | None = None

    def __init__(self, connection: _Connection, head: Head) -> None:
        self._connection = connection
        self._head = head
        self.verb = head.verb
        self.target = head.target
        self.path = head.path
        self.query = head.query
        self.headers = head.headers
        self.fields = head.fields
        self.expects_body = head.length != 0
        self.when_left: Callable[[], object] = _do_nothing
        self.when_writable: Callable[[], object] = _do_nothing  # called each time
        self.keeps_alive = head.keep_alive  # the connection, after the response
        self._waits = head.waits
        self._arrived: list[bytes] = []
        self._is_whole = not self.expects_body

    # -- the request

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises ClientLeftError if it is incomplete."""
        if self.body:  # collected
            yield self.body
            return
        self.send_continue()
        while True:
            if self._arrived:
                self._connection.resume_reading()
                yield self.collect()
            elif self._is_whole:
                return
            elif self.has_left:
                raise ClientLeftError
            else:
                self._more = asyncio.get_running_loop().create_future()
                await self._more

    def send_continue(self) -> None:
        """Send 100 Continue to a client that waits for it."""
        if self._waits:
            self._waits = False
            self._connection.write(_CONTINUE)

    def arrive(self, piece: bytes, is_whole: bool) -> int:
        """Add a piece of the body; return how many bytes wait."""
        if piece:
            self._arrived.append(piece)
            self._size += len(piece)
        self._is_whole = is_whole
        self._wake()
        return self._size

    def collect(self) -> bytes:
        """Take the part of the body that has arrived."""
        arrived, self._arrived, self._size = self._arrived, [], 0
        return b"".join(arrived)

    def leave(self) -> None:
        """Note that the client has left."""
        self.has_left = True
        self._wake()
        self.when_writable()
        self.when_left()

    def _wake(self) -> None:
        if self._more is not None:
            _wake(self._more)

    # -- the response

    def respond(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Send a whole response."""
        self.begin(status, headers, len(body))
        self.put(body)
        self.end()

    def begin(self, status: int, headers: Headers, length: int | None = None) -> None:
        """Begin a response. `length`: in bytes, unless a header gives it."""
        if self.has_left or self.is_over:
            return
        self._has_body = has_body(self.verb, status)
        if status == 204:
            headers, length = [one for one in headers if one[0] != b"content-length"], None
        if self._has_body:
            own = header(headers, b"content-length") if length is None else None
            self._left = length if own is None else int(own)
            self._is_chunked = self._left is None and not self._head.is_old
        if self._is_chunked:
            headers = [*headers, (b"transfer-encoding", b"chunked")]
        is_framed = self._is_chunked or self._left is not None or not self._has_body
        self.keeps_alive = self.keeps_alive and self._is_whole and is_framed
        if not self.keeps_alive:
            headers = [*headers, (b"connection", b"close")]
        self._connection.write(response_head(status, headers, length))
        self.has_begun = True

    def put(self, data: bytes) -> None:
        """Send a piece of the body."""
        if not data or not self._has_body or self.has_left or self.is_over:
            return
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise ValueError("a response is longer than its content-length")
        self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    @property
    def is_held_up(self) -> bool:
        """True while the client reads slowly; `when_writable` is called when it has caught up."""
        return self._connection.is_full

    async def send(self, data: bytes) -> None:
        """Send a piece of the body, and wait while the client reads slowly."""
        self.put(data)
        if self._connection.is_full and not self.has_left:
            writable = asyncio.get_running_loop().create_future()
            self.when_writable = partial(_wake, writable)
            await writable

    def end(self) -> None:
        """End the response."""
        if self.has_left or self.is_over:
            return
        if self._left:
            self.abort()  # shorter than its content-length
            return
        if self._is_chunked:
            self._connection.write(b"0\r\n\r\n")
        self._finish()

    def abort(self) -> None:
        """End the connection at once: a response that has begun must not look complete.

        https://www.rfc-editor.org/rfc/rfc9112#section-8
        """
        self._connection.abort()
        self._finish()

    def reset(self) -> None:
        """Reset the connection, as a network fault would."""
        self._connection.reset()
        self._finish()

    def fail(self, error: Exception) -> None:
        """Report an exception of the application: respond with 500, or break off the response."""
        self._connection.report(error)
        if self.has_begun:
            self.abort()
        else:
            self.keeps_alive = False
            self.respond(500, [(b"content-type", TEXT)], b"Internal Server Error")

    def _finish(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._connection.go_on_behind(self)


def _do_nothing() -> None:
    pass


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class _Connection(asyncio.BufferedProtocol):
    """A client's connection."""

    def __init__(self, serving: Serving, brought: bytes = b"") -> None:
        """`brought`: the data that another worker has read."""
        self._serving = serving
        self._app = serving.app
        self._loop = serving.loop
        self.report = serving.report
        self._data = brought  # unprocessed input; of an incomplete head, all of it
        self._reader: HeadReader | None = None  # of an incomplete head
        self._request: HttpRequest | None = None  # the open one
        self._left = 0  # bytes of the request's body still missing
        self._chunks: ChunkedReader | None = None  # reads a chunked body
        self._is_taking = False
        self._is_dropping = False
        self._is_paused = False
        self._out: list[bytes] = []
        self._unwritten = 0  # bytes of that
        self._leaving: tuple[int, socket.socket, bytes] | None = None  # to another worker
        self.is_full = False  # of data that the client has not read

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._serving.connections.add(self)
        # For the first head. One timer serves all waits: each is at least as long as its period.
        self._deadline: float | None = self._loop.time() + self._serving.head_timeout
        self._look = min(self._serving.head_timeout, _KEEP_ALIVE)
        self._timer = self._loop.call_later(self._look, self._look_at_time)
        if self._data:
            self._take_all()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._serving.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._is_dropping:
            self._data += memoryview(self._serving.buffer)[:nbytes]
            self._take_all()

    def eof_received(self) -> None:
        self._flush()  # and then asyncio closes the connection

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if self._request is not None:
            self._request.when_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._serving.lose(self)
        if self._request is not None and not self._request.is_over:
            self._request.leave()
        if self._leaving is not None and self._serving.others is not None:
            self._serving.others.passing.pass_on(*self._leaving)

    # -- what arrives

    def _take_all(self) -> None:
        """Process the input as far as possible."""
        if self._is_taking:
            return  # a response has ended in the meantime
        self._is_taking = True
        try:
            while not self._is_dropping and not self._transport.is_closing() and self._take():
                pass
        except BadRequestError as error:
            self._refuse(error.status, str(error))
        finally:
            self._is_taking = False
            self._flush()

    def _take(self) -> bool:
        """Process the next part of the input; return whether there may be more."""
        if not self._data:
            return False
        if self._left or self._chunks is not None:
            self._take_body()
            return True
        if self._request is None:
            return self._take_head()
        self._pause_reading(len(self._data))
        return False

    def _take_head(self) -> bool:
        found = None if self._reader else whole_head(self._data)
        if found is None:
            if self._reader is None:
                self._reader = HeadReader()
                self._deadline = self._loop.time() + self._serving.head_timeout
            found = self._reader.read(self._data)
            if found is None:
                return False
        head, size = found
        if self._serving.others is not None and self._hand_to_worker(head, self._serving.others):
            return False
        self._reader = self._deadline = None
        self._data = self._data[size:]
        self._left, self._chunks = head.length or 0, ChunkedReader() if head.length is None else None
        request = self._request = HttpRequest(self, head)
        refusal = self._serving.guard.refuse(head, self._app.expects)
        if refusal is not None:
            self._refuse(*refusal)
        elif self._app.max_body is None or not request.expects_body:
            self._ask(request)
        elif self._left > self._app.max_body:
            self._give_up_body(request)
        elif head.waits:
            request.send_continue()
        return True

    def _take_body(self) -> None:
        request, limit = self._request, self._app.max_body
        if self._chunks is not None:
            piece, self._data = self._chunks.read(self._data)
            if self._chunks.is_whole:
                self._chunks = None
        else:
            piece, self._data = self._data[: self._left], self._data[self._left :]
            self._left -= len(piece)
        is_whole = not self._left and self._chunks is None
        assert request is not None  # otherwise input is dropped
        waiting = request.arrive(piece, is_whole)
        if limit is None:
            self._pause_reading(waiting)
        elif waiting > limit:
            self._give_up_body(request)
        elif is_whole:
            request.body = request.collect()
            self._ask(request)

    def _give_up_body(self, request: HttpRequest) -> None:
        request.collect()
        request.body = None
        self._ask(request)

    def _hand_to_worker(self, head: Head, others: OtherWorkers) -> bool:
        """Return whether a request is for another worker, which then gets the connection and all its input."""
        owner = others.elsewhere(head.target.decode("latin-1"), head.headers)
        if owner is None:
            return False
        # Our own output goes out first; then only our end of the connection is closed.
        self._leaving = owner, self._transport.get_extra_info("socket").dup(), bytes(self._data)
        self.close()
        return True

    def _pause_reading(self, waiting: int) -> None:
        """Stop reading while much input waits. Until then keep reading: only a read shows that the client has left."""
        if waiting >= _AHEAD and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    # -- refusing, and going on

    def _ask(self, request: HttpRequest) -> None:
        try:
            work = self._app(request)
        except Exception as error:
            request.fail(error)
        else:
            if work is not None:
                self._serving.start(self._run(work, request))

    async def _run(self, work: Work, request: HttpRequest) -> None:
        try:
            await work
        except ClientLeftError:
            pass
        except Exception as error:
            request.fail(error)
        finally:
            if not request.is_over and not request.has_left:
                request.abort()

    def _refuse(self, status: int, reason: str) -> None:
        """Refuse a request before the application gets it."""
        request = self._request
        what = f"{request.verb} {request.path}" if request else "a request"
        self._app.refuse(f"refused {what} with {status}: {reason}")
        body = f"mcp-tape: {reason}\n".encode()
        if request is None:
            self.write(response_head(status, _REFUSED, len(body)) + body)
            self._drop()
        elif request.has_begun:
            request.abort()
        else:
            request.respond(status, [(b"content-type", TEXT)], body)
            request.leave()  # in case the application has it already

    def go_on_behind(self, request: HttpRequest) -> None:
        """Go on after a response."""
        self._request = None
        if self._transport.is_closing():
            return
        if not request.keeps_alive or self._serving.is_ending:
            self._drop()
            return
        self._deadline = self._loop.time() + _KEEP_ALIVE
        self.resume_reading()
        self._take_all()

    def _drop(self) -> None:
        """Send nothing more, and drop input for a while: a client that still sends would not read the response."""
        if self._is_dropping or self._transport.is_closing():
            return
        self._flush()
        if not (self._left or self._chunks or self._data):
            self._transport.close()
            return
        self._is_dropping, self._data = True, b""
        self._deadline = self._loop.time() + _DROPPING
        self.resume_reading()
        self._transport.write_eof()

    # -- what is sent

    def write(self, data: bytes) -> None:
        """Write soon: data from one turn of the loop goes out in one write, unless it is large."""
        self._out.append(data)
        self._unwritten += len(data)
        if self._unwritten >= _LARGE:
            self._flush()
        elif len(self._out) == 1 and not self._is_taking:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._out:
            data, self._out, self._unwritten = b"".join(self._out), [], 0
            if not self._transport.is_closing():
                self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._flush()
        self._transport.abort()

    def reset(self) -> None:
        # With a linger time of zero the system sends a reset: see SO_LINGER in socket(7).
        at_once = struct.pack("ii", 1, 0)
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.abort()

    def end_idle(self) -> None:
        """End the connection now, or after the open request."""
        if self._request is None:
            self.close()

    # -- time

    def _look_at_time(self) -> None:
        """End a connection whose time is up: sending thousands of heads that never end would cost a client nothing."""
        now = self._loop.time()
        if self._deadline is not None and now >= self._deadline:
            if self._reader is None or self._is_dropping:
                self.close()
                return
            self._refuse(408, "the head of a request took too long")
        until = now + self._look
        self._timer = self._loop.call_at(min(until, self._deadline or until), self._look_at_time)
