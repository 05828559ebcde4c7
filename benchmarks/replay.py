"""How fast a recording plays: `python benchmarks/replay.py`, with the `bench` extra installed.

Every round runs every contestant once, in turning order and with the same client, pinned to one core
and not, so that whatever else the machine does falls on all alike. Figures are medians over rounds.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter

import replay_report as report
from client import Client, FailedError, duration
from contestants import TAPE, YARDSTICK
from measure import FREE, Results, as_installed, machine, modes, pinned, turns
from options import conclude, parser
from replayers import LIVE, Conversation, Replayer, record, replayers, write_large

FEW = 10  # exchanges of the small recording


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
    seconds: float  # the most that one contestant may take for one figure


FULL = Size(15, 15, 3, 300, 4_000, 20_000, 100_000, 60)
QUICK = Size(3, 5, 0, 100, 1_000, 4_000, 100_000, 30)
SMOKE = Size(1, 1, 1, 3, 10, 300, 500, 20)


class Bench:
    """One run: recordings made at its start, and what is measured of playing them."""

    def __init__(self, size: Size, players: list[Replayer], place: Path, say: Callable[[str], None]) -> None:
        self.size = size
        self.players = players
        self.results = Results()
        self._place, self._say = place, say
        self._unable: dict[str, str] = {}  # who could not record, and why
        self._files: dict[tuple[str, str], str] = {}  # by figure and name
        self._conversations = [Conversation(size.warm_up + size.pipelined, other_ids=other) for other in (False, True)]

    def run(self) -> None:
        before = monotonic()
        self._record()
        self._say(f"recordings made, {monotonic() - before:.0f} s")
        self._rounds(FREE, "warm-up", 1, self._start_up)
        self.results = Results()
        for mode in modes():
            for name, why in self._unable.items():
                self.results.fail(mode, "recording", name, why)
            with pinned(mode):
                self._rounds(mode, "start-up", self.size.startups, self._start_up)
                self._rounds(mode, "start-up of peers, large", self.size.peer_startups, self._start_up_large)
                for conversation, figures in zip(self._conversations, report.RATES, strict=True):
                    self._rounds(
                        mode, figures[0], self.size.rounds, partial(self._one_at_a_time, conversation, figures[0])
                    )
                    self._rounds(mode, figures[1], self.size.rounds, partial(self._pipelined, conversation, figures[1]))

    def _record(self) -> None:
        """Through the real recorders; only the large ones are written without them."""
        for player in list(self.players):
            try:
                for figure, exchanges in (report.FIRST, FEW), ("rates", self.size.warm_up + self.size.pipelined):
                    self._files[figure, player.name] = record(player, self._place, exchanges, self.size.seconds)
            except (FailedError, OSError) as error:
                self.players.remove(player)
                self._unable[player.name] = str(error)
        large = self.players if self.size.peer_startups else [p for p in self.players if p.name == TAPE]
        for name, file in write_large(large, self._place, self.size.large, self.size.seconds).items():
            self._files[report.LARGE, name] = file

    def _rounds(self, mode: str, what: str, rounds: int, measure: Callable[[str, Replayer], None]) -> None:
        before = monotonic()
        for player in turns(self.players, rounds):
            measure(mode, player)
        self._say(f"{mode}: {what}, {rounds} rounds, {monotonic() - before:.0f} s")

    def _start_up(self, mode: str, player: Replayer) -> None:
        if player.name == LIVE:  # once a round, beside what it is compared with
            seconds = duration(YARDSTICK, self.size.seconds)
            self.results.add(mode, report.FIRST, report.YARDSTICK, seconds * 1e3)
        self._first_reply(mode, player, report.FIRST)
        if player.name == TAPE:
            self._first_reply(mode, player, report.LARGE)

    def _start_up_large(self, mode: str, player: Replayer) -> None:
        if player.record and player.name != TAPE:
            self._first_reply(mode, player, report.LARGE)

    def _first_reply(self, mode: str, player: Replayer, figure: str) -> None:
        conversation = self._conversations[0]

        def measure(client: Client) -> float:
            answer = client.ask(conversation.requests[:1])
            seconds = perf_counter() - client.spawned
            conversation.check(answer, 0)
            return seconds * 1e3

        self._measured(mode, player, figure, self._files[figure, player.name], measure)

    def _one_at_a_time(self, conversation: Conversation, figure: str, mode: str, player: Replayer) -> None:
        requests = conversation.requests[: self.size.warm_up + self.size.one_at_a_time]
        self._rate(mode, player, figure, conversation, requests, Client.ask)

    def _pipelined(self, conversation: Conversation, figure: str, mode: str, player: Replayer) -> None:
        self._rate(mode, player, figure, conversation, conversation.requests, Client.ask_at_once)

    def _rate(
        self,
        mode: str,
        player: Replayer,
        figure: str,
        conversation: Conversation,
        requests: Sequence[bytes],
        way: Callable[[Client, Sequence[bytes]], bytes],
    ) -> None:
        first, rest = requests[: self.size.warm_up], requests[self.size.warm_up :]

        def measure(client: Client) -> float:
            conversation.check(client.ask(first), 0)
            before = perf_counter()
            answers = way(client, rest)
            seconds = perf_counter() - before
            conversation.check(answers, len(first))
            return len(rest) / seconds

        self._measured(mode, player, figure, self._files["rates", player.name], measure)

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
            self.results.fail(mode, figure, player.name, str(error))


def main() -> int:
    options = parser("Measure how fast mcp-tape replay answers, beside a live server and a peer.").parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    players, absent = replayers(peers=not options.smoke)
    with as_installed(options.smoke), tempfile.TemporaryDirectory(prefix="mcp-tape-bench-") as place:
        bench = Bench(size, players, Path(place), lambda line: print(line, file=sys.stderr, flush=True))
        bench.run()
    title = f"{date.today()}, {machine()}"
    bars = report.bars(bench.results, size.large)
    names = [player.name for player in bench.players]
    print(report.text(bench.results, names, absent, bars, title, size.large, options.markdown))
    return conclude(options, title, bars, bench.results)


if __name__ == "__main__":
    sys.exit(main())
