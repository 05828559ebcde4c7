"""Opening, checking and tidying up a cassette's SQLite file.

Knows connections, journal modes and the schema's shape, but nothing of the recording. Checks without SQLite are in
`schema` and `journals`, because a relay makes them too; `foreign_schema` is only for files that other programs changed.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from ..errors import CassetteError, quote_path
from ..light import closing, sqlite3, suppress
from ..system import calls
from . import journals, schema

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable
    from tempfile import TemporaryDirectory

_MOST_BYTES = 1 << 30  # per value: a cassette may be untrusted
_TRIES = 20
_QUIET = 1.0  # seconds without a new frame: a recorder with messages to derive keeps adding frames
_PATIENCE = 5000  # milliseconds that SQLite itself waits for others
_LONGEST = 0.05  # seconds that a reader keeps its lock, for which writers wait
_VIEWS = {one for one in schema.STATEMENTS if one.startswith(("CREATE VIEW frames", "CREATE VIEW messages"))}
_PLAIN = frozenset(b"/._-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class OddRowError(sqlite3.DatabaseError):
    """A row that no recorder has written."""

    def __init__(self, table: str | None = None) -> None:
        which = f"a row of its table {table}" if table else "one of its rows"
        super().__init__(f"{which} has an invalid value")


def version_of(db: sqlite3.Connection) -> int:
    """The schema version of an open file."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def label_view_sql(label: str) -> str:
    """A statement that limits all queries of a connection to the sessions of one server.

    SQLite resolves names among temporary objects first: https://www.sqlite.org/lang_naming.html
    """
    quoted = label.replace("'", "''")
    return f"CREATE TEMP VIEW sessions AS SELECT * FROM main.sessions WHERE label = '{quoted}'"


def may_be_recorded(db: sqlite3.Connection) -> bool:
    """True if another process may be using an open file.

    Reading the header instead would give up our locks on closing.
    """
    return bool(db.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


def connect(path: str) -> sqlite3.Connection:
    """Open for writing. SQLite itself waits for others, for a while."""
    db = _connect(path, "rwc")
    db.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
    return db


def connect_in_memory() -> sqlite3.Connection:
    """A database without a file."""
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def connect_to_read(path: str) -> sqlite3.Connection:
    """Open read-only. An untrusted file also needs `guard`."""
    return _connect(path, "ro")


def _connect(path: str, mode: str) -> sqlite3.Connection:
    """Open a file; the only way to do it, because SQLite must not follow journals that lead elsewhere."""
    journals.check(path)
    return sqlite3.connect(_uri(path, mode), uri=True, isolation_level=None, check_same_thread=False)


def attach_to_read(db: sqlite3.Connection, path: str, name: str = "new") -> None:
    """Attach another file read-only. Writing two together would need a super-journal, which a kill leaves behind."""
    journals.check(path)
    db.execute(f"ATTACH ? AS {name}", (_uri(path, "ro"),))


def make_schema(db: sqlite3.Connection) -> None:
    """Turn an empty file into a cassette."""
    db.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
    db.execute("BEGIN IMMEDIATE")
    if version_of(db) == 0 and not objects(db):
        for statement in schema.SCHEMA.split(";\n"):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {schema.VERSION}")
    db.execute("COMMIT")


def _uri(path: str, mode: str) -> str:
    """The URI of a file (https://www.sqlite.org/uri.html). Never immutable: a second writer makes that "malformed"."""
    name = os.fsencode(calls.uri_path(path))
    quoted = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in name)
    return f"file:{quoted}?mode={mode}"


def guard(db: sqlite3.Connection) -> None:
    """Prevent an untrusted file from running code or endless queries: https://www.sqlite.org/security.html"""
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
    if sys.version_info >= (3, 11):
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)


def begin_snapshot(db: sqlite3.Connection) -> sqlite3.Connection:
    """A context in which all queries see one state of the file, with a single lock."""
    db.execute("BEGIN")
    return db  # the connection's own context ends the transaction


class ReadLock:
    """The lock of a reader, held while one look-up follows another.

    Otherwise SQLite takes and releases it for each statement, which takes longer than the look-up. A writer waits for
    it hardly longer than `_LONGEST`, and all look-ups meanwhile see one state of the file.
    """

    def __init__(self, db: sqlite3.Connection | None = None) -> None:
        """Without a connection, nothing is held."""
        self._db = db
        self._since = 0.0
        self.is_held = False

    def hold(self, now: float) -> None:
        """Hold it from the next look-up on. Writers get their turn before that if it has been held for long."""
        if self.is_held and now - self._since > _LONGEST:
            self.release()
        if not self.is_held and self._db is not None:
            self._db.execute("BEGIN")
            self._since, self.is_held = now, True

    def release(self) -> None:
        if self.is_held and self._db is not None:
            self.is_held = False
            with suppress(sqlite3.Error):  # it has ended: after an error of SQLite's, or with the connection
                self._db.execute("COMMIT")


def switch_to_wal(db: sqlite3.Connection) -> bool:
    """Switch to WAL mode and return whether that worked.

    In WAL mode, readers and writers need not wait for each other, and no process can switch it back.
    """
    for _ in range(100):
        try:
            if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                return False
            # SQLite locks the file on first access. Before that, a reader may have switched it back.
            db.execute("SELECT 1 FROM sqlite_master").fetchone()
            if db.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                return True
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                return False
            # Unlike a transaction, a change of mode does not wait for others.
            db.execute("BEGIN EXCLUSIVE")
            db.execute("COMMIT")
    return False


