"""The playing core: a client's messages in, the recorded server's messages out.

Does no I/O and reads no clock: it returns actions as values and takes the time as an argument.

Theory of operation. *Each server message waits for its cue*, a client message: the last one before it in the same
exchange, or else in the session (`wire/ledger.py` finds it while recording). So no order of client messages can block
another exchange, and a message that is never cued stays unplayed.

Each client message is looked up on the tape, and `RULE` lists the steps that follow:

- A request matches the next one with its key (`finder.py`). Most requests cue only their answer, which the same look-up
  returns. When the recordings of a request are used up, the finder decides by `--repeats` whether a repeat is a miss or
  plays again: its answer or, with `repeat_whole`, its whole exchange.
- A response matches the answer to the server request that went out under its id; otherwise the next recorded response
  with its id that answers no request.
- A cancel matches the next recorded cancel of the same request, open or answered: the client can't know which
  (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation). It counts once for each time
  the call is made. A cancel of an unknown request matches the next such cancel on the tape, one with its id first.
- Any other notification matches the next one of its method; progress, the next one for its token
  (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress).
- A line that is not a message matches the next one with the same content except the id; a line that is not JSON also
  matches any other that is not.

Each cued message belongs to a call, which gives it the live id, token and channel: an answer by its id, progress by its
token, all others to the newest call of the exchange. Messages recorded after an answer wait for that answer. A live
cancel drops the messages recorded before it and plays those after it. A client need not answer a request that the
server has cancelled, so messages that wait for such an answer are due at once. The calls of a batch
(https://modelcontextprotocol.io/specification/2025-03-26/basic) share their cued messages, so all of them are found
before anything plays. A recorded batch is sent as a batch if all of it is due at once, to one channel.

The deck's parts each own their state: `MessageFinder` (client messages already matched), `LiveCalls` (live requests),
`Cues` (messages already cued), `Schedule` (messages due, and when) and `Playback` (sends, and the server's open
requests).
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count, groupby

from ..cassette.lookup.messages import START, Messages, Position, RecordedMessage
from ..light import NamedTuple
from ..redaction.diagnostics import DiagnosticRedactor
from ..wire import frames, jsontext, protocol, rewrite
from ..wire.frames import Message
from .finder import Finder, FoundRequest
from .report import InexactDetails, ReplayEvent
from .selection import Selection
from .sends import MISS, NO_HEADERS, Action, ClientCall, Hangup, Send, Silence, make_answer

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Literal

    from .sends import Headers

    Unanswered = Literal["error", "silent", "exit"]

# (what arrives, its match on the tape) -> the steps to take, in order: methods of the deck, without the underscore.
RULE: dict[tuple[str, str], tuple[str, ...]] = {
    ("request", "its answer, and nothing else"): ("answer",),
    ("request", "its exchange"): ("cue", "end"),
    ("request", "its answer, given before"): ("answer",),
    ("request", "not looked up: a stand-in answers"): ("reply",),
    ("request", "an answer that the client's revision lacks"): ("answer_unrecorded",),
    ("request", "nothing"): ("answer_unrecorded",),
    ("response", "the question and an answer"): ("note", "cue", "end"),
    ("response", "the question alone"): (),
    ("response", "a question that was taken back"): (),
    ("response", "an answer to nothing"): ("cue", "end"),
    ("response", "nothing"): ("note",),
    ("cancel", "a cancel"): ("drop", "cue", "end"),
    ("cancel", "nothing"): ("drop",),
    ("notification", "a notification"): ("cue", "end"),
    ("notification", "nothing"): (),
    ("malformed line", "such a line"): ("cue",),
    ("malformed line", "nothing"): ("note",),
}  # fmt: skip

END = 1 << 62  # after everything recorded
LAST: Position = (END, 0, 0)
GIVE_WAY_AFTER = 2.0  # seconds of waiting for a request that may never come
_REMEMBERED = 256  # answered calls; late messages for a call come soon
_SOON = 10_000  # frames
_FEW = 8  # rows that are cheaper to read again than to cache


class Arrival(NamedTuple):
    """A client message and its match on the tape."""

    what: str
    has: str
    recorded: RecordedMessage | None = None  # the message that it matches
    call: ClientCall | None = None  # the call that it makes
    answer: RecordedMessage | None = None  # if it cues nothing else
    reply: Send | None = None  # from a stand-in
    cancelled: ClientCall | None = None  # the call that it cancels
    remark: str | None = None


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
        report: Callable[[ReplayEvent], None] = lambda fact: None,
        report_played: bool = True,
        of_others: Collection[int] = (),
        pass_on: Callable[[ClientCall], bool] = lambda call: False,
        stand_in: Callable[[ClientCall], Send | None] | None = None,
        discreet: DiagnosticRedactor | None = None,
    ) -> None:
        """`of_others`: sessions that belong to other connections. `unanswered`: see `_end_unanswered`."""
        self.selection = self._selection = selection
        self.finder = finder
        self.played = self.misses = 0  # requests
        self.is_older = False  # the client is older than the tape: it got a legacy handshake
        self._unanswered = unanswered
        self._repeat_whole = repeat_whole
        self._report = report
        self._report_played = report_played
        self._of_others = of_others
        self._pass_on = pass_on
        self._stand_in = stand_in
        self._discreet = discreet or DiagnosticRedactor()
        self._replies: list[Action] = []  # our own answers, and those of stand-ins
        self._hearing = MessageFinder(selection)
        self._calls = LiveCalls(selection)
        self._cues = Cues(selection, self._calls)
        self._schedule = Schedule(selection, self.note, speed, in_recorded_order)
        self._playback = Playback(selection)
        self._steps = {row: [getattr(self, f"_{step}") for step in steps] for row, steps in RULE.items()}
        finder.listen(self._has_come, self.note)
        self._play_cued(selection.sessions[0], 0, None, 0.0)

    # -- what arrives

    def receive(
        self,
        text: bytes,
        channel: str,
        now: float,
        parsed: frames.Parsed | None = None,
        headers: Headers = NO_HEADERS,
    ) -> None:
        """Receive a client frame; `parsed` if it is parsed already. `headers` returns the MCP headers, over HTTP."""
        self._discreet.hear(text)
        kind, messages = parsed or frames.parse(text)
        if not messages:
            if text.strip():
                self._follow_rule(self._look_up_malformed(text, channel), now)
            return
        texts = rewrite.elements(text) if kind == "batch" else (text,)
        requests = []
        for part, message in enumerate(messages):
            if message.kind == "request":
                requests.append(self._look_up_request(message, text, part, texts[part], channel, headers))
        for request in requests:
            self._follow_rule(request, now)
        for message in messages if len(requests) < len(messages) else ():
            if message.kind == "response":
                self._follow_rule(self._look_up_response(message), now)
            elif message.kind == "notification":
                is_cancel = message.method == protocol.CANCELLED
                self._follow_rule(
                    self._look_up_cancel(message, channel) if is_cancel else self._look_up_notification(message), now
                )

    def _follow_rule(self, arrival: Arrival, now: float) -> None:
        for step in self._steps[arrival[:2]]:
            step(arrival, now)

    def _look_up_request(
        self, message: Message, text: bytes, part: int, own: bytes, channel: str, headers: Headers
    ) -> Arrival:
        if self._stand_in is not None:
            call = ClientCall(message.rpc_id, channel, None, own, message)
            answer = self._stand_in(call)
            if answer is not None:
                return Arrival("request", "not looked up: a stand-in answers", call=call, reply=answer)
        found = self.finder.find(message, text, part, headers)
        recorded = found.recorded
        call = ClientCall(message.rpc_id, channel, recorded, own, message)
        if recorded is None:
            return Arrival("request", "nothing", None, call)
        if self.is_older and self._selection.modern_result(recorded) is not None:
            return Arrival("request", "an answer that the client's revision lacks", None, call)
        self._report_match(call, recorded, found)
        is_whole = self._repeat_whole and recorded.session in self._selection.sessions
        if found.answer is not None:
            has = "its answer, and nothing else"
        elif found.again and not is_whole:
            has = "its answer, given before"
        else:
            has = "its exchange"
        if found.plays_anew or (found.again and is_whole):
            self._cues.forget(recorded)  # so that all of it plays again
        self._calls.begin(call, recorded, is_alone=found.answer is not None and not self._schedule.delays)
        return frames.new(Arrival, ("request", has, recorded, call, found.answer, None, None, None))

    def _report_match(self, call: ClientCall, recorded: RecordedMessage, found: FoundRequest) -> None:
        """Report a matched request."""
        message = call.message
        if recorded.session in self._of_others:
            asked, plays = self._discreet.call(message), self._selection.sessions[0]
            self.note(f"{asked} was answered from session {recorded.session}; this connection plays session {plays}")
        params = message.body.get("params")
        if message.method == protocol.INITIALIZE or (type(params) is dict and "inputResponses" in params):
            then = self._selection.message(recorded).body.get("params")
            if difference := rewrite.describe_ignored_difference(message, then):
                self.note(difference)
        self.played += 1
        if self._report_played:
            self._report(ReplayEvent("played", "", call))
        if found.bent is not None:
            from .misses import describe_inexact

            text, differing = describe_inexact(self._selection, call, found.bent, self._discreet)
            self._report(ReplayEvent("inexact", text, call, inexact=InexactDetails(*found.bent, differing)))

    def _look_up_response(self, message: Message) -> Arrival:
        rpc_id = message.rpc_id or ""
        asked = self._playback.take_question(rpc_id)
        if asked is not None:
            recorded = self._selection.answer(asked)
            if recorded is None:
                return Arrival("response", "the question alone")
            different = self.finder.different_answer(asked, message, recorded)
            remark = f"{asked.method} was answered differently than recorded: {different}" if different else None
            return Arrival("response", "the question and an answer", recorded, remark=remark)
        if self._playback.was_taken_back(rpc_id):
            return Arrival("response", "a question that was taken back")
        recorded = self._hearing.find_stray_answer(message)
        if recorded is not None:
            return Arrival("response", "an answer to nothing", recorded)
        return Arrival("response", "nothing", remark=f"the client answered {message.rpc_id}, which was not asked")

    def _look_up_cancel(self, message: Message, channel: str) -> Arrival:
        rpc_id = frames.cancelled_request_id(message)
        call = self._calls.get(channel, rpc_id)
        recorded = self._hearing.find_cancel(rpc_id, call or self._calls.answered_call(rpc_id))
        return Arrival("cancel", "nothing" if recorded is None else "a cancel", recorded, cancelled=call)

    def _look_up_notification(self, message: Message) -> Arrival:
        recorded = self._hearing.find_notification(message)
        return Arrival("notification", "nothing" if recorded is None else "a notification", recorded)

    def _look_up_malformed(self, text: bytes, channel: str) -> Arrival:
        recorded = self._hearing.find_malformed(text)
        if recorded is None:
            remark = f"{_fault_of(text)}; the tape has no such line, and it gets no answer"
            return Arrival("malformed line", "nothing", remark=remark)
        rpc_id = frames.id_text(frames.facts(text).get("id"))
        call = ClientCall(rpc_id, channel, recorded, text, Message("noise", None, rpc_id, None, None, {}))
        return Arrival("malformed line", "such a line", recorded, call)

    # -- what happens: the steps of RULE

    def _answer(self, arrival: Arrival, now: float) -> None:
        """Play the answer alone."""
        recorded, call, answer = arrival.recorded, arrival.call, arrival.answer
        assert recorded is not None and call is not None
        if answer is None:  # found again: this look-up did not return it
            answer = self._selection.answer(recorded)
            if answer is None:
                self._end_call(call, END, now)
                return
            answer = self._selection.facts(answer)
        call.answers.add(answer[:3])
        self._schedule.put(frames.new(PendingMessage, (answer, call)), now, recorded)

    def _cue(self, arrival: Arrival, now: float) -> None:
        """Play the messages that this one cues."""
        recorded = arrival.recorded
        assert recorded is not None
        self._play_cued(recorded.session, recorded.seq, recorded, now, arrival.call)

    def _end(self, arrival: Arrival, now: float) -> None:
        """End the calls without a recorded answer, if this was the last message that they waited for."""
        recorded = arrival.recorded
        assert recorded is not None
        for call in [arrival.call] if arrival.call else self._calls.mates(recorded):
            self._end_call(call, recorded.seq, now)

    def _drop(self, arrival: Arrival, now: float) -> None:
        """Drop unsent messages of the call that were recorded before the cancel."""
        call, cancel = arrival.cancelled, arrival.recorded
        if call is not None:
            after = END if cancel is None else cancel.seq
            self._schedule.drop(lambda one: one.call is call and (one.recorded is None or one.recorded.seq <= after))

    def _note(self, arrival: Arrival, now: float) -> None:
        if arrival.remark:
            self.note(arrival.remark)

    def _reply(self, arrival: Arrival, now: float) -> None:
        """Let a stand-in answer."""
        assert arrival.reply is not None
        self.played += 1
        self._report(ReplayEvent("played", "", arrival.call))
        self._replies.append(arrival.reply)

    def _answer_unrecorded(self, arrival: Arrival, now: float) -> None:
        """Answer by rule, from the live server or with facts from the tape; otherwise it is a miss."""
        call, replies = arrival.call, self._replies
        assert call is not None
        method = call.message.method or ""
        if method == protocol.INITIALIZE and self._selection.is_modern(self._selection.sessions[0]):
            self.is_older = True  # the tape plays as far as the client's revision allows
        if method == protocol.PING:
            replies.append(make_answer(call, "result", "{}"))
        elif method == protocol.DISCOVER:
            replies.append(make_answer(call, "error", rewrite.error(protocol.METHOD_NOT_FOUND, "Method not found")))
        elif not self._pass_on(call) and not self._greet(call):
            self._miss(call)

    # -- requests that the tape cannot answer

    def _greet(self, call: ClientCall) -> bool:
        """Answer the handshake of a client that is older than the tape with facts from the tape."""
        if not self.is_older or call.message.method != protocol.INITIALIZE:
            return False
        from . import misses

        self._replies.append(make_answer(call, "result", misses.legacy_handshake(self._selection, call.message)))
        self.note("the client is older than the tape: initialize is answered with facts from the tape")
        return True

    def _miss(self, call: ClientCall) -> None:
        """Answer with an error that names the nearest recordings."""
        from . import misses  # imported late for a fast start: most replays have no miss

        known = self._selection.has_method(call.message.method or "")
        self.misses += 1
        taken, plan = self.finder.taken, self.finder.plan(call.message)
        why = self.finder.contradiction
        report = misses.report_miss(
            self._selection, taken, call.message, known, plan, why, self._discreet, call.recorded
        )
        self._report(ReplayEvent("miss", report.text, call, report.advice))
        code = MISS if known else protocol.METHOD_NOT_FOUND
        self._replies.append(make_answer(call, "error", rewrite.error(code, report.headline, report.data)))

    def _end_call(self, call: ClientCall, arrived: int, now: float) -> None:
        """End a call without a recorded answer, once the rest of its exchange is sent."""
        recorded = call.recorded
        if recorded is not None and not call.answers and self._cues.ends_without_answer(recorded, arrived):
            call.answers.add(LAST)
            self._schedule.put_last(call, now)

    def _end_unanswered(self, call: ClientCall) -> list[Action]:
        """End a matched call without a recorded answer: as a miss, or the way it ended in the recording."""
        recorded = call.recorded
        assert recorded is not None
        if self._unanswered != "error" and call.reached:
            ending = self._selection.ending(recorded)
            has_ended = self._unanswered == "exit" and ending.by == "server"
            return [Hangup(ending.code or 0, call) if has_ended else Silence(call)]
        from . import misses

        report = misses.report_unanswered(self._selection, call.message, recorded, self._discreet)
        if call.reached:
            self.played -= 1
            self.misses += 1
            self._report(ReplayEvent("miss", report.text, call, report.advice))
        self._calls.close(call)
        return [make_answer(call, "error", rewrite.error(MISS, report.headline))]

    # -- what goes out

    def due(self, now: float) -> Sequence[Action]:
        """Return the actions due now. Call this after every frame, so that answers never depend on frame timing."""
        return self.join_batches(self.due_one_by_one(now))

    def join_batches(self, actions: Sequence[Action]) -> Sequence[Action]:
        """Reassemble batches among the actions due now."""
        return self._playback.join_batches(actions) if self._playback.has_batches else actions

    def due_one_by_one(self, now: float) -> list[Action]:
        """Return the actions due now, with the messages of a batch one by one."""
        actions, self._replies = self._replies, []
        playback, ladder = self._playback, self.finder.ladder
        while True:
            ready = self._schedule.take(now)
            for recorded, call in ready:
                if call is not None and call.behind and (recorded is None or recorded.kind == "response"):
                    behind, call.behind = call.behind, ()
                    ready += [PendingMessage(row, call) for row in behind]  # this loop reaches them, too
            if len(ready) > 1:
                ready.sort(key=_place)
            for recorded, call in ready:
                if recorded is None:
                    assert call is not None
                    actions += self._end_unanswered(call)
                elif send := playback.make_send(recorded, call):
                    actions.append(send.fit_text(ladder.put_back) if ladder and ladder.put_back else send)
                    if send.answers and call is not None:
                        self._calls.close(call)
            if not playback.withdrawn:
                return actions
            while playback.withdrawn:
                answer = self._selection.answer(playback.withdrawn.pop(0))
                if answer is not None:  # the client need not answer any more
                    self._follow_rule(Arrival("response", "the question and an answer", answer), now)

    def _play_cued(
        self, session: int, cue: int, arrived: RecordedMessage | None, now: float, call: ClientCall | None = None
    ) -> None:
        """Schedule all messages that waited for a client message, which has arrived."""
        for pending in self._cues.due(session, cue, call, is_unasked=self.is_older):
            self._schedule.put(pending, now, arrived)

    def _has_come(self, change: RecordedMessage) -> bool:
        """Return whether a change notification has been sent."""
        return self._cues.has_come(change) and not self._schedule.waits_for(change)

    def next_at(self) -> float | None:
        """Return when the next action is due, if nothing arrives before."""
        return self._schedule.next_at() if self._schedule.delays else None

    # -- other news from the transport

    def give_back(self, call: ClientCall) -> None:
        """Give back the turn of a call that never reached the server: the next equal call gets its answer."""
        if call.recorded is not None:
            call.reached = False
            self.finder.give_back(call.recorded)

    def leave(self, now: float) -> None:
        """Note that the client will send nothing more: stop holding answers back for the recorded order."""
        self._schedule.give_way()

    def abandon(self, channel: str) -> None:
        """Note that the client has left a channel: drop the messages for it."""
        self._schedule.drop(lambda pending: pending.call is not None and pending.call.channel == channel)
        self._calls.close_all(channel)

    def note(self, text: str) -> None:
        self._report(ReplayEvent("note", self._discreet.remark(text)))

    @property
    def taken(self) -> set[Position]:
        """The recorded requests that were played."""
        return self.finder.taken

    @property
    def given_back(self) -> set[Position]:
        """The recorded requests whose calls never reached the server."""
        return self.finder.given_back

    @property
    def playing(self) -> Deck:
        """This deck; an `Opening` returns the deck that it has chosen."""
        return self

    def is_asking(self, rpc_id: str) -> bool:
        """Return whether a server request with this id waits for the client's answer."""
        return self._playback.is_asking(rpc_id)


