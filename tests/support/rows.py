"""Consecutive cassettes: recorded by the recording process's own code, and read again as one."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from mcp_tape.cassette.reader import Cassette, EmptyError
from mcp_tape.record.backlog import Backlog
from mcp_tape.record.recorder import CONTROL, HEAD, SERVER
from mcp_tape.record.recording_options import RecordingOptions
from mcp_tape.record.recording_process import record
from mcp_tape.record.rotation import CassetteSeries
from mcp_tape.wire.channels import CONTINUES, STDIO, TAPE
from mcp_tape.wire.frames import Frame, facts

Said = tuple[str, str, str | dict[str, Any]]  # side, channel, and a line or the facts of an event
LEAVE: Said = ("client", STDIO, {"event": "close"})
EXIT: Said = ("server", STDIO, {"event": "exit", "code": 0})


def posted(channel: str, body: str, session: str = "one") -> Iterator[Said]:
    """A message of a client over HTTP."""
    headers = {"mcp-session-id": session}
    yield "client", channel, {"event": "request", "verb": "POST", "path": "/mcp", "headers": headers}
    yield "client", channel, body
    yield "client", channel, ""


def answered(channel: str, status: int, body: str = "", session: str = "one") -> Iterator[Said]:
    """The response to it, or to another request."""
    headers = {"content-type": "application/json", "mcp-session-id": session}
    yield "server", channel, {"event": "response", "status": status, "headers": headers}
    if body:
        yield "server", channel, body
    yield "server", channel, ""


def packed(said: Said, at: int) -> bytes:
    """A record of the relay's pipe."""
    side, channel, what = said
    data = what.encode() + b"\n" * (channel == STDIO) if isinstance(what, str) else json.dumps(what).encode()
    kind = SERVER * (side == "server") | CONTROL * (not isinstance(what, str))
    return HEAD.pack(at, len(data), kind, len(channel)) + channel.encode() + data


def record_into(
    row: CassetteSeries, said: Iterable[Said], hear: Callable[[str], object] = lambda line: None, **options: Any
) -> list[str]:
    """Record, and return the report to the relay. `hear` gets each line of it at once."""
    reader, writer = os.pipe()
    report, status = os.pipe()

    def feed() -> None:
        with open(writer, "wb", buffering=0) as pipe:
            for number, one in enumerate(said):
                pipe.write(packed(one, number * 1000))

    path = row.newest()
    feeder = threading.Thread(target=feed, daemon=True)
    heard: list[str] = []

    def listen() -> None:
        with open(report) as lines:
            for line in lines:
                heard.append(line.rstrip("\n"))
                hear(heard[-1])

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    feeder.start()
    record(Backlog(reader), status, path, RecordingOptions({"command": ["x"]}, series=row, **options), 0.0)
    feeder.join()
    os.close(status)
    os.close(reader)
    listener.join()
    return heard


def cassettes(directory: Path) -> list[Path]:
    """The cassettes of a row, oldest first."""
    return sorted(directory.glob("*.db"), key=lambda path: int((re.findall(r"-(\d+)\.db", path.name) or ["1"])[0]))


def parts(directory: Path) -> Iterator[list[Frame]]:
    """The frames of each session in a row of cassettes, without repeated ones."""
    for path in cassettes(directory):
        try:
            with Cassette(path) as cassette:
                for session in cassette.sessions():
                    frames = list(cassette.frames(session.id))
                    yield frames[_repeated(frames) :]
        except EmptyError:
            pass  # its recorder was killed at once


def _repeated(frames: list[Frame]) -> int:
    first = facts(frames[0].text) if frames and frames[0].channel == TAPE else {}
    return int(first["repeated"]) + 1 if first.get("event") == CONTINUES else 0


def texts(directory: Path) -> list[str]:
    """The messages of a row, in order."""
    return [frame.text.decode() for part in parts(directory) for frame in part if frame.kind == "message"]
