"""What recording costs: `python benchmarks/record.py`, with the `bench` extra installed.

Every round runs every contestant once, in turning order and with the same client, pinned to one core where the system
can, so that whatever else the machine does falls on all alike. Figures are medians over rounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter

from client import Client, FailedError
from contestants import DIRECT, RELAY, RIVAL, SERVER, TAPE, Contestant, contestants
from measure import Bar, Results, as_installed, at_least, at_most, modes, pinned, show, turns
from options import conclude, parser, say
from report import Report, Section, Table, losses, times

FIRST, ROUND_TRIP, STORED = "first reply ms", "round trip µs", "stored/s"
_ADDED, _PACE = 1.6, 60.0  # times what the plain relay adds; percent of mcp-rec's pace


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything; counts of calls are of exchanges, two messages each."""

    rounds: int
    startups: int
    warm_up: int
    calls: int
    burst: int
    seconds: float  # the most that one contestant may take for one figure


FULL = Size(7, 15, 300, 2_000, 20_000, 90)
QUICK = Size(3, 5, 100, 500, 20_000, 30)
SMOKE = Size(1, 1, 2, 10, 200, 20)


class Bench:
    """One run: what is measured, and with whom."""

    def __init__(self, size: Size, players: list[Contestant]) -> None:
        self.size = size
        self.players = players
        self.results = Results()
        self.mode = modes()[0]

    def run(self) -> None:
        with pinned(self.mode):
            self._rounds(1, self._start_up)  # warms up what the system keeps
            self.results = Results()
            self._rounds(self.size.startups, self._start_up)
            self._rounds(self.size.rounds, self._round_trip)
            self._rounds(self.size.rounds, self._burst)

    def _rounds(self, rounds: int, measure: Callable[[Contestant], None]) -> None:
        before = monotonic()
        for player in turns(self.players, rounds):
            measure(player)
        say(f"{measure.__name__.strip('_')}: {rounds} rounds, {monotonic() - before:.0f} s")

    @contextmanager
    def _started(self, player: Contestant, figure: str) -> Iterator[tuple[Client, Path]]:
        """A running contestant with a file of its own; what goes wrong with it is kept as its result."""
        with tempfile.TemporaryDirectory(prefix="mcp-tape-bench-", ignore_cleanup_errors=True) as place:
            file = Path(place, "tape.db")
            try:
                with Client(player.command(str(file), SERVER), self.size.seconds) as client:
                    yield client, file
            except (FailedError, OSError) as error:
                self.results.fail(self.mode, figure, player.name, str(error))

    def _start_up(self, player: Contestant) -> None:
        with self._started(player, FIRST) as (client, _):
            client.round_trips(1)
            seconds = perf_counter() - client.spawned
            client.close()
            self.results.add(self.mode, FIRST, player.name, seconds * 1e3)

    def _round_trip(self, player: Contestant) -> None:
        with self._started(player, ROUND_TRIP) as (client, _):
            client.round_trips(self.size.warm_up)
            found = median(client.round_trips(self.size.calls)) / 1e3
            client.close()
            self.results.add(self.mode, ROUND_TRIP, player.name, found)

    def _burst(self, player: Contestant) -> None:
        """Many calls on their way at once, until the recorder has ended and all is in its file."""
        if player.stored is None:
            return
        with self._started(player, STORED) as (client, file):
            client.round_trips(self.size.warm_up)
            before = perf_counter()
            messages = 2 * client.flood(self.size.burst)
            client.close()
            seconds = perf_counter() - before
            if player.stored(file) < client.messages:
                raise FailedError("it did not keep all messages")
            self.results.add(self.mode, STORED, player.name, messages / seconds)


def report(results: Results, mode: str, names: Sequence[str], absent: Sequence[str]) -> Report:
    """The whole report."""

    def added(figure: str, name: str) -> float | None:
        return None if name == DIRECT else results.added(mode, figure, name, DIRECT)

    def row(name: str) -> list[str]:
        both = ((results.shown(mode, figure, name), show(added(figure, name), "")) for figure in (FIRST, ROUND_TRIP))
        return [name, *(text for pair in both for text in pair), results.shown(mode, STORED, name)]

    table = Table(["", FIRST, "added ms", ROUND_TRIP, "added µs", STORED], [row(name) for name in names])
    pace = times(100, results.ratio(mode, (STORED, TAPE), (STORED, RIVAL)))
    bars: list[Bar] = [
        at_most("added to a round trip", added(ROUND_TRIP, TAPE), times(_ADDED, added(ROUND_TRIP, RELAY)), "µs",
                f"{_ADDED:g} × the plain relay's"),
        at_most(f"added to the first reply, below {RIVAL}'s", added(FIRST, TAPE), added(FIRST, RIVAL), "ms",
                f"{RIVAL}'s"),
        at_least(f"a burst stored at {_PACE:.0f} % of {RIVAL}'s pace", pace, _PACE, "%", f"{RIVAL}'s"),
    ]  # fmt: skip
    others = [name for name in names if name != DIRECT]
    lost = losses(results, others, lambda figure: figure == STORED)
    return Report(results, table, [Section(mode.capitalize(), table)], bars, lost, absent)


def main() -> int:
    options = _arguments()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    players, absent = contestants(peers=not options.smoke)
    bench = Bench(size, players)
    with as_installed(options.smoke):
        bench.run()
    return conclude(options, report(bench.results, bench.mode, [player.name for player in players], absent))


def _arguments() -> argparse.Namespace:
    return parser("Measure what mcp-tape record costs, beside its peers.").parse_args()


if __name__ == "__main__":
    sys.exit(main())