def _fault_of(text: bytes) -> str:
    """Describe why a client line is not a message."""
    body = frames.facts(text)
    if isinstance(body.get("method"), str):
        return f"the client sent {body['method']} with an id that is neither a string nor a number: not a request"
    return "the client sent a line that is " + ("not a JSON-RPC message" if body else "not JSON")


def _place(pending: PendingMessage) -> Position:
    return pending.place


class PendingMessage(NamedTuple):
    """A recorded message that is due now or later. `recorded` is None for an answer that the recording lacks."""

    recorded: RecordedMessage | None
    call: ClientCall | None

    @property
    def place(self) -> Position:
        return self.recorded.place if self.recorded else LAST


# Client messages other than requests: each recorded one matches once -------------------------------------

_ByName = dict[str | None, deque[RecordedMessage]]  # by id or token
_Words = tuple[str, bytes]  # of a malformed line: "JSON" or "text", and the content


class MessageFinder:
    """Finds the recorded message that a client message matches. Requests have keys instead: see `finder.py`."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._heard: dict[str, Position] = {}  # per method, the last matched notification
        # Not matched yet; None: not read from the tape yet.
        self._progress: _ByName | None = None
        self._strays: _ByName | None = None  # answers without a request
        self._lines: list[tuple[_Words, RecordedMessage]] | None = None  # malformed
        self._cancels: dict[str | None, list[RecordedMessage]] | None = None
        self._late_cancels: dict[Position, str | None] = {}  # of requests that were not open

    def find_notification(self, message: Message) -> RecordedMessage | None:
        """Return the recorded notification that a live one matches. Cancels have their own method."""
        if message.method == protocol.PROGRESS:
            if self._progress is None:
                rows = self._notifications(protocol.PROGRESS)
                self._progress = _index_by_name(rows, lambda row: frames.progress_token(self._selection.message(row)))
            return _take_first(self._progress.get(frames.progress_token(message)))
        for method in protocol.notification_names(message.method or ""):
            found = self._selection.next_notification(method, self._heard.get(method, START))
            if found is not None:
                self._heard[method] = found.place
                return found
        return None

    def find_stray_answer(self, message: Message) -> RecordedMessage | None:
        """Return the recorded answer that a live answer without a request matches."""
        if self._strays is None:
            sessions = self._selection.sessions
            rows = (row for session in sessions for row in self._selection.stray_answers(session))
            self._strays = _index_by_name(rows, lambda row: row.rpc_id)
        return _take_first(self._strays.get(message.rpc_id))

    def find_malformed(self, text: bytes) -> RecordedMessage | None:
        """Return the recorded malformed line with the same content except the id, or any non-JSON line for another."""
        if self._lines is None:
            sessions = self._selection.sessions
            rows = (row for session in sessions for row in self._selection.malformed_lines(session))
            self._lines = [(_words(self._selection.text(row)), row) for row in rows]
        words, left = _words(text), self._lines
        found = next((one for one in left if one[0] == words), None)
        if found is None and words[0] == "text":
            found = next((one for one in left if one[0][0] == "text"), None)
        if found is None:
            return None
        left.remove(found)
        return found[1]

    def find_cancel(self, rpc_id: str | None, call: ClientCall | None) -> RecordedMessage | None:
        """Return the recorded cancel that a live one matches: of a call, or of an id without a call."""
        cancels = self._cancels
        if cancels is None:
            cancels = self._cancels = self._read_cancels()
        if call is None or call.recorded is None:
            return self._find_cancel_without_call(rpc_id)
        recorded = call.recorded
        rows = [row for row in cancels.get(recorded.rpc_id, ()) if _may_cancel(row, recorded)]
        found = rows[call.cancels] if call.cancels < len(rows) else None
        call.cancels += 1
        if found is not None:
            self._late_cancels.pop(found.place, None)
        return found

    def _find_cancel_without_call(self, rpc_id: str | None) -> RecordedMessage | None:
        late = self._late_cancels
        same = (place for place, named in late.items() if named == rpc_id)
        place = next(same, None) or next(iter(late), None)
        if place is None:
            return None
        del late[place]
        return self._selection.at(place)

    def _read_cancels(self) -> dict[str | None, list[RecordedMessage]]:
        cancels: dict[str | None, list[RecordedMessage]] = {}
        for row in self._notifications(protocol.CANCELLED):
            named = frames.cancelled_request_id(self._selection.message(row))
            cancels.setdefault(named, []).append(row)
            if row.exchange is None:
                self._late_cancels[row.place] = named
        return cancels

    def _notifications(self, method: str) -> Iterator[RecordedMessage]:
        last, row = None, self._selection.next_notification(method, START)
        # An untrusted cassette may loop: stop when the place does not advance.
        while row is not None and (last is None or row.session != last.session or row.place > last.place):
            yield row
            last, row = row, self._selection.next_notification(method, row.place)


def _may_cancel(row: RecordedMessage, request: RecordedMessage) -> bool:
    """Return whether a cancel that names the id of a request cancels this request."""
    if row.exchange is not None:
        return (row.session, row.exchange) == (request.session, request.seq)
    return row.session == request.session and row.seq > request.seq


def _words(text: bytes) -> _Words:
    """The content of a malformed line: its JSON value without the id, or else its text."""
    try:
        value = jsontext.loads(text)
    except (ValueError, RecursionError):
        return "text", text.strip()
    if isinstance(value, dict):
        value.pop("id", None)
    return "JSON", jsontext.canonical_bytes(value)


def _index_by_name(rows: Iterable[RecordedMessage], name: Callable[[RecordedMessage], str | None]) -> _ByName:
    found: _ByName = {}
    for row in rows:
        found.setdefault(name(row), deque()).append(row)
    return found


def _take_first(rows: deque[RecordedMessage] | None) -> RecordedMessage | None:
    return rows.popleft() if rows else None


# The live requests, and the recorded ones that they match ------------------------------------------------

_Alike = dict[ClientCall, None]  # in order of arrival


class BatchCalls:
    """The calls recorded in one frame, as in a batch. Look-ups take constant time, however many calls there are."""

    def __init__(self) -> None:
        self.calls: _Alike = {}
        self._by_id: dict[str | None, _Alike] = {}
        self._by_token: dict[str | None, _Alike] = {}
        self._tokens: dict[ClientCall, str | None] = {}
        self._unread: list[ClientCall] = []  # whose token was not needed yet

    def add(self, call: ClientCall, rpc_id: str | None) -> None:
        self.calls[call] = None
        self._by_id.setdefault(rpc_id, {})[call] = None
        self._unread.append(call)

    def remove(self, call: ClientCall, rpc_id: str | None) -> None:
        self.calls.pop(call, None)
        self._by_id.get(rpc_id, {}).pop(call, None)
        self._by_token.get(self._tokens.pop(call, None), {}).pop(call, None)

    def newest(self) -> ClientCall | None:
        return _newest(self.calls)

    def with_id(self, rpc_id: str | None) -> ClientCall | None:
        """The newest call with a recorded id."""
        return _newest(self._by_id.get(rpc_id, {}))

    def with_token(self, token: str | None, token_of: Callable[[ClientCall], str | None]) -> ClientCall | None:
        """The newest call whose recorded request asked for progress under a token."""
        for call in self._unread:
            if call in self.calls:
                self._tokens[call] = own = token_of(call)
                self._by_token.setdefault(own, {})[call] = None
        self._unread.clear()
        return _newest(self._by_token.get(token, {}))


class LiveCalls:
    """The open and recently answered live requests, and the recorded exchange of each."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        # Indexed by channel and id, for client messages, and by recorded request, for recorded messages.
        self._live: dict[tuple[str, str], ClientCall] = {}  # not answered yet
        self._recorded: dict[tuple[int, int], BatchCalls] = {}  # of a batch, several share a seq
        # Answered, but a call may still be cancelled, or get another message.
        self._past: dict[Position, ClientCall] = {}  # by recorded place, newest last

    def begin(self, call: ClientCall, recorded: RecordedMessage, *, is_alone: bool) -> None:
        """`is_alone`: the call gets nothing but its answer, and gets that at once."""
        self._live[call.channel, call.rpc_id] = call
        if is_alone:
            return
        place = recorded[:2]
        if place not in self._recorded:
            self._recorded[place] = BatchCalls()
        self._recorded[place].add(call, recorded.rpc_id)

    def close(self, call: ClientCall) -> None:
        """Close an answered call: nothing of its exchange follows."""
        at, recorded, past = (call.channel, call.rpc_id), call.recorded, self._past
        if self._live.get(at) is call:  # a client may use an id again
            del self._live[at]
        if recorded is None:
            return
        place = recorded[:3]
        past.pop(place, None)
        past[place] = call
        if len(past) > 2 * _REMEMBERED:  # rarely: finding the first key of a dict is slow after many removals
            self._past = dict(list(past.items())[_REMEMBERED:])
        together = self._recorded.get(recorded[:2]) if self._recorded else None
        if together is not None:
            together.remove(call, recorded.rpc_id)
            if not together.calls:
                del self._recorded[recorded[:2]]

    def close_all(self, channel: str) -> None:
        """Close the calls of a channel that the client has left: they get no more messages."""
        for call in [call for (own, _), call in self._live.items() if own == channel]:
            self.close(call)
            if call.recorded is not None:
                self._past.pop(call.recorded.place, None)

    def is_open(self, call: ClientCall) -> bool:
        """Return whether a call is not answered yet."""
        return self._live.get((call.channel, call.rpc_id)) is call

    def get(self, channel: str, rpc_id: str | None) -> ClientCall | None:
        """The call with an id: on the same channel, else the newest. Over HTTP each message has its own channel."""
        live = self._live
        same = live.get((channel, rpc_id or ""))
        return same or next((call for call in reversed(live.values()) if call.rpc_id == rpc_id), None)

    def answered_call(self, rpc_id: str | None) -> ClientCall | None:
        """The newest answered call with an id."""
        return next((call for call in reversed(self._past.values()) if call.rpc_id == rpc_id), None)

    def owner(self, row: RecordedMessage) -> ClientCall | None:
        """The call whose exchange a recorded message belongs to."""
        together = self._recorded.get((row.session, row.exchange or 0))
        if together is None:  # the server may cancel its own request after it has answered the call
            past = reversed(self._past.values())
            return next((call for call in past if call.is_of(row.session, row.exchange or 0)), None)
        if row.kind == "response" and row.cue is not None:
            return together.with_id(row.rpc_id)
        if len(together.calls) > 1 and row.kind == "noise":
            return together.with_id(self._selection.broken_id(row)) or together.newest()
        if len(together.calls) > 1 and row.method == protocol.PROGRESS:
            token = frames.progress_token(self._selection.message(row))
            return together.with_token(token, self._recorded_token) or together.newest()
        return together.newest()

    def of_request(self, request: RecordedMessage) -> ClientCall | None:
        """The call that a recorded request was made with, answered or not."""
        together = self._recorded.get((request.session, request.seq))
        return (together and together.with_id(request.rpc_id)) or self._past.get(request.place)

    def mates(self, row: RecordedMessage) -> list[ClientCall]:
        """All calls whose exchange a recorded message may belong to: the calls of a batch share one."""
        together = self._recorded.get((row.session, row.exchange or 0))
        return list(together.calls) if together else []

    def request_of_late_answer(self, row: RecordedMessage) -> RecordedMessage | None:
        """The earlier request that a second answer belongs to."""
        if row.kind != "response" or row.rpc_id is None:
            return None
        return self._selection.request_before(row.session, row.seq, _SOON, row.rpc_id)

    def _recorded_token(self, call: ClientCall) -> str | None:
        assert call.recorded is not None
        return frames.requested_token(self._selection.message(call.recorded))


