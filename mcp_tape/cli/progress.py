"""How far a command is, on a terminal, when it takes its time."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..cassette.reader import Cassette

_PATIENCE, _EVERY = 0.5, 0.1  # seconds


class Progress:
    """One line on stderr that comes and goes; nothing where nobody looks."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._next = monotonic() + _PATIENCE
        self._shown = False
        self._wanted = sys.stderr.isatty() and total > 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def __call__(self, done: int) -> None:
        if self._wanted and monotonic() >= self._next:
            self._next = monotonic() + _EVERY
            self._shown = True
            click.echo(f"\r{self._title}: {min(100, 100 * done // self._total)} %", err=True, nl=False)

    def hide(self) -> None:
        """Make room for a line of output."""
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = False


def frames_of(cassette: Cassette, sessions: Iterable[int] | None = None) -> int:
    """How many frames there are to look at; 0 where nobody wants to know."""
    if not sys.stderr.isatty():
        return 0
    if sessions is None:
        return int(cassette.rows("SELECT count(*) FROM frames")[0][0])
    return sum(cassette.rows("SELECT count(*) FROM frames WHERE session = ?", (session,))[0][0] for session in sessions)
