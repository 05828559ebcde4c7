"""The sessions of a cassette that play, and look-ups across all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..cassette.lookup import playable_sessions
from ..cassette.lookup.messages import START, Messages, NextRequest, Position, RecordedMessage
from ..cassette.reader import Cassette, Session
from ..errors import CassetteError, quote_path
from ..wire import channels, frames, match, protocol

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from ..cassette.lookup.controls import Ending

_Numbered = Sequence[tuple[int, int | None]]  # sessions, each with the session it extends


class Selection(Messages):
    """Some sessions of a cassette, in playing order.

    `path` and `given` are for reports: the name of the cassette, and the command-line options for session choice and
    matching.
    """

    given: tuple[str, ...] = ()

    def __init__(self, cassette: Cassette, numbers: Sequence[int], until: int | None = None) -> None:
        """`until`: the newest session to use; sessions recorded during the replay are ignored."""
        super().__init__(cassette)
        self._until = playable_sessions.newest_session(cassette) if until is None else until
        self.sessions = list(numbers)
        self.stale = bool(playable_sessions.sessions_with_other_keys(cassette, self.sessions))
        self._added = playable_sessions.extending_sessions(cassette, self.sessions)
        self._places = {session: at for at, session in enumerate(self.sessions)}

    # -- across the sessions

    def next_request(self, key: bytes, message: frames.Message, after: Position = START) -> NextRequest | None:
        """The next client request with the key of a message."""
        sessions = self.sessions
        for session in sessions if after is START else sessions[self._places.get(after[0], 0) :]:
            found = self.next_of_key(session, key, after, message)
            while found is not None and self._added and not self.is_on_tape(found.recorded):
                found = self.next_of_key(session, key, found.recorded.place, message)
            if found is not None:
                return found if len(sessions) == 1 else found._replace(is_one_of_several=True)  # there may be more
        return None

    def requests_with_key(self, key: bytes) -> list[RecordedMessage]:
        return [row for session in self.sessions for row in self.of_key(session, key) if self.is_on_tape(row)]

    def request_context(self, request: RecordedMessage) -> match.StatedFacts | None:
        """The protocol version and MCP headers that the client sent with a request."""
        channel = self.facts(request).channel or ""
        is_http = channels.is_http(channel)
        headers = self.controls.request_headers(request.session, channel, request.seq) if is_http else {}
        return match.stated_facts(self.message(request), headers)

    def next_notification(self, method: str, after: Position = START) -> RecordedMessage | None:
        """The next client notification with a method."""
        sessions = self.sessions[self._places.get(after[0], 0) :]
        rows = (self.next_of_method(session, method, after) for session in sessions)
        return next((row for row in rows if row is not None), None)

    def requests(self, method: str, *, redacted: bool = False) -> list[RecordedMessage]:
        rows = (row for session in self.sessions for row in self.of_method(session, method, redacted=redacted))
        return [row for row in rows if self.is_on_tape(row)]

    def all_requests(self) -> Iterator[RecordedMessage]:
        return (row for session in self.sessions for row in self.of_session(session) if self.is_on_tape(row))

    # -- sessions that may not play

    def newest(self, method: str) -> RecordedMessage | None:
        """The first answered request with a method in the newest session that has one."""
        rows = (self.first_answered_request(session, method) for session in self.all_sessions())
        return next((row for row in rows if row is not None), None)

    def has_method(self, method: str) -> bool:
        """Return whether any session of the cassette has a request with a method."""
        return playable_sessions.knows_method(self._cassette, method, self._until)

    def all_sessions(self) -> list[int]:
        """Every session of the cassette, newest first."""
        return [number for number, _ in playable_sessions.numbered_sessions(self._cassette, self._until)]

    def session_group(self, session: int) -> list[int]:
        """A session, and the playing sessions that extend it."""
        return [session, *(number for number, base in self._added.items() if base == session)]

    # -- eras

    def is_legacy(self, session: int) -> bool:
        return playable_sessions.is_legacy(self._cassette, session)

    def is_modern(self, session: int) -> bool:
        return playable_sessions.is_modern(self._cassette, session)

    def modern_result(self, request: RecordedMessage) -> str | None:
        """The kind of result that answers a request, if legacy clients can't read it; else None."""
        answer = self.answer(request)
        return protocol.modern_result(self.message(answer).body.get("result")) if answer else None

    def names(self, session: int) -> Session:
        """The facts about a session, such as its server's name."""
        return self._cassette.session(session)

    # -- for reports

    @property
    def labels(self) -> list[str | None]:
        """The names of all servers on the cassette."""
        return playable_sessions.labels(self._cassette)

    @property
    def is_writable(self) -> bool:
        """Whether a recorder can add to the cassette: a local file, and not another tool's recording."""
        return self._cassette.is_writable

    def is_of_several(self) -> bool:
        """Return whether the cassette has several sessions, of any server, so that a message number is ambiguous."""
        return playable_sessions.are_several(self._cassette)

    def place(self, row: RecordedMessage) -> str:
        """The number of a message, with the session's number if there are several."""
        return f"#{row.seq} of session {row.session}" if self.is_of_several() else f"#{row.seq}"

    # -- requests without an answer

    def was_left(self, request: RecordedMessage) -> bool:
        """Return whether the client cancelled by disconnecting, as modern clients do over HTTP.

        In the legacy era, "disconnection SHOULD NOT be interpreted as the client cancelling its request":
        https://modelcontextprotocol.io/specification/2025-06-18/basic/transports#sending-messages-to-the-server
        """
        channel = self.facts(request).channel or ""
        left = channel != channels.STDIO and self.controls.was_left(request.session, channel, request.seq)
        return left and self._is_modern(request)

    def ending(self, request: RecordedMessage) -> Ending:
        """How the recorded channel of a request ended after it."""
        return self.controls.ending(request.session, self.facts(request).channel or "", request.seq)

    def broken_id(self, noise: RecordedMessage) -> str | None:
        """The id of an answer that is not valid JSON."""
        text = self.text(noise)
        span = frames.id_of_broken_answer(text)
        return None if span is None else text[slice(*span)].decode()

    def _is_modern(self, request: RecordedMessage) -> bool:
        """Return whether a request is of the modern era; requests of both eras may share a session."""
        messages = self.frame_text(request).messages[request.part :]
        return not self.is_legacy(request.session) or any(protocol.is_modern(one.body) for one in messages[:1])

    def addition(self, session: int) -> int:
        """The session, if it extends another one; else 0."""
        return session if session in self._added else 0

    def is_on_tape(self, request: RecordedMessage) -> bool:
        """Return whether a request counts as recorded. In an extending session, an unanswered request does not.

        The server may have crashed, or the client gone. Next time it is a miss again, and goes to the live server. A
        cancelled request counts: over HTTP the client may cancel by disconnecting, if it then sends other requests.
        """
        if request.session not in self._added or self.answer(request) is not None:
            return True
        mates = self.of_exchange(request)
        if request.method == protocol.LISTEN:
            return any(row.sender == "server" for row in mates)
        cancelled = any(row.sender == "client" and row.method == protocol.CANCELLED for row in mates)
        return cancelled or (self.was_left(request) and self.client_went_on(request))


