"""Rows of a cassette, made from frames and the messages in them, and inserted many at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice

from ..wire import match
from ..wire.channels import STDIO
from ..wire.frames import Frame, LedgerEntry
from . import file, schema

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    Row = tuple[Any, ...]
else:
    Row = tuple
EnteredFrame = tuple[int, Frame, list[LedgerEntry]]  # with the session that it belongs to

# Columns of the tables. Those of `facts` and `derived` come after the id.
SESSION = (
    "id started_at ended_at transport target protocol_version client_name client_version server_name server_version "
    "exit_code recorder note extends run label incomplete key_version"
).split()
FACTS = "elapsed, sender, channel, kind, eol, redactions, head, text, data"
DERIVED = "part, method, rpc_id, name, status, answers, exchange, cue, key"

# By the length of a row. Most rows need few values, and omitted ones save time, NULL above all.
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
_AT_ONCE = 64  # rows per statement, a power of two; one by one takes twice as long
_MOST_HELD = 1_000  # frames in one batch of `blocks`


class Rows:
    """Rows to insert in this order: their values as statements take them, in runs of rows of one length."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.runs: list[tuple[int, list[Any]]] = []  # the length of each row, and all values
        self._length = 0  # of the rows of the last run
        self._values: list[Any] = []
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return sum(len(values) // length for length, values in self.runs)

    def __iter__(self) -> Iterator[Row]:
        for length, values in self.runs:
            yield from zip(*[iter(values)] * length, strict=True)

    def add(self, row: Row) -> None:
        if len(row) != self._length:
            self._length, self._values = len(row), []
            self.runs.append((self._length, self._values))
        self._values += row


class Batch:
    """Frames and the messages in them as rows, each with its session."""

    def __init__(self, entered: Iterable[EnteredFrame] = ()) -> None:
        """Make the rows, without common values and without values that the schema implies."""
        self.frames, self.messages = frames, messages = Rows(), Rows()
        self.first: dict[int, int] = {}  # by session, the number of its first frame
        self.again: dict[tuple[int, int], None] = {}  # sessions and numbers of repeated requests: see `forget`
        self.loses_keys = False  # messages derived later would lose keys
        for session, (seq, at, sender, channel, kind, text, eol, head, redactions), entries in entered:
            number, named = (session << schema.BITS) + seq, None if kind == "message" else kind
            if session not in self.first:
                self.first[session] = seq
            written, data = text_columns(text)
            if channel == STDIO and eol == b"\n" and not redactions and head is data is None:
                frames.add((number, at, sender, written, named) if named else (number, at, sender, written))
            else:
                end = eol.decode("latin-1")
                frames.add((number, at, sender, channel, named, end, redactions, head, written, data))
                self.loses_keys = self.loses_keys or (redactions > 0 and _loses_key(text, entries))
            for part, ((what, method, rpc_id, name, status, _), answers, key, exchange, cue) in enumerate(entries):
                if sender == "client":
                    exchange = None if what == "request" and exchange == seq else exchange
                elif cue is None:
                    cue = -1
                else:
                    answers = None if answers == exchange == cue else answers
                    exchange = None if exchange == cue else exchange or 0
                plain = part == 0 and answers is None and exchange is None
                if plain and name and key and sender == "client":
                    messages.add((number, file.storable_text(method), rpc_id, file.storable_text(name), key))
                elif plain and status == "ok" and rpc_id and cue:
                    messages.add((number, rpc_id, cue))
                elif plain and cue and what == "noise" and status is None:
                    messages.add((number, cue))
                elif status != "retry":
                    method, name = file.storable_text(method), file.storable_text(name)
                    messages.add((number + part, part, method, rpc_id, name, status, answers, exchange, cue, key))
                elif answers is not None:  # about another message, and not one itself
                    self.again[session, answers] = None

    def messages_from(self, pending: dict[int, int]) -> Rows:
        """The rows of messages that are still missing: by session, those from this id on."""
        if all(schema.row_id(session, seq) >= pending[session] for session, seq in self.first.items()):
            return self.messages
        return Rows(row for row in self.messages if row[0] >= pending[row[0] >> schema.BITS])

    def without(self, session: int) -> Batch:
        rest = Batch()
        rest.frames = Rows(row for row in self.frames if row[0] >> schema.BITS != session)
        rest.messages = Rows(row for row in self.messages if row[0] >> schema.BITS != session)
        rest.first = {other: seq for other, seq in self.first.items() if other != session}
        rest.again = {(other, seq): None for other, seq in self.again if other != session}
        rest.loses_keys = self.loses_keys
        return rest


def blocks(entered: Iterable[EnteredFrame]) -> Iterator[Batch]:
    """Yield batches of many frames, so that memory stays small."""
    given = iter(entered)
    while held := list(islice(given, _MOST_HELD)):
        yield Batch(held)


def insert_frames(db: sqlite3.Connection, rows: Rows) -> None:
    _insert_rows(db, _FRAMES, rows)


def insert_messages(db: sqlite3.Connection, rows: Rows) -> None:
    _insert_rows(db, _MESSAGES, rows)


def _insert_rows(db: sqlite3.Connection, statements: dict[int, str], rows: Rows) -> None:
    """Insert rows in order, each by the statement for its length, several of one length at once."""
    for length, values in rows.runs:
        at, many = 0, _AT_ONCE
        while left := (len(values) - at) // length:
            while many > left:
                many //= 2
            db.execute(_for_many(statements[length], many), values[at : at + many * length])
            at += many * length


@cache
def _for_many(insert: str, rows: int) -> str:
    """A statement that inserts several rows, from one that inserts a single row."""
    head, values, one = insert.partition("VALUES ")
    return head + values + ", ".join([one] * rows)


def _loses_key(text: bytes, entries: list[LedgerEntry]) -> bool:
    """True if a request's key cannot be made from its frame: it was made before a value was redacted."""
    return any(
        entry.key is not None and match.message_key(entry.message, text, part) != entry.key
        for part, entry in enumerate(entries)
    )


def text_columns(text: bytes) -> tuple[str | None, bytes | None]:
    """Return a text if SQLite can hold it without loss, else bytes."""
    if b"\0" in text:
        return None, text
    try:
        return text.decode(), None
    except UnicodeDecodeError:
        return None, text
