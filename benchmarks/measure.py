"""Figures: keep the samples of every round, sum them up, lay them out, hold them against a bar."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

Key = tuple[str, str, str]  # mode, figure, contestant
Player = TypeVar("Player")
PINNED, FREE = "pinned to one core", "not pinned"


class Results:
    """The samples of all rounds. One that failed counts as infinite, so that it can win nothing."""

    def __init__(self) -> None:
        self.samples: dict[Key, list[float]] = {}
        self.failures: dict[Key, str] = {}
        self.unanswered: dict[Key, str] = {}

    def add(self, mode: str, figure: str, contestant: str, value: float) -> None:
        self.samples.setdefault((mode, figure, contestant), []).append(value)

    def fail(self, mode: str, figure: str, contestant: str, why: str) -> None:
        self.failures[mode, figure, contestant] = why
        self.add(mode, figure, contestant, math.inf)

    def no_answer(self, mode: str, figure: str, contestant: str, why: str) -> None:
        """It works, but has no answer to what is asked: no failure of the run, and no figure."""
        self.unanswered[mode, figure, contestant] = why

    def shown(self, mode: str, figure: str, contestant: str, unit: str = "") -> str:
        """The figure for people."""
        if (mode, figure, contestant) in self.unanswered:
            return "no answer"
        return show(self.value(mode, figure, contestant), unit)

    def value(self, mode: str, figure: str, contestant: str) -> float | None:
        """The median over the rounds; None where nothing was measured."""
        found = self.samples.get((mode, figure, contestant))
        return median(found) if found else None

    def added(self, mode: str, figure: str, contestant: str, base: str) -> float | None:
        """What it adds to the base: the median of the differences within each round."""
        ours = self.samples.get((mode, figure, contestant), [])
        bases = self.samples.get((mode, figure, base), [])
        return median(a - b for a, b in zip(ours, bases, strict=False)) if ours and bases else None

    def ratio(self, mode: str, ours: tuple[str, str], base: tuple[str, str]) -> float | None:
        """One figure by another, each with its contestant: the median of the quotients within each round."""
        pairs = zip(self.samples.get((mode, *ours), []), self.samples.get((mode, *base), []), strict=False)
        quotients = [a / b for a, b in pairs if math.isfinite(b)]
        return median(quotients) if quotients else None

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"mode": mode, "figure": figure, "contestant": contestant, "samples": [_finite(v) for v in values],
             "failed": self.failures.get((mode, figure, contestant))}
            for (mode, figure, contestant), values in self.samples.items()
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bar:
    """Something promised: what was measured against what is allowed; `met` is None if it was not measured."""

    promise: str
    measured: str
    met: bool | None

    def __str__(self) -> str:
        word = {True: "pass", False: "MISSED", None: "not measured"}[self.met]
        return f"{word}: {self.promise}: {self.measured}"

    @property
    def brief(self) -> str:
        """Without what it was computed from."""
        return str(self).partition(" (")[0]


def at_most(promise: str, value: float | None, limit: float | None, unit: str, of: str) -> Bar:
    """A bar from above, with both figures."""
    if value is None or limit is None:
        return Bar(promise, "a figure is missing", None)
    ratio = f", {value / limit:.2f} of what is allowed" if limit > 0 and math.isfinite(value) else ""
    return Bar(promise, f"{show(value, unit)}, allowed {show(limit, unit)} ({of}){ratio}", value <= limit)


def at_least(promise: str, value: float | None, limit: float, unit: str, of: str) -> Bar:
    """A bar from below. What failed has an infinite figure, and has not met it."""
    if value is None:
        return Bar(promise, "a figure is missing", None)
    met = limit <= value < math.inf
    return Bar(promise, f"{show(value, unit)}, at least {show(limit, unit)} ({of})", met)


def show(value: float | None, unit: str) -> str:
    """A figure for people."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "failed"
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{number} {unit}".rstrip()


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool) -> str:
    """Aligned columns; with markdown also the bars between them."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [_line(row, widths, markdown) for row in (head, *rows)]
    rule = _line(["-" * width for width in widths], widths, markdown=False)
    if markdown:  # in one piece: no words, for those who count them
        rule = f"|{'|'.join(['-' * (widths[0] + 2), *('-' * (width + 1) + ':' for width in widths[1:])])}|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _line(cells: Sequence[str], widths: Sequence[int], markdown: bool) -> str:
    first, *rest = (
        cell.ljust(width) if n == 0 else cell.rjust(width)
        for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"| {' | '.join([first, *rest])} |" if markdown else "  ".join([first, *rest]).rstrip()


@contextlib.contextmanager
def pinned(mode: str) -> Iterator[None]:
    """Everything on one core, children included, while it lasts. Linux only: see modes()."""
    if mode != PINNED:
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def as_installed(smoke: bool) -> Iterator[None]:
    """Children find compiled modules, as those of installed packages are, and no settings of this shell's Python."""
    if smoke:  # compiling takes longer than the smallest run
        yield
        return
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="mcp-tape-bytecode-") as place:
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
            os.environ.pop(name, None)
        os.environ["PYTHONPYCACHEPREFIX"] = place
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def turns(players: Sequence[Player], rounds: int) -> Iterator[Player]:
    """Everyone once in each round, each time beginning with another."""
    for number in range(rounds):
        first = number % len(players)
        yield from (*players[first:], *players[:first])


def modes() -> list[str]:
    """The ways to run that this system has."""
    return [PINNED, FREE] if hasattr(os, "sched_setaffinity") else [FREE]


def machine() -> str:
    """The kind of machine, without its name."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
