"""Growing cassettes: a sequence of updates, and the blocks of texts that they refer to.

Each look at the files makes at most one update. A page with the first N updates asks for the next ones, so a page that
paused or was opened later misses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import Any

import orjson

from ..cassette import build
from ..cassette import file as database
from ..cassette.change.derive import hidden_keys
from ..cassette.pages import BEFORE_ALL
from ..cassette.query.filters import parse
from ..cassette.query.timeline import ALL_PARTS, TimelineRow, first_underived, last_seq, session_rows
from ..cassette.reader import Cassette
from ..cassette.text.read import kind_of
from ..compare.versions import compare, version_of_sessions
from ..wire import protocol
from .pack import Packer, encodable
from .page import render_comparison
from .tapes import SessionNumbers, findings

_FIRST, _AT_ONCE = 2_000, 20_000  # rows of the first update, soon on the screen, and of each other
_WITHDRAWN = parse("kind:request status:cancelled")
Withdrawn = tuple[int, int, int, int | None]  # session, frame, part, and the word for it


class Feed:
    """The state of cassettes as read so far. One look at a time."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self.generation = 0
        self._begin()

    def _begin(self) -> None:
        self._identities = self._read_identities()
        self._packer, self.numbers = Packer(), SessionNumbers(len(self.paths) > 1)
        self._seen: dict[int, tuple[int, int]] = {}  # frame and part of the last row of each session
        self._heads: dict[int, dict[str, Any]] = {}
        self._updates: list[bytes] = []
        self._total = 0  # rows to expect, once there are more than one update can hold
        self.blocks: list[bytes] = []
        self.generation += 1

    def _read_identities(self) -> list[Any]:
        return [database.identity(path) for path in self.paths]

    def update_after(self, number: int, generation: int) -> bytes:
        """Look at the files; return the update after this number, below a line that describes it."""
        if self._read_identities() != self._identities:
            self._begin()  # another recording took its place
        if generation != self.generation:
            number = 0
        more = self._look() if number >= len(self._updates) else True
        found = self._updates[number : number + 1]
        more, facts = more and bool(found), {"generation": self.generation, "updates": len(found)}
        facts |= {"more": more, "total": self._total}
        return orjson.dumps(facts) + b"\n" + b"".join(found)

    def findings(self) -> bytes:
        """All findings in the sessions read so far."""
        found: list[dict[str, Any]] = []
        for place, path in enumerate(self.paths):
            with Cassette(path) as cassette:
                here = [one.id for one in cassette.each_session() if self.numbers.knows(place, one.id)]
                found += findings(cassette, here, partial(self.numbers.of, place))
        return orjson.dumps(found)

    def comparison_page(self, old: int, new: int) -> bytes:
        """The page that compares two sessions."""
        sides = [self.numbers.origin(number) for number in (old, new)]
        with ExitStack() as stack:
            opened = [(stack.enter_context(Cassette(self.paths[place])), session) for place, session in sides]
            before, after = (version_of_sessions(cassette, [session]) for cassette, session in opened)
            return b"".join(render_comparison(compare(before, after), before, after))

    def _look(self) -> bool:
        """Make an update of new rows. Return whether there may be more."""
        most = _AT_ONCE if self._updates else _FIRST
        changed, withdrawn, left = list[dict[str, Any]](), list[Withdrawn](), most
        for place, path in enumerate(self.paths):
            with Cassette(path) as cassette:
                heads = self._heads_of(place, cassette)
                rows = list(islice(self._new(cassette, heads), left))
                self.blocks += self._packer.pack(cassette, rows, partial(self.numbers.of, place))
                withdrawn += self._withdrawn_requests(cassette, rows, place)
            left -= len(rows)
            mine = [facts for number, facts in heads.items() if self._heads.get(number) != facts]
            # A session stays open until its last row was seen.
            changed += [facts | {"open": True} for facts in mine] if left == 0 else mine
            self._heads |= {facts["id"]: facts for facts in changed}
        self.blocks += self._packer.rest()
        if left == 0:
            self._total = sum(map(_newest, self.paths))
        if left < most or changed or not self._updates:
            files = [encodable(os.path.basename(path)) for path in self.paths]
            self._updates.append(self._packer.index(files=files, sessions=changed, withdrawn=withdrawn))
        return left == 0

    def _heads_of(self, place: int, cassette: Cassette) -> dict[int, dict[str, Any]]:
        """The sessions of a cassette, by their numbers on the page.

        Whether a session has ended is read before its frames, so that an ended one has all of them.
        """
        name = os.path.basename(self.paths[place])
        heads = [self.numbers.head(place, session, name) for session in cassette.each_session()]
        if not database.may_be_recorded(cassette.connection):  # the recorder was killed
            heads = [facts | {"open": False} for facts in heads]
        return {facts["id"]: facts for facts in heads}

    def _new(self, cassette: Cassette, heads: dict[int, dict[str, Any]]) -> Iterator[TimelineRow]:
        for number, facts in heads.items():
            if number in self._seen and not self._heads.get(number, {}).get("open", True):
                continue
            until = first_underived(cassette, facts["number"])
            after, part = self._seen.get(number, (BEFORE_ALL, ALL_PARTS))
            for row in session_rows(cassette, facts["number"], after=after, part=part):
                if until is not None and row.seq >= until:
                    break
                self._seen[number] = row.seq, ALL_PARTS if row.part is None else row.part
                yield row
            self._seen.setdefault(number, (BEFORE_ALL, ALL_PARTS))

    def _withdrawn_requests(self, cassette: Cassette, rows: list[TimelineRow], place: int) -> list[Withdrawn]:
        """Requests cancelled by one of these rows, whose own rows may have been read before."""
        numbers = {row.session for row in rows if row.method == protocol.CANCELLED}
        found = (row for number in sorted(numbers) for row in session_rows(cassette, number, _WITHDRAWN))
        word, number_of = self._packer.word, self.numbers.of
        return [(number_of(place, row.session), row.seq, row.part or 0, word(row.status)) for row in found]


def _newest(path: str) -> int:
    """The number of messages, by the last one of each session: counting them takes long."""
    with Cassette(path) as cassette:
        return sum(last_seq(cassette, session.id) for session in cassette.each_session())


def save(paths: Sequence[str], to: str, wanted: Mapping[int, set[int]], numbers: SessionNumbers) -> None:
    """Make a cassette of some frames of others. Sessions have their numbers from the page."""
    with build.build_cassette(to, paths[0]) as builder:
        for place, path in enumerate(paths):
            with Cassette(path) as cassette:
                for session in cassette.each_session():
                    number = numbers.of(place, session.id)
                    if number in wanted:
                        base = None if session.extends is None else numbers.of(place, session.extends)
                        builder.begin(session._asdict() | {"id": number, "extends": base})
                        _copy(cassette, session.id, wanted[number], builder)


def _copy(cassette: Cassette, session: int, wanted: set[int], builder: build.Builder) -> None:
    keys = hidden_keys(cassette, session)
    for frame in cassette.frames(session):
        if frame.seq in wanted:
            whole = frame.head is None or bool(frame.eol)
            builder.add(frame, kind_of(frame.kind, frame.channel, frame.text, whole)[1], keys.get(frame.seq))
