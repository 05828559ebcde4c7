"""What was read last and took long, kept because it is mostly wanted again: the text of a batch above all.

All messages of a batch have one text, and share what waits for them. Read anew for each of them, ten thousand would
never come to an end.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ..cassette.reader import Cassette
from ..wire import frames, rewrite
from ..wire.frames import Message

_MOST = 8  # things that are kept


class FrameText:
    """The text of a frame, taken apart when that is needed."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    @property
    def is_batch(self) -> bool:
        return self.text.lstrip()[:1] == b"["

    @cached_property
    def messages(self) -> list[Message]:
        return frames.parse(self.text)[1]

    @cached_property
    def parts(self) -> list[bytes]:
        """The messages of a batch, each verbatim."""
        return rewrite.elements(self.text)


class Kept:
    """The few things that were used last. All is forgotten when somebody else writes to the file."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette
        self._version: int | None = None
        self._things: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        if self._things and self._version != self._current():
            self._things.clear()
        thing = self._things.pop(key, None)
        if thing is not None:
            self._things[key] = thing  # the newest is the last
        return thing

    def put(self, key: Any, thing: Any) -> None:
        """Keep something that was just read."""
        if not self._things:
            self._version = self._current()
        elif len(self._things) >= _MOST:
            del self._things[next(iter(self._things))]
        self._things[key] = thing

    def _current(self) -> int:
        ((version,),) = self._cassette.rows("PRAGMA data_version")
        return int(version)
