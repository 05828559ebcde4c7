"""Finds the recorded request that answers a live one, each in its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from . import frames, match, protocol
from .frames import Message
from .jsonpath import compile_path
from .jsontext import Path
from .match import Rule
from .selection import Recorded, Selection

Repeats = Literal["error", "last", "cycle"]


def rule(ignore: Sequence[str], match_on: Sequence[str]) -> Rule | None:
    """What counts: all but the ignored, or only what is named; None where the stored keys do."""
    if not ignore and not match_on:
        return None
    ignored = [compile_path(source) for source in ignore]
    named = [compile_path(source) for source in match_on]

    def counts(path: Path) -> bool:
        above = [path[:depth] for depth in range(len(path) + 1)]
        if any(fits(place) for fits in ignored for place in above):
            return False
        return not named or any(fits(place) for fits in named for place in above)

    return counts


class Finder:
    """Per key, recorded requests are found in recorded order."""

    def __init__(self, selection: Selection, counts: Rule | None = None, repeats: Repeats = "error") -> None:
        self._selection = selection
        self.counts = counts
        self._repeats = repeats
        self._last: dict[bytes, Recorded] = {}
        self._indexes: dict[str, dict[bytes, list[Recorded]]] = {}  # by method, where stored keys do not serve
        self._hidden: dict[str, list[Recorded]] = {}  # by method, the recorded requests with redactions

    def find(self, message: Message, text: bytes, part: int) -> tuple[Recorded | None, bool]:
        """The recorded request, and whether it was found before and is only repeated."""
        method = message.method or ""
        params = match.exact_params(message, text, part)
        key = self._key(method, params)
        found, again = self._in_turn(key, method, lambda: self._redacted(method, params))
        if found is None and key not in self._last and method in (protocol.INITIALIZE, protocol.DISCOVER):
            return self._selection.newest(method), True
        return found, again

    def find_verbatim(self, text: bytes) -> tuple[Recorded, Recorded, bool] | None:
        """The same by its bytes alone, without parsing: the recorded request with these bytes, and then what
        find gives. Nothing found means nothing."""
        same = self._selection.same_text(text)
        if same is None or same.key is None or self.counts is not None or self._selection.stale:
            return None
        found, again = self._in_turn(same.key, same.method or "", lambda: None)
        return (same, found, again) if found is not None else None

    def _in_turn(
        self, key: bytes, method: str, otherwise: Callable[[], Recorded | None]
    ) -> tuple[Recorded | None, bool]:
        last = self._last.get(key)
        found = self._next(key, method, last) or otherwise()
        if found is None and last is not None and self._repeats == "cycle":
            found = self._next(key, method, None)
        if found is not None:
            self._last[key] = found
            place, taken = found.place, self._selection.taken
            again = place in taken
            taken.add(place)
            return found, again
        if last is not None and (self._repeats == "last" or protocol.is_housekeeping(method)):
            return last, True
        return None, False

    def unplayed(self) -> Iterator[Recorded]:
        """The recorded requests that nobody made. Of a session that extends another, the handshake is none."""
        first, handshake = self._selection.sessions[0], (protocol.INITIALIZE, protocol.DISCOVER)
        for row in self._selection.all_requests():
            if row.place not in self._selection.taken and (row.session == first or row.method not in handshake):
                yield row

    def _next(self, key: bytes, method: str, last: Recorded | None) -> Recorded | None:
        if self.counts is None and not self._selection.stale:
            return self._selection.next_request(key, last.place if last else (0, 0, 0))
        same = self._index(method).get(key, [])
        start = 0 if last is None else same.index(last._replace(text=None)) + 1
        return same[start] if start < len(same) else None

    def _key(self, method: str, params: object) -> bytes:
        return match.key_under(self.counts, method, params) if self.counts else match.request_key(method, params)

    def _index(self, method: str) -> dict[bytes, list[Recorded]]:
        """Keys made anew from the messages of one method."""
        index = self._indexes.get(method)
        if index is None:
            index = self._indexes[method] = {}
            for row in self._selection.requests(method):
                index.setdefault(self._key(method, self._params(row)), []).append(row._replace(text=None))
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
        text = self._selection.text(row)
        return match.exact_params(frames.parse(text)[1][row.part], text, row.part)
