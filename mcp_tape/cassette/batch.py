"""Rows of a cassette, made of frames and of the messages in them, and inserted many at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice

from ..wire import match
from ..wire.channels import STDIO
from ..wire.frames import Entry, Frame, UsualLines
from . import file, schema

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    Row = tuple[Any, ...]
else:
    Row = tuple
Entered = tuple[int, Frame, list[Entry]]  # with the session that it belongs to

# Columns of the tables; of `facts` and `derived`, those beside the id.
SESSION = (
    "id started_at ended_at transport target protocol_version client_name client_version server_name server_version "
    "exit_code recorder note extends run label incomplete key_version"
).split()
FACTS = "elapsed, sender, channel, kind, eol, redactions, head, text, data"
DERIVED = "part, method, rpc_id, name, status, answers, exchange, cue, key"

# By the length of a row: most rows need few values, and what need not be bound takes less time, NULL above all.
_FRAMES = {
    4: f"""INSERT INTO facts (id, elapsed, sender, text, channel, eol, redactions)
        VALUES (?, ?, ?, ?, '{STDIO}', '\n', 0)""",
    5: f"""INSERT INTO facts (id, elapsed, sender, text, kind, channel, eol, redactions)
        VALUES (?, ?, ?, ?, ?, '{STDIO}', '\n', 0)""",
    10: """INSERT INTO facts (id, elapsed, sender, channel, kind, eol, redactions, head, text, data)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
}
_MESSAGES = {
    2: "INSERT INTO derived (id, cue, part) VALUES (?, ?, 0)",
    3: "INSERT INTO derived (id, rpc_id, cue, part, status) VALUES (?, ?, ?, 0, 'ok')",
    5: "INSERT INTO derived (id, method, rpc_id, name, key, part) VALUES (?, ?, ?, ?, ?, 0)",
    10: """INSERT INTO derived (id, part, method, rpc_id, name, status, answers, exchange, cue, key)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
}
_AT_ONCE = 64  # rows by one statement, a power of two: one by one takes twice as long
_MOST_HELD = 1_000  # rows that are made while they are inserted


class Rows:
    """Rows to be inserted in this order: value by value, as statements take them, in runs of rows of one length."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.runs: list[tuple[int, list[Any]]] = []  # the length of its rows, and their values
        self._count = 0
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        for length, values in self.runs:
            yield from zip(*[iter(values)] * length, strict=True)

    def add(self, row: Row) -> None:
        self._run(len(row), 1).extend(row)

    def add_columns(self, *columns: Sequence[Any]) -> None:
        """Add rows that are given column by column."""
        length, count = len(columns), len(columns[0])
        values = self._run(length, count)
        first = len(values)
        values += [None] * (length * count)
        for place, column in enumerate(columns, first):
            values[place::length] = column

    def _run(self, length: int, count: int) -> list[Any]:
        """The values to which so many rows are to be added."""
        self._count += count
        if not self.runs or self.runs[-1][0] != length:
            self.runs.append((length, []))
        return self.runs[-1][1]


class Batch:
    """Frames to be stored and the messages in them, as rows, each with the session that it belongs to."""

    def __init__(self, entered: Iterable[Entered] = ()) -> None:
        self.frames, self.messages = Rows(), Rows()
        self.first: dict[int, int] = {}  # by session, the number of its first frame
        self.again: list[tuple[int, int]] = []  # session and number of requests that were made again: see `forget`
        self.loses_keys = False  # of messages that are derived later
        self.size = 0  # bytes of all texts
        for each in entered:
            self.add(*each)

    def add(self, session: int, frame: Frame, entries: list[Entry]) -> None:
        self.frames.add(frame_row(session, frame))
        for row in message_rows(session, frame, entries):
            self.messages.add(row)
        self.first.setdefault(session, frame.seq)
        self.again += [(session, seq) for seq in to_be_retried(entries)]
        self.loses_keys = self.loses_keys or (frame.redactions > 0 and _loses_key(frame, entries))
        self.size += len(frame.text)

    def add_usual(self, session: int, lines: UsualLines) -> None:
        """Add calls or their results, whose columns are those of rows."""
        seqs, at, sender, texts, columns = lines
        first = session << schema.BITS
        numbers = range(first + seqs.start, first + seqs.stop)
        self.frames.add_columns(numbers, [at] * len(texts), [sender] * len(texts), texts)
        self.messages.add_columns(numbers, *columns)
        self.first.setdefault(session, seqs.start)
        self.size += sum(map(len, texts))

    def messages_from(self, pending: dict[int, int]) -> Rows:
        """Rows of the messages that are not there yet: by session, the id from which on they are to be."""
        if all(schema.row_id(session, seq) >= pending[session] for session, seq in self.first.items()):
            return self.messages
        return Rows(row for row in self.messages if row[0] >= pending[row[0] >> schema.BITS])

    def without(self, session: int) -> Batch:
        rest = Batch()
        rest.frames = Rows(row for row in self.frames if row[0] >> schema.BITS != session)
        rest.messages = Rows(row for row in self.messages if row[0] >> schema.BITS != session)
        rest.first = {other: seq for other, seq in self.first.items() if other != session}
        rest.again = [(other, seq) for other, seq in self.again if other != session]
        rest.loses_keys = self.loses_keys
        return rest


def insert_frames(db: sqlite3.Connection, rows: Iterable[Row]) -> None:
    _insert_rows(db, _FRAMES, rows)


def insert_messages(db: sqlite3.Connection, rows: Iterable[Row]) -> None:
    _insert_rows(db, _MESSAGES, rows)


def _insert_rows(db: sqlite3.Connection, statements: dict[int, str], rows: Iterable[Row]) -> None:
    """Insert rows in their order, each by the statement for its length, several of a length at once."""
    for length, values in _runs(rows):
        at, many = 0, _AT_ONCE
        while left := (len(values) - at) // length:
            while many > left:
                many //= 2
            db.execute(_for_many(statements[length], many), values[at : at + many * length])
            at += many * length


def _runs(rows: Iterable[Row]) -> Iterator[tuple[int, list[Any]]]:
    if isinstance(rows, Rows):
        yield from rows.runs
        return
    given = iter(rows)
    while held := Rows(islice(given, _MOST_HELD)):
        yield from held.runs


@cache
def _for_many(insert: str, rows: int) -> str:
    """The statement that inserts so many rows as another inserts one."""
    head, values, one = insert.partition("VALUES ")
    return head + values + ", ".join([one] * rows)


def frame_row(session: int, frame: Frame) -> Row:
    """The row of a frame, for one of the statements `_FRAMES`. What nearly all have is left out."""
    seq, at, sender, channel, kind, text, eol, head, redactions = frame
    written, data = text_columns(text)
    number, named = (session << schema.BITS) + seq, None if kind == "message" else kind
    if channel == STDIO and eol == b"\n" and not redactions and head is data is None:
        return (number, at, sender, written, named) if named else (number, at, sender, written)
    return number, at, sender, channel, named, eol.decode("latin-1"), redactions, head, written, data


def _loses_key(frame: Frame, entries: list[Entry]) -> bool:
    """True if the key of a request in a frame cannot be made of that again: it was made before something was hidden."""
    return any(
        entry.key is not None and match.message_key(entry.message, frame.text, part) != entry.key
        for part, entry in enumerate(entries)
    )


def message_rows(session: int, frame: Frame, entries: list[Entry]) -> list[Row]:
    """Rows of the messages in one frame, each for one of the statements `_MESSAGES`. What the schema implies is left
    out."""
    seq, sender = frame.seq, frame.sender
    number = (session << schema.BITS) + seq
    rows: list[Row] = []
    for part, ((kind, method, rpc_id, name, status, _), answers, key, exchange, cue) in enumerate(entries):
        method, name = method and file.storable(method), name and file.storable(name)
        if sender == "client":
            exchange = None if kind == "request" and exchange == seq else exchange
        elif cue is None:
            cue = -1
        else:
            answers = None if answers == exchange == cue else answers
            exchange = None if exchange == cue else exchange or 0
        plain = part == 0 and answers is None and exchange is None
        if plain and name and key and sender == "client":
            rows.append((number, method, rpc_id, name, key))
        elif plain and status == "ok" and rpc_id and cue:
            rows.append((number, rpc_id, cue))
        elif plain and cue and kind == "noise" and status is None:
            rows.append((number, cue))
        elif status != "retry":  # which says something of another message: see `forget`
            rows.append((number + part, part, method, rpc_id, name, status, answers, exchange, cue, key))
    return rows


def to_be_retried(entries: list[Entry]) -> list[int]:
    """Requests that the client had to make again: only the last try is ever found. See `forget`."""
    if not entries or entries[0].message.status != "retry":
        return []  # those of a frame are retries, or none is
    # All requests of a batch have one number, which is enough to say once.
    return list(dict.fromkeys(e.answers for e in entries if e.message.status == "retry" and e.answers is not None))


def text_columns(text: bytes) -> tuple[str | None, bytes | None]:
    """A text where SQLite can hold it without loss, else bytes."""
    if b"\0" in text:
        return None, text
    try:
        return text.decode(), None
    except UnicodeDecodeError:
        return None, text