def _newest(calls: _Alike) -> ClientCall | None:
    return next(reversed(calls), None)


# The messages that each client message cues, and which of them were sent --------------------------------


class _CuedMessages:
    """The messages that one client message cues: the answers to its own requests, by id, and others."""

    def __init__(self, rows: list[RecordedMessage], cue: int) -> None:
        self.answers: dict[str | None, list[RecordedMessage]] = {}
        self.others: list[RecordedMessage] = []
        self.left: list[RecordedMessage] = []  # others that were not sent in this round
        self.round = -1
        for row in rows:
            if row.kind == "response" and row.exchange == cue:
                self.answers.setdefault(row.rpc_id, []).append(row)
            else:
                self.others.append(row)


class _Ending(NamedTuple):
    """The last client message that an exchange waits for, and its cancels, by id."""

    last: int
    cancels: dict[str | None, list[RecordedMessage]]


class Cues:
    """Finds the messages that each client message cues."""

    def __init__(self, selection: Selection, calls: LiveCalls) -> None:
        self._selection = selection
        self._calls = calls
        # Sent messages other than answers, by exchange: if their cue comes again, they are not sent again.
        self._once: dict[tuple[int, int | None], set[Position]] = {}
        self._come: set[Position] = set()  # change notifications
        self._round = 0  # rises when an exchange plays once more

    def has_come(self, change: RecordedMessage) -> bool:
        return change.place in self._come

    def due(self, session: int, cue: int, call: ClientCall | None, *, is_unasked: bool) -> list[PendingMessage]:
        """Return the messages that a client message cues. `is_unasked`: send changes without a subscription, too."""
        cued = self._read_cued(session, cue)
        due = self._own_answers(cued, call) if call is not None and call.is_of(session, cue) else []
        left = []
        is_malformed = call is not None and call.recorded is not None and call.recorded.kind == "noise"
        for row in cued.left:
            if is_malformed and row.kind == "response":
                due.append(PendingMessage(row, call))
                continue
            if row.method in protocol.CHANGES:
                self._come.add(row.place)  # even if the client did not subscribe
            named = row if row.exchange is not None else self._calls.request_of_late_answer(row)
            owner = self._owner(row, named)
            if named is not None and owner is None and not (is_unasked and row.method in protocol.CHANGES):
                left.append(row)  # of an exchange that this client has not begun
            elif named is not row and self._waits_for_answer(owner):
                assert owner is not None
                owner.behind += (row,) if self._is_new(row, owner) else ()
            elif self._is_new(row, owner):
                due.append(PendingMessage(row, owner))
        cued.left = left
        return due

    def _owner(self, row: RecordedMessage, named: RecordedMessage | None) -> ClientCall | None:
        if named is None:
            return None
        return self._calls.owner(row) if named is row else self._calls.of_request(named)

    def _waits_for_answer(self, call: ClientCall | None) -> bool:
        """Return whether an open call has no answer sent or due, except those held behind its answer."""
        if call is None or not self._calls.is_open(call):
            return False
        return call.answers <= {row.place for row in call.behind}

    def forget(self, recorded: RecordedMessage) -> None:
        """Let the whole exchange of a request play once more."""
        self._once.pop((recorded.session, recorded.seq), None)
        self._round += 1

    def ends_without_answer(self, recorded: RecordedMessage, arrived: int) -> bool:
        """Return whether the tape has no answer, and the client's last message of the exchange has arrived."""
        if recorded.method == protocol.LISTEN or self._selection.answer(recorded) is not None:
            return False
        ending = self._ending(recorded)
        if ending.cancels.get(recorded.rpc_id) or self._selection.was_left(recorded):
            return False
        return arrived >= ending.last

    def _own_answers(self, cued: _CuedMessages, call: ClientCall) -> list[PendingMessage]:
        """The answers to a call; other calls of its batch get their own. A call made twice is answered twice."""
        assert call.recorded is not None
        rows = cued.answers.get(call.recorded.rpc_id, ())
        return [PendingMessage(row, call) for row in rows if self._owns(call, row) and self._is_new(row, call)]

    def _owns(self, call: ClientCall, row: RecordedMessage) -> bool:
        owner = self._calls.owner(row)
        return owner is call or (owner is not None and owner.recorded == call.recorded)

    def _is_new(self, row: RecordedMessage, owner: ClientCall | None) -> bool:
        """Return whether a message was not sent before (an answer: to this call), and mark it as sent."""
        if owner is not None and row.kind == "response":
            gone = owner.answers
        else:
            gone = self._once.setdefault((row.session, row.exchange), set())
        if row.place in gone:
            return False
        gone.add(row.place)
        return True

    def _read_cued(self, session: int, cue: int) -> _CuedMessages:
        key = self, session, cue
        cued: _CuedMessages | None = self._selection.cache.get(key)
        if cued is None:
            rows = self._selection.cued_messages(session, cue)
            cued = _CuedMessages(rows, cue)
            if len(rows) > _FEW:
                self._selection.cache.put(key, cued)
        if cued.round != self._round:
            cued.left, cued.round = cued.others, self._round
        return cued

    def _ending(self, recorded: RecordedMessage) -> _Ending:
        key = _Ending, recorded.session, recorded.seq
        ending: _Ending | None = self._selection.cache.get(key)
        if ending is None:
            rows = self._selection.of_exchange(recorded)
            ending = _Ending(max((_owed_seq(row) for row in rows), default=0), {})
            for row in rows:  # the calls of a batch share their exchange
                if row.sender == "client" and row.method == protocol.CANCELLED:
                    ending.cancels.setdefault(frames.cancelled_request_id(self._selection.message(row)), []).append(row)
            if len(rows) > _FEW:
                self._selection.cache.put(key, ending)
        return ending


