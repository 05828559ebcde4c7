"""Cassettes on disk, for reading. Writes only to finish the work of a killed recorder.

`Session` and `MessageRow` are columns of `sessions` and `messages`; `FRAME_COLUMNS` hold the fields of `Frame`. SELECT
lists are made from them (`columns`), and so are checks (`types_of`, `row_maker`): SQLite accepts any type in any
column, and a cassette may be untrusted. The rows of a session are a range of ids: `schema.row_ids`. `Cassette.pages`
reads rows that may not fit in memory.
"""

from __future__ import annotations

import os
from itertools import chain

from ..errors import CassetteError, quote_path
from ..light import NamedTuple, sqlite3
from ..wire.frames import Exchange, Frame
from . import file, functions, journals, schema
from .file import OddRowError

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import ExitStack
    from tempfile import TemporaryDirectory
    from typing import Any

    from sqlite_utils import Database

    from .pages import T, Values
    from .query.exchanges import Counts

Types = tuple[type, ...]  # the types that a value may have

_BY_NAME: dict[str, type] = {"int": int, "str": str, "bytes": bytes, "None": type(None)}
_DATA = (str, bytes)  # a text, UTF-8 or not
_PAGE_SESSIONS = 500
_UNREADABLE = (sqlite3.Error, OverflowError)  # OverflowError: a number beyond SQLite's, computed from one on the tape


class EmptyError(CassetteError):
    """A file that nothing was ever recorded into; even its tables are missing."""


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
    label: str | None
    incomplete: str | None
    key_version: int


class MessageRow(NamedTuple):
    """A row of `messages`. A request always has a method."""

    id: int
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


def columns(fields: Sequence[str], table: str = "") -> str:
    return ", ".join(f"{table}.{name}" if table else name for name in fields)


def types_of(row_type: type) -> tuple[Types, ...]:
    """The types that each field of a row type may have, by its annotations."""
    # get_type_hints would take a hundred times as long, which start-up cannot afford.
    annotations = (str(getattr(hint, "__forward_arg__", hint)) for hint in row_type.__annotations__.values())
    return tuple(tuple(_BY_NAME[name] for name in text.split(" | ")) for text in annotations)


def row_maker(row_type: type[T], table: str | None = None) -> Callable[[Values], T]:
    """A function that makes a row from its values, and refuses values of other types."""
    types, make = types_of(row_type), row_type._make  # type: ignore[attr-defined]

    def make_row(values: Values) -> T:
        if not all(map(isinstance, values, types)):
            raise OddRowError(table)
        return make(values)  # type: ignore[no-any-return]

    return make_row


MESSAGE_TYPES = dict(zip(MessageRow._fields, types_of(MessageRow), strict=True))
_FRAME_TYPES = (int,), (int,), (str,), (str,), (str,), _DATA, (str,), (*_DATA, type(None)), (int,)
TEXT = "coalesce(text, data)"  # of a frame
FRAME_COLUMNS = f"seq, elapsed, sender, channel, kind, {TEXT}, eol, head, redactions"


def frame_of(values: Values) -> Frame:
    """The frame of a row with `FRAME_COLUMNS`."""
    if not all(map(isinstance, values, _FRAME_TYPES)):
        raise OddRowError("frames")
    seq, at, sender, channel, kind, text, eol, head, redactions, *_ = values
    before = None if head is None else _bytes(head)
    return Frame(seq, at, sender, channel, kind, _bytes(text), _bytes(eol), before, redactions)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


OF_SESSION = "id BETWEEN ? AND ?"  # the values are `schema.row_ids`
_FRAMES = f"SELECT {FRAME_COLUMNS}, id FROM frames WHERE "
_SESSIONS = f"SELECT {columns(Session._fields)} FROM sessions WHERE "
_session = row_maker(Session, "sessions")


