"""The time from a kill of the recorder until everything received is on the cassette.

A client sends calls as fast as they are accepted. After enough answers, the relay (or its whole process group) is
killed with SIGKILL, the remaining output is read to its end, and the cassette is read until it has every request and
answer that was received. The time is measured from the kill.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import NamedTuple

from calls import Call, Talk, Way
from measure import TAPE, Bench, FailedError, Figure
from processes import Client, Connection, Served, ours, python
from programs import CHATTER, NOISE

_PROMISED = 1_000.0  # milliseconds
_CONNECTIONS = 8  # over HTTP, each with one call in flight
_SECONDS = 60.0  # the limit of every wait
_TURN = 0.005  # seconds between two checks of the cassette
_IN_A_BATCH, _PARTS, _KEYS = 200, 150, 20


class Storm(NamedTuple):
    """Calls with several lines in each answer."""

    call: Callable[[int], bytes]
    lines: int = 1
    most: int = 10_000  # answers before the kill; fewer if each is large


def kills(bench: Bench) -> None:
    """The slowest of all kills, of the relay and of the group in turns."""
    for name, storm in STORMS.items():
        for burst in bench.pick((10, 1_000, 10_000), (10, 1_000, 10_000), (10,)):
            if burst <= storm.most and bench.only in name:
                figure = f"{name}, after {burst:,} answers"
                bench.figures.append(Figure(figure, "ms", _PROMISED))
                for turn in range(bench.pick(6, 2, 2)):
                    _keep_slowest(bench, figure, partial(_kill_stdio, bool(turn % 2), storm, burst))
    for burst in bench.pick((10, 1_000), (10, 500), (10,)):
        figure = f"HTTP, after {burst:,} answers"
        if bench.only in figure:
            bench.figures.append(Figure(figure, "ms", _PROMISED))
            for _ in range(bench.pick(3, 2, 1)):
                _keep_slowest(bench, figure, partial(_kill_http, burst))


def _keep_slowest(bench: Bench, figure: str, kill: Callable[[Path], float]) -> None:
    with bench.measure(figure, TAPE), TemporaryDirectory(dir=bench.place, ignore_cleanup_errors=True) as place:
        before = bench.samples.pop((figure, TAPE), [0])  # the recorder may still be busy elsewhere
        bench.add(figure, TAPE, max(*before, kill(Path(place, "tape.db")) * 1e3))


def _kill_stdio(whole_group: bool, storm: Storm, burst: int, file: Path) -> float:
    """Seconds from the kill until everything received is stored."""
    command = ours("record", "-q", "-o", str(file), "--", *python("programs.py", "server"))
    with suppress(BrokenPipeError), Client(command, _SECONDS, start_new_session=True) as client:
        assert client.process.stdin and client.process.stdout
        sender = threading.Thread(target=_send_all, args=(client.process.stdin.fileno(), storm.call), daemon=True)
        sender.start()
        received = 0
        with open(os.dup(client.process.stdout.fileno()), "rb") as answers:
            received += sum(1 for _ in zip(range(burst), answers, strict=False))
            killed = monotonic()
            (os.killpg if whole_group else os.kill)(client.process.pid, signal.SIGKILL)
            received += sum(line.endswith(b"\n") for line in answers)
        sender.join(_SECONDS)
    if received < burst:
        raise FailedError(f"only {received} of {burst} answers came")
    return _kept_after(killed, file, received // storm.lines, received)


def _send_all(to: int, call: Callable[[int], bytes]) -> None:
    """Send calls without end, several per write, as from a full pipe."""
    with suppress(OSError):
        for first in count(1, 20):
            rest = memoryview(b"".join(call(number) + b"\n" for number in range(first, first + 20)))
            while rest:
                rest = rest[os.write(to, rest) :]


def _kill_http(burst: int, file: Path) -> float:
    """The same for a recorder that is a proxy."""
    with (
        Served(python("http_programs.py", "upstream", "/json"), _SECONDS) as server,
        Served(ours("record", "-q", "--url", server.url, "-o", str(file)), _SECONDS) as proxy,
    ):
        numbers, received, enough = count(1), [0] * _CONNECTIONS, threading.Event()

        def ask(place: int) -> None:
            talk = Talk(proxy.url, Way("JSON"))
            with suppress(OSError, FailedError), Connection(proxy.url) as connection:
                for number in numbers:
                    connection.ask(talk.requests([Call(number, f"token ghp_{number:036}")])[0])
                    received[place] += 1
                    if sum(received) >= burst:
                        enough.set()

        asking = [threading.Thread(target=ask, args=(place,)) for place in range(_CONNECTIONS)]
        for thread in asking:
            thread.start()
        enough.wait(_SECONDS)
        killed = monotonic()
        proxy.process.kill()
        for thread in asking:
            thread.join(_SECONDS)
    if sum(received) < burst:
        raise FailedError(f"only {sum(received)} of {burst} answers came")
    return _kept_after(killed, file, sum(received), sum(received))


def _kept_after(killed: float, file: Path, asked: int, answered: int) -> float:
    """Seconds until the cassette has these numbers of client and server frames."""
    while monotonic() < killed + _SECONDS:
        kept = _kept(file)
        if kept.get("client", 0) >= asked and kept.get("server", 0) >= answered:
            return monotonic() - killed
        sleep(_TURN)
    raise FailedError(f"{asked} and {answered} were received, {_kept(file)} are kept after {_SECONDS:.0f} s")


def _kept(file: Path) -> dict[str, int]:
    query = "SELECT sender, count(*) FROM frames WHERE kind IN ('message', 'batch', 'noise') GROUP BY sender"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        return dict(db.execute(query).fetchall())
    return {}


def _call(number: int, arguments: bytes, tool: bytes = b"echo") -> bytes:
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call",' % number
    return head + b'"params":{"name":"%b","arguments":{%b}}}' % (tool, arguments)


def _plain(number: int, tool: bytes = b"echo") -> bytes:
    return _call(number, b'"text":"hello %d"' % number, tool)


def _secret(number: int) -> bytes:
    token = b"ghp_" + b"%036d" % number
    return _call(number, b'"text":"use %b for it","api_key":"kJ8mN2pQ4x%d"' % (token, number))


def _secrets(number: int) -> bytes:
    keys = b",".join([b'{"name":"key %d","api_key":"kJ8mN2pQ4x%dz%d"}' % (n, number, n) for n in range(_KEYS)])
    return _call(number, b'"text":"hello","keys":[%b]' % keys, b"mirror")


def _structured(number: int) -> bytes:
    item = b'{"id":"item-%d-%d","ok":true,"tags":["a","b"],"count":%d}'
    return _call(number, b'"items":[%b]' % b",".join([item % (number, n, n) for n in range(_PARTS)]), b"mirror")


def _batch(number: int) -> bytes:
    first = number * _IN_A_BATCH
    pings = [b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % (first + n) for n in range(_IN_A_BATCH)]
    return b"[%b]" % b",".join(pings)


STORMS = {
    "small calls": Storm(_plain),
    "new secrets in each": Storm(_secret),
    "20 new secrets in each": Storm(_secrets, most=1_000),
    "five notifications before each answer": Storm(lambda number: _plain(number, b"chatter"), CHATTER),
    "199 lines of noise before each answer": Storm(lambda number: _plain(number, b"noise"), NOISE),
    "20 kB in each": Storm(lambda number: _call(number, b'"text":"%b"' % (b"lorem ipsum dolor " * 1_100)), most=1_000),
    "150 objects in each": Storm(_structured, most=1_000),
    "batches of 200": Storm(_batch, most=1_000),
    # The pace learned during the calm is wrong for the rest.
    "calm, then 150 objects in each": Storm(lambda number: (_plain if number < 5_000 else _structured)(number)),
}
