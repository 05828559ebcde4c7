"""How soon all that was received is on the cassette when the recorder is killed: `python benchmarks/kills.py`.

A client sends calls as fast as they are taken. When so many answers have come back, the relay (or its whole process
group) is killed with SIGKILL, what still comes is read to its end, and the cassette is looked at until it has each
request and each answer that was received. That time is measured from the kill.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import count, product
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

from client import FailedError
from contestants import TAPE, program
from http_client import Connection, Served
from http_contestants import upstream
from measure import FREE, Bar, Results, as_installed, at_most, machine, percentile, table
from options import conclude, parser

PROMISED = 1.0  # seconds
_CONNECTIONS = 8  # over HTTP, each with one call on its way
_SECONDS = 60.0  # the most that anything may take
_TURN = 0.005  # between two looks at the cassette


@dataclass(frozen=True, slots=True)
class Size:
    """How many rounds, and after how many answers the recorder is killed."""

    rounds: int
    bursts: tuple[int, ...]
    http_bursts: tuple[int, ...]


FULL = Size(10, (10, 1_000, 5_000, 20_000), (10, 1_000))
QUICK = Size(2, (10, 1_000, 10_000), (10, 500))
SMOKE = Size(1, (10, 100), (10,))


def plain(number: int) -> bytes:
    """A call without a secret."""
    return _call(number, b'"text":"hello %d"' % number)


def secret(number: int) -> bytes:
    """A call with a key that is new each time, whose answer has a token in running text."""
    token = b"ghp_" + b"%036d" % number
    return _call(number, b'"text":"use %b for it","api_key":"kJ8mN2pQ4x%d"' % (token, number))


def _call(number: int, arguments: bytes) -> bytes:
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call",' % number
    return head + b'"params":{"name":"echo","arguments":{%b}}}' % arguments


KINDS: dict[str, Callable[[int], bytes]] = {"plain": plain, "secrets": secret}


def stdio(whole_group: bool, call: Callable[[int], bytes], burst: int, file: Path) -> float:
    """Seconds from the kill of a recorder of a command until all that was received is kept."""
    server = [sys.executable, str(Path(__file__).parent / "programs.py"), "server"]
    command = [program(TAPE) or TAPE, "record", "-q", "-o", str(file), "--", *server]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdin and process.stdout
    with suppress(BrokenPipeError), _given_up_late(process), process:
        threading.Thread(target=_send_all, args=(process.stdin, call), daemon=True).start()
        received = sum(1 for _ in zip(range(burst), process.stdout, strict=False))
        killed = monotonic()
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
        received += sum(line.endswith(b"\n") for line in process.stdout)
    if received < burst:
        raise FailedError(f"only {received} of {burst} answers came")
    return _kept_after(killed, file, received)


def _send_all(to: object, call: Callable[[int], bytes]) -> None:
    """Calls without end, several with one write as they come from a pipe that is full."""
    with suppress(OSError, ValueError):
        for first in count(1, 20):
            to.write(b"".join(call(number) + b"\n" for number in range(first, first + 20)))  # type: ignore[attr-defined]
            to.flush()  # type: ignore[attr-defined]


def http(call: Callable[[int], bytes], burst: int, file: Path) -> float:
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
                threading.Thread(target=_ask, args=(url, call, numbers, received, n, burst, enough))
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
    return _kept_after(killed, file, sum(received))


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


def _kept_after(killed: float, file: Path, received: int) -> float:
    """Seconds until the cassette has so many requests and answers."""
    while monotonic() < killed + _SECONDS:
        if _kept(file) >= received:
            return monotonic() - killed
        sleep(_TURN)
    raise FailedError(f"{received} were received, {_kept(file)} are kept after {_SECONDS:.0f} s")


def _kept(file: Path) -> int:
    """Of requests and answers, how many of whichever are fewer."""
    query = "SELECT count(*) FROM messages WHERE kind = 'request' UNION ALL SELECT count(*) FROM messages WHERE status"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        return int(min(row[0] for row in db.execute(query + " = 'ok'")))
    return 0


def cases(size: Size) -> dict[str, Callable[[Path], float]]:
    """What is measured, by its name."""
    found: dict[str, Callable[[Path], float]] = {}
    for (kind, call), burst, group in product(KINDS.items(), size.bursts, (False, True)):
        found[f"stdio, {kind}, {burst:,}, {'group' if group else 'relay'}"] = partial(stdio, group, call, burst)
    for (kind, call), burst in product(KINDS.items(), size.http_bursts):
        found[f"HTTP, {kind}, {burst:,}, relay"] = partial(http, call, burst)
    return found


def measured(size: Size, place: Path, say: Callable[[str], None]) -> Results:
    """All cases, once in each round."""
    results = Results()
    for number, (name, case) in product(range(size.rounds), cases(size).items()):
        try:
            results.add(FREE, name, TAPE, case(place / f"{len(results.samples)}-{number}-{abs(hash(name))}.db"))
        except FailedError as error:
            results.fail(FREE, name, TAPE, str(error))
        if name == list(cases(size))[-1]:
            say(f"round {number + 1} of {size.rounds} done")
    return results


def text(results: Results, bar: Bar, title: str, markdown: bool) -> str:
    """The whole report."""
    rows = []
    for (_, name, _), seconds in results.samples.items():
        late = sum(one > PROMISED for one in seconds)
        figures = [f"{1000 * percentile(seconds, 0.5):,.0f}", f"{1000 * max(seconds):,.0f}"]
        rows.append([name, str(len(seconds)), *figures, str(late)])
    head = ["killed after so many answers", "kills", "p50 ms", "max ms", "over a second"]
    failed = [f"Failed: {name}: {why}" for (_, name, _), why in results.failures.items()]
    return "\n\n".join([title, table(head, rows, markdown), *failed, str(bar)])


def main() -> int:
    options = parser(__doc__.splitlines()[0]).parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else FULL
    with (
        as_installed(options.smoke),
        tempfile.TemporaryDirectory(
            prefix="mcp-tape-kills-",
            ignore_cleanup_errors=True,  # the last writer may still be at work
        ) as place,
    ):
        results = measured(size, Path(place), lambda line: print(line, file=sys.stderr))
    slowest = max(second for seconds in results.samples.values() for second in seconds)
    bar = at_most("all that was received is kept after a kill", slowest, PROMISED, "s", "a second")
    title = f"{date.today()}, {machine()}"
    print(text(results, bar, title, options.markdown))
    return conclude(options, title, [bar], results)


if __name__ == "__main__":
    sys.exit(main())
