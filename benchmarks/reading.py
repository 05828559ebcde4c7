"""What reading a large cassette costs, in time and in memory: `python benchmarks/reading.py`.

Every round runs every command once, in turning order, each in a process of its own, beside plain Python that reads the
same texts. Then everyone once more on a tenth of it: what keeps no more than it shows needs no more memory for more.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import reading_report as report
from client import FailedError
from measure import FREE, Results, as_installed, turns
from options import conclude, parser, say
from reading_cassettes import make
from reading_report import Reading

PROGRAMS = Path(__file__).with_name("reading_programs.py")


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    messages: int
    seconds: float  # the most that one command may take

    @property
    def fewer(self) -> int:
        return self.messages // 10


FULL = Size(3, 1_000_000, 600)
QUICK = Size(1, 100_000, 120)
SMOKE = Size(1, 200, 60)


class Bench:
    """One run."""

    def __init__(self, size: Size, place: Path) -> None:
        self.size, self.results, self._place = size, Results(), place

    def run(self) -> None:
        for messages, rounds in ((self.size.fewer, 1), (self.size.messages, self.size.rounds)):
            file = make(self._place, messages)
            self.results.add(FREE, report.peak(messages), report.FILE, file.stat().st_size)
            for reading in turns(report.READINGS, rounds):
                self._measure(reading, file, messages)

    def _measure(self, reading: Reading, file: Path, messages: int) -> None:
        figures = report.seconds(messages), report.peak(messages)
        try:
            took, peak = self._run(reading, file)
        except FailedError as error:
            for figure in figures:
                self.results.fail(FREE, figure, reading.name, str(error))
            return
        say(f"{messages:,} messages, {reading.name}: {took:.2f} s, {peak / 1e6:.0f} MB")
        for figure, value in zip(figures, (took, peak), strict=True):
            self.results.add(FREE, figure, reading.name, value)

    def _run(self, reading: Reading, file: Path) -> tuple[float, int]:
        """Seconds from start to end, as a person waits for them, and the peak of memory."""
        meant = {report.FILE: str(file), report.MIDDLE: str(int(file.stem) // 2)}
        command = [sys.executable, PROGRAMS, *(meant.get(word, word) for word in reading.words)]
        started = perf_counter()
        with (
            subprocess.Popen(
                command, stdout=subprocess.PIPE if reading.head else subprocess.DEVNULL, stderr=subprocess.PIPE
            ) as process,
            subprocess.Popen(["head"], stdin=process.stdout, stdout=subprocess.DEVNULL)
            if reading.head
            else nullcontext(),
        ):
            if process.stdout:
                process.stdout.close()  # or the end of head would not be seen
            try:
                said = process.communicate(timeout=self.size.seconds)[1].decode()
            except subprocess.TimeoutExpired:
                process.kill()
                raise FailedError(f"not done within {self.size.seconds:.0f} seconds") from None
        took = perf_counter() - started
        if process.returncode:
            raise FailedError(f"exit code {process.returncode}: {said.rstrip()[-200:]}")
        return took, int(said.rstrip().rpartition("\n")[2])


def main() -> int:
    options = parser("Measure what reading a large cassette costs, beside plain Python.").parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    with (
        as_installed(options.smoke),
        tempfile.TemporaryDirectory(prefix="mcp-tape-bench-") as place,
    ):
        bench = Bench(size, Path(place))
        bench.run()
    return conclude(options, report.report(bench.results, size.fewer, size.messages))


if __name__ == "__main__":
    sys.exit(main())
