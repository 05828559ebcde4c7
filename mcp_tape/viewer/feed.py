"""A cassette as it grows: updates that continue one another, and the blocks of texts that they refer to.

Every look at the file makes at most one update. A page that has the first so many of them asks for those that follow,
so that a page that paused, or was opened later, misses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import orjson

from ..cassette import build
from ..cassette import file as database
from ..cassette.change.derive import hidden_keys
from ..cassette.pages import BEFORE_ALL
from ..cassette.query.filters import parse
from ..cassette.query.rows import ALL_PARTS, Row, derived_until, session_rows
from ..cassette.reader import Cassette
from ..cassette.text.read import kind_of
from ..wire import protocol
from .pack import Packer, head

_AT_ONCE = 20_000  # rows of an update
_WITHDRAWN = parse("kind:request status:cancelled")


class Feed:
    """What was read of a cassette so far. One look at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.generation = 0
        self._begin()

    def _begin(self) -> None:
        self._identity = database.identity(self.path)
        self._packer = Packer()
        self._seen: dict[int, tuple[int, int]] = {}  # frame and part of the last row of each session
        self._heads: dict[int, dict[str, Any]] = {}
        self._updates: list[bytes] = []
        self.blocks: list[bytes] = []
        self.generation += 1

    def since(self, number: int, generation: int) -> bytes:
        """Look at the file; return the updates from a number on, as JSON, and whether there is more already."""
        if database.identity(self.path) != self._identity:
            self._begin()  # another recording was put in its place
        if generation != self.generation:
            number = 0
        more = self._look() if number >= len(self._updates) else True
        found = self._updates[number : number + 1]
        facts = orjson.dumps({"generation": self.generation, "more": more and bool(found)})
        return facts[:-1] + b',"updates":[' + b",".join(found) + b"]}"

    def _look(self) -> bool:
        """Make an update of what is new. Return whether there may be more."""
        with Cassette(self.path) as cassette:
            # Whether a session has ended is read before its frames: then they are all there.
            heads = {session.id: head(session) for session in cassette.each_session()}
            if not database.may_be_recorded(cassette.connection):  # the recorder was killed
                heads = {number: facts | {"open": False} for number, facts in heads.items()}
            rows = list(islice(self._new(cassette, heads), _AT_ONCE))
            self.blocks += [*self._packer.pack(cassette, rows), *self._packer.rest()]
            withdrawn = self._withdrawn(cassette, rows)
        full = len(rows) == _AT_ONCE
        changed = [facts for number, facts in heads.items() if self._heads.get(number) != facts]
        if full:  # a session has not ended before its last row was seen
            changed = [facts | {"open": True} for facts in changed]
        self._heads |= {facts["id"]: facts for facts in changed}
        if rows or changed or not self._updates:
            facts = {"file": os.path.basename(self.path).encode("utf-8", "replace").decode(), "sessions": changed}
            self._updates.append(orjson.dumps(facts | self._packer.index() | {"withdrawn": withdrawn}))
        return full

    def _new(self, cassette: Cassette, heads: dict[int, dict[str, Any]]) -> Iterator[Row]:
        for session in heads:
            if session in self._seen and not self._heads.get(session, {}).get("open", True):
                continue
            until = derived_until(cassette, session)
            after, part = self._seen.get(session, (BEFORE_ALL, ALL_PARTS))
            for row in session_rows(cassette, session, after=after, part=part):
                if until is not None and row.seq >= until:
                    break
                self._seen[session] = row.seq, ALL_PARTS if row.part is None else row.part
                yield row
            self._seen.setdefault(session, (BEFORE_ALL, ALL_PARTS))

    def _withdrawn(self, cassette: Cassette, rows: list[Row]) -> list[tuple[int, int, int, int | None]]:
        """Requests that were cancelled, where one of these rows does so: they may have been read before."""
        numbers = {row.session for row in rows if row.method == protocol.CANCELLED}
        found = (row for number in sorted(numbers) for row in session_rows(cassette, number, _WITHDRAWN))
        return [(row.session, row.seq, row.part or 0, self._packer.word(row.status)) for row in found]


def save(path: str, to: str, wanted: dict[int, set[int]]) -> None:
    """Make a cassette of some frames of another."""
    with Cassette(path) as cassette, build.building(to, path) as builder:
        for session in cassette.each_session():
            if session.id not in wanted:
                continue
            builder.begin(session._asdict())
            keys = hidden_keys(cassette, session.id)
            for frame in cassette.frames(session.id):
                if frame.seq in wanted[session.id]:
                    whole = frame.head is None or bool(frame.eol)
                    builder.add(frame, kind_of(frame.kind, frame.channel, frame.text, whole)[1], keys.get(frame.seq))
