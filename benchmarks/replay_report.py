"""What a run of replay.py says: a table for each way to run, the bars, and where somebody else is better."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contestants import RIVAL, TAPE, YARDSTICK
from measure import PINNED, Bar, Results, at_least, at_most, modes
from patterns import PATTERNS, Pattern
from replayers import LIVE
from report import Report, Section, Table, losses

FIRST, LARGE = "first reply", "first reply, large"
_START_UP, _GROWTH, _SHARE = 1.5, 1.5, 35.0  # times the yardstick; times the small one; per cent of a live server


def one_at_a_time(pattern: Pattern) -> str:
    return f"one at a time, {pattern.name}"


def pipelined(pattern: Pattern) -> str:
    return f"pipelined, {pattern.name}"


RATES = [*map(one_at_a_time, PATTERNS), *(pipelined(pattern) for pattern in PATTERNS if pattern.pipelined)]


def report(results: Results, names: Sequence[str], absent: Sequence[str], large: int) -> Report:
    """The whole report."""
    sections = []
    for mode in modes():
        below = f"{YARDSTICK}: {results.shown(mode, FIRST, YARDSTICK, 'ms')}"
        sections.append(Section(f"Replay, {mode}", _table(results, mode, names, large), below))
    lost = losses(results, names, lambda figure: figure in RATES)
    return Report(results, sections[0].table, sections, bars(results, large), lost, absent)


def _table(results: Results, mode: str, names: Sequence[str], large: int) -> Table:
    rows = [
        ["first reply ms", *(results.shown(mode, FIRST, name) for name in names)],
        [f"first reply of {large:,} ms", *(results.shown(mode, LARGE, name) for name in names)],
        *([f"{figure}/s", *(_rate(results, mode, figure, name) for name in names)] for figure in RATES),
    ]
    return Table(["", *names], rows)


def _rate(results: Results, mode: str, figure: str, name: str) -> str:
    """Requests per second, and how much that is of the live server's."""
    share = _share(results, mode, figure, name)
    known = name != LIVE and share is not None and math.isfinite(share)
    return results.shown(mode, figure, name) + (f" ({share:.0f} %)" if known else "")


def _share(results: Results, mode: str, figure: str, name: str, of: str = LIVE) -> float | None:
    ratio = results.ratio(mode, (figure, name), (figure, of))
    return None if ratio is None else 100 * ratio


def bars(results: Results, large: int) -> list[Bar]:
    """What replay promises, held against this run. Quotients are medians of those within each round."""
    start_up, against = (results.ratio(PINNED, (FIRST, TAPE), (FIRST, of)) for of in (YARDSTICK, RIVAL))
    growth = results.ratio(PINNED, (LARGE, TAPE), (FIRST, TAPE))
    return [
        at_most("first reply, pinned", start_up, _START_UP, "×",
                _pair(results, (FIRST, TAPE), (FIRST, YARDSTICK), "ms", YARDSTICK)),
        at_most(f"first reply, pinned, below {RIVAL}'s", against, 1.0, "×",
                _pair(results, (FIRST, TAPE), (FIRST, RIVAL), "ms", RIVAL)),
        at_most(f"first reply of {large:,} exchanges, pinned", growth, _GROWTH, "×",
                _pair(results, (LARGE, TAPE), (FIRST, TAPE), "ms", "of ten")),
        *(_at_least(results, figure, LIVE, _SHARE) for figure in RATES),
        *(_at_least(results, figure, RIVAL, 100.0) for figure in RATES),
    ]  # fmt: skip


def _at_least(results: Results, figure: str, of: str, share: float) -> Bar:
    promise = f"{figure}, pinned, " + (f"share of the {of}'s" if of == LIVE else f"above {of}'s")
    measured = _pair(results, (figure, TAPE), (figure, of), "/s", of)
    if (PINNED, figure, of) in results.unanswered:
        ours = results.value(PINNED, figure, TAPE)
        return Bar(promise, measured, None if ours is None else math.isfinite(ours))
    return at_least(promise, _share(results, PINNED, figure, TAPE, of), share, "%", measured)


def _pair(results: Results, ours: tuple[str, str], other: tuple[str, str], unit: str, what: str) -> str:
    one, two = (results.shown(PINNED, *figure, unit) for figure in (ours, other))
    return f"{one}, {what}: {two}"
