"""What of a cassette is compared: the client's requests with their answers, and what came beside them.

Rows are light, texts are read when a pair is looked at: a cassette may be larger than memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import merge
from itertools import chain
from typing import Any, NamedTuple

from ..cassette.functions import answer_of, text_of
from ..cassette.reader import MESSAGE_TYPES, Cassette
from ..replay.finder import rule
from ..wire import frames, jsontext, match, protocol
from .surface import GREETINGS, Answer

# A + before a column keeps SQLite from choosing the index that starts with it, and reading the whole session for each.
_ASKED = f"""SELECT q.session, q.seq, q.part, q.method, q.name, q.key, q.frame,
    a.seq, a.frame, a.part, a.status, af.at - qf.at
    FROM messages q JOIN frames qf ON qf.id = q.frame
    {answer_of("q", "qf")} AND +a.sender = 'server' AND a.status <> 'retry'
    LEFT JOIN frames af ON af.id = a.frame
    WHERE q.session = ? AND q.sender = 'client' AND q.kind = 'request' AND +q.key IS NOT NULL
        AND (q.seq, q.part) > (?, ?) ORDER BY q.seq, q.frame, q.part LIMIT ?"""
# What the server never got, or was to be asked again: those have no key.
_TRIED = """SELECT q.session, q.seq, q.part, q.method, q.name, q.frame
    FROM (SELECT DISTINCT session, answers FROM messages WHERE session = ? AND status = 'retry') a
    JOIN messages q ON q.session = a.session AND q.seq = a.answers AND q.sender = 'client' AND q.kind = 'request'
    WHERE +q.key IS NULL ORDER BY q.seq, q.part"""
_MADE_AGAIN = "SELECT 1 FROM messages WHERE session = ? AND key = ? AND (session, seq) > (?, ?) LIMIT 1"
_SAID = f"SELECT CAST({text_of('f', '?')} AS BLOB) FROM frames f WHERE f.id = ?"
_BLOCK = 1_000  # rows read at once
_LONG = b"0" * 16  # digits that a float may not tell apart
_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)  # ten times as fast as an expression
_BESIDE = """SELECT exchange, method, count(*) FROM messages
    WHERE session = ? AND sender = 'server' AND kind = ? GROUP BY exchange, method"""
_NUMBER_OR_NONE = MESSAGE_TYPES["answers"]
_PLACE_TYPES = tuple(MESSAGE_TYPES[name] for name in ("session", "seq", "part"))
_NAME, _METHOD = MESSAGE_TYPES["name"], (str,)  # whoever asks or tells something names a method
_ASKED_TYPES = (
    *(*_PLACE_TYPES, _METHOD, _NAME, (bytes,), (int,)),
    *(_NUMBER_OR_NONE, _NUMBER_OR_NONE, _NUMBER_OR_NONE, MESSAGE_TYPES["status"], _NUMBER_OR_NONE),
)


class Asked(NamedTuple):
    """A request of the client and where its answer is. No `answer`: there was none."""

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
        return f"{self.method} {self.name or ''}".rstrip()


class Question(NamedTuple):
    """A request of the server. `exchange`: where the client's request is that it was asked during."""

    session: int
    seq: int
    part: int
    method: str
    exchange: int | None
    frame: int


