"""The client of a stdio server, which it starts. Every wait is bounded."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ServerError
from ...redaction.diagnostics import DiagnosticRedactor, Rules
from ...system import calls
from ...wire import frames, jsontext, protocol, rewrite
from ...wire.framing import Lines
from ..process import AS_WE_ARE, Around
from ..programs import start_server
from . import relay

_PATIENCE = 2.0  # seconds for each step of ending a server, as in SDK clients
_LAST_WORDS = 0.5  # seconds for the rest of a pipe after its writer has ended
_UNREAD = 10_000  # most messages queued; then the server waits
_TAIL, _WIDTH = 20, 500  # lines of stderr kept, and characters of each


class ServerEnd(NamedTuple):
    """The end of a server: its exit code, if any, and the last lines of its stderr."""

    code: int | None
    stderr: tuple[str, ...] = ()
    why: str = ""

    def __str__(self) -> str:
        return self.why or f"the server ended with exit code {self.code}"


if TYPE_CHECKING:
    from typing import Protocol

    class Connection(Protocol):
        """A connection to a server, over any transport."""

        made_up: dict[str, str]  # the reason for each error response of our own, by id

        def send(self, text: bytes, headers: Mapping[str, str] = ...) -> None: ...

        def receive(self, timeout: float) -> bytes | None: ...

        @property
        def ended(self) -> ServerEnd | None: ...

        def stderr(self) -> tuple[str, ...]: ...

        def close(self) -> None: ...


class StdioConnection:
    """A server process. `storing`: seconds that it may take to end after its last output.

    Keeps the last lines of its stderr, redacted by `rules`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        storing: float = 0.0,
        rules: Rules | None = None,
        around: Around = AS_WE_ARE,
    ) -> None:
        self._discreet = DiagnosticRedactor(rules or Rules(environ=os.environ))
        self._process = start_server(command, around)
        self._storing = storing
        self._inbox: queue.Queue[bytes | None] = queue.Queue(_UNREAD)
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._closing = threading.Event()
        self._at_end = False
        self._lingers = False  # its output has ended, but not the process
        self.was_pushed = False  # it got a signal, as it ignored the end of its input
        self.made_up: dict[str, str] = {}
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._listen, self._write)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> StdioConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def code(self) -> int | None:
        """The exit code, once the server has ended."""
        returned = self._process.returncode
        return returned if returned is None or returned >= 0 else 128 - returned

    def send(self, text: bytes, headers: Mapping[str, str] = {}) -> None:
        """Send a text as one line, with its own line end if it has one. Headers are for HTTP only."""
        bare = text.rstrip(b"\r\n")
        self._outbox.put(rewrite.single_line(bare) + (text[len(bare) :] or b"\n"))

    def receive(self, timeout: float) -> bytes | None:
        """Return the next line of the server; None at a timeout or at the end."""
        if self._at_end:
            return None
        try:
            line = self._inbox.get(timeout=max(0.0, timeout))
        except queue.Empty:
            return None
        self._at_end = line is None
        return line

    @property
    def ended(self) -> ServerEnd | None:
        """The end of the server, once all its output is received; else None."""
        if not self._at_end:
            return None
        self._lingers = self._lingers or not _has_ended(self._process, _PATIENCE)
        self._threads[1].join(_LAST_WORDS)
        if self.code is None:
            return ServerEnd(None, self.stderr(), "the server has closed its output")
        return ServerEnd(self.code, self.stderr())

    def stderr(self) -> tuple[str, ...]:
        return tuple(self._tail)

    def stop(self) -> None:
        """Terminate the server: for programs that ignore the end of their input."""
        self.was_pushed = True
        self._process.terminate()

    def close(self) -> None:
        """Shut the server down as clients do: close its input, then wait, terminate and kill.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown
        """
        self._closing.set()
        self._outbox.put(None)
        for push in (self._process.terminate, self._process.kill):
            if self._wait(_PATIENCE):
                break
            self.was_pushed = True
            push()
            self._lingers = False  # it may be storing now
        self._process.wait()
        for thread in self._threads:
            thread.join(_PATIENCE)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe
            pipe.close()

    def _wait(self, seconds: float) -> bool:
        if _has_ended(self._process, seconds):
            return True
        if not self._storing or self._lingers or self._threads[0].is_alive():
            return False
        return _has_ended(self._process, self._storing)

    def _read(self) -> None:
        assert self._process.stdout
        lines = Lines()
        for data in self._pieces(self._process.stdout.fileno()):
            for text, _ in lines.feed(data):
                self._put(text)
        for text, _ in lines.close():
            self._put(text)
        self._put(None)

    def _listen(self) -> None:
        assert self._process.stderr
        lines = Lines(1 << 16)
        for data in self._pieces(self._process.stderr.fileno()):
            self._tail.extend(self._discreet.line(text)[:_WIDTH] for text, _ in lines.feed(data))
        self._tail.extend(self._discreet.line(text)[:_WIDTH] for text, _ in lines.close())

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe
        try:
            while (data := self._outbox.get()) is not None:
                relay.write_all(pipe.fileno(), data)
        except OSError:
            pass  # it has ended; its output ends, too
        finally:
            pipe.close()

    def _put(self, text: bytes | None) -> None:
        """Queue a line, unless we are closing."""
        while not self._closing.is_set():
            try:
                return self._inbox.put(text, timeout=0.1)
            except queue.Full:
                pass
        return None

    def _pieces(self, descriptor: int) -> Iterator[bytes]:
        """Yield the data of a pipe until its end. Don't wait for a grandchild that holds the pipe open."""
        while True:
            if calls.wait(descriptor, calls.POLLIN, round(_LAST_WORDS * 1000)):
                data = os.read(descriptor, relay.CHUNK)
                if not data:
                    return
                yield data
            elif self._process.poll() is not None:
                return


def notify(connection: Connection, method: str, params: Any = None) -> None:
    connection.send(jsontext.dumps(_body(method, params)).encode())


def ask(
    connection: Connection,
    method: str,
    params: Any,
    rpc_id: int | str,
    timeout: float,
    capabilities: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Send a request and return its response. Server requests that arrive meanwhile are answered at once.

    `capabilities`: the declared client capabilities. Requests that they cover are declined; others get "method not
    found".
    """
    connection.send(jsontext.dumps(_body(method, params) | {"id": rpc_id}).encode())
    end = monotonic() + timeout
    while (left := end - monotonic()) > 0:
        text = connection.receive(left)
        if text is None and connection.ended is not None:
            raise ServerError(_with_tail(f"{connection.ended} before it answered {method}", connection.ended.stderr))
        for message in frames.parse(text)[1] if text else ():
            if message.kind == "response" and message.rpc_id == frames.id_text(rpc_id):
                return _answer(connection, message, method)
            if message.kind == "request":
                member, value = protocol.unattended_answer(message.method, capabilities or {})
                connection.send(rewrite.response(message.rpc_id, member, jsontext.dumps(value)))
    raise ServerError(_with_tail(f"the server did not answer {method} within {timeout:g} s", connection.stderr()))


def _body(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def _answer(connection: Connection, message: frames.Message, method: str) -> dict[str, Any]:
    why = connection.made_up.get(message.rpc_id or "")
    if why is not None:
        raise ServerError(_with_tail(f"{method}: {why}", connection.stderr()))
    return message.body


def _with_tail(what: str, stderr: Sequence[str]) -> str:
    said = [line for line in stderr if line.strip()]
    return f"{what}; its stderr ends with:\n  " + "\n  ".join(said) if said else what


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
