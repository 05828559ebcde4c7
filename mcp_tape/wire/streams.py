"""What HTTP facts tell about channels: how a request was answered, which stream resumes which."""

from __future__ import annotations

from typing import Any

from . import framing, protocol
from .channels import STDIO
from .frames import Frame

_REMEMBERED = 10_000  # event ids; a client resumes behind one of the last


class Streams:
    """The HTTP streams of one session. Says nothing of stdio."""

    def __init__(self) -> None:
        self._resumed: dict[str, str] = {}  # a stream, and the one it goes on with
        self._events: dict[str, str] = {}  # by event id, the stream it came on
        self._shared: set[str] = set()
        self._in_session: set[str] = set()  # requests that named a session
        self.statuses: dict[str, int] = {}

    def origin(self, channel: str) -> str:
        """The stream that this one resumes; itself, mostly."""
        return self._resumed.get(channel, channel)

    def is_shared(self, channel: str) -> bool:
        """Whether everything that the server says comes on this channel, as on stdio."""
        return channel == STDIO or channel in self._shared

    def is_accepted(self, channel: str) -> bool:
        """Whether the response only said that the answer will come on another stream."""
        status = self.statuses.get(channel, 0)
        return status == 202 or (bool(self._shared) and 200 <= status < 300)

    def asks_again(self, channel: str) -> bool:
        """Whether the client was told to make its request again: later, elsewhere, with credentials."""
        return self.statuses.get(channel) in protocol.RETRY_STATUSES

    def has_ended(self, channel: str, facts: dict[str, Any]) -> bool:
        """Whether the session of a request is over: it is to be made again in another."""
        return facts.get("status") == 404 and channel in self._in_session

    def learn(self, frame: Frame, facts: dict[str, Any]) -> None:
        """A control frame."""
        event, channel = facts.get("event"), frame.channel
        headers = facts.get("headers")
        if event == "request" and isinstance(headers, dict):
            if protocol.SESSION_HEADER in headers:
                self._in_session.add(channel)
            before = self._events.get(str(headers.get(protocol.RESUME_HEADER)))
            if before is not None:
                self._resumed[channel] = before
        elif event == "response" and isinstance(facts.get("status"), int):
            self.statuses[channel] = facts["status"]
        elif event == "endpoint":
            self._shared.add(channel)
        elif event in ("close", "abort"):
            self.statuses.pop(channel, None)
            self._in_session.discard(channel)

    def see(self, frame: Frame) -> None:
        """An event of the server: a client may ask for what follows it."""
        number = framing.field(frame.head, b"id") if frame.head else None
        if number:
            self._events[number] = self.origin(frame.channel)
            if len(self._events) > _REMEMBERED:
                del self._events[next(iter(self._events))]
