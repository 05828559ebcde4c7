"""Recorded messages, looked up on demand."""

from __future__ import annotations

from functools import cached_property
from itertools import chain

from ...light import NamedTuple
from ...wire import frames, rewrite
from ...wire.frames import FrameKind, Message, MessageKind, Side, new
from .. import file, schema
from ..functions import MEMBERS, answer_of, members_of, of_key, of_method
from ..reader import MESSAGE_TYPES, OF_SESSION, Cassette, Types

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from .controls import Controls

_SMALL = 16_384  # longer texts are read when they play; a batch's text is read once for all its messages
_KEPT = 8  # entries in a cache
_PAGES = 16_000  # kilobytes of them that SQLite keeps: look-ups in any order read most pages more than once

Position = tuple[int, int, int]  # session, seq, part
START: Position = (0, 0, 0)


class RecordedMessage(NamedTuple):
    """One message on the tape. The fields from `frame` on belong to its frame, and are None if that was not read."""

    session: int
    seq: int
    part: int
    kind: MessageKind
    method: str | None
    rpc_id: str | None
    name: str | None
    status: str | None
    answers: int | None
    key: bytes | None
    exchange: int | None
    cue: int | None
    frame: int
    at: int | None = None
    frame_kind: FrameKind | None = None
    eol: str | None = None
    channel: str | None = None
    head: bytes | None = None
    text: bytes | None = None

    @property
    def place(self) -> Position:
        return self[:3]

    @property
    def number(self) -> int:
        """Its own number in the session: its frame's, plus its part in a batch."""
        return self.seq + self.part

    @property
    def sender(self) -> Side:
        return "client" if self.cue is None else "server"  # only server messages wait for a cue


class NextRequest(NamedTuple):
    """The next request with a key; its answer, if nothing else waits for the request; True if others have the key."""

    recorded: RecordedMessage
    answer: RecordedMessage | None = None
    is_one_of_several: bool = False


# A + before a column keeps SQLite from choosing the index that starts with it: without statistics it prefers the one
# that gives the order, and reads the whole session. https://www.sqlite.org/optoverview.html#uplus
_COLUMNS = ", ".join(f"m.{name}" for name in RecordedMessage._fields[:13])
_OF_FRAME = "f.elapsed, coalesce(f.kind, 'message'), f.eol, f.channel, CAST(f.head AS BLOB)"
_TYPES = tuple(MESSAGE_TYPES[name] for name in RecordedMessage._fields[:13])
_DATA: Types = (bytes, type(None))
_FRAME_TYPES: tuple[Types, ...] = (int,), (str,), (str,), (str,), _DATA
_NOT_READ = (None,) * 6
_ALL = (0, schema.MOST)
_MESSAGES = f"SELECT {_COLUMNS} FROM messages m WHERE m.{OF_SESSION} AND "
_MEMBERS = f"SELECT {_COLUMNS} FROM messages m WHERE m.id IN ({MEMBERS}) "
_WITH_TEXTS = f"""SELECT {_COLUMNS}, {_OF_FRAME},
    CASE WHEN f.kind IS NOT 'batch' AND length(f.text) <= {_SMALL} THEN CAST(f.text AS BLOB) END
    FROM messages m CROSS JOIN facts f ON f.id = m.frame
    WHERE m.id IN (SELECT id FROM derived WHERE cue = ? AND id BETWEEN ? AND ?) ORDER BY m.id"""
_NEXT_NOTIFICATION = f"AND rpc_id IS NULL AND {schema.BY_CLIENT} AND id BETWEEN ? AND ? ORDER BY id LIMIT 1"
# The next request with a key, and the message that waits for it. `plain`: 1 if the request is not of a batch, 2 if
# that message is also its answer, in a frame of its own. A second row means that another message waits, or that another
# request has the key. Reads the tables, as SQLite would compute each column of a view for each row; and few columns, as
# each takes as long as a level of an index.
_ALONE = 2
_NEXT_REQUEST = f"""SELECT m.id, m.rpc_id,
    CASE WHEN m.part = 0 AND m.{schema.USUAL_EXCHANGE} THEN 1 + (a.rpc_id IS m.rpc_id AND {schema.answers_cue("a")}
    AND a.part = 0 AND f.kind IS NULL) ELSE 0 END,
    a.id, a.status, f.elapsed, f.eol, f.channel, f.head, CAST(f.text AS BLOB)
    FROM derived m LEFT JOIN derived a ON a.cue = m.id & {schema.MOST} AND a.id BETWEEN m.id AND m.id | {schema.MOST}
    LEFT JOIN facts f ON f.id = a.id
    WHERE {of_key("m.key")} AND m.{schema.BY_CLIENT} AND m.id BETWEEN ? AND ? | {schema.MOST}
    ORDER BY m.id LIMIT 2"""
