"""The live requests that are not answered yet, or were just now, and which recorded exchange each of them is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..wire import frames, protocol
from ..wire.frames import Message
from .ahead import Plain
from .selection import Position, Recorded, Selection

_REMEMBERED = 256  # calls that were answered; what comes for one later comes soon
_SOON = 10_000  # frames
_ASKED = "sender = 'client' AND seq BETWEEN ? AND ? AND +kind = 'request'"
_WITH_ID = f"{_ASKED} AND +rpc_id = ? ORDER BY seq DESC, part DESC LIMIT 1"
_WITH_TOKEN = f"""{_ASKED} AND (SELECT instr(text, 'progressToken') FROM frames WHERE id = frame)
    ORDER BY seq DESC, part DESC LIMIT {_REMEMBERED}"""


class Call:
    """A live request of the client, and the recorded one that it is."""

    __slots__ = (
        "_message", "answers", "behind", "cancels", "channel", "reached", "recorded", "rpc_id", "text", "until",
    )  # fmt: skip

    def __init__(
        self, rpc_id: str | None, channel: str, recorded: Recorded | None, text: bytes, message: Message | None = None
    ) -> None:
        self.rpc_id = rpc_id or "null"
        self.channel = channel
        self.recorded = recorded
        self.text = text
        self.answers: set[Position] = set()  # that it was given, or will be
        self.behind: list[Recorded] = []  # what came behind the answer, and is due
        self.cancels = 0  # that came for it
        self.reached = True  # the server, as far as the client can tell
        self.until = float("-inf")  # when the last message for it is due, of those that wait for their time
        self._message = message

    def is_of(self, session: int, seq: int) -> bool:
        """Whether it was recorded in this frame."""
        return self.recorded is not None and self.recorded[:2] == (session, seq)

    def take_behind(self) -> list[Recorded]:
        """What came behind its answer, and waited for it."""
        behind, self.behind = self.behind, []
        return behind

    @property
    def message(self) -> Message:
        """Parsed when it is needed: a request that is byte for byte the recorded one never is."""
        if self._message is None:
            self._message = frames.parse(self.text)[1][0]
        return self._message

    @property
    def token(self) -> str | None:
        """Under which it wants to hear of progress."""
        return frames.token_asked(self.message)


_Calls = dict[Call, None]  # in the order of their coming


class _Together:
    """The calls that were recorded in one frame, those of a batch, each found at once however many they are."""

    def __init__(self) -> None:
        self.calls: _Calls = {}
        self._by_id: dict[str | None, _Calls] = {}
        self._by_token: dict[str | None, _Calls] = {}
        self._tokens: dict[Call, str | None] = {}
        self._unread: list[Call] = []  # whose token nobody asked for yet

    def add(self, call: Call, rpc_id: str | None) -> None:
        self.calls[call] = None
        self._by_id.setdefault(rpc_id, {})[call] = None
        self._unread.append(call)

    def remove(self, call: Call, rpc_id: str | None) -> None:
        self.calls.pop(call, None)
        self._by_id.get(rpc_id, {}).pop(call, None)
        self._by_token.get(self._tokens.pop(call, None), {}).pop(call, None)

    def newest(self) -> Call | None:
        return _newest(self.calls)

    def with_id(self, rpc_id: str | None) -> Call | None:
        """The newest with a recorded id."""
        return _newest(self._by_id.get(rpc_id, {}))

    def with_token(self, token: str | None, token_of: Callable[[Call], str | None]) -> Call | None:
        """The newest whose recorded request asked for progress under a token."""
        for call in self._unread:
            if call in self.calls:
                self._tokens[call] = own = token_of(call)
                self._by_token.setdefault(own, {})[call] = None
        self._unread.clear()
        return _newest(self._by_token.get(token, {}))


class Calls:
    """Found by channel and id, as the client names them, and by the recorded request, as the tape does."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._live: dict[tuple[str, str], Call] = {}
        self._recorded: dict[tuple[int, int], _Together] = {}  # of a batch, several share a seq
        # Answered, but one may still be cancelled, or something may come for it.
        self._past: dict[Position, Call] = {}  # by recorded place, the newest last
        self.plain: deque[tuple[str, bytes, Plain]] = deque(maxlen=_REMEMBERED)  # id, text, and what it was

    def begin(self, call: Call, recorded: Recorded) -> None:
        self._live[call.channel, call.rpc_id] = call
        place = (recorded.session, recorded.seq)
        if place not in self._recorded:
            self._recorded[place] = _Together()
        self._recorded[place].add(call, recorded.rpc_id)

    def close(self, call: Call) -> None:
        """It was answered: nothing of its exchange follows."""
        if self._live.get((call.channel, call.rpc_id)) is call:  # a client may use an id again
            del self._live[call.channel, call.rpc_id]
        if call.recorded is not None:
            self._remember(call.recorded.place, call)
            place = (call.recorded.session, call.recorded.seq)
            together = self._recorded.get(place, _Together())
            together.remove(call, call.recorded.rpc_id)
            if not together.calls:
                self._recorded.pop(place, None)

    def _remember(self, place: Position, call: Call) -> None:
        self._past.pop(place, None)
        self._past[place] = call
        if len(self._past) > _REMEMBERED:
            del self._past[next(iter(self._past))]

    def close_all(self, channel: str) -> None:
        """Those of one channel, which the client has left: nothing comes for them any more."""
        for call in [call for (own, _), call in self._live.items() if own == channel]:
            self.close(call)
            if call.recorded is not None:
                self._past.pop(call.recorded.place, None)

    def get(self, channel: str, rpc_id: str | None) -> Call | None:
        """By its id: of the same channel, else, as over HTTP each message has its own, the newest."""
        same = self._live.get((channel, rpc_id or ""))
        return same or next((call for call in reversed(self._live.values()) if call.rpc_id == rpc_id), None)

    def answered(self, rpc_id: str | None) -> Call | None:
        """One that was answered already, by its id."""
        self._take_over_plain()
        return next((call for call in reversed(self._past.values()) if call.rpc_id == rpc_id), None)

    def _take_over_plain(self) -> None:
        """Those that were answered the quick way become calls like the others when somebody asks for one."""
        for rpc_id, text, plain in self.plain:
            place = self._selection.sessions[0], plain.seq, plain.part
            self._remember(place, Call(rpc_id, "", self._selection.at(place), text))
        self.plain.clear()

    def owner(self, row: Recorded) -> Call | None:
        """The call whose exchange a recorded message belongs to."""
        together = self._recorded.get((row.session, row.exchange or 0))
        if together is None:  # the server may still take back what it asked within a call that it has answered
            past = reversed(self._past.values())
            return next((call for call in past if call.is_of(row.session, row.exchange or 0)), None)
        if row.kind == "response" and row.cue is not None:
            return together.with_id(row.rpc_id)
        if len(together.calls) > 1 and row.method == protocol.PROGRESS:
            token = frames.progressed(self._selection.message(row))
            return together.with_token(token, self._recorded_token) or together.newest()
        return together.newest()

    def of_request(self, request: Recorded) -> Call | None:
        """The call that a recorded request was made with, answered or not."""
        together = self._recorded.get((request.session, request.seq))
        self._take_over_plain()
        return (together and together.with_id(request.rpc_id)) or self._past.get(request.place)

    def is_open(self, call: Call) -> bool:
        """Whether it was not answered."""
        return self._live.get((call.channel, call.rpc_id)) is call

    def mates(self, row: Recorded) -> list[Call]:
        """All calls whose exchange a recorded message may belong to: those of a batch share it."""
        together = self._recorded.get((row.session, row.exchange or 0))
        return list(together.calls) if together else []

    def named_late(self, row: Recorded) -> Recorded | None:
        """The request that a message of the server names though it was answered before: by its id, or its token."""
        span = row.seq - _SOON, row.seq - 1
        if row.kind == "response" and row.rpc_id is not None:
            return next(iter(self._selection.rows(row.session, _WITH_ID, *span, row.rpc_id)), None)
        if row.method != protocol.PROGRESS:
            return None
        token = frames.progressed(self._selection.message(row))
        requests = self._selection.rows(row.session, _WITH_TOKEN, *span) if token is not None else []
        return next((one for one in requests if frames.token_asked(self._selection.message(one)) == token), None)

    def _recorded_token(self, call: Call) -> str | None:
        assert call.recorded is not None
        return frames.token_asked(self._selection.message(call.recorded))


def _newest(calls: _Calls) -> Call | None:
    return next(reversed(calls), None)