class Recording:
    """Sessions of a cassette, as one conversation."""

    def __init__(self, cassette: Cassette, sessions: Sequence[int], ignore_paths: Sequence[str] = ()) -> None:
        self._cassette = cassette
        self.sessions = list(sessions)
        self._counts = rule([path for path in ignore_paths if path.startswith("$.params")], ())
        self._text = lru_cache(1)(self._read)  # what is compared as text is often parsed next
        self._stale = {s.id for s in cassette.sessions() if s.key_version != match.KEY_VERSION}

    @property
    def incomplete(self) -> list[str]:
        """Why sessions are not whole, of those that are not."""
        every = {session.id: session.incomplete for session in self._cassette.sessions()}
        return [f"session {number} is incomplete: {every[number]}" for number in self.sessions if every[number]]

    @property
    def is_continued(self) -> bool:
        """Whether a session extends one that is not here."""
        bases = {session.extends for session in self._cassette.sessions() if session.id in self.sessions}
        return not bases <= {None, *self.sessions}

    def asked(self) -> Iterator[Asked]:
        """Every request of the client, in order; of what was tried again only the last try."""
        each = (merge(self._rows(session), self._in_vain(session), key=place_of) for session in self.sessions)
        rows = chain.from_iterable(each)
        if self._counts is None and self._stale.isdisjoint(self.sessions):
            return rows
        return (row._replace(key=self.key(row.method, self.params(row))) for row in rows)

    def key(self, method: str, params: Any) -> bytes:
        """The match key of a request, made anew."""
        if self._counts is None:
            return match.request_key(method, params)
        return match.key_under(self._counts, method, params)

    def params(self, asked: Asked) -> Any:
        """Numbers by their exact value, as keys are made of them."""
        text = self._text(asked.frame, asked.part)
        messages = frames.parse(text)[1]
        return match.exact_params(messages[0], text) if messages else None

    def answer(self, asked: Asked) -> Any:
        """The answer as a value, or None."""
        return None if asked.answer is None else self._body(asked.answer, asked.answer_part or 0)

    def about(self, asked: Asked) -> Answer:
        """What an answer tells about the surface."""
        return Answer((asked.session, asked.seq), asked.method, self.params(asked), self.answer(asked))

    def answer_text(self, asked: Asked) -> bytes:
        """The answer as it was recorded; nothing where there is none."""
        return self._text(asked.answer, asked.answer_part or 0) if asked.answer is not None else b""

    def server_requests(self) -> dict[tuple[int, int | None], Counter[str]]:
        """What the server asked the client for, by session and the request that it was asked during."""
        return self._beside("request")

    def unasked(self) -> int:
        """How many answers came that no request waited for. That a text could not be read has no request either."""
        sql = """SELECT count(*) FROM messages WHERE session = ? AND sender = 'server' AND kind = 'response'
                 AND answers IS NULL AND rpc_id IS NOT NULL AND rpc_id <> 'null'"""
        return sum(row[0] for session in self.sessions for row in self._cassette.rows(sql, (session,)))

    def questions(self) -> list[Question]:
        """Each of them, in order."""
        sql = """SELECT session, seq, part, method, exchange, frame FROM messages
                 WHERE session = ? AND sender = 'server' AND kind = 'request' ORDER BY seq, part"""
        types = (*_PLACE_TYPES, _METHOD, _NUMBER_OR_NONE, (int,))
        rows = (self._cassette.expected(self._cassette.rows(sql, (session,)), types) for session in self.sessions)
        return list(map(Question._make, chain.from_iterable(rows)))

    def question(self, asked: Question) -> Any:
        """What it is about: its params without the client's own affairs."""
        params = protocol.member(self._body(asked.frame, asked.part), "params")
        return {k: v for k, v in params.items() if k != "_meta"} if isinstance(params, dict) else params

    def notifications(self) -> dict[tuple[int, int | None], Counter[str]]:
        """What the server told, counted in the same way."""
        return self._beside("notification")

    def order_of_notifications(self, asked: Asked) -> list[str]:
        sql = """SELECT method FROM messages WHERE session = ? AND exchange = ? AND sender = 'server'
                 AND kind = 'notification' ORDER BY seq, part"""
        rows = self._cassette.rows(sql, (asked.session, asked.seq))
        return [method for (method,) in self._cassette.expected(rows, (_METHOD,))]

    def places_of(self, method: str) -> list[tuple[int, int]]:
        """Where the server told something: session and seq."""
        sql = "SELECT seq FROM messages WHERE session = ? AND method = ? AND sender = 'server' ORDER BY seq"
        rows = ((s, self._cassette.rows(sql, (s, method))) for s in self.sessions)
        return [(s, seq) for s, found in rows for (seq,) in self._cassette.expected(found, ((int,),))]

    def cancelled(self) -> set[tuple[int, int]]:
        """The requests that the client gave up: session and seq. Whether they were answered is chance."""
        sql = """SELECT session, exchange FROM messages WHERE session = ? AND method = ? AND sender = 'client'
                 AND exchange IS NOT NULL"""
        rows = [row for s in self.sessions for row in self._cassette.rows(sql, (s, protocol.CANCELLED))]
        return {(session, exchange) for session, exchange in rows}

    def _rows(self, session: int) -> Iterator[Asked]:
        """A block at a time. The same few words are in all of them, and kept once."""
        seq, part = 0, -1
        words: dict[str | None, str | None] = {}
        while block := self._cassette.expected(self._cassette.rows(_ASKED, (session, seq, part, _BLOCK)), _ASKED_TYPES):
            for *place, method, name, key, frame, at, answer, of, status, took in block:
                method, name, status = (words.setdefault(word, word) for word in (method, name, status))
                yield Asked._make((*place, method, name, key, frame, at, answer, of, status, took))
            self._cassette.expect_onward((seq, part), block[-1][1:3])
            seq, part = block[-1][1:3]

    def _in_vain(self, session: int) -> list[Asked]:
        """The last tries of requests that never got to the server and were not made again: they have no answer."""
        found: dict[bytes, Asked] = {}
        rows = self._cassette.rows(_TRIED, (session,))
        for *place, method, name, frame in self._cassette.expected(rows, (*_PLACE_TYPES, _METHOD, _NAME, (int,))):
            asked = Asked._make((*place, method, name, b"", frame, *(None,) * 5))
            key = match.request_key(method, self.params(asked))
            found[key] = asked._replace(key=key)
        return sorted((one for one in found.values() if not self._made_again(one)), key=place_of)

    def _made_again(self, asked: Asked) -> bool:
        if not self._stale.isdisjoint(self.sessions):
            return True  # keys of other rules: nobody knows
        place = asked.key, asked.session, asked.seq
        return any(self._cassette.rows(_MADE_AGAIN, (session, *place)) for session in self.sessions)

    def _beside(self, kind: str) -> dict[tuple[int, int | None], Counter[str]]:
        found: dict[tuple[int, int | None], Counter[str]] = {}
        for session in self.sessions:
            rows = self._cassette.rows(_BESIDE, (session, kind))
            for exchange, method, number in self._cassette.expected(rows, (_NUMBER_OR_NONE, _METHOD, (int,))):
                found.setdefault((session, exchange), Counter())[method] += number
        return found

    def _body(self, frame: int, part: int) -> Any:
        text = self._text(frame, part)
        try:
            long = _LONG in text.translate(_AS_ZEROS)
            body = jsontext.loads_exact(text.decode("utf-8", "replace")) if long else jsontext.loads(text)
        except RecursionError:
            body = next((message.body for message in frames.parse(text)[1]), None)  # the depths are left as text
        except ValueError:
            return None
        if isinstance(body, list):
            return body[part] if 0 <= part < len(body) else None
        return body

    def _read(self, frame: int, part: int) -> bytes:
        rows = self._cassette.rows(_SAID, (part, frame))
        return bytes(rows[0][0] or b"") if rows else b""


def place_of(asked: Asked | Question) -> tuple[int, int, int]:
    """Session, seq and part, by which all that is asked has its order."""
    return asked[:3]


def newest_handshake(cassette: Cassette, before: int) -> list[Answer]:
    """How the server greeted in the newest older session where it did.

    Some clients start the server twice, and ask who it is only the first time.
    """
    for (session,) in cassette.rows("SELECT id FROM sessions WHERE id < ? ORDER BY id DESC", (before,)):
        recording = Recording(cassette, [session])
        found = [one for one in recording.asked() if one.method in GREETINGS and one.status == "ok"]
        if found:
            return [recording.about(one) for one in found]
    return []
