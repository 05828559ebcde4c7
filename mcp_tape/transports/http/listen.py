"""A listening socket, and the connections of its clients: HTTP/1.1 for whatever is served here.

One request of a connection is answered after the other; what arrives meanwhile waits, and not for ever much of it. What
a connection does next depends on what it has:

    a request that is not answered, with a body to come    the body is read: collected, or passed on piece by piece
    a request that is not answered                         nothing is read but what shows that the client has left
    neither                                                a head is read, within a time
    a response that ends the connection                    what still comes is dropped, for a while
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
        """What is served at a site."""

        max_body: int | None  # bytes that are collected before it is asked; None: it reads bodies itself

        def __call__(self, request: HttpRequest) -> Work | None:
            """Answer a request; or return what is to be awaited, and answers it."""

        def refuse(self, what: str) -> None:
            """Take note that a request was refused before it was asked."""

        def expects(self, target: str) -> bool:
            """Return whether a page of another site may lead a browser here, as those of a login do."""


HEAD_TIMEOUT = 30.0  # seconds
_KEEP_ALIVE = 5.0  # seconds between requests
_DROPPING = 5.0  # seconds to read on behind a response that ends a connection: who is still sending would not read it
_GRACE = 0.3  # seconds that a response may take to end when we stop
_READ = 1 << 16  # bytes at once
_AHEAD = 1 << 16  # bytes of a body that wait to be taken, or of further requests
_LARGE = 1 << 16  # bytes that are written at once
_REFUSED = ((b"content-type", TEXT), (b"connection", b"close"))
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class OtherWorkers(NamedTuple):
    """The other workers at an address: which of them a request is for, by its target and headers, and the way to it."""

    elsewhere: Callable[[str, Headers], int | None]
    passing: ConnectionPasser


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
        others: OtherWorkers | None = None,
        own_pages: bool = False,
    ) -> None:
        """`listener`: one of several at the address, and `others` the workers that have them.

        `own_pages`: of the pages in browsers, only those that come from here may ask.
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
        """Serve until a signal comes. `started` is given our origin once a client may connect."""
        asyncio.run(self.run(app, started, heeds_signals=True))

    async def run(self, app: Application, started: Callable[[str], None], *, heeds_signals: bool = False) -> None:
        """Serve until `stop` is called, or a signal comes if those are heeded."""
        if heeds_signals or self._others is not None:  # else the process is not ours
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
        """Report the exceptions of timers, tasks and connections. A connection that breaks is not a fault of ours."""
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
    """What all connections of a site share."""

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
        # All of them read into this. Without it, asyncio makes room for 256 KiB each time.
        self.buffer = bytearray(_READ)
        self.connections: set[_Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._all_left = asyncio.Event()
        self.is_ending = False

    async def adopt(self, connection: socket.socket, data: bytes) -> None:
        """Serve a connection that another worker has passed on, with what it had read of it."""
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
        """Let responses end that do so soon, and break off the others."""
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
    """A request that has come on a connection, and the response to it."""

    body: bytes | None = b""  # where it is collected; None: it is larger than may be
    has_left = False
    has_begun = False
    is_over = False
    _is_chunked = False
    _has_body = True
    _left: int | None = None  # bytes of the response's body that are still to come, if known
    _size = 0  # of what has arrived, in bytes
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
        self.when_writable: Callable[[], object] = _do_nothing  # again, or never
        self.keeps_alive = head.keep_alive  # the connection, behind the response
        self._waits = head.waits
        self._arrived: list[bytes] = []
        self._is_whole = not self.expects_body

    # -- the request

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, as it comes. ClientLeftError: it is not whole."""
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
        """Tell a client that waits to be told that its body is wanted."""
        if self._waits:
            self._waits = False
            self._connection.write(_CONTINUE)

    def arrive(self, piece: bytes, is_whole: bool) -> int:
        """Take in a piece of the body; return how much waits to be taken."""
        if piece:
            self._arrived.append(piece)
            self._size += len(piece)
        self._is_whole = is_whole
        self._wake()
        return self._size

    def collect(self) -> bytes:
        """Take all that has arrived of the body."""
        arrived, self._arrived, self._size = self._arrived, [], 0
        return b"".join(arrived)

    def leave(self) -> None:
        """Take note that the client has left."""
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
        """Begin a response, of this length in bytes, or of that which a header says."""
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
        """True while the client reads slowly: see `when_writable`."""
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
            self.abort()  # it is shorter than it said
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
        """Report an exception of the application: the response says so, or breaks off."""
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
        """`brought`: what another worker has read of it."""
        self._serving = serving
        self._app = serving.app
        self._loop = serving.loop
        self.report = serving.report
        self._data = brought  # that was not taken yet; of a head, all
        self._reader: HeadReader | None = None  # of a head that has begun to come
        self._request: HttpRequest | None = None  # that is not answered yet
        self._left = 0  # bytes of the body of a request that are still to come
        self._chunks: ChunkedReader | None = None  # or its reader
        self._is_taking = False
        self._is_dropping = False
        self._is_paused = False
        self._out: list[bytes] = []
        self._unwritten = 0  # bytes of that
        self._leaving: tuple[int, socket.socket, bytes] | None = None  # for another worker
        self.is_full = False  # of what the client has not read

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._serving.connections.add(self)
        # For the first head. One timer for all waits: each is at least as long as the time between two looks.
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
        """Go on with what has arrived, as far as it goes."""
        if self._is_taking:
            return  # a response has ended meanwhile
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
        """Take the next thing that has arrived; return whether there may be more."""
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
        assert request is not None  # else what comes is dropped
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
        """Return whether a request is for another worker, which gets the connection with all that has come of it."""
        owner = others.elsewhere(head.target.decode("latin-1"), head.headers)
        if owner is None:
            return False
        # What we have written goes out first; then the connection is lost, for us alone.
        self._leaving = owner, self._transport.get_extra_info("socket").dup(), bytes(self._data)
        self.close()
        return True

    def _pause_reading(self, waiting: int) -> None:
        """Read no more while much waits. Before that we read on, as nothing else shows that a client has left."""
        if waiting >= _AHEAD and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    # -- what is done about it

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
        """Refuse what is not for the application."""
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
            request.leave()  # for an application that was asked already

    def go_on_behind(self, request: HttpRequest) -> None:
        """Go on behind a response."""
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
        """Say nothing more, and drop what still comes, for a while: a client that sends would not read the response."""
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
        """Write soon: what is written in one turn of the loop goes out together, unless it is much."""
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
        # To linger for no time makes the system send a reset: see SO_LINGER in socket(7).
        at_once = struct.pack("ii", 1, 0)
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.abort()

    def end_idle(self) -> None:
        """End, unless a request is not answered yet: it then ends the connection."""
        if self._request is None:
            self.close()

    # -- time

    def _look_at_time(self) -> None:
        """End a connection whose time is up: thousands of heads that never end would cost nothing to send."""
        now = self._loop.time()
        if self._deadline is not None and now >= self._deadline:
            if self._reader is None or self._is_dropping:
                self.close()
                return
            self._refuse(408, "the head of a request took too long")
        until = now + self._look
        self._timer = self._loop.call_at(min(until, self._deadline or until), self._look_at_time)
