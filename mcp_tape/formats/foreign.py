"""Recordings of other tools: the stream that a reader yields, and its way onto a cassette.

A stream is a `SessionStart`, then `SentBytes` and `HttpEvent` in order, then perhaps another `SessionStart`. A `Loss`
may occur anywhere. Times are microseconds since the session began. All of it is framed, redacted, paired and keyed as
if it crossed the wire now. The session stores its losses as the reason why it is incomplete.

The core finds `Readers` by entry points: see docs/extending.md.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cassette.file import storable_text
from ..cassette.query.integrity import IMPORTED
from ..errors import CassetteError
from ..record.http_sessions import Sessions
from ..record.tape import Tape
from ..redaction.diagnostics import Rules, redactor
from ..wire import jsontext
from ..wire.channels import STDIO, is_http
from ..wire.frames import Frame, LedgerEntry, Side, parse
from ..wire.times import read_time

if TYPE_CHECKING:
    from ..cassette.build import Builder
    from ..redaction.redactor import Redactor

    Load = Callable[[Builder, Mapping[str, Any]], Sequence[str]]

# Losses, as shown to people.
INVENTED = "times invented"
RESERIALISED = "text re-serialised"
NO_HANDSHAKE = "no handshake, one was invented"
_MOST = 1 << 30  # bytes: the limit of a frame on a cassette
_START = 4 << 20  # bytes within which a format must be recognizable
_LATEST = 1 << 52  # later times are nonsense
_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|\s+')


class SessionStart(NamedTuple):
    """The start of a session. `more`: other columns of its row."""

    started_at: str | None = None
    target: Mapping[str, Any] = {"command": []}
    more: Mapping[str, Any] = {}


class SentBytes(NamedTuple):
    """Bytes from one side: a message on stdio, a body or a stream over HTTP."""

    at: int
    sender: Side
    text: bytes
    channel: str = STDIO


class HttpEvent(NamedTuple):
    """An event without bytes: an HTTP request or response, the end of a channel."""

    at: int
    sender: Side
    channel: str
    facts: Mapping[str, Any]


class Loss(NamedTuple):
    """Something that a format cannot hold or, with `is_damage`, that is missing from this file."""

    what: str
    is_damage: bool = False


Item = SessionStart | SentBytes | HttpEvent | Loss


class Reader(NamedTuple):
    """A format: its name, whether a source looks like one, and its importer.

    `is_redacted`: False for a format that people write to be played as it is.
    """

    name: str
    fits: Callable[[SourceFile], bool]
    read: Callable[[SourceFile], Iterator[Item]]
    is_redacted: bool = True


class WrongError(CassetteError):
    """A file with the shape of a format, but not its content."""


class JsonRow:
    """A JSON object in a file, and its text, from which parts are taken verbatim."""

    def __init__(self, text: str, value: dict[str, Any]) -> None:
        self.text = text
        self.value = value

    def get(self, *path: str | int) -> Any:
        value: Any = self.value
        for step in path:
            value = value.get(step) if isinstance(value, dict) and isinstance(step, str) else None
        return value

    def verbatim(self, *path: str | int) -> bytes:
        """The JSON text at a path, on one line: numbers, escapes and the order of keys stay."""
        span = jsontext.find(self.text, path)
        return on_one_line(self.text[slice(*span)]) if span else b""

    def inner(self, *path: str | int) -> JsonRow:
        """The object at a path, or an empty one."""
        value = self.get(*path)
        return JsonRow(self.verbatim(*path).decode(), value) if isinstance(value, dict) else JsonRow("{}", {})

    def sent_bytes(self, at: float, sender: Side, *path: str) -> SentBytes:
        """A message at a path: JSON, or a string with its verbatim text."""
        value = self.get(*path)
        text = line(value) if isinstance(value, str) else self.verbatim(*path)
        return SentBytes(microseconds(at), sender, text)


class SourceFile:
    """A file to import, read only as far as its format needs."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def text(self) -> str:
        with open(self.path, "rb") as file:
            return file.read().decode("utf-8", "replace").removeprefix("\ufeff")

    @cached_property
    def start(self) -> str:
        """The beginning of the file."""
        with open(self.path, "rb") as file:
            return file.read(_START).decode("utf-8", "replace").removeprefix("\ufeff")

    @cached_property
    def document(self) -> JsonRow | None:
        """The file as one JSON object."""
        return row(self.text) if self.start.lstrip()[:1] == "{" and not self._is_lines else None

    @cached_property
    def array(self) -> list[JsonRow]:
        """The file as one JSON array of objects."""
        return list(rows_of(self.text)) if self.start.lstrip()[:1] == "[" and is_json(self.text) else []

    @cached_property
    def first(self) -> Mapping[str, Any]:
        """The first line, if it is an object, else an empty mapping."""
        line = next(self._lines(), "").strip()
        found = row(line) if line.startswith("{") else None
        return found.value if found else {}

    @cached_property
    def _is_lines(self) -> bool:
        """Return whether more follows the object in the first line."""
        return bool(self.first) and next(islice(self._lines(), 1, None), None) is not None

    def _lines(self) -> Iterator[str]:
        """The lines that are not empty."""
        with open(self.path, "rb") as file:
            for number, data in enumerate(file):
                line = data.decode("utf-8", "replace")
                line = line.removeprefix("\ufeff") if number == 0 else line
                if line.strip():
                    yield line.removesuffix("\n")

    def document_beside(self, name: str) -> JsonRow | None:
        """A document in the same directory."""
        try:
            with open(os.path.join(os.path.dirname(self.path), name), "rb") as file:
                return row(file.read().decode("utf-8", "replace"))
        except OSError:
            return None

    def rows(self) -> Iterator[JsonRow | Loss]:
        """Its lines. A line that is not an object, as the last one after a kill, is a loss."""
        for line in self._lines():
            yield row(line) or cut_off_loss()


