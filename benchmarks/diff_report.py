"""What a run of diff.py says: seconds, what was found, memory, the bars, and where somebody else is better."""

from __future__ import annotations

from collections.abc import Sequence

from diff_cassettes import MADE_UP, OTHER_IDS, Case
from measure import FREE, Bar, Results, at_most, show
from report import Report, Section, Table, times
from report import losses as beaten

TAPE, EVERY_PAIR, UNEQUAL, HELD = "mcp-tape", "deepdiff, every pair", "deepdiff, unequal pairs", "all answers held"
NAMES = (TAPE, EVERY_PAIR, UNEQUAL)
SECONDS, CHANGED, FILES = "seconds", "found", "both files"
MANY = 100_000  # calls; of fewer, Python itself takes most of the memory
_SHARE = 0.1  # of what deepdiff takes for every pair, where few answers differ
_HELD = 0.25  # of what it takes to hold all answers
_MB = 1e6


def peak(calls: int, case: str) -> str:
    return f"peak, {calls:,} calls, {case}"


def remembered(cases: Sequence[Case]) -> list[Case]:
    """Those whose memory is measured: how requests are numbered does not count there."""
    return [case for case in cases if case is not OTHER_IDS]


def report(results: Results, cases: Sequence[Case], memory: Sequence[int], calls: int, changed: int) -> Report:
    """The whole report."""
    head = ["", SECONDS, f"× {EVERY_PAIR}", f"× {UNEQUAL}", "answers found to differ"]
    time = Table(head, [_time(results, case.name, name) for case in cases for name in NAMES])
    rows = [_memory(results, memory, case.name, name) for case in remembered(cases) for name in (TAPE, HELD, FILES)]
    sections = [Section("Time", time), Section("Peak memory", Table(["", *(f"{n:,} calls, MB" for n in memory)], rows))]
    of = f"{calls:,} calls, {changed:,} of them answered differently"
    short = _short(results, cases, memory[-1])
    return Report(results, short, sections, bars(results, cases, changed), losses(results, cases), of=of)


def _short(results: Results, cases: Sequence[Case], most: int) -> Table:
    head = ["", *(f"{name}, s" for name in NAMES), f"{TAPE}, MB", f"{HELD}, MB"]
    rows = [
        [
            case.name,
            *(results.shown(FREE, f"{SECONDS}, {case.name}", name) for name in NAMES),
            *(show(_megabytes(results, most, case.name, name), "") for name in (TAPE, HELD)),
        ]
        for case in cases
    ]
    return Table(head, rows)


def bars(results: Results, cases: Sequence[Case], changed: int) -> list[Bar]:
    """What is promised: the right answers, in a tenth of the time where few differ, and memory for rows only."""
    return [
        *(_exact(results, case.name, changed) for case in cases),
        *(
            at_most(f"{SECONDS}, {case.name}, against {EVERY_PAIR}", _ratio(results, case.name, TAPE, EVERY_PAIR),
                    1.0 if case is MADE_UP else _SHARE, "×", EVERY_PAIR)
            for case in cases
        ),
        *(
            at_most(peak(MANY, case.name), _megabytes(results, MANY, case.name, TAPE),
                    times(_HELD, _megabytes(results, MANY, case.name, HELD)), "MB", f"a quarter of {HELD}")
            for case in remembered(cases)
        ),
    ]  # fmt: skip


def losses(results: Results, cases: Sequence[Case]) -> list[str]:
    """Every case in which deepdiff took less time."""
    times = [f"{SECONDS}, {case.name}" for case in cases]
    return beaten(results, NAMES, lambda _: False, only=times)


def _exact(results: Results, case: str, changed: int) -> Bar:
    found = results.value(FREE, f"{CHANGED}, {case}", TAPE)
    met = None if found is None else found == changed
    return Bar(f"answers found to differ, {case}", f"{_count(found)}, expected {changed:,}", met)


def _time(results: Results, case: str, name: str) -> list[str]:
    values = [results.value(FREE, f"{figure}, {case}", name) for figure in (SECONDS, CHANGED)]
    ratios = [_ratio(results, case, name, base) if name != base else None for base in (EVERY_PAIR, UNEQUAL)]
    return [f"{case}: {name}", show(values[0], ""), *(show(ratio, "") for ratio in ratios), _count(values[1])]


def _memory(results: Results, memory: Sequence[int], case: str, name: str) -> list[str]:
    return [f"{case}: {name}", *(show(_megabytes(results, calls, case, name), "") for calls in memory)]


def _megabytes(results: Results, calls: int, case: str, name: str) -> float | None:
    return times(1 / _MB, results.value(FREE, peak(calls, case), name))


def _ratio(results: Results, case: str, name: str, base: str) -> float | None:
    return results.ratio(FREE, (f"{SECONDS}, {case}", name), (f"{SECONDS}, {case}", base))


def _count(value: float | None) -> str:
    return "–" if value is None else "failed" if value == float("inf") else f"{value:,.0f}"
