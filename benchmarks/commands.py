"""Commands on large cassettes, each in a separate process: reading one, and comparing two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from measure import TAPE, Bench, Figure
from processes import Cost, cost, ours, python

from cassettes import COMMON, EVERY, RARE, SLOW, make_long, make_pair

READ = "every text read"
# The words of each command, and its limit relative to the time in which Python reads every text. None: its time must
# not depend on the size of the cassette.
COMMANDS: dict[str, tuple[list[str], float | None]] = {
    "ls": (["ls"], 4),
    "show, ten lines": (["show"], None),
    "show SEQ": (["show", "SEQ"], None),
    "show --filter": (["show", "--filter", f"tool:{SLOW} dur:>1m"], 5),
    "stats": (["stats"], 10),
    "search, a rare word": (["search", RARE], 2),
    "search, a common word": (["search", COMMON], 15),
    "show": (["show"], 30),
    "convert --to jsonl": (["convert"], 10),
    "convert --to txt": (["convert", "--to", "txt"], 30),
    "check": (["check"], 60),
}
_SAME, _GROWTH, _TEXT = 2.0, 1.5, 10.0  # times; times; milliseconds above a database
_PAIRS, _HELD, _OF_PAIRS, _OF_HELD = "deepdiff, every pair", "all answers held", 0.1, 0.25
_UNEQUAL = "deepdiff, unequal pairs"
_SECONDS = 600


def reading(bench: Bench) -> None:
    """Total seconds and peak memory, on a cassette and on one a tenth as large."""
    messages = bench.pick(1_000_000, 100_000, 400)
    few = f"{TAPE}, a tenth"
    files = {few: make_long(bench.place, messages // 10), TAPE: make_long(bench.place, messages)}
    for name, (_, most) in COMMANDS.items():
        bench.figures.append(Figure(name, "s", most or _SAME, READ if most else few))
        bench.figures.append(Figure(f"{name}, peak", "MB", _GROWTH, few))
    bench.figures.append(Figure("open 100 calls as text, above a database", "ms CPU", _TEXT))
    for name in bench.rounds(bench.pick(3, 1, 1), list(COMMANDS)):
        words, most = COMMANDS[name]
        with bench.measure(name, READ):
            bench.add(name, READ, cost(_program("read", files[TAPE]), _SECONDS).seconds)
        for who, file in files.items():
            with bench.measure(name, who):
                command, *rest = (str(messages // 20) if word == "SEQ" else word for word in words)
                took = cost(ours(command, str(file), *rest), _SECONDS, head=10 if "lines" in name else 0)
                bench.add(name, who, took.seconds)
                bench.add(f"{name}, peak", who, took.peak)
        bench.say(name)
    _open_text(bench)


def _open_text(bench: Bench) -> None:
    database = make_long(bench.place, 202)
    text = database.with_suffix(".jsonl")
    cost(ours("convert", str(database), str(text)), _SECONDS)
    best = {
        file: min(float(cost(_program("open", file), _SECONDS).output) for _ in range(bench.pick(20, 10, 1)))
        for file in (database, text)
    }
    bench.add("open 100 calls as text, above a database", TAPE, best[text] - best[database])


def diff(bench: Bench) -> None:
    """Seconds with modules loaded, and peak memory, compared with deepdiff on each pair of answers."""
    calls = bench.pick(10_000, 2_000, 100)
    cases: dict[str, dict[str, Any]] = {
        "the same ids": {},
        "other request ids": {"first_id": 1_000_000},
        "made-up ids": {"made_up": True},
    }
    for name, how in cases.items():
        pair = make_pair(bench.place, calls, **how)
        bench.figures += [
            Figure(name, "s", _OF_PAIRS, _PAIRS),
            Figure(f"{name}, answers found to differ", ""),
            Figure(f"{name}, peak", "MB"),
        ]
        for who in bench.rounds(bench.pick(3, 1, 1), [TAPE, _PAIRS, _UNEQUAL, _HELD]):
            with bench.measure(name, who):
                took, seconds, found = _compared(who, pair)
                bench.add(name, who, seconds)
                bench.add(f"{name}, answers found to differ", who, found)
                bench.add(f"{name}, peak", who, took.peak)
                if who == TAPE and found != calls // EVERY:
                    bench.failures[name, who] = f"{found} answers differ, {calls // EVERY} were changed"
        bench.say(name)
    most = bench.pick(100_000, 10_000, 100)
    figure = f"{most:,} calls, made-up ids, peak"
    bench.figures.append(Figure(figure, "MB", _OF_HELD if most > 10_000 else None, _HELD))
    for who in (TAPE, _HELD):
        with bench.measure(figure, who):
            bench.add(figure, who, _compared(who, make_pair(bench.place, most, made_up=True))[0].peak)


def _compared(who: str, pair: tuple[Path, Path]) -> tuple[Cost, float, int]:
    took = cost(_program(who, *pair), _SECONDS)
    seconds, found = json.loads(took.output)
    return took, seconds, found


def _program(*words: object) -> list[str]:
    return python("commands_programs.py", *map(str, words))
