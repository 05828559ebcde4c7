"""SQL functions of a cassette's connection (https://www.sqlite.org/appfunc.html), and the joins made of them.

Texts: a message of a batch, the words behind escapes, the request that a message cancels. Arguments come as they stand
in a table: bytes where they are not UTF-8, anything where a stranger wrote them.

Batches: all messages of one have the number of its frame, so an index leads from each answer to all the requests, and
from each request to all the answers: with ten thousand of both, a hundred million steps. The functions here lead SQLite
to the right one at once. Messages outside of batches do without.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple

from ..wire import frames, jsontext, protocol

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.S)
_SHORT = {"b": " ", "f": " ", "n": "\n", "r": "\r", "t": "\t"}
_KEPT = 16  # batches remembered, for each kind of question about them
_MOST_TEXT = 16 << 20  # characters remembered; more where one batch has them, or two
_CANCELS = 100  # examined for each request of a server
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

Places = dict[Any, tuple[Any, ...]]  # by id: the places of the first and the last


def text_of(frame: str, part: str) -> str:
    """SQL for the text of a message: of a batch, its part."""
    return f"CASE {frame}.kind WHEN 'batch' THEN part_of({frame}.id, {part}) ELSE {frame}.text END"


def question_of(message: str) -> str:
    """SQL that joins `q`, the request that a message answers, and `qf`, the frame of that.

    Ids may be repeated in a batch: all parts between the first and the last are examined.
    """
    first, last = (f"asked(qf.id, {message}.rpc_id, {end})" for end in range(2))
    return f"""LEFT JOIN frames qf ON qf.session = {message}.session AND qf.seq = {message}.answers
    LEFT JOIN messages q ON q.frame = qf.id AND q.rpc_id = {message}.rpc_id AND q.kind = 'request'
        AND q.part >= CASE qf.kind WHEN 'batch' THEN {first} ELSE {_LEAST} END
        AND q.part <= CASE qf.kind WHEN 'batch' THEN {last} ELSE {_MOST} END
        AND q.sender = CASE {message}.sender WHEN 'client' THEN 'server' ELSE 'client' END"""


def answer_of(request: str, frame: str) -> str:
    """SQL that joins `a`, the answer to a request in a frame; further conditions may follow."""
    ends = [
        f"CASE {frame}.kind WHEN 'batch' THEN answered({request}.session, {request}.seq, {request}.rpc_id, {end})"
        f" ELSE {otherwise} END"
        for end, otherwise in enumerate((_LEAST, _LEAST, _MOST, _MOST))
    ]
    # A message that is no request needs no look at the index.
    return f"""LEFT JOIN messages a ON a.session = {request}.session AND a.rpc_id = {request}.rpc_id
        AND a.answers = CASE {request}.kind WHEN 'request' THEN {request}.seq END
        AND (a.frame, a.part) >= ({ends[0]}, {ends[1]}) AND (a.frame, a.part) <= ({ends[2]}, {ends[3]})"""


_REQUESTS = "SELECT rpc_id, part FROM messages WHERE frame = ? AND kind = 'request' ORDER BY part"
_ANSWERS = "SELECT rpc_id, frame, part FROM messages WHERE session = ? AND answers = ? ORDER BY frame, part"
# A client's cancel is in the exchange of its request; a server's may be in none.
_OF_EXCHANGE = f"""SELECT cancelled_by({text_of("cf", "c.part")}, c.part), c.frame, c.part
    FROM messages c CROSS JOIN frames cf ON cf.id = c.frame
    WHERE c.session = ? AND c.exchange = ? AND +c.method = '{protocol.CANCELLED}' AND +c.sender = 'client'
    ORDER BY c.frame, c.part"""
_THAT_FOLLOW = f"""SELECT cancelled_by({text_of("cf", "c.part")}, c.part), c.frame, c.part
    FROM (SELECT frame, part, sender FROM messages WHERE session = ? AND method = '{protocol.CANCELLED}'
        AND frame >= ? ORDER BY frame, part LIMIT ?) c
    CROSS JOIN frames cf ON cf.id = c.frame WHERE c.sender = ? ORDER BY c.frame, c.part"""


class _Batch(NamedTuple):
    text: Any
    spans: list[tuple[int, int]]

    @property
    def size(self) -> int:
        return self.spans[-1][1] if self.spans else len(self.text) if isinstance(self.text, (str, bytes)) else 0


class Batches:
    """A memory of the batches read last, forgotten when somebody else writes to the file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._version: int | None = None
        self._batches: dict[int, _Batch] = {}  # the newest is the last
        self._requests, self._answers, self._cancels = (
            lru_cache(_KEPT)(partial(places, db)) for places in (_requests, _answers, _cancels)
        )

    def part_of(self, frame: Any, part: Any) -> Any:
        """One message of a batch, verbatim; the whole text where it has no such part."""
        self._refresh()
        text, spans = self._batches.get(frame) or self._read(frame)
        return text[slice(*spans[part])] if isinstance(part, int) and 0 <= part < len(spans) else text

    def asked(self, frame: Any, rpc_id: Any, end: int) -> Any:
        """The first (0) or the last (1) part that is a request with an id."""
        self._refresh()
        return self._requests(frame).get(rpc_id, (None, None))[end]

    def answered(self, session: Any, seq: Any, rpc_id: Any, end: int) -> Any:
        """Frame (0) and part (1) of the first answer with an id, or those of the last (2, 3)."""
        self._refresh()
        return self._answers(session, seq).get(rpc_id, (None,) * 4)[end]

    def called_off(self, session: Any, seq: Any, frame: Any, part: Any, sender: Any, rpc_id: Any) -> bool:
        """Return whether the side that made a request cancelled it later."""
        self._refresh()
        last = self._cancels(session, seq, frame, sender).get(rpc_id, ())[2:]
        return last > (frame, part)

    def _refresh(self) -> None:
        # The same throughout a query: https://www.sqlite.org/pragma.html#pragma_data_version
        ((version,),) = self._db.execute("PRAGMA data_version")
        if version != self._version:
            self._version = version
            self._batches.clear()
            for kept in (self._requests, self._answers, self._cancels):
                kept.cache_clear()

    def _read(self, frame: int) -> _Batch:
        text = next((text for (text,) in self._db.execute("SELECT text FROM frames WHERE id = ?", (frame,))), None)
        while len(self._batches) > 1 and sum(batch.size for batch in self._batches.values()) > _MOST_TEXT:
            del self._batches[next(iter(self._batches))]
        self._batches[frame] = batch = _Batch(text, jsontext.element_spans(text))
        return batch


