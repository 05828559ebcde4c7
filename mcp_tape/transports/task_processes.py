"""Python processes that work for this one: each calls a function with what it is given, one thing after the other.

One that dies takes with it only what it was working on, and whoever waits for it learns how it ended. They are started
afresh and not forked: who uses object storage or columns has threads, which a fork does not take along.
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

from .process import die_with_parent
from .signals import exit_on_signal

_PATIENCE = 5.0  # seconds to clean up in, at the end
_START = "import sys; sys.path[:] = sys.argv[1:]; from mcp_tape.transports.task_processes import work; work()"


class TaskOutcome(NamedTuple):
    """What a function returned; or why it did not, on one line."""

    value: Any = None
    failure: str = ""


def attempt(function: Callable[[Any], Any], item: Any) -> TaskOutcome:
    """Call a function with something: an error of it is an outcome, too."""
    try:
        return TaskOutcome(function(item))
    except Exception as error:
        return TaskOutcome(failure=_describe_error(error))


def _describe_error(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({os.path.basename(frame.filename)}:{frame.lineno})" for frame in place)
    return " ".join(f"{type(error).__name__}: {error}{where}".split())


class Worker:
    """A process that has a function."""

    def __init__(self, function: bytes) -> None:
        """Start it. `function` is pickled. OSError: it cannot be started."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=die_with_parent(),
            start_new_session=True,  # Ctrl-C is for us: we end it in good order
        )
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin, self._process.stdout
        self._send(function)

    def fileno(self) -> int:
        """To wait for: it can be read once there is an outcome, or an end."""
        return self._from.fileno()

    def give(self, item: Any) -> None:
        """Let it work on something."""
        self._send(pickle.dumps(item))

    def _send(self, data: bytes) -> None:
        try:
            self._to.write(data)
            self._to.flush()
        except OSError:
            pass  # it has ended, as `take` will find

    def take(self) -> TaskOutcome | None:
        """Its outcome, waited for; None if it has ended instead."""
        try:
            return TaskOutcome._make(pickle.load(self._from))
        except Exception:  # of a process that died while it wrote, anything can be left
            return None

    def how_it_ended(self) -> str:
        """Say what became of it, after it has closed its output."""
        self.end()
        code = self._process.returncode
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "no name"
        return f"its process was killed by signal {-code} ({name})"

    def stop(self) -> None:
        """Ask it to clean up and end; see `end`."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self._process.kill()

    def end(self) -> None:
        """Wait for its end, within bounds."""
        try:
            self._to.close()
        except OSError:
            pass  # what it did not read
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._from.close()


def work() -> None:
    """Be a worker: a pickled function on stdin, then what to call it with. Outcomes go to stdout."""
    given, results = _open_own(0, "rb"), _open_own(1, "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what the function prints is for people
    with exit_on_signal(), given, results:
        _work_loop(given, results)


def _open_own(number: int, mode: str) -> BinaryIO:
    """A stream that the processes which are started here do not get."""
    return open(os.dup(number), mode)  # type: ignore[return-value]


def _work_loop(given: BinaryIO, results: BinaryIO) -> None:
    try:
        function = pickle.load(given)
        while True:
            data = _pickle_outcome(attempt(function, pickle.load(given)))
            results.write(data)
            results.flush()
    except (EOFError, BrokenPipeError):
        pass  # who wanted it has gone, or needs no more


def _pickle_outcome(outcome: TaskOutcome) -> bytes:
    try:
        return pickle.dumps(tuple(outcome))
    except Exception as error:
        return pickle.dumps((None, _describe_error(error)))
