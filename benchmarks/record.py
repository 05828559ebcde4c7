"""What recording costs: `python benchmarks/record.py`, with the `bench` extra installed.

Every round runs every contestant once, in turning order and with the same client, pinned to one core
and not, so that whatever else the machine does falls on all alike. Figures are medians over rounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter, sleep

import record_report as report
from client import Client, FailedError, duration, memory
from contestants import DIRECT, ORJSON_SERVER, SERVER, YARDSTICK, YARDSTICK_COMMAND, Contestant, contestants
from measure import FREE, Results, as_installed, modes, percentile, pinned, turns
from options import conclude, parser, say
from patterns import CALLS, TOOLS, Extent
from replayers import Conversation

MB = 1_000_000
_LOOK = 0.002  # seconds between two looks at a file


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything; counts of calls are of exchanges, two messages each."""

    rounds: int
    startups: int
    warm_up: int
    calls: int
    flood: int
    flood_seconds: float  # the most that one flood may take: some are slow
    messages: tuple[int, int]
    large: tuple[tuple[int, int], ...]  # bytes, and in how many rounds
    seconds: float  # the most that one contestant may take for one figure
    large_seconds: float  # the same, for one large message
    settle: float = 0.4  # seconds: what a recorder still loads when its first messages have passed has its own figure


FULL = Size(7, 15, 300, 2_000, 20_000, 1, (100_000, 1_000_000), ((5 * MB, 3), (100 * MB, 1)), 90, 25)
QUICK = Size(3, 5, 100, 500, 4_000, 0.3, (10_000, 100_000), ((5 * MB, 1),), 10, 10)
SMOKE = Size(1, 1, 2, 10, 200, 2, (200, 2_000), ((20_000, 1), (200_000, 1)), 20, 20, settle=0)


