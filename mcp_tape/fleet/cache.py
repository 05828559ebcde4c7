"""Local copies of remote cassettes: one for each URL, checked once by each process.

A copy is valid for its ETag. Each URL has a directory with its copies and a note that names the newest one. Both are
written to one side and moved into place whole, so that any number of processes can work at once. When all copies
together exceed MCP_TAPE_CACHE_SIZE, the least recently used are removed. The directory must belong to its user alone:
files that others could have put there are not read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, NamedTuple

from ..cassette import replace
from ..console.progress import Progress
from ..errors import CassetteError
from ..system import calls
from ..values import parse_size
from . import download, stores
from .stores import OFFLINE, UnreachableError, safe_name

__all__ = ["directory", "fetch_copy", "forget", "local", "prune", "safe_name"]

if TYPE_CHECKING:
    from .download import Download

PLACE, SIZE = "MCP_TAPE_CACHE", "MCP_TAPE_CACHE_SIZE"
_USUAL_SIZE = "2G"
_NOTE, _LOCK = "copy.json", "lock"
_TRIES = 3  # for an object that is replaced, or whose connection breaks off, during a download
_CHUNK = 1 << 20
_IN_USE = 3600  # seconds after its last use in which a copy is kept: it may be opened again
_EPOCH = datetime.fromtimestamp(0, timezone.utc)

_pinned: dict[str, str] = {}  # the copy that this process reads, by the name of its URL
_one_at_a_time = threading.Lock()
_unpruned: list[int] = []  # sizes of copies that this process made since it last pruned


class Copy(NamedTuple):
    """A copy of the object at a URL, current or earlier."""

    path: str
    etag: str | None
    modified: str | None
    size: int


def local(url: str) -> str:
    """The path of a copy of the object at a URL. Read it only: it stays the same for the life of this process."""
    name = safe_name(url)
    with _one_at_a_time:
        if not os.path.exists(_pinned.get(name, "")):
            _pinned[name] = _newest(name)
        return _pinned[name]


@contextmanager
def fetch_copy(url: str) -> Iterator[tuple[str, str]]:
    """The name of a URL, and a copy of its object. Errors that name the copy name the URL instead."""
    name, copy = safe_name(url), local(url)
    try:
        yield name, copy
    except CassetteError as error:
        raise type(error)(str(error).replace(copy, name)) from None


def forget() -> None:
    """Check every URL again."""
    with _one_at_a_time:
        _pinned.clear()
        _unpruned.clear()


def directory() -> str:
    """The directory of all copies, by the user's settings."""
    given = os.environ.get(PLACE)
    return os.path.abspath(os.path.expanduser(given)) if given else os.path.join(calls.cache_home(), "mcp-tape")


def _newest(name: str) -> str:
    entry = _Entry(name)
    kept = entry.read()
    if kept is not None and stores.partial_key(name):
        return kept.path
    if stores.is_offline():
        if kept is None:
            raise CassetteError(f"{name} is not in the cache {directory()}; unset {OFFLINE} to fetch it")
        return entry.mark_used(kept)
    if kept is not None:
        return _ask_store(entry, kept)
    with entry.lock():  # if many processes need it at once, one fetches it
        return _ask_store(entry, entry.read())


def _ask_store(entry: _Entry, kept: Copy | None) -> str:
    """Ask the store; return the existing copy if it is current, else a new one."""
    since = datetime.fromisoformat(kept.modified) if kept and kept.modified else None
    for last in (False,) * (_TRIES - 1) + (True,):
        try:
            with download.get(entry.name, kept and kept.etag, since) as answer:
                if answer is None and kept is not None:
                    return entry.mark_used(kept)
                if answer is not None:
                    return entry.put(answer)
        except _BrokenError as error:
            if last:
                raise UnreachableError(str(error)) from None
        except UnreachableError as error:
            hint = f"; to use the local copy, set {OFFLINE}=1" if kept else ""
            raise UnreachableError(f"{error}{hint}") from None
    raise UnreachableError(f"cannot reach {entry.name}: it reports the object as unchanged, but no copy is here")


class _BrokenError(Exception):
    """An object was not read to its end: the connection broke off, or the object was replaced."""


