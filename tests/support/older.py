"""Cassettes of schema 1, as its last version wrote them: made from one of today's, frame by frame."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from contextlib import closing
from pathlib import Path
from typing import Any

from mcp_tape.cassette import schema
from mcp_tape.cassette.reader import Cassette, Session, columns
from mcp_tape.wire.frames import Frame
from mcp_tape.wire.ledger import Ledger

TABLES = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    transport TEXT NOT NULL,
    target TEXT NOT NULL,
    protocol_version TEXT,
    client_name TEXT,
    client_version TEXT,
    server_name TEXT,
    server_version TEXT,
    exit_code INTEGER,
    recorder TEXT NOT NULL,
    note TEXT,
    extends INTEGER REFERENCES sessions(id),
    run TEXT,
    incomplete TEXT,
    key_version INTEGER NOT NULL
);
CREATE TABLE frames (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions(id),
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    sender TEXT NOT NULL,
    channel TEXT NOT NULL,
    kind TEXT NOT NULL,
    head BLOB,
    eol TEXT NOT NULL,
    redactions INTEGER NOT NULL,
    text,
    UNIQUE (session, seq)
);
CREATE TABLE messages (
    frame INTEGER NOT NULL REFERENCES frames(id),
    part INTEGER NOT NULL,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    sender TEXT NOT NULL,
    kind TEXT NOT NULL,
    method TEXT,
    rpc_id TEXT,
    name TEXT,
    status TEXT,
    answers INTEGER,
    key BLOB,
    exchange INTEGER,
    cue INTEGER,
    PRIMARY KEY (frame, part)
) WITHOUT ROWID;
CREATE INDEX messages_key ON messages (session, key, seq) WHERE key IS NOT NULL;
CREATE INDEX messages_answers ON messages (session, answers) WHERE answers IS NOT NULL;
CREATE INDEX messages_exchange ON messages (session, exchange) WHERE exchange IS NOT NULL;
CREATE INDEX messages_cue ON messages (session, cue) WHERE cue IS NOT NULL;
CREATE INDEX messages_sender ON messages (session, sender, seq);
CREATE INDEX messages_method ON messages (session, method) WHERE method IS NOT NULL;
CREATE VIEW stderr AS
SELECT session, seq, at, text FROM frames WHERE kind = 'stderr';
"""
_FRAME = """INSERT INTO frames (session, seq, at, sender, channel, kind, text, eol, head, redactions)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_MESSAGE = f"INSERT INTO messages VALUES ({', '.join('?' * 14)})"
_FORGET = "UPDATE messages SET key = NULL WHERE session = :session AND sender = 'client' AND seq = :seq"
_WAIT_FOR_EARLIER = """UPDATE messages SET cue = coalesce((
        SELECT seq FROM messages WHERE session = :session AND sender = 'client' AND seq < :seq
        AND (kind <> 'request' OR key IS NOT NULL) ORDER BY seq DESC LIMIT 1), 0)
    WHERE session = :session AND cue = :seq AND exchange IS NOT :seq"""


def make_old(tape: Path, old: Path | None = None) -> Path:
    """Write what is on a cassette as schema 1 had it: to another file, or in its place."""
    target = old or tape.with_name(f"{tape.name}.old")
    with Cassette(tape) as cassette, closing(sqlite3.connect(target)) as db, db:
        db.executescript(TABLES)
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        for session in cassette.sessions():
            _copy(cassette, session, db)
    return target if old else target.replace(tape)


def _copy(cassette: Cassette, session: Session, db: sqlite3.Connection) -> None:
    row = {name: value for name, value in session._asdict().items() if name != "label"}  # which is newer
    marks = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO sessions ({columns(list(row))}) VALUES ({marks})", list(row.values()))
    keys = dict(cassette.rows("SELECT id & 4294967295, key FROM messages WHERE session = ?", (session.id,)))
    ledger, seqs, again = Ledger(), [0], []

    def old(number: int | None) -> int | None:
        """The number that the frame of a message had: all messages of a batch had that one."""
        return None if number is None else bisect_right(seqs, number) - 1

    for frame in cassette.frames(session.id):
        seqs.append(frame.seq)
        number = db.execute(_FRAME, _frame(session.id, len(seqs) - 1, frame)).lastrowid
        for part, (m, answers, key, exchange, cue) in enumerate(ledger.derive(frame)):
            kept = key and (keys[frame.seq + part] or key)  # a request to be made again loses it below
            what = m.kind, m.method, m.rpc_id, m.name, m.status, old(answers), kept, old(exchange), old(cue)
            db.execute(_MESSAGE, (number, part, session.id, len(seqs) - 1, frame.sender, *map(_storable, what)))
            if m.status == "retry":
                again.append({"session": session.id, "seq": old(answers)})
    for sql in _FORGET, _WAIT_FOR_EARLIER:
        db.executemany(sql, again)


def _frame(session: int, seq: int, frame: Frame) -> tuple[Any, ...]:
    text: str | bytes = frame.text
    try:
        text = frame.text if b"\0" in frame.text else frame.text.decode()
    except UnicodeDecodeError:
        pass
    at = frame.at, frame.sender, frame.channel, frame.kind, text, frame.eol.decode("latin-1")
    return session, seq, *at, frame.head, frame.redactions


def _storable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