class Bench:
    """One run: what is measured, and with whom."""

    def __init__(self, size: Size, players: list[Contestant]) -> None:
        self.size = size
        self.players = players
        self.results = Results()

    def run(self) -> None:
        self._rounds(FREE, "warm-up", 1, self._start_up)
        self.results = Results()
        for mode in modes():
            with pinned(mode):
                self._rounds(mode, "start-up", self.size.startups, self._start_up)
                self._rounds(mode, "round trip", self.size.rounds, self._round_trip)
                self._rounds(mode, "flood", self.size.rounds, self._flood)
                for amount, rounds in self.size.large:
                    self._rounds(mode, report.size_name(amount), rounds, self._large(amount))
        self._rounds(FREE, "small recording", 1, self._small)
        self._rounds(FREE, "memory", 1, self._memory)

    def _rounds(self, mode: str, what: str, rounds: int, measure: Callable[[str, Contestant], None]) -> None:
        before = monotonic()
        for player in turns(self.players, rounds):
            measure(mode, player)
        say(f"{mode}: {what}, {rounds} rounds, {monotonic() - before:.0f} s")

    @contextmanager
    def _started(
        self, mode: str, player: Contestant, figure: str, seconds: float | None = None, server: Sequence[str] = SERVER
    ) -> Iterator[tuple[Client, Path]]:
        """A running contestant with a file of its own; what goes wrong with it is kept as its result."""
        with tempfile.TemporaryDirectory(prefix="mcp-tape-bench-", ignore_cleanup_errors=True) as place:
            file = Path(place, "tape.db")
            try:
                with Client(player.command(str(file), server), seconds or self.size.seconds) as client:
                    yield client, file
            except (FailedError, OSError) as error:
                self.results.fail(mode, figure, player.name, str(error))

    def _start_up(self, mode: str, player: Contestant) -> None:
        if player.name == DIRECT:  # once a round, beside what it is compared with
            seconds = duration(YARDSTICK_COMMAND, self.size.seconds)
            self.results.add(mode, report.FIRST, YARDSTICK, seconds * 1e3)
        with self._started(mode, player, report.FIRST) as (client, _):
            client.round_trips(1)
            seconds = perf_counter() - client.spawned
            client.close()
            self.results.add(mode, report.FIRST, player.name, seconds * 1e3)

    def _round_trip(self, mode: str, player: Contestant) -> None:
        with self._started(mode, player, report.ROUND_TRIP) as (client, _):
            client.round_trips(self.size.warm_up)
            times = [t / 1e3 for t in client.round_trips(self.size.calls)]
            client.close()
            self.results.add(mode, report.ROUND_TRIP, player.name, median(times))
            self.results.add(mode, report.P99, player.name, percentile(times, 0.99))

    def _flood(self, mode: str, player: Contestant) -> None:
        """Once until all is answered, once more until all is committed, and until the recorder has ended."""
        with self._started(mode, player, report.PASSED) as (client, file):
            client.round_trips(self.size.warm_up)
            before = perf_counter()
            messages = 2 * client.flood(self.size.flood, self.size.flood_seconds)
            self.results.add(mode, report.PASSED, player.name, messages / (perf_counter() - before))
            if player.committed:
                _wait(player.committed(file, client.messages), self.size.seconds)
                self.results.add(mode, report.COMMITTED, player.name, messages / (perf_counter() - before))
            client.close()
            if player.stored:  # what was put off is paid here
                self.results.add(mode, report.STORED, player.name, messages / (perf_counter() - before))

    def _large(self, amount: int) -> Callable[[str, Contestant], None]:
        def measure(mode: str, player: Contestant) -> None:
            for figure, way in zip(report.large_figures(amount), (Client.upload, Client.download), strict=True):
                with self._started(mode, player, figure, self.size.large_seconds) as (client, file):
                    way(client, 1_000)
                    sleep(self.size.settle)
                    seconds = way(client, amount)
                    client.close()
                    if player.stored and player.stored(file) < client.messages:
                        raise FailedError("it did not keep the message")
                    self.results.add(mode, figure, player.name, seconds * 1e3)

        return measure

    def _small(self, mode: str, player: Contestant) -> None:
        """What a short test leaves on the disk."""
        if player.stored:
            talk = Conversation([TOOLS, *CALLS.holds(Extent(10, 0, 0))])
            with self._started(mode, player, report.SMALL, server=ORJSON_SERVER) as (client, file):
                talk.check(client.ask(talk.requests), 0)
                client.close()
                self.results.add(mode, report.SMALL, player.name, _on_disk(file) / 1e3)

    def _memory(self, mode: str, player: Contestant) -> None:
        """Memory after some and after many messages of one session; then what is on the disk."""
        if player.name == DIRECT:
            return
        keep = self.results.add
        seconds = self.size.seconds
        with self._started(mode, player, report.MEMORY, 3 * seconds) as (client, file):
            few, many = self.size.messages
            pids = client.processes()
            client.flood(few // 2, seconds / 6)
            keep(mode, report.FEW, player.name, client.messages)
            held = memory(pids, self.size.settle and seconds / 6)
            keep(mode, report.BEFORE, player.name, held.once / MB)
            started, passed = perf_counter(), client.messages
            client.flood((many - passed) // 2, seconds)
            keep(mode, report.SUSTAINED, player.name, (client.messages - passed) / (perf_counter() - started))
            keep(mode, report.MANY, player.name, client.messages)
            held = memory(pids, self.size.settle and seconds / 3)
            keep(mode, report.MEMORY, player.name, held.once / MB)
            keep(mode, report.PSS, player.name, held.proportional / MB)
            keep(mode, report.RSS, player.name, held.resident / MB)
            keep(mode, report.PEAK, player.name, held.peak / MB)
            client.close()
            if player.stored:
                keep(mode, report.KEPT, player.name, player.stored(file) / client.messages)
                keep(mode, report.BYTES, player.name, _on_disk(file) / client.messages)


def _wait(is_there: Generator[bool, None, None], seconds: float) -> None:
    until = monotonic() + seconds
    with closing(is_there):
        while not next(is_there):
            if monotonic() > until:
                raise FailedError(f"not all was committed within {seconds:.0f} seconds")
            sleep(_LOOK)


def _on_disk(file: Path) -> int:
    """Bytes of a recording, with whatever was left beside it."""
    return sum(path.stat().st_size for path in file.parent.iterdir())


def main() -> int:
    options = _arguments()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    if options.messages:
        size = replace(size, messages=(options.messages // 10, options.messages))
    players, absent = contestants(peers=not options.smoke)
    bench = Bench(size, players)
    with as_installed(options.smoke):
        bench.run()
    names = [player.name for player in players]
    amounts = [amount for amount, _ in size.large]
    return conclude(options, report.report(bench.results, names, absent, amounts))


def _arguments() -> argparse.Namespace:
    options = parser("Measure what mcp-tape record costs, beside its peers.")
    options.add_argument("--messages", type=int, metavar="N", help="measure memory after so many, and after a tenth")
    return options.parse_args()


if __name__ == "__main__":
    sys.exit(main())
