"""The sessions of HTTP channels, of which only a sample is recorded.

A session is what it is elsewhere: all with one Mcp-Session-Id, or all of one stream of HTTP+SSE. Of requests without
one, as in the modern era, each is chosen by itself; those that name the same trace in `_meta` are chosen together.
https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...wire import frames, protocol
from ..sessions import Sessions, endpoint_path
from ..tape import Tape
from .sampling import Sample

if TYPE_CHECKING:
    from ...wire.frames import Side
    from ..sessions import _Channel

_TRACE = slice(3, 35)  # of a traceparent


class _Nothing(Tape):
    """A tape of what is not in the sample."""

    def __init__(self) -> None:
        super().__init__(lambda frame, entries: None, None)

    def feed(self, side: Side, channel: str, data: bytes, at: int) -> None:
        pass

    def end(self, side: Side, channel: str, at: int) -> None:
        pass

    def end_all(self, at: int) -> None:
        pass

    def control(self, side: Side, channel: str, facts: dict[str, Any], at: int) -> None:
        pass


class Sampled:
    """The number of those that there were, and of those that are recorded."""

    def __init__(self) -> None:
        self.sessions = [0, 0]
        self.requests = [0, 0]

    def __str__(self) -> str:
        taken, there = self.sessions
        text = f"{taken} of {there} session{'s' * (there != 1)}"
        if self.requests[1]:
            text += f", {self.requests[0]} of {self.requests[1]} requests without one"
        return text


class SampledSessions(Sessions):
    def __init__(self, begin: Callable[[int, str, bool], Tape], sample: Sample, count: Sampled) -> None:
        super().__init__(begin)
        self._sample = sample
        self._count = count
        self._nothing = _Nothing()

    def _of_id(self, number: str, waiting: _Channel) -> Tape:
        if number in self._by_id:
            return self._by_id[number]
        return super()._of_id(number, waiting) if self._takes(number, self._count.sessions) else self._nothing

    def _of_run(self, waiting: _Channel) -> Tape:
        name = _trace(b"".join(waiting.body)) or f"request {self._count.requests[1]}"
        return super()._of_run(waiting) if self._takes(name, self._count.requests) else self._nothing

    def _of_stream(self, waiting: _Channel, text: bytes, event: str | None) -> Tape:
        if event != "endpoint":
            return self._of_run(waiting)
        path = endpoint_path(waiting.path, text.decode("utf-8", "replace"))
        if self._takes(path, self._count.sessions):
            return super()._of_stream(waiting, text, event)
        self._by_endpoint[path] = self._nothing
        return self._nothing

    def _takes(self, name: str, count: list[int]) -> bool:
        taken = self._sample.takes(name)
        count[0] += taken
        count[1] += 1
        return taken


def _trace(body: bytes) -> str | None:
    """The trace that a posted message says it is part of."""
    for message in frames.parse(body)[1]:
        stated = protocol.member(protocol.member(message.body.get("params"), "_meta"), "traceparent")
        if isinstance(stated, str) and len(stated) >= _TRACE.stop:
            return stated[_TRACE]
    return None
