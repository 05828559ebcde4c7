"""Sampling of sessions. A session's name and a seed decide whether it is recorded, so the relay and the writer agree
without talking, and a test knows the outcome in advance."""

from __future__ import annotations

import os
from hashlib import blake2b

from ...light import NamedTuple, pattern
from ..recorder import RecordingSummary

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...wire.frames import Side

_SHARE = pattern(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_ALL = 1 << 64
_TRACE = slice(3, 35)  # the trace id in a traceparent


def parse_share(text: str) -> float:
    """Parse a percentage into a share from 0 to 1."""
    found = _SHARE.fullmatch(text)
    share = float(found[1]) / 100 if found else 2.0
    if share > 1:
        raise ValueError(f"{text!r} is not a share of all sessions; write a percentage, e.g. 1% or 0.5%")
    return share


class Sample(NamedTuple):
    share: float
    seed: bytes

    def takes(self, name: str) -> bool:
        """Return whether a session of this name is recorded."""
        drawn = blake2b(name.encode("utf-8", "surrogateescape"), key=self.seed, digest_size=8).digest()
        return int.from_bytes(drawn, "big") < self.share * _ALL

    def __str__(self) -> str:
        return f"{self.share * 100:g}%"


def draw_sample(share: float, seed: str | None) -> Sample:
    """A sample by chance, or by a seed if given."""
    return Sample(share, os.urandom(16) if seed is None else blake2b(seed.encode(), digest_size=16).digest())


class Sampling:
    """Chooses and counts the sessions of an HTTP recording. A session is recorded as a whole or not at all.

    Requests without a session, as in the modern era, are chosen one by one; those with the same trace in `_meta` are
    chosen together. https://www.w3.org/TR/trace-context/
    """

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._sessions = [0, 0]  # recorded, and all
        self._requests = [0, 0]

    def takes_session(self, name: str) -> bool:
        return self._takes(name, self._sessions)

    def takes_request(self, body: bytes) -> bool:
        """Return whether a request without a session is recorded. `body`: the body of the POST."""
        return self._takes(_trace(body) or f"request {self._requests[1]}", self._requests)

    def _takes(self, name: str, count: list[int]) -> bool:
        taken = self._sample.takes(name)
        count[0] += taken
        count[1] += 1
        return taken

    def __str__(self) -> str:
        if not self._sample.share:
            return "no session is recorded, or counted"  # the proxy then passes everything on without copying it
        taken, there = self._sessions
        text = f"{taken} of {there} session{'s' * (there != 1)}"
        if self._requests[1]:
            text += f", {self._requests[0]} of {self._requests[1]} requests without one"
        return text


def _trace(body: bytes) -> str | None:
    """The trace that a posted message belongs to."""
    from ...wire import frames, protocol

    for message in frames.parse(body)[1]:
        stated = protocol.member(protocol.member(message.body.get("params"), "_meta"), "traceparent")
        if isinstance(stated, str) and len(stated) >= _TRACE.stop:
            return stated[_TRACE]
    return None


class NoRecorder:
    """A recorder that drops everything, for a session that is not in the sample."""

    def stream(self, side: Side, channel: str) -> Callable[[bytes], None]:
        return lambda data: None

    def control(self, side: Side, channel: str, **facts: str | int | dict[str, str] | None) -> None:
        pass

    def record_signal(self, number: int) -> None:
        pass

    def close(self) -> RecordingSummary:
        return RecordingSummary()
