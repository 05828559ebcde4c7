"""Raw HTTP for the tests: clients and servers that write exact bytes, and mcp-tape between them."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.running import WAIT

Headers = dict[str, str]
JSON, EVENTS = "application/json", "text/event-stream"
ACCEPT = f"{JSON}, {EVENTS}"
LAST = b"0\r\n\r\n"  # the chunk that ends a body


class CutOffError(Exception):
    """The peer disconnected in the middle of a message."""


class Message(NamedTuple):
    """A request or a response; header names in lower case."""

    start: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    @property
    def status(self) -> int:
        return int(self.start.split()[1])

    @property
    def verb(self) -> str:
        return self.start.split()[0]

    @property
    def target(self) -> str:
        return self.start.split()[1]

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class Wire:
    """One end of a connection. Every wait is bounded."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(WAIT)
        self.sock = sock
        self._buffer = bytearray()
        self._body = bytearray()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def head(self) -> Message | None:
        """The start line and headers of the next message; None if the peer has disconnected."""
        if not self._buffer and not self._more():
            return None
        start, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return Message(start, [(name.lower(), value.strip()) for name, _, value in pairs])

    def whole(self, head: Message) -> Message:
        """The message with its body."""
        length = head.header("content-length")
        if "chunked" in (head.header("transfer-encoding") or ""):
            return head._replace(body=b"".join(iter(self.chunk, b"")))
        if length is not None:
            return head._replace(body=self.exactly(int(length)))
        if not head.start.startswith("HTTP/") or head.status in (204, 304):
            return head
        while self._more():
            pass
        return head._replace(body=self.exactly(len(self._buffer)))

    def chunk(self) -> bytes:
        """The next chunk of a body; b"" at its end."""
        size = int(self._until(b"\r\n"), 16)
        return self.exactly(size + 2)[:-2]

    def read(self, size: int) -> bytes:
        """This many bytes of a body, from any number of chunks."""
        while len(self._body) < size:
            chunk = self.chunk()
            if not chunk:
                raise CutOffError(f"the body ended behind {bytes(self._body)!r}")
            self._body += chunk
        taken = bytes(self._body[:size])
        del self._body[:size]
        return taken

    def how_it_ends(self) -> str:
        """Wait for the peer to disconnect, and return how; drops data before that."""
        try:
            while self.sock.recv(1 << 16):
                pass
        except ConnectionResetError:
            return "reset"
        return "closed"

    def close(self) -> None:
        """Disconnect at once."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def reset(self) -> None:
        """Disconnect like a crashed network."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def _more(self) -> bool:
        data = self.sock.recv(1 << 18)
        self._buffer += data
        return bool(data)

    def _until(self, end: bytes) -> bytes:
        while (at := self._buffer.find(end)) < 0:
            if not self._more():
                raise CutOffError(f"the other end left behind {bytes(self._buffer[-100:])!r}")
        return self.exactly(at + len(end))[: -len(end)]

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            if not self._more():
                raise CutOffError(f"the other end left, {size - len(self._buffer)} bytes too early")
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


class Client(Wire):
    """A connection to a URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname and parts.port
        super().__init__(socket.create_connection((parts.hostname, parts.port), WAIT))
        self._host, self._path = parts.netloc, parts.path

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, body: bytes | None = None, /, *, verb: str = "POST", to: str = "", **more: str) -> None:
        """Send a request; an underscore in a header's name becomes a hyphen."""
        headers = {"host": self._host, "accept": ACCEPT}
        if body is not None:
            headers |= {"content-type": JSON, "content-length": str(len(body))}
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.send(f"{verb} {to or self._path} HTTP/1.1\r\n{lines}\r\n".encode() + (body or b""))

    def answer_head(self) -> Message:
        head = self.head()
        if head is None:
            raise CutOffError("the other end left without an answer")
        return head

    def answer(self) -> Message:
        return self.whole(self.answer_head())


def ask(url: str, body: bytes | None = None, /, *, verb: str = "POST", to: str = "", **more: str) -> Message:
    """A whole exchange, on its own connection."""
    with Client(url) as client:
        client.ask(body, verb=verb, to=to, **more)
        head = client.answer_head()
        return head if verb == "HEAD" else client.whole(head)


# Responses ----------------------------------------------------------------------------------------------


def answer(body: bytes = b"", status: int = 200, kind: str = JSON, **more: str) -> bytes:
    """A whole response."""
    headers = {"content-length": str(len(body))} | ({"content-type": kind} if body else {})
    return _response(status, headers | {name.replace("_", "-"): value for name, value in more.items()}) + body


def begin(kind: str = EVENTS, status: int = 200, **more: str) -> bytes:
    """The head of a response whose body comes in chunks."""
    headers = {"content-type": kind, "transfer-encoding": "chunked"}
    return _response(status, headers | {name.replace("_", "-"): value for name, value in more.items()})


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _response(status: int, headers: Headers) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} As The Test Wants\r\n{lines}\r\n".encode("latin-1")


Script = Callable[[Message, Wire], object]


class Upstream:
    """A server on loopback: a script handles each request, in a thread per connection."""

    def __init__(self, script: Script, path: str = "/mcp", *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self.origin = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.url = self.origin + path
        self.requests: list[Message] = []
        self._wires: list[Wire] = []
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []
        self._ending = False

    def __enter__(self) -> Upstream:
        self._start(self._accept)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._ending = True
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), WAIT).close()  # wakes the accepting thread
        self._threads[0].join(WAIT)
        self._listener.close()
        for wire in self._wires:
            wire.close()
        for thread in self._threads:
            thread.join(WAIT)
        assert not any(thread.is_alive() for thread in self._threads)
        if self._errors and kind is None:
            raise self._errors[0]

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if self._ending:
                sock.close()
                return
            self._start(lambda sock=sock: self._serve(sock))  # type: ignore[misc]

    def _serve(self, sock: socket.socket) -> None:
        try:
            wire = Wire(self._tls.wrap_socket(sock, server_side=True) if self._tls else sock)
        except OSError:
            sock.close()
            return  # a client that does not trust us disconnects
        self._wires.append(wire)
        try:
            while wire.sock.fileno() >= 0 and (head := wire.head()) is not None:
                request = wire.whole(head)
                self.requests.append(request)
                self._script(request, wire)
        except CutOffError:
            pass  # within a request: it was never complete
        except BaseException as error:
            if not self._ending:
                self._errors.append(error)
        finally:
            wire.sock.close()
