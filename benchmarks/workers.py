"""One cassette for many clients: `python benchmarks/workers.py`, with `bench` and wrk (`apt-get install wrk`).

wrk asks one, two and four workers the same, beside an application that only reads and writes. What counts on a machine
whose cores wrk shares is the processor time of a request: it says what another core would give.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import which
from textwrap import shorten

from client import FailedError, family, memory, ticks_of
from contestants import TAPE, program
from http_calls import LEGACY, Case, Talk
from http_client import Connection, Served, round_trips
from http_contestants import BARE, sdk_server
from measure import FREE, Bar, Results, as_installed, at_least, at_most, show, turns
from options import conclude, parser, say
from patterns import CALLS, Extent
from report import Report, Section, Table

MB = 1_000_000
_PROGRAMS = [sys.executable, str(Path(__file__).with_name("http_programs.py"))]
_CALLS = Extent(50, 0, 0)
_TICK = 1_000_000 / os.sysconf("SC_CLK_TCK")  # microseconds
_RATE, _CPU, _MIDDLE, _LATE, _RSS, _PSS = "requests/s", "CPU µs/request", "p50 ms", "p99 ms", "RSS MB", "PSS MB"
_FIGURES = (_RATE, _CPU, _MIDDLE, _LATE, _RSS, _PSS)
_MODERN, _SESSIONS, _SHARED = "no session", "a session a connection", "sessions, connections shared"
_TAPES = {_MODERN: Case("modern"), _SESSIONS: Case("legacy", LEGACY), _SHARED: Case("legacy", LEGACY)}
_MOST_CPU, _LEAST_RATE = 1.25, 1.0  # times those of one worker, which has more to do each time that it is woken
_UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
# wrk gives each thread a Lua of its own: https://github.com/wg/wrk/blob/master/SCRIPTING
_SCRIPT = """
local every, threads, at = {%s}, 0, 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function init() mine = every[number %% #every + 1] end
function request() at = at + 1; return mine[at %% #mine + 1] end
"""
_PAUSE = "function delay() return %d end\n"


@dataclass(frozen=True, slots=True)
class Size:
    rounds: int
    seconds: int  # of each load
    workers: Sequence[int]
    connections: int
    pause: int = 0  # milliseconds before each request of a connection

    @property
    def names(self) -> list[str]:
        return [_named(workers) for workers in self.workers]


FULL = Size(3, 5, (1, 2, 4), 32)
QUICK = Size(1, 3, (1, 2, 4), 32)
SMOKE = Size(1, 1, (1, 2), 4, pause=2)


class Bench:
    def __init__(self, size: Size, wrk: str, place: Path) -> None:
        self._size, self._wrk, self._place = size, wrk, place
        self.results = Results()

    def run(self) -> None:
        for name, case in _TAPES.items():
            tape = self._place / f"{case.version}.db"
            if not tape.exists():
                _record(case, tape)
            who = [partial(self._workers, name, case, tape, workers) for workers in self._size.workers]
            if name == _MODERN:
                who.append(partial(self._bare, name, case))
            for one in turns(who, self._size.rounds):
                one()
            say(f"{name}: {', '.join(self._rate(name, one) for one in self._size.names)}")

    def _rate(self, name: str, who: str) -> str:
        return f"{who} {self.results.shown(FREE, f'{_RATE}, {name}', who, '/s')}"

    def _workers(self, name: str, case: Case, tape: Path, workers: int) -> None:
        words = ["replay", str(tape), "--listen", "127.0.0.1:0", "--repeats", "cycle", "--workers", str(workers)]
        self._measure(name, case, [program(TAPE) or TAPE, *words], _named(workers))

    def _bare(self, name: str, case: Case) -> None:
        self._measure(name, case, [*_PROGRAMS, "bare", "json"], BARE)

    def _measure(self, name: str, case: Case, command: list[str], who: str) -> None:
        try:
            with Served(command, 60 + self._size.seconds) as served, ExitStack() as stack:
                script = self._script(name, case, served, stack)
                pids = family(served.pids[0])
                before = sum(map(ticks_of, pids))
                loaded = self._loaded(served.url, script)
                spent = sum(map(ticks_of, pids)) - before
                found = [memory([pid], 0) for pid in pids[1:] or pids]
                served.stop()
        except (FailedError, OSError) as error:
            self.results.fail(FREE, f"{_RATE}, {name}", who, shorten(str(error), 300))
            return
        values = [loaded.rate, spent * _TICK / loaded.requests, loaded.middle, loaded.late]
        values += [max(one.resident for one in found) / MB, sum(one.proportional for one in found) / len(found) / MB]
        for figure, value in zip(_FIGURES, values, strict=True):
            self.results.add(FREE, f"{figure}, {name}", who, value)

    def _script(self, name: str, case: Case, served: Served, stack: ExitStack) -> Path:
        """What each of wrk's threads asks: all the same, one session each, or of all sessions in turn."""
        clients = 1 if name == _MODERN else self._size.connections
        talks = [Talk(served.url, case) for _ in range(clients)]
        for talk in talks:
            talk.begin(stack.enter_context(Connection(served.url)))  # each of its own, as clients have
        asked = CALLS.holds(_CALLS)
        each = [talk.requests(asked) for talk in talks]
        if name == _SHARED:
            each = [[requests[number] for number in range(len(asked)) for requests in each]]
        path = self._place / "wrk.lua"
        script = _SCRIPT % ",".join(f"{{{','.join(map(_lua, requests))}}}" for requests in each)
        path.write_text(script + (_PAUSE % self._size.pause if self._size.pause else ""))
        return path

    def _loaded(self, url: str, script: Path) -> Loaded:
        many = str(self._size.connections)
        words = [self._wrk, "-t", many, "-c", many, "-d", f"{self._size.seconds}s", "--timeout", "30s", "--latency"]
        done = subprocess.run([*words, "-s", script, url], capture_output=True, text=True, timeout=120)
        if done.returncode or re.search("Socket errors|Non-2xx", done.stdout) or not done.stdout:
            raise FailedError(f"wrk: {done.stdout} {done.stderr}")
        return Loaded(done.stdout)


class Loaded:
    """What wrk prints."""

    def __init__(self, printed: str) -> None:
        self.requests = int(_found(r"(\d+) requests in", printed))
        self.rate = float(_found(r"Requests/sec: +([0-9.]+)", printed))
        self.middle, self.late = (self._latency(share, printed) for share in ("50%", "99%"))

    @staticmethod
    def _latency(share: str, printed: str) -> float:
        value, unit = re.findall(rf"{share} +([0-9.]+)(us|ms|s|m)", printed)[0]
        return float(value) * _UNITS[unit]


def _found(pattern: str, printed: str) -> str:
    found = re.search(pattern, printed)
    if not found:
        raise FailedError(f"wrk: {printed}")
    return found[1]


def _lua(request: bytes) -> str:
    """A text of Lua, every byte by its number."""
    return '"' + "".join(f"\\{byte:03}" for byte in request) + '"'


def _record(case: Case, tape: Path) -> None:
    command = [program(TAPE) or TAPE, "record", "-q", "-o", str(tape), "--url"]
    with Served(sdk_server(case), 60) as live, Served([*command, live.url], 60) as recorder:
        talk = Talk(recorder.url, case)
        with Connection(recorder.url) as connection:
            talk.begin(connection)
            asked = CALLS.holds(_CALLS)
            talk.check(round_trips(connection, talk.requests(asked))[1], asked)
        recorder.stop()


def _named(workers: int) -> str:
    return f"{workers} worker{'s' if workers > 1 else ''}"


def report(results: Results, size: Size) -> Report:
    rows, short = [], []
    for name in _TAPES:
        for who in (*size.names, *([BARE] if name == _MODERN else ())):
            cells = [results.shown(FREE, f"{figure}, {name}", who) for figure in _FIGURES]
            times = "" if who == size.names[0] else _times(results, name, who, size)
            rows.append([f"{name}: {who}", cells[0], times, *cells[1:]])
            short.append([f"{name}: {who}", cells[0], *cells[1:2], *cells[4:]])
    head = ["", _RATE, f"× {size.names[0]}", *_FIGURES[1:]]
    sections = [Section(f"{size.connections} connections of wrk", Table(head, rows))]
    table = Table(["", _RATE, _CPU, "RSS MB a worker", "PSS MB a worker"], short)
    return Report(results, table, sections, bars(results, size), _losses(results, size))


def _times(results: Results, name: str, who: str, size: Size) -> str:
    return show(results.ratio(FREE, (f"{_RATE}, {name}", who), (f"{_RATE}, {name}", size.names[0])), "")


def bars(results: Results, size: Size) -> list[Bar]:
    """No detour: a request costs what it costs one worker. Where there are cores, two do more than one."""
    first, *more = size.names
    found = []
    for name in (_MODERN, _SESSIONS):
        for who in more:
            figure = f"{_CPU}, {name}"
            ratio = results.ratio(FREE, (figure, who), (figure, first))
            found.append(at_most(f"{figure}, {who}", ratio, _MOST_CPU, "×", first))
        rate = f"{_RATE}, {name}"
        ratio = results.ratio(FREE, (rate, more[0]), (rate, first))
        found.append(at_least(f"{rate}, {more[0]}", ratio, _LEAST_RATE, "×", f"{first}'s; wrk has the same cores"))
    return found


def _losses(results: Results, size: Size) -> list[str]:
    """Where the application that only reads and writes needs less, or one worker does more than several."""
    found = []
    for name in _TAPES:
        one = results.value(FREE, f"{_RATE}, {name}", size.names[0])
        for who in size.names[1:]:
            more = results.value(FREE, f"{_RATE}, {name}", who)
            if one is not None and more is not None and more < one:
                found.append(f"{_RATE}, {name}: {who} {show(more, '')}, {size.names[0]} {show(one, '')}")
    ours, bare = (results.value(FREE, f"{_CPU}, {_MODERN}", who) for who in (size.names[0], BARE))
    if ours is not None and bare is not None and bare < ours:
        found.append(f"{_CPU}, {_MODERN}: {size.names[0]} {show(ours, '')}, {BARE} {show(bare, '')}")
    return found


def main() -> int:
    options = parser("Load several workers of a replay with wrk.").parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    wrk = which("wrk")
    if wrk is None:
        sys.exit("this needs wrk; on Debian: apt-get install wrk")
    with as_installed(options.smoke), tempfile.TemporaryDirectory(prefix="mcp-tape-bench-") as place:
        bench = Bench(size, wrk, Path(place))
        bench.run()
    return conclude(options, report(bench.results, size), "team.md")


if __name__ == "__main__":
    sys.exit(main())
