"""All that changes while a tape plays to one client: the one `State` that deck, finder, cues and playback share."""

from __future__ import annotations

from collections import deque

from ..cassette.lookup.messages import Position, Recorded
from ..light import NamedTuple
from ..wire import frames, protocol
from .sends import Call, Pending, Send

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..wire.match import Stated
    from .selection import Selection

_REMEMBERED = 256  # calls that were answered; what comes for one later comes soon
_SOON = 10_000  # frames


if TYPE_CHECKING:
    TurnName = bytes | tuple[bytes, Stated]  # equal requests; those of them that were asked for alike


class Turn(NamedTuple):
    """A request that was found: its place, True if for the first time, whose turn it was, and how far that was played.

    `was_bent`: before, a looser rung had made use of it.
    """

    place: Position
    is_new: bool
    name: TurnName | None
    last: Position | None
    was_bent: bool = False


class Bent(NamedTuple):
    """The rung that found an answer which is not exact, and how similar the request is, where that counts."""

    rung: str
    similarity: float | None = None


class Found(NamedTuple):
    """The recorded request that a live one is; `again` if it was found before and is only repeated.

    `answer`: where that is all that plays. `plays_anew`: its exchange was played before, but not for it.
    """

    recorded: Recorded | None
    again: bool = False
    answer: Recorded | None = None
    bent: Bent | None = None  # by which rung, where it is not exact
    plays_anew: bool = False


_Calls = dict[Call, None]  # in the order of their coming
Words = tuple[str, bytes]  # of a line without a message: "JSON" or "text", and what it says
ByName = dict[str | None, deque[Recorded]]  # by the id or the token that each names


class State:
    """Everything that was played, heard and asked so far. A new one is a tape that was rewound."""

    def __init__(self) -> None:
        self.played = 0  # requests
        self.misses = 0
        self.is_older = False  # the client, than the tape: it was greeted as of the legacy era
        # Recorded requests, as the client's are found among them.
        self.taken: set[Position] = set()  # those that were played
        self.last: dict[TurnName, Position] = {}  # how far equal requests were played
        self.turn: Turn | None = None  # the one that was found last
        self.given_back: set[Position] = set()  # asked for, but their answers stay on the tape
        self.early: set[Position] = set()  # those asked for before their time
        self.rounds: dict[Position, int] = {}  # of what is repeated in turn, by the first of it
        self.bent: set[Position] = set()  # those that so far only looser rungs have made use of
        # Puts live values in place of those recorded, where they stand for them.
        self.put_back: Callable[[bytes, bytes], bytes] | None = None
        # Calls, found by channel and id, as the client names them, and by the recorded request, as the tape does.
        self.live: dict[tuple[str, str], Call] = {}  # not answered yet
        self.recorded: dict[tuple[int, int], Together] = {}  # of a batch, several share a seq
        # Answered, but one may still be cancelled, or something may come for it.
        self.past: dict[Position, Call] = {}  # by recorded place, the newest last
        # The client's other messages: each on the tape is heard once. None: not read from the tape yet.
        self.heard: dict[str, Position] = {}  # per method, the last notification
        self.progress: ByName | None = None  # not heard yet
        self.strays: ByName | None = None  # answers to nothing, not heard yet
        self.malformed: list[tuple[Words, Recorded]] | None = None  # lines without a message, not heard yet
        self.cancels: dict[str | None, list[Recorded]] | None = None
        self.late_cancels: dict[Position, str | None] = {}  # of what was not open, and not heard yet
        # The server's messages. A cue may come twice; what is no answer goes out once.
        self.once: dict[tuple[int, int | None], set[Position]] = {}  # by exchange
        self.come: set[Position] = set()  # notifications of changes
        self.round = 0  # rises when an exchange is to be played once more
        self.asked: dict[str, Recorded] = {}  # its own requests in flight, by the id that each went out with
        self.taken_back: set[str] = set()  # ids of those that it has cancelled
        self.withdrawn: list[Recorded] = []  # those that were cancelled just now
        # Going out.
        self.replies: list[Send] = []
        self.ready: list[Pending] = []
        self.later: list[tuple[float, Position, int, Pending]] = []  # a heap
        self.held: list[tuple[float, Pending]] = []  # back for the recorded order, since when
        self.out: set[Position] = set()  # answers, for the recorded order
        self.passed: dict[int, tuple[int, int]] = {}  # by session, a stretch of the tape whose answers are all out


