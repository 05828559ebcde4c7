"""The cassette's schema, and the check of a file's first bytes. Works without SQLite, as in a relay.

`facts` holds what crossed the wire, stored once; `derived` follows from it and can be rebuilt. `frames` and `messages`
are views of the two, for people and queries. The header: https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import os
import stat

from ..errors import CassetteError, quote_path

APPLICATION_ID = 0x4D435054  # "MCPT"
VERSION = 1
TEXT = ".jsonl"  # suffix of a cassette that is text
GIT = "git:"  # prefix of cassettes in git, read through a copy: see `revisions`
LEFT = ".db"  # second suffix of a text's working database: see `text.working`
TABLES = frozenset(("sessions", "facts", "derived"))
MAGIC = b"SQLite format 3\0"
_TRY = "Record into a new file with: mcp-tape record -o FILE -- SERVER"

# One number identifies a row: its session, followed by its number in the session. So neither needs its own column or
# index, and the rows of a session are adjacent.
BITS = 32
MOST = (1 << BITS) - 1  # frames and messages of a session
MOST_SESSIONS = (1 << 31) - 1
# Conditions on a row of `derived`, which leaves out the values that most rows share (see below): who sent the message,
# and whether its exchange is the usual one (its own for a client's request, that of its cue for any other message).
BY_CLIENT, BY_SERVER, USUAL_EXCHANGE = "cue IS NULL", "cue IS NOT NULL", "exchange IS NULL"
PENDING = "pending IS NOT NULL"  # of a session: messages of frames from this number on are not derived yet

# No STRICT tables, no ->> and no typeof(): old sqlite3 shells, DuckDB and ClickHouse read a cassette too. Each column
# has one type, so bytes that are not UTF-8 have their own. The views parse a text only if it is JSON, and extract
# objects only: a string may contain a lone surrogate, which no client could fetch. Casts are for comparisons that
# depend on types: SQLite compares a parameter as text, DuckDB a text as JSON, which it need not be.
#
# Values that nearly every row shares are left out, and the views restore them: the kind of a frame that is a message,
# the exchange that a cue opened, the request that a response to its cue answers. Server rows have a `cue`, client rows
# do not; 0 means none, -1 never played. An `exchange` of 0 means none. The index of keys, which are hashes, holds the
# first bytes of each: see `functions.of_key`.
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
label TEXT,
incomplete TEXT,
key_version INTEGER NOT NULL,
pending INTEGER
);
CREATE TABLE facts (
id INTEGER PRIMARY KEY,
elapsed INTEGER NOT NULL,
sender TEXT NOT NULL,
channel TEXT NOT NULL,
kind TEXT,
eol TEXT NOT NULL,
redactions INTEGER NOT NULL,
head BLOB,
text TEXT,
data BLOB
);
CREATE TABLE derived (
id INTEGER PRIMARY KEY,
part INTEGER NOT NULL,
method TEXT,
rpc_id TEXT,
name TEXT,
status TEXT,
answers INTEGER,
exchange INTEGER,
cue INTEGER,
key BLOB
);
CREATE INDEX derived_key ON derived (substr(key, 1, 4)) WHERE key IS NOT NULL;
CREATE INDEX derived_cue ON derived (cue) WHERE cue IS NOT NULL;
CREATE INDEX derived_exchange ON derived (exchange) WHERE exchange IS NOT NULL;
CREATE INDEX derived_answers ON derived (answers) WHERE answers IS NOT NULL;
CREATE INDEX derived_method ON derived (method) WHERE method <> 'tools/call';

CREATE VIEW frames AS
SELECT id, CAST(id >> 32 AS BIGINT) AS session, CAST(id & 4294967295 AS BIGINT) AS seq, elapsed, sender, channel,
coalesce(kind, 'message') AS kind, head, eol, redactions, text, data
FROM facts;

CREATE VIEW messages AS
SELECT id, CAST(id - part AS BIGINT) AS frame, part, CAST(id >> 32 AS BIGINT) AS session,
CAST((id - part) & 4294967295 AS BIGINT) AS seq,
CASE WHEN cue IS NULL THEN 'client' ELSE 'server' END AS sender,
CASE WHEN method IS NULL THEN CASE WHEN status IS NULL THEN 'noise' ELSE 'response' END
WHEN rpc_id IS NULL THEN 'notification' ELSE 'request' END AS kind,
method, rpc_id, name, status,
CAST(CASE WHEN answers IS NULL AND exchange IS NULL AND cue > 0 AND method IS NULL AND status IS NOT NULL
THEN cue ELSE answers END AS BIGINT) AS answers,
key,
CAST(CASE WHEN exchange > 0 THEN exchange WHEN exchange IS NULL AND cue > 0 THEN cue
WHEN exchange IS NULL AND cue IS NULL AND method IS NOT NULL AND rpc_id IS NOT NULL
THEN (id - part) & 4294967295 END AS BIGINT) AS exchange,
CAST(CASE WHEN cue >= 0 THEN cue END AS BIGINT) AS cue
FROM derived;

CREATE VIEW exchanges AS
SELECT q.session, q.seq, qf.elapsed, q.sender, q.method, q.name, q.rpc_id,
a.seq AS answer_seq, a.status, af.elapsed - qf.elapsed AS microseconds,
CASE WHEN qf.kind = 'batch' THEN CASE WHEN json_valid(qf.text)
THEN CAST(json_extract(qf.text, '$[' || q.part || ']') AS TEXT) END ELSE qf.text END AS request,
CASE WHEN af.kind = 'batch' THEN CASE WHEN json_valid(af.text)
THEN CAST(json_extract(af.text, '$[' || a.part || ']') AS TEXT) END ELSE af.text END AS response
FROM (SELECT *, coalesce(
(SELECT min(d.id) FROM derived d WHERE d.cue = m.id & 4294967295 AND d.id >> 32 = m.session
AND d.answers IS NULL AND d.exchange IS NULL AND d.method IS NULL AND d.status IS NOT NULL),
(SELECT min(d.id) FROM derived d WHERE d.answers = m.id & 4294967295 AND d.id >> 32 = m.session)) AS answer
FROM messages m WHERE kind = 'request') q
JOIN facts qf ON qf.id = q.frame
LEFT JOIN messages a ON a.id = q.answer
LEFT JOIN facts af ON af.id = a.frame;

CREATE VIEW tool_calls AS
SELECT session, seq, elapsed, name AS tool,
CASE WHEN json_valid(request) THEN CASE WHEN lower(json_type(request, '$.params.arguments')) IN ('object', 'array')
THEN json_extract(request, '$.params.arguments') END END AS arguments,
status, microseconds,
CASE WHEN json_valid(response) THEN CASE WHEN lower(json_type(response, '$.result')) IN ('object', 'array')
THEN json_extract(response, '$.result') END END AS result,
CASE WHEN json_valid(response) THEN CASE WHEN lower(json_type(response, '$.error')) IN ('object', 'array')
THEN json_extract(response, '$.error') END END AS error
FROM exchanges WHERE method = 'tools/call';

CREATE VIEW notifications AS
SELECT session, seq, elapsed, sender, method,
CASE WHEN json_valid(text) THEN CASE WHEN lower(json_type(text, place || '.params')) IN ('object', 'array')
THEN json_extract(text, place || '.params') END END AS params
FROM (SELECT m.session, m.seq, f.elapsed, m.sender, m.method, f.text,
CASE WHEN f.kind = 'batch' THEN '$[' || m.part || ']' ELSE '$' END AS place
FROM messages m JOIN facts f ON f.id = m.frame
WHERE m.kind = 'notification') n;

CREATE VIEW stderr AS
SELECT session, seq, elapsed, text, data FROM frames WHERE kind = 'stderr';
"""

