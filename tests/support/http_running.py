"""mcp-tape over HTTP for the tests, the messages they send through it, and its recordings."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp_tape.cassette.reader import Cassette
from mcp_tape.options import REPLAY, OptionValues, words_for
from mcp_tape.wire.frames import Frame
from tests.support.running import MCP_TAPE, WAIT, receive, receive_line, started

# JSON-RPC ----------------------------------------------------------------------------------------------

_ABOUT = {"protocolVersion": "2026-07-28", "clientCapabilities": {}, "clientInfo": {"name": "raw"}}
_MODERN = {f"io.modelcontextprotocol/{name}": value for name, value in _ABOUT.items()}


def said(**members: Any) -> bytes:
    """A JSON-RPC message."""
    return json.dumps({"jsonrpc": "2.0"} | members, separators=(",", ":")).encode()


def call(rpc_id: int | str, method: str = "tools/call", **params: Any) -> bytes:
    """A request."""
    return said(id=rpc_id, method=method, params=params)


def modern(rpc_id: int | str, method: str = "tools/call", **params: Any) -> bytes:
    """A request of the modern era, with its protocol version."""
    return call(rpc_id, method, **params, _meta=_MODERN)


def result(rpc_id: Any, **value: Any) -> bytes:
    return said(id=rpc_id, result=value)


def failure(rpc_id: Any, code: int, message: str = "no") -> bytes:
    return said(id=rpc_id, error={"code": code, "message": message})


INITIALIZE = call(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "raw"})
INITIALIZED = said(method="notifications/initialized")
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "scripted", "version": "1"},
}  # fmt: skip


def event(text: bytes, head: bytes = b"event: message\n", eol: bytes = b"\n") -> bytes:
    return head + b"data: " + text + eol + eol


# mcp-tape ----------------------------------------------------------------------------------------------


class Running:
    """A listening mcp-tape, and its URL."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: int) -> None:
        self.process = process
        self._stderr = stderr
        assert process.stdout
        line = receive_line(process.stdout).decode()
        assert re.fullmatch(r"http://(127\.0\.0\.1|\[::1\]|localhost):\d+/\S*\n", line), line + self.said
        self.url = line.strip()
        self.origin = "http://" + urlsplit(self.url).netloc

    @property
    def said(self) -> str:
        """The output on stderr so far."""
        return os.pread(self._stderr, 1 << 20, 0).decode()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it to end; return its exit code. Only the URL may have been on stdout."""
        self.process.send_signal(number)
        assert self.process.stdout
        assert receive(self.process.stdout) == b""
        return self.process.wait(WAIT)

    def memory(self) -> int:
        """Its peak memory, in bytes. Linux only, and not of a fork, which starts with more."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found
        return int(found[1]) << 10


@contextlib.contextmanager
def listening(
    *arguments: str, code: int = 0, program: Sequence[str] = MCP_TAPE, **environment: str
) -> Iterator[Running]:
    """An mcp-tape that serves HTTP, stopped on exit unless it has ended."""
    plain = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with (
        tempfile.TemporaryFile() as stderr,
        started([*program, *arguments], stderr=stderr, env=plain | environment) as process,
    ):
        running = Running(process, stderr.fileno())
        yield running
        if process.poll() is None:
            assert running.stop() == code, running.said


def recording(
    tape: Path, url: str, *options: str, code: int = 0, program: Sequence[str] = MCP_TAPE, **environment: str
) -> contextlib.AbstractContextManager[Running]:
    words = ["record", "--url", url, "-o", str(tape), *options]
    return listening(*words, code=code, program=program, **environment)


def replaying(tape: Path, *words: str, code: int = 0, **options: Any) -> contextlib.AbstractContextManager[Running]:
    """A replay at a URL, with words of its command line, and options by their names in the table."""
    return listening(
        "replay", str(tape), "--listen", "127.0.0.1:0", *words, *words_for(REPLAY, OptionValues(**options)), code=code
    )


def all_frames(tape: Path) -> list[Frame]:
    """The frames of every session."""
    with Cassette(tape) as cassette:
        return [frame for session in cassette.sessions() for frame in cassette.frames(session.id)]


def facts(frames: list[Frame], what: str | None = None) -> list[dict[str, Any]]:
    """The facts in control frames, of all events or of one kind."""
    found = [json.loads(frame.text) for frame in frames if frame.kind == "control"]
    return [one for one in found if what in (None, one["event"])]


def texts(frames: list[Frame], sender: str) -> list[bytes]:
    """The messages of one side."""
    return [frame.text for frame in frames if frame.sender == sender and frame.kind in ("message", "batch")]


def exchanged(tape: Path) -> set[tuple[bytes, bytes]]:
    """Each answered request with its answer."""
    with contextlib.closing(sqlite3.connect(tape)) as db:
        both = "CAST(request AS BLOB), CAST(response AS BLOB)"
        return set(db.execute(f"SELECT {both} FROM exchanges WHERE response IS NOT NULL"))
