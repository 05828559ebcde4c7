"""The sessions that play, looked up by index as they are needed: start-up must not grow with the cassette."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..cassette import file
from ..cassette.reader import MESSAGE_TYPES, Cassette, Types
from ..wire import match, protocol
from ..wire.frames import FrameKind, Message, MessageKind, Side
from .ahead import Ahead
from .choosing import choose, is_legacy, is_modern, newest
from .controls import Controls
from .kept import FrameText, Kept

_SMALL = 16_384  # longer texts are read when they are played, and those of batches once for all their messages
_BLOCK = 1_000  # rows read at once where all are wanted

Position = tuple[int, int, int]  # session, seq, part
_START: Position = (0, 0, 0)


class Recorded(NamedTuple):
    """One message on the tape. What stands behind `frame` is its frame's, and None where it was not read."""

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


# A + before a column keeps SQLite from choosing the index that starts with it: without statistics it takes
# the one that gives the order, and reads the whole session.
_COLUMNS = ", ".join(f"m.{name}" for name in Recorded._fields[:13])
_OF_FRAME = "f.at, f.kind, f.eol, f.channel, CAST(f.head AS BLOB)"
_TYPES = tuple(MESSAGE_TYPES[name] for name in Recorded._fields[:13])
_FRAME_TYPES: tuple[Types, ...] = (int,), (str,), (str,), (str,), (bytes, type(None))
_WITH_TEXT_TYPES = (*_TYPES, *_FRAME_TYPES, (bytes, type(None)))
_MESSAGES = f"SELECT {_COLUMNS} FROM messages m WHERE session = ? AND "
_WITH_TEXTS = f"""SELECT {_COLUMNS}, {_OF_FRAME},
    CASE WHEN f.kind <> 'batch' AND length(f.text) <= {_SMALL} THEN CAST(f.text AS BLOB) END
    FROM messages m JOIN frames f ON f.id = m.frame WHERE +m.session = ? AND """
# Each goes on in its index right behind a place; numbers of frames rise with seq.
_FRAME = "coalesce((SELECT id FROM frames WHERE session = ? AND seq = ?), 0)"
_NEXT_REQUEST = f"""key = ? AND +sender = 'client'
    AND (seq, frame, part) > (?, {_FRAME}, ?) ORDER BY seq, frame, part LIMIT 1"""
_NEXT_NOTIFICATION = f"""method = ? AND +kind = 'notification' AND +sender = 'client'
    AND +seq >= ? AND (frame, part) > ({_FRAME}, ?) ORDER BY frame, part LIMIT 1"""
# Of a batch, from the first answer with that id on.
_ANSWER = f"""answers = ? AND +rpc_id = ? AND (frame, part) >= (
    CASE (SELECT kind FROM frames WHERE id = ?) WHEN 'batch' THEN answered(?, ?, ?, 0) ELSE {-(1 << 63)} END,
    CASE (SELECT kind FROM frames WHERE id = ?) WHEN 'batch' THEN answered(?, ?, ?, 1) ELSE {-(1 << 63)} END) LIMIT 1"""


