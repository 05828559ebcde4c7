"""Cassettes on disk, for reading. Never writes; what a killed recorder left is tidied up first."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CassetteError, pasted
from ..wire import jsontext
from ..wire.frames import Exchange, Frame
from . import file, functions, schema

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

_BEFORE_ALL = -(1 << 63)
_BLOCK_FRAMES, _BLOCK_BYTES = 1_000, 4 << 20
_BLOCK_SESSIONS = 500
_UNREADABLE = (sqlite3.Error, OverflowError)  # the latter of a number beyond SQLite's, reckoned from one on the tape


class EmptyError(CassetteError):
    """Nothing was ever recorded into the file, or not even its tables were made."""


class Session(NamedTuple):
    """One recorded connection, as its row says."""

    id: int
    started_at: str
    ended_at: str | None
    transport: str
    target: str
    protocol_version: str | None
    client_name: str | None
    client_version: str | None
    server_name: str | None
    server_version: str | None
    exit_code: int | None
    recorder: str
    note: str | None
    extends: int | None
    run: str | None
    incomplete: str | None
    key_version: int


class Counts(NamedTuple):
    """How much a session holds, and when its last frame came."""

    frames: int = 0
    exchanges: int = 0
    open: int = 0
    errors: int = 0
    microseconds: int | None = None


Types = tuple[type, ...]  # that a value may be of

_TEXT, _NUMBER, _DATA, _NONE = (str,), (int,), (str, bytes), type(None)
FRAME_TYPES = (_NUMBER, _NUMBER, _TEXT, _TEXT, _TEXT, _DATA, _TEXT, (*_DATA, _NONE), _NUMBER)  # as they are read here
_SESSION_TYPES = tuple(
    ((int,) if name in ("id", "exit_code", "extends", "key_version") else (str,))
    + (() if name in ("id", "started_at", "transport", "target", "recorder", "key_version") else (_NONE,))
    for name in Session._fields
)
_NUMBER_OR_NONE, _TEXT_OR_NONE = (int, _NONE), (str, _NONE)
# Those of a message's columns. A request always has a method.
MESSAGE_TYPES: dict[str, Types] = {
    **dict.fromkeys(("frame", "part", "session", "seq"), _NUMBER),
    **dict.fromkeys(("sender", "kind"), _TEXT),
    **dict.fromkeys(("method", "rpc_id", "name", "status"), _TEXT_OR_NONE),
    **dict.fromkeys(("answers", "exchange", "cue"), _NUMBER_OR_NONE),
    "key": (bytes, _NONE),
}
_EXCHANGE_TYPES = (
    *(MESSAGE_TYPES[name] for name in ("session", "seq", "sender", "method", "name", "rpc_id")),
    *(_NUMBER_OR_NONE, (*_DATA, _NONE), _NUMBER, (*_DATA, _NONE), _NUMBER_OR_NONE),
)

# A request that was made again has lost its key: it does not count, whatever it was answered with.
_COUNTS = """WITH again AS (SELECT session, seq FROM messages
        WHERE session BETWEEN :first AND :last AND kind = 'request' AND key IS NULL)
    SELECT session, count(CASE WHEN kind = 'request' AND key IS NOT NULL THEN 1 END),
    count(CASE WHEN answers IS NOT NULL AND status <> 'retry' AND (session, answers) NOT IN again THEN 1 END),
    count(CASE WHEN status IN ('error', 'tool-error', 'refused') THEN 1 END)
    FROM messages WHERE session BETWEEN :first AND :last GROUP BY session"""
# In SQLite, `at` is then that of the frame with the greatest number.
_SIZES = """SELECT session, count(*), max(seq), at FROM frames
    WHERE session BETWEEN :first AND :last GROUP BY session"""
_EXCHANGES = f"""SELECT q.session, q.seq, q.sender, q.method, q.name, q.rpc_id,
    af.at - qf.at, {functions.text_of("qf", "q.part")}, q.part, {functions.text_of("af", "a.part")}, a.part
    FROM messages q JOIN frames qf ON qf.id = q.frame
    {functions.answer_of("q", "qf")} AND a.sender <> q.sender
    LEFT JOIN frames af ON af.id = a.frame
    WHERE q.session = ? AND q.kind = 'request' ORDER BY q.seq, q.part"""


class Cassette:
    """A cassette open for reading."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._copy: TemporaryDirectory[str] | None = None
        _check_readable(self.path, self.path)
        try:
            self._db = self._open()
        except sqlite3.Error as error:
            self._drop_copy()
            raise CassetteError(file.unreadable(self.path, error)) from None
        except CassetteError:
            self._drop_copy()
            raise

    def __enter__(self) -> Cassette:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        self._drop_copy()
        file.tidy(self.path)  # a recorder that left while we were reading could not

    @property
    def connection(self) -> sqlite3.Connection:
        """For those who ask in SQL of their own; read-only."""
        return self._db

    @property
    def source(self) -> str:
        """The file that is read: the cassette, or a copy of it."""
        return os.path.join(self._copy.name, "cassette.db") if self._copy else self.path

    def sessions(self) -> list[Session]:
        return list(self.each_session())

    def each_session(self) -> Iterator[Session]:
        """The same for those who need one at a time."""
        return chain.from_iterable(self.session_blocks())

    def session_blocks(self) -> Iterator[list[Session]]:
        """The same, some at a time: there may be very many."""
        last = _BEFORE_ALL
        while block := self._sessions("id > ? ORDER BY id LIMIT ?", (last, _BLOCK_SESSIONS)):
            yield block
            self.expect_onward(last, block[-1].id)
            last = block[-1].id

    def session(self, number: int | None = None) -> Session:
        """One session; without a number the newest."""
        # As text: it may be beyond SQLite's numbers.
        which, values = ("1", ()) if number is None else ("id = ?", (str(number),))
        found = self._sessions(f"{which} ORDER BY id DESC LIMIT 1", values)
        if found:
            return found[0]
        which = "a session" if number is None else f"session {number}"
        raise CassetteError(f"{self.path} does not hold {which}; see: mcp-tape ls {pasted(self.path)}")

    def _sessions(self, which: str, values: tuple[Any, ...]) -> list[Session]:
        rows = self.rows(f"SELECT {', '.join(Session._fields)} FROM sessions WHERE {which}", values)
        return [Session(*row) for row in self.expected(rows, _SESSION_TYPES, "sessions")]

    def counts(self, session: int) -> dict[str, int]:
        """Frames, exchanges, open requests and errors of a session."""
        *counts, _ = self.counts_of(session, session).get(session, Counts())
        return dict(zip(Counts._fields, counts, strict=False))

    def counts_of(self, first: int, last: int) -> dict[int, Counts]:
        """The same for all sessions from one to another that have something to count."""
        span = {"first": first, "last": last}
        found = {
            session: Counts(frames, microseconds=at if isinstance(at, int) else None)
            for session, frames, _, at in self.rows(_SIZES, span)
        }
        for session, requests, exchanges, errors in self.rows(_COUNTS, span):
            counts = found.get(session, Counts())
            found[session] = counts._replace(exchanges=exchanges, open=requests - exchanges, errors=errors)
        return found

    def exchanges(self, session: int) -> list[Exchange]:
        """Every request of a session, of either side, with its answer."""
        return [
            Exchange._make((*row, _member(asked, part, "params"), *_outcome(answer, answer_part), took))
            for *row, took, asked, part, answer, answer_part in self.expected(
                self.rows(_EXCHANGES, (session,)), _EXCHANGE_TYPES
            )
        ]

    def frames(self, session: int) -> Iterator[Frame]:
        """Every frame of a session, in order, verbatim.

        Read in blocks: a query left open while its reader takes its time would lock recorders out.
        """
        last = _BEFORE_ALL
        while block := self._block(session, last):
            yield from block
            self.expect_onward(last, block[-1].seq)
            last = block[-1].seq

    def frame(self, session: int, seq: int) -> Frame | None:
        """One frame of a session, if it has it."""
        found = self._block(session, max(seq - 1, _BEFORE_ALL), 1)
        return found[0] if found and found[0].seq == seq else None

    def _block(self, session: int, after: int, most: int = _BLOCK_FRAMES) -> list[Frame]:
        sql = """SELECT seq, at, sender, channel, kind, text, eol, head, redactions
                 FROM frames WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"""
        block: list[Frame] = []
        size = 0
        for row in self._rows(sql, (session, after, most)):
            if not all(map(isinstance, row, FRAME_TYPES)):
                raise self.odd("frames")
            seq, at, sender, channel, kind, text, eol, head, redactions = row
            block.append(
                Frame(
                    seq,
                    at,
                    sender,
                    channel,
                    kind,
                    _bytes(text),
                    _bytes(eol),
                    None if head is None else _bytes(head),
                    redactions,
                )
            )
            size += len(text)
            if size >= _BLOCK_BYTES:
                break
        return block

    def expected(self, rows: list[Any], types: Sequence[Types], table: str = "messages") -> list[Any]:
        """The same rows: SQLite takes any type in any column, and a stranger may have put it there."""
        for row in rows:
            if not all(map(isinstance, row, types)):
                raise self.odd(table)
        return rows

    def odd(self, table: str = "messages") -> CassetteError:
        """What to raise of a row that no recorder has written."""
        return CassetteError(f"cannot read {self.path}: a row of its table {table} holds what does not belong there")

    def expect_onward(self, before: Any, now: Any) -> None:
        """Refuse a file whose blocks of rows do not follow each other, for those who read by them."""
        try:
            file.expect_onward(before, now)
        except sqlite3.Error as error:
            raise CassetteError(file.unreadable(self.path, error)) from None

    def rows(self, sql: str, values: Any = ()) -> list[Any]:
        """The rows of a query, as plain tuples."""
        try:
            return self._db.execute(sql, values).fetchall()
        except _UNREADABLE as error:
            raise CassetteError(file.unreadable(self.path, error)) from None

    def _rows(self, sql: str, values: Any) -> Iterator[tuple[Any, ...]]:
        try:
            for row in self._db.execute(sql, values):  # noqa: UP028 - a closed reader must not reach the cursor
                yield row
        except _UNREADABLE as error:
            raise CassetteError(file.unreadable(self.path, error)) from None

    def _open(self) -> sqlite3.Connection:
        if not file.is_settled(self.path):
            self._settle()
            _check_readable(self.source, self.path)  # nothing is left where the first recorder was killed at its start
        db = file.connect_to_read(self.source)
        try:
            file.guard(db)
            functions.add_to(db)
            file.check(db, self.path)
        except BaseException:
            db.close()
            raise
        return db

    def _settle(self) -> None:
        """Put in order what somebody left. Where we may not write, in a copy."""
        if file.may_write(self.path):
            file.recover(self.path)
            return
        from tempfile import TemporaryDirectory

        self._copy = TemporaryDirectory(prefix="mcp-tape-")
        file.copy_with_journals(self.path, self.source)
        file.recover(self.source)

    def _drop_copy(self) -> None:
        if self._copy:
            self._copy.cleanup()