def is_locked(error: sqlite3.Error) -> bool:
    """Return whether another process was using the file, so that a retry may work."""
    return "lock" in str(error)


def is_full(error: Exception) -> bool:
    """Return whether the disk was full, so that a later try may work."""
    return "disk is full" in str(error)


def recover(path: str) -> None:
    """Apply a leftover journal of either kind."""
    with closing(connect(path)) as db:
        with suppress(sqlite3.Error):  # another process is writing; the next reader reports anything worse
            db.execute("PRAGMA schema_version").fetchone()  # any access makes SQLite roll back
        settle(db)


def is_abandoned(db: sqlite3.Connection) -> bool:
    """Wait to see whether the recorders of sessions with underived messages are gone: they would add frames."""
    span = f"BETWEEN s.id << {schema.BITS} AND (s.id << {schema.BITS}) + {schema.MOST}"
    sql = f"SELECT id, (SELECT max(id) FROM facts WHERE id {span}) FROM sessions s WHERE {schema.PENDING}"
    before, end = db.execute(sql).fetchall(), monotonic() + _QUIET
    while monotonic() < end:
        sleep(_QUIET / 10)
        if db.execute(sql).fetchall() != before:
            return False
    return True


def settle(db: sqlite3.Connection) -> None:
    """Return to a single file, if no other process uses it."""
    with suppress(sqlite3.Error):  # another process reads or records: the last one does it
        db.execute("PRAGMA busy_timeout = 0")
        ((busy, *_),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ((level,),) = db.execute("PRAGMA synchronous")
        if not busy:  # all data is on disk, and a power cut may leave either mode
            db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute(f"PRAGMA synchronous = {level}")


def make_temporary(make: Callable[[str], None]) -> TemporaryDirectory[str]:
    """Make a file to read: `cassette.db` in a directory of its own."""
    from tempfile import TemporaryDirectory  # not needed at start-up

    place = TemporaryDirectory(prefix="mcp-tape-")
    try:
        make(os.path.join(place.name, "cassette.db"))
    except BaseException:
        place.cleanup()
        raise
    return place


def copy_with_journals(path: str, copy: str) -> None:
    """Make a consistent copy with journals applied, even during writes."""
    import shutil

    path = os.path.realpath(path)
    journals.check(path)
    if journals.super_journal(path) is not None:  # the copy's would lead SQLite back to the original files
        raise CassetteError(f"{path} has a journal to apply, but cannot be written; make it and its directory writable")
    for _ in range(_TRIES):
        before = file_state(path)
        shutil.copyfile(path, copy)
        for ending in ("-journal", "-wal"):
            with suppress(FileNotFoundError):
                os.unlink(copy + ending)
            with suppress(FileNotFoundError):
                shutil.copyfile(path + ending, copy + ending)
        # A writer adds to a journal first: while the file is unchanged, file and journal belong together.
        if file_state(path) == before:
            recover(copy)
            return
    raise CassetteError(f"{path} is written all the time, so it cannot be copied; try again, or make it writable")


def file_state(path: str) -> tuple[int, ...] | None:
    """Inode, size and time of a file, which change with it; None without a file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def tidy(path: str) -> None:
    """Apply a killed recorder's journal, if there is one and we may write."""
    with suppress(OSError, CassetteError):  # gone, or must not be touched
        if header_says_wal(path) and may_write(path):
            recover(path)


def may_write(path: str) -> bool:
    path = os.path.realpath(path)  # SQLite keeps journals beside the file itself
    return os.access(path, os.W_OK) and os.access(os.path.dirname(path) or ".", os.W_OK)


def identity(path: str | int) -> tuple[int, int] | None:
    """The device and inode of the file behind a path or a descriptor; None without a file."""
    try:
        file = os.stat(path)
    except OSError:
        return None
    return file.st_dev, file.st_ino


def check(db: sqlite3.Connection, path: str) -> None:
    """Refuse a file that is not a cassette, or that was tampered with."""
    if db.execute("PRAGMA application_id").fetchone()[0] != schema.APPLICATION_ID:
        raise CassetteError(f"{path} is a SQLite database, but not a cassette")
    schema.check_version(path, version_of(db))
    found = objects(db)
    missing = schema.TABLES - {name for kind, name, _ in found if kind == "table"}
    if missing:
        raise CassetteError(f"{path} is not a complete cassette: it has no table {', '.join(sorted(missing))}")
    if any(kind == "trigger" for kind, _, _ in found):
        raise CassetteError(f"{path} holds SQL triggers, which a cassette never does; it was left alone")
    statements = {sql for *_, sql in found if sql is not None}
    if not schema.STATEMENTS.issuperset(statements):
        from . import foreign_schema  # only if it differs from ours

        foreign_schema.check(db, path, found)
    if not statements.issuperset(_VIEWS):
        for view in _VIEWS:  # the file's own views are not used: they may be endless
            db.execute(view.replace("CREATE VIEW", "CREATE TEMP VIEW IF NOT EXISTS", 1))


def objects(db: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    """The objects of a schema: type, name and SQL."""
    try:
        return db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    except UnicodeDecodeError:  # SQLite's message quotes a name with a stray byte
        raise sqlite3.DatabaseError("malformed database schema") from None


def header_says_wal(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"


def describe_unreadable(path: str, error: Exception) -> str:
    return f"cannot read {path}: {error}; if it is damaged, try: sqlite3 {quote_path(path)} .recover"


def storable_text(text: str | None) -> str | None:
    """A text that SQLite can store: lone surrogates, which a method or name may contain, are replaced."""
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()
