"""Replacing files: the one way to do it.

A new file is made in a private directory beside the old one, under an unpredictable name, and renamed over it when
complete: `beside`, then `DraftFile.put`. The directory is locked while its maker lives, so that later calls can remove
the leftovers of a killed one.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from ..errors import CassetteError, TapeError, describe_unwritten
from ..system import calls
from . import file, journals, schema
from .text.recognize import is_database, is_text

_ENDING = ".part"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)  # not every file system has them
LOCK = "-lock"  # suffix of the lock for a database that is recorded into for a text


class OutputExistsError(TapeError):
    """The output already exists."""

    exit_code = 2


def expect_room(output: str, overwrite: bool) -> None:
    """Refuse to replace a file without permission. A pipe or a terminal is written to, not replaced."""
    is_stream = os.path.exists(output) and not os.path.isfile(output) and not os.path.isdir(output)
    if os.path.lexists(output) and not is_stream and not overwrite:
        raise OutputExistsError(f"{output} already exists, and was not changed; choose another name, or add --force")


class DraftFile:
    """A file in the making, and its future path. If that path is a text's, a database is converted."""

    def __init__(self, file: str, path: str) -> None:
        self.file, self.path, self.is_handed_over = file, path, False

    def put(self, to: str | None = None, *, as_text: bool | None = None, keep_times: bool = False) -> None:
        """Replace the file at the path, or one beside it, atomically.

        The new file gets the mode and owner of the file at the path.

        `as_text`: write text, whatever the name. `keep_times`: of frames that are unchanged from an existing text.
        """
        target = to or self.path
        _expect_no_journal(target)
        if as_text or (as_text is None and is_text(target)):
            self.become_text(keep_times=keep_times)
        try:
            with suppress(FileNotFoundError):
                calls.inherit_owner(self.file, os.stat(self.path))
            calls.sync(self.file)
            calls.patiently(lambda: os.replace(self.file, target))
        except OSError as error:
            raise CassetteError(f"{describe_unwritten(target)}: {error.strerror}") from None
        with suppress(OSError):  # some file systems cannot
            calls.sync(os.path.dirname(target))  # makes the new name durable

    def put_first(self) -> bool:
        """Move to the path if it is free; return whether it was."""
        if os.path.lexists(self.path):
            return False
        _expect_no_journal(self.path)  # of a removed database
        try:
            calls.sync(self.file)
            os.link(self.file, self.path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise CassetteError(f"{describe_unwritten(self.path)}: {error.strerror}") from None
            if os.path.lexists(self.path):
                return False
            self.put()
        with suppress(OSError):  # as in `put`
            calls.sync(os.path.dirname(self.path))
        return True

    def become_text(self, *, keep_times: bool = False) -> None:
        """Convert a database to lines. Drop data of the old text's working database that is not in the text yet."""
        if not is_database(self.file):
            return
        from .text import write  # imported late: it reads cassettes

        text = os.path.join(os.path.dirname(self.file), f"text-{os.path.basename(self.path)}")
        keep_times = keep_times and is_text(self.path) and schema.is_there(self.path)
        write.write(self.file, text, self.path if keep_times else None)
        self.file, left = text, self.path + schema.LEFT
        held = lock(left + LOCK) if os.path.exists(left) else None
        if held is not None:
            remove(left)
            unlock(left + LOCK, held)

    def hand_over(self) -> str:
        """Leave it to another process, which makes a `DraftFile` from it. Any other process treats it as a leftover."""
        self.is_handed_over = True
        return self.file

    def drop(self) -> None:
        """Remove its private directory and everything in it."""
        directory = os.path.dirname(self.file)
        if directory.endswith(_ENDING):
            _remove_directory(directory)


@contextmanager
def beside(path: str, *, follow: bool = True) -> Iterator[DraftFile]:
    """Make a private place for a new file at a path, or at the target of a link there. Unless put, it is removed."""
    schema.expect_local(path)
    path = os.path.realpath(path) if follow else path
    try:
        directory, lock = _make_directory(path)
    except OSError as error:
        raise CassetteError(f"cannot write {path}: {error.strerror}; choose another place") from None
    name = os.path.basename(path) + (schema.LEFT if is_text(path) else "")
    part = DraftFile(os.path.join(directory, name), path)
    try:
        _remove_leftovers(path)
        yield part
    finally:
        os.close(lock)
        if not part.is_handed_over:
            part.drop()


def copy(path: str, to: str) -> None:
    """Copy a cassette consistently, even while it is recorded. A text is copied as a database."""
    if is_text(path):
        from .reader import Cassette

        with Cassette(path) as cassette, closing(file.connect(to)) as target:
            cassette.connection.backup(target)
        return
    with closing(file.connect_to_read(path)) as source, closing(file.connect(to)) as target:
        source.backup(target)


def make_private(directory: str) -> bool:
    """Make a directory private. Return False unless it is ours, and only we can write to it."""
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or not calls.is_ours(found):
        return False
    os.chmod(directory, 0o700)
    return True


def _expect_no_journal(path: str) -> None:
    """A journal of the old file must not be applied to the new one."""
    # The file itself is not opened without need: closing it would give up our locks on it.
    # https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
    if _has_journal(path) and os.path.exists(path) and not os.path.islink(path):
        file.recover(path)
        with suppress(sqlite3.Error):
            drop_journal(path)
    if _has_journal(path):
        raise CassetteError(
            f"{path} is in use, so it was not replaced; end the processes that record or read it, then try again"
        )


def drop_journal(path: str) -> None:
    """Remove an empty journal, whose owner was killed before it was needed; roll back any other."""
    before = file.identity(path)
    with closing(file.connect(path)) as db:
        db.execute("BEGIN IMMEDIATE")  # no other process writes now, so the journal has no owner
        if file.identity(path) == before:
            with suppress(FileNotFoundError):
                os.unlink(f"{os.path.realpath(path)}-journal")


def _has_journal(path: str) -> bool:
    return any(os.path.lexists(path + ending) for ending in ("-wal", "-journal"))


def _make_directory(path: str) -> tuple[str, int]:
    """Make a private directory; return its path, and a descriptor that keeps it locked."""
    place, name = os.path.split(path)
    while True:
        directory = os.path.join(place, f".{name}.{os.urandom(4).hex()}{_ENDING}")
        os.mkdir(directory, 0o700)
        with suppress(FileNotFoundError):  # another process removed it as a leftover before the lock
            return directory, _lock_directory(directory, wait=True)


def _remove_leftovers(path: str) -> None:
    """Remove leftovers of killed commands beside a file. Live commands keep theirs locked."""
    place, name = os.path.split(path)
    pattern = re.compile(re.escape(f".{name}.") + "[0-9a-f]{8}" + re.escape(_ENDING))
    with suppress(OSError):  # a writable directory need not be readable
        for directory in (os.path.join(place, entry) for entry in os.listdir(place or ".") if pattern.fullmatch(entry)):
            with suppress(OSError):
                os.close(_lock_directory(directory, wait=False))  # no process has it, or will want it
                _remove_directory(directory)


def _remove_directory(directory: str) -> None:
    with suppress(OSError):
        for entry in os.listdir(directory):
            os.unlink(os.path.join(directory, entry))
        os.rmdir(directory)


class _GoneError(FileNotFoundError):
    """The last owner removed the file while it was being locked."""


def lock(path: str, *, wait: bool = False, shared: bool = False) -> int | None:
    """Lock a lock file; return a descriptor for `unlock`, or None while another process holds the lock."""
    while True:
        try:
            return _lock_path(path, shared=shared, wait=wait)
        except _GoneError:
            continue
        except BlockingIOError:
            return None


def claim_if_last(descriptor: int) -> bool:
    """Turn a shared lock into an exclusive one and return True, if no other process shares it; else release it.

    If another process is just doing the work of the last owner, wait for that first.
    """
    try:
        calls.flock(descriptor, wait=False)
        return True
    except BlockingIOError:
        calls.flock(descriptor, shared=True)
        os.close(descriptor)
        return False


def remove(database: str) -> None:
    """Remove a database, its journals first: left alone, they would be applied to the next one of that name."""
    for name in (*(database + ending for ending in journals.ENDINGS), database):
        with suppress(FileNotFoundError):
            os.unlink(name)


def unlock(path: str, descriptor: int) -> None:
    """Remove the file of a lock, and with it the lock."""
    calls.drop_lock(path, descriptor)


def _lock_directory(path: str, *, wait: bool) -> int:
    return _hold_lock(calls.open_directory_lock(path), calls.lock_of_directory(path), wait=wait)


def _lock_path(path: str, *, shared: bool = False, wait: bool = True) -> int:
    """Lock the file at a path, but not a link; OSError if that fails or it was removed."""
    return _hold_lock(calls.open_lock(path), path, shared=shared, wait=wait)


def _hold_lock(descriptor: int, path: str, *, shared: bool = False, wait: bool) -> int:
    try:
        try:
            calls.flock(descriptor, shared=shared, wait=wait)
        except OSError:
            # Some network mounts cannot lock directories: leftovers there stay.
            if shared or not wait:
                raise
        if file.identity(descriptor) != file.identity(path):
            raise _GoneError(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
