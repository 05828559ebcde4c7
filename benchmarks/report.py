"""What a run of record.py says: tables, the bars, and where somebody else is better. replay.py ends in the same way."""

from __future__ import annotations

from collections.abc import Sequence

from contestants import DIRECT, RELAY, RIVAL, TAPE
from measure import FREE, PINNED, Bar, Results, at_most, modes, show, table

YARDSTICK = 'python -c "import click, orjson, sqlite3"'
_MORE_IS_BETTER = {"messages/s", "stored/s", "sustained/s"}
_MEMORY_GROWTH, _MEMORY_MORE = 1.2, 20.0  # either is flat enough: a ratio, or megabytes


def size_name(amount: int) -> str:
    return f"{amount / 1e6:g} MB"


def large_figures(amount: int) -> tuple[str, str]:
    """The names of the figures for a large message: to the server, and to the client."""
    return f"{size_name(amount)} to server", f"{size_name(amount)} to client"


def text(
    results: Results,
    names: Sequence[str],
    absent: Sequence[str],
    amounts: Sequence[int],
    bars: Sequence[Bar],
    title: str,
    markdown: bool,
) -> str:
    """The whole report."""
    strong = "### {}" if markdown else "{}"
    parts = [title]
    for mode in modes():
        parts += [strong.format(mode.capitalize()), _traffic(results, mode, names, amounts, markdown)]
        parts.append(f"{YARDSTICK}: {show(results.value(mode, 'start-up', YARDSTICK), 'ms')}")
    parts += [strong.format("Memory and disk"), _memory(results, names, markdown)]
    return "\n\n".join(parts + closing(results, bars, losses(results, names), absent, strong))


def closing(
    results: Results, bars: Sequence[Bar], lost: Sequence[str], absent: Sequence[str], strong: str
) -> list[str]:
    """What every report ends with: the bars, where somebody else is better, who is not here, and what failed."""
    parts = [strong.format("Bars"), _bullets(map(str, bars))]
    parts += [strong.format("Where mcp-tape is not the best"), _bullets(lost) or "nowhere"]
    if absent:
        parts.append(f"absent, not installed: {', '.join(absent)}")
    failed = [f"{who}, {figure}, {mode}: {why}" for (mode, figure, who), why in results.failures.items()]
    if failed:
        parts += [strong.format("Failed"), _bullets(failed)]
    return parts


def _traffic(results: Results, mode: str, names: Sequence[str], amounts: Sequence[int], markdown: bool) -> str:
    large = [figure for amount in amounts for figure in large_figures(amount)]
    head = ["", "round trip µs", "added µs", "p99 µs", "messages/s", "stored/s", "first reply ms", "added ms"]
    rows = []
    for name in names:
        row = [
            name,
            _show(results, mode, "round trip", name),
            show(results.added(mode, "round trip", name, DIRECT) if name != DIRECT else None, ""),
            *(_show(results, mode, figure, name) for figure in ("p99", "messages/s", "stored/s", "start-up")),
            show(results.added(mode, "start-up", name, DIRECT) if name != DIRECT else None, ""),
            *(_show(results, mode, figure, name) for figure in large),
        ]
        rows.append(row)
    return table(head + [f"{figure} ms" for figure in large], rows, markdown)


def _memory(results: Results, names: Sequence[str], markdown: bool) -> str:
    figures = ["messages before", "memory before", "messages", "memory", "memory peak", "sustained/s", "bytes/message"]
    head = ["", "messages", "RSS MB", "messages", "RSS MB", "peak MB", "sustained/s", "bytes/message", "stored"]
    rows = []
    for name in names:
        if name != DIRECT:
            stored = results.value(FREE, "stored", name)
            share = "–" if stored is None else f"{stored:.2%}"
            rows.append([name, *(_show(results, FREE, figure, name) for figure in figures), share])
    return table(head, rows, markdown)


def bars(results: Results) -> list[Bar]:
    """What the recorder promises, held against this run."""
    ours, relay, rival = (results.added(PINNED, "round trip", name, DIRECT) for name in (TAPE, RELAY, RIVAL))
    yardstick = results.value(PINNED, "start-up", YARDSTICK)
    before, after = (results.value(FREE, figure, TAPE) for figure in ("memory before", "memory"))
    few, many = (_show(results, FREE, figure, TAPE) for figure in ("messages before", "messages"))
    flat = None if not before else max(before * _MEMORY_GROWTH, before + _MEMORY_MORE)
    return [
        at_most("added round trip, pinned", ours, _times(2, relay), "µs", "2 × the plain relay's"),
        at_most(f"added round trip, pinned, below {RIVAL}'s", ours, rival, "µs", f"{RIVAL}'s"),
        at_most("added start-up, pinned", results.added(PINNED, "start-up", TAPE, DIRECT), _times(1.3, yardstick), "ms",
                f"1.3 × {YARDSTICK}"),
        at_most(f"memory flat from {few} to {many} messages", after or None, flat, "MB",
                f"1.2 × or {_MEMORY_MORE:.0f} MB more than before"),
    ]  # fmt: skip


def losses(results: Results, names: Sequence[str]) -> list[str]:
    """Every figure at which the plain relay or a peer beats mcp-tape."""
    found = []
    for mode, figure in sorted({(mode, figure) for mode, figure, _ in results.samples}):
        ours = results.value(mode, figure, TAPE)
        if ours is None or figure in ("messages", "messages before", "stored"):
            continue
        better = [
            f"{name} {show(other, '')}"
            for name in names
            if name not in (DIRECT, TAPE) and (other := results.value(mode, figure, name)) is not None
            if (other > ours and other != float("inf") if figure in _MORE_IS_BETTER else other < ours)
        ]
        if better:
            found.append(f"{figure}, {mode}: mcp-tape {show(ours, '')}, {', '.join(better)}")
    return found


def _show(results: Results, mode: str, figure: str, name: str) -> str:
    return show(results.value(mode, figure, name), "")


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _bullets(lines: Sequence[str] | map[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
