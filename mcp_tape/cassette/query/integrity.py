"""The check of a cassette: the file, its schema, its sessions, its derived rows, and its secrets."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from ...errors import CassetteError
from ...redaction.redactor import Redactor
from ...wire import match
from ...wire.frames import Frame, LedgerEntry
from ...wire.ledger import Ledger
from .. import file, schema
from ..change import secrets
from ..functions import BEFORE_NEXT
from ..reader import OF_SESSION, Cassette, MessageRow, Session, columns
from .timeline import frame_count

IMPORTED = "imported from "  # begins a note about data that another tool's session never had
_MOST = 20  # of one kind in one session; beyond that, the number matters

Progress = Callable[[int], None]

_BELONGING = (
    ("frames", "sessions", f"id >> {schema.BITS} NOT IN (SELECT id FROM sessions)"),
    ("messages", "frames", "frame NOT IN (SELECT id FROM facts)"),
    ("sessions", "sessions", "extends NOT IN (SELECT id FROM sessions)"),
)  # rows, their parents, and the condition of orphans


class Finding(NamedTuple):
    """Something that a command has found on a cassette. `what`: a kind of check, or a rule of diff.

    `level`: error, warn or info. Only here, an import is info: the format of the other tool could not hold that data.
    """

    what: str
    message: str
    session: int | None = None
    seq: int | None = None
    path: str | None = None
    level: str = "error"

    @property
    def counts(self) -> bool:
        """Whether the command has found something wrong."""
        return self.level != "info"


def check(cassette: Cassette, redactor: Redactor, progress: Progress = lambda done: None) -> Iterator[Finding]:
    """Yield all findings. The check of a damaged file stops there."""
    damage = list(_file(cassette))
    yield from damage
    if damage:
        return
    yield from _schema(cassette)
    seen = 0
    for session in cassette.sessions():
        yield from _session(session)
        for done, found in _messages(cassette, session):
            progress(seen + done)
            yield from found
        seen += frame_count(cassette, [session.id])
    yield from _rows_of_nobody(cassette)
    yield from secrets_in(cassette, redactor, lambda done: progress(seen + done))


def _file(cassette: Cassette) -> Iterator[Finding]:
    """Report SQLite's complaints, and truncation."""
    size, pages = (cassette.rows(f"PRAGMA {name}")[0][0] for name in ("page_size", "page_count"))
    there = os.path.getsize(cassette.source)
    if there < size * pages and not file.may_be_recorded(cassette.connection):  # else some pages are in its journal
        yield Finding("file", f"it was cut off: {there} of {size * pages} bytes are left")
    for (said,) in cassette.rows("PRAGMA integrity_check(20)"):
        if said != "ok":
            yield Finding("file", " ".join(str(said).split()))


def _schema(cassette: Cassette) -> Iterator[Finding]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema.SCHEMA)
        wanted = _objects(db.execute)
    found = _objects(lambda sql: cassette.rows(sql))
    for kind, name in sorted(wanted.keys() | found.keys(), key=str):
        if (kind, name) not in found:
            yield Finding("schema", f"the {kind} {name} is missing")
        elif (kind, name) not in wanted:
            yield Finding("schema", f"the {kind} {name} does not belong to a cassette")
        elif found[kind, name] != wanted[kind, name]:
            yield Finding("schema", f"the {kind} {name} differs from a cassette's")


def _objects(rows: Callable[[str], Any]) -> dict[tuple[str, str], Any]:
    """The objects of a schema: tables by their columns, others by their text."""
    found: dict[tuple[str, str], Any] = {}
    for kind, name, sql in list(rows("SELECT type, name, sql FROM sqlite_master")):
        if str(name).startswith("sqlite_"):  # SQLite's own
            continue
        quoted = str(name).replace('"', '""')
        columns = list(rows(f'PRAGMA table_info("{quoted}")')) if kind == "table" else None
        found[kind, name] = columns or re.sub(r"\s+", " ", str(sql)).strip()
    return found


