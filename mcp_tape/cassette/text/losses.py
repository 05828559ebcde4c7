"""Losses of recordings of other tools: reported to the command that reads them, whichever function opens the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_collected: ContextVar[dict[str, tuple[str, ...]] | None] = ContextVar("losses", default=None)


@contextmanager
def collect() -> Iterator[dict[str, tuple[str, ...]]]:
    """Collect the losses of all files that this thread reads within the block, by file name."""
    found: dict[str, tuple[str, ...]] = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def report(path: str, losses: Sequence[str]) -> None:
    """Report the losses of a file, in words."""
    collected = _collected.get()
    if collected is not None and losses:
        collected[path] = tuple(losses)
