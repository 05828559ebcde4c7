"""Start, query, watch and end every contestant: over pipes, over HTTP, or as a command that runs alone.

Every wait is bounded: a timer kills the measured process, which ends the read.
"""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, perf_counter, perf_counter_ns, sleep
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from measure import HERE, TAPE, FailedError
from programs import CHUNK, write

# Requests in flight, sent in groups. Few enough to fit into a pipe: a single-threaded recorder would otherwise wait
# for the server while the server waits for it.
_WINDOW, _GROUP = 256, 64


def ours(*words: str) -> list[str]:
    """A command line of mcp-tape; prefers the one next to this Python, as in an environment that is not activated."""
    return [program(TAPE) or TAPE, *words]


def program(name: str) -> str | None:
    return shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)


def python(script: str, *words: str) -> list[str]:
    """A command line of a program in this folder."""
    return [sys.executable, str(HERE / script), *words]


class Running:
    """A process that is killed when its time is up; its helpers are waited for as well."""

    def __init__(self, command: Sequence[str], seconds: float, stdin: int, **more: Any) -> None:
        self._seconds, self._late = seconds, False
        self._until, self.spawned = monotonic() + seconds, perf_counter()
        self.process = subprocess.Popen(
            command, bufsize=0, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more
        )
        self._timer = threading.Timer(seconds, self._give_up)
        self._timer.daemon = True
        self._timer.start()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._timer.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        if self._late and isinstance(error, (FailedError, OSError)):
            raise FailedError(f"not done within {self._seconds:.0f} seconds") from None

    def _give_up(self) -> None:
        self._late = True
        self.process.kill()

    def ended(self, helpers: Sequence[tuple[int, str]] = ()) -> None:
        """Wait for the process and its helpers, so that deferred work does not slow the next contestant."""
        if self.process.wait() != 0:
            raise FailedError(f"ended with {self.process.returncode}")
        while left := [pid for pid, born in helpers if born and _born(pid) == born]:
            if monotonic() > self._until:
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                raise FailedError("it left a process behind that was still at work")
            sleep(0.01)

    def helpers(self) -> list[tuple[int, str]]:
        return [(pid, _born(pid)) for pid in family(self.process.pid)]


class Client(Running):
    """A contestant over pipes, with this process as the client."""

    def __init__(self, command: Sequence[str], seconds: float, **more: Any) -> None:
        super().__init__(command, seconds, subprocess.PIPE, **more)
        assert self.process.stdin and self.process.stdout
        self._to, self._from = self.process.stdin.fileno(), self.process.stdout.fileno()

    def ask(self, requests: Sequence[bytes], times: list[int] | None = None) -> bytes:
        """The answers to requests, each sent after the previous answer; `times` receives the nanoseconds of each."""
        answers = []
        for request in requests:
            before = perf_counter_ns()
            write(self._to, request)
            while True:
                answers.append(self._read())
                if answers[-1].endswith(b"\n"):
                    break
            if times is not None:
                times.append(perf_counter_ns() - before)
        return b"".join(answers)

    def ask_at_once(self, requests: Sequence[bytes]) -> bytes:
        """The same with many in flight."""
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

    def close(self, watch: bool = True) -> None:
        """Close the contestant's input. `watch`: it may have helpers to wait for."""
        assert self.process.stdin
        helpers = self.helpers() if watch else []
        self.process.stdin.close()
        self.ended(helpers)

    def _read(self) -> bytes:
        data = os.read(self._from, CHUNK)
        if not data:
            raise FailedError("it stopped answering")
        return data


class Served(Running):
    """A contestant that listens, and prints its URL."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        super().__init__(command, seconds, subprocess.DEVNULL)
        assert self.process.stdout
        self.url = self.process.stdout.readline().decode().strip()
        if not self.url:
            self.__exit__(None, None, None)
            raise FailedError(f"it printed no address, and ended with {self.process.returncode}")

    def stop(self) -> None:
        """Ask it to end, and wait for it and all its helpers; by then its recording is on disk."""
        helpers = self.helpers()
        self.process.send_signal(signal.SIGTERM)
        self.ended(helpers)


class Connection:
    """One keep-alive connection; requests are complete, with headers."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._socket = socket.create_connection((place.hostname, place.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answer = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> bytes | None:
        """Read once; return the answer with its headers if it is complete."""
        data = self._socket.recv(CHUNK)
        if not data:
            raise FailedError(f"it closed the connection after {self._answer[:200]!r}")
        self._answer = answer = self._answer + data if self._answer else data
        if not _is_whole(answer):
            return None
        self._answer = b""
        return answer

    @property
    def unread(self) -> bytes:
        """The start of an incomplete answer."""
        return self._answer

    def ask(self, request: bytes) -> bytes:
        self.send(request)
        while (answer := self.receive()) is None:
            pass
        return answer


