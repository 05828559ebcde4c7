"""One HTTP client's deck, and the choice of the stream for each message.

An answer goes to the stream of its POST, a message without a call to a GET stream, and everything of HTTP+SSE to its
one stream. Events with ids are kept for clients that resume a stream.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#multiple-connections
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...replay.sends import Action, Hangup, Refuse, Reset, Send
from ...wire import frames, framing, rewrite
from ...wire.channels import STDIO, is_listen_stream

if TYPE_CHECKING:
    from typing import Protocol

    from ...cassette.lookup.messages import RecordedMessage
    from ...replay.deck import Deck
    from ...replay.opening import Opening
    from ...replay.sends import Headers, Player

    class Sender(Protocol):
        """The HTTP response that sends a stream."""

        def go_on(self) -> None:
            """Send the queued actions."""

        def fail(self, error: Exception) -> None: ...

        def stop(self) -> None:
            """End without sending anything: another response takes its place."""


_MOST_EVENTS = 10_000  # kept for clients that resume a stream
_MOST_BYTES = 64 << 20  # of them


class Stream:
    """The actions for one HTTP response, queued until they are sent."""

    resumed: str | None = None  # the id of the event after which it resumes
    left = False
    lingers_until = float("-inf")  # after its last answer, for delayed messages
    sender: Sender | None = None  # once its response may begin

    def __init__(self, channel: str, asked: Sequence[str] = (), *, listens: bool = False) -> None:
        """`asked`: the ids of the requests to answer. A GET has none, and stays open."""
        self.channel = channel
        self.asked = asked
        self.unanswered = len(asked)
        self.waits_for_ever = not asked
        self.is_held = listens or self.waits_for_ever  # opened at once, even with nothing to send
        self.is_get = self.waits_for_ever  # can't be answered with JSON
        self.when_left: Callable[[], object] = lambda: None
        self.items: deque[Action | None] = deque()  # not sent yet

    def leave(self) -> None:
        self.left = True
        self.when_left()

    def put(self, item: Action | None) -> None:
        """Queue an action; None ends the stream.

        The response sends nothing until all due actions are queued, as its form depends on those that follow.
        """
        self.items.append(item)

    def put_back(self, send: Send) -> None:
        """Put the last taken action back."""
        self.items.appendleft(send)
        self.unanswered += answers_in(send)

    def take(self) -> Action | None:
        item = self.items.popleft()
        if isinstance(item, Send):
            self.unanswered -= answers_in(item)
        return item

    def take_answers(self) -> list[Send]:
        """Take the answers at the front of the queue, until all requests are answered."""
        found: list[Send] = []
        while self.unanswered > 0 and isinstance(item := self.peek(), Send) and item.answers:
            self.take()
            found.append(item)
        return found

    def peek(self) -> Action | None:
        return self.items[0] if self.items else None

    def unsent_messages(self) -> list[Send]:
        """The queued messages."""
        return [item for item in self.items if isinstance(item, Send)]


class Conversation:
    """A deck and the streams of one client; in the modern era of all clients, with an empty `number`."""

    def __init__(self, player: Player, deck: Deck | Opening, number: str) -> None:
        self._player = player
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._now = float("-inf")  # the time up to which due actions were handed out
        self._streams: dict[str, Stream] = {}
        self._unsent: list[tuple[str | None, Send]] = []  # each with the event after which its stream resumes
        self._sent = SentEvents()
        self._left_out: set[str] = set()  # methods of messages without a possible stream
        self._lost: set[str] = set()  # channels that the client may resume
        self.deck = deck
        self.selection = deck.selection
        self.number = number
        self.everything: Stream | None = None  # the one stream of HTTP+SSE

    @property
    def refuses_listeners(self) -> bool:
        """True if the recorded server had no GET stream."""
        return self.selection.controls.stream_status(self.selection.sessions[0]) == 405

    def open(self, channel: str, asked: Sequence[str], listens: bool) -> Stream:
        """Open the stream of a POST with these requests."""
        stream = self._streams[channel] = Stream(channel, asked, listens=listens)
        return stream

    def listen(self, channel: str) -> Stream:
        """Open the stream of a GET, and give it the messages that waited for one."""
        stream = self._streams[channel] = Stream(channel)
        self.flush()
        return stream

    def resume(self, channel: str, event: str) -> Stream | None:
        """Open the stream of a GET that resumes after an event; None if the event is unknown."""
        found = self._sent.events_after(event)
        goes_on = any(event == resumed for resumed, _ in self._unsent)
        if found is None or (goes_on and found.is_over):
            return self._resume_ended(channel, event, goes_on)
        stream = Stream(found.channel, found.asked)
        stream.unanswered -= found.answered
        for send in found.sends:
            stream.put(send)
        return self._go_on(stream, event)

    def _resume_ended(self, channel: str, event: str, goes_on: bool) -> Stream | None:
        """Resume a stream whose last event was its answer and may be forgotten, or that had no event."""
        stream = Stream(channel)
        if goes_on:  # the recorded server sent more there
            return self._go_on(stream, event)
        if not self.selection.controls.is_answer(self.selection.sessions, event):
            self.deck.note(f"a client wants to resume after event {event!r}, which was never sent; it gets an error")
            return None
        stream.put(None)
        return stream

    def _go_on(self, stream: Stream, event: str) -> Stream:
        """Replace a stream by the one that resumes it."""
        stream.resumed, stream.is_held, stream.is_get = event, True, True
        if not stream.waits_for_ever and stream.unanswered <= 0:
            stream.put(None)
        self._lost.discard(stream.channel)
        before = self._streams.pop(stream.channel, None)
        if before is not None:
            before.leave()
            if before.sender is not None:  # the client has left it, unnoticed so far
                before.sender.stop()
        self._streams[stream.channel] = stream
        self.flush()
        return stream

    def receive(self, text: bytes, channel: str, parsed: frames.Parsed, headers: Headers) -> None:
        self._player.receive(text, channel, self._loop.time(), parsed, headers)
        self.flush()

    def flush(self) -> None:
        """Hand out due actions, and schedule the next call."""
        try:
            self._now = self._loop.time()
            for action in self._player.due(self._now):
                self._hand_out(action)
            if self._unsent:
                self._hand_on()
        except Exception as error:  # the due actions are lost, whichever stream they were for
            self.fail(error)
            raise
        self._send()
        if self._timer is not None:
            self._timer.cancel()
        due = self._player.next_at()
        self._timer = None if due is None else self._loop.call_at(due, self.flush)

    def fail(self, error: Exception) -> None:
        """Fail all streams: the error may concern any of them."""
        senders = [stream.sender for stream in self._streams.values() if stream.sender is not None]
        for sender in senders:
            sender.fail(error)
        if not senders:
            raise error

    def goes_on(self, stream: Stream, send: Send) -> bool:
        """Return whether more follows on the stream of a POST whose requests are answered, as in the recording.

        Messages recorded on the one stream of HTTP+SSE or stdio go to a GET stream instead, if there is one: some
        clients read no further than the answer.
        """
        if not stream.items:
            if self._comes_later(send) and send.call is not None:
                stream.lingers_until = send.call.until
            return stream.lingers_until > self._now
        item = stream.peek()
        recorded = item.recorded if isinstance(item, Send) else None
        return recorded is None or not self.selection.controls.is_shared(recorded.session) or not self._is_heard()

    def _comes_later(self, send: Send) -> bool:
        """Return whether delayed messages will follow on the stream of an answered call."""
        request = send.call.recorded if send.call else None
        if request is None or send.recorded is None or self._player.next_at() is None:
            return False
        if not self.number or self.selection.controls.is_shared(request.session):
            return not self._is_heard()
        last = self.selection.last_of_stream(request)
        return last is not None and last > send.recorded.seq

    def _is_heard(self) -> bool:
        """Return whether the client has opened a GET stream."""
        return any(stream.waits_for_ever and not stream.left for stream in self._streams.values())

    def _send(self) -> None:
        """Let the responses send their queued actions."""
        for stream in list(self._streams.values()):
            if float("-inf") < stream.lingers_until <= self._now and not stream.items:
                stream.put(None)
            if stream.items and stream.sender is not None:
                stream.sender.go_on()

    def close(self, stream: Stream) -> None:
        """Close the stream of a response that has ended, and keep its unsent messages."""
        if self._streams.get(stream.channel) is stream:
            del self._streams[stream.channel]
        if not self.number:
            if stream.left:
                self._player.abandon(stream.channel)  # modern clients cancel by disconnecting
        elif stream.left and self._sent.has(stream.channel):
            self._lost.add(stream.channel)
        elif stream.items:  # unsent messages, and later ones, go to the stream for all others
            self._unsent += [(stream.resumed, send) for send in stream.unsent_messages()]
            self._hand_on()
            self._send()

    def end(self) -> None:
        """End all streams: the client has ended the session."""
        if self._timer is not None:
            self._timer.cancel()
        for stream in self._streams.values():
            stream.put(None)
        self._send()

    def when_left(self, channel: str, do: Callable[[], object]) -> None:
        if channel in self._streams:
            self._streams[channel].when_left = do

    def refuse(self, refusal: Refuse) -> None:
        """Send an HTTP error of a live server in place of an answer."""
        call, error = refusal.call, rewrite.refusal(refusal.body, refusal.call.rpc_id)
        if self.everything is not None:
            self.everything.put(Send(error + b"\n", call.channel, call, True))
        elif call.channel in self._streams:
            is_message = bool(frames.parse(refusal.body)[1])  # perhaps without the id of the call
            self._streams[call.channel].put(refusal._replace(body=error) if is_message else refusal)
        self._send()

    def pass_on(self, send: Send) -> None:
        """Send a message of a live server."""
        stream = self.everything or self._streams.get(send.channel)
        if stream is not None:
            stream.put(send)
        else:
            self._to_listener(None, send)
        self._send()

    def _hand_out(self, action: Action) -> None:
        if not isinstance(action, Send):
            stream = self.everything or (self._streams.get(action.call.channel) if action.call is not None else None)
            if action.call is None:  # the end of the whole replay: any connection will do
                stream = stream or next(iter(self._streams.values()), None)
            if stream is not None:
                stream.put(action)
            if isinstance(action, Hangup | Reset) and action.lost is not None:
                self._keep_lost(action.lost)
            return
        recorded = action.recorded
        if recorded is not None and recorded.kind == "noise" and recorded.channel == STDIO:
            return  # HTTP can't carry a line that is not a message
        if self.everything is not None:
            if recorded is None or recorded.kind != "noise":
                self.everything.put(action)
            return
        own = self._streams.get(action.channel)
        elsewhere = self._was_elsewhere(recorded) and (own is None or own.resumed is None)
        if not elsewhere and (own is not None or action.channel in self._lost):
            self._put(action.channel, action)
            if own is not None:
                self._end_early(own, action)
        else:
            self._to_listener(self._resume_point(recorded), action)

    def _put(self, channel: str, send: Send) -> None:
        """Queue a message for an open stream, or keep it for one that the client may resume."""
        stream = self._streams.get(channel)
        if stream is not None:
            stream.put(send)
        if self.number:
            self._sent.add(channel, send, stream.asked if stream is not None else self._sent.requests_of(channel))

    def _keep_lost(self, send: Send) -> None:
        """Keep a message that was replaced by a broken connection: the client may resume the stream."""
        if self._sent.has(send.channel):
            self._lost.add(send.channel)
            self._sent.add(send.channel, send, self._sent.requests_of(send.channel))

    def _was_elsewhere(self, recorded: RecordedMessage | None) -> bool:
        """Return whether a request's message was recorded on a GET stream. The modern era has none."""
        if recorded is None or not self.number or not is_listen_stream(recorded.channel or ""):
            return False
        return not self.selection.controls.is_shared(recorded.session)

    def _resume_point(self, recorded: RecordedMessage | None) -> str | None:
        if not self._was_elsewhere(recorded) or recorded is None:
            return None
        return self.selection.controls.resumed_event(recorded.session, recorded.channel or "")

    def _end_early(self, stream: Stream, send: Send) -> None:
        """End the stream of a POST before its answer, as the recorded server did: the client then resumes it."""
        request = send.call.recorded if send.call else None
        if send.answers or request is None or send.recorded is None or send.recorded.head is None:
            return
        if self.selection.controls.stream_status(request.session) is None:
            return  # there was no other stream
        answer = self.selection.answer(request)
        if answer is None or not self._was_elsewhere(self.selection.facts(answer)):
            return
        if self.selection.last_of_stream(request) == send.recorded.seq:
            stream.put(None)

    def _hand_on(self) -> None:
        unsent, self._unsent = self._unsent, []
        for resumed, send in unsent:
            self._to_listener(resumed, send)

    def _to_listener(self, resumed: str | None, send: Send) -> None:
        for stream in self._streams.values():
            if not stream.left and _takes(stream, resumed, send):
                self._put(stream.channel, send)
                return
        if self.number:
            self._unsent.append((resumed, send))
        else:
            self._leave_out(send)

    def _leave_out(self, send: Send) -> None:
        """Report, once for each method, a message that no client of the modern era can get."""
        message = next(iter(frames.parse(send.text)[1]), None)
        method = (message and message.method) or "a message"
        if method not in self._left_out:
            self._left_out.add(method)
            self.deck.note(f"{method} belongs to no call, and the modern era has no stream for it; it is left out")


