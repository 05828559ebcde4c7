"""The cost of a test: the same tests with tapes and with live servers; pytest runs each suite in a process."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from measure import HERE, TAPE, Bench, FailedError, Figure
from processes import Served, cost

NOTHING, MEMORY = "a test that does nothing", "SDK's server in memory"
LIVE, LIVE_URL = "live server, started", "live server, at a URL"
_CASES = "suites_cases.py"
# The name of each test in that file.
OTHERS = {NOTHING: "test_nothing", MEMORY: "test_memory", LIVE: "test_live_command", LIVE_URL: "test_live_url"}
TAPES = {
    "tape.streams()": "test_tape_streams",
    "tape.streams(), one cassette": "test_one_cassette",
    "tape.url": "test_tape_url",
    "tape.command": "test_tape_command",
}
_ABOVE = 5.0  # milliseconds above a test that does nothing
_SECONDS = 400


def suites(bench: Bench) -> None:
    """Milliseconds of a test that initializes, lists the tools and calls one, including pytest's own time."""
    bench.figures += [
        Figure(name, "ms", _ABOVE, base=NOTHING) if name.startswith("tape.streams") else Figure(name, "ms", 1.0, LIVE)
        for name in TAPES
    ]
    tests, rounds = bench.pick((100, 3), (20, 3), (1, 1))
    for name in (_CASES, "http_programs.py"):
        shutil.copy(HERE / name, bench.place / name)
    others = [NOTHING, MEMORY] if bench.size == "smoke" else list(OTHERS)
    with Served([sys.executable, str(bench.place / _CASES), "http"], 4 * _SECONDS) as live:
        _record(bench, live.url, tests)
        for warm_up in (True, False) if bench.size != "smoke" else (False,):
            for name in bench.rounds(1 if warm_up else rounds, [*others, *TAPES]):
                with bench.measure(name, TAPE if name in TAPES else name):
                    took = _pytest(bench, (OTHERS | TAPES)[name], 1 if warm_up else tests, live.url)
                    if not warm_up:
                        bench.say(f"{name}: {took:.1f} ms")
                        for tape in [name] if name in TAPES else TAPES:  # a row each; the others are columns
                            bench.add(tape, TAPE if name in TAPES else name, took)


def _record(bench: Bench, url: str, tests: int) -> None:
    """Record one test; the others get copies of its cassette."""
    _pytest(bench, TAPES["tape.command"], 1, url, SUITE_MODE="rewrite")
    (recorded,) = bench.place.glob("cassettes/*/*.db")
    kept = recorded.rename(bench.place / "cassettes" / "suite.db")
    for name in TAPES.values():
        for number in range(tests):
            shutil.copy(kept, recorded.with_name(f"{name}[{number}].db"))


def _pytest(bench: Bench, test: str, tests: int, url: str, **more: str) -> float:
    """The median time of the tests."""
    times = bench.place / "times.json"
    facts = {"SUITE_URL": url, "SUITE_TIMES": str(times), "SUITE_TESTS": str(tests)}
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(bench.place)}  # without other plugins
    plugins = ["-p", "no:cacheprovider", "-p", "mcp_tape.pytest_plugin", "-p", Path(_CASES).stem]
    where = ["--rootdir", str(bench.place), f"{bench.place / _CASES}::{test}"]
    command: Sequence[str] = [sys.executable, "-m", "pytest", "-q", *plugins, *where]
    done = cost(command, _SECONDS, os.environ | facts | plain | more)
    if f"{tests} passed" not in done.output:
        raise FailedError(done.output[-200:])
    return float(median(json.loads(times.read_text())))
