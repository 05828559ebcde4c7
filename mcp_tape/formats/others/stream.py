"""The neutral stream that every importer yields, and the file that importers read.

A stream is a `Begin`, then `Said` and `Happened` in order, then perhaps another `Begin`. A `Lost` may occur anywhere.
Times are microseconds since the session began.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from ...errors import CassetteError
from ...wire import jsontext
from ...wire.channels import STDIO
from ...wire.frames import Side
from .times import microseconds

# Losses, as shown to people.
INVENTED = "times invented"
RESERIALISED = "text re-serialised"
NO_HANDSHAKE = "no handshake, one was invented"
_START = 4 << 20  # bytes within which a format must be recognizable
_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|\s+')


class Begin(NamedTuple):
    """The start of a session. `more`: other columns of its row."""

    started_at: str | None = None
    target: Mapping[str, Any] = {"command": []}
    more: Mapping[str, Any] = {}


class Said(NamedTuple):
    """Bytes from one side: a message on stdio, a body or a stream over HTTP."""

    at: int
    sender: Side
    text: bytes
    channel: str = STDIO


class Happened(NamedTuple):
    """An event without bytes: an HTTP request or response, the end of a channel."""

    at: int
    sender: Side
    channel: str
    facts: Mapping[str, Any]


class Lost(NamedTuple):
    """Something that a format cannot hold or, with `is_damage`, that is missing from this file."""

    what: str
    is_damage: bool = False


Item = Begin | Said | Happened | Lost


class Reader(NamedTuple):
    """A format: its name, whether a source looks like one, and its importer."""

    name: str
    fits: Callable[[Source], bool]
    read: Callable[[Source], Iterator[Item]]


class WrongError(CassetteError):
    """A file with the shape of a format, but not its content."""


class Row:
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

    def inner(self, *path: str | int) -> Row:
        """The object at a path, or an empty one."""
        value = self.get(*path)
        return Row(self.verbatim(*path).decode(), value) if isinstance(value, dict) else Row("{}", {})

    def said(self, at: float, sender: Side, *path: str) -> Said:
        """A message at a path: JSON, or a string with its verbatim text."""
        value = self.get(*path)
        text = line(value) if isinstance(value, str) else self.verbatim(*path)
        return Said(microseconds(at), sender, text)


class Source:
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
    def document(self) -> Row | None:
        """The file as one JSON object."""
        return row(self.text) if self.start.lstrip()[:1] == "{" and not self._is_lines else None

    @cached_property
    def array(self) -> list[Row]:
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
        """Whether more follows the object in the first line."""
        return bool(self.first) and next(islice(self._lines(), 1, None), None) is not None

    def _lines(self) -> Iterator[str]:
        """The lines that are not empty."""
        with open(self.path, "rb") as file:
            for number, data in enumerate(file):
                line = data.decode("utf-8", "replace")
                line = line.removeprefix("\ufeff") if number == 0 else line
                if line.strip():
                    yield line.removesuffix("\n")

    def beside(self, name: str) -> Row | None:
        """A document in the same directory."""
        try:
            with open(os.path.join(os.path.dirname(self.path), name), "rb") as file:
                return row(file.read().decode("utf-8", "replace"))
        except OSError:
            return None

    def rows(self) -> Iterator[Row | Lost]:
        """Its lines. A line that is not an object, as the last one after a kill, is a loss."""
        for line in self._lines():
            yield row(line) or cut_off()


def cut_off(why: str = "") -> Lost:
    return Lost(f"cut off: {why}" if why else "cut off", True)


def row(text: str) -> Row | None:
    try:
        value = jsontext.loads(text)
    except (ValueError, RecursionError):
        return None
    return Row(text, value) if isinstance(value, dict) else None


def is_json(text: str) -> bool:
    try:
        jsontext.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def rows_of(text: str) -> Iterator[Row]:
    """Yield each object of a JSON array."""
    for start, end in jsontext.element_spans(text):
        found = row(text[start:end])
        if found is not None:
            yield found


def rows_at(document: Row, name: str) -> Iterator[Row]:
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


def said_value(at: float, sender: Side, value: Any) -> Said:
    """A message that the file has only as a value, or that is invented."""
    return Said(microseconds(at), sender, jsontext.dumps(value).encode("utf-8", "replace"))


def command(*words: Any) -> dict[str, Any]:
    """The target of a server that was started by a command."""
    flat = [word for part in words for word in (part if isinstance(part, list) else [part])]
    return {"command": [word for word in flat if isinstance(word, str)]}


def in_order(items: Iterable[Said | Happened]) -> list[Said | Happened]:
    """Items by their times, for files that store pairs."""
    return sorted(items, key=lambda item: item.at)
