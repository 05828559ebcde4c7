"""What a run of replay.py says: a table for each way to run, the bars, and where somebody else is better."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contestants import RIVAL, TAPE
from measure import PINNED, Bar, Results, at_least, at_most, modes, show, table
from replayers import LIVE
from report import YARDSTICK, closing

FIRST, LARGE = "first reply", "first reply, large"
RATES = (("one at a time", "pipelined"), ("one at a time, other ids", "pipelined, other ids"))
_ALL_RATES = [figure for figures in RATES for figure in figures]
_START_UP, _GROWTH, _SHARE = 1.3, 1.5, 35.0  # times the yardstick; times the small one; per cent of a live server


def text(
    results: Results,
    names: Sequence[str],
    absent: Sequence[str],
    bars: Sequence[Bar],
    title: str,
    large: int,
    markdown: bool,
) -> str:
    """The whole report."""
    strong = "### {}" if markdown else "{}"
    parts = [title]
    for mode in modes():
        parts += [strong.format(f"Replay, {mode}"), _table(results, mode, names, large, markdown)]
        parts.append(f"{YARDSTICK}: {show(results.value(mode, FIRST, YARDSTICK), 'ms')}")
    return "\n\n".join(parts + closing(results, bars, losses(results, names), absent, strong))


def _table(results: Results, mode: str, names: Sequence[str], large: int, markdown: bool) -> str:
    head = ["", "first reply ms", f"of {large:,} ms", *(f"{figure}/s" for figure in _ALL_RATES)]
    rows = []
    for name in names:
        times = (show(results.value(mode, figure, name), "") for figure in (FIRST, LARGE))
        rows.append([name, *times, *(_rate(results, mode, figure, name) for figure in _ALL_RATES)])
    return table(head, rows, markdown)


def _rate(results: Results, mode: str, figure: str, name: str) -> str:
    """Requests per second, and how much that is of the live server's."""
    value = results.value(mode, figure, name)
    share = _share(results, mode, figure, name)
    if name == LIVE or share is None or not math.isfinite(share):
        return show(value, "")
    return f"{show(value, '')} ({share:.0f} %)"


def _share(results: Results, mode: str, figure: str, name: str, of: str = LIVE) -> float | None:
    ratio = results.ratio(mode, (figure, name), (figure, of))
    return None if ratio is None else 100 * ratio


def bars(results: Results, large: int) -> list[Bar]:
    """What replay promises, held against this run. Quotients are medians of those within each round."""
    start_up = results.ratio(PINNED, (FIRST, TAPE), (FIRST, YARDSTICK))
    growth = results.ratio(PINNED, (LARGE, TAPE), (FIRST, TAPE))
    return [
        at_most("first reply, pinned", start_up, _START_UP, "×",
                _pair(results, (FIRST, TAPE), (FIRST, YARDSTICK), "ms", YARDSTICK)),
        at_most(f"first reply of {large:,} exchanges, pinned", growth, _GROWTH, "×",
                _pair(results, (LARGE, TAPE), (FIRST, TAPE), "ms", "of ten")),
        *(_at_least(results, figure, LIVE, _SHARE) for figure in _ALL_RATES),
        *(_at_least(results, figure, RIVAL, 100.0) for figure in _ALL_RATES),
    ]  # fmt: skip


def _at_least(results: Results, figure: str, of: str, share: float) -> Bar:
    promise = f"{figure}, pinned, " + (f"share of the {of}'s" if of == LIVE else f"above {of}'s")
    measured = _pair(results, (figure, TAPE), (figure, of), "/s", of)
    return at_least(promise, _share(results, PINNED, figure, TAPE, of), share, "%", measured)


def _pair(results: Results, ours: tuple[str, str], other: tuple[str, str], unit: str, what: str) -> str:
    one, two = (show(results.value(PINNED, *figure), unit) for figure in (ours, other))
    return f"{one}, {what}: {two}"


def losses(results: Results, names: Sequence[str]) -> list[str]:
    """Every figure at which the live server or the peer beats mcp-tape."""
    found = []
    for mode in modes():
        for figure in (FIRST, LARGE, *_ALL_RATES):
            better = [_loss(results, mode, figure, name) for name in names if name != TAPE]
            if any(better):
                ours = show(results.value(mode, figure, TAPE), "")
                found.append(f"{figure}, {mode}: {TAPE} {ours}, {', '.join(filter(None, better))}")
    return found


def _loss(results: Results, mode: str, figure: str, name: str) -> str:
    ours, other = results.value(mode, figure, TAPE), results.value(mode, figure, name)
    if ours is None or other is None or not math.isfinite(other):
        return ""
    wins = other < ours if figure in (FIRST, LARGE) else other > ours or not math.isfinite(ours)
    return f"{name} {show(other, '')}" if wins else ""
