"""Recordings of a run: each is made by one process, and kept when the tests that used it have passed."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TapeError, describe_unwritten
from ..options import REPLAYING
from .tape_settings import TapeSettings, refuse

if TYPE_CHECKING:
    from ..cassette.replace import DraftFile
    from .use import UsedCassette

# Options in which tests that record one cassette may differ: always, and where only the live server answers.
_OF_PLAYING = {"faults", "speed", "order", "seed", "unanswered"}
_OF_REPLAY = {row.keyword for row in REPLAYING}
_TOGETHER = "those that record one cassette must run in one process: without -n, or from one file with --dist loadfile"


class SharedRecording:
    """A cassette that several tests record, each its part."""

    def __init__(self, tape: UsedCassette, want: TapeSettings) -> None:
        self.tape = tape
        self.tests: set[str] = set()
        self._keywords = want.keywords

    def join(self, test: str, want: TapeSettings) -> UsedCassette:
        """Return the tape of one more test."""
        self.tests.add(test)
        free = _OF_PLAYING if self.tape.mode == "new_episodes" else _OF_REPLAY
        names = {*self._keywords, *want.keywords} - free
        other = sorted(name for name in names if self._keywords.get(name) != want.keywords.get(name))
        if other:
            refuse(f"{self.tape.path} is being recorded by tests with another {', '.join(other)}; give them the same")
        return self.tape.another()


class Recordings:
    """The recordings of this process."""

    def __init__(self, open_tape: Callable[[Path | str, TapeSettings], UsedCassette], *, is_alone: bool) -> None:
        """`is_alone`: no other process runs tests of this run. Otherwise the controller decides what to keep."""
        self._open_tape = open_tape
        self._is_alone = is_alone
        self._shared: dict[str, SharedRecording] = {}
        self._locks: dict[str, int] = {}
        self.parts: list[tuple[str, str]] = []  # recordings to keep: the path of the cassette, and of the part
        self.unfit: set[str] = set()  # cassettes with a failed or refused test

    def open(self, path: Path | str, want: TapeSettings, test: str, *, is_shared: bool) -> UsedCassette:
        """Open a tape, as a recording if there is one to make."""
        shared = self._shared.get(str(path))
        if shared is not None and want.mode != "none":
            return shared.join(test, want)
        tape = self._open_tape(path, want)
        if tape.is_recording:
            tape.finish(keep=False)
            tape = self._open_locked(path, want)
        if tape.is_recording and is_shared:
            self._shared[str(path)] = SharedRecording(tape, want)
            return self._shared[str(path)].join(test, want)
        return tape

    def add_user(self, test: str, path: str) -> None:
        if path in self._shared:
            self._shared[path].tests.add(test)

    def finish(self, failed: set[str], *, stopped: bool) -> list[str]:
        """Keep recordings shared by several tests if none of them failed. Return the problems."""
        problems = []
        for path, shared in self._shared.items():
            bad = sorted(shared.tests & failed)
            why = "the run was stopped" if stopped else f"these failed: {', '.join(bad)}"
            if stopped or bad:
                problems.append(f"{describe_unwritten(path)}, because {why}")
                self.unfit.add(path)
            shared.tape.put = None if self._is_alone else self._hand_over
            problems += finish(shared.tape, keep=not (stopped or bad))
            self.unlock(path)
        self._shared.clear()
        return problems

    def _hand_over(self, part: DraftFile, path: str) -> None:
        """Leave the recording beside the cassette, for the controller."""
        self.parts.append((path, part.hand_over()))

    def _open_locked(self, path: Path | str, want: TapeSettings) -> UsedCassette:
        """Reopen a tape under a lock: another process may have recorded it meanwhile."""
        lock = _lock(path)
        if lock is None:
            self.unfit.add(str(path))
            refuse(f"{path} is being recorded by another test at this moment; {_TOGETHER}")
        self._locks[str(path)] = lock
        is_recording = False
        try:
            tape = self._open_tape(path, want)
            is_recording = tape.is_recording
        finally:
            if not is_recording:
                self.unlock(path)
        return tape

    def unlock(self, path: Path | str) -> None:
        lock = self._locks.pop(str(path), None)
        if lock is not None:
            from ..cassette import replace

            replace.unlock(_lock_of(path), lock)


def keep_recordings(parts: Sequence[tuple[str, str]], unfit: set[str], *, stopped: bool) -> list[str]:
    """Keep each recording that only one process has made. Return the problems."""
    if not parts:
        return []
    from ..cassette import replace  # imported only if something was recorded

    problems, by_path = [], defaultdict(list)
    for path, part in parts:
        by_path[path].append(replace.DraftFile(part, os.path.realpath(path)))
    for path, found in by_path.items():
        try:
            if len(found) == 1 and path not in unfit and not stopped:
                found[0].put()
            else:
                why = "the run was stopped" if stopped else f"not all tests that use it ran in one process; {_TOGETHER}"
                problems.append(f"{describe_unwritten(path)}, because {why}")
        except (TapeError, OSError) as error:
            problems.append(str(error))
        for made in found:
            made.drop()
    return problems


def _lock(path: Path | str) -> int | None:
    """Lock a recording: two at once would overwrite each other. None if another process holds the lock."""
    from ..cassette import replace

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        return replace.lock(_lock_of(path))
    except OSError as error:
        refuse(f"cannot write {_lock_of(path)}: {error.strerror}; remove it, then try again")


def _lock_of(path: Path | str) -> str:
    return f"{path}.lock"


def finish(tape: UsedCassette, *, keep: bool) -> list[str]:
    """End the use of a tape. Return the problems."""
    try:
        tape.finish(keep=keep)
    except (TapeError, OSError) as error:
        return [str(error)]
    return []
