"""The playing core: a client's messages in, the recorded server's messages out.

Does no I/O and reads no clock: actions are values that it returns, time is an argument.

Theory of operation. *Each message of the server waits for its cue*, a message of the client: within an exchange the
last one of that exchange, else the last one before it in the session (`wire/ledger.py` finds it as it records). So no
order of a client's can block another exchange, and what is never cued stays unplayed. Any message of the client may be
a cue, also one that meant nothing to the server; each that arrives is matched with the tape, and heard there once:

- A request is the next one with its key (`finder.py`; ids:
  https://modelcontextprotocol.io/specification/2025-11-25/basic). Most cue their answer and nothing else, which
  then comes of the same look-up. It becomes a call, which owns what plays in its exchange.
- A response is that to the server's request that went out under its id; one to nothing that was asked, the next such
  response on the tape with its id.
- A cancel is the next one on the tape of the same request, open then or answered already: who cancels does not know
  (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation). It counts once for each time
  that its call is made. One of a request that nobody made is the next such cancel, with the same id if there is one.
- Any other notification is the next one of its method; of progress, the next one for its token
  (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress).

What is cued belongs to a call, which gives it the live id, token and channel: an answer by its id, progress by its
token, all else to the newest call of the exchange. What came behind an answer, and names its request, waits for that
answer. A live cancel drops what was recorded before it; what came behind it plays. A client need not answer what the
server has cancelled: what waits for such an answer is due at once, and the answer itself cues nothing.

A request that is found once more, as its answers are played out, is given its answer alone, or all of its exchange
where that was asked for (`repeat_whole`). One that was recorded without an answer stays silent if it was cancelled,
else it is a miss. The calls of a batch (https://modelcontextprotocol.io/specification/2025-03-26/basic) share what
they cue, so all of them are found before anything plays; what was recorded as a batch goes out as one if it is due at
once, to one place.

All that changes meanwhile is in one `State` (`state.py`), shared with the parts: the finder, `cues.py` (what each
message is and cues, and when that goes out) and `sends.py` (what is made of it).
"""

from __future__ import annotations

from ..cassette.lookup.messages import Recorded
from ..redaction.diagnostics import Discreet
from ..wire import frames, protocol, rewrite
from ..wire.frames import Message
from .cues import Cues, Hearing, Schedule
from .finder import Finder
from .report import Fact
from .selection import Selection
from .sends import END, LAST, MISS, NO_HEADERS, Action, Call, Hangup, Pending, Playback, Send, said
from .state import Calls, Found

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Literal

    from .sends import Headers


if TYPE_CHECKING:
    Unanswered = Literal["error", "silent", "exit"]


