"""A recording to compare: the client's requests with their answers, and the server's own messages.

Holds rows, and reads texts only for the pair at hand: a cassette may be larger than memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from heapq import merge
from itertools import chain
from typing import Any

from ..cassette.query import recorded_requests
from ..cassette.query.recorded_requests import Question, RecordedRequest, place_of
from ..cassette.reader import Cassette
from ..wire import frames, jsontext, match, protocol
from ..wire.frames import MessageKind
from ..wire.jsonpath import JsonPath
from ..wire.match import rule
from .surface import GREETINGS, SurfaceAnswer

_LONG = b"0" * 16  # more digits than a float holds
_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)  # ten times as fast as a regular expression


class Transcript:
    """Sessions of a cassette, as one conversation."""

    def __init__(self, cassette: Cassette, sessions: Sequence[int], ignore_paths: Sequence[str] = ()) -> None:
        self.cassette = cassette
        self.sessions = list(sessions)
        self._counts = rule([JsonPath(path) for path in ignore_paths if path.startswith("$.params")])
        # A text that was compared is often parsed next.
        self._text = lru_cache(1)(partial(recorded_requests.message_text, cassette))
        self._stale = {s.id for s in cassette.sessions() if s.key_version != match.KEY_VERSION}

    @property
    def incomplete_reasons(self) -> list[str]:
        """Reasons why sessions are incomplete."""
        every = {session.id: session.incomplete for session in self.cassette.sessions()}
        return [f"session {number} is incomplete: {every[number]}" for number in self.sessions if every[number]]

    @property
    def is_continued(self) -> bool:
        """True if a session extends one that is not among these."""
        bases = {session.extends for session in self.cassette.sessions() if session.id in self.sessions}
        return not bases <= {None, *self.sessions}

    def requests(self) -> Iterator[RecordedRequest]:
        """Every request of the client, in order; of retries only the last."""
        each = (
            merge(recorded_requests.requests(self.cassette, s), self._unreached_requests(s), key=place_of)
            for s in self.sessions
        )
        rows = chain.from_iterable(each)
        if self._counts is None and self._stale.isdisjoint(self.sessions):
            return rows
        return (row._replace(key=self.key(row.method, self.params(row))) for row in rows)

    def key(self, method: str, params: Any) -> bytes:
        if self._counts is None:
            return match.request_key(method, params)
        return match.key_under(self._counts, method, params)

    def params(self, asked: RecordedRequest) -> Any:
        """Params of a request, with numbers as exact values, as match keys need them."""
        text = self._text(asked.frame, asked.part)
        messages = frames.parse(text)[1]
        return match.exact_params(messages[0], text) if messages else None

    def answer(self, asked: RecordedRequest) -> Any:
        """The answer as a value, or None."""
        return None if asked.answer is None else self._body(asked.answer, asked.answer_part or 0)

    def surface_answer(self, asked: RecordedRequest) -> SurfaceAnswer:
        """A request about the surface, with its answer."""
        return SurfaceAnswer((asked.session, asked.seq), asked.method, self.params(asked), self.answer(asked))

    def answer_text(self, asked: RecordedRequest) -> bytes:
        """The answer verbatim; empty if there is none."""
        return self._text(asked.answer, asked.answer_part or 0) if asked.answer is not None else b""

    def count_during_calls(self, kind: MessageKind) -> dict[tuple[int, int | None], Counter[str]]:
        """The number of the server's messages of each method, by session and the call during which they came."""
        found: dict[tuple[int, int | None], Counter[str]] = {}
        for session in self.sessions:
            for exchange, method, number in recorded_requests.server_methods(self.cassette, session, kind):
                found.setdefault((session, exchange), Counter())[method] += number
        return found

    def count_unasked(self) -> int:
        """The number of answers that no request waited for."""
        return sum(recorded_requests.unasked_answers(self.cassette, session) for session in self.sessions)

    def questions(self) -> list[Question]:
        """The server's requests, in order."""
        return [one for session in self.sessions for one in recorded_requests.questions(self.cassette, session)]

    def question_params(self, asked: Question) -> Any:
        """Params of a server's request, without `_meta`."""
        return protocol.without_meta(self.own_params(asked))

    def own_messages(self) -> Iterator[Question]:
        """The server's requests and notifications, in order."""
        return chain.from_iterable(recorded_requests.own_messages(self.cassette, session) for session in self.sessions)

    def own_params(self, message: Question) -> Any:
        """Params of a server's request or notification."""
        return protocol.member(self._body(message.frame, message.part), "params")

    def order_of_notifications(self, asked: RecordedRequest) -> list[str]:
        return recorded_requests.notifications_during(self.cassette, asked)

    def places_of(self, method: str) -> list[tuple[int, int]]:
        """Session and seq of the server's messages of a method."""
        return [
            (s, seq) for s in self.sessions for seq in recorded_requests.server_message_seqs(self.cassette, s, method)
        ]

    def cancelled_requests(self) -> set[tuple[int, int]]:
        """The requests that the client cancelled: session and seq. Whether they were answered is chance."""
        return set[tuple[int, int]]().union(
            *(recorded_requests.cancelled_requests(self.cassette, session) for session in self.sessions)
        )

    def _unreached_requests(self, session: int) -> list[RecordedRequest]:
        """The last tries of requests that never reached the server and were not repeated: they have no answer."""
        found: dict[bytes, RecordedRequest] = {}
        for asked in recorded_requests.unreached_requests(self.cassette, session):
            key = match.request_key(asked.method, self.params(asked))
            found[key] = asked._replace(key=key)
        return sorted((one for one in found.values() if not self._is_repeated(one)), key=place_of)

    def _is_repeated(self, asked: RecordedRequest) -> bool:
        if not self._stale.isdisjoint(self.sessions):
            return True  # keys of other rules: unknown
        return any(recorded_requests.is_made_again(self.cassette, session, asked) for session in self.sessions)

    def _body(self, frame: int, part: int) -> Any:
        text = self._text(frame, part)
        try:
            long = _LONG in text.translate(_AS_ZEROS)
            body = jsontext.loads_exact(text.decode("utf-8", "replace")) if long else jsontext.loads(text)
        except RecursionError:
            body = next((message.body for message in frames.parse(text)[1]), None)  # deep values stay text
        except ValueError:
            return None
        if isinstance(body, list):
            return body[part] if 0 <= part < len(body) else None
        return body


def newest_handshake(cassette: Cassette, before: int) -> list[SurfaceAnswer]:
    """Return the handshake of the newest earlier session that has one.

    Some clients start the server twice, and greet it only the first time.
    """
    older = [session.id for session in cassette.each_session() if session.id < before]
    for session in reversed(older):
        recording = Transcript(cassette, [session])
        found = [one for one in recording.requests() if one.method in GREETINGS and one.status == "ok"]
        if found:
            return [recording.surface_answer(one) for one in found]
    return []