class Together:
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
    """The live requests that are not answered yet, or were just now, and the recorded exchange of each."""

    def __init__(self, selection: Selection, state: State) -> None:
        self._selection = selection
        self._state = state

    def begin(self, call: Call, recorded: Recorded) -> None:
        self._state.live[call.channel, call.rpc_id] = call
        place = (recorded.session, recorded.seq)
        if place not in self._state.recorded:
            self._state.recorded[place] = Together()
        self._state.recorded[place].add(call, recorded.rpc_id)

    def close(self, call: Call) -> None:
        """Close a call that was answered: nothing of its exchange follows."""
        if self.is_open(call):  # a client may use an id again
            del self._state.live[call.channel, call.rpc_id]
        if call.recorded is not None:
            self._remember(call.recorded.place, call)
            place = (call.recorded.session, call.recorded.seq)
            together = self._state.recorded.get(place, Together())
            together.remove(call, call.recorded.rpc_id)
            if not together.calls:
                self._state.recorded.pop(place, None)

    def _remember(self, place: Position, call: Call) -> None:
        past = self._state.past
        past.pop(place, None)
        past[place] = call
        while len(past) > _REMEMBERED:
            del past[next(iter(past))]

    def close_all(self, channel: str) -> None:
        """Close those of a channel that the client has left: nothing comes for them any more."""
        for call in [call for (own, _), call in self._state.live.items() if own == channel]:
            self.close(call)
            if call.recorded is not None:
                self._state.past.pop(call.recorded.place, None)

    def is_open(self, call: Call) -> bool:
        """Return whether it was not answered."""
        return self._state.live.get((call.channel, call.rpc_id)) is call

    def get(self, channel: str, rpc_id: str | None) -> Call | None:
        """The call with an id: of the same channel, else, as over HTTP each message has its own, the newest."""
        live = self._state.live
        same = live.get((channel, rpc_id or ""))
        return same or next((call for call in reversed(live.values()) if call.rpc_id == rpc_id), None)

    def answered(self, rpc_id: str | None) -> Call | None:
        """The newest call with an id that was answered already."""
        return next((call for call in reversed(self._state.past.values()) if call.rpc_id == rpc_id), None)

    def owner(self, row: Recorded) -> Call | None:
        """The call whose exchange a recorded message belongs to."""
        together = self._state.recorded.get((row.session, row.exchange or 0))
        if together is None:  # the server may still take back what it asked within a call that it has answered
            past = reversed(self._state.past.values())
            return next((call for call in past if call.is_of(row.session, row.exchange or 0)), None)
        if row.kind == "response" and row.cue is not None:
            return together.with_id(row.rpc_id)
        if len(together.calls) > 1 and row.kind == "noise":
            return together.with_id(self._selection.broken_id(row)) or together.newest()
        if len(together.calls) > 1 and row.method == protocol.PROGRESS:
            token = frames.progressed(self._selection.message(row))
            return together.with_token(token, self._recorded_token) or together.newest()
        return together.newest()

    def of_request(self, request: Recorded) -> Call | None:
        """The call that a recorded request was made with, answered or not."""
        together = self._state.recorded.get((request.session, request.seq))
        return (together and together.with_id(request.rpc_id)) or self._state.past.get(request.place)

    def mates(self, row: Recorded) -> list[Call]:
        """All calls whose exchange a recorded message may belong to: those of a batch share it."""
        together = self._state.recorded.get((row.session, row.exchange or 0))
        return list(together.calls) if together else []

    def named_late(self, row: Recorded) -> Recorded | None:
        """The request that was answered before, and is answered once more."""
        if row.kind != "response" or row.rpc_id is None:
            return None
        return self._selection.asked_before(row.session, row.seq, _SOON, row.rpc_id)

    def _recorded_token(self, call: Call) -> str | None:
        assert call.recorded is not None
        return frames.token_asked(self._selection.message(call.recorded))


def _newest(calls: _Calls) -> Call | None:
    return next(reversed(calls), None)