def _session(session: Session) -> Iterator[Finding]:
    reasons = session.incomplete.split("; ") if session.incomplete else []
    why = "; ".join(reason for reason in reasons if not reason.startswith(IMPORTED))
    yield from (
        Finding("import", reason, session.id, level="info") for reason in reasons if reason.startswith(IMPORTED)
    )
    if why or session.ended_at is None:
        why = why or "never closed"
        yield Finding("session", f"is {'open' if session.ended_at is None else 'incomplete'}: {why}", session.id)


def _messages(cassette: Cassette, session: Session) -> Iterator[tuple[int, list[Finding]]]:
    """Yield the number of checked frames, and findings in their messages."""
    sql = f"SELECT seq FROM messages WHERE {OF_SESSION} AND kind = 'request' AND status = 'retry'"
    forgotten = {seq for (seq,) in cassette.rows(sql, schema.row_ids(session.id))}  # repeated: the last attempt counts
    ledger, wrong = Ledger(), 0
    for done, frame in enumerate(cassette.frames(session.id)):
        stored = _stored_rows(cassette, session.id, frame.seq)
        if stored == _derived_rows(session, frame, ledger.derive(frame), stored, forgotten):
            yield done, []
            continue
        wrong += 1
        said = "its rows in messages do not match it"
        yield done, [Finding("messages", said, session.id, frame.seq)] if wrong <= _MOST else []
    if wrong > _MOST:
        yield 0, [Finding("messages", f"and {wrong - _MOST} more frames with such rows", session.id)]


def _stored_rows(cassette: Cassette, session: int, seq: int) -> list[MessageRow]:
    where = f"id >= ? AND {BEFORE_NEXT.format('messages')} ORDER BY id"
    sql = f"SELECT {columns(MessageRow._fields)} FROM messages WHERE {where}"
    frame = schema.row_id(session, seq)
    return [MessageRow._make(row) for row in cassette.rows(sql, (frame, frame))]


def _derived_rows(
    session: Session, frame: Frame, entries: list[LedgerEntry], stored: list[MessageRow], forgotten: set[int]
) -> list[MessageRow]:
    """The rows as they should be. A key that cannot be made from the frame again counts as correct."""
    number = schema.row_id(session.id, frame.seq)
    rows = [
        MessageRow(
            number + part, number, part, session.id, frame.seq, frame.sender, m.kind, file.storable_text(m.method),
            m.rpc_id, file.storable_text(m.name), m.status, answers, key, exchange, cue,
        )
        for part, (m, answers, key, exchange, cue) in enumerate(entries)
        if m.status != "retry"
    ]  # fmt: skip
    if frame.sender == "client" and frame.seq in forgotten:
        return [row._replace(key=None, status="retry") if row.kind == "request" else row for row in rows]
    if frame.redactions or session.key_version != match.KEY_VERSION:
        kept = [row.key for row in stored] + [row.key for row in rows[len(stored) :]]
        return [row._replace(key=key) for row, key in zip(rows, kept, strict=False)]
    return rows


def _rows_of_nobody(cassette: Cassette) -> Iterator[Finding]:
    for rows, parent, condition in _BELONGING:
        count = cassette.rows(f"SELECT count(*) FROM {rows} WHERE {condition}")[0][0]
        if count:
            yield Finding("schema", f"{count} rows of {rows} belong to no row of {parent}")


def secrets_in(cassette: Cassette, redactor: Redactor, progress: Progress = lambda done: None) -> Iterator[Finding]:
    """Report values that look like secrets, with their places."""
    try:
        for place in secrets.secrets(cassette.connection, redactor, progress):
            path = redactor.text(place.path)  # the path to a secret may contain one too
            yield Finding("secret", f"looks like a secret ({place.kind})", place.session, place.seq, path)
    except sqlite3.Error as error:
        raise CassetteError(file.describe_unreadable(cassette.path, error)) from None


def can_hold_wal(directory: str) -> bool:
    """Return whether SQLite's WAL mode works on this file system: on a network mount it often does not.

    https://www.sqlite.org/wal.html#advantages
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".mcp-tape-", dir=directory) as place:
            db = file.connect(os.path.join(place, "try.db"))
            try:
                return file.switch_to_wal(db) and db.execute("PRAGMA user_version = 1") is not None
            finally:
                db.close()
    except (OSError, sqlite3.Error):
        return False
