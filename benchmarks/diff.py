"""What a diff costs, in time and in memory: `python benchmarks/diff.py`.

Two recordings of the same calls, of which a hundredth is answered differently, are compared by mcp-tape and by plain
deepdiff. Every round runs everyone once, in turning order, each in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import diff_report as report
from client import FailedError
from diff_cassettes import CASES, EVERY, MADE_UP, Case, make_pair
from measure import FREE, Results, as_installed, turns
from options import conclude, parser, say

PROGRAMS = Path(__file__).with_name("diff_programs.py")


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    calls: int
    cases: tuple[Case, ...]
    memory: tuple[int, ...]  # of so many calls
    seconds: float  # the most that one comparison may take


FULL = Size(3, 10_000, CASES, (1_000, 10_000, report.MANY), 900)
QUICK = Size(1, 2_000, CASES, (1_000, 10_000), 300)
SMOKE = Size(1, 100, (MADE_UP,), (100,), 60)


class Bench:
    """One run."""

    def __init__(self, size: Size, place: Path) -> None:
        self.size, self.results, self._place = size, Results(), place

    def run(self) -> None:
        for case in self.size.cases:
            for name in turns(report.NAMES, self.size.rounds):
                self._measure(case, name)
        for case in report.remembered(self.size.cases):
            for calls in self.size.memory:
                self._remember(case, calls)

    def _measure(self, case: Case, name: str) -> None:
        wanted = {f"{report.SECONDS}, {case.name}": "seconds", f"{report.CHANGED}, {case.name}": "changed"}
        self._add(case, name, self.size.calls, wanted)

    def _remember(self, case: Case, calls: int) -> None:
        for name in (report.TAPE, report.HELD):
            self._add(case, name, calls, {report.peak(calls, case.name): "peak"})
        pair = make_pair(self._place, case, calls)
        self.results.add(FREE, report.peak(calls, case.name), report.FILES, sum(path.stat().st_size for path in pair))
        for path in pair:
            path.unlink()  # the largest may fill a small disk

    def _add(self, case: Case, name: str, calls: int, wanted: dict[str, str]) -> None:
        """Figures of one comparison, by what the program calls them."""
        try:
            told = self._told(case, name, calls)
        except FailedError as error:
            for figure in wanted:
                self.results.fail(FREE, figure, name, str(error))
            return
        say(f"{case.name}, {calls:,} calls, {name}: {told['seconds']:.1f} s, {told['peak'] / 1e6:.0f} MB")
        for figure, key in wanted.items():
            self.results.add(FREE, figure, name, told[key])

    def _told(self, case: Case, name: str, calls: int) -> dict[str, float]:
        command = [sys.executable, str(PROGRAMS), name, *map(str, make_pair(self._place, case, calls))]
        try:
            done = subprocess.run(command, capture_output=True, timeout=self.size.seconds)
        except subprocess.TimeoutExpired:
            raise FailedError(f"not done within {self.size.seconds:.0f} seconds") from None
        if done.returncode:
            raise FailedError(done.stderr.decode().rstrip().rpartition("\n")[2])
        told: dict[str, float] = json.loads(done.stdout)
        return told


def main() -> int:
    options = parser("Measure what comparing two recordings costs, beside plain deepdiff.").parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    with (
        as_installed(options.smoke),
        tempfile.TemporaryDirectory(prefix="mcp-tape-bench-") as place,
    ):
        bench = Bench(size, Path(place))
        bench.run()
    made = report.report(bench.results, size.cases, size.memory, size.calls, size.calls // EVERY)
    return conclude(options, made)


if __name__ == "__main__":
    sys.exit(main())
