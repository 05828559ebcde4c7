"""The session of each HTTP channel: one for each Mcp-Session-Id, and one for all channels without an id.

Has the methods of a tape. If the first facts of a channel do not decide its session, its traffic is held back, in
order, until later facts do.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from ..wire import frames, protocol
from ..wire.channels import DELETE, HTTP, SSE, is_listen_stream, is_post
from ..wire.frames import Side
from ..wire.framing import Events, is_event_stream
from .tape import Tape

if TYPE_CHECKING:
    from .production.sampling import Sampling

Step = Callable[[Tape], None]
_ENDS = ("close", "abort", "failed", "open")  # the ways a channel ends
_LATE = 100  # ended sessions to keep for late requests


class _UnrecordedTape(Tape):
    """The tape of a session that is not in the sample."""

    def __init__(self) -> None:
        super().__init__(lambda frame, entries: None, None)

    def feed(self, side: Side, channel: str, data: bytes, at: int) -> None:
        pass

    def end(self, side: Side, channel: str, at: int) -> None:
        pass

    def control(self, side: Side, channel: str, facts: dict[str, Any], at: int) -> None:
        pass


_UNRECORDED = _UnrecordedTape()


class _Channel:
    """A channel before its session is known."""

    def __init__(self, verb: str, path: str, at: int) -> None:
        self.path = path
        self.at = at
        self.steps: list[Step] = []
        self.body: list[bytes] = []
        self.events = Events()
        self.opens = verb == "GET"  # the response decides


class Sessions:
    """The tapes of one recording. A session ends with its DELETE, or with its stream of HTTP+SSE."""

    def __init__(
        self,
        begin: Callable[[int, str, bool], Tape],
        sampling: Sampling | None = None,
        end: Callable[[Tape], object] = lambda tape: None,
    ) -> None:
        """`begin(at, transport, legacy)` makes a tape, and `end` gets it back; `sampling` leaves some sessions out."""
        self._begin = begin
        self._sampling = sampling
        self._end = end
        self._run: Tape | None = None
        self._by_id: dict[str, Tape] = {}
        self._by_endpoint: dict[str, Tape] = {}
        self._tapes: dict[str, Tape] = {}  # by channel, while the channel is open
        self._waiting: dict[str, _Channel] = {}
        self._names: dict[Tape, tuple[dict[str, Tape], str]] = {}  # where a tape is kept
        self._ended: dict[Tape, None] = {}  # oldest first

    def control(self, side: Side, channel: str, facts: dict[str, Any], at: int) -> None:
        """Handle the start of a request or a response, or the end of a channel."""
        event, headers = facts.get("event"), facts.get("headers") or {}
        if event == "close" and side == "client":
            return  # the client's side of a POST ends; the response follows
        if event == "side":
            self._beside(at).control(side, channel, facts, at)
            return
        if event == "request":
            self._waiting[channel] = _Channel(facts["verb"], facts["path"], at)
        self._do(channel, lambda tape: tape.control(side, channel, facts, at))
        waiting = self._waiting.get(channel)
        if waiting is not None:
            tape = self._decide_tape(waiting, event, headers)
            if tape is not None:
                self._settle(channel, tape)
        self._look_for_end(channel, event, facts.get("status"))

    def feed(self, side: Side, channel: str, data: bytes, at: int) -> None:
        self._do(channel, lambda tape: tape.feed(side, channel, data, at))
        waiting = self._waiting.get(channel)
        if waiting is None:
            return
        if side == "client":
            waiting.body.append(data)
            return
        for event in waiting.events.feed(data):
            if event.text is not None:
                self._settle(channel, self._of_stream(waiting, event.text, event.field(b"event")))
                return

    def end(self, side: Side, channel: str, at: int) -> None:
        self._do(channel, lambda tape: tape.end(side, channel, at))
        waiting = self._waiting.get(channel)
        if waiting is not None and side == "client" and not waiting.opens:
            sent = frames.parse(b"".join(waiting.body))[1]
            waiting.opens = any(message.method == protocol.INITIALIZE for message in sent)
            if not waiting.opens:
                self._settle(channel, self._of_run(waiting))

    def has_posts(self) -> bool:
        """Return whether a POST is in progress, even one that begins no exchange."""
        return any(map(is_post, self._tapes))

    def end_all(self, at: int) -> None:
        for channel, waiting in list(self._waiting.items()):
            self._settle(channel, self._of_run(waiting))
        for tape in {id(tape): tape for tape in self._tapes.values()}.values():
            tape.end_all(at)

    def _look_for_end(self, channel: str, event: str | None, status: int | None) -> None:
        """Find out whether a channel has ended, and its session with it."""
        tape = self._tapes.get(channel)
        if tape is not None and tape in self._names:
            is_of_stream = self._names[tape][0] is self._by_endpoint
            is_deleted = event == "response" and channel.startswith(DELETE) and 200 <= (status or 0) < 300
            if is_deleted or (is_of_stream and event in _ENDS and is_listen_stream(channel)):
                self._ended[tape] = None
        if event in _ENDS:
            self._tapes.pop(channel, None)
            self._forget()

    def _forget(self) -> None:
        """Give back the sessions that ended first, except sessions with an open channel."""
        for tape in list(self._ended)[:-_LATE]:
            if tape not in self._tapes.values():
                del self._ended[tape]
                kept, name = self._names.pop(tape)
                if kept.get(name) is tape:  # not if another has taken its name
                    del kept[name]
                self._end(tape)

    def _do(self, channel: str, step: Step) -> None:
        tape = self._tapes.get(channel)
        if tape is not None:
            step(tape)
        elif channel in self._waiting:
            self._waiting[channel].steps.append(step)

    def _settle(self, channel: str, tape: Tape) -> None:
        waiting = self._waiting.pop(channel)
        self._tapes[channel] = tape
        for step in waiting.steps:
            step(tape)

    def _decide_tape(self, waiting: _Channel, event: str | None, headers: dict[str, str]) -> Tape | None:
        """Return the tape of a channel, if the facts decide."""
        number = headers.get(protocol.SESSION_HEADER)
        if event == "request":
            endpoint = self._by_endpoint.get(waiting.path)
            return endpoint or (None if number is None else self._of_id(number, waiting))
        if event == "response" and number is not None:
            return self._of_id(number, waiting)
        if event == "response" and waiting.opens and not waiting.body and is_event_stream(headers.get("content-type")):
            return None  # its first event decides
        return self._of_run(waiting)

    def _of_id(self, number: str, waiting: _Channel) -> Tape:
        if number in self._by_id:
            return self._by_id[number]
        if self._sampling is not None and not self._sampling.takes_session(number):
            return _UNRECORDED
        return self._begin_named(self._by_id, number, waiting.at, HTTP)

    def _of_run(self, waiting: _Channel) -> Tape:
        if self._sampling is not None and not self._sampling.takes_request(b"".join(waiting.body)):
            return _UNRECORDED
        if self._run is None:
            begun = min(channel.at for channel in (waiting, *self._waiting.values()))
            self._run = self._begin(begun, HTTP, False)
        return self._run

    def _beside(self, at: int) -> Tape:
        """The tape for a side request, which names no session: that of the run, or the newest."""
        named = [*self._by_id.values(), *self._by_endpoint.values()]
        if self._run is None and named:
            return named[-1]
        return self._of_run(_Channel("GET", "", at))

    def _of_stream(self, waiting: _Channel, text: bytes, event: str | None) -> Tape:
        """HTTP+SSE: the first event of a stream names the endpoint that the client must post to.

        https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
        """
        if event != "endpoint":
            return self._of_run(waiting)
        path = endpoint_path(waiting.path, text.decode("utf-8", "replace"))
        if self._sampling is not None and not self._sampling.takes_session(path):
            self._by_endpoint[path] = _UNRECORDED
            return _UNRECORDED
        return self._begin_named(self._by_endpoint, path, waiting.at, SSE)

    def _begin_named(self, kept: dict[str, Tape], name: str, at: int, transport: str) -> Tape:
        kept[name] = tape = self._begin(at, transport, True)
        self._names[tape] = kept, name
        return tape


def endpoint_path(base: str, endpoint: str) -> str:
    """The path and query of an `endpoint` event, relative to the path of its stream."""
    try:
        parts = urlsplit(urljoin(f"http://server{base}", endpoint.strip()))
    except ValueError:
        return endpoint  # not a valid URL: no client will post there
    return parts.path + (f"?{parts.query}" if parts.query else "")
