"""Recorded messages, looked up as they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ...wire import frames, protocol, rewrite
from ...wire.frames import FrameKind, Message, MessageKind, Side
from .. import file
from ..reader import MESSAGE_TYPES, Cassette, OddRowError, Types

if TYPE_CHECKING:
    from .controls import Controls

_SMALL = 16_384  # longer texts are read when they are played, and those of batches once for all their messages
_KEPT = 8  # things in a cache

Position = tuple[int, int, int]  # session, seq, part
START: Position = (0, 0, 0)


class Recorded(NamedTuple):
    """One message on the tape. The fields behind `frame` are those of its frame, and None where it was not read."""

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
    def sender(self) -> Side:
        return "client" if self.cue is None else "server"  # only what the server sent waits for a cue


class Plain(NamedTuple):
    """A request of which only its answer is cued: that answer with its line end, and what preceded it on the wire."""

    session: int
    seq: int
    part: int
    rpc_id: str
    answer: bytes
    head: bytes | None


# A + before a column keeps SQLite from choosing the index that starts with it: without statistics it takes the one
# that gives the order, and reads the whole session. https://www.sqlite.org/optoverview.html#uplus
_COLUMNS = ", ".join(f"m.{name}" for name in Recorded._fields[:13])
_OF_FRAME = "f.at, f.kind, f.eol, f.channel, CAST(f.head AS BLOB)"
_TYPES = tuple(MESSAGE_TYPES[name] for name in Recorded._fields[:13])
_DATA: Types = (bytes, type(None))
_FRAME_TYPES: tuple[Types, ...] = (int,), (str,), (str,), (str,), _DATA
_NEXT_TYPES = (*_TYPES, _DATA, _DATA)
_NOT_READ = (None,) * 6
_MESSAGES = f"SELECT {_COLUMNS} FROM messages m WHERE session = ? AND "
_WITH_TEXTS = f"""SELECT {_COLUMNS}, {_OF_FRAME},
    CASE WHEN f.kind <> 'batch' AND length(f.text) <= {_SMALL} THEN CAST(f.text AS BLOB) END
    FROM messages m JOIN frames f ON f.id = m.frame
    WHERE +m.session = ? AND m.session = ? AND m.cue = ? ORDER BY m.seq, m.part"""
# Each goes on in its index right behind a place; numbers of frames rise with seq.
_FRAME = "coalesce((SELECT id FROM frames WHERE session = ? AND seq = ?), 0)"
_NEXT_NOTIFICATION = f"""method = ? AND +kind = 'notification' AND +sender = 'client'
    AND +seq >= ? AND (frame, part) > ({_FRAME}, ?) ORDER BY frame, part LIMIT 1"""
# The answer to a request, where it may be sent as it is but for its id. Other line breaks depend on the transport.
_PLAIN = f"""CASE WHEN af.kind = 'message' AND typeof(af.text) = 'text' AND af.channel = f.channel
    AND a.status NOT IN ('refused', 'error') AND length(af.text) <= {_SMALL}
    AND instr(af.text, char(10)) = 0 AND instr(af.text, char(13)) = 0
    THEN CAST(af.text || CASE af.eol WHEN '' THEN char(10) ELSE af.eol END AS BLOB) END"""
_WITH_ANSWER = """FROM messages m LEFT JOIN frames f ON f.id = m.frame
    LEFT JOIN messages a ON a.session = m.session AND a.cue = CASE f.kind WHEN 'message' THEN m.seq END
         AND +a.answers = m.seq AND +a.rpc_id = m.rpc_id
    LEFT JOIN frames af ON af.id = a.frame"""
_NEXT_REQUEST = f"""SELECT {_COLUMNS}, CASE 1 WHEN (SELECT count(*) FROM (
        SELECT 1 FROM messages c WHERE c.session = a.session AND c.cue = a.cue LIMIT 2)) THEN {_PLAIN} END,
    CAST(af.head AS BLOB) {_WITH_ANSWER}
    WHERE m.session = ? AND m.key = ? AND +m.sender = 'client'
    AND (m.seq, m.frame, m.part) > (?, {_FRAME}, ?) ORDER BY m.seq, m.frame, m.part LIMIT 1"""
_SPAN = "SELECT min(id), max(id), max(seq) FROM frames WHERE session = ? AND seq BETWEEN ? AND ?"
_CUES = "SELECT cue FROM messages WHERE session = ? AND cue BETWEEN ? AND ?"
# Those of a batch are never plain, and would each have all of its text.
_REQUESTS = f"""SELECT m.session, m.seq, m.part, m.rpc_id, {_PLAIN}, CAST(af.head AS BLOB), m.key, m.method,
    CASE f.kind WHEN 'message' THEN CAST(f.text AS BLOB) ELSE x'' END {_WITH_ANSWER}
    WHERE m.frame BETWEEN ? AND ? AND +m.session = ? AND m.key IS NOT NULL AND m.cue IS NULL AND f.id IS NOT NULL"""
_REQUEST_TYPES: tuple[Types, ...] = (*((int,),) * 3, (str,), _DATA, _DATA, (bytes,), (str, type(None)), (bytes,))
_CHANGED = f"""SELECT min(seq) FROM messages WHERE session = ? AND +sender = 'server'
    AND method IN ({", ".join(f"'{method}'" for method in sorted(protocol.CHANGES))})"""
# Of a batch, from the first answer with that id on.
_ANSWER = f"""answers = ? AND +rpc_id = ? AND (frame, part) >= (
    CASE (SELECT kind FROM frames WHERE id = ?) WHEN 'batch' THEN answered(?, ?, ?, 0) ELSE {-(1 << 63)} END,
    CASE (SELECT kind FROM frames WHERE id = ?) WHEN 'batch' THEN answered(?, ?, ?, 1) ELSE {-(1 << 63)} END) LIMIT 1"""
_ASKED = "sender = 'client' AND seq BETWEEN ? AND ? AND +kind = 'request'"
_WENT_ON = """SELECT 1 FROM frames gone JOIN frames more ON more.session = gone.session AND more.seq > gone.seq
    WHERE gone.session = ? AND gone.channel = ? AND gone.sender = 'client' AND gone.kind = 'control'
    AND gone.seq > ? AND more.sender = 'client' AND more.kind IN ('message', 'batch') LIMIT 1"""


class FrameText:
    """The text of a frame, taken apart when that is needed."""

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
    """The few things that were used last and take long to read: the text of a batch above all.

    All messages of a batch have one text, and share what waits for them. Read anew for each of them, ten thousand would
    never come to an end. All is forgotten when somebody else writes to the file.
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
            self._things[key] = thing  # the newest is the last
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
        self.path = cassette.path  # as reports name it
        self.cache = Cache(cassette)

    @cached_property
    def controls(self) -> Controls:
        from .controls import Controls  # only where there are some

        return Controls(self._cassette)

    # -- requests and notifications of the client

    def next_of_key(self, session: int, key: bytes, after: Position) -> tuple[Recorded, Plain | None] | None:
        """The next request with a key behind a place of its session; with its answer where nothing else is cued."""
        start = after[1:] if after[0] == session else (0, 0)
        rows = self._cassette.rows(_NEXT_REQUEST, (session, key, start[0], session, *start))
        if not self._cassette.expected(rows, _NEXT_TYPES):
            return None
        row, answer = rows[0], rows[0][13]
        found = self._behind(Recorded._make(row[:13] + _NOT_READ), after)
        return found, None if answer is None else Plain._make((*row[:3], row[5], *row[13:]))

    def next_of_method(self, session: int, method: str, after: Position) -> Recorded | None:
        """The next notification with a method behind a place of its session."""
        start = after[1:] if after[0] == session else (0, 0)
        rows = self.select(session, _NEXT_NOTIFICATION, method, start[0], session, *start)
        return self._behind(rows[0], after) if rows else None

    def _behind(self, row: Recorded, after: Position) -> Recorded:
        if row.session == after[0] and row.place <= after:
            raise self._cassette.odd()  # whoever goes on from there would never come to an end
        return row

    def stretch(self, session: int, start: int, size: int) -> tuple[int, list[tuple[Any, ...]]]:
        """The requests in some frames of a session, and the first seq behind those frames.

        Each is a row like `Plain`, without an answer where that is not all that is cued, with key, method and text.
        """
        found = self._cassette.rows(_SPAN, (session, start, start + size - 1))
        ((first, last, end),) = self._cassette.expected(found, ((int, type(None)),) * 3, "frames")
        stop = (end or start) + 1
        cues: dict[int, int] = {}
        for (cue,) in self._cassette.rows(_CUES, (session, start, stop - 1)):
            cues[cue] = cues.get(cue, 0) + 1
        rows = self._cassette.expected(self._cassette.rows(_REQUESTS, (first, last, session)), _REQUEST_TYPES)
        return stop, [row if cues.get(row[1]) == 1 else (*row[:4], None, *row[5:]) for row in rows]

    def first_change(self, session: int) -> int | None:
        """Where the server first said that something had changed."""
        ((seq,),) = self._cassette.rows(_CHANGED, (session,))
        return None if seq is None else int(seq)

    def of_method(self, session: int, method: str, *, redacted: bool = False) -> list[Recorded]:
        """The requests with a method; perhaps only those that something was hidden in."""
        hidden = "AND (SELECT redactions FROM frames WHERE id = frame) > 0" if redacted else ""
        where = f"method = ? AND +kind = 'request' AND key IS NOT NULL AND +sender = 'client' {hidden}"
        return self.select(session, f"{where} ORDER BY seq, part", method)

    def of_name(self, session: int, method: str, name: str | None, is_same: bool, most: int) -> list[Recorded]:
        """So many requests with a method, of a name or of all others."""
        where = f"method = ? AND +key IS NOT NULL AND +sender = 'client' AND +name {'IS' if is_same else 'IS NOT'} ?"
        return self.select(session, f"{where} ORDER BY frame, part LIMIT ?", method, name, most)

    def of_session(self, session: int) -> Iterator[Recorded]:
        """Every request of the client, a page at a time."""
        sql, key = f"{_MESSAGES} sender = 'client' AND +key IS NOT NULL", {"seq": 1, "frame": 12, "part": 2}
        return chain.from_iterable(self._cassette.pages(sql, (session,), key, _recorded))

    def has_key(self, session: int, key: bytes) -> bool:
        return bool(self.select(session, "key = ? AND +sender = 'client' LIMIT 1", key))

    def first_answered(self, session: int, method: str) -> Recorded | None:
        """The first request with a method that was answered."""
        rows = self.select(session, "method = ? AND +kind = 'request' AND +sender = 'client'", method)
        return next((row for row in rows if self.answer(row) is not None), None)

    def asked_before(self, session: int, seq: int, soon: int, rpc_id: str) -> Recorded | None:
        """The newest request with an id, in so many frames before a place."""
        where = f"{_ASKED} AND +rpc_id = ? ORDER BY seq DESC, part DESC LIMIT 1"
        return next(iter(self.select(session, where, seq - soon, seq - 1, rpc_id)), None)

    def with_tokens_before(self, session: int, seq: int, soon: int, most: int) -> list[Recorded]:
        """The requests that may want progress, in so many frames before a place, the newest first."""
        token = "AND (SELECT instr(text, 'progressToken') FROM frames WHERE id = frame)"
        where = f"{_ASKED} {token} ORDER BY seq DESC, part DESC LIMIT {most}"
        return self.select(session, where, seq - soon, seq - 1)

    def stray_answers(self, session: int) -> list[Recorded]:
        """Answers of the client to nothing that it was asked."""
        return self.select(session, "sender = 'client' AND +kind = 'response' AND +answers IS NULL ORDER BY seq, part")

    def of_client(self, session: int) -> list[Recorded]:
        return self.select(session, "sender = 'client' ORDER BY seq, part")

    # -- what the server sent

    def cued(self, session: int, cue: int) -> list[Recorded]:
        """Messages of the server that wait for one of the client, in order, texts included."""
        rows = self._cassette.rows(_WITH_TEXTS, (session, session, cue))
        return list(map(Recorded._make, self._cassette.expected(rows, (*_TYPES, *_FRAME_TYPES, _DATA))))

    def answer(self, request: Recorded) -> Recorded | None:
        """The recorded answer to a request of either side."""
        asked = request.seq, request.rpc_id
        whole = request.session, *asked
        rows = self.select(request.session, _ANSWER, *asked, request.frame, *whole, request.frame, *whole)
        return rows[0] if rows else None

    def of_exchange(self, request: Recorded) -> list[Recorded]:
        """Everything that belongs to a request of the client, itself included."""
        return self.select(request.session, "exchange = ? ORDER BY seq, part", request.seq)

    def answered_between(self, session: int, start: int, end: int) -> list[Recorded]:
        """The answers that came between two messages."""
        where = "sender = 'server' AND seq > ? AND seq < ? AND +answers IS NOT NULL ORDER BY seq, part"
        return self.select(session, where, start, end)

    def changes_between(self, session: int, method: str, start: int, end: int) -> list[Recorded]:
        """The notifications with a method between two messages, the newest first."""
        where = "method = ? AND +sender = 'server' AND +seq > ? AND +seq < ? ORDER BY frame DESC, part DESC"
        return self.select(session, where, method, start, end)

    def question(self, session: int, seq: int, rpc_id: str) -> Recorded | None:
        """The newest request of the server with an id, before a place."""
        where = "sender = 'server' AND seq <= ? AND +kind = 'request' AND +rpc_id = ?"
        return next(iter(self.select(session, f"{where} ORDER BY seq DESC, part DESC LIMIT 1", seq, rpc_id)), None)

    def last_of_stream(self, request: Recorded) -> int | None:
        """The place of the last message that came for a request on its own stream."""
        where = "exchange = ? AND sender = 'server' AND (SELECT channel FROM frames WHERE id = frame) = ? ORDER BY seq"
        rows = self.select(request.session, where, request.seq, self.facts(request).channel or "")
        return rows[-1].seq if rows else None

    def of_server(self, session: int) -> list[Recorded]:
        return self.select(session, "sender = 'server' ORDER BY seq, part")

    def went_on(self, request: Recorded) -> bool:
        """Return whether the client said more once it had left a request."""
        return bool(self._cassette.rows(_WENT_ON, (request.session, self.facts(request).channel, request.seq)))

    # -- any message, and its frame

    def at(self, place: Position) -> Recorded:
        """The message at a place."""
        session, seq, part = place
        frame = "frame = (SELECT id FROM frames WHERE session = ? AND seq = ?) AND part = ?"
        found = self.select(session, frame, session, seq, part)
        if not found:
            raise self._cassette.odd()
        return found[0]

    def text(self, recorded: Recorded) -> bytes:
        return recorded.text if recorded.text is not None else self.frame_text(recorded).text

    def frame_text(self, recorded: Recorded) -> FrameText:
        """The text of its frame, with all messages in it."""
        found: FrameText | None = self.cache.get(recorded.frame)
        if found is None:
            found = FrameText(recorded.text if recorded.text is not None else self._read(recorded.frame))
            if found.is_batch:
                self.cache.put(recorded.frame, found)
        return found

    def message(self, recorded: Recorded) -> Message:
        """The message itself. Empty where its text is none: noise, or a body that refuses what was asked."""
        messages = self.frame_text(recorded).messages
        if recorded.status == "refused" or recorded.kind == "noise":
            body = messages[0].body if messages else {}
            return Message(recorded.kind, recorded.method, recorded.rpc_id, recorded.name, recorded.status, body)
        if not 0 <= recorded.part < len(messages):
            raise self._cassette.odd()
        return messages[recorded.part]

    def element(self, recorded: Recorded, whole: FrameText | None = None) -> bytes:
        """Its text, verbatim; of a batch, its part. `whole` is the text of its frame, where that is at hand."""
        whole = whole or self.frame_text(recorded)
        if not whole.is_batch or not whole.parts:
            return whole.text
        if not 0 <= recorded.part < len(whole.parts):
            raise self._cassette.odd()
        return whole.parts[recorded.part]

    def facts(self, recorded: Recorded) -> Recorded:
        """A message with the columns of its frame, but for the text."""
        if recorded.at is not None:
            return recorded
        rows = self._cassette.rows(f"SELECT {_OF_FRAME} FROM frames f WHERE id = ?", (recorded.frame,))
        if not self._cassette.expected(rows, _FRAME_TYPES, "frames"):
            raise self._cassette.odd()
        return Recorded._make((*recorded[:13], *rows[0], recorded.text))

    def _read(self, frame: int) -> bytes:
        rows = self._cassette.rows("SELECT CAST(text AS BLOB) FROM frames WHERE id = ?", (frame,))
        if not rows or rows[0][0] is None:
            raise self._cassette.odd()
        return bytes(rows[0][0])

    def select(self, session: int, where: str, *values: object) -> list[Recorded]:
        """The messages of a session that fit a condition."""
        asked = [file.storable(value) if isinstance(value, str) else value for value in (session, *values)]
        return self._cassette.rows(_MESSAGES + where, asked, _recorded)


def _recorded(row: Sequence[Any]) -> Recorded:
    if not all(map(isinstance, row, _TYPES)):
        raise OddRowError("messages")
    return Recorded._make((*row, *_NOT_READ))