def _is_whole(answer: bytes) -> bool:
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = answer[:end].lower()
    if b"\r\ntransfer-encoding: chunked" in head:
        return answer.endswith(b"\r\n0\r\n\r\n")  # no event here ends like that
    length = head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
    return len(answer) - end - 4 >= int(length or 0)


def ask_on_all(connections: Sequence[Connection], requests: Sequence[bytes]) -> list[bytes]:
    """The answers to requests over several connections, with one in flight on each."""
    answers = [b""] * len(requests)
    ready = select.poll()
    pending: dict[int, tuple[Connection, int]] = {}
    for number, connection in enumerate(connections[: len(requests)]):
        connection.send(requests[number])
        pending[connection.fileno()] = connection, number
        ready.register(connection, select.POLLIN)
    following = len(pending)
    while pending:
        for descriptor, _ in ready.poll():
            connection, number = pending[descriptor]
            answer = connection.receive()
            if answer is None:
                continue
            answers[number] = answer
            if following < len(requests):
                connection.send(requests[following])
                pending[descriptor] = connection, following
                following += 1
            else:
                del pending[descriptor]
                ready.unregister(descriptor)
    return answers


class Cost(NamedTuple):
    """The resources that a command used."""

    seconds: float
    cpu: float  # seconds, including its children
    peak: float  # megabytes of its largest process
    output: str


_PEAK = """
import os, resource, sys
os.dup2(2, 3)
status = os.spawnvp(os.P_WAIT, sys.argv[1], sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
os.write(3, b"\\n%f %d" % (used.ru_utime + used.ru_stime, used.ru_maxrss))
sys.exit(status if status >= 0 else 128 - status)
"""


def cost(command: Sequence[str], seconds: float, env: dict[str, str] | None = None, head: int = 0) -> Cost:
    """Run a command. `head`: read only this many lines of its output, like `| head -n`.

    A small Python runs it, because a child starts as a copy of its parent and would inherit this process's peak.
    """
    before = perf_counter()
    with subprocess.Popen(
        [sys.executable, "-S", "-c", _PEAK, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stderr
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        errors: list[bytes] = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))  # type: ignore[union-attr]
        reader.start()
        output = b"".join(process.stdout.readline() for _ in range(head)) if head else process.stdout.read()
        process.stdout.close()
        process.wait()
        took = perf_counter() - before
        reader.join()
        timer.cancel()
    said, _, used = errors[0].decode(errors="replace").rpartition("\n")
    if process.returncode or " " not in used:
        raise FailedError(f"{' '.join(command[:4])} ended with {process.returncode}: {(said + used)[-200:]}")
    cpu, peak = used.split()
    return Cost(took, float(cpu), int(peak) * (1 if sys.platform == "darwin" else 1024) / 1e6, output.decode())


@contextmanager
def open_files(wanted: int) -> Iterator[None]:
    """Allow many open descriptors, for this process and its children."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, most) if most >= 0 else wanted, most))
    yield


def family(pid: int) -> list[int]:
    """A process and all of its descendants."""
    parents = {
        int(place.name): int(fields[1]) for place in Path("/proc").glob("[0-9]*") if (fields := _stat(int(place.name)))
    }
    found = [pid] if pid in parents else []
    for member in found:  # grows during the loop
        found += [child for child, parent in parents.items() if parent == member]
    return found


def cpu(pids: Sequence[int]) -> float:
    """Seconds of processor time that they have used so far."""
    ticks = sum(int(fields[11]) + int(fields[12]) for fields in map(_stat, pids) if fields)
    return ticks / os.sysconf("SC_CLK_TCK")


def resident(pids: Sequence[int], seconds: float = 5) -> float:
    """Their total memory in megabytes, once they are idle."""
    until, before = monotonic() + seconds, -1.0
    while (now := cpu(pids)) > before + 0.02 and monotonic() < until:
        before = now
        sleep(0.3)
    return sum(_size(pid, "status", "VmRSS:") for pid in pids)


def proportional(pid: int) -> float:
    """A process's memory in megabytes, with shared pages divided among their users."""
    return _size(pid, "smaps_rollup", "Pss:")


def _size(pid: int, file: str, name: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name)), 0)


def _born(pid: int) -> str:
    """When a process started, which distinguishes it from a later one with its number; "" if it has ended."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may itself contain spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []  # it has ended
