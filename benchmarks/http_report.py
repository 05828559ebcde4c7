"""What a run of http_bench.py says: tables, the bars, and where somebody else is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from contestants import DIRECT, TAPE
from http_calls import CASES, Case
from http_contestants import BARE, PLAIN, RECORDER, SDK
from measure import FREE, PINNED, Bar, Results, at_least, show, table
from report import closing

PROXIED, LISTENING, SESSIONS = "recorded", "replayed, modern", "replayed, legacy"
_TIMES = 3.0  # as many requests per second as the SDK's server answers, at least
_ROUND_TRIP, _P99, _PASSED = "round trip", "p99", "passed/s"
_ALONE, _SEVERAL, _FIRST = "one at a time/s", "8 connections/s", "first reply"
_ONE, _MANY, _EACH = "RSS, one stream", "RSS", "KB/stream"
_RATES = {_PASSED, _ALONE, _SEVERAL}
PASSING = (_ROUND_TRIP, _P99, _PASSED, _FIRST)
PLAYING = (_ALONE, _SEVERAL, _FIRST)
HOLDING = (_MANY, _ONE, _EACH)


@dataclass(frozen=True, slots=True)
class Who:
    """The names of all that took part, of the ways a server answered them, and the ways to run."""

    proxies: Sequence[str]
    players: Sequence[str]
    answers: Sequence[str]
    modes: Sequence[str]


def text(
    results: Results,
    who: Who,
    absent: Sequence[str],
    bars: Sequence[Bar],
    title: str,
    streams: int,
    markdown: bool,
) -> str:
    """The whole report."""
    strong = "### {}" if markdown else "{}"
    parts = [title]
    for mode in who.modes:
        parts += [strong.format(f"Recording over HTTP, {mode}"), _passing(results, mode, who, markdown)]
        parts += [strong.format(f"Replay over HTTP, {mode}"), _playing(results, mode, who, markdown)]
    parts += [strong.format(f"{streams:,} open streams"), _holding(results, who, streams, markdown)]
    return "\n\n".join(parts + closing(results, bars, losses(results, [*who.proxies, *who.players]), absent, strong))


def figure(what: str, where: str) -> str:
    """The name of one figure in one case."""
    return f"{what}, {where}"


def _passing(results: Results, mode: str, who: Who, markdown: bool) -> str:
    head = ["", "round trip µs", "added µs", "× plain proxy's", "p99 µs", "8 connections/s", "first reply ms"]
    rows = []
    for where in who.answers:
        for name in who.proxies:
            values = [results.value(mode, figure(what, where), name) for what in PASSING]
            cells = [show(value, "") for value in values]
            added, times = ("", "") if name == DIRECT else _added(results, mode, where, name)
            rows.append([f"{where}: {name}", cells[0], added, times, *cells[1:]])
    return table(head, rows, markdown)


def _added(results: Results, mode: str, where: str, name: str) -> tuple[str, str]:
    """What a proxy adds to a round trip, and how many times what the plain one adds that is."""
    ours, plain = (results.added(mode, figure(_ROUND_TRIP, where), one, DIRECT) for one in (name, PLAIN))
    known = ours is not None and plain and math.isfinite(ours) and math.isfinite(plain) and name != PLAIN
    return show(ours, ""), show(ours / plain, "") if known and ours is not None and plain else ""


def _playing(results: Results, mode: str, who: Who, markdown: bool) -> str:
    head = ["", "one at a time/s", "× mcp SDK's", "8 connections/s", "× mcp SDK's", "first reply ms"]
    rows = []
    for case in CASES:
        for name in who.players:
            row = [f"{case.name}: {name}"]
            for what in (_ALONE, _SEVERAL):
                row.append(show(results.value(mode, figure(what, case.name), name), ""))
                times = None if name == SDK else _times(results, mode, figure(what, case.name), name, SDK)
                row.append("" if times is None or not math.isfinite(times) else show(times, ""))
            rows.append([*row, show(results.value(mode, figure(_FIRST, case.name), name), "")])
    return table(head, rows, markdown)


def _holding(results: Results, who: Who, streams: int, markdown: bool) -> str:
    head = ["", "RSS MB, one stream", f"RSS MB, {streams:,} streams", "KB/stream"]
    rows = []
    for where in (PROXIED, LISTENING, SESSIONS):
        for name in who.proxies if where == PROXIED else who.players:
            if name not in (DIRECT, BARE):
                values = [results.value(FREE, figure(what, where), name) for what in (_ONE, _MANY, _EACH)]
                rows.append([f"{where}: {name}", *(show(value, "") for value in values)])
    return table(head, rows, markdown)


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
    if of == RECORDER and theirs == math.inf and ours is not None and math.isfinite(ours):
        return Bar(promise, f"{show(ours, '/s')}, {of} failed", True)
    measured = f"{show(ours, '/s')}, {of}: {show(theirs, '/s')}"
    return at_least(promise, _times(results, PINNED, name, TAPE, of), times, "×", measured)


def losses(results: Results, names: Sequence[str]) -> list[str]:
    """Every figure at which the plain proxy, the SDK's server or the peer beats mcp-tape."""
    found = []
    for mode, what in dict.fromkeys((mode, what) for mode, what, _ in results.samples):
        ours = results.value(mode, what, TAPE)
        if ours is None:
            continue
        better = [
            f"{name} {show(other, '')}"
            for name in dict.fromkeys(names)
            if name not in (DIRECT, TAPE) and (other := results.value(mode, what, name)) is not None
            if math.isfinite(other) and _wins(other, ours, what)
        ]
        if better:
            found.append(f"{what}, {mode}: {TAPE} {show(ours, '')}, {', '.join(better)}")
    return found


def _wins(other: float, ours: float, what: str) -> bool:
    more_is_better = what.partition(",")[0] in _RATES
    return other > ours or not math.isfinite(ours) if more_is_better else other < ours
