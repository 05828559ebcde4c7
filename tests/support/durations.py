"""The duration of the tests, and whether their marks fit: python -m tests.support.durations JUNIT.XML

`pytest -q --junit-xml=JUNIT.XML` writes that file. A case that takes longer than SLOW needs `pytest.mark.slow`. A
function whose cases are all marked, but take less than FAST together, needs no mark. The unmarked tests are the quick
loop: at least SHARE of the functions, within QUICK seconds on two cores. PROCESSES tests run at once there, so each
takes longer than it would alone.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SLOW, FAST = 1.0, 0.3  # seconds
SHARE, QUICK, PROCESSES = 0.9, 90, 4  # as in addopts of pyproject.toml
SHOWN = 20
ROOT = Path(__file__).resolve().parents[2]


class Case(NamedTuple):
    function: str  # its file and name
    id: str
    seconds: float
    marked: bool


def cases(report: Path, marked: set[str]) -> list[Case]:
    """The cases of a JUnit report. Shared set-up counts for the first case of a function."""
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        place, name = case.get("classname", ""), case.get("name", "")
        node = f"{place.replace('.', '/')}.py::{name}"
        found.append(Case(node.partition("[")[0], node, float(case.get("time", 0)), node in marked))
    return found


def marked_slow() -> set[str]:
    """The marked cases, as pytest collects them."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "--collect-only",
        "-m",
        "slow",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def by_function(all_cases: Iterable[Case]) -> dict[str, list[Case]]:
    functions: dict[str, list[Case]] = defaultdict(list)
    for case in all_cases:
        functions[case.function].append(case)
    return functions


def total(some: Iterable[Case]) -> float:
    return sum(case.seconds for case in some)


def report(all_cases: list[Case]) -> str:
    """The whole report as text."""
    functions = by_function(all_cases)
    quick = [case for case in all_cases if not case.marked]
    kept = len(by_function(quick))
    slow = [case for case in quick if case.seconds > SLOW]
    left_out = [some for some in functions.values() if all(case.marked for case in some)]
    fast = [some for some in left_out if total(some) < FAST]
    longest = sorted(functions.items(), key=lambda item: -total(item[1]))[:SHOWN]
    lines = [
        f"{len(all_cases):,} cases of {len(functions):,} functions: {total(all_cases):,.0f} seconds, "
        f"{total(all_cases) / 60 / PROCESSES:.1f} minutes for {PROCESSES} processes",
        f"quick loop: {len(quick):,} cases of {kept:,} functions ({kept / len(functions):.1%}, "
        f"at least {SHARE:.0%} wanted): {total(quick):,.0f} seconds, {total(quick) / PROCESSES:,.0f} "
        f"for {PROCESSES} processes (at most {QUICK} wanted)",
        "", f"The {SHOWN} functions that take longest:",
        *(f"{total(some):8.2f} s {len(some):5} cases  {name}" for name, some in longest),
        "", f"Without a mark, but longer than {SLOW} s: {len(slow)}",
        *(f"{case.seconds:8.2f} s  {case.id}" for case in sorted(slow, key=lambda case: -case.seconds)),
        "", f"Marked, but below {FAST} s in all: {len(fast)}",
        *(f"{total(some):8.2f} s  {some[0].function}" for some in sorted(fast, key=total)),
    ]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(cases(Path(sys.argv[1]), marked_slow())))
