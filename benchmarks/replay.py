"""How fast a recording plays: `python benchmarks/replay.py`, with the `bench` extra installed.

Every round runs every contestant once, in turning order and with the same client, pinned to one core
and not, so that whatever else the machine does falls on all alike. Figures are medians over rounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter

import replay_report as report
from client import Client, FailedError, UnansweredError, duration
from contestants import RIVAL, TAPE, YARDSTICK, YARDSTICK_COMMAND
from measure import FREE, Results, as_installed, modes, pinned, turns
from options import conclude, parser, say
from patterns import CALLS, PATTERNS, Extent, Pattern
from replayers import LIVE, Conversation, Replayer, record, replayers, write_large

FEW = Extent(9, 0, 0)  # the small recording, with its handshake ten exchanges


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything, in requests."""

    rounds: int
    startups: int
    peer_startups: int  # from the large recording, where a peer may need seconds
    warm_up: int
    one_at_a_time: int
    pipelined: int
    large: int
    pings: int
    distinct: int
    seconds: float  # the most that one contestant may take for one figure

    @property
    def extent(self) -> Extent:
        """What is recorded. All of it is asked for when pipelined; half of it is enough for one at a time."""
        return Extent(self.warm_up + self.pipelined, self.pings, self.distinct)


FULL = Size(11, 15, 3, 300, 4_000, 20_000, 100_000, 2_000, 200, 60)
QUICK = Size(3, 5, 0, 100, 1_000, 4_000, 100_000, 2_000, 200, 30)
SMOKE = Size(1, 1, 1, 3, 10, 300, 500, 5, 3, 20)


class Bench:
    """One run: recordings made at its start, and what is measured of playing them."""

    def __init__(
        self,
        size: Size,
        players: list[Replayer],
        patterns: list[Pattern],
        place: Path,
    ) -> None:
        self.size = size
        self.players, self.patterns = players, patterns
        self.results = Results()
        self._place = place
        self._unable: dict[str, str] = {}  # who could not record, and why
        self._files: dict[tuple[str, str], str] = {}  # by figure and name
        self._hello = Conversation([])

    def run(self) -> None:
        before = monotonic()
        self._record()
        say(f"recordings made, {monotonic() - before:.0f} s")
        self._rounds(FREE, "warm-up", 1, self._start_up)
        self.results = Results()
        for mode in modes():
            for name, why in self._unable.items():
                self.results.fail(mode, "recording", name, why)
            with pinned(mode):
                self._rounds(mode, "start-up", self.size.startups, self._start_up)
                self._rounds(mode, "start-up of peers, large", self.size.peer_startups, self._start_up_large)
                for pattern in self.patterns:
                    self._pattern(mode, pattern)

    def _pattern(self, mode: str, pattern: Pattern) -> None:
        extent, size = self.size.extent, self.size
        alone = Conversation(pattern.asked(extent, size.warm_up + size.one_at_a_time))
        figure = report.one_at_a_time(pattern)
        self._rounds(mode, figure, size.rounds, partial(self._rate, figure, pattern, alone, Client.ask))
        if pattern.pipelined:
            every = Conversation(pattern.asked(extent, extent.calls))
            figure = report.pipelined(pattern)
            self._rounds(mode, figure, size.rounds, partial(self._rate, figure, pattern, every, Client.ask_at_once))

    def _record(self) -> None:
        """Through the real recorders; only the large ones are written without them."""
        recordings = dict.fromkeys(pattern.recording for pattern in self.patterns)
        wanted = {recording.name: recording.holds(self.size.extent) for recording in recordings}
        wanted[report.FIRST] = CALLS.holds(FEW)
        for player in list(self.players):
            try:
                for name, asked in wanted.items():
                    file = self._place / f"{player.name}-{name}"
                    self._files[name, player.name] = record(player, file, asked, self.size.seconds)
            except (FailedError, OSError) as error:
                self.players.remove(player)
                self._unable[player.name] = str(error)
        large = self.players if self.size.peer_startups else [p for p in self.players if p.name == TAPE]
        asked = CALLS.holds(Extent(self.size.large - 1, 0, 0))
        for name, path in write_large(large, self._place, asked, self.size.seconds).items():
            self._files[report.LARGE, name] = path

    def _rounds(self, mode: str, what: str, rounds: int, measure: Callable[[str, Replayer], None]) -> None:
        before = monotonic()
        for player in turns(self.players, rounds):
            measure(mode, player)
        say(f"{mode}: {what}, {rounds} rounds, {monotonic() - before:.0f} s")

    def _start_up(self, mode: str, player: Replayer) -> None:
        if player.name == LIVE:  # once a round, beside what it is compared with
            seconds = duration(YARDSTICK_COMMAND, self.size.seconds)
            self.results.add(mode, report.FIRST, YARDSTICK, seconds * 1e3)
        self._first_reply(mode, player, report.FIRST)
        if player.name == TAPE:
            self._first_reply(mode, player, report.LARGE)

    def _start_up_large(self, mode: str, player: Replayer) -> None:
        if player.record and player.name != TAPE:
            self._first_reply(mode, player, report.LARGE)

    def _first_reply(self, mode: str, player: Replayer, figure: str) -> None:
        def measure(client: Client) -> float:
            answer = client.ask(self._hello.requests)
            seconds = perf_counter() - client.spawned
            self._hello.check(answer, 0)
            return seconds * 1e3

        self._measured(mode, player, figure, self._files[figure, player.name], measure)

    def _rate(
        self,
        figure: str,
        pattern: Pattern,
        conversation: Conversation,
        way: Callable[[Client, Sequence[bytes]], bytes],
        mode: str,
        player: Replayer,
    ) -> None:
        first, rest = conversation.requests[: self.size.warm_up], conversation.requests[self.size.warm_up :]

        def measure(client: Client) -> float:
            conversation.check(client.ask(first), 0)
            before = perf_counter()
            answers = way(client, rest)
            seconds = perf_counter() - before
            conversation.check(answers, len(first))
            return len(rest) / seconds

        self._measured(mode, player, figure, self._files[pattern.recording.name, player.name], measure)

    def _measured(
        self, mode: str, player: Replayer, figure: str, file: str, measure: Callable[[Client], float]
    ) -> None:
        """Of a running contestant; what goes wrong with it is kept as its result. A miss shows in its exit code."""
        try:
            with Client(player.replay(file), self.size.seconds) as client:
                value = measure(client)
                client.close()
                self.results.add(mode, figure, player.name, value)
        except (FailedError, OSError) as error:
            keep = self.results.fail
            if isinstance(error, UnansweredError) and player.name == RIVAL:
                keep = self.results.no_answer
            keep(mode, figure, player.name, str(error))


def main() -> int:
    options = _arguments()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    players, absent = replayers(peers=not options.smoke)
    patterns = [pattern for pattern in PATTERNS if options.only in pattern.name]
    with as_installed(options.smoke), tempfile.TemporaryDirectory(prefix="mcp-tape-bench-") as place:
        bench = Bench(size, players, patterns, Path(place))
        bench.run()
    names = [player.name for player in bench.players]
    return conclude(options, report.report(bench.results, names, absent, size.large))


def _arguments() -> argparse.Namespace:
    options = parser("Measure how fast mcp-tape replay answers, beside a live server and a peer.")
    options.add_argument("--only", default="", metavar="WORD", help="only the patterns with this word in their name")
    return options.parse_args()


if __name__ == "__main__":
    sys.exit(main())