def select(
    cassette: Cassette, which: str, legacy: bool | None = None, nth: int | None = None, until: int | None = None
) -> Selection:
    """Return a selection of the sessions from `choose`. CassetteError if they can't be played."""
    if which == "all":
        _expect_one_server(cassette)
    chosen = choose(cassette, which, legacy, nth, until)
    if empty := playable_sessions.without_bodies(cassette, chosen):
        raise CassetteError(
            f"session {min(empty)} of {cassette.path} was recorded with --bodies hash or none: it has no message "
            "bodies, so it cannot be played; it can be shown, compared and counted"
        )
    return Selection(cassette, chosen, until)


def choose(
    cassette: Cassette, which: str, legacy: bool | None = None, nth: int | None = None, until: int | None = None
) -> list[int]:
    """The sessions for `latest`, `all` or a session's number, in playing order; of the given era, if there are any.

    For the `nth` client of a run, `latest` is the session of the nth client of the recorded run. `until`: the newest
    session to use, so that sessions recorded during the replay change nothing.
    """
    last = playable_sessions.newest_session(cassette) if until is None else until
    rows = playable_sessions.numbered_sessions(cassette, last)
    if which == "all":
        chosen = _sessions_of_era(cassette, rows, legacy)
    elif which == "latest":
        _expect_one_server(cassette)
        chosen = _latest(cassette, rows, legacy, nth, last)
    else:
        chosen = [cassette.session(int(which)).id]
    if not chosen:
        raise CassetteError(_nothing_to_play(cassette, rows))
    return chosen


