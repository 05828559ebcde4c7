"""What a run of record.py says: tables, the bars, and where somebody else is better."""

from __future__ import annotations

from collections.abc import Sequence

from contestants import DIRECT, RELAY, RIVAL, TAPE, YARDSTICK
from measure import FREE, PINNED, Bar, Results, at_least, at_most, modes, show
from report import Report, Section, Table, losses, times

ROUND_TRIP, P99, FIRST = "round trip", "p99", "start-up"
PASSED, COMMITTED, STORED, SUSTAINED = "messages/s", "committed/s", "stored/s", "sustained/s"
MEMORY, PSS, RSS, PEAK = "memory", "PSS", "RSS", "memory peak"
BYTES, SMALL, KEPT = "bytes/message", "small recording", "stored"
FEW, MANY, BEFORE = "messages before", "messages", "memory before"
_MORE_IS_BETTER = {PASSED, COMMITTED, STORED, SUSTAINED}
_START_UP = 1.5  # times the yardstick
_GROWTH, _MORE = 1.2, 20.0  # either is flat enough: a ratio, or megabytes
_MEMORY, _BYTES, _SMALL = 40.0, 220.0, 20.0  # megabytes, bytes, kilobytes


def size_name(amount: int) -> str:
    return f"{amount / 1e6:g} MB"


def large_figures(amount: int) -> tuple[str, str]:
    """The names of the figures for a large message: to the server, and to the client."""
    return f"{size_name(amount)} to server", f"{size_name(amount)} to client"


def report(results: Results, names: Sequence[str], absent: Sequence[str], amounts: Sequence[int]) -> Report:
    """The whole report."""
    sections = []
    for mode in modes():
        below = f"{YARDSTICK}: {results.shown(mode, FIRST, YARDSTICK, 'ms')}"
        sections.append(Section(mode.capitalize(), _traffic(results, mode, names, amounts), below))
    sections.append(Section("Memory and disk", _memory(results, names)))
    others = [name for name in names if name != DIRECT]
    lost = losses(results, others, lambda figure: figure in _MORE_IS_BETTER, (FEW, MANY, KEPT))
    return Report(results, _short(results, names), sections, bars(results), lost, absent)


def _short(results: Results, names: Sequence[str]) -> Table:
    """What people choose by, pinned but for memory and disk."""
    head = ["", "added to a round trip µs", "added to the first reply ms", PASSED, COMMITTED, STORED]
    rows = [
        [
            name,
            *(_added(results, PINNED, figure, name) for figure in (ROUND_TRIP, FIRST)),
            *(results.shown(PINNED, figure, name) for figure in (PASSED, COMMITTED, STORED)),
            *(results.shown(FREE, figure, name) for figure in (BYTES, SMALL, MEMORY)),
        ]
        for name in names
    ]
    return Table([*head, BYTES, "12 exchanges KB", "memory MB"], rows)


def _traffic(results: Results, mode: str, names: Sequence[str], amounts: Sequence[int]) -> Table:
    large = [figure for amount in amounts for figure in large_figures(amount)]
    head = ["", "round trip µs", "added µs", "p99 µs", PASSED, COMMITTED, STORED, "first reply ms", "added ms"]
    rows = [
        [
            name,
            results.shown(mode, ROUND_TRIP, name),
            _added(results, mode, ROUND_TRIP, name),
            *(results.shown(mode, figure, name) for figure in (P99, PASSED, COMMITTED, STORED, FIRST)),
            _added(results, mode, FIRST, name),
            *(results.shown(mode, figure, name) for figure in large),
        ]
        for name in names
    ]
    return Table(head + [f"{figure} ms" for figure in large], rows)


def _memory(results: Results, names: Sequence[str]) -> Table:
    figures = [FEW, BEFORE, MANY, MEMORY, PSS, RSS, PEAK, SUSTAINED, BYTES, SMALL]
    head = ["", "messages", "MB", "messages", "MB", "PSS MB", "RSS MB", "peak RSS MB", SUSTAINED, BYTES]
    rows = []
    for name in names:
        if name != DIRECT:
            stored = results.value(FREE, KEPT, name)
            share = "–" if stored is None else f"{stored:.2%}"
            rows.append([name, *(results.shown(FREE, figure, name) for figure in figures), share])
    return Table([*head, "12 exchanges KB", "stored"], rows)


def _added(results: Results, mode: str, figure: str, name: str) -> str:
    return show(results.added(mode, figure, name, DIRECT) if name != DIRECT else None, "")


def bars(results: Results) -> list[Bar]:
    """What the recorder promises, held against this run."""
    ours, relay, rival = (results.added(PINNED, ROUND_TRIP, name, DIRECT) for name in (TAPE, RELAY, RIVAL))
    first, first_rival = (results.added(PINNED, FIRST, name, DIRECT) for name in (TAPE, RIVAL))
    yardstick = times(_START_UP, results.value(PINNED, FIRST, YARDSTICK))
    before, after = (results.value(FREE, figure, TAPE) for figure in (BEFORE, MEMORY))
    few, many = (results.shown(FREE, figure, TAPE) for figure in (FEW, MANY))
    flat = None if not before else max(before * _GROWTH, before + _MORE)
    return [
        at_most("added round trip, pinned", ours, times(2, relay), "µs", "2 × the plain relay's"),
        at_most(f"added round trip, pinned, below {RIVAL}'s", ours, rival, "µs", f"{RIVAL}'s"),
        at_most("added start-up, pinned", first, yardstick, "ms", f"{_START_UP:g} × {YARDSTICK}"),
        at_most(f"added start-up, pinned, below {RIVAL}'s", first, first_rival, "ms", f"{RIVAL}'s"),
        _stored(results),
        at_most("bytes a message", results.value(FREE, BYTES, TAPE), _BYTES, "bytes", "promised"),
        at_most("a recording of initialize, a list and ten calls", results.value(FREE, SMALL, TAPE), _SMALL, "KB",
                "promised"),
        at_most(f"memory after {many} messages, relay and recording process", after or None, _MEMORY, "MB",
                "promised; " + ", ".join(f"{what} {results.shown(FREE, what, TAPE, 'MB')}" for what in (PSS, RSS))),
        at_most(f"memory flat from {few} to {many} messages", after or None, flat, "MB",
                f"1.2 × or {_MORE:.0f} MB more than before"),
    ]  # fmt: skip


def _stored(results: Results) -> Bar:
    """Until the recorder has ended: only then is all of it done that mcp-rec has done when its last line is there."""
    ratio = results.ratio(PINNED, (STORED, TAPE), (STORED, RIVAL))
    measured = "; ".join(
        f"{figure}: {results.shown(PINNED, figure, TAPE)}, {RIVAL}: {results.shown(PINNED, figure, RIVAL)}"
        for figure in (STORED, COMMITTED)
    )
    return at_least(f"stored/s, pinned, above {RIVAL}'s", times(100, ratio), 100.0, "%", measured)