class Selection:
    """What of a cassette plays: some sessions, in this order."""

    def __init__(self, cassette: Cassette, sessions: Sequence[int], until: int | None = None) -> None:
        """`until`: the newest session that counts; what is recorded while this plays does not."""
        self._cassette = cassette
        self._until = newest(cassette) if until is None else until
        self.path = cassette.path  # as reports name it
        self.sessions = list(sessions)
        self.stale = self._made_by_other_rules()
        self._added = self._extending()
        self._places = {session: at for at, session in enumerate(self.sessions)}
        self.taken: set[Position] = set()  # the requests that were played
        self.ahead = Ahead(cassette, self.sessions[0])
        self.controls = Controls(cassette)
        self.kept = Kept(cassette)

    @property
    def is_of_url(self) -> bool:
        """Whether the server was at a URL, and not started by a command."""
        return self.controls.transport(self.sessions[0]) != "stdio"

    # -- what the client asked

    def next_request(self, key: bytes, after: Position = _START) -> Recorded | None:
        """The next request of the client with this key."""
        found = self._next(_NEXT_REQUEST, key, after)
        while found is not None and not self._counts(found):
            found = self._next(_NEXT_REQUEST, key, found.place)
        if found is not None and found.session == self.sessions[0]:
            self.ahead.move_to(found.seq, self.taken)
        return found

    def at(self, place: Position) -> Recorded:
        """The message at a place."""
        session, seq, part = place
        frame = "frame = (SELECT id FROM frames WHERE session = ? AND seq = ?) AND part = ?"
        found = self._select(frame, (session, session, seq, part))
        if not found:
            raise self._cassette.odd()
        return found[0]

    def next_notification(self, method: str, after: Position = _START) -> Recorded | None:
        """The next notification of the client with this method."""
        return self._next(_NEXT_NOTIFICATION, method, after)

    def rows(self, session: int, where: str, *values: object) -> list[Recorded]:
        """The messages of a session that fit a condition in SQL."""
        return self._select(where, (session, *values))

    def requests(self, method: str, *, redacted: bool = False) -> list[Recorded]:
        """The recorded requests of a method, of all sessions that play."""
        hidden = "AND (SELECT redactions FROM frames WHERE id = frame) > 0" if redacted else ""
        where = (
            f"method = ? AND +kind = 'request' AND key IS NOT NULL AND +sender = 'client' {hidden} ORDER BY seq, part"
        )
        rows = (row for session in self.sessions for row in self._select(where, (session, method)))
        return [row for row in rows if self._counts(row)]

    def requests_like(self, method: str, name: str | None, most: int) -> list[Recorded]:
        """So many of them, those of the same name first."""
        found: list[Recorded] = []
        for same in ("IS", "IS NOT"):
            where = f"""method = ? AND +key IS NOT NULL AND +sender = 'client' AND +name {same} ?
                ORDER BY frame, part LIMIT ?"""
            for session in self.sessions:
                rows = self._select(where, (session, method, name, most - len(found)))
                found += filter(self._counts, rows)
        return found

    def all_requests(self) -> Iterator[Recorded]:
        """Every request of the client, a block at a time."""
        for session in self.sessions:
            seq, part = 0, -1
            where = "sender = 'client' AND (seq, part) > (?, ?) AND +key IS NOT NULL ORDER BY seq, part LIMIT ?"
            while block := self._select(where, (session, seq, part, _BLOCK)):
                yield from filter(self._counts, block)
                self._cassette.expect_onward((seq, part), block[-1].place[1:])
                seq, part = block[-1].seq, block[-1].part

    def newest(self, method: str) -> Recorded | None:
        """The first answered request of this method in the newest session that has one."""
        for session in self._all():
            for row in self._select("method = ? AND +kind = 'request' AND +sender = 'client'", (session, method)):
                if self.answer(row) is not None:
                    return row
        return None

    def knows(self, method: str) -> bool:
        """Whether any session of the cassette has a request of this method."""
        sql = """SELECT EXISTS (SELECT 1 FROM sessions s JOIN messages m ON m.session = s.id
                 WHERE s.id <= ? AND m.method = ? AND +m.kind = 'request' AND +m.sender = 'client')"""
        return bool(self._cassette.rows(sql, (self._until, file.storable(method)))[0][0])

    def elsewhere(self, key: bytes) -> int | None:
        """The newest session that does not play and has a request with this key."""
        for session in self._all():
            if session not in self._places and self._select("key = ? AND +sender = 'client' LIMIT 1", (session, key)):
                return int(session)
        return None

    def _all(self) -> list[int]:
        """Every session, newest first, whether it plays or not."""
        rows = self._cassette.rows("SELECT id FROM sessions WHERE id <= ? ORDER BY id DESC", (self._until,))
        return [number for (number,) in rows]

    def is_legacy(self, session: int) -> bool:
        """Whether a session began with the legacy era's handshake."""
        return is_legacy(self._cassette, session)

    def is_modern(self, session: int) -> bool:
        """Whether its requests tell their version themselves, as those of the modern era do."""
        return is_modern(self._cassette, session)

    def is_of_other_era(self, session: int) -> bool:
        """Whether a session is of another era than what plays."""
        first = self.sessions[0]
        if self.is_legacy(first):
            return self.is_modern(session)
        return self.is_modern(first) and self.is_legacy(session)

    # -- what belongs to it

    def cued(self, session: int, cue: int) -> list[Recorded]:
        """What the server sends once this client message has arrived, in order, texts included."""
        return self._with_texts("m.session = ? AND m.cue = ? ORDER BY m.seq, m.part", (session, session, cue))

    def answer(self, request: Recorded) -> Recorded | None:
        """The recorded answer to a request of either side."""
        asked = request.session, request.seq, request.rpc_id
        rows = self._select(_ANSWER, (*asked, request.frame, *asked, request.frame, *asked))
        return rows[0] if rows else None

    def of_exchange(self, request: Recorded) -> list[Recorded]:
        """Everything that belongs to a request of the client, itself included."""
        return self._select("exchange = ? ORDER BY seq, part", (request.session, request.seq))

    def answered_between(self, session: int, start: int, end: int) -> list[Recorded]:
        """The answers that came between two messages."""
        where = "sender = 'server' AND seq > ? AND seq < ? AND +answers IS NOT NULL ORDER BY seq, part"
        return self._select(where, (session, start, end))

    def was_left(self, request: Recorded) -> bool:
        """Whether the client cancelled by leaving, as over HTTP it does in the modern era.

        Before, "disconnection SHOULD NOT be interpreted as the client cancelling its request":
        https://modelcontextprotocol.io/specification/2025-06-18/basic/transports#sending-messages-to-the-server
        """
        channel = self.facts(request).channel or ""
        left = channel != "stdio" and self.controls.was_left(request.session, channel, request.seq)
        return left and self._is_modern(request)

    def _is_modern(self, request: Recorded) -> bool:
        """Whether a request says so itself; those of both eras may share a session."""
        messages = self.frame_text(request).messages[request.part :]
        return not self.is_legacy(request.session) or any(protocol.is_modern(one.body) for one in messages[:1])

    def _counts(self, request: Recorded) -> bool:
        """Whether a request is on the tape: one that was added and never answered is not.

        Its server may have crashed, or its client gone. The next time it is a miss again, so that the live server can
        be asked once more. A cancel is an ending too; over HTTP that may be leaving, but only of a client who goes on.
        """
        if request.session not in self._added or self.answer(request) is not None:
            return True
        mates = self.of_exchange(request)
        if request.method == protocol.LISTEN:
            return any(row.sender == "server" for row in mates)
        cancelled = any(row.sender == "client" and row.method == protocol.CANCELLED for row in mates)
        return cancelled or (self.was_left(request) and self._went_on(request))

    def _went_on(self, request: Recorded) -> bool:
        """Whether the client said more once it had left a request."""
        sql = """SELECT 1 FROM frames gone JOIN frames more ON more.session = gone.session AND more.seq > gone.seq
            WHERE gone.session = ? AND gone.channel = ? AND gone.sender = 'client' AND gone.kind = 'control'
            AND gone.seq > ? AND more.sender = 'client' AND more.kind IN ('message', 'batch') LIMIT 1"""
        return bool(self._cassette.rows(sql, (request.session, self.facts(request).channel, request.seq)))

    def last_of_stream(self, request: Recorded) -> int | None:
        """Where the last message is that came for a request on its own stream."""
        where = "exchange = ? AND sender = 'server' AND (SELECT channel FROM frames WHERE id = frame) = ?"
        rows = self._select(f"{where} ORDER BY seq", (request.session, request.seq, self.facts(request).channel or ""))
        return rows[-1].seq if rows else None

    # -- for the client's role

    def of_client(self, session: int) -> list[Recorded]:
        """Everything the client sent."""
        return self._select("sender = 'client' ORDER BY seq, part", (session,))

    def of_server(self, session: int) -> list[Recorded]:
        """Everything the server sent."""
        return self._select("sender = 'server' ORDER BY seq, part", (session,))

    # -- the frame of a message

    def text(self, recorded: Recorded) -> bytes:
        """Its text, verbatim."""
        return recorded.text if recorded.text is not None else self.frame_text(recorded).text

    def frame_text(self, recorded: Recorded) -> FrameText:
        """The same with all messages of its frame."""
        found: FrameText | None = self.kept.get(recorded.frame)
        if found is None:
            found = FrameText(recorded.text if recorded.text is not None else self._read(recorded.frame))
            if found.is_batch:
                self.kept.put(recorded.frame, found)
        return found

    def message(self, recorded: Recorded) -> Message:
        """What it says. Nothing where its text is no message: noise, or a body that refuses what was asked."""
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

    def _read(self, frame: int) -> bytes:
        rows = self._cassette.rows("SELECT CAST(text AS BLOB) FROM frames WHERE id = ?", (frame,))
        if not rows or rows[0][0] is None:
            raise self._cassette.odd()
        return bytes(rows[0][0])

    def facts(self, recorded: Recorded) -> Recorded:
        """The same message with what its frame tells but for the text."""
        if recorded.at is not None:
            return recorded
        rows = self._cassette.rows(f"SELECT {_OF_FRAME} FROM frames f WHERE id = ?", (recorded.frame,))
        if not self._cassette.expected(rows, _FRAME_TYPES, "frames"):
            raise self._cassette.odd()
        return Recorded._make((*recorded[:13], *rows[0], recorded.text))

    def _next(self, where: str, value: object, after: Position) -> Recorded | None:
        session, *place = after
        for other in self.sessions[self._places.get(session, 0) :]:
            seq, part = place if other == session else (0, 0)
            rows = self._select(where, (other, value, seq, other, seq, part))
            if rows:
                if rows[0].place <= after and other == session:
                    raise self._cassette.odd()  # whoever goes on from there would never come to an end
                return rows[0]
        return None

    def _select(self, where: str, values: tuple[object, ...]) -> list[Recorded]:
        asked = [file.storable(value) if isinstance(value, str) else value for value in values]
        rows = self._cassette.expected(self._cassette.rows(_MESSAGES + where, asked), _TYPES)
        return list(map(Recorded._make, map(_padded, rows)))

    def _with_texts(self, where: str, values: tuple[object, ...]) -> list[Recorded]:
        rows = self._cassette.expected(self._cassette.rows(_WITH_TEXTS + where, values), _WITH_TEXT_TYPES)
        return list(map(Recorded._make, rows))

    def _made_by_other_rules(self) -> bool:
        return bool(self._playing(f"key_version <> {match.KEY_VERSION}"))

    def _extending(self) -> set[int]:
        """The sessions that add to another."""
        return self._playing("extends IS NOT NULL")

    def _playing(self, which: str) -> set[int]:
        """Those that play and are such; asked for some at a time, as SQLite takes only so many values at once."""
        found: set[int] = set()
        for first in range(0, len(self.sessions), _AT_ONCE):
            some = self.sessions[first : first + _AT_ONCE]
            sql = f"SELECT id FROM sessions WHERE id IN ({', '.join('?' * len(some))}) AND {which}"
            found |= {number for (number,) in self._cassette.rows(sql, some)}
        return found


_NOT_READ = (None,) * 6
_AT_ONCE = 500  # https://www.sqlite.org/limits.html#max_variable_number


def _padded(row: tuple[object, ...]) -> tuple[object, ...]:
    return row + _NOT_READ


def select(
    cassette: Cassette, which: str, legacy: bool | None = None, nth: int | None = None, until: int | None = None
) -> Selection:
    """The sessions that `choosing.choose` chooses, to be played."""
    return Selection(cassette, choose(cassette, which, legacy, nth, until), until)