def _owed_seq(row: RecordedMessage) -> int:
    """The client message that an exchange needs for a row: the row itself if it is an answer, or the row's cue."""
    if row.cue is not None:
        return row.cue
    return row.seq if row.kind == "response" else 0


# When messages are sent --------------------------------------------------------------------------------


class Schedule:
    """Sends due messages at once, after the recorded delay, or in the recorded order of concurrent calls.

    In recorded order, an answer is held back until the answers before it are sent, or for `GIVE_WAY_AFTER`.
    """

    def __init__(
        self, selection: Selection, note: Callable[[str], None], speed: float, in_recorded_order: bool
    ) -> None:
        self.delays = bool(speed) or in_recorded_order
        self._selection = selection
        self._note = note
        self._speed = speed
        self._is_ordered = in_recorded_order
        self._numbers = count()  # breaks ties, so that the heap never compares messages
        self._ready: list[PendingMessage] = []
        self._later: list[tuple[float, Position, int, PendingMessage]] = []  # a heap
        self._held: list[tuple[float, PendingMessage]] = []  # held back for the recorded order, since when
        self._out: set[Position] = set()  # sent answers, for the recorded order
        self._passed: dict[int, tuple[int, int]] = {}  # by session, a range of the tape whose answers are all sent

    def put(self, pending: PendingMessage, now: float, cue: RecordedMessage | None) -> None:
        """Schedule a message whose cue has arrived now."""
        recorded = pending.recorded
        if not self._speed or recorded is None:
            self._ready.append(pending)
            return
        since = (self._selection.facts(cue).at or 0) if cue else 0
        due = now + max(0, (recorded.at or 0) - since) / 1e6 / self._speed
        if pending.call is not None:
            pending.call.until = max(due, pending.call.until)
        self._put_later(due, pending)

    def put_last(self, call: ClientCall, now: float) -> None:
        """Schedule the end of a call without a recorded answer, after all its other messages."""
        if call.until < now:
            self._ready.append(PendingMessage(None, call))
        else:
            self._put_later(call.until, PendingMessage(None, call))

    def _put_later(self, due: float, pending: PendingMessage) -> None:
        heapq.heappush(self._later, (due, pending.place, next(self._numbers), pending))

    def take(self, now: float) -> list[PendingMessage]:
        ready, self._ready = self._ready, []
        if not self.delays:
            return ready
        while self._later and self._later[0][0] <= now:
            ready.append(heapq.heappop(self._later)[-1])
        return self._release_in_order(ready, now) if self._is_ordered else ready

    def drop(self, goes: Callable[[PendingMessage], bool]) -> None:
        self._ready = [pending for pending in self._ready if not goes(pending)]
        self._later = [item for item in self._later if not goes(item[-1])]
        heapq.heapify(self._later)
        self._held = [(since, pending) for since, pending in self._held if not goes(pending)]

    def next_at(self) -> float | None:
        """When the next message is sent, if nothing arrives before."""
        if not self._later and not self._held:
            return None
        times = [item[0] for item in self._later[:1]]
        return min([*times, *(since + GIVE_WAY_AFTER for since, _ in self._held)], default=None)

    def give_way(self) -> None:
        """Stop holding messages back: the awaited answers will not come."""
        self._held = [(float("-inf"), pending) for _, pending in self._held]

    def waits_for(self, recorded: RecordedMessage) -> bool:
        """Return whether a message is scheduled for later."""
        return any(pending.place == recorded.place for *_, pending in self._later)

    def _release_in_order(self, ready: list[PendingMessage], now: float) -> list[PendingMessage]:
        held = sorted([*self._held, *((now, pending) for pending in ready)], key=lambda item: item[1].place)
        self._held, out = [], []
        for since, pending in held:
            missing = self._missing_before(pending)
            if missing and now < since + GIVE_WAY_AFTER:
                self._held.append((since, pending))
                continue
            if missing:
                self._note(f"the recorded order waited in vain for {missing} and gave way")
            out.append(pending)
            if pending.recorded is not None and pending.recorded.kind == "response":
                self._out.add(pending.recorded.place)
        return out

    def _missing_before(self, pending: PendingMessage) -> str | None:
        recorded, call = pending
        if recorded is None or recorded.kind != "response" or call is None or call.recorded is None:
            return None
        session, first = call.recorded[:2]
        start, end = self._passed.get(session, (first, first))
        start, end = (start, end) if start <= first <= end else (first, first)
        for row in self._selection.answers_between(session, end, recorded.seq):
            if row.place not in self._out:
                return f"the answer to request {row.rpc_id}"
        self._passed[session] = start, max(end, recorded.seq - 1)
        return None


