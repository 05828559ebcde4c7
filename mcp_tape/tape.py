"""The recording core: bytes in, redacted frames and the messages in them out.

Does no I/O and reads no clock. What it makes goes into a sink; it does not know what keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from . import frames, jsontext, match, protocol
from .frames import Entry, Frame, Message, Side
from .framing import Lines
from .redact import FAILED, Redacted, Redactor

Sink = Callable[[Frame, list[Entry]], None]
STDERR = "stderr"


class Ledger:
    """Derives entries from messages: pairs answers with requests, and makes match keys.

    Id spaces are per direction: an answer belongs to the other side's request of that id.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], tuple[int, str | None]] = {}
        self.exchanges = 0
        self.facts: dict[str, str] = {}

    @property
    def still_open(self) -> int:
        return len(self._open)

    def derive(self, frame: Frame) -> list[Entry]:
        """The entries of a frame that is on a cassette."""
        if frame.kind not in ("message", "batch"):
            return []
        return self.enter(frame, frames.parse(frame.text)[1], frame.text)

    def enter(self, frame: Frame, messages: list[Message], matched: bytes) -> list[Entry]:
        """One entry per message; `matched` is the text that keys are made of."""
        return [self._entry(frame, message, part, matched) for part, message in enumerate(messages)]

    def _entry(self, frame: Frame, message: Message, part: int, matched: bytes) -> Entry:
        method, answers, key = message.method, None, None
        if message.kind == "request" and message.rpc_id is not None:
            self._open[frame.sender, message.rpc_id] = (frame.seq, method)
            key = match.request_key(method or "", _params(frame, message, part, matched))
        elif message.kind == "response" and message.rpc_id is not None:
            other = "client" if frame.sender == "server" else "server"
            answers, method = self._open.pop((other, message.rpc_id), (None, None))
            self.exchanges += answers is not None
        self.facts |= protocol.session_facts(method, message.body)
        return Entry(message, answers, key)


def _params(frame: Frame, message: Message, part: int, matched: bytes) -> Any:
    source = matched.decode("utf-8", "replace")
    if matched is frame.text and jsontext.is_exact(source):
        return message.body.get("params")
    try:
        body = jsontext.loads_exact(source)
    except RecursionError:
        body = message.body
    return (body[part] if isinstance(body, list) else body).get("params")


class Tape:
    """Records one session."""

    def __init__(self, sink: Sink, redactor: Redactor | None) -> None:
        self._sink = sink
        self._redactor = redactor
        self._lines: dict[tuple[Side, str], Lines] = {}
        self.ledger = Ledger()
        self.frames = 0
        self.redactions = 0
        self.incomplete: str | None = None

    def feed(self, side: Side, channel: str, data: bytes, at: int) -> None:
        """Bytes that one side sent, in whatever pieces they came."""
        lines = self._lines.get((side, channel))
        if lines is None:
            lines = self._lines[side, channel] = Lines()
        for text, eol in lines.feed(data):
            self._keep(side, channel, text, eol, at)
        if lines.split:
            self.incomplete = "a line was too long to be kept in one piece"

    def end(self, side: Side, channel: str, at: int) -> None:
        """The end of a stream: what has no newline is a frame too."""
        lines = self._lines.pop((side, channel), None)
        for text, eol in lines.close() if lines else ():
            self._keep(side, channel, text, eol, at)

    def end_all(self, at: int) -> None:
        """The end of the session."""
        for side, channel in list(self._lines):
            self.end(side, channel, at)

    def control(self, side: Side, channel: str, facts: dict[str, Any], at: int) -> None:
        """Something that happened besides the bytes: a start, a close, an exit."""
        self.frames += 1
        self._sink(Frame(self.frames, at, side, channel, "control", orjson.dumps(facts)), [])

    def _keep(self, side: Side, channel: str, text: bytes, eol: bytes, at: int) -> None:
        redacted = self._redact(text, channel)
        self.redactions += redacted.count
        self.frames += 1
        if channel == STDERR:
            kind: frames.FrameKind = "stderr"
            messages: list[Message] = []
        else:
            kind, messages = frames.parse(redacted.text)
        frame = Frame(self.frames, at, side, channel, kind, redacted.text, eol, redactions=redacted.count)
        self._sink(frame, self.ledger.enter(frame, messages, redacted.matched))

    def _redact(self, text: bytes, channel: str) -> Redacted:
        if self._redactor is None:
            return Redacted(text, text, 0)
        try:
            return self._redactor.redact(text, channel)
        except Exception:  # fails closed: whatever went wrong, the text must not be kept
            self.incomplete = "a frame could not be redacted and was left out"
            return Redacted(FAILED, FAILED, 1)