STATEMENTS = frozenset(map(str.strip, SCHEMA.split(";\n")))  # word for word, as SQLite keeps them
PAGE_SIZE = 1024  # bytes: most cassettes are small, and a suite keeps thousands


def answers_cue(row: str) -> str:
    """SQL for: a row of `derived` is the response to the request that is its cue."""
    return f"{row}.answers IS NULL AND {row}.{USUAL_EXCHANGE} AND {row}.method IS NULL AND {row}.status IS NOT NULL"


def row_id(session: int, seq: int) -> int:
    """The id of a row of `facts` or `derived`."""
    return (session << BITS) + seq


def row_ids(session: int) -> tuple[int, int]:
    """The first and the last id that rows of a session may have."""
    return session << BITS, (session << BITS) + MOST


def is_url(path: str) -> bool:
    """Return whether a cassette is read through a copy that a store makes: see `text.non_sqlite`."""
    return "://" in path


def is_remote(path: str) -> bool:
    """Return whether a cassette is at a URL or in a revision of git, and so is only read."""
    return is_url(path) or path.startswith(GIT)


def absolute(path: str) -> str:
    return path if is_remote(path) else os.path.abspath(path)


def expect_local(path: str) -> None:
    """Refuse to write a cassette that is read through a copy."""
    if path.startswith(GIT):
        raise CassetteError(f"{path} is a file of a revision, and only read; to change it, check it out")
    if is_url(path):
        raise CassetteError(f"{path.partition('?')[0]} is remote, and only read; copy it first: mcp-tape pull URL DIR")


def is_there(path: str) -> bool:
    """Return whether a recording exists: a file that is not empty, or a text's working database."""
    return (os.path.exists(path) and os.path.getsize(path) > 0) or (path.endswith(TEXT) and os.path.exists(path + LEFT))


class NoDatabaseError(CassetteError):
    """The file is not SQLite; it may be a cassette in another form: see `text`."""


def check_header(path: str) -> None:
    """Refuse a file that is not a cassette, by its first bytes. A missing or empty one is fine."""
    if (version := version_of(path)) is not None:
        check_version(path, version)


def version_of(path: str) -> int | None:
    """The schema version of a cassette, by its first bytes; None if it is missing or empty."""
    head = first_bytes(path)
    if not head:
        return None
    if head.startswith(b"version https://git-lfs"):
        raise CassetteError(f"{path} is a pointer of git LFS, and not the cassette itself. Try: git lfs pull")
    if not head.startswith(MAGIC) or len(head) < 100:
        kind = CassetteError if head.startswith(MAGIC) else NoDatabaseError
        raise kind(f"{path} is not a cassette, and was left alone. {_TRY}")
    if int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise CassetteError(f"{path} is a SQLite database, but not a cassette, and was left alone. {_TRY}")
    return int.from_bytes(head[60:64], "big")


def first_bytes(path: str) -> bytes:
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # reading a pipe would wait
            what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise CassetteError(f"{path} is {what}; give the path of a cassette file, e.g. tape.db")
        with open(path, "rb") as file:
            return file.read(100)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        hint = f"; to see its permissions: ls -l {quote_path(path)}" if isinstance(error, PermissionError) else ""
        raise CassetteError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}{hint}") from None


def check_version(path: str, version: int) -> None:
    """Refuse any schema but the current one."""
    if version < VERSION:
        raise CassetteError(f"{path} has schema {version}, which no version of mcp-tape writes; it was left alone")
    if version > VERSION:
        raise CassetteError(
            f"{path} was made by a newer mcp-tape (schema {version}, this one knows {VERSION}); "
            "upgrade with: pip install -U mcp-tape"
        )
