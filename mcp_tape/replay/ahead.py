"""Reads ahead on the tape: clients mostly ask in recorded order, so one query serves many requests.

Holds plain exchanges only, a request and its answer with nothing between; one row gives all that is needed.
Whatever it does not hold is looked up one by one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from ..cassette.reader import Cassette, Types
from ..wire import protocol

_FIRST, _MOST = 16, 512  # frames read at once: few at the start, then more and more
_SMALL = 16_384  # longer answers are read when they are played

_FRAMES = "SELECT min(id), max(id), max(seq) FROM frames WHERE session = ? AND seq BETWEEN ? AND ?"
_CUES = "SELECT cue FROM messages WHERE session = ? AND cue BETWEEN ? AND ?"
# A + keeps SQLite from choosing the index that starts with the column.
# Those of a batch are never plain, and would each have all of its text.
_REQUESTS = f"""SELECT q.seq, q.part, q.key, q.rpc_id,
    CASE qf.kind WHEN 'message' THEN CAST(qf.text AS BLOB) ELSE x'' END,
    CASE WHEN af.kind = 'message' AND typeof(af.text) = 'text' AND af.channel = qf.channel
         AND instr(af.text, char(10)) = 0 AND a.status NOT IN ('refused', 'error') AND length(af.text) <= {_SMALL}
         THEN CAST(af.text || CASE af.eol WHEN '' THEN char(10) ELSE af.eol END AS BLOB) END, CAST(af.head AS BLOB)
    FROM messages q JOIN frames qf ON qf.id = q.frame
    LEFT JOIN messages a ON a.session = q.session AND a.cue = CASE qf.kind WHEN 'message' THEN q.seq END
         AND +a.answers = q.seq AND +a.rpc_id = q.rpc_id
    LEFT JOIN frames af ON af.id = a.frame
    WHERE q.frame BETWEEN ? AND ? AND +q.session = ? AND q.key IS NOT NULL AND q.cue IS NULL"""
# What was asked again because it had changed is not there for those who ask earlier: see finding.
_CHANGED = f"""SELECT min(seq) FROM messages WHERE session = ? AND +sender = 'server'
    AND method IN ({", ".join(f"'{method}'" for method in sorted(protocol.CHANGES))})"""
_ASKED_AGAIN = f"""SELECT seq FROM messages WHERE session = ? AND +sender = 'client' AND +seq > ?
    AND method IN ({", ".join(f"'{method}'" for method in protocol.CHANGED_BY)})"""

_CUT = b'"id":'
_ID = rb'("[\w.:/-]*"|-?\d+)'
_LEADING_ID = re.compile(rb'\{"jsonrpc":"2\.0","id":' + _ID + rb"(?=[,}])")
_TRAILING_ID = re.compile(rb',"id":' + _ID + rb"\}")


class Plain(NamedTuple):
    """A request, and its answer with its line end and what preceded it; no answer where the exchange is not plain."""

    seq: int
    part: int
    key: bytes
    rpc_id: str
    text: bytes
    answer: bytes | None
    head: bytes | None


_TYPES: tuple[Types, ...] = (int,), (int,), (bytes,), (str,), (bytes,), (bytes, type(None)), (bytes, type(None))


class Ahead:
    """A window of one session that moves on from its start, without a gap."""

    def __init__(self, cassette: Cassette, session: int) -> None:
        self._cassette = cassette
        self._session = session
        self._stop = 1  # the first seq behind the window
        self._size = _FIRST
        self._by_key: dict[bytes, list[Plain]] = {}
        self._by_text: dict[bytes, Plain] = {}
        self._by_rest: dict[bytes, Plain] | None = None
        self._left = 0  # plain exchanges of the window that were not asked for
        self._asked_again: set[int] | None = None  # where what may have changed is asked for
        self._skipped: set[bytes] = set()  # keys that windows before this one held and nobody asked for

    def same_text(self, text: bytes) -> tuple[Plain, str] | None:
        """A request with these bytes, up to its id, and the live id: a quick way to its key."""
        same = self._by_text.get(text)
        if same is not None:
            return same, same.rpc_id
        if not self._left:  # it is played out, and what comes next will be read soon
            return None
        cut = _without_id(text)
        if cut is None:
            return None
        if self._by_rest is None:
            self._by_rest = self._rests()
        same = self._by_rest.get(cut[0])
        return None if same is None else (same, cut[1])

    def _rests(self) -> dict[bytes, Plain]:
        """The window by text without ids, made when a client turns out to count differently."""
        rests = {}
        for plain in self._by_text.values():
            cut = _without_id(plain.text)
            if cut is not None and cut[1] == plain.rpc_id and b'"id"' not in cut[0].replace(_CUT, b"", 1):
                rests[cut[0]] = plain
        return rests

    def next_plain(self, key: bytes, after: tuple[int, int]) -> Plain | None:
        """The next request of this key behind a seq and part, if it is here and plain."""
        if key not in self._skipped:
            same = self._by_key.get(key, ())
            at = bisect_left(same, (after[0], after[1] + 1))
            if at < len(same) and same[at].answer is not None:
                self._left -= 1
                return same[at]
        return None

    def leave_out(self, key: bytes) -> None:
        """Look this key up one by one from now on: it does not go forward on the tape."""
        self._skipped.add(key)

    def move_to(self, seq: int, taken: set[tuple[int, int, int]]) -> None:
        """Move on, if a request that was just found lies close behind the window."""
        start = self._stop
        if not start <= seq < start + _MOST:
            return
        for key, same in self._by_key.items():
            if not taken.issuperset((self._session, *plain[:2]) for plain in same):
                self._skipped.add(key)
        found = self._cassette.rows(_FRAMES, (self._session, start, start + self._size - 1))
        ((first, last, end),) = self._cassette.expected(found, ((int, type(None)),) * 3, "frames")
        self._stop, self._size = (end or start) + 1, min(4 * self._size, _MOST)
        cues = Counter(cue for (cue,) in self._cassette.rows(_CUES, (self._session, start, self._stop - 1)))
        self._by_key, self._by_text, self._by_rest = {}, {}, None
        asked_again = self._read_asked_again()
        for row in self._cassette.expected(self._cassette.rows(_REQUESTS, (first, last, self._session)), _TYPES):
            plain = Plain._make(row)
            if cues[plain.seq] != 1 or plain.seq in asked_again:
                plain = plain._replace(answer=None)  # something comes with it, or nothing at all
            self._by_key.setdefault(plain.key, []).append(plain)
            if plain.answer is not None:
                self._by_text[plain.text] = plain
        self._left = len(self._by_text)

    def _read_asked_again(self) -> set[int]:
        if self._asked_again is None:
            ((changed,),) = self._cassette.rows(_CHANGED, (self._session,))
            rows = [] if changed is None else self._cassette.rows(_ASKED_AGAIN, (self._session, changed))
            self._asked_again = {seq for (seq,) in rows}
        return self._asked_again


def _without_id(text: bytes) -> tuple[bytes, str] | None:
    """A request's text with its id cut out, and the id, where it stands first or last, as it mostly does."""
    at = text.rfind(b',"id":')
    found = _LEADING_ID.match(text) or (_TRAILING_ID.fullmatch(text, at) if at > 0 else None)
    if found is None:
        return None
    start, end = found.span(1)
    return b"".join((text[: start - len(_CUT)], _CUT, text[end:])), text[start:end].decode()
