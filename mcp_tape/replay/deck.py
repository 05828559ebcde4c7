"""The playing core: a client's messages in, the recorded server's messages out.

Each message of ours waits for its cue; what counts as one, hearing says. Does no I/O and reads no clock: what to send
is a value it returns, time is an argument.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..redaction.diagnostics import Discreet
from ..wire import frames, protocol, rewrite
from ..wire.frames import Message
from .ahead import Plain
from .calls import Call, Calls
from .cues import Cues
from .finder import Finder
from .hearing import Hearing
from .ordering import RecordedOrder
from .selection import Position, Recorded, Selection
from .sends import MISS, NOT_FOUND, Action, Pending, Playback, Send, said

if TYPE_CHECKING:
    from .misses import Advice

_END = 1 << 62  # behind everything recorded
_LAST: Position = (_END, 0, 0)


class Fact(NamedTuple):
    """What happened, for reports."""

    what: Literal["played", "miss", "note"]
    text: str = ""
    call: Call | None = None
    advice: tuple[Advice, ...] = ()  # on a miss


class Deck:
    """Plays the server of a selection to one client."""

    def __init__(
        self,
        selection: Selection,
        finder: Finder,
        *,
        speed: float = 0.0,
        in_recorded_order: bool = False,
        repeat_whole: bool = False,
        shortcuts: bool = True,
        tell: Callable[[Fact], None] = lambda fact: None,
        tell_played: bool = True,
        pass_on: Callable[[Call], bool] = lambda call: False,
        stand_in: Callable[[Call], Send | None] | None = None,
        discreet: Discreet | None = None,
    ) -> None:
        self.selection = self._selection = selection
        self._finder = finder
        self._playback = Playback(selection)
        self._speed = speed
        self._order = RecordedOrder(selection, self._note) if in_recorded_order else None
        self._may_be_plain = not speed and not in_recorded_order and not tell_played and not stand_in
        self._at_once = self._may_be_plain and shortcuts
        self._repeat_whole = repeat_whole
        self._tell = tell
        self._tell_played = tell_played
        self._pass_on = pass_on
        self._stand_in = stand_in
        self._discreet = discreet or Discreet()
        self._calls = Calls(selection)
        self._cues = Cues(selection, self._calls)
        self._hearing = Hearing(selection)
        self._given_back: set[Position] = set()  # requests whose answers stay on the tape
        self._ready: list[Pending] = []
        self._later: list[tuple[float, Position, int, Pending]] = []
        self._numbers = count()  # so that a heap never compares what it holds
        self._replies: list[Send] = []
        self.played = 0
        self.misses = 0
        finder.listen(self._has_come, self._note)
        self._cue(selection.sessions[0], 0, None, 0.0, 0)

    def receive(self, text: bytes, channel: str, now: float) -> None:
        """A frame of the client."""
        answer = self.quick(text)
        if answer is not None:
            self._replies.append(Send(answer, channel))
            return
        self._discreet.hear(text)
        calls: list[tuple[Call, bool]] = []
        kind, messages = frames.parse(text)
        parts = rewrite.elements(text) if kind == "batch" else None
        # The messages of a batch share what they cue: all its requests are known before anything plays.
        for part, message in enumerate(messages):
            if message.kind == "request":
                calls += self._request(message, text, part, parts, channel)
        for call, again in calls:
            if (again and self._plays_whole(call)) or (call.recorded and call.recorded.place in self._given_back):
                self._cues.forget(call)
        for call, again in calls:
            self._play(call, again, now)
        for message in messages:
            if message.kind == "response":
                self._response(message, now)
            elif message.kind != "request":
                self._notification(message, channel, now)

    def quick(self, text: bytes) -> bytes | None:
        """The answer to a request that is on the tape byte for byte, where nothing else comes with it.

        Most are: then there is nothing to parse, to rewrite or to keep track of.
        """
        found = self._finder.plain(text) if self._at_once else None
        return None if found is None else self._plain_answer(found[1], found[0], text)

    def plain(self, text: bytes) -> tuple[bytes, bytes | None] | None:
        """The same with what preceded the answer on the wire, for transports that keep more to themselves."""
        found = self._finder.plain(text) if self._may_be_plain else None
        return None if found is None else (self._plain_answer(found[1], found[0], text), found[1].head)

    def plain_of(self, message: Message, text: bytes) -> tuple[bytes, bytes | None] | None:
        """The same for a request that was parsed, by what it asks for."""
        if not self._may_be_plain or rewrite.may_be_noteworthy(message):
            return None
        plain = self._finder.plain_of(message, text)
        return None if plain is None else (self._plain_answer(plain, message.rpc_id or "null", text), plain.head)

    def _plain_answer(self, plain: Plain, rpc_id: str, text: bytes) -> bytes:
        self.played += 1
        self._calls.plain.append((rpc_id, text, plain))
        return rewrite.answer(plain.answer or b"", plain.rpc_id, rpc_id)

    def due(self, now: float) -> Sequence[Action]:
        """What is to be sent now. Ask after every frame: answers then never depend on how frames arrived."""
        if self._ready or self._later or self._order is not None:
            return self.joined(self.apart(now))
        replies, self._replies = self._replies, []
        return replies

    def joined(self, actions: Sequence[Action]) -> list[Action]:
        """What is to be done now, with batches put together again."""
        return self._playback.joined(actions)

    def apart(self, now: float) -> list[Send]:
        """What is to be sent now, the messages of a batch one by one."""
        sends, self._replies = self._replies, []
        while more := self._ready_now(now):
            sends += more
            for asked in self._playback.withdrawn():
                self._hear(self._selection.answer(asked), now)
        return sends

    def _ready_now(self, now: float) -> list[Send]:
        while self._later and self._later[0][0] <= now:
            self._ready.append(heapq.heappop(self._later)[-1])
        ready, self._ready = self._ready, []
        if self._order is not None:
            ready = self._order.pass_on(ready, now)
        for recorded, call in [pending for pending in ready if pending.is_answer]:
            if call is not None:
                ready += [Pending(row, call) for row in call.take_behind()]
                if recorded is None and call.reached:
                    self._unanswered(call)
        sends = self._playback.sends(sorted(ready, key=_place))
        for send in sends:
            if send.answers and send.call is not None:
                self._calls.close(send.call)
        return sends

    def give_back(self, call: Call) -> None:
        """A call that was just found never reached the server: the next one like it gets what this one would have."""
        if call.recorded is not None:
            call.reached = False
            self._finder.give_back()
            self._given_back.add(call.recorded.place)

    def leave(self, now: float) -> None:
        """The client will send nothing more: what only waits for an order need not."""
        if self._order is not None:
            self._order.give_way()

    def abandon(self, channel: str) -> None:
        """The client has left a channel: what was for it goes nowhere."""
        self._drop(lambda pending: pending.call is None or pending.call.channel != channel)
        self._calls.close_all(channel)

    def note(self, text: str) -> None:
        """Report what a transport noticed."""
        self._note(text)

    def overhear(self, text: bytes) -> None:
        """A message of a live server beside the tape: what it calls a secret is not repeated in notes."""
        self._discreet.hear(text)

    def is_asking(self, rpc_id: str) -> bool:
        """Whether a request of ours with this id waits for the client's answer."""
        return rpc_id in self._playback.asked

    def next_at(self) -> float | None:
        """When something will be due, if nothing arrives before."""
        if not self._later and self._order is None:
            return None
        times = [self._later[0][0]] if self._later else []
        held = self._order.next_at() if self._order else None
        return min(times if held is None else [*times, held], default=None)

    # -- what arrives

    def _request(
        self, message: Message, text: bytes, part: int, parts: list[bytes] | None, channel: str
    ) -> list[tuple[Call, bool]]:
        if self._at_once and parts is None and not rewrite.may_be_noteworthy(message):
            plain = self._finder.plain_of(message, text)
            if plain is not None:
                self._replies.append(Send(self._plain_answer(plain, message.rpc_id or "null", text), channel))
                return []
        own = text if parts is None else parts[part]
        if self._stood_in(Call(message.rpc_id, channel, None, own, message)):
            return []
        recorded, again = self._finder.find(message, text, part)
        call = Call(message.rpc_id, channel, recorded, own, message)
        if recorded is None:
            self._miss(call)
            return []
        self._note_difference(message, recorded)
        self.played += 1
        if self._tell_played:
            self._tell(Fact("played", "", call))
        self._calls.begin(call, recorded)
        return [(call, again)]

    def _stood_in(self, call: Call) -> bool:
        """Whether somebody answered a call instead of the tape."""
        answer = self._stand_in(call) if self._stand_in else None
        if answer is None:
            return False
        self.played += 1
        self._tell(Fact("played", "", call))
        self._replies.append(answer)
        return True

    def _note_difference(self, message: Message, recorded: Recorded) -> None:
        if rewrite.may_be_noteworthy(message):
            then = self._selection.message(recorded).body.get("params")
            difference = rewrite.noteworthy(message, then)
            if difference:
                self._note(difference)

    def _play(self, call: Call, again: bool, now: float) -> None:
        recorded = call.recorded
        assert recorded is not None
        if again and not self._plays_whole(call):
            self._answer_only(call, recorded, now)
        elif not self._cue(recorded.session, recorded.seq, call, now, self._at(recorded)):
            self._without_answer(call, recorded.seq, now)

    def _plays_whole(self, call: Call) -> bool:
        """Whether all of an exchange is repeated, and not just its answer."""
        return self._repeat_whole and call.recorded is not None and call.recorded.session in self._selection.sessions

    def _response(self, message: Message, now: float) -> None:
        asked = self._playback.asked.pop(message.rpc_id or "", None)
        if asked is not None:
            recorded = self._selection.answer(asked)
            if recorded is not None:
                self._note_answer(message, asked, recorded)
        elif self._playback.was_taken_back(message.rpc_id):
            return  # nothing waits for it, see hearing
        else:
            recorded = self._hearing.stray_answer(message)
            if recorded is None:
                self._note(f"the client answered {message.rpc_id}, which was not asked")
        self._hear(recorded, now)

    def _note_answer(self, message: Message, asked: Recorded, recorded: Recorded) -> None:
        difference = rewrite.different_answer(message, self._selection.message(recorded))
        if difference:
            self._note(f"{asked.method} was answered differently than recorded: {difference}")

    def _notification(self, message: Message, channel: str, now: float) -> None:
        if message.method == protocol.CANCELLED:
            self._cancel(message, channel, now)
            return
        self._hear(self._hearing.notification(message), now)

    def _cancel(self, message: Message, channel: str, now: float) -> None:
        """A live cancel drops what was recorded before it; what came after it plays now."""
        rpc_id = frames.cancelled(message)
        call = self._calls.get(channel, rpc_id)
        on_tape = self._hearing.cancel(rpc_id, call or self._calls.answered(rpc_id))

        def stays(pending: Pending) -> bool:
            after = on_tape is not None and pending.recorded is not None and pending.recorded.seq > on_tape.seq
            return pending.call is not call or after

        if call is not None:
            self._drop(stays)
        self._hear(on_tape, now)

    def _hear(self, recorded: Recorded | None, now: float) -> None:
        """A message of the client that is on the tape, and no request, has arrived."""
        if recorded is None:
            return
        self._cue(recorded.session, recorded.seq, None, now, self._at(recorded))
        for call in self._calls.mates(recorded):
            self._without_answer(call, recorded.seq, now)

    def _drop(self, stays: Callable[[Pending], bool]) -> None:
        self._ready = list(filter(stays, self._ready))
        self._later = [item for item in self._later if stays(item[-1])]
        heapq.heapify(self._later)
        if self._order is not None:
            self._order.drop(stays)

    # -- what the tape cannot answer

    def _miss(self, call: Call) -> None:
        method = call.message.method or ""
        if method == protocol.PING:
            self._replies.append(said(call, "result", "{}"))
            return
        if method == protocol.DISCOVER:
            self._replies.append(said(call, "error", rewrite.error(NOT_FOUND, "Method not found")))
            return
        if self._pass_on(call):
            return
        known = self._selection.knows(method)
        from . import misses  # only now: most replays have none, and start-up counts

        self.misses += 1
        report = misses.report(self._selection, call.message, known, self._finder.counts, self._discreet)
        self._tell(Fact("miss", report.text, call, report.advice))
        code = MISS if known else NOT_FOUND
        self._replies.append(said(call, "error", rewrite.error(code, report.headline, report.data)))

    def _without_answer(self, call: Call, arrived: int, now: float) -> None:
        """The tape may end before the answer: then say so, once all that it has of the exchange is out."""
        recorded = call.recorded
        if recorded is None or _LAST in call.answers or not self._cues.ends_without_answer(recorded, arrived):
            return
        call.answers.add(_LAST)
        if call.until < now:
            self._ready.append(Pending(None, call))
        else:
            heapq.heappush(self._later, (call.until, _LAST, next(self._numbers), Pending(None, call)))

    def _unanswered(self, call: Call) -> None:
        """A request that was found, and has no answer on the tape, is a miss after all."""
        from . import misses

        assert call.recorded is not None
        self.played -= 1
        self.misses += 1
        report = misses.unanswered(self._selection, call.message, call.recorded, self._discreet)
        self._tell(Fact("miss", report.text, call, report.advice))

    # -- what goes out

    def _cue(self, session: int, cue: int, call: Call | None, now: float, at: int) -> bool:
        """A client message has arrived: what waited for it is due. Whether the call's answer is among it."""
        due, answered = self._cues.due(session, cue, call)
        for pending in due:
            self._schedule(pending, now, at)
        return answered

    def _answer_only(self, call: Call, recorded: Recorded, now: float) -> None:
        answer = self._selection.answer(recorded)
        if answer is None:
            self._without_answer(call, _END, now)
        else:
            self._schedule(Pending(self._selection.facts(answer), call), now, self._at(recorded))

    def _schedule(self, pending: Pending, now: float, cue_at: int) -> None:
        recorded = pending.recorded
        if not self._speed or recorded is None:
            self._ready.append(pending)
            return
        due = now + max(0, (recorded.at or 0) - cue_at) / 1e6 / self._speed
        if pending.call is not None:
            pending.call.until = max(due, pending.call.until)
        heapq.heappush(self._later, (due, recorded.place, next(self._numbers), pending))

    def _at(self, recorded: Recorded) -> int:
        """When it was recorded; only a replay in time needs to know."""
        return (self._selection.facts(recorded).at or 0) if self._speed else 0

    def _has_come(self, recorded: Recorded) -> bool:
        """Whether a notification of a change is out."""
        waits = any(pending.recorded and pending.recorded.place == recorded.place for *_, pending in self._later)
        return not waits and self._cues.has_come(recorded)

    def _note(self, text: str) -> None:
        self._tell(Fact("note", self._discreet.remark(text)))


def _place(pending: Pending) -> Position:
    return pending.recorded.place if pending.recorded else _LAST
