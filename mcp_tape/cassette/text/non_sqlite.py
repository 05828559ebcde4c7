"""Opens files that are not SQLite: each is read into a database in memory, and nothing is written beside it.

JSON lines are our own text cassettes. Frames that were recorded into one but are not in its lines yet are read too
(`working`). Entry points read recordings of other tools, and URLs (`extensions`).
"""

from __future__ import annotations

import os
import sys
from time import gmtime  # of a given time; datetime is slow to load

from ...errors import CassetteError, quote_path, replace_control_characters
from ...light import closing, sqlite3, suppress
from .. import batch, file, schema
from . import read as lines
from .recognize import is_text

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from tempfile import TemporaryDirectory
    from typing import Any

    from ..build import Builder

    Cassette = Any  # of `reader`, which imports this module
    Session = Any
    Load = Callable[[Builder, dict[str, Any]], Sequence[str]]
    Open = Callable[[str], Cassette]
    Looks = dict[int, tuple[Any, ...]]
    Found = tuple[sqlite3.Connection, tuple[str, ...]]

_TRIES = 20
_HEAD = 1 << 16  # bytes to recognize a format by
_LOOK = ("started_at", "transport", "target", "label", "run")
_warned: set[str] = set()  # messages that this process has printed


def from_afar(cassette: Cassette, begin: Callable[[], None]) -> None:
    """Open a copy of a file at a URL or in git, which lasts until the cassette is closed."""
    from contextlib import ExitStack  # needed only here

    with ExitStack() as stack:
        cassette.path, cassette.local = stack.enter_context(fetch_copy(cassette.path))
        begin()
        cassette.closing = stack.pop_all()


def fetch_copy(url: str) -> AbstractContextManager[tuple[str, str]]:
    """The displayed name of a URL or a file in git, and a copy of it. Errors use the name."""
    if url.startswith(schema.GIT):
        from .. import revisions

        return revisions.fetch_file(url)
    from ... import extensions

    stores = extensions.find_extensions(extensions.STORES)
    scheme = url.partition("://")[0]
    if scheme not in stores:
        known = ", ".join(f"{name}://" for name in stores)
        raise CassetteError(f"mcp-tape cannot read {scheme}:// URLs, only {known}; a package can add others")
    return stores[scheme].load()(url)  # type: ignore[no-any-return]


def read(path: str, label: str | None, open_left: Open, otherwise: CassetteError) -> Found:
    """Read a file into memory; return the connection and the losses.

    `open_left` opens the working database of a text; `otherwise` is the error for an unknown format.
    """
    for _ in range(_TRIES):
        left = path + schema.LEFT if is_text(path) and os.path.exists(path + schema.LEFT) else None
        try:
            found = _read(path, left, open_left, otherwise)
        except CassetteError:
            if left is None or os.path.exists(left):
                raise
            continue
        if left is None or os.path.exists(left):
            break
        found[0].close()  # the last recorder has appended them meanwhile: the text has more than was read
    else:
        raise CassetteError(f"{path} is being recorded without a pause, and cannot be read now; try again")
    if label is not None:
        found[0].execute(file.label_view_sql(label))
    return found


def _read(path: str, left: str | None, open_left: Open, otherwise: CassetteError) -> Found:
    from ..build import Builder

    builder = Builder(None)
    try:
        try:
            lost = tuple(load(path, builder, otherwise))
            if left is not None and os.path.getsize(left):  # otherwise its recorder has just begun
                with open_left(left) as tape:
                    _add(tape, path, builder)
        except BaseException:
            builder.connection.close()
            raise
    except sqlite3.Error as error:
        raise CassetteError(f"cannot read {path}: {error}") from None
    except FileNotFoundError:
        raise CassetteError(f"{left} is no longer there") from None
    return builder.connection, lost


def copy_to_file(db: sqlite3.Connection) -> TemporaryDirectory[str]:
    """Write a database in memory to a temporary file, for code that needs one."""

    def make(to: str) -> None:
        with closing(file.connect(to)) as copy:
            db.backup(copy)

    return file.make_temporary(make)


def load(path: str, builder: Builder, otherwise: CassetteError) -> Sequence[str]:
    """Read a file other than SQLite into a cassette; return the losses."""
    try:
        with open(path, "rb") as data:
            head = data.read(_HEAD)
            is_named = path.endswith(schema.TEXT)
            if is_named and not head.strip():
                return ()  # the text is empty so far
            if lines.is_ours(head) or (is_named and not is_foreign(path)):  # the reader reports what is wrong with it
                data.seek(0)
                lines.load(data, path, builder, defaults(path))
                return ()
    except FileNotFoundError:
        return ()  # the text is empty so far
    except OSError as error:
        raise CassetteError(f"cannot read {path}: {error.strerror}") from None
    lost = _reader(path, otherwise)(builder, defaults(path))
    builder.end()
    return lost


