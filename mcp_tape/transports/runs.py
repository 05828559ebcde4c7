"""Runs: related connections, and the number of each. Clients may start the command for every call.

A run is all connections that one process starts, unless it has a name. SDK clients pass on few variables, so the
default depends on none. No process watches over a run: replays count in a small file of the user, away from cassettes.
"""

from __future__ import annotations

import os

from ..system import calls

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..cassette.lookup.playable_sessions import RecordedRun

VARIABLE = "MCP_TAPE_RUN"
# Interactive programs, and programs that run unrelated commands one after another.
_NO_RUN = frozenset(
    "ash bash busybox csh dash elvish fish ksh ksh93 mksh nu pwsh rbash sh tcsh zsh make gmake just ninja find xargs "
    "init launchd systemd tini docker-init sshd tmux screen".split()
)
_WRAPPERS = frozenset("timeout uv uvx".split())  # run a single command, so their own parent counts
_OLD = 86_400.0  # seconds after which a count is removed


def run_name(given: str | None) -> str | None:
    """The name of the run, from the argument or the environment. Empty for no run; None to find one."""
    return given if given is not None else os.environ.get(VARIABLE)


def current_run(given: str | None) -> str | None:
    """Return the run that we belong to; None if unknown."""
    name = run_name(given)
    return _run_of_parent() if name is None else name or None


def _run_of_parent() -> str | None:
    number = os.getppid()
    while number > 1:
        process = calls.look_at(number)
        if process is None or process.program in _NO_RUN:
            return None
        if process.program not in _WRAPPERS:
            return f"{number}-{process.began}"
        number = process.parent
    return None


class Turns:
    """Numbers the connections of our run that replay a recorded run."""

    def __init__(self, path: str, given: str | None, recorded: RecordedRun, note: Callable[[str], None]) -> None:
        self._path = path
        self._recorded = recorded
        self._note = note
        self._run = current_run(given)

    def is_of(self, recorded: str) -> bool:
        """Return whether our own run is the recorded one."""
        return self._run == recorded

    @property
    def has_begun(self) -> bool:
        """True if a connection of our run was replayed already."""
        try:
            return self._run is not None and os.path.exists(self._file())
        except OSError:
            return False  # no writable directory

    def peek(self) -> int | None:
        """Return the next number; None if connections can't be counted."""
        return self._count(0)

    def take(self) -> int | None:
        """Take the next number; None if connections can't be counted."""
        return self._count(1)

    def _count(self, step: int) -> int | None:
        if self._run is None:
            return None
        try:
            return _add_to_count(self._file(), step)
        except OSError as error:
            self._note(f"cannot count the connections of this run ({error}): the newest session is played")
            self._run = None
            return None

    def _file(self) -> str:
        from zlib import crc32

        recorded = self._recorded
        parts = (os.path.realpath(self._path), recorded.id, recorded.began, self._run, recorded.label)
        what = "\0".join(part or "" for part in parts)
        plain = "".join(c if c.isalnum() and c.isascii() else "-" for c in self._run or "")
        return os.path.join(calls.private_place(), f"{plain[:64]}-{crc32(what.encode('utf-8', 'surrogateescape')):08x}")


def _add_to_count(file: str, step: int) -> int:
    """Add to a count, under a lock, and return its old value."""
    if not os.path.exists(file):
        _tidy(os.path.dirname(file))
    descriptor = calls.open_lock(file)
    try:
        calls.flock(descriptor)
        text = os.read(descriptor, 20)
        number = int(text) if text.isdigit() else 0
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, b"%d" % (number + step))
        return number
    finally:
        os.close(descriptor)


def _tidy(place: str) -> None:
    """Remove the counts of runs that have long ended."""
    from time import time

    for name in os.listdir(place):
        path = os.path.join(place, name)
        try:
            if os.lstat(path).st_mtime < time() - _OLD:
                os.unlink(path)
        except OSError:
            pass  # removed by another process