class Deck:
    """Plays the server of a selection to one client."""

    def __init__(
        self,
        selection: Selection,
        finder: Finder,
        *,
        speed: float = 0.0,
        in_recorded_order: bool = False,
        unanswered: Unanswered = "error",
        repeat_whole: bool = False,
        report: Callable[[Fact], None] = lambda fact: None,
        report_played: bool = True,
        of_others: Collection[int] = (),
        pass_on: Callable[[Call], bool] = lambda call: False,
        stand_in: Callable[[Call], Send | None] | None = None,
        discreet: Discreet | None = None,
    ) -> None:
        self.selection = self._selection = selection
        self.finder = finder
        self.state = state = finder.state
        self._playback = Playback(selection, state.asked, state.taken_back, state.withdrawn)
        self._schedule = Schedule(selection, state, self.note, speed, in_recorded_order)
        self._repeat_whole = repeat_whole
        self._ends = unanswered  # calls without an answer on the tape
        self._report = report
        self._report_played = report_played
        self._of_others = of_others  # sessions that other connections are there for
        self._pass_on = pass_on
        self._stand_in = stand_in
        self._discreet = discreet or Discreet()
        self._calls = Calls(selection, state)
        self._cues = Cues(selection, state, self._calls)
        self._hearing = Hearing(selection, state)
        finder.listen(self._schedule.has_come, self.note)
        self._cue(selection.sessions[0], 0, None, 0.0)

    def receive(
        self,
        text: bytes,
        channel: str,
        now: float,
        parsed: frames.Parsed | None = None,
        headers: Headers = NO_HEADERS,
    ) -> None:
        """Take in a frame of the client; `parsed`, if somebody has parsed it. `headers`: of MCP, over HTTP."""
        self._discreet.hear(text)
        calls: list[tuple[Call, Found]] = []
        kind, messages = parsed or frames.parse(text)
        if kind == "noise":
            self._malformed(text, channel, now)
        parts = rewrite.elements(text) if kind == "batch" else None
        # The messages of a batch share what they cue: all its requests are known before anything plays.
        for part, message in enumerate(messages):
            if message.kind == "request":
                calls += self._request(message, text, part, parts, channel, headers)
        for call, found in calls:
            if found.plays_anew or (found.again and self._plays_whole(call)):
                self._cues.forget(call)
        for call, found in calls:
            self._play(call, found, now)
        for message in messages:
            if message.kind == "response":
                self._response(message, now)
            elif message.method == protocol.CANCELLED and message.kind == "notification":
                self._cancel(message, channel, now)
            elif message.kind != "request":
                self._hear(self._hearing.notification(message), now)

    def due(self, now: float) -> Sequence[Action]:
        """Return what is to be sent now. Ask after every frame: answers then never depend on how frames arrived."""
        if not self._schedule.is_empty:
            return self.joined(self.apart(now))
        replies, self.state.replies = self.state.replies, []
        return replies

    def joined(self, actions: Sequence[Action]) -> list[Action]:
        """Put batches together again, in what is to be done now."""
        return self._playback.joined(actions)

    def apart(self, now: float) -> list[Action]:
        """Return what is to be sent now, the messages of a batch one by one."""
        sends: list[Action] = [*self.state.replies]
        self.state.replies.clear()
        while more := self._ready_now(now):
            sends += more
            withdrawn = self.state.withdrawn[:]
            self.state.withdrawn.clear()
            for asked in withdrawn:
                self._hear(self._selection.answer(asked), now)
        return sends

    def _ready_now(self, now: float) -> list[Action]:
        ready = self._schedule.take(now)
        for call in [pending.call for pending in ready if pending.is_answer]:
            if call is not None:
                behind, call.behind = call.behind, []
                ready += [Pending(row, call) for row in behind]
        sends = self._playback.sends(sorted(ready, key=lambda pending: pending.place))
        if self.state.put_back is not None:
            sends = [send.fitted(self.state.put_back) for send in sends]
        for send in sends:
            if send.answers and send.call is not None:
                self._calls.close(send.call)
        unanswered = [pending.call for pending in ready if pending.recorded is None and pending.call is not None]
        return [*sends, *(action for call in unanswered for action in self._unanswered(call))]

    def give_back(self, call: Call) -> None:
        """Take note that a call never reached the server: the next one like it gets what this one would have."""
        if call.recorded is not None:
            call.reached = False
            self.finder.give_back()
            self.state.given_back.add(call.recorded.place)

    def leave(self, now: float) -> None:
        """Take note that the client will send nothing more: what only waits for an order need not."""
        self._schedule.give_way()

    def abandon(self, channel: str) -> None:
        """Take note that the client has left a channel: what was for it goes nowhere."""
        self._schedule.drop(lambda pending: pending.call is None or pending.call.channel != channel)
        self._calls.close_all(channel)

    def note(self, text: str) -> None:
        self._report(Fact("note", self._discreet.remark(text)))

    def overhear(self, text: bytes) -> None:
        """Take in a message of a live server beside the tape: notes do not repeat what it calls a secret."""
        self._discreet.hear(text)

    @property
    def playing(self) -> Deck:
        """Itself; of an `Opening`, the deck that it has chosen."""
        return self

    def is_asking(self, rpc_id: str) -> bool:
        """Return whether a request of ours with this id waits for the client's answer."""
        return rpc_id in self.state.asked

    def next_at(self) -> float | None:
        """Return when something will be due, if nothing arrives before."""
        return None if self._schedule.is_empty else self._schedule.next_at()

    # -- what arrives

    def _request(
        self, message: Message, text: bytes, part: int, parts: list[bytes] | None, channel: str, headers: Headers
    ) -> list[tuple[Call, Found]]:
        own = text if parts is None else parts[part]
        if self._stand_in is not None and self._stood_in(Call(message.rpc_id, channel, None, own, message)):
            return []
        found = self.finder.find(message, text, part, headers)
        recorded = found.recorded
        call = Call(message.rpc_id, channel, recorded, own, message)
        if recorded is None or (self.state.is_older and self._selection.modern_result(recorded) is not None):
            self._miss(call)
            return []
        if recorded.session in self._of_others:
            asked, plays = self._discreet.call(message), self._selection.sessions[0]
            self.note(f"{asked} was answered from session {recorded.session}; this connection plays session {plays}")
        self._note_difference(message, recorded)
        self.state.played += 1
        if self._report_played:
            self._report(Fact("played", "", call))
        if found.bent is not None:
            from .matching import inexact

            self._report(inexact.fact(self._selection, call, found.bent, self._discreet))
        self._calls.begin(call, recorded)
        return [(call, found)]

    def _stood_in(self, call: Call) -> bool:
        answer = self._stand_in(call) if self._stand_in else None
        if answer is None:
            return False
        self.state.played += 1
        self._report(Fact("played", "", call))
        self.state.replies.append(answer)
        return True

    def _note_difference(self, message: Message, recorded: Recorded) -> None:
        if rewrite.may_be_noteworthy(message):
            difference = rewrite.noteworthy(message, self._selection.message(recorded).body.get("params"))
            if difference:
                self.note(difference)

    def _play(self, call: Call, found: Found, now: float) -> None:
        recorded = call.recorded
        assert recorded is not None
        if found.answer is not None:
            call.answers.add(found.answer.place)
            self._schedule.put(Pending(found.answer, call), now, recorded)
        elif found.again and not self._plays_whole(call):
            self._answer_only(call, recorded, now)
        elif not self._cue(recorded.session, recorded.seq, recorded, now, call):
            self._without_answer(call, recorded.seq, now)

    def _plays_whole(self, call: Call) -> bool:
        """Return whether all of an exchange is repeated, and not just its answer."""
        return self._repeat_whole and call.recorded is not None and call.recorded.session in self._selection.sessions

    def _response(self, message: Message, now: float) -> None:
        rpc_id = message.rpc_id or ""
        asked = self.state.asked.pop(rpc_id, None)
        if asked is not None:
            recorded = self._selection.answer(asked)
            difference = recorded and self.finder.different_answer(asked, message, recorded)
            if difference:
                self.note(f"{asked.method} was answered differently than recorded: {difference}")
        elif rpc_id in self.state.taken_back:  # there is one answer at the most, and nothing waits for it
            self.state.taken_back.discard(rpc_id)
            return
        else:
            recorded = self._hearing.stray_answer(message)
            if recorded is None:
                self.note(f"the client answered {message.rpc_id}, which was not asked")
        self._hear(recorded, now)

    def _cancel(self, message: Message, channel: str, now: float) -> None:
        """Drop what was recorded before a cancel, and play what came after it."""
        rpc_id = frames.cancelled(message)
        call = self._calls.get(channel, rpc_id)
        on_tape = self._hearing.cancel(rpc_id, call or self._calls.answered(rpc_id))

        def stays(pending: Pending) -> bool:
            after = on_tape is not None and pending.recorded is not None and pending.recorded.seq > on_tape.seq
            return pending.call is not call or after

        if call is not None:
            self._schedule.drop(stays)
        self._hear(on_tape, now)

    def _malformed(self, text: bytes, channel: str, now: float) -> None:
        """Take in a line that is no message: only the answer to such a line is for it."""
        if not text.strip():
            return
        recorded = self._hearing.malformed(text)
        if recorded is None:
            self.note(f"{_fault_of(text)}; the tape has no such line, and it gets no answer")
            return
        call = Call(frames.id_text(frames.facts(text).get("id")), channel, recorded, text)
        self._cue(recorded.session, recorded.seq, recorded, now, call)

    def _hear(self, recorded: Recorded | None, now: float) -> None:
        """Cue with a message of the client that is on the tape, and no request."""
        if recorded is None:
            return
        self._cue(recorded.session, recorded.seq, recorded, now)
        for call in self._calls.mates(recorded):
            self._without_answer(call, recorded.seq, now)

    # -- what the tape cannot answer

    def _miss(self, call: Call) -> None:
        method, replies = call.message.method or "", self.state.replies
        if method == protocol.INITIALIZE and self._selection.is_modern(self._selection.sessions[0]):
            self.state.is_older = True  # the tape plays as far as the client's revision has words for it
        if method == protocol.PING:
            replies.append(said(call, "result", "{}"))
        elif method == protocol.DISCOVER:
            replies.append(said(call, "error", rewrite.error(protocol.METHOD_NOT_FOUND, "Method not found")))
        elif not self._pass_on(call) and not self._greet(call):
            self._report_miss(call, method)

    def _greet(self, call: Call) -> bool:
        """Answer the handshake of a client that is older than the tape from what that knows."""
        if not self.state.is_older or call.message.method != protocol.INITIALIZE:
            return False
        from . import misses

        self.state.replies.append(said(call, "result", misses.handshake(self._selection, call.message)))
        self.note("the client is older than the tape: initialize is answered from what the tape knows")
        return True

    def _report_miss(self, call: Call, method: str) -> None:
        known = self._selection.knows(method)
        from . import misses  # only now: most replays have none, and start-up counts

        self.state.misses += 1
        taken, plan = self.state.taken, self.finder.plan(call.message)
        report = misses.report(self._selection, taken, call.message, known, plan, self._discreet, call.recorded)
        self._report(Fact("miss", report.text, call, report.advice))
        code = MISS if known else protocol.METHOD_NOT_FOUND
        self.state.replies.append(said(call, "error", rewrite.error(code, report.headline, report.data)))

    def _without_answer(self, call: Call, arrived: int, now: float) -> None:
        """Answer that the tape ends before the answer, if it does, once all that it has of the exchange is out."""
        recorded = call.recorded
        if recorded is None or LAST in call.answers or not self._cues.ends_without_answer(recorded, arrived):
            return
        call.answers.add(LAST)
        self._schedule.put_last(call, now)

    def _unanswered(self, call: Call) -> list[Action]:
        """End a call that was found, and has no answer on the tape: as a miss after all, or as it ended there."""
        recorded = call.recorded
        assert recorded is not None
        if self._ends != "error" and call.reached:
            ending = self._selection.ending(recorded)
            return [Hangup(ending.code or 0, call)] if self._ends == "exit" and ending.by == "server" else []
        from . import misses

        report = misses.unanswered(self._selection, call.message, recorded, self._discreet)
        if call.reached:
            self.state.played -= 1
            self.state.misses += 1
            self._report(Fact("miss", report.text, call, report.advice))
        self._calls.close(call)
        return [said(call, "error", rewrite.error(MISS, report.headline))]

    # -- what goes out

    def _cue(self, session: int, cue: int, arrived: Recorded | None, now: float, call: Call | None = None) -> bool:
        """Play what waited for a client message that has arrived; return whether the call's answer is among it."""
        due, answered = self._cues.due(session, cue, call)
        for pending in due:
            self._schedule.put(pending, now, arrived)
        return answered

    def _answer_only(self, call: Call, recorded: Recorded, now: float) -> None:
        answer = self._selection.answer(recorded)
        if answer is None:
            self._without_answer(call, END, now)
        else:
            self._schedule.put(Pending(self._selection.facts(answer), call), now, recorded)


def _fault_of(text: bytes) -> str:
    """Say why a line of the client is no message."""
    body = frames.facts(text)
    if isinstance(body.get("method"), str):
        return f"the client sent {body['method']} with an id that is neither a string nor a number, which is no request"
    return "the client sent a line that is " + ("no JSON-RPC message" if body else "not JSON")
