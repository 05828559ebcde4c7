"""The calls of a session for compare and verify: requests with their answers, and other server messages.

Rows are light, and texts are read one at a time: a cassette may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from ...wire import protocol
from ...wire.channels import GET, POST, STDIO
from ...wire.frames import MessageKind
from .. import schema
from ..functions import MEMBERS, answer_of, members_of, of_key, text_of
from ..pages import Values
from ..reader import OF_SESSION, TEXT, Cassette, row_maker

# A + before a column keeps SQLite from choosing the index on it: https://www.sqlite.org/optoverview.html
_REQUESTS = f"""SELECT q.session, q.seq, q.part, q.method, q.name, q.key, q.frame,
    a.seq, a.frame, a.part, a.status, af.elapsed - qf.elapsed, q.id
    FROM messages q CROSS JOIN facts qf ON qf.id = q.frame
    {answer_of("q")} LEFT JOIN facts af ON af.id = a.frame
    WHERE q.sender = 'client' AND q.kind = 'request' AND +q.key IS NOT NULL"""
_TRIED = f"""SELECT session, seq, part, method, name, x'', frame, NULL, NULL, NULL, NULL, NULL
    FROM messages WHERE {OF_SESSION} AND kind = 'request' AND status = 'retry' ORDER BY id"""
_ANSWERS = "SELECT answer.status FROM messages answer WHERE answer.sender = 'server' AND answer.kind = 'response'"
_TO_METHOD = f"""EXISTS (SELECT 1 FROM derived asked
    WHERE asked.id = (answer.session << {schema.BITS}) + answer.answers AND asked.method = ?)"""
_LATE = f"""SELECT (SELECT min(id) FROM facts WHERE id BETWEEN :first AND :last
        AND channel LIKE '{GET}%' AND sender = 'server' AND kind = 'control')
    > (SELECT min(a.id) FROM messages m JOIN facts q ON q.id = m.frame
        JOIN facts a ON a.id BETWEEN :first AND :last AND a.channel = q.channel AND a.sender = 'server'
        WHERE m.id BETWEEN :first AND :last AND m.sender = 'client' AND m.method IN (:one, :other)
        AND q.channel LIKE '{POST}%')"""

# Any client responds to a question of the server; other messages that an answer waited for are not repeated.
_REPLIES = f"""SELECT q.seq, q.rpc_id, af.kind IS 'batch', af.text IS NOT NULL,
    EXISTS (SELECT 1 FROM messages c WHERE c.id = (a.session << {schema.BITS}) + a.cue AND a.cue <> q.seq
        AND c.kind <> 'response')
    FROM messages q {answer_of("q")} LEFT JOIN facts af ON af.id = a.frame
    WHERE q.{OF_SESSION} AND q.sender = 'client' AND q.kind = 'request'"""


class RecordedRequest(NamedTuple):
    """A client request, and the place of its answer. `answer` is None without one."""

    session: int
    seq: int
    part: int
    method: str
    name: str | None
    key: bytes
    frame: int
    answer_seq: int | None
    answer: int | None
    answer_part: int | None
    status: str | None
    microseconds: int | None

    @property
    def title(self) -> str:
        return protocol.call_title(self.method, self.name)


class Reply(NamedTuple):
    """The form of an answer. `after_more`: it waited for client messages other than its request and responses."""

    in_batch: bool
    is_text: bool
    after_more: bool


class Question(NamedTuple):
    """A server request or notification. `exchange`: the place of the client request during which it came."""

    session: int
    seq: int
    part: int
    method: str
    exchange: int | None
    frame: int


class MethodCount(NamedTuple):
    """The number of messages of one method, in one exchange or in none."""

    exchange: int | None
    method: str
    number: int


_make_request = row_maker(RecordedRequest, "messages")
_question = row_maker(Question, "messages")
_count = row_maker(MethodCount, "messages")


def place_of(asked: RecordedRequest | Question) -> tuple[int, int, int]:
    """Session, seq and part: the order of all requests."""
    return asked[:3]


def requests(cassette: Cassette, session: int) -> Iterator[RecordedRequest]:
    """Yield every client request that reached the server, in order. Equal strings are shared."""
    words: dict[str, str] = {}

    def make(row: Values) -> RecordedRequest:
        return _make_request(
            [words.setdefault(value, value) if isinstance(value, str) else value for value in row[:-1]]
        )

    key = {"q.id": len(RecordedRequest._fields)}
    return chain.from_iterable(cassette.pages(_REQUESTS, (), key, make, within=schema.row_ids(session)))


def unreached_requests(cassette: Cassette, session: int) -> list[RecordedRequest]:
    """The requests that never reached the server, or that the client had to repeat: these have no key."""
    return cassette.rows(_TRIED, schema.row_ids(session), _make_request)


def is_made_again(cassette: Cassette, session: int, asked: RecordedRequest) -> bool:
    first, last = schema.row_ids(session)
    if session == asked.session:
        first = schema.row_id(session, asked.seq + 1)
    sql = f"SELECT 1 FROM derived WHERE {of_key('key')} AND id BETWEEN ? AND ? LIMIT 1"
    return session >= asked.session and bool(cassette.rows(sql, (asked.key, asked.key, first, last)))


def message_text(cassette: Cassette, frame: int, part: int) -> bytes:
    """The text of a message, in a batch its part; empty if it is missing."""
    rows = cassette.rows(f"SELECT CAST({text_of('f', '?')} AS BLOB) FROM facts f WHERE f.id = ?", (part, frame))
    return bytes(rows[0][0] or b"") if rows else b""


def replies(cassette: Cassette, session: int) -> dict[tuple[int | None, str | None], Reply]:
    """The form of each answer to a client request, by the request's seq and id."""
    rows = cassette.rows(_REPLIES, schema.row_ids(session))
    return {(seq, rpc_id): Reply(*map(bool, facts)) for seq, rpc_id, *facts in rows}