class Cassette:
    """A cassette open for reading; with a label, only the sessions of that server."""

    def __init__(self, path: str | os.PathLike[str], label: str | None = None) -> None:
        self.path = self.local = os.fspath(path)  # of a remote one, `local` is a copy
        self.label = label
        self._copy: TemporaryDirectory[str] | None = None
        self.closing: ExitStack | None = None  # released on exit
        self._for_queries: Database | None = None
        self.lost: tuple[str, ...] = ()  # losses of its format, in words
        if schema.is_remote(self.path):
            from .text import non_sqlite

            non_sqlite.from_afar(self, self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        self._database: str | None = self.local  # the SQLite file; None if it is in memory
        try:
            _check_readable(self.local, self.path)
            self._db = self._open()
        except schema.NoDatabaseError as error:
            self._db = self._read(error)
        except sqlite3.Error as error:
            self._drop_copy()
            raise self._read_error(error) from None
        except CassetteError:
            self._drop_copy()
            raise

        self.lock = file.ReadLock(self._db)

    def __enter__(self) -> Cassette:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        if self._for_queries is not None:
            self._for_queries.close()
        self._drop_copy()
        if self.closing is not None:
            self.closing.close()
        file.tidy(self.path)  # a recorder that ended during the read could not

    @property
    def is_writable(self) -> bool:
        """True if a recorder can add to it: a local file, not another tool's recording."""
        from .text import non_sqlite  # only for reports

        return self.local == self.path and (self._database is not None or not non_sqlite.is_foreign(self.path))

    @property
    def connection(self) -> sqlite3.Connection:
        """The read-only connection, for other modules' SQL."""
        return self._db

    @property
    def database(self) -> Database:
        """The tables and views as a `sqlite_utils.Database`, on a connection of its own that can only read."""
        if self._for_queries is None:
            from .query.sql import open_database

            try:
                self._for_queries = open_database(self._connect()[0])
            except _UNREADABLE as error:
                raise self._read_error(error) from None
        return self._for_queries

    @property
    def source(self) -> str:
        """The file to read: the cassette or a copy of it."""
        if self._database is None and self._copy is None:
            from .text import non_sqlite

            self._copy = non_sqlite.copy_to_file(self._db)
        return os.path.join(self._copy.name, "cassette.db") if self._copy else self._database or self.local

    def sessions(self) -> list[Session]:
        return list(self.each_session())

    def each_session(self) -> Iterator[Session]:
        """Yield every session, in recorded order."""
        return chain.from_iterable(self.session_blocks())

    def session_blocks(self, after: int | None = None) -> Iterator[list[Session]]:
        """Yield every session, or those after one, in blocks, because there may be many."""
        behind = () if after is None else (after,)
        return self.pages(f"{_SESSIONS} 1", (), {"id": 0}, _session, after=behind, most=_PAGE_SESSIONS)

    def session(self, number: int | None = None) -> Session:
        """One session; the newest without a number."""
        # The number as text, because it may be too large for SQLite.
        which, values = ("1", ()) if number is None else ("id = ?", (str(number),))
        found: list[Session] = self.rows(f"{_SESSIONS} {which} ORDER BY id DESC LIMIT 1", values, _session)
        if found:
            return found[0]
        which = "a session" if number is None else f"session {number}"
        raise CassetteError(f"{self.path} does not hold {which}", f"; see: mcp-tape ls {quote_path(self.path)}")

    def counts(self, session: int) -> dict[str, int]:
        """Frames, exchanges, open requests and errors of a session."""
        from .query.exchanges import counts  # as in `exchanges`

        return counts(self, session)

    def counts_of(self, first: int, last: int) -> dict[int, Counts]:
        """Counts of the sessions in a range, except empty ones."""
        from .query.exchanges import counts_of

        return counts_of(self, first, last)

    def exchanges(self, session: int) -> list[Exchange]:
        """Every request of a session, of either side, with its answer."""
        from .query.exchanges import exchanges  # not needed at the start of a replay

        return list(exchanges(self, session))

    def frames(self, session: int) -> Iterator[Frame]:
        """Yield every frame of a session, in order, verbatim."""
        text, key = Frame._fields.index("text"), {"id": len(Frame._fields)}
        bounds = {"within": schema.row_ids(session), "text": text}
        return chain.from_iterable(self.pages(f"{_FRAMES} 1", (), key, frame_of, **bounds))

    def frame(self, session: int, seq: int) -> Frame | None:
        """One frame of a session; None if it does not exist."""
        return next(iter(self.rows(f"{_FRAMES} id = ?", (schema.row_id(session, seq),), frame_of)), None)

    def pages(
        self, sql: str, values: Sequence[Any], key: Mapping[str, int], make: Callable[[Values], T], **bounds: Any
    ) -> Iterator[list[T]]:
        """Yield the rows of a query in pages: see `pages.pages`."""
        from .pages import pages  # not needed at the start of a replay

        try:
            yield from pages(self._db, sql, values, key, make, **bounds)
        except _UNREADABLE as error:
            raise self._read_error(error) from None

    def expect_types(self, rows: list[Any], types: Sequence[Types], table: str = "messages") -> list[Any]:
        """The rows, if each of their values has one of these types."""
        for column, expected in zip(zip(*rows, strict=True), types, strict=True) if rows else ():
            if not set(map(type, column)).issubset(expected):
                raise self.odd_row_error(table)
        return rows

    def odd_row_error(self, table: str | None = "messages") -> CassetteError:
        """The error for a row that no recorder has written."""
        return self._read_error(OddRowError(table))

    def rows(self, sql: str, values: Any = (), make: Callable[[Values], Any] | None = None) -> list[Any]:
        """All rows of a query, as tuples or converted by `make`."""
        try:
            found = self._db.execute(sql, values).fetchall()
            return found if make is None else list(map(make, found))
        except _UNREADABLE as error:
            raise self._read_error(error) from None

    def _read_error(self, error: Exception) -> CassetteError:
        odd = isinstance(error, OddRowError)
        return CassetteError(f"cannot read {self.path}: {error}" if odd else file.describe_unreadable(self.path, error))

    def _open(self) -> sqlite3.Connection:
        if file.header_says_wal(self.local) or journals.is_hot(self.local):
            # Leftover journals are applied; in a copy if we may not write.
            file.recover(self.local) if self._may_write() else self._read_a_copy()
            _check_readable(self.source, self.path)  # it is empty if the first recorder was killed at its start
        # Not while it is open: closing the file after reading it would give up SQLite's locks on it.
        # https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
        may_be_recorded = file.header_says_wal(self.source)
        db, is_whole = self._connect()
        if is_whole:
            return db
        try:
            self._complete(db, may_be_recorded)
        finally:
            db.close()
        return self._connect()[0]

    def _read(self, error: CassetteError) -> sqlite3.Connection:
        """Read another format, such as JSON lines, into memory."""
        from .text import losses, non_sqlite  # only for such a file

        self._database = None
        db, self.lost = non_sqlite.read(self.local, self.label, type(self), error)
        losses.report(self.path, self.lost)
        functions.add_to(db)
        return db

    def _connect(self) -> tuple[sqlite3.Connection, bool]:
        """Return a connection, and whether all messages are derived."""
        db = file.connect_to_read(self.source)
        try:
            file.guard(db)
            functions.add_to(db)
            with file.begin_snapshot(db):
                file.check(db, self.path)
                db.execute(f"PRAGMA cache_size = -{file.CACHE}")  # reads the schema, which has been checked now
                is_whole = db.execute(f"SELECT 1 FROM sessions WHERE {schema.PENDING} LIMIT 1").fetchone() is None
            if self.label is not None:
                db.execute(file.label_view_sql(self.label))
            return db, is_whole
        except BaseException:
            db.close()
            raise

    def _complete(self, db: sqlite3.Connection, may_be_recorded: bool) -> None:
        """Derive messages that a killed recorder left; in a copy if we may not write.

        A live recorder does so itself.
        """
        from .writer import complete  # only after a kill

        if may_be_recorded and not file.is_abandoned(db):
            return
        db.close()
        if self._copy is None and not self._may_write():
            self._read_a_copy()
        complete(self.source, _read_frames)

    def _may_write(self) -> bool:
        return self.local == self.path and file.may_write(self.path)

    def _read_a_copy(self) -> None:
        self._copy = file.make_temporary(lambda to: file.copy_with_journals(self.local, to))

    def _drop_copy(self) -> None:
        if self._copy:
            self._copy.cleanup()


def _read_frames(db: sqlite3.Connection, session: int) -> Iterator[Frame]:
    return map(frame_of, db.execute(f"{_FRAMES} {OF_SESSION} ORDER BY id", schema.row_ids(session)))


def _check_readable(path: str, name: str) -> None:
    """Refuse a file that is missing, empty or not a cassette. Errors call it `name`."""
    is_there = os.path.exists(path)
    if is_there and (os.path.getsize(path) or not os.path.isfile(path)):
        schema.check_header(path)
    elif schema.is_there(path):
        raise schema.NoDatabaseError(f"{name} is empty")  # but its recording is beside it
    elif is_there:
        raise EmptyError(f"{name} is empty", f"; record into it with: mcp-tape record -o {quote_path(name)} -- SERVER")
    else:
        hint = f"; record one with: mcp-tape record -o {quote_path(name)} -- SERVER"
        raise CassetteError(f"there is no cassette at {name}", hint)