_TWIN = f"""SELECT 1 FROM derived m WHERE {of_key("m.key")} AND m.{schema.BY_CLIENT}
    AND m.id BETWEEN ? + 1 AND ? | {schema.MOST} LIMIT 1"""
_ANSWER = f"SELECT {_COLUMNS.replace('m.', 'a.')} FROM messages q {answer_of('q')} WHERE q.id = ? AND a.id IS NOT NULL"
_ASKED = "m.sender = 'client' AND m.kind = 'request'"
_WENT_ON = """SELECT 1 FROM facts gone JOIN facts more ON more.id BETWEEN gone.id AND ?
    WHERE gone.id BETWEEN ? AND ? AND gone.channel = ? AND gone.sender = 'client' AND gone.kind = 'control'
    AND more.sender = 'client' AND (more.kind IS NULL OR more.kind = 'batch') LIMIT 1"""


class FrameText:
    """The text of a frame, split into messages on demand."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    @property
    def is_batch(self) -> bool:
        return self.text.lstrip()[:1] == b"["

    @cached_property
    def messages(self) -> list[Message]:
        return frames.parse(self.text)[1]

    @cached_property
    def parts(self) -> list[bytes]:
        """The messages of a batch, each verbatim."""
        return rewrite.elements(self.text)


class Cache:
    """The last few things that are slow to read, above all the text of a batch.

    All messages of a batch share one text, and the messages that wait for it. Reading these again for each of ten
    thousand messages would take for ever. The cache is cleared when another process writes to the file.
    """

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self._version: int | None = None
        self._things: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        if self._things and self._version != self._current():
            self._things.clear()
        thing = self._things.pop(key, None)
        if thing is not None:
            self._things[key] = thing  # the newest comes last
        return thing

    def put(self, key: Any, thing: Any) -> None:
        """Keep something that was just read."""
        if not self._things:
            self._version = self._current()
        elif len(self._things) >= _KEPT:
            del self._things[next(iter(self._things))]
        self._things[key] = thing

    def _current(self) -> int:
        # https://www.sqlite.org/pragma.html#pragma_data_version
        return int(self._cassette.rows("PRAGMA data_version")[0][0])


class Messages:
    """The recorded messages of a cassette, session by session."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self.path = cassette.path  # for reports
        self.cache = Cache(cassette)
        cassette.connection.execute(f"PRAGMA cache_size = -{_PAGES}")

    @cached_property
    def controls(self) -> Controls:
        from .controls import Controls  # not needed for every tape

        return Controls(self._cassette)

    # -- client requests and notifications

    def next_of_key(self, session: int, key: bytes, after: Position, message: Message) -> NextRequest | None:
        """The next request with a key after a place in its session, and its answer if nothing else waits for it.

        `message`: one with this key, so with the same method and name.
        """
        first = session << schema.BITS
        behind = first + after[1] + after[2] + 1 if after[0] == session else first
        rows = self._cassette.rows(_NEXT_REQUEST, (key, key, behind, behind))
        if not rows:
            return None
        number, rpc_id, plain, answer, status, elapsed, eol, channel, head, text = rows[0]
        seq = number - first
        if not plain:
            found = self._message_of_id(number)
        elif type(rpc_id) is str:
            found = new(RecordedMessage, (
                session, seq, 0, "request", message.method, rpc_id, message.name, None, None, key, seq, None, number,
                *_NOT_READ,
            ))  # fmt: skip
        else:
            raise self._cassette.odd_row_error()
        has_more = len(rows) > 1 and rows[1][0] == number  # another message waits for it
        is_one_of_several = behind > first or (self._has_twin(key, number) if has_more else len(rows) > 1)
        if plain != _ALONE or has_more:
            return new(NextRequest, (found, None, is_one_of_several))
        is_odd = type(status) is not str or type(elapsed) is not int or type(eol) is not str or type(channel) is not str
        if is_odd or type(head) not in _DATA or type(text) not in _DATA:
            raise self._cassette.odd_row_error()
        reply = new(RecordedMessage, (
            session, answer - first, 0, "response", None, rpc_id, None, status, seq, None, seq, seq, answer,
            elapsed, "message", eol, channel, head, text,
        ))  # fmt: skip
        return new(NextRequest, (found, reply, is_one_of_several))

    def _has_twin(self, key: bytes, number: int) -> bool:
        """Return whether a later request in the session has the same key."""
        return bool(self._cassette.rows(_TWIN, (key, key, number, number)))

    def of_key(self, session: int, key: bytes) -> list[RecordedMessage]:
        """The requests with a key."""
        return self.select(session, f"{of_key('key')} AND sender = 'client' ORDER BY id", key, key)

    def next_of_method(self, session: int, method: str, after: Position) -> RecordedMessage | None:
        """The next notification with a method after a place in its session."""
        sql = f"SELECT id FROM derived WHERE {of_method(method)} {_NEXT_NOTIFICATION}"
        found = self._cassette.rows(sql, (file.storable_text(method), *_behind(session, after)))
        return self._message_of_id(found[0][0]) if found else None

    def _message_of_id(self, number: int) -> RecordedMessage:
        """The message with an id."""
        row: RecordedMessage
        for row in self._cassette.rows(f"SELECT {_COLUMNS} FROM messages m WHERE m.id = ?", (number,), _make_recorded):
            return row
        raise self._cassette.odd_row_error()

    def of_method(self, session: int, method: str, *, redacted: bool = False) -> list[RecordedMessage]:
        """The requests with a method; with `redacted`, only those in which something was hidden."""
        hidden = "AND (SELECT redactions FROM facts WHERE facts.id = m.frame) > 0" if redacted else ""
        where = f"{of_method(method)} AND +key IS NOT NULL AND {_ASKED} {hidden}"
        return self.select(session, f"{where} ORDER BY id", method)

    def of_name(self, session: int, method: str, name: str | None, is_same: bool, most: int) -> list[RecordedMessage]:
        """Up to `most` requests with a method, with this name or with any other."""
        where = f"{of_method(method)} AND +key IS NOT NULL AND {_ASKED} AND name {'IS' if is_same else 'IS NOT'} ?"
        return self.select(session, f"{where} ORDER BY id LIMIT ?", method, name, most)

    def of_session(self, session: int) -> Iterator[RecordedMessage]:
        """Every client request, a page at a time."""
        sql = f"SELECT {_COLUMNS}, m.id FROM messages m WHERE {_ASKED} AND +key IS NOT NULL"
        key, within = {"m.id": len(_TYPES)}, schema.row_ids(session)
        return chain.from_iterable(
            self._cassette.pages(sql, (), key, lambda row: _make_recorded(row[:-1]), within=within)
        )

    def has_key(self, session: int, key: bytes) -> bool:
        return bool(self.select(session, f"{of_key('key')} AND sender = 'client' LIMIT 1", key, key))

    def first_keys(self, session: int, but: Sequence[str], most: int) -> list[bytes]:
        """The keys of the first requests in order, except for some methods."""
        marks = ", ".join("?" * len(but))
        where = (
            f"{OF_SESSION} AND {schema.BY_CLIENT} AND +key IS NOT NULL AND method NOT IN ({marks}) ORDER BY id LIMIT ?"
        )
        rows = self._cassette.rows(f"SELECT key FROM derived WHERE {where}", (*schema.row_ids(session), *but, most))
        return [key for (key,) in rows]

    def first_answered_request(self, session: int, method: str) -> RecordedMessage | None:
        """The first request with a method that was answered."""
        rows = self.select(session, f"{of_method(method)} AND {_ASKED} ORDER BY id", method)
        return next((row for row in rows if self.answer(row) is not None), None)

    def request_before(self, session: int, seq: int, soon: int, rpc_id: str) -> RecordedMessage | None:
        """The newest request with an id, within a number of frames before a place."""
        where = f"{_ASKED} AND rpc_id = ? ORDER BY id DESC LIMIT 1"
        return next(iter(self.select(session, where, rpc_id, among=(seq - soon, seq - 1))), None)

    def stray_answers(self, session: int) -> list[RecordedMessage]:
        """The client's answers to requests that the server did not make."""
        return self.select(session, "sender = 'client' AND kind = 'response' AND answers IS NULL ORDER BY id")

    def malformed_lines(self, session: int) -> list[RecordedMessage]:
        """Lines from the client that are not valid messages, each with its text."""
        sql = f"""SELECT f.id, {_OF_FRAME}, CAST(coalesce(f.text, f.data) AS BLOB) FROM facts f
            WHERE f.{OF_SESSION} AND f.sender = 'client' AND f.kind = 'noise' ORDER BY f.id"""
        rows = self._cassette.rows(sql, schema.row_ids(session))
        self._cassette.expect_types(rows, ((int,), *_FRAME_TYPES, (bytes,)), "frames")
        nothing = (None,) * 8
        return [
            RecordedMessage._make((session, number & schema.MOST, 0, "noise", *nothing, number, *frame))
            for number, *frame in rows
        ]

    def of_client(self, session: int) -> list[RecordedMessage]:
        return self.select(session, "sender = 'client' ORDER BY id")

    # -- server messages

    def cued_messages(self, session: int, cue: int) -> list[RecordedMessage]:
        """Server messages that wait for a client message, in order, with texts."""
        rows = self._cassette.rows(_WITH_TEXTS, (cue, *schema.row_ids(session)))
        return list(map(RecordedMessage._make, self._cassette.expect_types(rows, (*_TYPES, *_FRAME_TYPES, _DATA))))

    def answer(self, request: RecordedMessage) -> RecordedMessage | None:
        """The recorded answer to a request of either side."""
        number = schema.row_id(request.session, request.number)
        return next(iter(self._cassette.rows(_ANSWER, (number,), _make_recorded)), None)

    def of_exchange(self, request: RecordedMessage) -> list[RecordedMessage]:
        """Everything that belongs to a client request, including itself."""
        members = members_of(request.session, request.seq)
        return list(self._cassette.rows(f"{_MEMBERS} ORDER BY m.id", members, _make_recorded))

    def answers_between(self, session: int, start: int, end: int) -> list[RecordedMessage]:
        """The answers between two messages, except to requests that the client retried."""
        asked = f"SELECT 1 FROM derived q WHERE q.id = (m.session << {schema.BITS}) + m.answers AND q.key IS NOT NULL"
        where = f"sender = 'server' AND answers IS NOT NULL AND EXISTS ({asked}) ORDER BY id"
        return self.select(session, where, among=(start + 1, end - 1))

    def changes_between(self, session: int, method: str, start: int, end: int) -> list[RecordedMessage]:
        """The notifications with a method between two messages, the newest first."""
        where = f"{of_method(method)} AND sender = 'server' ORDER BY id DESC"
        return self.select(session, where, method, among=(start + 1, end - 1))

    def question(self, session: int, seq: int, rpc_id: str) -> RecordedMessage | None:
        """The newest server request with an id, before a place."""
        where = "sender = 'server' AND kind = 'request' AND rpc_id = ? ORDER BY id DESC LIMIT 1"
        return next(iter(self.select(session, where, rpc_id, among=(0, seq))), None)

    def last_of_stream(self, request: RecordedMessage) -> int | None:
        """The place of the last message that came for a request on its own stream."""
        sql = f"""{_MEMBERS} AND m.sender = 'server'
            AND (SELECT channel FROM facts WHERE facts.id = m.frame) = ? ORDER BY m.id DESC LIMIT 1"""
        own = *members_of(request.session, request.seq), self.facts(request).channel or ""
        return next((row.seq for row in self._cassette.rows(sql, own, _make_recorded)), None)

    def of_server(self, session: int) -> list[RecordedMessage]:
        return self.select(session, "sender = 'server' ORDER BY id")

    def client_went_on(self, request: RecordedMessage) -> bool:
        """Return whether the client sent more after it had abandoned a request."""
        last = schema.row_ids(request.session)[1]
        values = last, request.frame + 1, last, self.facts(request).channel
        return bool(self._cassette.rows(_WENT_ON, values))

    def is_last(self, request: RecordedMessage) -> bool:
        """Return whether nothing follows a request and its exchange."""
        last = max(row.frame for row in self.of_exchange(request))
        sql = "SELECT 1 FROM facts WHERE id BETWEEN ? AND ? AND (kind IS NULL OR kind = 'batch') LIMIT 1"
        return not self._cassette.rows(sql, (last + 1, schema.row_ids(request.session)[1]))

    # -- any message, and its frame

    def at(self, place: Position) -> RecordedMessage:
        """The message at a place."""
        session, seq, part = place
        return self._message_of_id(schema.row_id(session, seq + part))

    def text(self, recorded: RecordedMessage) -> bytes:
        return recorded.text if recorded.text is not None else self.frame_text(recorded).text

    def frame_text(self, recorded: RecordedMessage) -> FrameText:
        """The text of its frame, with all messages in it."""
        found: FrameText | None = self.cache.get(recorded.frame)
        if found is None:
            found = FrameText(recorded.text if recorded.text is not None else self._read(recorded.frame))
            if found.is_batch:
                self.cache.put(recorded.frame, found)
        return found

    def message(self, recorded: RecordedMessage) -> Message:
        """The parsed message. Empty if its text is not one: noise, or the body of a refusal."""
        messages = self.frame_text(recorded).messages
        if recorded.status == "refused" or recorded.kind == "noise":
            body = messages[0].body if messages else {}
            return Message(recorded.kind, recorded.method, recorded.rpc_id, recorded.name, recorded.status, body)
        if not 0 <= recorded.part < len(messages):
            raise self._cassette.odd_row_error()
        return messages[recorded.part]

    def element(self, recorded: RecordedMessage, whole: FrameText | None = None) -> bytes:
        """Its text, verbatim; in a batch, its part. `whole` is the text of its frame, if it was read already."""
        whole = whole or self.frame_text(recorded)
        if not whole.is_batch or not whole.parts:
            return whole.text
        if not 0 <= recorded.part < len(whole.parts):
            raise self._cassette.odd_row_error()
        return whole.parts[recorded.part]

    def facts(self, recorded: RecordedMessage) -> RecordedMessage:
        """A message with the columns of its frame, except the text."""
        if recorded.at is not None:
            return recorded
        rows = self._cassette.rows(f"SELECT {_OF_FRAME} FROM facts f WHERE id = ?", (recorded.frame,))
        if not self._cassette.expect_types(rows, _FRAME_TYPES, "frames"):
            raise self._cassette.odd_row_error()
        return RecordedMessage._make((*recorded[:13], *rows[0], recorded.text))

    def _read(self, frame: int) -> bytes:
        rows = self._cassette.rows("SELECT CAST(coalesce(text, data) AS BLOB) FROM facts WHERE id = ?", (frame,))
        if not rows or rows[0][0] is None:
            raise self._cassette.odd_row_error()
        return bytes(rows[0][0])

    def select(self, session: int, where: str, *values: object, among: tuple[int, int] = _ALL) -> list[RecordedMessage]:
        """The messages of a session, or of a range of numbers in it, that match a condition."""
        asked = [file.storable_text(value) if isinstance(value, str) else value for value in values]
        # SQLite uses only one range of ids, so there must not be a second.
        span = (schema.row_id(session, min(max(number, 0), schema.MOST)) for number in among)
        return self._cassette.rows(_MESSAGES + where, (*span, *asked), _make_recorded)


def _behind(session: int, after: Position) -> tuple[int, int]:
    """The ids of a session's messages after a place; all of them if the place is in another session."""
    first, last = schema.row_ids(session)
    return (first + after[1] + after[2] + 1 if after[0] == session else first), last


def _make_recorded(row: Sequence[Any]) -> RecordedMessage:
    if not all(map(isinstance, row, _TYPES)):
        raise file.OddRowError("messages")
    return RecordedMessage._make((*row, *_NOT_READ))
