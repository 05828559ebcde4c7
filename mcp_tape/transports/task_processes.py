"""Python processes that work for this one: each calls a function with one item after another.

A process that dies loses only its current item, and the caller learns how it ended. The processes are started afresh,
not forked: libraries for object storage and columnar files have threads, which do not survive a fork.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

from ..system import calls, processes
from .signals import exit_on_signal

_PATIENCE = 5.0  # seconds for clean-up at the end
_START = "import sys; sys.path[:] = sys.argv[1:]; from mcp_tape.transports.task_processes import work; work()"


class TaskOutcome(NamedTuple):
    """The result of a function, or its failure in one line."""

    value: Any = None
    failure: str = ""


def attempt(function: Callable[[Any], Any], item: Any) -> TaskOutcome:
    """Call a function with an item; an exception is an outcome, too."""
    try:
        return TaskOutcome(function(item))
    except Exception as error:
        return TaskOutcome(failure=_describe_error(error))


def _describe_error(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({os.path.basename(frame.filename)}:{frame.lineno})" for frame in place)
    return " ".join(f"{type(error).__name__}: {error}{where}".split())


class Worker:
    """A process that runs a function on items."""

    def __init__(self, function: bytes) -> None:
        """Start the process. `function` is pickled. Raises OSError if it can't be started."""
        self._process = processes.start(
            [sys.executable, "-c", _START, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes only to us, and we end the worker
        )
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin, self._process.stdout
        self._send(function)

    def fileno(self) -> int:
        """A descriptor for polling: readable once there is an outcome, or the process has ended."""
        return self._from.fileno()

    def give(self, item: Any) -> None:
        """Give the worker its next item."""
        self._send(pickle.dumps(item))

    def _send(self, data: bytes) -> None:
        try:
            self._to.write(data)
            self._to.flush()
        except OSError:
            pass  # it has ended; `take` returns None

    def take(self) -> TaskOutcome | None:
        """Wait for the outcome; None if the process has ended."""
        try:
            return TaskOutcome._make(pickle.load(self._from))
        except Exception:  # a process that died while writing leaves partial data
            return None

    def how_it_ended(self) -> str:
        """Describe how the process ended. Call this after `take` has returned None."""
        self.end()
        code = self._process.returncode
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "no name"
        return f"its process was killed by signal {-code} ({name})"

    def stop(self) -> None:
        """Ask the process to clean up and end; see `end`."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def end(self) -> None:
        """Wait for the process to end; kill it after `_PATIENCE`."""
        try:
            self._to.close()
        except OSError:
            pass  # unread input is lost
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._from.close()


def work() -> None:
    """Run as a worker: read a pickled function and then items from stdin, and write outcomes to stdout."""
    given, results = _open_own(0, "rb"), _open_own(1, "wb")
    calls.point_at_null(0)
    os.dup2(2, 1)  # so that prints go to stderr
    with exit_on_signal(), given, results:
        _work_loop(given, results)


def _open_own(number: int, mode: str) -> BinaryIO:
    """Open a copy of a stream that child processes do not inherit."""
    return open(os.dup(number), mode)  # type: ignore[return-value]


def _work_loop(given: BinaryIO, results: BinaryIO) -> None:
    try:
        function = pickle.load(given)
        while True:
            data = _pickle_outcome(attempt(function, pickle.load(given)))
            results.write(data)
            results.flush()
    except (EOFError, BrokenPipeError):
        pass  # the caller has gone, or needs no more


def _pickle_outcome(outcome: TaskOutcome) -> bytes:
    try:
        return pickle.dumps(tuple(outcome))
    except Exception as error:
        return pickle.dumps((None, _describe_error(error)))
