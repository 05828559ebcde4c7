"""Finding the recorded request that a live one is, each in its turn.

A request is found by its key, with one look-up; those in recorded order are read ahead, many at once, and found by
their bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from ..cassette.lookup.messages import START, Plain, Position, Recorded
from ..wire import match, protocol
from ..wire.frames import Message
from ..wire.match import Rule
from .selection import Selection
from .sends import END
from .state import State, Turn

Repeats = Literal["error", "last", "cycle"]

Compare = Callable[[Any, Any], str | None]  # of a recorded and a live message: how they differ, None if they do not
_Turns = dict[Position | None, Recorded | None]  # the requests of a key: behind each place, and before all, the next
_FIRST, _MOST = 16, 512  # frames read at once: few at the start, then more and more
_CUT = b'"id":'
_ID = rb'("[\w.:/-]*"|-?\d+)'
_LEADING_ID = re.compile(rb'\{"jsonrpc":"2\.0","id":' + _ID + rb"(?=[,}])")
_TRAILING_ID = re.compile(rb',"id":' + _ID + rb"\}")


class Found(NamedTuple):
    """The recorded request that a live one is; `again` if it was found before and is only repeated.

    `plain` where its answer is all that plays. Then the request itself may not have been read.
    """

    recorded: Recorded | None
    again: bool = False
    plain: Plain | None = None


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
        self.state = State()
        self.counts = counts
        self._repeats = repeats
        self._rules = rules
        self._keys_are_made_anew = counts is not None or selection.stale or bool(rules)
        self._window = Window(selection, self.state)
        self._has_come: Callable[[Recorded], bool] = lambda row: True
        self._note: Callable[[str], None] = lambda text: None
        self._indexes: dict[str, dict[bytes, _Turns]] = {}  # by method, where stored keys do not serve
        self._hidden: dict[str, list[Recorded]] = {}  # by method, the recorded requests with redactions

    def listen(self, has_come: Callable[[Recorded], bool], note: Callable[[str], None]) -> None:
        """Learn who knows whether a message of the server has come to the client, and who takes notes."""
        self._has_come, self._note = has_come, note

    def find(self, message: Message, text: bytes, part: int, *, plainly: bool = False) -> Found:
        """Find the recorded request and take its turn. `plainly`: an answer that is plain is enough."""
        method, state = message.method or "", self.state
        state.turn = None
        if self._rules:
            return self._find_by_rules(method, message.body)
        params = match.exact_params(message, text, part)
        key = self._key(method, params)
        if plainly and (ahead := self._ahead(key)) is not None:
            return Found(None, plain=ahead)
        last = state.last.get(key)
        found, plain = self._next(key, method, last)
        found = found or self._redacted(method, params)
        if found is not None and last is not None and self._is_early(method, last, found):
            return Found(self._selection.at(last), True)
        if found is None and last is not None and self._repeats == "cycle":
            self._window.skip(key)
            found, plain = self._next(key, method, None)
        if found is not None:
            again = self._take(key, found.place)
            return Found(found, again, None if again else plain)
        if last is not None and (self._repeats == "last" or protocol.is_housekeeping(method)):
            return Found(self._selection.at(last), True)
        if last is None and method in (protocol.INITIALIZE, protocol.DISCOVER):
            return Found(self._greeting(method), True)
        return Found(None)

    def plain(self, text: bytes) -> tuple[str, Plain] | None:
        """Find a request by its bytes alone, without parsing: the live id, and the exchange. None means nothing."""
        same = self._window.same_text(text)
        if same is None:
            return None
        found = self._ahead(same[0])
        return None if found is None else (same[1], found)

    def _ahead(self, key: bytes) -> Plain | None:
        """The next request of a key, if it was read ahead and is plain. It is its turn, and nobody gives it back."""
        found = self._window.next(key)
        if found is not None:
            self.state.last[key] = place = found[:3]
            self.state.taken.add(place)
        return found

    def _is_early(self, method: str, last: Position, found: Recorded) -> bool:
        """Return whether a request was made again only because the server had said that the answer changed.

        Until it says so this time, the answer before is the right one.
        """
        change = protocol.CHANGED_BY.get(method)
        if change is None or found.session != last[0]:
            return False
        changes = self._selection.changes_between(found.session, change, last[1], found.seq)
        newest = next((row for row in changes if found.name in (None, self._uri(row))), None)
        if newest is None or self._has_come(newest):
            return False
        if found.place not in self.state.early:
            self.state.early.add(found.place)
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

    def _take(self, key: bytes, place: Position) -> bool:
        """Take the turn of a request; True if it was played before."""
        state = self.state
        again = place in state.taken
        state.turn = Turn(place, not again, key, state.last.get(key))
        state.taken.add(place)
        state.last[key] = place
        return again

    def give_back(self) -> None:
        """Give back the turn that was taken last: the same request is found again the next time."""
        turn, state = self.state.turn, self.state
        if turn is None:
            return
        if turn.is_new:
            state.taken.discard(turn.place)
        if turn.key is not None and turn.last is not None:
            state.last[turn.key] = turn.last
        elif turn.key is not None:
            del state.last[turn.key]

    def unplayed(self) -> Iterator[Recorded]:
        """The recorded requests that nobody made. Of a session that extends another, the handshake is none."""
        first, handshake = self._selection.sessions[0], (protocol.INITIALIZE, protocol.DISCOVER)
        for row in self._selection.all_requests():
            asked = row.place in self.state.taken or row.place in self.state.given_back
            if not asked and (row.session == first or row.method not in handshake):
                yield row

    def _find_by_rules(self, method: str, live: dict[str, Any]) -> Found:
        selection, state = self._selection, self.state
        rows = ((row, selection.message(row).body) for row in selection.requests(method))
        like = [row for row, body in rows if not any(rule(body, live) for rule in self._rules)]
        if not like:
            return Found(None)
        found = next((row for row in like if row.place not in state.taken), None)
        before = like[like.index(found) - 1] if found is not None and found is not like[0] else None
        if found is not None and before is not None and self._is_early(method, before.place, found):
            return Found(before, True)
        if found is not None:
            state.turn = Turn(found.place, True, None, None)
            state.taken.add(found.place)
            return Found(found)
        if self._repeats == "cycle":
            state.rounds += 1
            return Found(like[(state.rounds - 1) % len(like)], True)
        return Found(like[-1], True) if self._repeats == "last" or protocol.is_housekeeping(method) else Found(None)

    def _next(self, key: bytes, method: str, last: Position | None) -> tuple[Recorded | None, Plain | None]:
        if self._keys_are_made_anew:
            same = self._index(method).get(key, {})
            return same[last] if last in same else same.get(None), None
        found = self._selection.next_request(key, last or START)
        if found is None:
            return None, None
        self._window.move_to(found[0])
        return found

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
            if row.place not in self.state.taken:
                recorded = self._counted(protocol.identifying(method, self._params(row)))
                if match.fits_redacted(recorded, asked):
                    return row
        return None

    def _counted(self, what: object) -> object:
        return what if self.counts is None else match.counted(self.counts, what)

    def _params(self, row: Recorded) -> object:
        return match.exact_params(self._selection.message(row), self._selection.text(row), row.part)


class Window:
    """The requests of a stretch of the first session, which moves on from its start without a gap.

    Clients mostly ask in recorded order, and often byte for byte as recorded but for the ids. Then there is nothing to
    look up, to parse or to key. Whatever is not here is looked up one by one.
    """

    def __init__(self, selection: Selection, state: State) -> None:
        self._selection = selection
        self._state = state
        self._session = selection.sessions[0]
        self._stop = 1  # the first seq behind the window
        self._size = _FIRST
        self._by_key: dict[bytes, list[tuple[Any, ...]]] = {}  # rows like `Plain`
        self._by_text: dict[bytes, tuple[bytes, str]] = {}  # plain ones: key and id
        self._by_rest: dict[bytes, bytes] | None = None  # the same without ids
        self._left = 0  # plain exchanges that were not asked for
        self._changed: int | None = None  # from where on something that changed may be asked for again
        self._skipped: set[bytes] = set()  # keys that windows before this one held and nobody asked for

    def same_text(self, text: bytes) -> tuple[bytes, str] | None:
        """The key of a request with these bytes, up to its id, and the live id."""
        same = self._by_text.get(text)
        if same is not None or not self._left:  # played out: what comes next will be read soon
            return same
        cut = _without_id(text)
        if cut is None:
            return None
        if self._by_rest is None:  # the client turns out to count differently
            self._by_rest = self._rests()
        key = self._by_rest.get(cut[0])
        return None if key is None else (key, cut[1])

    def _rests(self) -> dict[bytes, bytes]:
        rests = {}
        for text, (key, rpc_id) in self._by_text.items():
            cut = _without_id(text)
            if cut is not None and cut[1] == rpc_id and b'"id"' not in cut[0].replace(_CUT, b"", 1):
                rests[cut[0]] = key
        return rests

    def next(self, key: bytes) -> Plain | None:
        """The next request of a key, if it is here and plain."""
        same = self._by_key.get(key)
        if same is None or key in self._skipped:
            return None
        session, seq, part = self._state.last.get(key, (self._session, 0, 0))
        at = bisect_left(same, (session, seq, part + 1))
        if at == len(same) or session != self._session or same[at][4] is None:
            return None
        self._left -= 1
        return Plain._make(same[at][:6])

    def skip(self, key: bytes) -> None:
        """Look a key up one by one from now on: it does not go forward on the tape."""
        self._skipped.add(key)

    def move_to(self, found: Recorded) -> None:
        """Move on, if a request that was just found lies close behind the window."""
        if found.session != self._session or not self._stop <= found.seq < self._stop + _MOST:
            return
        taken = self._state.taken
        self._skipped.update(key for key, same in self._by_key.items() if not all(row[:3] in taken for row in same))
        if self._changed is None:
            self._changed = self._selection.first_change(self._session) or END
        self._stop, rows = self._selection.stretch(self._session, self._stop, self._size)
        self._size = min(4 * self._size, _MOST)
        self._by_key, self._by_text, self._by_rest = {}, {}, None
        for row in rows:
            seq, rpc_id, answer, key, method, text = row[1], row[3], row[4], *row[6:]
            # What was asked again because it had changed is not there for those who ask earlier.
            if seq > self._changed and method in protocol.CHANGED_BY:
                row = (*row[:4], None)
            elif answer is not None:
                self._by_text[text] = key, rpc_id
            self._by_key.setdefault(key, []).append(row)
        self._left = len(self._by_text)


def _without_id(text: bytes) -> tuple[bytes, str] | None:
    """A request's text with its id cut out, and the id, where it stands first or last, as it mostly does."""
    at = text.rfind(b',"id":')
    found = _LEADING_ID.match(text) or (_TRAILING_ID.fullmatch(text, at) if at > 0 else None)
    if found is None:
        return None
    start, end = found.span(1)
    return b"".join((text[: start - len(_CUT)], _CUT, text[end:])), text[start:end].decode()
