"""Files of others, read as cassettes: every importer yields one neutral stream, and one function stores it.

An importer is a module with `sniff(head, path)`, which returns whether the first bytes of a file are of its kind, and
`read(path)`, a generator of `Began`, `Said` and `Lost`. It knows nothing of cassettes. `IMPORTERS` names them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..cassette.text.read import kind_of
from ..errors import CassetteError
from ..wire.channels import PIPES, STDIO
from ..wire.frames import Frame, Side

if TYPE_CHECKING:
    from ..cassette.build import Builder


class Began(NamedTuple):
    """A session begins. Facts are columns of `sessions`: started_at, target, transport, note, label …"""

    facts: dict[str, Any]


class Said(NamedTuple):
    """A frame: what crossed the wire, as far as it is known."""

    sender: Side
    text: bytes
    at: int | None = None  # microseconds since the session began; None: as the frame before
    channel: str = STDIO
    kind: str | None = None  # "control" or "stderr"; else the text decides
    eol: bytes | None = None  # None: a newline on a pipe, nothing elsewhere
    head: bytes | None = None  # what preceded the text, as fields of an event do


class Lost(NamedTuple):
    """Something that the form has no place for, in words that end a sentence: "times"."""

    what: str


Item = Began | Said | Lost


class Importer(Protocol):
    """A module that reads files of one kind."""

    def sniff(self, head: bytes, path: str) -> bool: ...
    def read(self, path: str) -> Iterator[Item]: ...


# By the name that users know, the module below `mcp_tape.formats`; the first that sniffs a file reads it.
IMPORTERS: dict[str, str] = {}


def load(path: str, head: bytes, builder: Builder, defaults: dict[str, Any]) -> list[str]:
    """Read a file of a known kind into a cassette; what was lost. Of an unknown one, CassetteError says what was tried.

    Called by `cassette.text.opening` for every file that is neither SQLite nor JSON lines.
    """
    for module in IMPORTERS.values():
        importer: Importer = import_module(f"{__package__}.{module}")
        if importer.sniff(head, path):
            return store(importer.read(path), builder, defaults)
    tried = ", ".join(("a cassette", "JSON lines of mcp-tape", *IMPORTERS))
    raise CassetteError(f"{path} is not a cassette, and was left alone. It is none of: {tried}")


def store(items: Iterable[Item], builder: Builder, defaults: dict[str, Any]) -> list[str]:
    """Store a neutral stream; what was lost, each thing once."""
    lost: list[str] = []
    at = seq = 0
    for item in items:
        if isinstance(item, Lost):
            lost += [item.what] if item.what not in lost else []
        elif isinstance(item, Began):
            builder.begin({**defaults, **item.facts})
            at = seq = 0
        else:
            if not builder.sessions:
                builder.begin(defaults)
            at, seq = at if item.at is None else item.at, seq + 1
            builder.add(*_frame(item, seq, at))
    return lost


def _frame(said: Said, seq: int, at: int) -> tuple[Frame, Any]:
    is_line = said.channel in PIPES and said.kind != "control"
    eol = said.eol if said.eol is not None else b"\n" if is_line else b""
    kind, messages = kind_of(said.kind, said.channel, said.text, whole=said.head is None or bool(eol))
    return Frame(seq, at, said.sender, said.channel, kind, said.text, eol, said.head, 0), messages
