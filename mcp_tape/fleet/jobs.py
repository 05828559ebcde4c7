"""Calls a function with many items, in several processes. Outcomes come in the order of the items.

If a process dies, that is the outcome of its item, and the others go on. At most `_AHEAD` items per process are in
flight, so memory is bounded.
"""

from __future__ import annotations

import os
import pickle
import selectors
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

from ..system import calls
from ..transports.task_processes import TaskOutcome, Worker, attempt
from ..values import parse_count

T = TypeVar("T")
_AHEAD = 16


def parse_jobs(text: str) -> int:
    """Number of processes in `4`, `0` or `auto`; the last two mean one for each core."""
    if text in ("0", "auto"):
        return cores()
    try:
        return parse_count(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of processes; write e.g. 4, or auto for one a core") from None


def cores() -> int:
    """Number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def call_each(
    function: Callable[[T], Any], items: Iterable[T], jobs: int = 1
) -> Generator[tuple[T, TaskOutcome], None, None]:
    """Call a function with each item; yield the outcomes in order.

    With more than one job, the function, its arguments and its results are pickled. Closing the iterator, or leaving it
    by an exception, leaves no process behind.
    """
    if jobs == 1 or not calls.HAS_FORK:  # Windows cannot wait for one of several pipes
        for item in items:
            yield item, attempt(function, item)
        return
    with closing(_Crew(function, jobs)) as crew:
        yield from _outcomes_in_order(crew, enumerate(items), jobs * _AHEAD)


def _outcomes_in_order(crew: _Crew, things: Iterator[tuple[int, T]], ahead: int) -> Iterator[tuple[T, TaskOutcome]]:
    done: dict[int, tuple[T, TaskOutcome]] = {}
    following, more = 0, True
    while more or crew.is_busy or done:
        while more and crew.has_room and len(done) + crew.size < ahead:
            thing = next(things, None)
            more = thing is not None
            if thing is not None and (why := crew.give(thing)):
                done[thing[0]] = thing[1], TaskOutcome(failure=why)
        if crew.is_busy and following not in done:
            done.update((number, (item, outcome)) for (number, item), outcome in crew.wait())
        while following in done:
            yield done.pop(following)
            following += 1


class _Crew:
    """Worker processes, and the item that each works on."""

    def __init__(self, function: Callable[[Any], Any], most: int) -> None:
        self._function = pickle.dumps(function)
        self._most = most
        self._idle: list[Worker] = []
        self._busy = selectors.DefaultSelector()

    @property
    def size(self) -> int:
        """Number of busy workers."""
        return len(self._busy.get_map())

    @property
    def is_busy(self) -> bool:
        return self.size > 0

    @property
    def has_room(self) -> bool:
        return self.size < self._most

    def give(self, thing: tuple[int, Any]) -> str:
        """Give an item to a worker; return the reason if no process can be started."""
        try:
            worker = self._idle.pop() if self._idle else Worker(self._function)
        except OSError as error:  # too many processes, or no memory for one more
            return f"no process can be started for it: {error.strerror}"
        self._busy.register(worker, selectors.EVENT_READ, thing)
        worker.give(thing[1])
        return ""

    def wait(self) -> Iterator[tuple[Any, TaskOutcome]]:
        """Wait for some workers; yield each one's numbered item and its outcome."""
        for key, _ in self._busy.select():
            worker: Any = key.fileobj
            self._busy.unregister(worker)
            outcome = worker.take()
            if outcome is None:
                outcome = TaskOutcome(failure=worker.how_it_ended())
            else:
                self._idle.append(worker)
            yield key.data, outcome

    def close(self) -> None:
        """End all workers, and drop their current items."""
        working: list[Any] = [key.fileobj for key in self._busy.get_map().values()]
        for worker in working:
            worker.stop()
        for worker in (*working, *self._idle):
            worker.end()
        self._busy.close()
