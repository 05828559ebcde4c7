"""kill -9 at every step of an operation that changes or replaces a file.

A step is any file operation by Python, and every writing statement of SQLite.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

from mcp_tape import light
from tests.support.warm import WAIT

EVENTS = (
    "open",
    "os.mkdir",
    "os.rename",
    "os.link",
    "os.remove",
    "os.chmod",
    "os.rmdir",
    "fcntl.flock",
    "sqlite3.connect",
)
READS = ("SELECT", "PRAGMA page", "PRAGMA user_version", "PRAGMA application_id", "PRAGMA busy")
MOST = 500  # steps; an operation with more is not small
Act = Callable[[str], object]
# Forked from a process that has loaded only this module: one that has collected all tests takes longer to copy.
FORKS = multiprocessing.get_context("forkserver")
_loaded: list[str] = []


def fork_with(module: str) -> None:
    """Load a module in the forking process; its functions are killed."""
    _loaded.append(module)
    FORKS.set_forkserver_preload(_loaded)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop_at(number: int, stop: Callable[[], None]) -> None:
    """Do something at one of the steps that this process takes from now on."""
    left = [number]

    def step() -> None:
        left[0] -= 1
        if not left[0]:
            stop()

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            cursor = super().execute(sql, *values)
            if not sql.startswith(READS):
                step()
            return cursor

        def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
            cursor = super().executemany(sql, *values)
            step()
            return cursor

        def backup(self, *words: Any, **more: Any) -> None:
            super().backup(*words, **more)
            step()

    light.sqlite3.connect = partial(sqlite3.connect, factory=Watched)  # the name by which cassettes are opened
    sys.addaudithook(lambda event, _: step() if event in EVENTS else None)


def stopped(number: int, act: Act, path: str, stop: Callable[[], None]) -> None:
    stop_at(number, stop)
    act(path)


def until_it_lives(act: Act, path: str) -> Iterator[bool]:
    """Yield whether it was killed, at every step in turn; the last time it completes."""
    for number in count(1):
        assert number < MOST
        process = FORKS.Process(target=stopped, args=(number, act, path, die))
        process.start()
        process.join(WAIT)
        assert process.exitcode in (0, -signal.SIGKILL)
        yield process.exitcode != 0
        if not process.exitcode:
            return
