"""What a test costs: `python benchmarks/suites.py`, with the extras `bench` and `test` installed.

The same tests, each of which initializes, lists the tools and calls one, run with pytest against a live server, against
tapes in each way to connect to them, and with the fixture of a peer. Each suite is a pytest run of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic

import suites_report as report
from client import FailedError
from http_client import Served
from http_contestants import RECORDER, proxies
from measure import FREE, Results, as_installed, turns
from options import conclude, parser, say

HERE = Path(__file__).parent
SERVER = HERE / "suites_server.py"
CASES = "suites_cases.py"
TESTS = {
    report.NOTHING: "test_nothing",
    report.MEMORY: "test_memory",
    report.LIVE: "test_live_command",
    report.LIVE_URL: "test_live_url",
    report.STREAMS: "test_tape_streams",
    report.ONE: "test_one_cassette",
    report.URL: "test_tape_url",
    report.COMMAND: "test_tape_command",
    RECORDER: "test_recorder",
}


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    tests: int
    warm_up: bool
    seconds: float  # the most that one suite may take


FULL, QUICK, SMOKE = Size(3, 200, True, 900), Size(3, 20, True, 200), Size(1, 1, False, 60)


class Bench:
    """One run: recordings made at its start, then the suites."""

    def __init__(self, size: Size, names: list[str], place: Path, url: str) -> None:
        self.size, self.names, self.results = size, names, Results()
        self._place = place
        self._environment = os.environ | {
            "SUITE_SERVER": str(SERVER),
            "SUITE_URL": url,
            "SUITE_TIMES": str(place / "times.json"),
            "SUITE_RECORDER": str(place / "recorder.json"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # no other plugin is measured
        }
        for kept, name in (CASES, CASES), (SERVER, SERVER.name), ("suites_conftest.py", "conftest.py"):
            shutil.copy(HERE / kept, place / name)

    def run(self) -> None:
        self._record()
        if RECORDER in self.names:
            self._record_with_peer()
        if self.size.warm_up:  # what is loaded, and compiled, for the first time
            for name in self.names:
                self._measure(name, 1)
            self.results = Results()
        for name in turns(self.names, self.size.rounds):
            before = monotonic()
            self._measure(name, self.size.tests)
            say(f"{name}: {self.size.tests} tests, {monotonic() - before:.0f} s")

    def _record(self) -> None:
        """One test, whose cassette all others get a copy of."""
        self._pytest(TESTS[report.COMMAND], 1, SUITE_MODE="rewrite")
        (recorded,) = self._place.glob("cassettes/*/*.db")
        kept = recorded.rename(self._place / "cassettes" / "suite.db")
        for name in report.TAPES:
            for number in range(self.size.tests):
                shutil.copy(kept, recorded.with_name(f"{TESTS[name]}[{number}].db"))

    def _record_with_peer(self) -> None:
        """Through its own recorder, in front of the live server. Where that fails, its suite will."""
        (peer,) = [proxy for proxy in proxies(peers=True)[0] if proxy.name == RECORDER]
        command = peer.command(self._environment["SUITE_URL"], self._environment["SUITE_RECORDER"])
        with suppress(FailedError, OSError), Served(command, self.size.seconds) as recorder:
            self._pytest(TESTS[report.LIVE_URL], 1, SUITE_URL=recorder.url)
            recorder.stop()

    def _measure(self, name: str, tests: int) -> None:
        before = monotonic()
        try:
            self._pytest(TESTS[name], tests)
        except FailedError as error:
            for figure in report.FIGURES:
                self.results.fail(FREE, figure, name, str(error))
            return
        whole = monotonic() - before
        each = json.loads((self._place / "times.json").read_text())
        for figure, value in zip(report.FIGURES, (1e3 * whole / tests, median(each)), strict=True):
            self.results.add(FREE, figure, name, value)

    def _pytest(self, test: str, tests: int, **more: str) -> None:
        plugin = "mcp_recorder.pytest_plugin" if test == TESTS[RECORDER] else "mcp_tape.pytest_plugin"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", plugin, f"{CASES}::{test}"]
        environment = self._environment | {"SUITE_TESTS": str(tests)} | more
        try:
            done = subprocess.run(
                command, cwd=self._place, env=environment, capture_output=True, timeout=self.size.seconds
            )
        except subprocess.TimeoutExpired:
            raise FailedError(f"not done within {self.size.seconds:.0f} seconds") from None
        said = done.stdout.decode()
        if done.returncode or f"{tests} passed" not in said:
            raise FailedError(said.rstrip().rpartition("\n")[2])


def main() -> int:
    options = parser("Measure what a test costs with a tape, beside a live server and a peer.").parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    absent = proxies(peers=not options.smoke)[1]
    left_out = {report.NOTHING, report.LIVE, report.LIVE_URL, RECORDER} if options.smoke else set(absent)
    names = [name for name in TESTS if name not in left_out]
    with (
        as_installed(options.smoke),
        tempfile.TemporaryDirectory(prefix="mcp-tape-bench-") as place,
        Served([sys.executable, str(SERVER), "http"], 10 * size.seconds) as live,
    ):
        bench = Bench(size, names, Path(place), live.url)
        bench.run()
    return conclude(options, report.report(bench.results, names, absent, size.tests))


if __name__ == "__main__":
    sys.exit(main())
