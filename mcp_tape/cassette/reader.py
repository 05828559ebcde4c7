"""Cassettes on disk, for reading. Never writes; what a killed recorder left is tidied up first.

`Session` and `MessageRow` are the columns of their tables; those of `frames` are the fields of `Frame`. SELECT lists
are made of them (`columns`), and so are checks (`types_of`, `row_maker`): SQLite takes any type in any column, and a
stranger may have put it there. What may be too much for memory is read by `Cassette.pages`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CassetteError, pasted
from ..wire import jsontext
from ..wire.frames import Exchange, Frame
from . import file, functions, journals, schema

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from .pages import T, Values

Types = tuple[type, ...]  # that a value may be of

FAILED = ("error", "tool-error", "refused")  # statuses of an answer
_BY_NAME: dict[str, type] = {"int": int, "str": str, "bytes": bytes, "None": type(None)}
_DATA = (str, bytes)  # a text, whether or not it is UTF-8
_PAGE_SESSIONS = 500
_UNREADABLE = (sqlite3.Error, OverflowError)  # the latter of a number beyond SQLite's, computed from one on the tape


class EmptyError(CassetteError):
    """Nothing was ever recorded into the file; not even its tables are there."""


class OddRowError(sqlite3.DatabaseError):
    """A row that no recorder has written."""

    def __init__(self, table: str | None = None) -> None:
        which = f"a row of its table {table}" if table else "one of its rows"
        super().__init__(f"{which} holds what does not belong there")


class Session(NamedTuple):
    """One recorded connection: a row of `sessions`."""

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


class MessageRow(NamedTuple):
    """A row of `messages`. A request always has a method."""

    frame: int
    part: int
    session: int
    seq: int
    sender: str
    kind: str
    method: str | None
    rpc_id: str | None
    name: str | None
    status: str | None
    answers: int | None
    key: bytes | None
    exchange: int | None
    cue: int | None


class Counts(NamedTuple):
    """The size of a session, and the time of its last frame."""

    frames: int = 0
    exchanges: int = 0
    open: int = 0
    errors: int = 0
    microseconds: int | None = None


def columns(fields: Sequence[str], table: str = "") -> str:
    return ", ".join(f"{table}.{name}" if table else name for name in fields)


def types_of(row_type: type) -> tuple[Types, ...]:
    """The types that each field of a row type may be of, by its annotations."""
    # get_type_hints would take a hundred times as long, and start-up counts.
    annotations = (hint.__forward_arg__ for hint in row_type.__annotations__.values())
    return tuple(tuple(_BY_NAME[name] for name in text.split(" | ")) for text in annotations)


def row_maker(row_type: type[T], table: str | None = None) -> Callable[[Values], T]:
    """A function that makes a row of a type from its values, and refuses values of other types."""
    types, make = types_of(row_type), row_type._make  # type: ignore[attr-defined]

    def made(values: Values) -> T:
        if not all(map(isinstance, values, types)):
            raise OddRowError(table)
        return make(values)  # type: ignore[no-any-return]

    return made


MESSAGE_TYPES = dict(zip(MessageRow._fields, types_of(MessageRow), strict=True))
_FRAME_TYPES = (int,), (int,), (str,), (str,), (str,), _DATA, (str,), (*_DATA, type(None)), (int,)
FRAME_COLUMNS = columns(Frame._fields)


def frame_of(values: Values) -> Frame:
    """The frame of a row with `FRAME_COLUMNS`."""
    if not all(map(isinstance, values, _FRAME_TYPES)):
        raise OddRowError("frames")
    seq, at, sender, channel, kind, text, eol, head, redactions = values
    before = None if head is None else _bytes(head)
    return Frame(seq, at, sender, channel, kind, _bytes(text), _bytes(eol), before, redactions)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


_EXCHANGE_TYPES = (
    *(MESSAGE_TYPES[name] for name in ("session", "seq", "sender", "method", "name", "rpc_id")),
    *((int, type(None)), (*_DATA, type(None)), (int,), (*_DATA, type(None)), (int, type(None))),
)
_FRAMES = f"SELECT {FRAME_COLUMNS} FROM frames WHERE session = ?"
_SESSIONS = f"SELECT {columns(Session._fields)} FROM sessions WHERE "
_session = row_maker(Session, "sessions")
# A request that was made again has lost its key, and does not count, whatever its answer.
_COUNTS = f"""WITH again AS (SELECT session, seq FROM messages
        WHERE session BETWEEN :first AND :last AND kind = 'request' AND key IS NULL)
    SELECT session, count(CASE WHEN kind = 'request' AND key IS NOT NULL THEN 1 END),
    count(CASE WHEN answers IS NOT NULL AND status <> 'retry' AND (session, answers) NOT IN again THEN 1 END),
    count(CASE WHEN status IN {FAILED} THEN 1 END)
    FROM messages WHERE session BETWEEN :first AND :last GROUP BY session"""
# `at` is that of the row with the maximum: https://www.sqlite.org/lang_select.html#bareagg
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
        """The read-only connection, for SQL of others."""
        return self._db

    @property
    def source(self) -> str:
        """The file that is read: the cassette or a copy of it."""
        return os.path.join(self._copy.name, "cassette.db") if self._copy else self.path

    def sessions(self) -> list[Session]:
        return list(self.each_session())

    def each_session(self) -> Iterator[Session]:
        """Every session, in recorded order, one at a time."""
        return chain.from_iterable(self.session_blocks())

    def session_blocks(self) -> Iterator[list[Session]]:
        """Every session, some at a time, as there may be very many."""
        return self.pages(f"{_SESSIONS} 1", (), {"id": 0}, _session, most=_PAGE_SESSIONS)

    def session(self, number: int | None = None) -> Session:
        """One session; without a number the newest."""
        # The number as text, as it may be too large for SQLite.
        which, values = ("1", ()) if number is None else ("id = ?", (str(number),))
        found: list[Session] = self.rows(f"{_SESSIONS} {which} ORDER BY id DESC LIMIT 1", values, _session)
        if found:
            return found[0]
        which = "a session" if number is None else f"session {number}"
        raise CassetteError(f"{self.path} does not hold {which}; see: mcp-tape ls {pasted(self.path)}")

    def counts(self, session: int) -> dict[str, int]:
        """Frames, exchanges, open requests and errors of a session."""
        *counts, _ = self.counts_of(session, session).get(session, Counts())
        return dict(zip(Counts._fields, counts, strict=False))

    def counts_of(self, first: int, last: int) -> dict[int, Counts]:
        """Counts of the sessions from one to another, but for empty ones."""
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
        found = self.expected(self.rows(_EXCHANGES, (session,)), _EXCHANGE_TYPES)
        exchanges = []
        for *row, took, asked, part, answer, of in found:
            outcome = _member(answer, of, "result"), _member(answer, of, "error")
            exchanges.append(Exchange._make((*row, _member(asked, part, "params"), *outcome, took)))
        return exchanges

    def frames(self, session: int) -> Iterator[Frame]:
        """Every frame of a session, in order, verbatim."""
        text = Frame._fields.index("text")
        return chain.from_iterable(self.pages(_FRAMES, (session,), {"seq": 0}, frame_of, text=text))

    def frame(self, session: int, seq: int) -> Frame | None:
        """One frame of a session; None where it has no such frame."""
        return next(iter(self.rows(f"{_FRAMES} AND seq = ?", (session, seq), frame_of)), None)

    def pages(
        self, sql: str, values: Sequence[Any], key: Mapping[str, int], make: Callable[[Values], T], **bounds: Any
    ) -> Iterator[list[T]]:
        """The rows of a query, some at a time: see `pages.pages`."""
        from .pages import pages  # replay starts without it

        try:
            yield from pages(self._db, sql, values, key, make, **bounds)
        except _UNREADABLE as error:
            raise self._unreadable(error) from None

    def expected(self, rows: list[Any], types: Sequence[Types], table: str = "messages") -> list[Any]:
        """The rows, if each of their values is of one of these types."""
        for row in rows:
            if not all(map(isinstance, row, types)):
                raise self.odd(table)
        return rows

    def odd(self, table: str | None = "messages") -> CassetteError:
        """The error of a row that no recorder has written."""
        return self._unreadable(OddRowError(table))

    def rows(self, sql: str, values: Any = (), make: Callable[[Values], Any] | None = None) -> list[Any]:
        """All rows of a query, as tuples or made into something else."""
        try:
            found = self._db.execute(sql, values).fetchall()
            return found if make is None else list(map(make, found))
        except _UNREADABLE as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> CassetteError:
        odd = isinstance(error, OddRowError)
        return CassetteError(f"cannot read {self.path}: {error}" if odd else file.unreadable(self.path, error))

    def _open(self) -> sqlite3.Connection:
        if file.header_says_wal(self.path) or journals.is_hot(self.path):
            self._settle()
            _check_readable(self.source, self.path)  # it is empty if the first recorder was killed at its start
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
        """Apply journals that were left behind; in a copy where we may not write."""
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
    """A member of a message as plain Python values; None where there is none."""
    try:
        body = jsontext.loads(text)
        message = body[part] if isinstance(body, list) else body
    except (ValueError, RecursionError, TypeError, IndexError):
        return None
    return message.get(name) if isinstance(message, dict) else None


def _check_readable(path: str, name: str) -> None:
    """Refuse a file that is missing, empty or no cassette. Errors call it by `name`."""
    if not os.path.exists(path):
        raise CassetteError(
            f"there is no cassette at {name}; record one with: mcp-tape record -o {pasted(name)} -- SERVER"
        )
    if os.path.isfile(path) and not os.path.getsize(path):
        raise EmptyError(f"{name} is empty; record into it with: mcp-tape record -o {pasted(name)} -- SERVER")
    schema.check_header(path)
