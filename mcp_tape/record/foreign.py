"""Recordings of other tools, taken onto a tape as if they had crossed the wire now: framed, redacted, paired and keyed.

What a format cannot give is kept with each session, as the reason why it is incomplete. `load` is found by its name:
see `cassette/text/opening.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..cassette.file import storable
from ..cassette.query.check import IMPORTED
from ..errors import CassetteError
from ..formats.others.stream import Begin, Happened, Lost, Reader, Said, Source
from ..redaction.diagnostics import Rules, redactor
from ..wire.channels import STDIO, is_http
from ..wire.frames import Entry, Frame, parse
from .sessions import Sessions
from .tape import Tape

if TYPE_CHECKING:
    from ..cassette.build import Builder
    from ..redaction.redactor import Redactor

_MODULES = "har cassettes lines documents vcr time_travel inspector logs".split()
_MOST = 1 << 30  # bytes: as of one frame on a cassette


def load(path: str, builder: Builder, defaults: Mapping[str, Any], otherwise: CassetteError) -> Sequence[str]:
    """Read a recording of another tool into a cassette; what was lost. `otherwise`: the error where it is none."""
    source = _source(path)
    reader = _reader(source)
    if reader is None:
        tried = ", ".join(one.name for one in readers())
        raise CassetteError(f"{otherwise}\nIt is no recording of another tool either. Tried: JSON lines, {tried}")
    lost: list[str] = []
    for part in _sessions(reader, source):
        part.write(builder, defaults)
        lost.append(part.why)
    if not lost:
        raise CassetteError(f"{path} looks like a recording of {reader.name}, but holds no message")
    return list(dict.fromkeys(filter(None, lost)))


def knows(path: str) -> bool:
    """Return whether a file is a recording of another tool."""
    return _reader(_source(path)) is not None


def _source(path: str) -> Source:
    if os.path.getsize(path) > _MOST:
        raise CassetteError(f"{path} is no cassette, and too large to be the recording of another tool")
    with open(path, "rb") as file:
        return Source(path, file.read())


def _reader(source: Source) -> Reader | None:
    return next((one for one in readers() if one.fits(source)), None)


def readers() -> Iterator[Reader]:
    """Every format, in the order in which they are tried."""
    for name in _MODULES:
        yield from import_module(f"mcp_tape.formats.others.{name}").READERS


def _sessions(reader: Reader, source: Source) -> Iterator[_Part]:
    """The sessions of a file; what is lost before the first is lost of each."""
    hidden = redactor(Rules(environ=os.environ), most_seen=sys.maxsize)
    of_all: list[Lost] = []
    part: _Part | None = None
    for item in reader.read(source):
        if isinstance(item, Begin):
            if part is not None and part.items:
                yield part
            part = _Part(reader.name, item, hidden, of_all)
        elif isinstance(item, Lost):
            (of_all if part is None else part.lost).append(item)
        elif part is not None:
            part.items.append(item)
    if part is not None and part.items:
        yield part


class _Part:
    """What follows one `Begin`: a session, or over HTTP as many as its clients had."""

    def __init__(self, name: str, begin: Begin, hidden: Redactor, lost: list[Lost]) -> None:
        self.items: list[Said | Happened] = []
        self.lost = list(lost)
        self._name = name
        self._begin = begin
        self._redactor = hidden
        self._tapes: list[tuple[str, list[tuple[Frame, list[Entry]]], Tape]] = []

    @property
    def why(self) -> str:
        """Why it is not whole, in words: what its format cannot hold, and then what it should have."""
        lost = list(dict.fromkeys(self.lost))
        missing = ", ".join(one.what for one in lost if not one.is_damage)
        damage = [one.what for one in lost if one.is_damage]
        return "; ".join([f"{IMPORTED}{self._name}" + (f": {missing}" if missing else ""), *damage]) if lost else ""

    def write(self, builder: Builder, defaults: Mapping[str, Any]) -> None:
        self._play()
        for transport, kept, tape in self._tapes:
            if not kept:
                continue
            builder.begin(dict(defaults) | self._row(transport, tape))
            for frame, entries in kept:
                messages = parse(frame.text)[1] if frame.kind in ("message", "batch") else []
                keys = {part: entry.key for part, entry in enumerate(entries) if entry.key and frame.redactions}
                builder.add(frame, messages, keys)

    def _play(self) -> None:
        over_http = any(is_http(item.channel) for item in self.items)
        tape = Sessions(self._begun) if over_http else self._begun(0, STDIO, True)
        at = 0
        for item in self.items:
            at = max(at, item.at)
            if isinstance(item, Happened):
                tape.control(item.sender, item.channel, dict(item.facts), at)
            elif is_http(item.channel) and not item.text:
                tape.end(item.sender, item.channel, at)
                tape.control(item.sender, item.channel, {"event": "close"}, at)
            else:
                tape.feed(item.sender, item.channel, item.text if is_http(item.channel) else item.text + b"\n", at)
        tape.end_all(at)

    def _begun(self, at: int, transport: str, legacy: bool) -> Tape:
        kept: list[tuple[Frame, list[Entry]]] = []
        tape = Tape(lambda frame, entries: kept.append((frame, entries)), self._redactor, at)
        self._tapes.append((transport, kept, tape))
        return tape

    def _row(self, transport: str, tape: Tape) -> dict[str, Any]:
        begin, hidden = self._begin, self._redactor
        known = {name: value for name, value in _storable(begin.more).items() if value is not None}
        if "note" in known:
            known["note"] = hidden.text(known["note"])
        row = {"started_at": begin.started_at, "recorder": self._name, "transport": transport, **known}
        row |= {
            "target": hidden.target(_storable(begin.target)),
            "incomplete": "; ".join(filter(None, (self.why, tape.incomplete))),
        }
        return {name: value for name, value in row.items() if value not in (None, "")}


def _storable(value: Any) -> Any:
    """A value with half a surrogate pair replaced wherever it has one: neither UTF-8 nor SQLite can hold that."""
    if isinstance(value, Mapping):
        return {name: _storable(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(inner) for inner in value]
    return storable(value) if isinstance(value, str) else value