def cut_off_loss(why: str = "") -> Loss:
    return Loss(f"cut off: {why}" if why else "cut off", True)


def row(text: str) -> JsonRow | None:
    try:
        value = jsontext.loads(text)
    except (ValueError, RecursionError):
        return None
    return JsonRow(text, value) if isinstance(value, dict) else None


def is_json(text: str) -> bool:
    try:
        jsontext.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def rows_of(text: str) -> Iterator[JsonRow]:
    """Yield each object of a JSON array."""
    for start, end in jsontext.element_spans(text):
        found = row(text[start:end])
        if found is not None:
            yield found


def rows_at(document: JsonRow, name: str) -> Iterator[JsonRow]:
    span = jsontext.find(document.text, (name,))
    if span is not None and isinstance(document.get(name), list):
        yield from rows_of(document.text[slice(*span)])


def on_one_line(text: str) -> bytes:
    """JSON text without the white space between its tokens."""
    if "\n" in text or "\r" in text or '": ' in text:
        text = _SPACE.sub(lambda found: found[0] if found[0][0] == '"' else "", text)
    return text.encode("utf-8", "replace")


def line(text: str) -> bytes:
    """A text as one line of stdio."""
    return text.rstrip("\r\n").replace("\n", " ").encode("utf-8", "replace")


def sent_value(at: float, sender: Side, value: Any) -> SentBytes:
    """A message that the file has only as a value, or that is invented."""
    return SentBytes(microseconds(at), sender, jsontext.dumps(value).encode("utf-8", "replace"))


def command(*words: Any) -> dict[str, Any]:
    """The target of a server that was started by a command."""
    flat = [word for part in words for word in (part if isinstance(part, list) else [part])]
    return {"command": [word for word in flat if isinstance(word, str)]}


def sort_by_time(items: Iterable[SentBytes | HttpEvent]) -> list[SentBytes | HttpEvent]:
    """Items by their times, for files that store pairs."""
    return sorted(items, key=lambda item: item.at)


