"""What a run of http_bench.py says: tables, the bars, and where somebody else is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from contestants import DIRECT, TAPE
from http_calls import CASES, WAYS, Case
from http_contestants import BARE, PLAIN, RECORDER, SDK
from measure import FREE, PINNED, Bar, Results, at_least, show
from report import Report, Section, Table, losses

PROXIED, LISTENING, SESSIONS = "recorded", "replayed, modern", "replayed, legacy"
_TIMES = 4.0  # as many requests per second as the SDK's server answers, at least
_ROUND_TRIP, _P99, _PASSED = "round trip", "p99", "passed/s"
_ALONE, _SEVERAL, _FIRST = "one at a time/s", "8 connections/s", "first reply"
_ONE, _MANY, _EACH = "RSS, one stream", "RSS", "KB/stream"
_RATES = {_PASSED, _ALONE, _SEVERAL}
PASSING = (_ROUND_TRIP, _P99, _PASSED, _FIRST)
PLAYING = (_ALONE, _SEVERAL, _FIRST)
HOLDING = (_MANY, _ONE, _EACH)


@dataclass(frozen=True, slots=True)
class Who:
    """The names of all that took part, of the ways a server answered them, the cases, and the ways to run."""

    proxies: Sequence[str]
    players: Sequence[str]
    answers: Sequence[str]
    cases: Sequence[Case]
    modes: Sequence[str]


def report(results: Results, who: Who, absent: Sequence[str], streams: int) -> Report:
    """The whole report."""
    sections = []
    for mode in who.modes:
        sections.append(Section(f"Recording over HTTP, {mode}", _passing(results, mode, who)))
        sections.append(Section(f"Replay over HTTP, {mode}", _playing(results, mode, who)))
    sections.append(Section(f"{streams:,} open streams", _holding(results, who, streams)))
    others = [name for name in (*who.proxies, *who.players) if name != DIRECT]
    lost = losses(results, others, lambda what: what.partition(",")[0] in _RATES)
    return Report(results, _short(results, who), sections, bars(results), lost, absent)


def _short(results: Results, who: Who) -> Table:
    """Calls per second, one at a time, pinned; and how many times as many as the SDK's server that are."""
    mode, names = who.modes[0], [name for name in who.players if name != BARE]
    rows = []
    for case in who.cases:
        name = figure(_ALONE, case.name)
        cells = [results.shown(mode, name, one) for one in names]
        ratios = [_shown_times(results, mode, figure(what, case.name), TAPE) for what in (_ALONE, _SEVERAL)]
        rows.append([case.name, *cells, *ratios])
    return Table(["one at a time/s", *names, f"{TAPE} × {SDK}", "8 connections: ×"], rows)


def figure(what: str, where: str) -> str:
    """The name of one figure in one case."""
    return f"{what}, {where}"


def _passing(results: Results, mode: str, who: Who) -> Table:
    head = ["", "round trip µs", "added µs", "× plain proxy's", "p99 µs", "8 connections/s", "first reply ms"]
    rows = []
    for where in who.answers:
        for name in who.proxies:
            values = [results.value(mode, figure(what, where), name) for what in PASSING]
            cells = [show(value, "") for value in values]
            added, times = ("", "") if name == DIRECT else _added(results, mode, where, name)
            rows.append([f"{where}: {name}", cells[0], added, times, *cells[1:]])
    return Table(head, rows)


def _added(results: Results, mode: str, where: str, name: str) -> tuple[str, str]:
    """What a proxy adds to a round trip, and how many times what the plain one adds that is."""
    ours, plain = (results.added(mode, figure(_ROUND_TRIP, where), one, DIRECT) for one in (name, PLAIN))
    known = ours is not None and plain and math.isfinite(ours) and math.isfinite(plain) and name != PLAIN
    return show(ours, ""), show(ours / plain, "") if known and ours is not None and plain else ""


def _playing(results: Results, mode: str, who: Who) -> Table:
    head = ["", "one at a time/s", "× mcp SDK's", "8 connections/s", "× mcp SDK's", "first reply ms"]
    rows = []
    for case in who.cases:
        for name in who.players if case in WAYS else [name for name in who.players if name != BARE]:
            row = [f"{case.name}: {name}"]
            for what in (_ALONE, _SEVERAL):
                row.append(results.shown(mode, figure(what, case.name), name))
                row.append("" if name == SDK else _shown_times(results, mode, figure(what, case.name), name))
            rows.append([*row, results.shown(mode, figure(_FIRST, case.name), name)])
    return Table(head, rows)


def _holding(results: Results, who: Who, streams: int) -> Table:
    head = ["", "RSS MB, one stream", f"RSS MB, {streams:,} streams", "KB/stream"]
    rows = []
    for where in (PROXIED, LISTENING, SESSIONS):
        for name in who.proxies if where == PROXIED else who.players:
            if name not in (DIRECT, BARE):
                values = [results.value(FREE, figure(what, where), name) for what in (_ONE, _MANY, _EACH)]
                rows.append([f"{where}: {name}", *(show(value, "") for value in values)])
    return Table(head, rows)


def _shown_times(results: Results, mode: str, what: str, name: str) -> str:
    times = _times(results, mode, what, name, SDK)
    return "" if times is None or not math.isfinite(times) else show(times, "")


def _times(results: Results, mode: str, what: str, ours: str, other: str) -> float | None:
    return results.ratio(mode, (what, ours), (what, other))


def bars(results: Results) -> list[Bar]:
    """What replay promises, held against this run. Quotients are medians of those within each round."""
    promises = [(case, what) for case in CASES for what in (_ALONE, _SEVERAL)]
    return [
        *(_at_least(results, case, what, SDK, _TIMES) for case, what in promises),
        *(_at_least(results, case, what, RECORDER, 1.0) for case, what in promises),
    ]


def _at_least(results: Results, case: Case, what: str, of: str, times: float) -> Bar:
    name = figure(what, case.name)
    promise = f"{name}, pinned, against {of}'s"
    ours, theirs = (results.value(PINNED, name, one) for one in (TAPE, of))
    silent = theirs == math.inf or (PINNED, name, of) in results.unanswered
    if of == RECORDER and silent and ours is not None and math.isfinite(ours):
        word = results.shown(PINNED, name, of)
        return Bar(promise, f"{show(ours, '/s')}, {of}: {word}", True)
    measured = f"{show(ours, '/s')}, {of}: {show(theirs, '/s')}"
    return at_least(promise, _times(results, PINNED, name, TAPE, of), times, "×", measured)