def _member(text: Any, part: int, name: str) -> Any:
    """A member of a message, as plain Python values; None where there is none."""
    try:
        body = jsontext.loads(text)
        message = body[part] if isinstance(body, list) else body
    except (ValueError, RecursionError, TypeError, IndexError):
        return None
    return message.get(name) if isinstance(message, dict) else None


def _outcome(text: Any, part: int) -> tuple[Any, Any]:
    return (None, None) if text is None else (_member(text, part, "result"), _member(text, part, "error"))


def _check_readable(path: str, name: str) -> None:
    """`name`: what an error calls it."""
    if not os.path.exists(path):
        raise CassetteError(
            f"there is no cassette at {name}; record one with: mcp-tape record -o {pasted(name)} -- SERVER"
        )
    if os.path.isfile(path) and not os.path.getsize(path):
        raise EmptyError(f"{name} is empty; record into it with: mcp-tape record -o {pasted(name)} -- SERVER")
    schema.check_header(path)


def frame_of(row: Sequence[Any]) -> Frame:
    """The frame of a row whose types were checked."""
    seq, at, sender, channel, kind, text, eol, head, redactions = row
    before = None if head is None else _bytes(head)
    return Frame(seq, at, sender, channel, kind, _bytes(text), _bytes(eol), before, redactions)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
