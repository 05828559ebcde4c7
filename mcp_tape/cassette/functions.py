"""SQL functions of a cassette's connection (https://www.sqlite.org/appfunc.html), and joins that several queries need.

The functions work on texts: a message of a batch, the words in escaped text, the request that a message cancels.
Arguments are the values in a table: bytes if they are not UTF-8, and anything in an untrusted file.
"""

from __future__ import annotations

from functools import cached_property, lru_cache, partial

from ..light import NamedTuple, pattern, sqlite3
from ..wire import frames, jsontext, protocol
from . import schema

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

_ESCAPE = pattern(r"(?s)\\(?:u([0-9A-Fa-f]{4})|(.))")
_MOST = (1 << 63) - 1  # the largest integer of SQLite
_SHORT = {"b": " ", "f": " ", "n": "\n", "r": "\r", "t": "\t"}
EXAMINED = 100  # cancels to examine, for each request of a server
_KEPT = 16  # batches whose cancels are remembered
_MOST_TEXT = 16 << 20  # characters remembered; one or two larger batches are kept too


# The rows of a frame's messages: from its own number up to the next frame's.
BEFORE_NEXT = f"{{}}.id < coalesce((SELECT n.id FROM facts n WHERE n.id > ? ORDER BY n.id LIMIT 1), {_MOST})"


def text_of(frame: str, part: str) -> str:
    """SQL for the text of a message in a row of `facts`; in a batch, its part."""
    text = f"coalesce({frame}.text, {frame}.data)"
    return f"CASE {frame}.kind WHEN 'batch' THEN part_of({frame}.id, {part}) ELSE {text} END"


def messages_of(frame: str) -> str:
    """SQL that joins `m`, the messages of a row of `facts`: all rows up to the next frame."""
    behind = BEFORE_NEXT.format("m").replace("?", f"{frame}.id")
    return f"LEFT JOIN messages m ON m.id >= {frame}.id AND {behind} AND m.frame = {frame}.id"


def question_of(message: str) -> str:
    """SQL that joins `q`, the request that a message answers, and `qf`, its frame."""
    asked = f"({message}.session << {schema.BITS}) + {message}.answers"
    return f"LEFT JOIN messages q ON q.id = {asked} LEFT JOIN facts qf ON qf.id = q.frame"


def answer_of(request: str) -> str:
    """SQL that joins `a`, the answer to a message that is a request."""
    number, last = f"({request}.id & {schema.MOST})", f"({request}.id | {schema.MOST})"
    plain = f"""SELECT min(d.id) FROM derived d WHERE d.cue = {number} AND d.id BETWEEN {request}.id AND {last}
        AND {schema.answers_cue("d")}"""
    named = f"SELECT min(d.id) FROM derived d WHERE d.answers = {number} AND d.id BETWEEN {request}.id AND {last}"
    # Other messages need no look at the index.
    return (
        f"""LEFT JOIN messages a ON a.id = CASE {request}.kind WHEN 'request' THEN coalesce(({plain}), ({named})) END"""
    )


def of_method(method: str) -> str:
    """SQL that compares a method by the index, which omits the most common method."""
    return "method = ?" if method == protocol.CALL else f"method = ? AND method <> '{protocol.CALL}'"


def of_key(key: str, value: str = "?") -> str:
    """SQL that compares a key by the index, which holds the first bytes of each. A `?` needs the value twice."""
    return f"substr({key}, 1, 4) = substr({value}, 1, 4) AND {key} = {value}"


# The messages of the exchange that a client request opened, with the request; of a batch, those of all its requests.
MEMBERS = f"""SELECT id FROM derived WHERE cue = ? AND {schema.USUAL_EXCHANGE} AND id BETWEEN ? AND ?
    UNION ALL SELECT id FROM derived WHERE exchange = ? AND id BETWEEN ? AND ?
    UNION ALL SELECT id FROM derived WHERE id >= ? AND {schema.BY_CLIENT} AND {schema.USUAL_EXCHANGE}
    AND method IS NOT NULL AND rpc_id IS NOT NULL AND {BEFORE_NEXT.format("derived")}"""


def members_of(session: int, seq: int) -> tuple[int, ...]:
    """The values of MEMBERS."""
    span, frame = schema.row_ids(session), schema.row_id(session, seq)
    return (seq, *span, seq, *span, frame, frame)


# A client's cancel is in the exchange of its request; a server's may be in none.
_CANCELS = f"""SELECT cancelled_by({text_of("cf", "c.part")}, c.part), c.id FROM messages c
    CROSS JOIN facts cf ON cf.id = c.frame WHERE c.sender = ? AND c.id IN ("""
