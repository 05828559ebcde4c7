"""The files that SQLite keeps beside a cassette, checked before it is opened. Works without SQLite, as in a relay.

SQLite trusts these files. It deletes the file that a rollback journal names as its super-journal, wherever that is, and
it truncates its own files, which may be hard links to others. An untrusted cassette may come with all of them.

https://www.sqlite.org/fileformat2.html#the_rollback_journal
https://www.sqlite.org/atomiccommit.html#_multi_file_commit
"""

from __future__ import annotations

import os
import stat

from ..errors import CassetteError, quote_path
from ..system import calls

ENDINGS = ("-journal", "-wal", "-shm")
_MAGIC = bytes.fromhex("d9d505f920a163d7")  # begins a journal's header, and ends the name of a super-journal
_TAIL = 16  # bytes after the name: its length, its checksum, the magic
_LONGEST = 1 << 16


def check(path: str) -> None:
    """Refuse a cassette whose journals would lead SQLite to other files. Touches nothing."""
    path = os.path.realpath(path)  # SQLite looks beside the file itself
    for ending in ENDINGS:
        _expect_plain(path, path + ending)
    name = super_journal(path)
    if name is None:
        return
    import re

    # On a rollback SQLite looks for the name at the end of any journal, even one that is not hot.
    if not re.fullmatch(re.escape(path) + "-mj[0-9A-F]{9}", name):
        raise _refusal(
            path, f"{path}-journal", f"would have SQLite delete another file, {quote_path(ascii(name)[1:-1])}"
        )
    _expect_plain(path, name)
    listed = _read(name, 0, _LONGEST)
    if len(listed) == _LONGEST:
        raise _refusal(path, name, "lists more journals than mcp-tape makes")
    for journal in filter(None, listed.split(b"\0")):  # each ends with a NUL, and SQLite opens it
        _expect_plain(path, os.fsdecode(journal))


def is_hot(path: str) -> bool:
    """Return whether there is a journal to roll back, unless a process is writing just now.

    https://www.sqlite.org/lockingv3.html#hot_journals
    """
    path = os.path.realpath(path)
    _expect_plain(path, f"{path}-journal")
    return _read(f"{path}-journal", 0, 1) not in (b"", b"\0")


def super_journal(path: str) -> str | None:
    """The name at the end of a file's journal, valid or not. `path` is a real path."""
    journal = f"{path}-journal"
    tail = _read(journal, -_TAIL, _TAIL)
    if len(tail) < _TAIL or tail[8:] != _MAGIC:
        return None
    length = min(int.from_bytes(tail[:4], "big"), _LONGEST)
    return os.fsdecode(_read(journal, -_TAIL - length, length))


def _expect_plain(path: str, beside: str) -> None:
    try:
        found = os.lstat(beside)
    except OSError:
        return  # missing, or unreachable for SQLite too
    if not stat.S_ISREG(found.st_mode):
        raise _refusal(path, beside, "is not a regular file")
    if found.st_nlink > 1:
        raise _refusal(path, beside, "is a link: another file would change with it")


def _refusal(path: str, beside: str, why: str) -> CassetteError:
    return CassetteError(
        f"{path} was not opened: beside it, {os.path.basename(beside)} {why}; nothing was touched.\n"
        f"If you trust {os.path.basename(path)} without it: mv {quote_path(beside)} {quote_path(beside + '.aside')}"
    )


def _read(path: str, offset: int, size: int) -> bytes:
    """Bytes of a file, from its start or, with a negative offset, its end; empty if it is missing or too short."""
    try:
        descriptor = calls.open_safely(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise CassetteError(f"cannot read {path}: {error.strerror}") from None
    try:
        start = offset if offset >= 0 else os.fstat(descriptor).st_size + offset
        if start < 0:
            return b""
        os.lseek(descriptor, start, os.SEEK_SET)
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)
