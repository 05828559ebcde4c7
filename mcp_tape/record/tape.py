"""The recording core: bytes in, redacted frames and their messages out.

Does no I/O and reads no clock. Frames go to a sink; storage is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import orjson

from ..redaction.redactor import FAILED, RedactedText, Redactor
from ..values import size_text
from ..wire import frames
from ..wire.channels import STDERR, STDIO, is_post
from ..wire.compression import MAX_DECODED, BodyTooLargeError, Decoder
from ..wire.frames import LEFT_OUT, Frame, FrameKind, LedgerEntry, Message, Side
from ..wire.framing import Event, Events, Lines, WholeBody, is_event_stream, lines_of
from ..wire.ledger import Ledger

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from typing import Any

    from ..redaction.bodies import Bodies

Sink = Callable[[Frame, list[LedgerEntry]], None]
TOO_LARGE = b"[left out: too large when decompressed]"
_FIELDS = (b"id:", b"event:", b"retry:")


class Tape:
    """Records one session, which began at `zero`."""

    def __init__(
        self,
        sink: Sink,
        redactor: Redactor | Bodies | None,
        zero: int = 0,
        max_decoded: int | None = None,
    ) -> None:
        # Maximum size of one decompressed body, in bytes.
        self._max_decoded = MAX_DECODED if max_decoded is None else max_decoded
        self._sink = sink
        self._redactor = redactor
        self._zero = zero
        self._last = 0
        self._framings: dict[tuple[Side, str], Lines | WholeBody | Events] = {}
        self._decoders: dict[tuple[Side, str], Decoder | None] = {}  # None: the body is left out
        self.ledger = Ledger()
        self._numbers = frames.FrameNumbers()
        self.frames = 0
        self.redactions = 0
        self.incomplete: str | None = None
        self._repeated = 0  # the last number of the messages repeated from another session

    def begin_again(self, at: int, repeated: Iterable[Frame]) -> list[tuple[Frame, list[LedgerEntry]]]:
        """Go on as another session that begins with frames of the previous one; return these frames with their entries.

        Streams continue where they are, even in the middle of a line.
        """
        self.ledger, self._numbers = Ledger(), frames.FrameNumbers()
        self._zero, self._last, self.incomplete = at, 0, None
        self.frames = self.redactions = 0
        made = []
        for old in repeated:
            messages = frames.parse(old.text)[1] if old.kind in ("message", "batch") else []
            frame = old._replace(seq=self._numbers.take(old.sender, old.channel, len(messages)), at=0)
            made.append((frame, self.ledger.enter(frame, messages, frame.text)))
        self._repeated, self.ledger.exchanges = self.last, 0
        return made

    @property
    def last(self) -> int:
        """The number last given to a message."""
        return self._numbers.next - 1

    @property
    def elapsed(self) -> int:
        """The time of the last frame, in microseconds since the session's start."""
        return self._last

    @property
    def at(self) -> int:
        """The same time since the recorder's start."""
        return self._zero + self._last

    def is_quiet(self, mark: int = 0) -> bool:
        """Return whether no exchange is open, except exchanges of the previous session and exchanges up to `mark`."""
        mark = max(mark, self._repeated)
        return not self.ledger.open_exchanges or all(
            listens or number <= mark for number, listens in self.ledger.waiting_requests()
        )

    @property
    def channels(self) -> set[str]:
        """Channels that are still open."""
        return {channel for _, channel in self._framings}

    def feed(self, side: Side, channel: str, data: bytes, at: int) -> None:
        """Take bytes that one side sent, in pieces of any size."""
        framing = self._framings.get((side, channel))
        if framing is None:
            framing = self._framings[side, channel] = Lines()
        for plain in self._decompress(side, channel, data) if self._decoders else (data,):
            if type(framing) is Lines:
                for lines in framing.take_complete(plain):
                    self._keep_lines(side, channel, lines, at)
            self._keep_all(side, channel, framing.overflow() if type(framing) is Lines else framing.feed(plain), at)
        if framing.split:
            self.incomplete = "a line was too long to be kept in one piece"

    def end(self, side: Side, channel: str, at: int) -> None:
        """End a stream: an unfinished last line is a frame too."""
        framing = self._framings.pop((side, channel), None)
        self._decoders.pop((side, channel), None)
        units = framing.close() if framing else []
        if not units and side == "server" and type(framing) is WholeBody and self.ledger.is_unanswered(channel):
            units = [(b"", b"")]  # a response without a body is a refusal too
        self._keep_all(side, channel, units, at)

    def end_all(self, at: int) -> None:
        for side, channel in list(self._framings):
            self.end(side, channel, at)

    def control(self, side: Side, channel: str, facts: dict[str, Any], at: int) -> None:
        """Record an event other than bytes: a start, a close, an exit, an HTTP request or response."""
        event = facts.get("event")
        if event in ("abort", "open", "failed"):
            self._cut_off("client", channel, at)
            self._cut_off("server", channel, at)
        if event == "failed" and channel != STDIO:
            self.incomplete = self.incomplete or "the server could not be reached for each of the requests"
        text = orjson.dumps(facts)
        if "headers" in facts:
            self._begin_body(side, channel, facts["headers"])
        if event in ("request", "response", "comment", "endpoint", "failed", "side"):
            redacted = self._redact(text, channel, is_control=True)
            text = redacted.text
            self.redactions += redacted.hidden
        self.frames += 1
        frame = Frame(self._numbers.take(side, channel, 0), self._time(at), side, channel, "control", text)
        self._sink(frame, self.ledger.enter(frame, [], text))

    def _begin_body(self, side: Side, channel: str, headers: dict[str, str]) -> None:
        if side == "client" and not is_post(channel):
            return
        events = is_event_stream(headers.get("content-type"))
        self._framings[side, channel] = Events() if side == "server" and events else WholeBody()
        coding = headers.get("content-encoding", "identity")
        if coding.lower() != "identity":
            self._decoders[side, channel] = Decoder(coding, self._max_decoded)

    def _cut_off(self, side: Side, channel: str, at: int) -> None:
        """Keep as noise the start of a message that never reached the other side whole."""
        framing = self._framings.pop((side, channel), None)
        self._decoders.pop((side, channel), None)
        for unit in framing.close() if framing else ():
            head, text = (unit.head, unit.text or b"") if isinstance(unit, Event) else (b"", unit[0])
            self._keep(side, channel, text, b"", at, head)

    def _decompress(self, side: Side, channel: str, data: bytes) -> list[bytes]:
        """The data decompressed, or unchanged if that fails."""
        if (side, channel) not in self._decoders:
            return [data]
        decoder = self._decoders[side, channel]
        try:
            return list(decoder.feed(data)) if decoder is not None else []
        except BodyTooLargeError:
            self._leave_out(side, channel)
            return []
        except ValueError:
            del self._decoders[side, channel]
            self.incomplete = "a body was compressed in a way that cannot be read"
            return [data]

    def _leave_out(self, side: Side, channel: str) -> None:
        """Leave out a body that is too large when decompressed: half of it is no use, and could hold half a secret."""
        self._decoders[side, channel] = None
        self._framings[side, channel] = WholeBody()
        self._framings[side, channel].feed(TOO_LARGE)
        most = size_text(self._max_decoded)
        self.incomplete = f"a body of more than {most} when decompressed was left out; see --max-decoded"

    def _keep_all(self, side: Side, channel: str, units: list[Any], at: int) -> None:
        for unit in units:
            if type(unit) is Event:
                self._keep_event(side, channel, unit, at)
            else:
                text, eol = unit
                self._keep(side, channel, text, eol, at)

    def _keep_lines(self, side: Side, channel: str, lines: bytes, at: int) -> None:
        """Keep whole lines. If there is nothing to hide, one check covers them all."""
        if lines.find(b"\n") == len(lines) - 1 or b"\r" in lines or not self._clears(lines):
            self._keep_all(side, channel, lines_of(lines), at)
            return
        for text in lines[:-1].split(b"\n"):
            self._keep_redacted(side, channel, text, text, b"\n", at)

    def _keep_event(self, side: Side, channel: str, event: Event, at: int) -> None:
        if event.text is None:
            self.control(side, channel, {"event": "comment", "text": event.head.decode("utf-8", "replace")}, at)
        elif event.eol and event.field(b"event") == "endpoint":
            self.control(side, channel, {"event": "endpoint", "data": event.text.decode("utf-8", "replace")}, at)
        else:
            self._keep(side, channel, event.text, event.eol, at, event.head)

    def _keep(self, side: Side, channel: str, text: bytes, eol: bytes, at: int, head: bytes | None = None) -> None:
        """Keep a frame, or part of one: a part has a head and no line end."""
        text, matched, count = self._redact(text, channel)
        self.redactions += count
        self._keep_redacted(side, channel, text, matched, eol, at, self._redacted_head(head, channel), count)

    def _keep_redacted(
        self,
        side: Side,
        channel: str,
        text: bytes,
        matched: bytes,
        eol: bytes,
        at: int,
        head: bytes | None = None,
        redactions: int = 0,
    ) -> None:
        kind: FrameKind = "stderr"
        messages: list[Message] = []
        is_part = head is not None and not eol
        if is_part:
            kind = "noise"
        elif channel != STDERR:
            kind, messages = frames.parse(text)
        seq = self._numbers.take(side, channel, len(messages))
        frame = frames.new(Frame, (seq, self._time(at), side, channel, kind, text, eol, head, redactions))
        self.frames += 1
        self._sink(frame, [] if is_part else self.ledger.enter(frame, messages, matched))

    def _time(self, at: int) -> int:
        """The time since the session's start. It never decreases, though frames of held-back channels arrive late."""
        if at - self._zero > self._last:
            self._last = at - self._zero
        return self._last

    def _redacted_head(self, head: bytes | None, channel: str) -> bytes | None:
        """The head of an event, redacted. Known fields stay: clients echo ids and act on the others."""
        if not head or self._redactor is None:
            return head
        lines = head.splitlines(keepends=True)
        return b"".join(line if line.startswith(_FIELDS) else self._redact(line, channel).text for line in lines)

    def _clears(self, lines: bytes) -> bool:
        try:
            return self._redactor is None or self._redactor.clears(lines)
        except Exception:  # it fails closed: redact line by line, so that only the bad line is lost
            return False

    def _redact(self, text: bytes, channel: str, is_control: bool = False) -> RedactedText:
        if self._redactor is None:
            return RedactedText(text, text, 0)
        try:
            return (self._redactor.facts if is_control else self._redactor.redact)(text, channel)
        except Exception:  # fails closed: the text must not be kept
            self.incomplete = LEFT_OUT
            return RedactedText(FAILED, FAILED, 1)


class OpenSession:
    """A session of this recording: its facts, its tape, and its number on the cassette, if it has one."""

    tape: Tape

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.number: int | None = None
        self.mark = 0  # the last message number when the cassette was found to be full
        # The first frames of a part, until more follow: over HTTP, many sessions never continue.
        self.held: list[tuple[Frame, list[LedgerEntry]]] | None = None