_OF_EXCHANGE = f"""{_CANCELS}SELECT id FROM derived WHERE exchange = ? AND id BETWEEN ? AND ?
    AND method = '{protocol.CANCELLED}') ORDER BY c.id"""
_THAT_FOLLOW = f"""{_CANCELS}SELECT id FROM derived WHERE method = '{protocol.CANCELLED}' AND id BETWEEN ? AND ?
    ORDER BY id LIMIT ?) ORDER BY c.id"""


class _Batch(NamedTuple):
    text: Any
    spans: list[tuple[int, int]]

    @property
    def size(self) -> int:
        return self.spans[-1][1] if self.spans else len(self.text) if isinstance(self.text, (str, bytes)) else 0


class Batches:
    """A memory of the batches read last, cleared when another process writes to the file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._version: int | None = None
        self._batches: dict[int, _Batch] = {}  # the newest is the last

    def part_of(self, frame: Any, part: Any) -> Any:
        """One message of a batch, verbatim; the whole text if it has no such part."""
        self._refresh()
        text, spans = self._batches.get(frame) or self._read(frame)
        return text[slice(*spans[part])] if isinstance(part, int) and 0 <= part < len(spans) else text

    def called_off(self, number: Any, part: Any, sender: Any, rpc_id: Any) -> bool:
        """Return whether the sender of a batched request cancelled it later."""
        self._refresh()
        return bool(self._cancels(number - part, sender).get(rpc_id, 0) > number)

    @cached_property
    def _cancels(self) -> Any:
        return lru_cache(_KEPT)(partial(_cancels, self._db))

    def _refresh(self) -> None:
        # Constant throughout a query: https://www.sqlite.org/pragma.html#pragma_data_version
        ((version,),) = self._db.execute("PRAGMA data_version")
        if version != self._version:
            self._version = version
            self._batches.clear()
            self.__dict__.pop("_cancels", None)

    def _read(self, frame: int) -> _Batch:
        rows = self._db.execute("SELECT coalesce(text, data) FROM facts WHERE id = ?", (frame,))
        text = next((text for (text,) in rows), None)
        while len(self._batches) > 1 and sum(batch.size for batch in self._batches.values()) > _MOST_TEXT:
            del self._batches[next(iter(self._batches))]
        self._batches[frame] = batch = _Batch(text, jsontext.element_spans(text))
        return batch


def _cancels(db: sqlite3.Connection, frame: int, sender: str) -> dict[Any, int]:
    """The last cancellation of each request of a batch, by the id that it names."""
    last = frame | schema.MOST
    if sender == "client":
        return dict(db.execute(_OF_EXCHANGE, (sender, frame & schema.MOST, frame, last)))
    sql = f"SELECT count(*) FROM derived WHERE id >= ? AND {BEFORE_NEXT.format('derived')}"
    ((size,),) = db.execute(sql, (frame, frame))
    return dict(db.execute(_THAT_FOLLOW, (sender, frame, last, EXAMINED * size)))


def says(text: Any, words: bytes) -> bool:
    """Return whether a text contains some words, escaped or not; in lower case (A to Z), as in SQLite's lower()."""
    return words in readable_text(text).encode("utf-8", "surrogatepass").lower()


def readable_text(text: Any) -> str:
    """A text without escapes: `caf\\u00e9` is `café`, and a line end no letter n; also in JSON within a string."""
    plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    once = _unescape(plain)
    twice = _unescape(once)
    return once if once == twice else f"{once}\n{twice}"


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    found = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _SHORT.get(m[2], m[2]), text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins the halves of surrogate pairs


def cancelled_by(text: Any, part: Any) -> str | None:
    """The id of the request that a message cancels, as JSON text; None in an untrusted text without one."""
    try:
        body = jsontext.loads(text)
        message = body[part] if isinstance(body, list) else body
        frames.name_exactly(message, text, (part,) if isinstance(body, list) else ())
        return frames.id_text(protocol.member(message.get("params"), "requestId"))
    except (ValueError, RecursionError, TypeError, IndexError, AttributeError):
        return None


def add_to(db: sqlite3.Connection) -> None:
    """Add the functions to a connection. They refer to it until it is closed."""
    batches = Batches(db)
    for function, values in (says, 2), (cancelled_by, 2), (batches.part_of, 2), (batches.called_off, 4):
        db.create_function(function.__name__, values, function, deterministic=True)
