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
    for part in _sessions(reader, source, builder, defaults):
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
    return Source(path)


def _reader(source: Source) -> Reader | None:
    return next((one for one in readers() if one.fits(source)), None)


def readers() -> Iterator[Reader]:
    """Every format, in the order in which they are tried."""
    for name in _MODULES:
        yield from import_module(f"mcp_tape.formats.others.{name}").READERS


def _sessions(reader: Reader, source: Source, builder: Builder, defaults: Mapping[str, Any]) -> Iterator[_Part]:
    """The sessions of a file, each once it is on the cassette; what is lost before the first is lost of each."""
    hidden = redactor(Rules(environ=os.environ), most_seen=sys.maxsize)
    of_all: list[Lost] = []
    part: _Part | None = None
    for item in reader.read(source):
        if isinstance(item, Begin):
            if part is not None and part.end():
                yield part
            part = _Part(reader.name, item, hidden, of_all, builder, defaults)
        elif isinstance(item, Lost):
            (of_all if part is None else part.lost).append(item)
        elif part is not None:
            part.play(item)
    if part is not None and part.end():
        yield part


class _Part:
    """What follows one `Begin`: a session, or over HTTP as many as its clients had.

    That of stdio goes onto the cassette frame by frame. Those of HTTP are mixed in their file, and kept until its end.
    """

    def __init__(
        self, name: str, begin: Begin, hidden: Redactor, lost: list[Lost], builder: Builder, defaults: Mapping[str, Any]
    ) -> None:
        self.lost = list(lost)
        self._name = name
        self._begin = begin
        self._redactor = hidden
        self._builder, self._defaults = builder, defaults
        self._player: Tape | Sessions | None = None
        self._at = 0
        self._tape: Tape | None = None  # whose frames are on the cassette, once there is one
        self._tapes: list[tuple[str, list[tuple[Frame, list[Entry]]], Tape]] = []

    @property
    def why(self) -> str:
        """Why it is not whole, in words: what its format cannot hold, and then what it should have."""
        lost = list(dict.fromkeys(self.lost))
        missing = ", ".join(one.what for one in lost if not one.is_damage)
        damage = [one.what for one in lost if one.is_damage]
        return "; ".join([f"{IMPORTED}{self._name}" + (f": {missing}" if missing else ""), *damage]) if lost else ""

    def play(self, item: Said | Happened) -> None:
        """Take what comes next; its first item says whether all of it was over HTTP."""
        if self._player is None:
            self._player = Sessions(self._kept) if is_http(item.channel) else self._written()
        tape, at = self._player, max(self._at, item.at)
        self._at = at
        if isinstance(item, Happened):
            tape.control(item.sender, item.channel, dict(item.facts), at)
        elif is_http(item.channel) and not item.text:
            tape.end(item.sender, item.channel, at)
            tape.control(item.sender, item.channel, {"event": "close"}, at)
        else:
            tape.feed(item.sender, item.channel, item.text if is_http(item.channel) else item.text + b"\n", at)

    def end(self) -> bool:
        """Put the rest of it onto the cassette; return whether there was anything."""
        if self._player is None:
            return False
        self._player.end_all(self._at)
        if self._tape is not None:
            self._builder.say(self._row(STDIO, self._tape))
        for transport, kept, tape in self._tapes:
            if kept:
                self._builder.begin(dict(self._defaults) | self._row(transport, tape))
                for frame, entries in kept:
                    self._add(frame, entries)
        return True

    def _written(self) -> Tape:
        """A tape whose frames go onto the cassette at once."""

        def add(frame: Frame, entries: list[Entry]) -> None:
            if self._tape is None:
                self._tape = tape
                self._builder.begin(dict(self._defaults) | self._row(STDIO, tape))
            self._add(frame, entries)

        tape = Tape(add, self._redactor)
        return tape

    def _kept(self, at: int, transport: str, legacy: bool) -> Tape:
        """A tape whose frames are kept until the others are known."""
        kept: list[tuple[Frame, list[Entry]]] = []
        tape = Tape(lambda frame, entries: kept.append((frame, entries)), self._redactor, at)
        self._tapes.append((transport, kept, tape))
        return tape

    def _add(self, frame: Frame, entries: list[Entry]) -> None:
        messages = parse(frame.text)[1] if frame.kind in ("message", "batch") else []
        keys = {part: entry.key for part, entry in enumerate(entries) if entry.key and frame.redactions}
        self._builder.add(frame, messages, keys)

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
