"""Putting a file in another's place: the one way to do it.

The new file is made in a private directory beside the old one, under a name that nobody can know before, and renamed
when it is whole. The directory is locked while its maker lives: what a killed one has left, the next removes.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from ..errors import CassetteError, unchanged
from . import file

_ENDING = ".part"


@contextmanager
def beside(path: str) -> Iterator[str]:
    """Where to make what is to take the place of a file. Whatever is not put there is gone at the end."""
    try:
        directory, lock = _made(path)
    except OSError as error:
        raise CassetteError(f"cannot write {path}: {error.strerror}; choose another place") from None
    try:
        _remove_leftovers(path)
        yield os.path.join(directory, os.path.basename(path))
    finally:
        _remove(directory)
        os.close(lock)


def put(part: str, path: str, like: str | None = None) -> None:
    """The file takes its place, all of it or none, with the mode of what was there, or of another file."""
    _expect_no_journal(path)
    try:
        with suppress(FileNotFoundError):
            os.chmod(part, stat.S_IMODE(os.stat(like or path).st_mode))
        _sync(part)
        os.replace(part, path)
    except OSError as error:
        raise CassetteError(f"{unchanged(path)}: {error.strerror}") from None
    with suppress(OSError):  # not every file system can
        _sync(os.path.dirname(path))  # the new name is kept, too, should the machine stop now


def set_aside(part: str, path: str) -> str:
    """Leave what is to take a place to another process: where it is now. To the next one it is a leftover."""
    directory, lock = _made(path)
    os.close(lock)
    waiting = os.path.join(directory, os.path.basename(path))
    os.replace(part, waiting)
    return waiting


def drop(part: str) -> None:
    """Remove what was set aside, if it is still there."""
    directory = os.path.dirname(part)
    if directory.endswith(_ENDING):
        _remove(directory)


def copy(path: str, part: str) -> None:
    """A copy of a cassette, whole even if somebody is adding to it."""
    source, target = file.connect_to_read(path), file.connect(part)
    with closing(source), closing(target):
        source.backup(target)


def _expect_no_journal(path: str) -> None:
    """A journal of the old file must not be applied to the new one."""
    # The file itself is not opened without need: closing it would give up the locks that we may have on it.
    # https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
    if _has_journal(path) and os.path.exists(path) and not os.path.islink(path):
        file.recover(path)
        with suppress(sqlite3.Error):
            file.drop_journal(path)
    if _has_journal(path):
        raise CassetteError(f"{path} is in use, so it was not replaced; end what records or reads it, then try again")


def _has_journal(path: str) -> bool:
    return any(os.path.lexists(path + ending) for ending in ("-wal", "-journal"))


def _made(path: str) -> tuple[str, int]:
    """The directory, and a descriptor that keeps it locked."""
    place, name = os.path.split(path)
    while True:
        directory = os.path.join(place, f".{name}.{os.urandom(4).hex()}{_ENDING}")
        os.mkdir(directory, 0o700)
        with suppress(FileNotFoundError):  # somebody took it for a leftover before it was locked
            return directory, _locked(directory, fcntl.LOCK_EX)


def _locked(directory: str, how: int) -> int:
    """A descriptor of a directory that is there and ours; OSError where it is not."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, how)
        except OSError:
            # A directory of some network mounts cannot be locked: what is left there stays.
            if how != fcntl.LOCK_EX:
                raise
        if not os.path.samestat(os.fstat(descriptor), os.lstat(directory)):
            raise FileNotFoundError(directory)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_leftovers(path: str) -> None:
    """What killed commands have left beside a file. Those that live keep theirs locked."""
    place, name = os.path.split(path)
    pattern = re.compile(re.escape(f".{name}.") + "[0-9a-f]{8}" + re.escape(_ENDING))
    entries: list[str] = []
    with suppress(OSError):  # a directory in which we may write need not be one that we may list
        entries = os.listdir(place or ".")
    for entry in filter(pattern.fullmatch, entries):
        with suppress(OSError):
            directory = os.path.join(place, entry)
            lock = _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                _remove(directory)
            finally:
                os.close(lock)


def _remove(directory: str) -> None:
    with suppress(OSError):
        for entry in os.listdir(directory):
            os.unlink(os.path.join(directory, entry))
        os.rmdir(directory)


def _sync(path: str) -> None:
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
