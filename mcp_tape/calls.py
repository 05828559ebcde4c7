"""The live requests that are not answered yet, and which recorded exchange each of them is."""

from __future__ import annotations

from . import frames, protocol
from .frames import Message
from .selection import Recorded, Selection


class Call:
    """A live request of the client, and the recorded one that it is."""

    __slots__ = ("_message", "channel", "recorded", "rpc_id", "text")

    def __init__(
        self, rpc_id: str | None, channel: str, recorded: Recorded | None, text: bytes, message: Message | None = None
    ) -> None:
        self.rpc_id = rpc_id or "null"
        self.channel = channel
        self.recorded = recorded
        self.text = text
        self._message = message

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


class Calls:
    """Found by channel and id, as the client names them, and by the recorded request, as the tape does."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._live: dict[tuple[str, str], Call] = {}
        self._recorded: dict[tuple[int, int], list[Call]] = {}  # of a batch, several share a seq

    def begin(self, call: Call, recorded: Recorded) -> None:
        self._live[call.channel, call.rpc_id] = call
        self._recorded.setdefault((recorded.session, recorded.seq), []).append(call)

    def close(self, call: Call) -> None:
        """It was answered: nothing of its exchange follows."""
        self._live.pop((call.channel, call.rpc_id), None)
        if call.recorded is not None:
            place = (call.recorded.session, call.recorded.seq)
            calls = [other for other in self._recorded.pop(place, []) if other is not call]
            if calls:
                self._recorded[place] = calls

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
        calls = self._recorded.get((row.session, row.exchange or 0), [])
        if row.kind == "response" and row.cue is not None:
            calls = [call for call in calls if call.recorded is not None and call.recorded.rpc_id == row.rpc_id]
        elif len(calls) > 1 and row.method == protocol.PROGRESS:
            token = protocol.member(self._body(row).get("params"), "progressToken")
            calls = [call for call in calls if self._recorded_token(call) == token] or calls
        return calls[-1] if calls else None

    def _recorded_token(self, call: Call) -> object:
        assert call.recorded is not None
        return protocol.progress_token_asked(self._body(call.recorded))

    def _body(self, row: Recorded) -> dict[str, object]:
        return frames.parse(self._selection.text(row))[1][row.part].body
