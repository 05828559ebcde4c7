"""Which message on the tape a message of the client is, where it is no request: those have keys, see finding.

Theory of operation. All that the server said waits for a message of the client, its cue: within an exchange the last
one of that exchange, otherwise the last one at all (see ledger). So any message of the client may be a cue, also one
that meant nothing to the server, and each that arrives is held against the tape:

- an answer is the one to the request that went out under its id. One to nothing that was asked is the next such answer
  on the tape with the same id;
- a cancel is the next one on the tape of the same request, whether that was open then or answered already: who cancels
  does not know. One of a request that nobody made is the next such cancel on the tape, with the same id if there is
  one;
- any other notification is the next one of its method, and of progress the next one for the same token.

Each message on the tape is heard once, a cancel once for each time that its call is made. What arrives and is not on
the tape cues nothing. A client must answer what it is asked, but not what the server has taken back: what waits for
such an answer is due as soon as the request is taken back, and the answer itself, if it comes, cues nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ..wire import frames, protocol
from ..wire.frames import Message
from .calls import Call
from .selection import Position, Recorded, Selection

_START: Position = (0, 0, 0)
_STRAYS = "sender = 'client' AND +kind = 'response' AND +answers IS NULL ORDER BY seq, part"


class Hearing:
    """Knows which messages of the client were heard."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._last: dict[str, Position] = {}  # per method, the last notification heard
        # What is looked up by what it names is read when the first such message comes.
        self._progress: dict[str | None, deque[Recorded]] | None = None
        self._strays: dict[str | None, deque[Recorded]] | None = None
        self._cancels: dict[str | None, list[Recorded]] | None = None
        self._late: dict[Position, str | None] = {}  # cancels of what was not open, and not heard yet

    def notification(self, message: Message) -> Recorded | None:
        """The one on the tape that a notification is, other than a cancel."""
        if message.method == protocol.PROGRESS:
            if self._progress is None:
                self._progress = {}
                for row in self._notifications(protocol.PROGRESS):
                    self._progress.setdefault(frames.progressed(self._selection.message(row)), deque()).append(row)
            return _first(self._progress.get(frames.progressed(message)))
        for method in protocol.notification_names(message.method or ""):
            found = self._selection.next_notification(method, self._last.get(method, _START))
            if found is not None:
                self._last[method] = found.place
                return found
        return None

    def stray_answer(self, message: Message) -> Recorded | None:
        """The one on the tape that an answer to nothing is."""
        if self._strays is None:
            self._strays = {}
            for session in self._selection.sessions:
                for row in self._selection.rows(session, _STRAYS):
                    self._strays.setdefault(row.rpc_id, deque()).append(row)
        return _first(self._strays.get(message.rpc_id))

    def cancel(self, rpc_id: str | None, call: Call | None) -> Recorded | None:
        """The one on the tape that a cancel is: of a call, or of an id that is no call's."""
        if self._cancels is None:
            self._cancels = self._read_cancels()
        if call is None or call.recorded is None:
            return self._cancel_of_none(rpc_id)
        recorded = call.recorded
        rows = [row for row in self._cancels.get(recorded.rpc_id, ()) if _may_cancel(row, recorded)]
        found = rows[call.cancels] if call.cancels < len(rows) else None
        call.cancels += 1
        if found is not None:
            self._late.pop(found.place, None)
        return found

    def _cancel_of_none(self, rpc_id: str | None) -> Recorded | None:
        same = (place for place, named in self._late.items() if named == rpc_id)
        place = next(same, None) or next(iter(self._late), None)
        if place is None:
            return None
        del self._late[place]
        return self._selection.at(place)

    def _read_cancels(self) -> dict[str | None, list[Recorded]]:
        cancels: dict[str | None, list[Recorded]] = {}
        for row in self._notifications(protocol.CANCELLED):
            named = frames.cancelled(self._selection.message(row))
            cancels.setdefault(named, []).append(row)
            if row.exchange is None:
                self._late[row.place] = named
        return cancels

    def _notifications(self, method: str) -> Iterator[Recorded]:
        last, row = None, self._selection.next_notification(method, _START)
        # Rows of a stranger may lead back: what does not go on ends.
        while row is not None and (last is None or row.session != last.session or row.place > last.place):
            yield row
            last, row = row, self._selection.next_notification(method, row.place)


def _may_cancel(row: Recorded, request: Recorded) -> bool:
    """Whether a cancel that names the id of a request is of that request."""
    if row.exchange is not None:
        return (row.session, row.exchange) == (request.session, request.seq)
    return row.session == request.session and row.seq > request.seq


def _first(rows: deque[Recorded] | None) -> Recorded | None:
    return rows.popleft() if rows else None