class _Entry:
    """The copies of one URL."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._place = os.path.join(_own_place(), _directory_of(name))
        with _report_write_errors(self._place):
            os.makedirs(self._place, 0o700, exist_ok=True)

    def read(self) -> Copy | None:
        """The newest copy; None if there is none, or only an incomplete one."""
        try:
            with open(os.path.join(self._place, _NOTE), "rb") as file:
                said = json.load(file)
            copy = Copy(os.path.join(self._place, os.path.basename(said["file"])), *map(said.get, Copy._fields[1:]))
            return copy if os.path.getsize(copy.path) == copy.size else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def mark_used(self, copy: Copy) -> str:
        with suppress(OSError):
            os.utime(os.path.join(self._place, _NOTE))
        return copy.path

    @contextmanager
    def lock(self) -> Iterator[None]:
        path = os.path.join(self._place, _LOCK)
        with _report_write_errors(self._place):
            held = replace.lock(path, wait=True)
        assert held is not None
        try:
            yield
        finally:
            replace.unlock(path, held)

    def put(self, answer: Download) -> str:
        """Save a download as the newest copy."""
        meta = answer.meta
        ending = re.search(r"(?a)\.\w{1,10}$", self.name.partition("?")[0])
        with _report_write_errors(self._place), replace.beside(os.path.join(self._place, "tape")) as part:
            digest, size = stores.wait_for(self.name, lambda: self._write_download(answer, part.file))
            modified = meta["last_modified"] if meta["last_modified"] > _EPOCH else None
            if modified:  # a session without a start time gets this one
                os.utime(part.file, (modified.timestamp(), modified.timestamp()))
            os.chmod(part.file, 0o400)
            path = os.path.join(self._place, digest[:40] + (ending[0] if ending else ""))
            part.put(path, as_text=False)
        self._note(Copy(path, meta["e_tag"], modified.isoformat() if modified else None, size))
        _tidy(size)
        return path

    async def _write_download(self, answer: Download, path: str) -> tuple[str, int]:
        digest, size, total = sha256(), 0, self._expected_size(answer)
        with open(path, "xb") as file, Progress(f"fetching {self.name}", total) as progress:
            async for chunk in self._received_chunks(answer):
                digest.update(chunk)
                file.write(chunk)
                size += len(chunk)
                if size > total:
                    break
                progress(size)
        if size != total:
            raise _BrokenError(f"cannot read {self.name}: {size} bytes of {total} came")
        return digest.hexdigest(), size

    def _expected_size(self, answer: Download) -> int:
        """The size of a download; CassetteError if there is no room for it."""
        try:
            return download.size_of(answer, self.name, _limit())
        except stores.StoreError as error:
            raise stores.StoreError(f"{error}, the room of all copies; set {SIZE}, or: mcp-tape pull") from None

    async def _received_chunks(self, answer: Download) -> AsyncIterator[bytes]:
        try:
            pieces = answer.stream(min_chunk_size=_CHUNK)
            if stores.split(self.name).scheme not in stores.BUCKETS:
                for piece in pieces:  # in this thread, so that Ctrl-C ends it
                    yield piece
                return
            async for piece in pieces:
                yield memoryview(piece)  # type: ignore[misc]
        except Exception as error:
            if type(error).__name__ == "PreconditionError":
                raise _BrokenError(f"cannot read {self.name}: it is replaced all the time; try again") from None
            raise _BrokenError(str(stores.translate_error(error, self.name))) from None

    def _note(self, copy: Copy) -> None:
        said = {"url": self.name} | copy._asdict() | {"file": os.path.basename(copy.path)}
        del said["path"]
        with _report_write_errors(self._place), replace.beside(os.path.join(self._place, _NOTE)) as part:
            with open(part.file, "x", encoding="utf-8") as file:
                json.dump(said, file)
            part.put(as_text=False)


def _directory_of(name: str) -> str:
    digits = stores.partial_key(name)
    if digits is None:
        return stores.key(name)[:40]
    for found in os.listdir(_own_place()):
        if found.startswith(digits):
            return found
    raise CassetteError(f"{name} is the name of a signed URL; give all of it")


@contextmanager
def _report_write_errors(place: str) -> Iterator[None]:
    """Name the cache's path in errors if it cannot be written."""
    try:
        yield
    except OSError as error:
        hint = f"free some space, or set {PLACE} to another directory"
        raise CassetteError(f"cannot write to the cache {place}: {error.strerror}; {hint}") from None


def _own_place() -> str:
    """The cache directory, created if missing. Refuses one that other users can write."""
    place = os.path.join(directory(), "remote")
    with _report_write_errors(place):
        os.makedirs(place, 0o700, exist_ok=True)
        if not replace.make_private(place):
            raise CassetteError(
                f"the cache {place} is not private to you, so it is not used; set {PLACE} to another directory"
            )
    return place


# Room -----------------------------------------------------------------------------------------------------------------


def _tidy(size: int) -> None:
    """Prune the cache if it is too large. Checks only now and then, since that scans all copies."""
    limit = _limit()
    is_first = not _unpruned
    _unpruned.append(size)
    if is_first or sum(_unpruned) > limit // 20 or len(_unpruned) > 1000:
        _unpruned[:] = [0]
        prune(limit)


def _limit() -> int:
    try:
        return parse_size(os.environ.get(SIZE) or _USUAL_SIZE)
    except ValueError as error:
        raise CassetteError(f"{SIZE}: {error}") from None


def prune(limit: int, since: float | None = None) -> None:
    """Remove outdated copies, then the least recently used, until the rest fits."""
    long_ago = time() - _IN_USE if since is None else since
    found: list[tuple[float, int, str]] = []
    for entry in os.scandir(_own_place()):
        with suppress(OSError, ValueError, AttributeError):  # removed by another process, or not one of our directories
            found.append(_measure(entry.path, long_ago))
    total = sum(size for _, size, _ in found)
    for used, size, place in sorted(found):
        if total <= limit or used > long_ago:
            break
        shutil.rmtree(place, ignore_errors=True)
        total -= size


def _measure(place: str, long_ago: float) -> tuple[float, int, str]:
    """When a URL was last used, and the size of its copies. Removes outdated copies."""
    note = os.path.join(place, _NOTE)
    if not os.path.exists(note):  # the download failed, or is still running
        if os.stat(place).st_mtime < long_ago:
            shutil.rmtree(place, ignore_errors=True)
        return time(), 0, place
    with open(note, "rb") as file:
        kept = _NOTE, _LOCK, json.load(file).get("file")
    size = 0
    for one in os.scandir(place):
        about = one.stat(follow_symlinks=False)
        if one.name not in kept and one.is_file() and about.st_ctime < long_ago:
            os.unlink(one.path)
        else:
            size += about.st_size
    return os.stat(note).st_mtime, size, place
