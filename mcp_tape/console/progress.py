"""Progress of long tasks, for people at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING

from ..errors import replace_control_characters

if TYPE_CHECKING:
    from ..cassette.reader import Cassette

_PATIENCE, _EVERY = 0.5, 0.1  # seconds until progress is shown, and between updates


class Progress:
    """A temporary line of progress on stderr; nothing without a terminal."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = replace_control_characters(title), total
        self._next = monotonic() + _PATIENCE
        self._shown = False
        self._wanted = bool(sys.stderr and sys.stderr.isatty()) and total > 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def __call__(self, done: int) -> None:
        if self._wanted and monotonic() >= self._next:
            self._next = monotonic() + _EVERY
            self._shown = True
            self._write(f"\r{self._title}: {min(100, 100 * done // self._total)} %")

    def hide(self) -> None:
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def frames_of(cassette: Cassette, sessions: Iterable[int] | None = None) -> int:
    """The number of frames to process; 0 without a terminal."""
    from ..cassette.query.timeline import frame_count

    return frame_count(cassette, sessions) if sys.stderr.isatty() else 0