def _takes(stream: Stream, resumed: str | None, send: Send) -> bool:
    """Return whether a message without its own stream may go on this one."""
    if resumed is None:
        return stream.waits_for_ever
    return stream.resumed is not None and (stream.resumed == resumed or stream.channel == send.channel)


class StreamRemainder(NamedTuple):
    """The events of a stream after a given one, the stream's requests, and the number of earlier answers."""

    channel: str
    asked: Sequence[str]
    sends: list[Send]
    answered: int

    @property
    def is_over(self) -> bool:
        """True if the given event was the stream's last answer."""
        return not self.sends and 0 < len(self.asked) <= self.answered


class SentEvents:
    """The latest events of a client's streams: it may lose a connection and resume after any of them.

    Streams whose events have no ids are not kept.
    https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
    """

    def __init__(self) -> None:
        self._events: deque[tuple[str, str | None, Send]] = deque()
        self._channels: dict[str, tuple[int, Sequence[str]]] = {}  # the number of events and the requests of each
        self._size = 0

    def has(self, channel: str) -> bool:
        """Return whether a client can resume this stream."""
        return channel in self._channels

    def add(self, channel: str, send: Send, asked: Sequence[str]) -> None:
        """Keep an event. `asked`: the ids of the requests that came on this channel."""
        head = send.recorded.head if send.recorded is not None else None
        number = framing.field(head, b"id") if head else None
        if number is None and not self.has(channel):
            return
        self._events.append((channel, number, send))
        self._channels[channel] = (self._channels.get(channel, (0, ()))[0] + 1, asked)
        self._size += len(send.text)
        while len(self._events) > _MOST_EVENTS or (self._size > _MOST_BYTES and len(self._events) > 1):
            self._drop()

    def events_after(self, number: str) -> StreamRemainder | None:
        """Return the rest of a stream after an event; None if there is no such event."""
        events = list(self._events)
        at = next((place for place in reversed(range(len(events))) if events[place][1] == number), None)
        if at is None:
            return None
        channel = events[at][0]
        before = [send for own, _, send in events[: at + 1] if own == channel]
        behind = [send for own, _, send in events[at + 1 :] if own == channel]
        return StreamRemainder(channel, self._channels[channel][1], behind, sum(map(answers_in, before)))

    def requests_of(self, channel: str) -> Sequence[str]:
        return self._channels.get(channel, (0, ()))[1]

    def _drop(self) -> None:
        channel, _, send = self._events.popleft()
        self._size -= len(send.text)
        kept, asked = self._channels.pop(channel)
        if kept > 1:
            self._channels[channel] = (kept - 1, asked)


def answers_in(send: Send) -> int:
    """The number of requests that a message answers; several for a batch in one array."""
    if not send.text.lstrip().startswith(b"["):
        return int(send.answers)
    return sum(message.kind == "response" for message in frames.parse(send.text)[1])
