"""Runs a command for each finished cassette. The recording neither waits for it nor fails with it.

A cassette for which the command failed is tried again after the next cassettes, and at the end until two rounds in a
row fail. Each run has a process session of its own, so that it can be killed with all its children. Its input is empty.
Only the last line of its output is kept, for the report of a failure.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections import deque
from time import monotonic

from ...system import calls, processes

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PLACE = "{}"
AT_ONCE = 2  # parallel runs
_AGAIN = 2  # failed cassettes to retry with each new one
_IN_VAIN = 2  # give up after this many rounds of retries in a row without success
_LOOK_AGAIN = 0.1  # seconds
_CHUNK = 1 << 16
_LONGEST = 300  # bytes kept of the last line


def parse(text: str) -> tuple[str, ...]:
    """Split a command into words as a shell does. No shell runs it."""
    from shutil import which

    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a command: {error}") from None
    if not any(PLACE in word for word in words):
        raise ValueError(
            f"{text!r} does not say where the cassette's path goes; write {PLACE} there, as in 'cp {PLACE} to/'"
        )
    if not which(words[0]):
        raise ValueError(f"there is no command {words[0]!r}; check its spelling and the PATH")
    return words


class Hooks:
    """Runs of a command, a few at once; the others queue."""

    def __init__(
        self,
        words: Sequence[str],
        seconds: float,
        say: Callable[[str], None],
        taken: Callable[[str], object] = lambda path: None,
        is_whole: Callable[[str], bool] = lambda path: True,
    ) -> None:
        """`seconds`: the limit of one run, and of all runs at the end. `say` is called with each failure, once per
        cassette; `taken` with each cassette for which the command succeeded. A cassette that is not whole waits."""
        self._words = words
        self._seconds = seconds
        self._say = say
        self._take = taken
        self._is_whole = is_whole
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._running: dict[str, _Run] = {}
        self._workers = 0
        self._is_over = False
        self._failed: list[str] = []
        self._reported: set[str] = set()
        self.done = 0

    @property
    def failed_count(self) -> int:
        return len(self._failed)

    def add(self, path: str) -> None:
        """Queue a cassette. Never waits."""
        with self._changed:
            again, self._failed = self._failed[:_AGAIN], self._failed[_AGAIN:]
            self._begin([path, *again])

    def _begin(self, paths: list[str]) -> None:
        self._waiting += paths
        for _ in range(min(len(paths), AT_ONCE - self._workers)):
            self._workers += 1
            threading.Thread(target=self._work, daemon=True).start()

    def finish(self, alive: Callable[[], None]) -> None:
        """Wait for all runs, up to the limit. Calls `alive` while it waits, and before each round of retries."""
        end = monotonic() + self._seconds
        with self._changed:
            self._wait(end, alive)
            in_vain = 0
            while self._failed and in_vain < _IN_VAIN and monotonic() < end:
                before, again, self._failed = self.done, self._failed, []
                alive()
                self._begin(again)
                self._wait(end, alive)
                in_vain = 0 if self.done > before else in_vain + 1
            left, self._is_over = [*self._waiting], True
            self._waiting.clear()
            for run in self._running.values():
                run.kill()
            self._changed.wait_for(lambda: not self._workers, 5)  # killed runs report their failure
        for path in left:
            self._fail(path, "the recording has ended before its turn came")

    def _wait(self, end: float, alive: Callable[[], None]) -> None:
        while self._workers and monotonic() < end:
            self._changed.wait(min(0.5, max(0.0, end - monotonic())))
            alive()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._workers -= 1
                    self._changed.notify_all()
                    return
                path = self._waiting.popleft()
            self._run(path)

    def _run(self, path: str) -> None:
        if not os.path.exists(path):
            self._fail(path, "it was removed")
            return
        if not self._is_whole(path):
            self._fail(path, "part of it is still in its journal: the disk is full, or another process reads it")
            return
        try:
            run = _Run([word.replace(PLACE, path) for word in self._words])
        except (OSError, ValueError) as error:
            self._fail(path, f"{self._words[0]!r} cannot be started: {getattr(error, 'strerror', None) or error}")
            return
        with self._changed:
            self._running[path] = run
            if self._is_over:
                run.kill()
        why = run.outcome(self._seconds)
        with self._changed:
            del self._running[path]
        if why:
            self._fail(path, why)
        else:
            self.done += 1
            self._take(path)

    def _fail(self, path: str, why: str) -> None:
        from ...redaction.diagnostics import hide_secrets

        self._failed.append(path)
        if path not in self._reported:
            self._reported.add(path)
            self._say(hide_secrets(f"--on-rotate has failed for {path}: {why}"))


class _Run:
    def __init__(self, words: Sequence[str]) -> None:
        self._process = processes.start_group(words)
        assert self._process.stdout
        self._output = self._process.stdout.fileno()
        self._killed = False
        self._last = b""

    def kill(self) -> None:
        """Kill the run with all its children."""
        self._killed = True
        if self._process.poll() is None:
            processes.kill_group(self._process)

    def outcome(self, seconds: float) -> str | None:
        """Wait for its end, and return why it failed, if it did."""
        end = monotonic() + seconds
        is_open, is_late = True, False
        while self._process.poll() is None:
            if is_open:
                is_open = not calls.wait(self._output, calls.POLLIN, round(_LOOK_AGAIN * 1000)) or self._read()
            else:
                self._wait()
            if monotonic() > end and not self._killed:
                is_late = True
                self.kill()
        # A surviving child may hold the pipe open and write for ever.
        while is_open and calls.wait(self._output, calls.POLLIN, 0):
            is_open = self._read() and monotonic() < end
        assert self._process.stdout
        self._process.stdout.close()
        return self._why(f"it took longer than {seconds:g} s, and was ended" if is_late else "it was ended")

    def _wait(self) -> None:
        try:
            self._process.wait(_LOOK_AGAIN)
        except subprocess.TimeoutExpired:
            pass

    def _read(self) -> bool:
        """Read some of the output; False at the end."""
        data = os.read(self._output, _CHUNK)
        lines = (self._last + data).rstrip(b"\n").rpartition(b"\n")
        self._last = (lines[2] + b"\n" * data.endswith(b"\n"))[-_LONGEST:]
        return bool(data)

    def _why(self, killed: str) -> str | None:
        code = self._process.returncode
        if not code:
            return None
        why = killed if self._killed else f"exit code {code}" if code > 0 else f"signal {-code}"
        last = " ".join(self._last.decode("utf-8", "replace").split())
        return f"{why}: {last}" if last else why
