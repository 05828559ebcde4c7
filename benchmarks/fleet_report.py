"""What a run of fleet.py says: tables, the bars, and where somebody else is better."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contestants import TAPE
from measure import Bar, Results, at_least, at_most, show
from report import Report, Section, Table

PUSH, REPEATED, PULL, LAKE, QUERY = "push", "push again", "pull", "lake", "query"
CP, OBSTORE, ONE, SQLITE, MOTO = "cp", "plain obstore", "one cassette", "SQLite, one by one", "plain obstore, to moto"
SECONDS, CPU, PEAK, RATE, PER_CORE = "seconds", "CPU s", "peak MB", "messages/s", "messages/s a core"
_FIGURES = (SECONDS, CPU, RATE, PER_CORE, PEAK)
_MOST_PEAK, _LEAST_JOBS = 1.5, 1.2


def mode(count: int) -> str:
    return f"{count:,} cassettes"


def jobs(number: int) -> str:
    return f"{TAPE}, --jobs {number}"


_WHO = {
    PUSH: (TAPE, ONE, OBSTORE, CP),
    REPEATED: (TAPE,),
    PULL: (TAPE, ONE, OBSTORE, CP),
    LAKE: (jobs(1), jobs(2), ONE),
    QUERY: (TAPE, ONE, SQLITE),
}


def report(results: Results, counts: Sequence[int], moto: int, absent: Sequence[str]) -> Report:
    sections = []
    for count in counts:
        rows = [
            [f"{figure}: {who}", *(results.shown(mode(count), f"{figure}, {name}", who) for name in _FIGURES)]
            for figure, every in _WHO.items()
            for who in every
        ]
        sections.append(Section(f"{mode(count)[0].upper()}{mode(count)[1:]}", Table(["", *_FIGURES], rows)))
    if moto:
        seconds = results.value(mode(moto), f"{PUSH}, {SECONDS}", MOTO)
        rate = None if not seconds or not math.isfinite(seconds) else moto / seconds
        sections.append(Section("moto's server", Table(["", "puts/s"], [[MOTO, show(rate, "")]])))
    return Report(results, _short(results, counts), sections, bars(results, counts), losses(results, counts), absent)


def _short(results: Results, counts: Sequence[int]) -> Table:
    head = [""]
    for count in counts:
        head += [f"{mode(count)}, s", "messages/s a core", "peak MB"]
    rows = []
    for figure, every in _WHO.items():
        for who in every:
            row = [f"{figure}: {who}"]
            for count in counts:
                row += [results.shown(mode(count), f"{figure}, {name}", who) for name in (SECONDS, PER_CORE, PEAK)]
            rows.append(row)
    return Table(head, rows)


def bars(results: Results, counts: Sequence[int]) -> list[Bar]:
    """Memory does not grow with the number of cassettes, and a second process is worth it."""
    few, many = counts[0], counts[-1]
    found = []
    for figure, who in ((PUSH, TAPE), (PULL, TAPE), (LAKE, jobs(1))):
        before, after = (results.value(mode(count), f"{figure}, {PEAK}", who) for count in (few, many))
        limit = None if before is None else _MOST_PEAK * before
        found.append(at_most(f"peak of {figure}, {mode(many)}", after, limit, "MB", f"{_MOST_PEAK} × {mode(few)}"))
    one, two = (results.value(mode(many), f"{LAKE}, {SECONDS}", jobs(number)) for number in (1, 2))
    times = None if one is None or not two else one / two
    found.append(at_least(f"{LAKE} with 2 jobs, {mode(many)}", times, _LEAST_JOBS, "×", "as fast as with one"))
    return found


def losses(results: Results, counts: Sequence[int]) -> list[str]:
    """Whoever is faster than mcp-tape with many cassettes."""
    found = []
    for count in counts:
        for figure, (own, *others) in _WHO.items():
            ours = results.value(mode(count), f"{figure}, {SECONDS}", own)
            for other in others:
                theirs = results.value(mode(count), f"{figure}, {SECONDS}", other)
                if ours is not None and theirs is not None and theirs < ours:
                    found.append(f"{figure}, {mode(count)}: {own} {show(ours, 's')}, {other} {show(theirs, 's')}")
    return found