# Recorded messages made into sends ----------------------------------------------------------------------


class Playback:
    """Makes sends from recorded messages. The server's own requests ("questions") get ids that are free."""

    def __init__(self, tape: Messages) -> None:
        self._tape = tape
        self._asked: dict[str, RecordedMessage] = {}  # questions in flight, by live id
        self._taken_back: set[str] = set()  # live ids of questions that the server has cancelled
        self.withdrawn: list[RecordedMessage] = []  # questions cancelled just now
        self.has_batches = False  # a message of a recorded batch was sent

    def is_asking(self, rpc_id: str) -> bool:
        """Return whether a question with this id waits for the client's answer."""
        return rpc_id in self._asked

    def take_question(self, rpc_id: str) -> RecordedMessage | None:
        """Remove and return the question with this id."""
        return self._asked.pop(rpc_id, None)

    def was_taken_back(self, rpc_id: str) -> bool:
        """Return whether an answer is to a cancelled question. A question is answered at most once."""
        was = rpc_id in self._taken_back
        self._taken_back.discard(rpc_id)
        return was

    def join_batches(self, actions: Sequence[Action]) -> Sequence[Action]:
        """Reassemble each batch whose messages all go out at once, to one channel."""
        return [done for _, together in groupby(actions, _batch_of) for done in self._join_batch(list(together))]

    def _join_batch(self, together: list[Action]) -> list[Action]:
        sends = [action for action in together if isinstance(action, Send)]
        recorded = sends[0].recorded if sends else None
        if recorded is None or recorded.frame_kind != "batch":
            return together
        whole = self._tape.frame_text(recorded)
        parts = [send.recorded.part for send in sends if send.recorded]
        channels = {send.channel for send in sends if send.call is not None}
        if not whole.parts or parts != [*range(len(whole.parts))] or len(channels) > 1:
            return together  # some are not due, repeated, or for another channel
        texts = [send.text.rstrip(b"\r\n") for send in sends]
        return [sends[-1]._replace(text=rewrite.with_elements(whole.text, texts) + _eol(recorded))]

    def make_send(self, recorded: RecordedMessage, call: ClientCall | None) -> Send | None:
        """Return the send for a recorded message; None if this client did not ask for it."""
        live: bytes | None
        text = recorded.text
        if recorded.frame_kind == "batch":
            self.has_batches = True
            text = self._tape.element(recorded)
        elif text is None:
            text = self._tape.text(recorded)
        if recorded.kind != "response" or recorded.status == "refused":
            live = self._fit(recorded, call, text)
        elif call is None or recorded.rpc_id is None:  # the answer to a line that the server could not parse
            live = text
        else:
            live = rewrite.answer(text, recorded.rpc_id, call.rpc_id)
        if live is None:
            return None
        eol = b"\n" if recorded.eol == "\n" else _eol(recorded)
        sent = live + eol, call.channel if call else "", call, recorded.kind == "response", recorded
        return frames.new(Send, sent)

    def _fit(self, recorded: RecordedMessage, call: ClientCall | None, text: bytes) -> bytes | None:
        """Fit a message other than an answer, or the HTTP body of a refusal, to the live conversation."""
        if recorded.kind == "response":
            return rewrite.refusal(text, call.rpc_id) if call else text
        if recorded.kind == "noise":
            return rewrite.broken_answer(text, call.recorded.rpc_id, call.rpc_id) if call and call.recorded else text
        if recorded.kind == "request":
            live = self._free_id(recorded.rpc_id or "null")
            self._asked[live] = recorded
            return rewrite.with_id(text, recorded.rpc_id, live)
        if recorded.method == protocol.CANCELLED:
            return self._fit_cancel(recorded, text)
        return rewrite.notification(text, recorded.method, call.rpc_id, call.token) if call else text

    def _fit_cancel(self, recorded: RecordedMessage, text: bytes) -> bytes:
        """Fit the cancel of a server request, which may have been sent under another id, or not at all."""
        messages = frames.parse(text)[1]
        theirs = frames.cancelled_request_id(messages[0]) if messages else None
        if theirs is None:
            return text
        question = self._tape.question(recorded.session, recorded.seq, theirs)
        place = question.place if question else None
        live = next((live for live, asked in self._asked.items() if asked.place == place), None)
        if live is None:  # not in flight; another request may have its id now
            return rewrite.with_values(text, {("params", "requestId"): self._free_id(theirs)})
        self.withdrawn.append(self._asked.pop(live))
        self._taken_back.add(live)
        return rewrite.with_values(text, {("params", "requestId"): live})

    def _free_id(self, rpc_id: str) -> str:
        """The recorded id, unless it is in flight or was cancelled: an answer to it may still be on its way."""
        return rewrite.free_id({*self._asked, *self._taken_back}.__contains__, rpc_id)


def _batch_of(action: Action) -> tuple[str, int]:
    """The group of an action: only messages of one recorded batch are sent together."""
    recorded = action.recorded if isinstance(action, Send) else None
    return ("batch", recorded.frame) if recorded and recorded.frame_kind == "batch" else ("alone", id(action))


def _eol(recorded: RecordedMessage) -> bytes:
    """The recorded line end. A message that was cut off before its line end gets one; noise does not."""
    return (recorded.eol or "").encode() or (b"" if recorded.kind == "noise" else b"\n")
