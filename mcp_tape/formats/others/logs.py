"""Logs of clients: Claude Desktop (`mcp-server-NAME.log`, `mcp.log`) and VS Code (the output of a server)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...wire import frames, protocol
from ...wire.channels import STDERR
from ...wire.frames import Side
from ..foreign import Clock, Item, Loss, Reader, SentBytes, SessionStart, SourceFile, command, cut_off_loss

# Newer versions put the server's name first, older ones the level.
_DESKTOP = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT[\d:.]+Z) (?:\[(?!(?:info|error|warn|debug)\])(?P<name>[^\]\n]*)\] \[\w+\]|\[\w+\] "
    r"\[(?P<older>[^\]\n]*)\]) Message from (?P<who>client|server): (?P<text>.*?)(?: \{ metadata: .*\})?\r?$",
    re.MULTILINE,
)
_CODE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d [\d:.]+) \[\w+\] \[(?P<who>Client Says|Server Says|editor -> server|server -> editor"
    r"|server stderr)\] (?P<text>.*?)\r?$",
    re.MULTILINE,
)
_CLIENT = ("client", "Client Says", "editor -> server")
_CUT = re.compile(r"\.\.\.\[\d+ chars truncated\]\.\.\.")
_START = 1 << 20  # characters within which the first message must occur


class _Line(NamedTuple):
    at: str
    sender: Side
    text: str
    name: str | None = None
    is_stderr: bool = False


def _is_desktop(source: SourceFile) -> bool:
    return _DESKTOP.search(source.start, 0, _START) is not None


def _desktop(source: SourceFile) -> Iterator[Item]:
    servers: dict[str | None, list[_Line]] = {}
    for found in _DESKTOP.finditer(source.text):
        line = _line(found, found["name"] or found["older"])
        servers.setdefault(line.name, []).append(line)
    for lines in servers.values():
        yield from _sessions(lines)


def _is_code(source: SourceFile) -> bool:
    return _CODE.search(source.start, 0, _START) is not None


def _code(source: SourceFile) -> Iterator[Item]:
    yield from _sessions([_line(found) for found in _CODE.finditer(source.text)])


def _line(found: re.Match[str], name: str | None = None) -> _Line:
    sender: Side = "client" if found["who"] in _CLIENT else "server"
    return _Line(found["at"], sender, found["text"], name, found["who"] == "server stderr")


def _sessions(lines: list[_Line]) -> Iterator[Item]:
    """A log continues from one start of a server to the next; each begins with a handshake."""
    clock: Clock | None = None
    for at, sender, text, name, is_stderr in lines:
        if _CUT.search(text):
            yield cut_off_loss()
        said = text.encode("utf-8", "replace")
        messages = [] if is_stderr else frames.parse(said)[1]
        if clock is None or any(message.method == protocol.INITIALIZE for message in messages):
            clock = Clock(at)
            yield SessionStart(clock.started_at, command(), {"label": name})
            yield Loss("stderr and the end of the server")
        yield SentBytes(clock.at(at), sender, said, *((STDERR,) if is_stderr else ()))


READERS = (Reader("a log of Claude Desktop", _is_desktop, _desktop), Reader("a log of VS Code", _is_code, _code))
