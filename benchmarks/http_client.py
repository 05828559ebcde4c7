"""A client on bare sockets that drives every contestant over HTTP/1.1, and the processes that it talks to.

It does no more than it must, so that it is not what is measured. Every wait is bounded: a timer kills the
process that is measured, which ends the read.
"""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from time import monotonic, perf_counter, perf_counter_ns
from urllib.parse import urlsplit

from client import FailedError, Memory, all_end, born_at, family, memory

_READ = 1 << 16


class Served:
    """A contestant that listens, from its start until the end of the block."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self._seconds, self._started = seconds, monotonic()
        self.spawned = perf_counter()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._late = False
        self._timer = threading.Timer(seconds, self._give_up)
        self._timer.daemon = True
        self._timer.start()
        assert self._process.stdout
        self.url = self._process.stdout.readline().decode().strip()
        self.pids = family(self._process.pid)

    def __enter__(self) -> Served:
        if not self.url:
            self._end()
            raise FailedError(f"it told no address, and ended with {self._process.returncode}")
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._end()
        if self._late and isinstance(error, (FailedError, OSError)):
            raise FailedError(f"not done within {self._seconds:.0f} seconds") from None

    def _give_up(self) -> None:
        self._late = True
        self._process.kill()

    def _end(self) -> None:
        self._timer.cancel()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def stop(self) -> None:
        """Ask it to end, and wait until it and all its helpers have; what it kept is on the disk then."""
        helpers = [(pid, born_at(pid)) for pid in family(self._process.pid)]
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait() != 0:
            raise FailedError(f"ended with {self._process.returncode}")
        if not all_end(helpers, self._started + self._seconds):
            raise FailedError("it left a process behind that was still at work")

    def memory(self, seconds: float) -> Memory:
        """Of the process and its helpers, once they are idle."""
        return memory(family(self._process.pid), seconds)


class Connection:
    """One connection that is kept alive; requests are whole, with their headers."""

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
        """Read once; the answer, with its headers, if it is whole now."""
        data = self._socket.recv(_READ)
        if not data:
            raise FailedError(f"it closed the connection after {self._answer[:200]!r}")
        self._answer = answer = self._answer + data if self._answer else data
        if not _is_whole(answer):
            return None
        self._answer = b""
        return answer

    def ask(self, request: bytes) -> bytes:
        self.send(request)
        while (answer := self.receive()) is None:
            pass
        return answer

    def open_stream(self, request: bytes) -> None:
        """Send what is answered by a stream of events, and wait for the answer to begin."""
        self.send(request)
        head = b""
        while b"\r\n\r\n" not in head:
            data = self._socket.recv(_READ)
            if not data:
                raise FailedError("it closed the connection")
            head += data
        if b" 200 " not in head[:16] or b"text/event-stream" not in head:
            raise FailedError(f"a stream was answered with {head[:200]!r}")

    def is_open(self) -> bool:
        """Whether a stream has not ended, whatever has come on it meanwhile."""
        with contextlib.suppress(BlockingIOError):
            while data := self._socket.recv(_READ, socket.MSG_DONTWAIT):
                if data.endswith(b"\r\n0\r\n\r\n"):
                    return False
            return False
        return True


def _is_whole(answer: bytes) -> bool:
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = answer[:end].lower()
    if b"\r\ntransfer-encoding: chunked" in head:
        return answer.endswith(b"\r\n0\r\n\r\n")  # no event that is sent here ends like that
    length = head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
    return len(answer) - end - 4 >= int(length or 0)


def round_trips(connection: Connection, requests: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
    """Nanoseconds of requests made one after the other, and the answers."""
    times, answers = [], []
    for request in requests:
        before = perf_counter_ns()
        answer = connection.ask(request)
        times.append(perf_counter_ns() - before)
        answers.append(answer)
    return times, answers


def at_once(connections: Sequence[Connection], requests: Sequence[bytes]) -> tuple[float, list[bytes]]:
    """Seconds that the requests take over several connections, one on its way on each; the answers in their order."""
    answers = [b""] * len(requests)
    ready = select.poll()
    on_its_way: dict[int, tuple[Connection, int]] = {}
    before = perf_counter()
    for number, connection in enumerate(connections[: len(requests)]):
        connection.send(requests[number])
        on_its_way[connection.fileno()] = connection, number
        ready.register(connection, select.POLLIN)
    following = len(on_its_way)
    while on_its_way:
        for descriptor, _ in ready.poll():
            connection, number = on_its_way[descriptor]
            answer = connection.receive()
            if answer is None:
                continue
            answers[number] = answer
            if following < len(requests):
                connection.send(requests[following])
                on_its_way[descriptor] = connection, following
                following += 1
            else:
                del on_its_way[descriptor]
                ready.unregister(descriptor)
    return perf_counter() - before, answers
