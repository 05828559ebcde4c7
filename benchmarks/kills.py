"""How soon all that was received is on the cassette when the recorder is killed: `python benchmarks/kills.py`.

A client sends calls as fast as they are taken. When so many answers have come back, the relay (or its whole process
group) is killed with SIGKILL, what still comes is read to its end, and the cassette is looked at until it has each
request and each answer that was received. That time is measured from the kill.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from urllib.parse import urlsplit

from client import FailedError
from contestants import TAPE, program
from http_client import Connection, Served
from http_contestants import upstream
from kills_storms import STORMS, Storm
from measure import FREE, Results, as_installed, at_most, show
from options import conclude, parser, say
from report import Report, Section, Table

PROMISED = 1.0  # seconds
_CONNECTIONS = 8  # over HTTP, each with one call on its way
_SECONDS = 60.0  # the most that anything may take
_TURN = 0.005  # between two looks at the cassette


@dataclass(frozen=True, slots=True)
class Size:
    """How many rounds, and after how many answers the recorder is killed."""

    rounds: int
    bursts: tuple[int, ...]
    heavy_bursts: tuple[int, ...]
    http_bursts: tuple[int, ...]


FULL = Size(10, (10, 1_000, 5_000, 20_000), (10, 200, 1_000), (10, 1_000))
QUICK = Size(2, (10, 1_000, 10_000), (10, 300, 1_000), (10, 500))
SMOKE = Size(1, (10,), (10,), (10,))


def stdio(whole_group: bool, storm: Storm, burst: int, file: Path) -> float:
    """Seconds from the kill of a recorder of a command until all that was received is kept."""
    server = [sys.executable, str(Path(__file__).parent / "programs.py"), "server"]
    command = [program(TAPE) or TAPE, "record", "-q", "-o", str(file), "--", *server]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdin and process.stdout
    with suppress(BrokenPipeError), _given_up_late(process), process:
        threading.Thread(target=_send_all, args=(process.stdin, storm.call), daemon=True).start()
        received = sum(1 for _ in zip(range(burst), process.stdout, strict=False))
        killed = monotonic()
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
        received += sum(line.endswith(b"\n") for line in process.stdout)
    if received < burst:
        raise FailedError(f"only {received} of {burst} answers came")
    return _kept_after(killed, file, received // storm.lines, received)


def _send_all(to: object, call: Callable[[int], bytes]) -> None:
    """Calls without end, several with one write as they come from a pipe that is full."""
    with suppress(OSError, ValueError):
        for first in count(1, 20):
            to.write(b"".join(call(number) + b"\n" for number in range(first, first + 20)))  # type: ignore[attr-defined]
            to.flush()  # type: ignore[attr-defined]


def http(storm: Storm, burst: int, file: Path) -> float:
    """The same of a recorder that is a proxy."""
    tape = program(TAPE) or TAPE
    with Served(upstream("/json"), _SECONDS) as server, tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [tape, "record", "-q", "--url", server.url, "-o", str(file)], stdout=subprocess.PIPE, stderr=out
        )
        assert process.stdout
        with _given_up_late(process), process:
            url = process.stdout.readline().decode().strip()
            numbers, received = count(1), [0] * _CONNECTIONS
            enough = threading.Event()
            asking = [
                threading.Thread(target=_ask, args=(url, storm.call, numbers, received, n, burst, enough))
                for n in range(_CONNECTIONS)
            ]
            for thread in asking:
                thread.start()
            enough.wait(_SECONDS)
            killed = monotonic()
            process.kill()
            for thread in asking:
                thread.join(_SECONDS)
    if sum(received) < burst:
        raise FailedError(f"only {sum(received)} of {burst} answers came")
    return _kept_after(killed, file, sum(received), sum(received))


def _ask(
    url: str,
    call: Callable[[int], bytes],
    numbers: Iterator[int],
    received: list[int],
    place: int,
    burst: int,
    enough: threading.Event,
) -> None:
    head = (
        f"POST {urlsplit(url).path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n"
    )
    with suppress(OSError, FailedError), Connection(url) as connection:
        for number in numbers:
            body = call(number)
            connection.ask((head % len(body)).encode() + body)
            received[place] += 1
            if sum(received) >= burst:
                enough.set()


@contextmanager
def _given_up_late(process: subprocess.Popen[bytes]) -> Iterator[None]:
    timer = threading.Timer(_SECONDS, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        process.kill()


def _kept_after(killed: float, file: Path, asked: int, answered: int) -> float:
    """Seconds until the cassette has so many frames of the client and of the server."""
    while monotonic() < killed + _SECONDS:
        kept = _kept(file)
        if kept.get("client", 0) >= asked and kept.get("server", 0) >= answered:
            return monotonic() - killed
        sleep(_TURN)
    raise FailedError(f"{asked} and {answered} were received, {_kept(file)} are kept after {_SECONDS:.0f} s")


def _kept(file: Path) -> dict[str, int]:
    """The frames of each side: the facts, of which all else is derived."""
    query = "SELECT sender, count(*) FROM frames WHERE kind IN ('message', 'batch', 'noise') GROUP BY sender"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        return dict(db.execute(query).fetchall())
    return {}


def cases(size: Size) -> dict[str, Callable[[Path], float]]:
    """What is measured, by its name."""
    found: dict[str, Callable[[Path], float]] = {}
    for name, storm in STORMS.items():
        for burst, group in product(size.heavy_bursts if storm.is_heavy else size.bursts, (False, True)):
            found[f"stdio, {name}, {burst:,}, {'group' if group else 'relay'}"] = partial(stdio, group, storm, burst)
    for name, burst in product(("plain", "secrets"), size.http_bursts):
        found[f"HTTP, {name}, {burst:,}, relay"] = partial(http, STORMS[name], burst)
    return found


def measured(size: Size, place: Path, only: str) -> Results:
    """All cases, once in each round."""
    results = Results()
    wanted = [(name, case) for name, case in cases(size).items() if only in name]
    for number in range(size.rounds):
        for name, case in wanted:
            file = place / f"{number}-{name.replace(', ', '-')}.db"
            try:
                results.add(FREE, name, TAPE, case(file))
            except FailedError as error:
                results.fail(FREE, name, TAPE, str(error))
        say(f"round {number + 1} of {size.rounds} done")
    return results


def report(results: Results) -> Report:
    """The whole report."""
    rows, by_storm = [], defaultdict(list)
    for (_, name, _), seconds in results.samples.items():
        by_storm[name.rsplit(", ", 2)[0]] += seconds
        rows.append(_row(name, seconds))
    head = ["", "kills", "p50 ms", "max ms", "over a second"]
    slowest = max(second for seconds in results.samples.values() for second in seconds)
    bar = at_most("all that was received is kept after a kill", slowest, PROMISED, "s", "a second")
    short = Table(head, [_row(name, seconds) for name, seconds in by_storm.items()])
    return Report(results, short, [Section("Killed after so many answers", Table(head, rows))], [bar], [])


def _row(name: str, seconds: list[float]) -> list[str]:
    late = sum(one > PROMISED for one in seconds)
    return [name, str(len(seconds)), *(show(1e3 * value, "") for value in (median(seconds), max(seconds))), str(late)]


def main() -> int:
    options = _arguments()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    with (
        as_installed(options.smoke),
        tempfile.TemporaryDirectory(
            prefix="mcp-tape-kills-",
            ignore_cleanup_errors=True,  # the last writer may still be at work
        ) as place,
    ):
        results = measured(size, Path(place), options.only)
    return conclude(options, report(results))


def _arguments() -> argparse.Namespace:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--only", default="", metavar="WORD", help="only the cases with this word in their name")
    return options.parse_args()


if __name__ == "__main__":
    sys.exit(main())
