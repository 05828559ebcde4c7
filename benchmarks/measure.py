"""Rounds, medians, floors and the table of a benchmark."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

TAPE = "mcp-tape"
HERE = Path(__file__).parent
PAGE = HERE / "README.md"  # `--write` puts tables there
Any_ = TypeVar("Any_")


class FailedError(Exception):
    """A contestant gave no answer, or a wrong one."""


class Figure(NamedTuple):
    """A row of a table, and its promised floor.

    The floor is a multiple of the result of `of`, or a number in the unit. A rate must be at least that, everything
    else at most. With `base`, only the difference to that contestant counts.
    """

    name: str
    unit: str
    floor: float | None = None
    of: str = ""
    base: str = ""
    who: str = TAPE

    @property
    def is_rate(self) -> bool:
        return self.unit.endswith("/s")


class Bench:
    """One run of one benchmark. `size` is full, quick or smoke; the last only shows that it runs."""

    def __init__(self, name: str, size: str, place: Path, only: str = "") -> None:
        self.name, self.size, self.place, self.only = name, size, place, only
        self.figures: list[Figure] = []
        self.samples: dict[tuple[str, str], list[float]] = {}
        self.failures: dict[tuple[str, str], str] = {}
        self.notes: list[str] = []
        self._load = os.getloadavg()[0]

    def pick(self, full: Any_, quick: Any_, smoke: Any_) -> Any_:
        return {"full": full, "quick": quick, "smoke": smoke}[self.size]

    def rounds(self, number: int, who: Sequence[Any_]) -> Iterator[Any_]:
        """Yield every contestant once per round, starting each round with another."""
        for turn in range(number):
            first = turn % len(who)
            yield from (*who[first:], *who[:first])

    def add(self, figure: str, who: str, value: float) -> None:
        self.samples.setdefault((figure, who), []).append(value)

    @contextlib.contextmanager
    def measure(self, figure: str, who: str) -> Iterator[None]:
        """Store a failure as an infinite result, which meets no floor."""
        try:
            yield
        except (FailedError, OSError) as error:
            self.failures[figure, who] = str(error)[:300]
            self.add(figure, who, math.inf)

    def say(self, line: str) -> None:
        print(f"{self.name}: {line}", file=sys.stderr, flush=True)

    def value(self, figure: str, who: str) -> float | None:
        found = self.samples.get((figure, who))
        return median(found) if found else None

    def result(self, figure: Figure) -> float | None:
        """The value to compare with the floor: a median over the rounds; without a base, of the quotients in each
        round."""
        ours, theirs, base = (
            self.samples.get((figure.name, who), []) if who else [] for who in (figure.who, figure.of, figure.base)
        )
        if not ours or (figure.of and not theirs) or (figure.base and not base):
            return None
        if figure.base:
            added = [median(a - b for a, b in zip(values, base, strict=False)) for values in (ours, theirs) if values]
            return added[0] / added[1] if figure.of else added[0]
        if figure.of:
            return median(a / b if b < math.inf else 0 for a, b in zip(ours, theirs, strict=False))
        return median(ours)

    def is_met(self, figure: Figure) -> bool:
        found = self.result(figure)
        if found is None or figure.floor is None or (figure.name, figure.who) in self.failures:
            return False
        return found >= figure.floor if figure.is_rate else found <= figure.floor

    @property
    def missed(self) -> list[str]:
        return [figure.name for figure in self.figures if figure.floor is not None and not self.is_met(figure)]

    def report(self) -> str:
        """The date, the machine and its load, and the table, in Markdown."""
        who = list(dict.fromkeys(one for _, one in self.samples))
        rows = [self._row(figure, who) for figure in self.figures]
        kind = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        load = f"load {self._load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end"
        parts = [", ".join([str(date.today()), kind, load]), table(["", *who, "measured", "floor", ""], rows)]
        failed = [f"- {one}, {figure}: failed: {why}" for (figure, one), why in self.failures.items()]
        return "\n\n".join(filter(None, [*parts, "\n".join([*self.notes, *failed])])) + "\n"

    def _row(self, figure: Figure, who: Sequence[str]) -> list[str]:
        cells = [show(self.value(figure.name, one), "") for one in who]
        label = f"{figure.name}, {figure.unit}" if figure.unit else figure.name
        if figure.floor is None:
            return [label, *cells, "", "", ""]
        unit = "×" if figure.of else figure.unit
        found = self.result(figure)
        limit = f"{'≥' if figure.is_rate else '≤'} {figure.floor:g} {unit}" + (f" {figure.of}" if figure.of else "")
        if figure.base:
            limit += f", {'both ' * bool(figure.of)}above {figure.base}"
        if found is None:
            return [label, *cells, "–", limit, "not measured"]
        off = abs(found / figure.floor - 1) if figure.floor else found
        by = f" by {100 * off:.0f} %" if off < math.inf else ""
        return [label, *cells, show(found, unit), limit, ("met" if self.is_met(figure) else "MISSED") + by]

    def as_json(self) -> dict[str, Any]:
        samples = [
            {"figure": figure, "contestant": who, "samples": [one if one < math.inf else None for one in values]}
            for (figure, who), values in self.samples.items()
        ]
        return {"benchmark": self.name, "results": samples, "missed": self.missed}

    def write(self) -> None:
        """Write the report between the marks of this benchmark."""
        mark, end = f"<!-- printed by {self.name} -->\n", "<!-- end -->\n"
        before, found, rest = PAGE.read_text("utf-8").partition(mark)
        if found:
            PAGE.write_text(f"{before}{mark}\n{self.report()}\n{end}{rest.partition(end)[2]}", "utf-8")


def show(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "failed"
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{number} {unit}".rstrip()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = f"|{'|'.join(['-' * (widths[0] + 2), *('-' * (width + 1) + ':' for width in widths[1:])])}|"
    lines = [
        f"| {' | '.join(cell.rjust(width) if n else cell.ljust(width) for n, (cell, width) in enumerate(cells))} |"
        for cells in (list(zip(row, widths, strict=True)) for row in (head, *rows))
    ]
    return "\n".join([lines[0], rule, *lines[1:]])


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """Pin this process and its children to one core, if the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def compiled(smoke: bool) -> Iterator[None]:
    """Give processes compiled modules, like installed packages, and ignore this shell's Python settings."""
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
