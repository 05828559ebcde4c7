"""Worker processes that do the same work: starts, watches, restarts and ends them.

Each worker has a socket to us, its line. It sends a ready mark, and its result at the end. It receives only end of
file, which asks it to end: we close the line when we are asked to end, and the system does when we are killed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, NamedTuple, NoReturn

from ...errors import ServerError, TapeError
from ...redaction.diagnostics import hide_secrets
from ...system import calls, processes
from ..signals import SIGNALS

_READY = b"+"
_CHUNK = 1 << 16
_PATIENCE = 10.0  # seconds for a worker to end

Say = Callable[[str], None]


class WorkerPlace(NamedTuple):
    """A worker's place: its number, how many workers had the place before, and its line to the parent process."""

    number: int
    earlier: int
    line: socket.socket

    def ready(self) -> None:
        self.line.sendall(_READY)


class CrewResults(NamedTuple):
    """The results of the workers, with their numbers, and how many died without a result."""

    results: list[tuple[int, Any]]
    died: int


Work = Callable[[WorkerPlace], Any]  # runs until the line ends; returns a JSON value


class _Worker:
    """A worker as its parent process sees it."""

    def __init__(self, place: WorkerPlace, process: int) -> None:
        self.place = place
        self.process = process
        self._heard = b""

    @property
    def name(self) -> str:
        return f"worker {self.place.number + 1}"

    @property
    def is_ready(self) -> bool:
        return self._heard.startswith(_READY)

    def hear(self) -> bool:
        """Read from the worker; return whether its line has ended."""
        try:
            data = self.place.line.recv(_CHUNK)
        except ConnectionResetError:
            data = b""
        self._heard += data
        return not data

    def last_words(self) -> dict[str, Any] | None:
        """The result or error of the worker; None if it died before sending one."""
        text = self._heard.removeprefix(_READY)
        return json.loads(text) if text.endswith(b"\n") else None


class Crew:
    """Runs workers, in the main thread of a process without other threads."""

    def __init__(self, number: int, work: Work, say: Say, close: Callable[[], None]) -> None:
        """`close` closes the descriptors that workers have inherited, such as listeners, when they must end."""
        self._number = number
        self._work = work
        self._say = say
        self._close = close
        self._workers: dict[int, _Worker] = {}
        self._selector = selectors.DefaultSelector()
        self._give_up: float | None = None  # when to kill the workers, once they must end
        self._failed: TapeError | None = None
        self._ended = CrewResults([], 0)

    def run(self, started: Callable[[], None]) -> CrewResults:
        """Run the workers until a signal comes or one of them ends. `started` is called once all are ready."""
        _allow_many_connections()
        gc.collect()
        gc.freeze()  # so that collections don't copy the memory shared by all workers
        with _wake_on_signal() as woken:
            self._selector.register(woken, selectors.EVENT_READ)
            for number in range(self._number):
                self._start(number, 0)
            waiting: Callable[[], None] | None = started
            while self._workers:
                self._look()
                if waiting and self._give_up is None and all(one.is_ready for one in self._workers.values()):
                    waiting()
                    waiting = None
        if self._failed is not None:
            raise self._failed
        return self._ended

    def _start(self, number: int, earlier: int) -> None:
        ours, theirs = socket.socketpair()
        die_with_us = processes.die_with_parent()
        process = os.fork()
        if process == 0:
            self._selector.close()
            for line in (ours, *(worker.place.line for worker in self._workers.values())):
                line.close()
            _work(WorkerPlace(number, earlier, theirs), self._work, self._say, die_with_us)
        theirs.close()
        worker = self._workers[number] = _Worker(WorkerPlace(number, earlier, ours), process)
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _look(self) -> None:
        """Wait for data from a worker, the end of one, or a signal."""
        patience = None if self._give_up is None else max(0.0, self._give_up - monotonic())
        found = self._selector.select(patience)
        for key, _ in found:
            if key.data is None:
                os.read(key.fd, _CHUNK)
                self._stop()
            elif key.data.hear():
                self._end(key.data)
        if not found and patience == 0.0:
            for worker in self._workers.values():
                os.kill(worker.process, signal.SIGKILL)

    def _end(self, worker: _Worker) -> None:
        self._selector.unregister(worker.place.line)
        worker.place.line.close()
        _, status = os.waitpid(worker.process, 0)
        del self._workers[worker.place.number]
        said = worker.last_words()
        if said is None:
            self._replace_worker(worker, os.waitstatus_to_exitcode(status))
            return
        if "error" in said:
            self._failed = self._failed or _rebuild_error(**said)
        else:
            self._ended.results.append((worker.place.number, said["result"]))
        self._stop()

    def _replace_worker(self, worker: _Worker, code: int) -> None:
        """Replace a worker that has died."""
        self._ended = self._ended._replace(died=self._ended.died + 1)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        if self._give_up is not None:
            self._say(f"{worker.name} {how}: its replayed requests are not counted")
        elif worker.is_ready:
            self._say(
                f"{worker.name} {how}: its sessions are lost, and its replayed requests are not counted; "
                "starting another"
            )
            self._start(worker.place.number, worker.place.earlier + 1)
        else:
            self._failed = self._failed or ServerError(f"{worker.name} {how} before it could serve; see above")
            self._stop()

    def _stop(self) -> None:
        if self._give_up is not None:
            return
        self._give_up = monotonic() + _PATIENCE
        self._close()
        for worker in self._workers.values():
            with contextlib.suppress(OSError):  # it has just died
                worker.place.line.shutdown(socket.SHUT_WR)


def _work(place: WorkerPlace, work: Work, say: Say, die_with_us: Callable[[], None] | None) -> NoReturn:
    """Run as a worker. Ignores signals: the parent process handles them."""
    code = 1
    try:
        if die_with_us:
            die_with_us()
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        calls.point_at_null(1)  # only the parent prints to stdout
        place.line.sendall(_run_work(place, work))
        code = 0
    except BrokenPipeError:
        pass  # the parent process is gone, so we end
    except BaseException as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        say(hide_secrets(f"worker {place.number + 1} failed within mcp-tape, please report it: {what}"))
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


def _run_work(place: WorkerPlace, work: Work) -> bytes:
    """Run the work, and return its result or error as a line of JSON."""
    try:
        said = {"result": work(place)}
    except TapeError as error:
        said = {"error": str(error), "code": error.exit_code}
    return json.dumps(said).encode() + b"\n"


def _rebuild_error(error: str, code: int) -> TapeError:
    made = TapeError(error)
    made.exit_code = code
    return made


def _allow_many_connections() -> None:
    """Raise the limit of open files to its maximum. It is low only for programs that use select(2)."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def peak() -> int:
    """The peak memory of this process, in bytes. Linux counts kilobytes, see getrusage(2)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * processes.RSS_UNIT


@contextlib.contextmanager
def _wake_on_signal() -> Iterator[int]:
    """Yield a descriptor that is readable once a signal has asked us to end, even before we poll."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, lambda *_: None)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)
