"""A new cassette made from sessions and frames. All derived rows are made as in recording."""

from __future__ import annotations

from contextlib import closing, contextmanager

from ..errors import CassetteError
from ..light import sqlite3
from ..wire import jsontext
from ..wire.channels import HTTP, STDIO, is_http
from ..wire.frames import Frame, FrameNumbers, Message
from ..wire.ledger import Ledger
from . import file as database
from .batch import SESSION, EnteredFrame
from .writer import Writer

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

_BATCH_FRAMES, _BATCH_BYTES = 1_000, 4 << 20
_COLUMNS = frozenset(SESSION) - {"key_version"}  # keys are made by this version
# Facts that frames may state. If they state one of a group, the whole group comes from them.
_GIVEN = (("protocol_version",), ("client_name", "client_version"), ("server_name", "server_version"))


class Builder:
    """Writes sessions, one after another, into a new cassette."""

    def __init__(self, path: str | None) -> None:
        """Without a path, the cassette is in memory: see `connection`."""
        self._writer = Writer(path)
        self._row: dict[str, Any] = {}
        self._open = False
        self._highest = 0  # session number so far
        self.frames = 0
        self.sessions: dict[int, int | None] = {}  # by number, the session that each one extends

    def begin(self, row: Mapping[str, Any]) -> None:
        """Begin the next session. Its frames provide what its row leaves out."""
        self.end()
        self._row = {name: value for name, value in row.items() if name in _COLUMNS}
        number = self._row.get("id", self._highest + 1)
        self._highest = max(self._highest, number)
        first = {name: self._row[name] for name in ("started_at", "target", "recorder")}
        self._writer.begin(first | {"id": number, "transport": STDIO})
        self._number, self._open = number, True
        self.sessions[number] = self._row.get("extends")
        self._ledger, self._numbers = Ledger(), FrameNumbers()
        self._entered: list[EnteredFrame] = []
        self._size = self._last = 0
        self._http = False

    def add_facts(self, row: Mapping[str, Any]) -> None:
        """Add facts about the open session that are known only after its frames."""
        self._row |= {name: value for name, value in row.items() if name in _COLUMNS}

    def add(self, frame: Frame, messages: list[Message], keys: Mapping[int, bytes] | None = None) -> None:
        """Add a frame, with the messages in its text. `keys`: of requests whose text no longer provides them.

        The frame keeps its number if that is free.
        """
        frame = frame._replace(seq=self._numbers.take(frame.sender, frame.channel, len(messages), frame.seq))
        entries = self._ledger.enter(frame, messages, frame.text)
        for part, key in keys.items() if keys else ():
            if 0 <= part < len(entries) and entries[part].key is not None:
                entries[part] = entries[part]._replace(key=key)
        self._entered.append((self._number, frame, entries))
        self._size += len(frame.text)
        self._last = max(self._last, frame.at)
        self._http = self._http or is_http(frame.channel)
        self.frames += 1
        if len(self._entered) >= _BATCH_FRAMES or self._size >= _BATCH_BYTES:
            self._flush()

    def unfounded_facts(self) -> set[str]:
        """Facts in the session's row that its frames could state but do not."""
        return {name for group in _GIVEN for name in group if self._row.get(name) and name not in self._ledger.facts}

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            del self._row[name]

    def end(self) -> None:
        """Close the session. Facts that its frames state override its row."""
        if not self._open:
            return
        self._flush()
        self._open = False
        given = {name: database.storable_text(value) for name, value in self._ledger.facts.items()}
        theirs = {name for group in _GIVEN if not given.keys().isdisjoint(group) for name in group}
        self.forget(self.unfounded_facts() & theirs)
        row = {"transport": HTTP if self._http else STDIO} | self._row
        if "ended_at" not in row:
            row["ended_at"] = self._end_time()
        if not isinstance(row["target"], str):  # text is stored unchanged, so that it comes back unchanged
            row["target"] = jsontext.dumps(row["target"])
        self._writer.finish(self._number, row | given)

    @property
    def connection(self) -> sqlite3.Connection:
        return self._writer.connection

    def close(self) -> None:
        self._writer.close()

    def _flush(self) -> None:
        if self._entered:
            self._writer.append(self._entered, {})
        self._entered, self._size = [], 0

    def _end_time(self) -> str:
        """The time of the last frame, for formats that do not state the end."""
        from datetime import timedelta

        from ..wire.times import read_time

        try:
            if started := read_time(self._row["started_at"]):
                return (started + timedelta(microseconds=self._last)).isoformat().replace("+00:00", "Z")
        except OverflowError:
            pass
        return str(self._row["started_at"])


@contextmanager
def build_cassette(path: str, name: str) -> Iterator[Builder]:
    """Make a new file, complete on exit. After a failure, the caller removes it. `name`: for errors."""
    try:
        with closing(Builder(path)) as builder:
            yield builder
            builder.end()
    except sqlite3.Error as error:
        raise CassetteError(f"cannot write {name}: {error}") from None
