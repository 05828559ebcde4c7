"""What every report has: tables, the bars, where somebody else is better, who is absent, and what failed.

In Markdown it comes in two forms: the short one for docs/benchmarks.md, and all of it for benchmarks/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from contestants import TAPE
from measure import Bar, Results, machine, show, table


class Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Section(NamedTuple):
    heading: str
    table: Table
    below: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What one run has to say."""

    results: Results
    short: Table
    sections: Sequence[Section]
    bars: Sequence[Bar]
    losses: Sequence[str]
    absent: Sequence[str] = ()
    of: str = ""  # how much was measured
    title: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", ", ".join(filter(None, [str(date.today()), machine(), self.of])))

    def text(self, markdown: bool) -> str:
        """All of it; in Markdown with the short form before it."""
        if not markdown:
            return self.long(markdown)
        parts = ["## For docs/benchmarks.md", self.short_form(), "## For benchmarks/README.md", self.long(markdown)]
        return "\n\n".join(parts)

    def short_form(self) -> str:
        """One table, and the bars that are not met, in Markdown."""
        missed = [bar.brief for bar in self.bars if bar.met is not True]
        met = (
            f"All {len(self.bars)} bars are met." if not missed else f"Not met, {len(missed)} of {len(self.bars)} bars:"
        )
        return "\n\n".join(filter(None, [self.title, table(*self.short, markdown=True), met, _bullets(missed)]))

    def long(self, markdown: bool) -> str:
        strong = "### {}" if markdown else "{}"
        parts = [self.title]
        for section in self.sections:
            parts += [strong.format(section.heading), table(*section.table, markdown), section.below]
        parts += [strong.format("Bars"), _bullets(map(str, self.bars))]
        parts += [strong.format("Where mcp-tape is not the best"), _bullets(self.losses) or "nowhere"]
        if self.absent:
            parts.append(f"absent, not installed: {', '.join(self.absent)}")
        for what, found in ("Without an answer", self.results.unanswered), ("Failed", self.results.failures):
            if found:
                lines = [f"{who}, {figure}, {mode}: {why}" for (mode, figure, who), why in found.items()]
                parts += [strong.format(what), _bullets(lines)]
        return "\n\n".join(filter(None, parts))


def losses(
    results: Results,
    names: Iterable[str],
    more_is_better: Callable[[str], bool],
    besides: Sequence[str] = (),
    only: Sequence[str] = (),
) -> list[str]:
    """Every figure, but for some or only of some, at which one of these beats mcp-tape."""
    found = []
    others = [name for name in dict.fromkeys(names) if name != TAPE]
    for mode, figure in dict.fromkeys((mode, figure) for mode, figure, _ in results.samples):
        ours = results.value(mode, figure, TAPE)
        if ours is None or figure in besides or (only and figure not in only):
            continue
        better = [
            f"{name} {show(other, '')}"
            for name in others
            if (other := results.value(mode, figure, name)) is not None and math.isfinite(other)
            if (other > ours or not math.isfinite(ours) if more_is_better(figure) else other < ours)
        ]
        if better:
            found.append(f"{figure}, {mode}: {TAPE} {show(ours, '')}, {', '.join(better)}")
    return found


def times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
