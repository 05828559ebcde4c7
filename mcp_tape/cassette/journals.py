"""The files that SQLite keeps beside a cassette, checked before it is opened. Needs no SQLite, as a relay has none.

SQLite trusts them. It deletes the file that a rollback journal names as its super-journal, wherever that is, and it
truncates its own files, which may be hard links to others. A cassette may come from a stranger, with all of them.

https://www.sqlite.org/fileformat2.html#the_rollback_journal
https://www.sqlite.org/atomiccommit.html#_multi_file_commit
"""

from __future__ import annotations

import os
import stat

from ..errors import CassetteError, pasted

ENDINGS = ("-journal", "-wal", "-shm")
_MAGIC = bytes.fromhex("d9d505f920a163d7")  # begins a journal's header, and ends the name of a super-journal
_TAIL = 16  # bytes behind the name: its length, its checksum, the magic
_LONGEST = 1 << 16


def check(path: str) -> None:
    """Refuse a cassette whose journals would lead SQLite to other files. Nothing is touched."""
    path = os.path.realpath(path)  # SQLite looks beside the file itself
    for ending in ENDINGS:
        _expect_plain(path, path + ending)
    name = super_journal(path)
    if name is None:
        return
    import re

    # SQLite looks for the name at the end of any journal, also of one that is not hot, when it rolls back.
    if not re.fullmatch(re.escape(path) + "-mj[0-9A-F]{9}", name):
        raise _refused(path, f"{path}-journal", f"would have SQLite delete another file, {pasted(ascii(name)[1:-1])}")
    _expect_plain(path, name)
    listed = _read(name, 0, _LONGEST)
    if len(listed) == _LONGEST:
        raise _refused(path, name, "lists more journals than mcp-tape makes")
    for journal in filter(None, listed.split(b"\0")):  # each ends with a NUL, and SQLite opens it
        _expect_plain(path, os.fsdecode(journal))


def is_hot(path: str) -> bool:
    """Return whether there is a journal to be rolled back, should nobody be writing just now.

    https://www.sqlite.org/lockingv3.html#hot_journals
    """
    path = os.path.realpath(path)
    _expect_plain(path, f"{path}-journal")
    return _read(f"{path}-journal", 0, 1) not in (b"", b"\0")


def super_journal(path: str) -> str | None:
    """The name at the end of the journal of a file, which is given by its real path; valid or not."""
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
        return  # there is none, or SQLite cannot reach it either
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, beside, "is not a regular file")
    if found.st_nlink > 1:
        raise _refused(path, beside, "is a link: another file would change with it")


def _refused(path: str, beside: str, why: str) -> CassetteError:
    return CassetteError(
        f"{path} was not opened: beside it, {os.path.basename(beside)} {why}; nothing was touched.\n"
        f"If you trust {os.path.basename(path)} without it: mv {pasted(beside)} {pasted(beside + '.aside')}"
    )


def _read(path: str, offset: int, size: int) -> bytes:
    """Bytes of a file, from its start or, with a negative offset, its end; none where it is not there or too short."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise CassetteError(f"cannot read {path}: {error.strerror}") from None
    try:
        start = offset if offset >= 0 else os.fstat(descriptor).st_size + offset
        return os.pread(descriptor, size, start) if start >= 0 else b""
    finally:
        os.close(descriptor)
