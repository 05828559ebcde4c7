"""The recording core: bytes in, redacted frames and the messages in them out.

Does no I/O and reads no clock. What it makes goes into a sink; it does not know what keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from . import frames
from .frames import Entry, Frame, Message, Side
from .framing import Lines
from .ledger import Ledger
from .redact import FAILED, Redacted, Redactor

Sink = Callable[[Frame, list[Entry]], None]
STDERR = "stderr"


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