def unasked_answers(cassette: Cassette, session: int) -> int:
    """The number of answers that no request waited for. A complaint about an unreadable text has no request either."""
    sql = f"""SELECT count(*) FROM messages WHERE {OF_SESSION} AND sender = 'server' AND kind = 'response'
             AND answers IS NULL AND rpc_id IS NOT NULL AND rpc_id <> 'null'"""
    return int(cassette.rows(sql, schema.row_ids(session))[0][0])


def questions(cassette: Cassette, session: int) -> list[Question]:
    sql = f"""SELECT session, seq, part, method, exchange, frame FROM messages
             WHERE {OF_SESSION} AND sender = 'server' AND kind = 'request' ORDER BY id"""
    return cassette.rows(sql, schema.row_ids(session), _question)


def own_messages(cassette: Cassette, session: int) -> Iterator[Question]:
    """Every request and notification of the server, in order."""
    sql = """SELECT session, seq, part, method, exchange, frame, id FROM messages
             WHERE sender = 'server' AND kind IN ('request', 'notification')"""
    within = schema.row_ids(session)
    return chain.from_iterable(cassette.pages(sql, (), {"id": 6}, lambda row: _question(row[:-1]), within=within))


def server_methods(cassette: Cassette, session: int, kind: MessageKind) -> list[MethodCount]:
    """Count the server's messages of a kind, by exchange and method."""
    sql = f"""SELECT exchange, method, count(*) FROM messages
             WHERE {OF_SESSION} AND sender = 'server' AND kind = ? GROUP BY exchange, method"""
    return cassette.rows(sql, (*schema.row_ids(session), kind), _count)


def notifications_during(cassette: Cassette, asked: RecordedRequest) -> list[str]:
    """The methods of the notifications that belong to a request, in order."""
    sql = f"""SELECT method FROM messages WHERE id IN ({MEMBERS}) AND sender = 'server'
             AND kind = 'notification' ORDER BY id"""
    rows = cassette.rows(sql, members_of(asked.session, asked.seq))
    return [method for (method,) in cassette.expect_types(rows, ((str,),))]


def server_message_seqs(cassette: Cassette, session: int, method: str) -> list[int]:
    sql = f"SELECT seq FROM messages WHERE {OF_SESSION} AND method = ? AND sender = 'server' ORDER BY id"
    return [seq for (seq,) in cassette.expect_types(cassette.rows(sql, (*schema.row_ids(session), method)), ((int,),))]


def cancelled_requests(cassette: Cassette, session: int) -> set[tuple[int, int]]:
    """The requests that the client cancelled: session and seq."""
    sql = f"""SELECT session, exchange FROM messages WHERE {OF_SESSION} AND method = ? AND sender = 'client'
             AND exchange IS NOT NULL"""
    return set(cassette.rows(sql, (*schema.row_ids(session), protocol.CANCELLED)))


def answer_statuses(cassette: Cassette, session: int | None = None, method: str | None = None) -> set[str]:
    """The statuses of the answers to all requests, or to those of a session or a method."""
    given: dict[str, tuple[object, ...]] = {}
    if session is not None:
        given[f"answer.{OF_SESSION}"] = schema.row_ids(session)
    if method is not None:
        given[_TO_METHOD] = (method,)
    sql = " AND ".join([_ANSWERS, *given])
    return {status for (status,) in cassette.rows(sql, (*chain.from_iterable(given.values()),))}


# -- the recorded client


def client_noise(cassette: Cassette, session: int) -> list[tuple[int, bytes]]:
    """Lines on the client's pipe that are not messages, by seq."""
    sql = f"""SELECT seq, CAST({TEXT} AS BLOB), eol FROM frames
             WHERE {OF_SESSION} AND sender = 'client' AND kind = 'noise' AND channel = ?"""
    rows = cassette.rows(sql, (*schema.row_ids(session), STDIO))
    return [(seq, bytes(text) + str(eol or "\n").encode()) for seq, text, eol in rows]


def redacted_texts(cassette: Cassette, session: int) -> dict[int, bytes]:
    """The client's redacted texts, by the id of their frame."""
    sql = f"SELECT id, CAST({TEXT} AS BLOB) FROM facts WHERE {OF_SESSION} AND sender = 'client' AND redactions > 0"
    return {number: bytes(text) for number, text in cassette.rows(sql, schema.row_ids(session))}


def is_redacted(cassette: Cassette, frame: int) -> bool:
    return bool(cassette.rows("SELECT 1 FROM facts WHERE id = ? AND redactions > 0", (frame,)))


def request_head(cassette: Cassette, session: int, channel: str, before: int) -> Any:
    """The text with verb, path and headers of a message's HTTP request; None without one."""
    sql = f"""SELECT text FROM facts WHERE {OF_SESSION} AND channel = ? AND kind = 'control' AND sender = 'client'
             ORDER BY id DESC LIMIT 1"""
    span = schema.row_id(session, 0), schema.row_id(session, before - 1)
    return next((text for (text,) in cassette.rows(sql, (*span, channel))), None)


def opens_stream_late(cassette: Cassette, session: int) -> bool:
    """Return whether the client opened its HTTP stream only after the server knew that it was initialized.

    Messages that a server sends at once are then missing on the tape, and are not new.
    """
    one, other = protocol.INITIALIZED_NAMES
    first, last = schema.row_ids(session)
    return bool(cassette.rows(_LATE, {"first": first, "last": last, "one": one, "other": other})[0][0])
