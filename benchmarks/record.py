"""The overhead of recording a server over pipes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter

from calls import HELLO, check, line, recorded
from measure import TAPE, Bench, FailedError, Figure
from processes import Client, ours, program, python

DIRECT, RELAY, RIVAL = "direct", "plain relay", "mcp-rec"
_SERVER = python("programs.py", "server")
_SECONDS = 60
_ADDED, _PACE = 1.6, 0.6


def record(bench: Bench) -> None:
    """The first reply, the round trip of a small call, and a burst until all of it is stored."""
    bench.figures += [
        Figure("first reply", "ms", 1.0, RIVAL, DIRECT),
        Figure("round trip", "µs", _ADDED, RELAY, DIRECT),
        Figure("stored", "messages/s", _PACE, RIVAL),
    ]
    who = [DIRECT, RELAY, TAPE, *([RIVAL] if program(RIVAL) else [])]
    warm, calls, burst = bench.pick((300, 2_000, 20_000), (100, 500, 10_000), (2, 10, 200))
    for one in bench.rounds(bench.pick(15, 7, 1), who):
        with bench.measure("first reply", one), _started(bench, one) as client:
            client.ask([HELLO])
            took = perf_counter() - client.spawned
            client.close()
            bench.add("first reply", one, took * 1e3)
    for one in bench.rounds(bench.pick(11, 5, 1), who):
        with bench.measure("round trip", one), _started(bench, one) as client:
            requests = [line(call) for call in recorded(warm + calls)]
            client.ask(requests[:warm])
            times: list[int] = []
            check(client.ask(requests[warm:], times), recorded(warm + calls)[warm:])
            client.close()
            bench.add("round trip", one, median(times) / 1e3)
    for one in bench.rounds(bench.pick(7, 3, 1), who[2:]):
        with bench.measure("stored", one), _started(bench, one) as client:
            requests = [line(call) for call in recorded(warm + burst)]
            client.ask(requests[:warm])
            before = perf_counter()
            client.ask_at_once(requests[warm:])
            client.close()
            took = perf_counter() - before
            if _stored(bench.place / one) < 2 * (warm + burst):
                raise FailedError("it did not keep all messages")
            bench.add("stored", one, 2 * burst / took)


def _started(bench: Bench, who: str) -> Client:
    file = bench.place / who
    file.unlink(missing_ok=True)
    tape = ours("record", "-q", "-o", str(file), "--")
    rival = [program(RIVAL) or RIVAL, "record", "-o", str(file), "--"]
    before = {DIRECT: [], RELAY: python("programs.py", "relay"), TAPE: tape, RIVAL: rival}[who]
    return Client([*before, *_SERVER], _SECONDS)


def _stored(path: Path) -> int:
    if path.name == RIVAL:
        with path.open("rb") as file:
            return sum(line.startswith(b"{") for line in file)
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM messages").fetchone()[0])