def _reader(path: str, otherwise: CassetteError) -> Load:
    """Return the function that loads another tool's recording; raise `otherwise` if there is none."""
    from ... import extensions

    readers, broken = extensions.load_extensions(extensions.READERS)
    found = [(package, reads) for package, one in readers if (reads := one.find(path)) is not None]
    if not found:
        names = ["JSON lines", *(name for _, one in readers for name in one.names)]
        lines = f"It is not a recording of another tool either. Tried: {', '.join(names)}", *broken
        raise CassetteError("\n".join((str(otherwise), *lines)))
    if len(found) > 1:
        packages = " and ".join(package for package, _ in found)
        raise CassetteError(f"{path} looks like a recording to {packages}; uninstall all but one of them")
    reader: Load = found[0][1]
    return reader


def is_foreign(path: str) -> bool:
    """Return whether a file is a recording of another tool, which is only read."""
    from ... import extensions

    readers, _ = extensions.load_extensions(extensions.READERS)
    return any(one.find(path) is not None for _, one in readers)


def defaults(path: str) -> dict[str, Any]:
    """Facts for a session without its own: it began when its file was written."""
    year, month, day, hour, minute, second, *_ = gmtime(os.stat(path).st_mtime)
    began = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
    return {"started_at": began, "target": {"command": []}, "recorder": "unknown"}


def expect_cassette(path: str) -> None:
    """Refuse a file that is not a cassette, and a malformed text. A missing or empty file is fine."""
    try:
        schema.check_header(path)
    except schema.NoDatabaseError as error:
        if not is_text(path):
            raise
        expect_ours(path)
        sessions(path, error)


def expect_ours(path: str) -> None:
    """Refuse to write into a recording of another tool, whatever its name."""
    with suppress(FileNotFoundError), open(path, "rb") as data:
        head = data.read(_HEAD)
        if head.strip() and not lines.is_ours(head) and is_foreign(path):
            hint = f"make a cassette of it: mcp-tape convert {quote_path(path)} OTHER.jsonl"
            raise CassetteError(f"{path} is a recording of another tool, which is only read; {hint}")


def sessions(path: str, otherwise: CassetteError | None = None) -> Looks:
    """The sessions in a text, all of which is read; CassetteError reports a malformed one."""
    from ..build import Builder

    builder = Builder(None)
    with closing(builder.connection):
        load(path, builder, otherwise or CassetteError(f"{path} is not a cassette, and was left alone"))
        return looks(builder.connection)


def looks(db: sqlite3.Connection) -> Looks:
    """By number, facts that only copies of a session share: times have microseconds."""
    return {number: tuple(facts) for number, *facts in db.execute(f"SELECT id, {', '.join(_LOOK)} FROM sessions")}


def _add(left: Cassette, path: str, builder: Builder) -> None:
    """Add sessions that are not in the text yet. Whether they are still being recorded is unknown and irrelevant."""
    db = builder.connection
    found = list(new_sessions(left, looks(db)))
    file.attach_to_read(db, left.source, "left_beside")
    columns = ", ".join(name for name in (*batch.SESSION, "pending") if name not in ("id", "extends"))
    with file.begin_snapshot(db):
        for session, was in found:
            sql = f"INSERT INTO sessions (id, extends, {columns}) SELECT ?, ?, {columns} FROM left_beside.sessions"
            db.execute(f"{sql} WHERE id = ?", (session.id, session.extends, was))
            for table, rest in ("facts", batch.FACTS), ("derived", batch.DERIVED):
                sql = f"INSERT INTO {table} (id, {rest}) SELECT id + ?, {rest} FROM left_beside.{table}"
                shift = schema.row_id(session.id - was, 0)
                db.execute(f"{sql} WHERE id BETWEEN ? AND ?", (shift, *schema.row_ids(was)))
    db.execute("DETACH left_beside")
    if found:
        name = os.path.basename(left.path)
        warn_once(
            f"{name} has sessions that are not in {path} yet, from a recorder that is running or "
            "was stopped; they are read too"
        )


def new_sessions(left: Cassette, there: Looks) -> Iterator[tuple[Session, int]]:
    """Sessions that are not in the text yet, numbered as they will be there, each with its current number.

    One that is in the text already was appended by a recorder that was killed before it could remove it. If another
    text replaced this one and took a number, the next number is used.
    """
    taken, numbers = set(there), dict[int, int]()
    for session in left.each_session():
        if tuple(getattr(session, name) for name in _LOOK) in there.values():
            continue
        number = session.id if session.id not in taken else max(taken) + 1
        taken.add(number)
        numbers[session.id] = number
        extends = None if session.extends is None else numbers.get(session.extends, session.extends)
        yield session._replace(id=number, extends=extends if extends in taken else None), session.id


def warn_once(text: str) -> None:
    """Print a message for the user to stderr, once, since every reader has stderr."""
    if text in _warned:
        return
    _warned.add(text)
    try:
        sys.stderr.write(f"mcp-tape: {replace_control_characters(text, lambda character: ' ')}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # stderr is closed