def microseconds(value: Any) -> int:
    """A time in microseconds; 0 for an invalid value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LATEST:
        return 0
    return int(value)


# Onto a cassette ------------------------------------------------------------------------------------------------------


class Readers:
    """The formats of a package: an entry point of the group `mcp_tape.readers` names one of these."""

    def __init__(self, *readers: Reader) -> None:
        """`readers` are tried in this order."""
        self._readers = readers

    @property
    def names(self) -> list[str]:
        """The names of the formats."""
        return [one.name for one in self._readers]

    def find(self, path: str) -> Load | None:
        """Return the function that loads a file into a cassette and returns the losses; None if no format matches."""
        if os.path.getsize(path) > _MOST:
            raise CassetteError(f"{path} is not a cassette, and too large to be the recording of another tool")
        source = SourceFile(path)
        reader = next((one for one in self._readers if one.fits(source)), None)
        return reader and partial(_load, reader, source)


def _load(reader: Reader, source: SourceFile, builder: Builder, defaults: Mapping[str, Any]) -> Sequence[str]:
    lost = [part.why for part in _sessions(reader, source, builder, defaults)]
    if not lost:
        raise CassetteError(f"{source.path} looks like a recording of {reader.name}, but holds no message")
    return list(dict.fromkeys(filter(None, lost)))


def _sessions(
    reader: Reader, source: SourceFile, builder: Builder, defaults: Mapping[str, Any]
) -> Iterator[_ImportedPart]:
    """The sessions of a file, each once it is on the cassette. Losses before the first session apply to all."""
    hidden = redactor(Rules(environ=os.environ), most_seen=sys.maxsize) if reader.is_redacted else None
    of_all: list[Loss] = []
    part: _ImportedPart | None = None
    for item in reader.read(source):
        if isinstance(item, SessionStart):
            if part is not None and part.end():
                yield part
            part = _ImportedPart(reader.name, item, hidden, of_all, builder, defaults)
        elif isinstance(item, Loss):
            (of_all if part is None else part.lost).append(item)
        elif part is not None:
            part.play(item)
    if part is not None and part.end():
        yield part


class _ImportedPart:
    """The items after one `SessionStart`: one session or, over HTTP, one for each client.

    A stdio session goes onto the cassette frame by frame. HTTP sessions are mixed in their file, and kept until its
    end.
    """

    def __init__(
        self,
        name: str,
        begin: SessionStart,
        hidden: Redactor | None,
        lost: list[Loss],
        builder: Builder,
        defaults: Mapping[str, Any],
    ) -> None:
        self.lost = list(lost)
        self._name = name
        self._begin = begin
        self._redactor = hidden
        self._builder, self._defaults = builder, defaults
        self._player: Tape | Sessions | None = None
        self._at = 0
        self._tape: Tape | None = None  # the tape whose frames are on the cassette, once there is one
        self._tapes: list[tuple[str, list[tuple[Frame, list[LedgerEntry]]], Tape]] = []

    @property
    def why(self) -> str:
        """Why it is incomplete, in words: first the limits of its format, then the losses of this file."""
        lost = list(dict.fromkeys(self.lost))
        missing = ", ".join(one.what for one in lost if not one.is_damage)
        damage = [one.what for one in lost if one.is_damage]
        return "; ".join([f"{IMPORTED}{self._name}" + (f": {missing}" if missing else ""), *damage]) if lost else ""

    def play(self, item: SentBytes | HttpEvent) -> None:
        """Add an item. The first one decides whether all of it was over HTTP."""
        if self._player is None:
            self._player = Sessions(self._keeping_tape) if is_http(item.channel) else self._writing_tape()
        tape, at = self._player, max(self._at, item.at)
        self._at = at
        if isinstance(item, HttpEvent):
            tape.control(item.sender, item.channel, dict(item.facts), at)
        elif is_http(item.channel) and not item.text:
            tape.end(item.sender, item.channel, at)
            tape.control(item.sender, item.channel, {"event": "close"}, at)
        else:
            tape.feed(item.sender, item.channel, item.text if is_http(item.channel) else item.text + b"\n", at)

    def end(self) -> bool:
        """Write the rest onto the cassette; return whether there was anything."""
        if self._player is None:
            return False
        self._player.end_all(self._at)
        if self._tape is not None:
            self._builder.add_facts(self._row(STDIO, self._tape))
        for transport, kept, tape in self._tapes:
            if kept:
                self._builder.begin(dict(self._defaults) | self._row(transport, tape))
                for frame, entries in kept:
                    self._add(frame, entries)
        return True

    def _writing_tape(self) -> Tape:
        """A tape that writes its frames at once."""

        def add(frame: Frame, entries: list[LedgerEntry]) -> None:
            if self._tape is None:
                self._tape = tape
                self._builder.begin(dict(self._defaults) | self._row(STDIO, tape))
            self._add(frame, entries)

        tape = Tape(add, self._redactor)
        return tape

    def _keeping_tape(self, at: int, transport: str, legacy: bool) -> Tape:
        """A tape that keeps its frames until the others are known."""
        kept: list[tuple[Frame, list[LedgerEntry]]] = []
        tape = Tape(lambda frame, entries: kept.append((frame, entries)), self._redactor, at)
        self._tapes.append((transport, kept, tape))
        return tape

    def _add(self, frame: Frame, entries: list[LedgerEntry]) -> None:
        messages = parse(frame.text)[1] if frame.kind in ("message", "batch") else []
        keys = {part: entry.key for part, entry in enumerate(entries) if entry.key and frame.redactions}
        self._builder.add(frame, messages, keys)

    def _row(self, transport: str, tape: Tape) -> dict[str, Any]:
        begin, hidden = self._begin, self._redactor
        known = {name: value for name, value in _storable(begin.more).items() if value is not None}
        target = _storable(begin.target)
        if hidden is not None:
            target = hidden.target(target)
            if "note" in known:
                known["note"] = hidden.text(known["note"])
        row = {"started_at": begin.started_at, "recorder": self._name, "transport": transport, **known}
        row |= {
            "target": target,
            "incomplete": "; ".join(filter(None, (self.why, tape.incomplete))),
        }
        return {name: value for name, value in row.items() if value not in (None, "")}


def _storable(value: Any) -> Any:
    """A value with lone surrogates replaced: neither UTF-8 nor SQLite can store them."""
    if isinstance(value, Mapping):
        return {name: _storable(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(inner) for inner in value]
    return storable_text(value) if isinstance(value, str) else value


# -- times as other tools write them, in microseconds


def milliseconds(value: Any) -> int:
    return microseconds(value * 1000 if isinstance(value, (int, float)) else None)


class Clock:
    """Times of a file, in ISO 8601 or seconds since 1970, as microseconds since the first of them."""

    def __init__(self, start: Any = None) -> None:
        self._start = moment(start)

    @property
    def started_at(self) -> str | None:
        return None if self._start is None else iso(self._start)

    def at(self, value: Any) -> int:
        when = moment(value)
        if when is None:
            return 0
        if self._start is None:
            self._start = when
        return microseconds((when - self._start) * 1e6)


def moment(value: Any) -> float | None:
    """A time in either form as seconds since 1970."""
    if isinstance(value, str):
        found = read_time(value)
        return None if found is None else found.timestamp()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e14:
        return None
    return value / 1000 if value > 1e11 else float(value)  # milliseconds, as in JavaScript


def iso(seconds: float) -> str | None:
    try:
        found = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")