def _sessions_of_era(cassette: Cassette, rows: _Numbered, legacy: bool | None) -> list[int]:
    """All sessions of one era, as answers differ in shape between eras; else all sessions."""
    rows = [row for row in rows if not playable_sessions.is_login_attempt(cassette, row[0])] or rows
    fitting = [number for number, extends in rows if _fits_era(cassette, extends or number, legacy)]
    return fitting or [number for number, _ in rows]


def _latest(cassette: Cassette, rows: _Numbered, legacy: bool | None, nth: int | None, last: int) -> list[int]:
    # A session that is still being recorded, or has only a probe, plays only if there is no other.
    own = [number for number, extends in rows if extends is None]
    unfinished = (number for number in own if playable_sessions.has_an_exchange(cassette, number))
    of_era = (
        n
        for n in playable_sessions.finished_sessions(cassette, last)
        if legacy is not None and playable_sessions.is_legacy(cassette, n) == legacy
    )
    whole = playable_sessions.finished_sessions(cassette, last)
    base = next(of_era, None) or next(whole, None) or next(unfinished, None) or next(iter(own), None)
    if base is None:
        return []
    run = playable_sessions.run_of(cassette, base, last) if nth is not None else None
    mates = [number for number in run.sessions if _fits_era(cassette, number, legacy)] if run else []
    mates = mates or [base]
    first = mates[(nth or 0) % len(mates)]  # a process may do the same again
    chosen = [first, *(number for number in mates if number != first)]
    bases = set(chosen)
    extensions = sorted(number for number, extends in rows if extends in bases)
    return chosen + [number for number in extensions if not playable_sessions.is_login_attempt(cassette, number)]


def _expect_one_server(cassette: Cassette) -> None:
    """Refuse to guess which server's newest session is meant."""
    labels = playable_sessions.labels(cassette) if cassette.label is None else []
    if len(labels) > 1:
        raise CassetteError(
            f"{cassette.path} holds several servers: {_list_labels(labels)}; say which with --server NAME (of replay "
            "and use) or FILE#NAME (of diff and verify), or give the number of a session"
        )


def _list_labels(labels: Sequence[str | None]) -> str:
    return ", ".join("one without a name" if label is None else quote_path(label) for label in labels)


def _nothing_to_play(cassette: Cassette, rows: _Numbered) -> str:
    path = cassette.path
    if not rows and cassette.label is not None:
        others = _list_labels(playable_sessions.labels(cassette)) or "none"
        return f"{path} has no session of a server {quote_path(cassette.label)} to play; it has: {others}"
    if not rows:
        return f"{path} has no session to play; record one with: mcp-tape record -o {quote_path(path)} -- SERVER"
    number, extends = rows[0]
    return (
        f"{path} holds session {number}, which extends session {extends}, and that is not here; "
        f"to play it alone: mcp-tape replay {quote_path(path)} --session {number}"
    )


def _fits_era(cassette: Cassette, session: int, legacy: bool | None) -> bool:
    if legacy is None:
        return True
    return (
        not playable_sessions.is_modern(cassette, session)
        if legacy
        else not playable_sessions.is_legacy(cassette, session)
    )
