"""What reading.py runs, and what a run of it says: seconds, memory, and the bars."""

from __future__ import annotations

from dataclasses import dataclass

from measure import FREE, Bar, Results, at_most, show
from reading_cassettes import COMMON, RARE, SLOW
from reading_programs import COUNTED, HELD, READ, TAPE
from report import Report, Section, Table

FILE, MIDDLE = "the file", "the middle"  # what stands for them in the words of a command
_MB = 1e6
_GROWTH, _MORE = 1.2, 20.0  # either is flat enough: a ratio, or megabytes
_SAME = 2  # the times that it takes Python to start differ by as much


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a cassette. `most`: the bar for its time, by the time that reading every text takes.

    None: however large the cassette is, it takes the same.
    """

    name: str
    words: tuple[str, ...]
    most: float | None = None
    head: bool = False  # as in `show | head`: only the first ten lines are wanted


def _command(name: str, most: float | None, *words: str, head: bool = False) -> Reading:
    first, *rest = words or name.split()
    return Reading(name, (TAPE, first, FILE, *rest), most, head)


ALL_COUNTED, ALL_READ, ALL_HELD = YARDSTICKS = (
    Reading("all rows counted", (COUNTED, FILE)),
    Reading("every text read", (READ, FILE)),
    Reading("every text held", (HELD, FILE)),
)
COMMANDS = (
    _command("ls", 4),
    _command("show, ten lines", None, "show", head=True),
    _command("show SEQ", None, "show", MIDDLE),
    _command("show --filter, nothing fits", 5, "show", "--filter", f"tool:{SLOW} dur:>1m"),
    _command("stats", 10),
    _command("search, a rare word", 2, "search", RARE),
    _command("search, a common word", 15, "search", COMMON),
    _command("show", 30),
    _command("export --format jsonl", 10, "export"),
    _command("dump", 30),
    _command("check", 60),
)
READINGS = (*YARDSTICKS, *COMMANDS)


def seconds(messages: int) -> str:
    return f"seconds, {messages:,} messages"


def peak(messages: int) -> str:
    return f"peak, {messages:,} messages"


def report(results: Results, fewer: int, messages: int) -> Report:
    """The whole report."""
    head = ["", "seconds", f"× {ALL_READ.name}", *(f"peak MB, {number:,}" for number in (fewer, messages))]
    rows = [_row(results, fewer, messages, reading.name) for reading in READINGS]
    short = Table([*head[:3], "peak MB"], [[*row[:3], row[4]] for row in rows])
    rows.append([FILE, "", "", *(show(_megabytes(results, number, FILE), "") for number in (fewer, messages))])
    sections, lost = [Section("Reading", Table(head, rows))], losses(results, messages)
    return Report(results, short, sections, bars(results, fewer, messages), lost, of=f"{messages:,} messages")


def bars(results: Results, fewer: int, messages: int) -> list[Bar]:
    """What is promised: time by what it takes to read every text, and memory that does not grow with the file."""
    return [
        *(_fast(results, fewer, messages, reading) for reading in COMMANDS),
        *(_flat(results, fewer, messages, reading.name) for reading in COMMANDS),
    ]


def _fast(results: Results, fewer: int, messages: int, reading: Reading) -> Bar:
    if reading.most is not None:
        ratio = _ratio(results, messages, reading.name)
        return at_most(f"seconds, {reading.name}", ratio, reading.most, "×", ALL_READ.name)
    before, now = (results.value(FREE, seconds(number), reading.name) for number in (fewer, messages))
    limit = None if before is None else _SAME * before
    return at_most(f"seconds, {reading.name}", now, limit, "s", f"{_SAME:g} × what {fewer:,} messages take")


def losses(results: Results, messages: int) -> list[str]:
    """Every command that takes longer than it takes to read every text."""
    plain = results.value(FREE, seconds(messages), ALL_READ.name)
    return [
        f"seconds: {reading.name} {show(ours, '')}, {ALL_READ.name} {show(plain, '')}"
        for reading in COMMANDS
        if (ours := results.value(FREE, seconds(messages), reading.name)) is not None
        if plain is not None and plain < ours
    ]


def _flat(results: Results, fewer: int, messages: int, name: str) -> Bar:
    before = _megabytes(results, fewer, name)
    limit = None if before is None else max(before * _GROWTH, before + _MORE)
    of = f"{_GROWTH} × or {_MORE:.0f} MB more than for {fewer:,} messages"
    return at_most(f"peak, {name}", _megabytes(results, messages, name), limit, "MB", of)


def _row(results: Results, fewer: int, messages: int, name: str) -> list[str]:
    took = results.value(FREE, seconds(messages), name)
    ratio = _ratio(results, messages, name)
    peaks = (_megabytes(results, number, name) for number in (fewer, messages))
    return [name, *(show(value, "") for value in (took, ratio, *peaks))]


def _ratio(results: Results, messages: int, name: str) -> float | None:
    figure = seconds(messages)
    return results.ratio(FREE, (figure, name), (figure, ALL_READ.name))


def _megabytes(results: Results, messages: int, name: str) -> float | None:
    value = results.value(FREE, peak(messages), name)
    return None if value is None else value / _MB