def _requests(db: sqlite3.Connection, frame: Any) -> Places:
    return _places(db.execute(_REQUESTS, (frame,)))


def _answers(db: sqlite3.Connection, session: Any, seq: Any) -> Places:
    return _places(db.execute(_ANSWERS, (session, seq)))


def _cancels(db: sqlite3.Connection, session: Any, seq: Any, frame: Any, sender: Any) -> Places:
    """Cancellations, by the id that they name."""
    if sender == "client":
        return _places(db.execute(_OF_EXCHANGE, (session, seq)))
    ((size,),) = db.execute("SELECT count(*) FROM messages WHERE frame = ?", (frame,))
    return _places(db.execute(_THAT_FOLLOW, (session, frame, _CANCELS * size, sender)))


def _places(rows: Iterable[tuple[Any, ...]]) -> Places:
    found: Places = {}
    for rpc_id, *place in rows:
        first = found[rpc_id][: len(place)] if rpc_id in found else place
        found[rpc_id] = (*first, *place)
    return found


def says(text: Any, words: bytes) -> bool:
    """Return whether a text has some words, however it writes them: in lower case (A to Z), as SQLite's lower()."""
    return words in readable(text).encode("utf-8", "surrogatepass").lower()


def readable(text: Any) -> str:
    """A text as people mean it: `caf\\u00e9` is `café`, and a line end no letter n; also in JSON within a string."""
    plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    once = _unescaped(plain)
    twice = _unescaped(once)
    return once if once == twice else f"{once}\n{twice}"


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    found = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _SHORT.get(m[2], m[2]), text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two halves are one character


def cancelled_by(text: Any, part: Any) -> str | None:
    """The id of the request that a message cancels, as JSON text; None where a stranger wrote something else."""
    try:
        body = jsontext.loads(text)
        message = body[part] if isinstance(body, list) else body
        frames.name_exactly(message, text, (part,) if isinstance(body, list) else ())
        return frames.id_text(protocol.member(message.get("params"), "requestId"))
    except (ValueError, RecursionError, TypeError, IndexError, AttributeError):
        return None


def add_to(db: sqlite3.Connection) -> None:
    """Add the functions to a connection, which they refer to until it is closed."""
    batches = Batches(db)
    for function, values in (
        (says, 2), (cancelled_by, 2), (batches.part_of, 2), (batches.asked, 3), (batches.answered, 4),
        (batches.called_off, 6),
    ):  # fmt: skip
        db.create_function(function.__name__, values, function, deterministic=True)
