"""Fetches cassettes from a bucket into a directory, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from ..cassette import replace
from ..errors import CassetteError
from . import bucket, download, stores
from .bucket import RefusedError, TransferOutcome

_ENDINGS = (".db", ".jsonl")
_ADDRESSED = re.compile(r"([0-9a-f]{64})\.(?:db|jsonl)")
_CHUNK = 1 << 20
_LARGEST = 1 << 40  # bytes


class PullItem(NamedTuple):
    """An object and its local file. `problem`: why it cannot be a local file."""

    url: str
    file: str
    size: int | None = None
    modified: datetime | None = None
    problem: str | None = None


def pull(
    urls: Sequence[str],
    directory: str,
    dates: Sequence[str],
    servers: Sequence[str],
    report: Callable[[TransferOutcome], None],
    begun: Callable[[int], None] = lambda number: None,
    force: bool = False,
) -> int:
    """Fetch cassettes into a directory, and report each; return the exit code. `begun` receives their number.

    An existing file that differs is refused, or replaced with `force`.

    A URL with a cassette's ending is one object. Any other is a prefix: all cassettes below it of these dates (or
    months, or years) and servers are fetched.
    """
    found = list(find_items(urls, directory, dates, servers))
    _expect_one_each(found)
    begun(len(found))
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise CassetteError(f"cannot write {directory}: {error.strerror}") from None
    with replace.beside(os.path.join(directory, "pull")) as part:
        pulling = _Pulling(os.path.dirname(part.file), force)
        return bucket.run(found, pulling.pull, lambda one: TransferOutcome(one.file, stores.safe_name(one.url)), report)


def find_items(urls: Sequence[str], directory: str, dates: Sequence[str], servers: Sequence[str]) -> Iterator[PullItem]:
    for url in urls:
        parts = stores.split(url)
        if parts.scheme not in stores.BUCKETS or url.endswith(_ENDINGS):
            path = url if parts.scheme in stores.BUCKETS else parts.path
            yield _place_item(PullItem(url, directory), path.rpartition("/")[2])
            continue
        below = url.rstrip("/") + "/"
        there = list(stores.cassettes_below(url))
        if not there:
            raise stores.GoneError(f"there is no cassette below {url}; the name of one ends in .db or .jsonl")
        for one in there:
            if _fits(one.url, "date", dates, str.startswith) and _fits(one.url, "server", servers, str.__eq__):
                object_ = PullItem(one.url, directory, one.size, one.modified, one.problem)
                yield _place_item(object_, one.url.removeprefix(below))


def _fits(url: str, name: str, values: Sequence[str], fits: Callable[[str, str], bool]) -> bool:
    said = [part.removeprefix(f"{name}=") for part in url.split("/") if part.startswith(f"{name}=")]
    return not values or any(fits(one, value) for one in said for value in values)


def _place_item(one: PullItem, name: str) -> PullItem:
    """Add the local file to an object. It is always below the directory, whatever the object's name."""
    parts = name.split("/")
    if one.problem is None and any(part in ("", ".", "..") or "\0" in part or os.sep in part for part in parts):
        one = one._replace(problem=f"{one.url} has a name that no file here can have")
    return one if one.problem else one._replace(file=os.path.join(one.file, *parts))


def _expect_one_each(found: Sequence[PullItem]) -> None:
    urls: dict[str, str] = {}
    for one in (one for one in found if one.problem is None):
        other = urls.setdefault(one.file, one.url)
        if other != one.url:
            both = f"{stores.safe_name(other)} and {stores.safe_name(one.url)}"
            raise CassetteError(f"{both} would both be {one.file}; pull them into different directories")


class _Pulling:
    def __init__(self, private: str, force: bool) -> None:
        self._private = private  # holds incomplete files
        self._force = force
        self._number = 0

    async def pull(self, one: PullItem) -> TransferOutcome:
        name = stores.safe_name(one.url)
        outcome = TransferOutcome(one.file, name, "there", one.size)
        if one.problem is not None:
            return outcome._replace(status="failed", why=one.problem, code=CassetteError.exit_code)
        if one.size is None and urlsplit(one.url).scheme in stores.BUCKETS:
            one = await bucket.try_request(name, lambda: self._ask_size(one))
        if _is_whole(one):
            return outcome._replace(bytes=one.size)
        if not self._force and os.path.lexists(one.file) and one.size not in (None, _size(one.file)):
            raise _differs(one, name)
        size, is_new = await bucket.try_request(name, lambda: self._fetch(one, name))
        return outcome._replace(status="pulled" if is_new else "there", bytes=size)

    async def _ask_size(self, one: PullItem) -> PullItem:
        store, key = stores.open_store(one.url)
        import obstore

        meta = await obstore.head_async(store, key)
        return one._replace(size=meta["size"], modified=meta["last_modified"])

    async def _fetch(self, one: PullItem, name: str) -> tuple[int, bool]:
        """Fetch an object and move it into place; return its size, and whether it is new here."""
        self._number += 1
        part = replace.DraftFile(os.path.join(self._private, str(self._number)), one.file)
        async with download.get_async(one.url) as answer:
            digest, size = hashlib.sha256(), 0
            expected = download.size_of(answer, name, _LARGEST)
            with _report_write_errors(one.file), open(part.file, "wb") as target:
                async for chunk in answer.stream(min_chunk_size=_CHUNK):
                    data = memoryview(chunk)
                    digest.update(data)
                    target.write(data)
                    size += len(data)
                    if size > expected:
                        break
        addressed = _ADDRESSED.fullmatch(os.path.basename(one.file))
        if size != expected or (addressed and addressed[1] != digest.hexdigest()):
            os.unlink(part.file)
            raise stores.StoreError(f"{name} does not match its name: it is damaged, or was changed")
        with _report_write_errors(one.file):
            os.makedirs(os.path.dirname(one.file) or ".", exist_ok=True)
            time = answer.meta["last_modified"].timestamp()
            os.utime(part.file, (time, time))
        if self._force:
            part.put(as_text=False)
        elif not part.put_first():
            is_same = _size(one.file) == size and _digest(one.file) == digest.hexdigest()
            os.unlink(part.file)
            if not is_same:
                raise _differs(one, name)
            return size, False
        return size, True


def _differs(one: PullItem, name: str) -> RefusedError:
    return RefusedError(f"{one.file} is there, and is not {name}; pull into another directory, or replace it: --force")


@contextmanager
def _report_write_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.errno is None:
            raise  # from the store, not the disk
        raise CassetteError(f"cannot write {path}: {error.strerror}") from None


def _is_whole(one: PullItem) -> bool:
    """Return whether an object's file is complete here: by the hash in its name, else by its size and time."""
    try:
        found = os.stat(one.file)
        if found.st_size != one.size:
            return False
        addressed = _ADDRESSED.fullmatch(os.path.basename(one.file))
        if addressed is None:
            return one.modified is not None and found.st_mtime == one.modified.timestamp()
        return _digest(one.file) == addressed[1]
    except OSError:
        return False


def _size(path: str) -> int:
    """The size of a file; -1 if it cannot be read."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
