"""The live requests that are not answered yet, and which recorded exchange each of them is."""

from __future__ import annotations

from collections.abc import Callable

from . import frames, protocol
from .frames import Message
from .selection import Position, Recorded, Selection


class Call:
    """A live request of the client, and the recorded one that it is."""

    __slots__ = ("_message", "answers", "channel", "recorded", "rpc_id", "text", "until")

    def __init__(
        self, rpc_id: str | None, channel: str, recorded: Recorded | None, text: bytes, message: Message | None = None
    ) -> None:
        self.rpc_id = rpc_id or "null"
        self.channel = channel
        self.recorded = recorded
        self.text = text
        self.answers: set[Position] = set()  # that it was given, or will be
        self.until = float("-inf")  # when the last message for it is due, of those that wait for their time
        self._message = message

    def is_of(self, session: int, seq: int) -> bool:
        """Whether it was recorded in this frame."""
        return self.recorded is not None and self.recorded[:2] == (session, seq)

    @property
    def message(self) -> Message:
        """Parsed when it is needed: a request that is byte for byte the recorded one never is."""
        if self._message is None:
            self._message = frames.parse(self.text)[1][0]
        return self._message

    @property
    def token(self) -> str | None:
        """Under which it wants to hear of progress."""
        return frames.id_text(protocol.progress_token_asked(self.message.body))


_Calls = dict[Call, None]  # in the order of their coming


class _Together:
    """The calls that were recorded in one frame, those of a batch, each found at once however many they are."""

    def __init__(self) -> None:
        self.calls: _Calls = {}
        self._by_id: dict[str | None, _Calls] = {}
        self._by_token: dict[object, _Calls] = {}
        self._tokens: dict[Call, object] = {}
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

    def with_token(self, token: object, token_of: Callable[[Call], object]) -> Call | None:
        """The newest whose recorded request asked for progress under a token."""
        for call in self._unread:
            if call in self.calls:
                self._tokens[call] = own = _hashable(token_of(call))
                self._by_token.setdefault(own, {})[call] = None
        self._unread.clear()
        return _newest(self._by_token.get(_hashable(token), {}))


class Calls:
    """Found by channel and id, as the client names them, and by the recorded request, as the tape does."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._live: dict[tuple[str, str], Call] = {}
        self._recorded: dict[tuple[int, int], _Together] = {}  # of a batch, several share a seq

    def begin(self, call: Call, recorded: Recorded) -> None:
        self._live[call.channel, call.rpc_id] = call
        place = (recorded.session, recorded.seq)
        if place not in self._recorded:
            self._recorded[place] = _Together()
        self._recorded[place].add(call, recorded.rpc_id)

    def close(self, call: Call) -> None:
        """It was answered: nothing of its exchange follows."""
        self._live.pop((call.channel, call.rpc_id), None)
        if call.recorded is not None:
            place = (call.recorded.session, call.recorded.seq)
            together = self._recorded.get(place, _Together())
            together.remove(call, call.recorded.rpc_id)
            if not together.calls:
                self._recorded.pop(place, None)

    def close_all(self, channel: str) -> None:
        """Those of one channel."""
        for call in [call for (own, _), call in self._live.items() if own == channel]:
            self.close(call)

    def get(self, channel: str, rpc_id: str | None) -> Call | None:
        """By its id: of the same channel, else, as over HTTP each message has its own, the newest."""
        same = self._live.get((channel, rpc_id or ""))
        return same or next((call for call in reversed(self._live.values()) if call.rpc_id == rpc_id), None)

    def owner(self, row: Recorded) -> Call | None:
        """The call whose exchange a recorded message belongs to."""
        together = self._recorded.get((row.session, row.exchange or 0))
        if together is None:
            return None
        if row.kind == "response" and row.cue is not None:
            return together.with_id(row.rpc_id)
        if len(together.calls) > 1 and row.method == protocol.PROGRESS:
            token = protocol.member(self._body(row).get("params"), "progressToken")
            return together.with_token(token, self._recorded_token) or together.newest()
        return together.newest()

    def _recorded_token(self, call: Call) -> object:
        assert call.recorded is not None
        return protocol.progress_token_asked(self._body(call.recorded))

    def _body(self, row: Recorded) -> dict[str, object]:
        return self._selection.message(row).body


def _newest(calls: _Calls) -> Call | None:
    return next(reversed(calls), None)


def _hashable(token: object) -> object:
    """A token is a text or a number; a stranger's may be anything."""
    return token if isinstance(token, (str, int, float)) else repr(token)
