"""Finds the recorded request that answers a live one, each in its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Literal

from ..wire import match, protocol
from ..wire.frames import Message
from ..wire.match import Rule
from .ahead import Plain
from .selection import Position, Recorded, Selection

Repeats = Literal["error", "last", "cycle"]


_Turns = dict[Position | None, Recorded | None]  # the requests of a key: behind each place, and before all, the next

Compare = Callable[[Any, Any], str | None]  # of a recorded and a live message: how they differ, None if they do not


_TOLD = "method = ? AND +sender = 'server' AND +seq > ? AND +seq < ? ORDER BY frame DESC, part DESC"


# A request that was found: where, whether for the first time, its key, and how far that was played before.
_Turn = tuple[Position, bool, bytes | None, Position | None]


class Finder:
    """Per key, recorded requests are found in recorded order. Where there are `rules`, those decide instead."""

    def __init__(
        self,
        selection: Selection,
        counts: Rule | None = None,
        repeats: Repeats = "error",
        rules: Sequence[Compare] = (),
    ) -> None:
        self._selection = selection
        self.counts = counts
        self._repeats = repeats
        self._rules = rules
        self._rounds = count()
        self._keys_are_made_anew = counts is not None or selection.stale or bool(rules)
        self._last: dict[bytes, Position] = {}  # per key, how far it was played
        self._turn: _Turn | None = None  # that was taken last
        self._given_back: set[Position] = set()
        self._early: set[Position] = set()  # requests that were asked for before their time
        self._has_come: Callable[[Recorded], bool] = lambda row: True
        self._note: Callable[[str], None] = lambda text: None
        self._indexes: dict[str, dict[bytes, _Turns]] = {}  # by method, where stored keys do not serve
        self._hidden: dict[str, list[Recorded]] = {}  # by method, the recorded requests with redactions

    def listen(self, has_come: Callable[[Recorded], bool], note: Callable[[str], None]) -> None:
        """Learn whether a message of the server has come to the client, and whom to tell what people should know."""
        self._has_come, self._note = has_come, note

    @property
    def taken(self) -> set[Position]:
        """The requests that were played."""
        return self._selection.taken

    def find(self, message: Message, text: bytes, part: int) -> tuple[Recorded | None, bool]:
        """The recorded request, and whether it was found before and is only repeated."""
        method, self._turn = message.method or "", None
        if self._rules:
            return self._find_by_rules(method, message.body)
        params = match.exact_params(message, text, part)
        key = self._key(method, params)
        last = self._last.get(key)
        found = self._next(key, method, last) or self._redacted(method, params)
        if found is not None and last is not None and self._is_early(method, last, found):
            return self._selection.at(last), True
        if found is None and last is not None and self._repeats == "cycle":
            self._selection.ahead.leave_out(key)
            found = self._next(key, method, None)
        if found is not None:
            return found, self._take(key, found.place)
        if last is not None and (self._repeats == "last" or protocol.is_housekeeping(method)):
            return self._selection.at(last), True
        if last is None and method in (protocol.INITIALIZE, protocol.DISCOVER):
            return self._greeting(method), True
        return None, False

    def _is_early(self, method: str, last: Position, found: Recorded) -> bool:
        """Whether a request was made again only because the server had said that the answer changed.

        Until it says so this time, the answer before is the right one.
        """
        change = protocol.CHANGED_BY.get(method)
        if change is None or found.session != last[0]:
            return False
        told = self._selection.rows(found.session, _TOLD, change, last[1], found.seq)
        newest = next((row for row in told if found.name in (None, self._uri(row))), None)
        if newest is None or self._has_come(newest):
            return False
        if found.place not in self._early:
            self._early.add(found.place)
            name = " ".join(filter(None, (method, found.name)))
            self._note(f"{name} was asked for once more before {change}: the answer before that is repeated")
        return True

    def _uri(self, row: Recorded) -> object:
        """The resource that was updated."""
        return protocol.member(self._selection.message(row).body.get("params"), "uri")

    def _greeting(self, method: str) -> Recorded | None:
        """From another session; but one that speaks for another era than the tape's would mislead about it."""
        found = self._selection.newest(method)
        if method == protocol.INITIALIZE and self._selection.is_modern(self._selection.sessions[0]):
            return None
        if found is None or method != protocol.DISCOVER or not self._selection.is_legacy(self._selection.sessions[0]):
            return found
        answer = self._selection.answer(found)
        return found if answer is not None and answer.status in ("error", "refused") else None

    def plain(self, text: bytes) -> tuple[str, Plain] | None:
        """The same by its bytes alone, without parsing, for an exchange that is only a request and its answer:

        the live id and the exchange. Nothing found means nothing.
        """
        same = self._selection.ahead.same_text(text)
        if same is None:
            return None
        found = self._next_plain(same[0].key)
        return None if found is None else (same[1], found)

    def plain_of(self, message: Message, text: bytes) -> Plain | None:
        """The same for a request that was parsed, by its key."""
        method = message.method or ""
        return self._next_plain(self._key(method, match.exact_params(message, text)))

    def _next_plain(self, key: bytes) -> Plain | None:
        if self._keys_are_made_anew:
            return None
        session = self._selection.sessions[0]
        last = self._last.get(key, (session, 0, 0))
        found = self._selection.ahead.next_plain(key, last[1:]) if last[0] == session else None
        if found is not None:  # it is its turn, and nobody gives it back
            self._last[key] = place = session, found.seq, found.part
            self._selection.taken.add(place)
        return found

    def _take(self, key: bytes, place: Position) -> bool:
        """It is this one's turn; whether it had been played before."""
        taken = self._selection.taken
        again = place in taken
        self._turn = place, not again, key, self._last.get(key)
        taken.add(place)
        self._last[key] = place
        return again

    def give_back(self) -> None:
        """What was found last is found again the next time. It does not count as unplayed: it was asked for."""
        if self._turn is None:
            return
        place, is_new, key, last = self._turn
        if is_new:
            self.taken.discard(place)
            self._given_back.add(place)
        if key is not None and last is not None:
            self._last[key] = last
        elif key is not None:
            del self._last[key]

    def unplayed(self) -> Iterator[Recorded]:
        """The recorded requests that nobody made. Of a session that extends another, the handshake is none."""
        first, handshake = self._selection.sessions[0], (protocol.INITIALIZE, protocol.DISCOVER)
        for row in self._selection.all_requests():
            asked = row.place in self.taken or row.place in self._given_back
            if not asked and (row.session == first or row.method not in handshake):
                yield row

    def _find_by_rules(self, method: str, live: dict[str, Any]) -> tuple[Recorded | None, bool]:
        rows = self._selection.requests(method)
        like = [row for row in rows if not any(rule(self._body(row), live) for rule in self._rules)]
        if not like:
            return None, False
        found = next((row for row in like if row.place not in self.taken), None)
        before = like[like.index(found) - 1] if found is not None and found is not like[0] else None
        if found is not None and before is not None and self._is_early(method, before.place, found):
            return before, True
        if found is not None:
            self._turn = found.place, True, None, None
            self.taken.add(found.place)
            return found, False
        if self._repeats == "cycle":
            return like[next(self._rounds) % len(like)], True
        return (like[-1], True) if self._repeats == "last" or protocol.is_housekeeping(method) else (None, False)

    def _body(self, row: Recorded) -> dict[str, Any]:
        return self._selection.message(row).body

    def _next(self, key: bytes, method: str, last: Position | None) -> Recorded | None:
        if not self._keys_are_made_anew:
            return self._selection.next_request(key, last or (0, 0, 0))
        same = self._index(method).get(key, {})
        return same[last] if last in same else same.get(None)

    def _key(self, method: str, params: object) -> bytes:
        return match.key_under(self.counts, method, params) if self.counts else match.request_key(method, params)

    def _index(self, method: str) -> dict[bytes, _Turns]:
        """Keys made anew from the messages of one method."""
        index = self._indexes.get(method)
        if index is None:
            index = self._indexes[method] = {}
            for row in self._selection.requests(method):
                turns = index.setdefault(self._key(method, self._params(row)), {})
                turns[next(reversed(turns), None)] = row._replace(text=None)
                turns[row.place] = None
        return index

    def _redacted(self, method: str, live: object) -> Recorded | None:
        """A recording whose secrets were hidden still matches where the environment lacks them."""
        if method not in self._hidden:
            self._hidden[method] = self._selection.requests(method, redacted=True)
        asked = self._counted(protocol.identifying(method, live))
        for row in self._hidden[method]:
            if row.place not in self._selection.taken:
                recorded = self._counted(protocol.identifying(method, self._params(row)))
                if match.fits_redacted(recorded, asked):
                    return row
        return None

    def _counted(self, what: object) -> object:
        return what if self.counts is None else match.counted(self.counts, what)

    def _params(self, row: Recorded) -> object:
        return match.exact_params(self._selection.message(row), self._selection.text(row), row.part)
