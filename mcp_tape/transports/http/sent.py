"""What went out as events, kept for clients that lose their connection and go on behind one of them.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ...replay.sends import Send
from ...wire import frames, framing

_MOST_EVENTS = 10_000
_MOST_BYTES = 64 << 20


class Rest(NamedTuple):
    """What stands behind an event on its stream, the requests of that stream, and how many answers came before."""

    channel: str
    asked: Sequence[str]
    sends: list[Send]
    answered: int


class Sent:
    """The last events of one client, of all streams. Nothing is kept of streams whose events have no ids."""

    def __init__(self) -> None:
        self._events: deque[tuple[str, str | None, Send]] = deque()
        self._channels: dict[str, tuple[int, Sequence[str]]] = {}  # how many events there are of each, its requests
        self._size = 0

    def has(self, channel: str) -> bool:
        """Whether a client can go on with this stream."""
        return channel in self._channels

    def add(self, channel: str, send: Send, asked: Sequence[str]) -> None:
        """`asked`: the ids of the requests that came on this channel."""
        head = send.recorded.head if send.recorded is not None else None
        number = framing.field(head, b"id") if head else None
        if number is None and not self.has(channel):
            return
        self._events.append((channel, number, send))
        self._channels[channel] = (self._channels.get(channel, (0, ()))[0] + 1, asked)
        self._size += len(send.text)
        while len(self._events) > _MOST_EVENTS or (self._size > _MOST_BYTES and len(self._events) > 1):
            self._drop()

    def behind(self, number: str) -> Rest | None:
        """What follows the event with this id; None where there is no such event."""
        events = list(self._events)
        at = next((place for place in reversed(range(len(events))) if events[place][1] == number), None)
        if at is None:
            return None
        channel = events[at][0]
        before = [send for own, _, send in events[: at + 1] if own == channel]
        behind = [send for own, _, send in events[at + 1 :] if own == channel]
        return Rest(channel, self._channels[channel][1], behind, sum(map(answers_in, before)))

    def asked(self, channel: str) -> Sequence[str]:
        return self._channels.get(channel, (0, ()))[1]

    def _drop(self) -> None:
        channel, _, send = self._events.popleft()
        self._size -= len(send.text)
        kept, asked = self._channels.pop(channel)
        if kept > 1:
            self._channels[channel] = (kept - 1, asked)


def answers_in(send: Send) -> int:
    """How many requests it answers: those of a batch may come in one array."""
    if not send.text.lstrip().startswith(b"["):
        return int(send.answers)
    return sum(message.kind == "response" for message in frames.parse(send.text)[1])
