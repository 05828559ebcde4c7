"""The one client that drives every contestant, and what it can see of their processes.

Every wait is bounded: a timer kills the process that is measured, which ends the read.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter, perf_counter_ns, sleep

from programs import CHUNK, write

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello, tape"}}}\n'
# Requests on their way at once, sent in groups. Few enough to fit into a pipe: a recorder with a
# single thread would otherwise wait for the server while the server waits for it.
_WINDOW, _GROUP = 256, 64
_TICKS_OF_IDLING = 2


class FailedError(Exception):
    """A contestant gave no answer."""


class UnansweredError(FailedError):
    """A contestant works, and has no answer to a request that was recorded in another form."""


class Client:
    """A contestant that runs, with this process as its client."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self._seconds, self._started = seconds, monotonic()
        self.spawned = perf_counter()
        self._process = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._late = False
        self._timer = threading.Timer(seconds, self._give_up)
        self._timer.daemon = True
        self._timer.start()
        self._last = 0

    def __enter__(self) -> Client:
        return self

    def _give_up(self) -> None:
        self._late = True
        self._process.kill()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._timer.cancel()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        if self._late and isinstance(error, (FailedError, OSError)):
            raise FailedError(f"not done within {self._seconds:.0f} seconds") from None

    def round_trips(self, count: int) -> list[int]:
        """Nanoseconds of calls made one after the other."""
        times = []
        for _ in range(count):
            line = CALL % self._next()
            before = perf_counter_ns()
            write(self._to, line)
            self._reply()
            times.append(perf_counter_ns() - before)
        return times

    def flood(self, count: int, seconds: float = float("inf")) -> int:
        """Make so many calls with many on their way at once; fewer if the time is up. The number made."""
        until = monotonic() + seconds
        sent = answered = 0
        while answered < count:
            group = min(_GROUP, count - sent)
            if group and sent - answered <= _WINDOW - _GROUP:
                write(self._to, b"".join([CALL % self._next() for _ in range(group)]))
                sent += group
                continue
            answered += self._read().count(b"\n")
            if monotonic() > until:
                count = sent
        return answered

    def ask(self, requests: Sequence[bytes]) -> bytes:
        """The answers to these requests, each sent when the one before is answered."""
        answers = []
        for request in requests:
            write(self._to, request)
            while True:
                answers.append(self._read())
                if answers[-1].endswith(b"\n"):
                    break
        return b"".join(answers)

    def ask_at_once(self, requests: Sequence[bytes]) -> bytes:
        """The same with many on their way at once."""
        groups = [b"".join(requests[at : at + _GROUP]) for at in range(0, len(requests), _GROUP)]
        groups.reverse()
        answers, sent, answered = [], 0, 0
        while answered < len(requests):
            if groups and sent - answered <= _WINDOW - _GROUP:
                write(self._to, groups.pop())
                sent = min(sent + _GROUP, len(requests))
                continue
            answers.append(self._read())
            answered += answers[-1].count(b"\n")
        return b"".join(answers)

    def close(self) -> None:
        """End of file for the contestant, and wait until it and all its helpers have ended by themselves."""
        assert self._process.stdin
        helpers = [(pid, born_at(pid)) for pid in family(self._process.pid)]
        self._process.stdin.close()
        if self._process.wait() != 0:
            raise FailedError(f"ended with {self._process.returncode}")
        if not all_end(helpers, self._started + self._seconds):
            raise FailedError("it left a process behind that was still at work")

    @property
    def messages(self) -> int:
        """How many have passed, both ways together."""
        return 2 * self._last

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _reply(self) -> int:
        """Read to the end of a line; how many bytes that were."""
        size = 0
        while True:
            data = self._read()
            size += len(data)
            if data.endswith(b"\n"):
                return size

    def _read(self) -> bytes:
        data = os.read(self._from, CHUNK)
        if not data:
            raise FailedError("it stopped answering")
        return data


def duration(command: Sequence[str], seconds: float) -> float:
    """Seconds that a command takes from its spawn to its end."""
    before = perf_counter()
    process = subprocess.Popen(command)
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    # A wait with a timeout would look again only after 32 ms, then after 64: too coarse a clock.
    code = process.wait()
    took = perf_counter() - before
    timer.cancel()
    if code != 0:
        raise FailedError(f"{command} ended with {code}")
    return took


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of some processes together, in bytes.

    Resident memory (RSS) counts a page that two of them share twice, as after a fork. The proportional one (PSS)
    divides a page among all that have it, also among processes that have nothing to do with these. So there is a third:
    what each has alone, and once what one of them shares with whomever. Without Linux there are none but the first.
    """

    resident: int
    proportional: int
    once: int
    peak: int  # resident


def memory(pids: Sequence[int], seconds: float) -> Memory:
    """What they hold once they have nothing left to do, waiting for that as long as is allowed."""
    until = monotonic() + seconds
    before, ticks = -10, sum(map(ticks_of, pids))
    while ticks - before > _TICKS_OF_IDLING and monotonic() < until:
        sleep(0.5)
        before, ticks = ticks, sum(map(ticks_of, pids))
    status = [_sizes(pid, "status") for pid in pids]
    resident, peak = (sum(sizes.get(name, 0) for sizes in status) for name in ("VmRSS", "VmHWM"))
    rollups = [_sizes(pid, "smaps_rollup") for pid in pids]
    if not any(rollups):
        return Memory(resident, resident, resident, peak)
    alone = sum(sizes.get("Private_Clean", 0) + sizes.get("Private_Dirty", 0) for sizes in rollups)
    shared = max(sizes.get("Shared_Clean", 0) + sizes.get("Shared_Dirty", 0) for sizes in rollups)
    return Memory(resident, sum(sizes.get("Pss", 0) for sizes in rollups), alone + shared, peak)


def family(pid: int) -> list[int]:
    """A process and all below it."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(place.name))
        if fields:
            parents[int(place.name)] = int(fields[1])
    family = [pid] if pid in parents else []
    for member in family:  # grows while it is walked
        family += [child for child, parent in parents.items() if parent == member]
    return family


def all_end(helpers: Sequence[tuple[int, str]], until: float) -> bool:
    """Wait for processes that were ours to end, and end them if they do not: they would disturb what follows."""
    while left := [pid for pid, born in helpers if born and born_at(pid) == born]:
        if monotonic() > until:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return False
        sleep(0.05)
    return True


def born_at(pid: int) -> str:
    """When a process started, which tells it from a later one of the same number; "" if it has ended."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def ticks_of(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _stat(pid: int) -> list[str]:
    """The fields behind the name, which may itself hold spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []  # it has ended


def _sizes(pid: int, file: str) -> dict[str, int]:
    """The sizes in one of a process's files, in bytes."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines if line.endswith(" kB")}
