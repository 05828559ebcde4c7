"""The cassette's schema, and the check of a file's first bytes. Needs no SQLite, as a relay has none.

Facts are stored once; `messages` is derived and can be rebuilt. The header: https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import os
import stat

from ..errors import CassetteError, pasted

APPLICATION_ID = 0x4D435054  # "MCPT"
VERSION = 1
TABLES = frozenset(("sessions", "frames", "messages"))
_TRY = "To record into another file: mcp-tape record -o FILE -- CMD"

# No STRICT tables and no ->>: old sqlite3 shells read a cassette too. The views look into a text only where
# it is JSON, and take out objects only: a string may hold a lone surrogate, which no client could fetch.
SCHEMA = """
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

CREATE VIEW exchanges AS
SELECT q.session, q.seq, qf.at, q.sender, q.method, q.name, q.rpc_id,
       a.seq AS answer_seq, a.status, af.at - qf.at AS microseconds,
       CASE WHEN qf.kind <> 'batch' THEN qf.text
            WHEN typeof(qf.text) = 'text' AND json_valid(qf.text)
            THEN json_extract(qf.text, '$[' || q.part || ']') END AS request,
       CASE WHEN af.kind <> 'batch' THEN af.text
            WHEN typeof(af.text) = 'text' AND json_valid(af.text)
            THEN json_extract(af.text, '$[' || a.part || ']') END AS response
FROM messages q
JOIN frames qf ON qf.id = q.frame
LEFT JOIN messages a ON a.session = q.session AND a.answers = q.seq
                    AND a.rpc_id = q.rpc_id AND a.sender <> q.sender
LEFT JOIN frames af ON af.id = a.frame
WHERE q.kind = 'request';

CREATE VIEW tool_calls AS
SELECT session, seq, at, name AS tool,
       CASE WHEN typeof(request) = 'text' AND json_valid(request) THEN
            CASE WHEN json_type(request, '$.params.arguments') IN ('object', 'array')
            THEN json_extract(request, '$.params.arguments') END END AS arguments,
       status, microseconds,
       CASE WHEN typeof(response) = 'text' AND json_valid(response) THEN
            CASE WHEN json_type(response, '$.result') IN ('object', 'array')
            THEN json_extract(response, '$.result') END END AS result,
       CASE WHEN typeof(response) = 'text' AND json_valid(response) THEN
            CASE WHEN json_type(response, '$.error') IN ('object', 'array')
            THEN json_extract(response, '$.error') END END AS error
FROM exchanges WHERE method = 'tools/call';

CREATE VIEW notifications AS
SELECT session, seq, at, sender, method,
       CASE WHEN typeof(text) = 'text' AND json_valid(text) THEN
            CASE WHEN json_type(text, at_part || '.params') IN ('object', 'array')
            THEN json_extract(text, at_part || '.params') END END AS params
FROM (SELECT m.session, m.seq, f.at, m.sender, m.method, f.text,
             CASE f.kind WHEN 'batch' THEN '$[' || m.part || ']' ELSE '$' END AS at_part
      FROM messages m JOIN frames f ON f.id = m.frame
      WHERE m.kind = 'notification');

CREATE VIEW stderr AS
SELECT session, seq, at, text FROM frames WHERE kind = 'stderr';
"""

STATEMENTS = frozenset(statement.strip() for statement in SCHEMA.split(";\n"))  # word for word, as SQLite keeps them


def check_header(path: str) -> None:
    """Refuse a file that is no cassette, by its first bytes. A missing or empty one is fine."""
    version = version_of(path)
    if version is not None:
        check_version(path, version)


def version_of(path: str) -> int | None:
    """The schema version of a cassette, by its first bytes; None where it is missing or empty."""
    head = _first_bytes(path)
    if not head:
        return None
    if head.startswith(b"version https://git-lfs"):
        raise CassetteError(f"{path} is a pointer of git LFS, and not the cassette itself. Try: git lfs pull")
    if not head.startswith(b"SQLite format 3\0") or len(head) < 100:
        raise CassetteError(f"{path} is not a cassette, and was left alone. {_TRY}")
    if int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise CassetteError(f"{path} is a SQLite database, but not a cassette, and was left alone. {_TRY}")
    return int.from_bytes(head[60:64], "big")


def _first_bytes(path: str) -> bytes:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise CassetteError(f"{path} is a directory; give the path of a cassette file, e.g. tape.db")
        if not stat.S_ISREG(mode):  # reading a pipe would wait
            raise CassetteError(f"{path} is not a regular file; give the path of a cassette file, e.g. tape.db")
        with open(path, "rb") as file:
            return file.read(100)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise CassetteError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def check_version(path: str, version: int) -> None:
    """Refuse a schema that is newer than this version knows, or older than it reads without a migration."""
    if version < VERSION:
        raise CassetteError(
            f"{path} was made by an older mcp-tape (schema {version}, this one reads {VERSION}); "
            f"bring it up to date with: mcp-tape migrate {pasted(path)}"
        )
    if version > VERSION:
        raise CassetteError(
            f"{path} was made by a newer mcp-tape (schema {version}, this one knows {VERSION}); "
            "upgrade with: pip install -U mcp-tape"
        )
