"""What recording costs and how fast a recording plays over HTTP: `python benchmarks/http_bench.py`, with `bench`.

Every round runs every contestant once, in turning order and with the same client, pinned to one core
and not, so that whatever else the machine does falls on all alike. Figures are medians over rounds.
"""

from __future__ import annotations

import math
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from textwrap import shorten
from time import monotonic, perf_counter
from typing import TypeVar

import http_report as report
from client import FailedError, UnansweredError
from contestants import DIRECT
from http_calls import CASES, LEGACY, WAYS, Case, Talk
from http_client import Connection, Served, at_once, round_trips
from http_contestants import BARE, RECORDER, Player, Proxy, players, proxies, sdk_server, upstream
from http_programs import STEPS, STREAMS
from measure import FREE, Results, as_installed, modes, percentile, pinned, turns
from options import conclude, parser, say
from patterns import CALLS, Extent, Pattern, Recording

MB = 1_000_000
_SHOWN = 300  # characters of what went wrong
CONNECTIONS = 8
FEW = Extent(1, 0, 0)
OPEN = Pattern("open", Recording("open", CALLS.holds))  # a recording of its own
Anyone = TypeVar("Anyone", Proxy, Player)
# By the path at which the small server answers so.
ANSWERS = {"/json": Case("JSON"), "/sse": Case("SSE"), "/progress": Case("progress", steps=STEPS)}
# In each era, what it has that stays open.
HELD = (
    Case(report.LISTENING, as_json=False, pattern=OPEN),
    Case(report.SESSIONS, LEGACY, as_json=False, pattern=OPEN),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything, in requests."""

    modes: int  # of the ways to run, so many
    cases: Sequence[Case]
    rounds: int
    warm_up: int
    one_at_a_time: int
    at_once: int
    streams: int
    pings: int
    distinct: int  # calls that are made ten times each
    seconds: float  # the most that one contestant may take for one figure
    streams_seconds: float  # the same, for its streams
    settle_seconds: float  # the most that is waited for it to have nothing left to do

    @property
    def calls(self) -> int:
        return self.warm_up + self.one_at_a_time + self.at_once

    @property
    def extent(self) -> Extent:
        """What is recorded: twice as much as is asked for."""
        return Extent(2 * self.calls, self.pings, self.distinct)


FULL = Size(2, CASES, 5, 100, 300, 600, 1_000, 1_000, 100, 90, 40, 10)
QUICK = Size(1, CASES, 3, 30, 150, 300, 1_000, 500, 48, 60, 20, 5)
SMOKE = Size(1, (*WAYS, *CASES[-2:]), 1, 2, 6, 24, 20, 5, 4, 40, 40, 0)


class Bench:
    """One run: what is measured, and with whom."""

    def __init__(self, size: Size, present: list[Proxy], place: Path) -> None:
        self.size = size
        self.modes = modes()[: size.modes]
        self.proxies, self.players = present, players(present)
        self._keepers = [player for player in self.players if player.name != BARE]
        self.results = Results()
        self._place = place
        self._files: dict[tuple[str, str], str] = {}  # by player and recording
        self._unable: dict[tuple[str, str], str] = {}  # who could not record, and why

    def run(self) -> None:
        self._record()
        for mode in self.modes:
            with pinned(mode):
                for path, case in ANSWERS.items():
                    self._rounds(mode, f"recording, {case.name}", self.proxies, partial(self._pass, path, case))
                for case in self.size.cases:
                    # Who only reads and writes does not care in which order it is asked.
                    who = self.players if case in WAYS else self._keepers
                    self._rounds(mode, f"replay, {case.name}", who, partial(self._play, case))
        self._rounds(FREE, "streams", [p for p in self.proxies if p.name != DIRECT], self._proxy_streams, 1)
        for case in HELD:
            self._rounds(FREE, f"streams, {case.name}", self._keepers, partial(self._streams, case), 1)

    def _rounds(
        self, mode: str, what: str, who: list[Anyone], measure: Callable[[str, Anyone], None], rounds: int = 0
    ) -> None:
        before = monotonic()
        for one in turns(who, rounds or self.size.rounds):
            measure(mode, one)
        say(f"{mode}: {what}, {rounds or self.size.rounds} rounds, {monotonic() - before:.0f} s")

    @contextmanager
    def _kept(self, mode: str, figures: Sequence[str], where: str, name: str) -> Iterator[list[float]]:
        """A place for the values of these figures. What goes wrong with a contestant is its result."""
        names = [report.figure(what, where) for what in figures]
        values: list[float] = []
        try:
            yield values
        except (FailedError, OSError) as error:
            if isinstance(error, UnansweredError) and name == RECORDER:
                for figure in names:
                    self.results.no_answer(mode, figure, name, shorten(str(error), _SHOWN))
                return
            self.results.fail(mode, names[0], name, shorten(str(error), _SHOWN))
            names, values = names[1:], [math.inf] * len(names[1:])
        for figure, value in zip(names, values, strict=True):
            self.results.add(mode, figure, name, value)

    def _record(self) -> None:
        """Let everyone who plays record the SDK's server, one request after the other."""
        before = monotonic()
        for case in {case.recording: case for case in (*HELD, *self.size.cases)}.values():
            for player in self.players:
                try:
                    self._files[player.name, case.recording] = self._recorded(case, player)
                except (FailedError, OSError) as error:
                    self._unable[player.name, case.recording] = str(error)
        say(f"recordings made, {monotonic() - before:.0f} s")

    def _recorded(self, case: Case, player: Player) -> str:
        file = self._place / f"{player.name} {case.recording}"
        if not player.recorder:
            return str(file)
        seconds = self._seconds(case)
        with Served(sdk_server(case), seconds) as live, _between(player.recorder, live.url, file, seconds) as it:
            talk = Talk(it.url, case)
            with Connection(it.url) as connection, Connection(it.url) as stream:
                talk.begin(connection)
                asked = case.pattern.recording.holds(FEW if case in HELD else self.size.extent)
                talk.check(round_trips(connection, talk.requests(asked))[1], asked)
                if case in HELD:
                    stream.open_stream(talk.stream(len(asked) + 1))
            it.stop()
        return str(file)

    def _seconds(self, case: Case) -> float:
        return self.size.streams_seconds if case in HELD else self.size.seconds

    def _player(self, player: Player, case: Case) -> Served:
        """A running server that answers from what was recorded, if it could be recorded."""
        if why := self._unable.get((player.name, case.recording)):
            raise FailedError(f"not recorded: {why}")
        return Served(player.command(self._files[player.name, case.recording], case), self._seconds(case))

    def _pass(self, path: str, case: Case, mode: str, proxy: Proxy) -> None:
        """Calls to the small server, through the proxy."""
        with self._kept(mode, report.PASSING, case.name, proxy.name) as values, ExitStack() as stack:
            file = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self._place)), "tape.db")
            served = stack.enter_context(Served(upstream(path), self.size.seconds))
            if proxy.name != DIRECT:
                served = stack.enter_context(_between(proxy, served.url, file, self.size.seconds))
            times, rate, first = self._calls(served, case)
            served.stop()
            if proxy.stored and (kept := proxy.stored(file)) < self.size.calls:
                raise FailedError(f"it kept {kept} of {self.size.calls} answers")
            values += [median(times) / 1e3, percentile(times, 0.99) / 1e3, rate, first * 1e3]

    def _play(self, case: Case, mode: str, player: Player) -> None:
        """The calls that were recorded, answered by the recording."""
        with self._kept(mode, report.PLAYING, case.name, player.name) as values, self._player(player, case) as served:
            times, rate, first = self._calls(served, case)
            served.stop()
            values += [1e9 * len(times) / sum(times), rate, first * 1e3]

    def _calls(self, served: Served, case: Case) -> tuple[list[int], float, float]:
        """Nanoseconds of each call alone, calls per second of several at once, and seconds until the first answer."""
        alone = self.size.warm_up + self.size.one_at_a_time
        asked = case.pattern.asked(self.size.extent, self.size.calls)
        talk = Talk(served.url, case)
        with ExitStack() as stack:
            connections = [stack.enter_context(Connection(served.url)) for _ in range(CONNECTIONS)]
            talk.begin(connections[0])
            requests = talk.requests(asked)
            answers = [connections[0].ask(requests[0])]
            first = perf_counter() - served.spawned
            times, more = round_trips(connections[0], requests[1:alone])
            seconds, rest = at_once(connections, requests[alone:])
            talk.check([*answers, *more, *rest], asked)
        return times[self.size.warm_up - 1 :], len(rest) / seconds, first

    def _proxy_streams(self, mode: str, proxy: Proxy) -> None:
        """Memory of a proxy through which streams are open."""
        with self._kept(mode, report.HOLDING, report.PROXIED, proxy.name) as values, ExitStack() as stack:
            file = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self._place)), "tape.db")
            seconds = self.size.streams_seconds
            live = stack.enter_context(Served(upstream(STREAMS), seconds))
            served = stack.enter_context(_between(proxy, live.url, file, seconds))
            values += self._held_open(served, HELD[0])

    def _streams(self, case: Case, mode: str, player: Player) -> None:
        """Memory of a player that keeps streams open."""
        with self._kept(mode, report.HOLDING, case.name, player.name) as values, self._player(player, case) as served:
            values += self._held_open(served, case)

    def _held_open(self, served: Served, case: Case) -> tuple[float, float, float]:
        """Megabytes with many streams and with one, each of a client of its own, and kilobytes for each."""
        held: list[Connection] = []
        with ExitStack() as stack:
            desk = stack.enter_context(Connection(served.url))  # for handshakes

            def open_until(count: int) -> float:
                while len(held) < count:
                    talk = Talk(served.url, case)
                    talk.begin(desk)
                    held.append(stack.enter_context(Connection(served.url)))
                    held[-1].open_stream(talk.stream(len(held) + 1))
                return served.memory(self.size.settle_seconds).resident / MB

            one, many = open_until(1), open_until(self.size.streams)
            if lost := sum(not stream.is_open() for stream in held):
                raise FailedError(f"{lost} of {len(held)} streams did not stay open")
        served.stop()
        return many, one, (many - one) * 1e3 / (self.size.streams - 1)


def _between(proxy: Proxy, url: str, file: Path, seconds: float) -> Served:
    return Served(proxy.command(url, str(file)), seconds)


def _allow_descriptors(wanted: int) -> None:
    """For us and for those we start: a stream through a proxy takes two of its own."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most)
        )


def main() -> int:
    options = parser("Measure mcp-tape over HTTP, beside a plain proxy, the SDK's server and a peer.").parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    present, absent = proxies(peers=not options.smoke)
    _allow_descriptors(3 * size.streams + 100)
    with (
        as_installed(options.smoke),
        tempfile.TemporaryDirectory(prefix="mcp-tape-bench-", ignore_cleanup_errors=True) as place,
    ):
        bench = Bench(size, present, Path(place))
        bench.run()
    who = report.Who(
        [proxy.name for proxy in bench.proxies],
        [player.name for player in bench.players],
        [case.name for case in ANSWERS.values()],
        size.cases,
        bench.modes,
    )
    return conclude(options, report.report(bench.results, who, absent, size.streams))


if __name__ == "__main__":
    sys.exit(main())
