"""Puts cassettes into a bucket, under names made from their content."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..cassette import file
from ..cassette.query.integrity import secrets_in
from ..cassette.reader import Cassette
from ..cassette.schema import LEFT, TEXT
from ..cassette.text.recognize import is_database, is_recorded_text
from ..errors import CassetteError, quote_path
from . import bucket, stores
from .bucket import RefusedError, TransferOutcome
from .partitions import partition

if TYPE_CHECKING:
    from ..redaction.redactor import Redactor

_LARGE = 8 << 20  # bytes: larger files are sent in parts, and not held in memory
_CHUNK = 5 << 20
_FEW = 10  # cassettes: for more, one request lists the existing names


class PushItem(NamedTuple):
    """A cassette, ready to send."""

    path: str
    name: str
    digest: str
    size: int
    data: bytes | None  # if it is small
    seen: tuple[int, ...] | None  # the file's state when it was examined


def push(
    files: Sequence[str], url: str, check: Callable[[], Redactor] | None, report: Callable[[TransferOutcome], None]
) -> int:
    """Put cassettes into a bucket, and report each; return the exit code.

    `check` makes a redactor: a cassette with anything that it would hide is refused.
    """
    stores.expect_bucket(url, "pushed to")
    pushing = _Pushing(url.rstrip("/"), check, lists=len(files) > _FEW)
    return bucket.run(files, pushing.push, lambda path: TransferOutcome(path, None), report)


class _Pushing:
    def __init__(self, url: str, check: Callable[[], Redactor] | None, *, lists: bool) -> None:
        self._url, self._check, self._lists = url, check, lists
        self._store, self._prefix = stores.open_store(url)
        self._there: dict[str, asyncio.Future[set[str]]] = {}  # names in each partition

    async def push(self, path: str) -> TransferOutcome:
        sent = examine(path)
        outcome = TransferOutcome(path, f"{self._url}/{sent.name}", "there", sent.size)
        if self._lists and sent.name in await self._names(os.path.dirname(sent.name)):
            return outcome
        if self._check is not None:
            expect_no_secrets(path, self._check())
        if file.file_state(sent.path) != sent.seen:
            raise RefusedError(f"{path} was changed while it was read; push it when no process writes to it")
        return outcome._replace(status=await self._put(sent))

    async def _names(self, partition: str) -> set[str]:
        """The names in a partition, which is listed once."""
        if partition not in self._there:
            self._there[partition] = asyncio.ensure_future(self._list_partition(partition))
        return await self._there[partition]

    async def _list_partition(self, partition: str) -> set[str]:
        url = f"{self._url}/{partition}"

        async def list_names() -> set[str]:
            found = stores.each_object(self._store, self._key(partition), url)
            return {os.path.basename(one["path"]) async for one in found}

        found = await bucket.try_request(url, list_names)
        return {f"{partition}/{name}" for name in found}

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    async def _put(self, sent: PushItem) -> str:
        """Create an object if it is absent; return the status."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        key = self._key(sent.name)

        async def put() -> str:
            if sent.data is not None:
                try:
                    await obstore.put_async(self._store, key, sent.data, mode="create")
                    return "pushed"
                except AlreadyExistsError:
                    return "there"
                except NotSupportedError:
                    pass  # writing it twice is harmless: equal names mean equal content; the same holds for parts
            try:
                await obstore.head_async(self._store, key)
                return "there"
            except FileNotFoundError:
                await obstore.put_async(self._store, key, sent.data or _parts_of(sent), chunk_size=_CHUNK)
                return "pushed"

        return await bucket.try_request(f"{self._url}/{sent.name}", put)


def examine(path: str) -> PushItem:
    """Prepare a cassette to send; refuse one that is unfinished or of another tool."""
    with Cassette(path) as cassette:  # opening it repairs what a killed recorder left
        seen = file.file_state(cassette.local)
        is_text = is_recorded_text(cassette.local)
        if not is_text and not is_database(cassette.local):
            raise RefusedError(
                f"{path} is a recording of another tool; first: mcp-tape convert {quote_path(path)} OTHER.db"
            )
        partitions = sorted({partition(session) for session in cassette.each_session()})
        local = cassette.local
    if not partitions:
        raise RefusedError(f"{path} holds no session yet")
    if os.path.exists(local + LEFT) if is_text else file.header_says_wal(local):
        raise RefusedError(f"{path} is being recorded or changed; push it when that has ended")
    day, _, server = partitions[0].partition("/")
    if any(not one.endswith(f"/{server}") for one in partitions):
        server = "server=several"
    digest, size, data = _read(local)
    return PushItem(local, f"{day}/{server}/{digest}{TEXT if is_text else '.db'}", digest, size, data, seen)


def expect_no_secrets(path: str, redactor: Redactor) -> None:
    """Refuse a cassette in which `mcp-tape check` would find a secret."""
    with Cassette(path) as cassette:
        found = next(secrets_in(cassette, redactor), None)
    if found is not None:
        place = f"session {found.session} #{found.seq} {found.path}"
        hint = f"to hide what is there: mcp-tape redact {quote_path(path)}"
        raise RefusedError(f"{path}: {place} {found.message}; {hint}")


def _read(path: str) -> tuple[str, int, bytes | None]:
    """The digest and the size of a file, and its bytes if it is small."""
    try:
        with open(path, "rb") as source:
            if os.fstat(source.fileno()).st_size <= _LARGE:
                data = source.read()
                return hashlib.sha256(data).hexdigest(), len(data), data
            digest, size = hashlib.sha256(), 0
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
            return digest.hexdigest(), size, None
    except OSError as error:
        raise CassetteError(f"cannot read {path}: {error.strerror}") from None


async def _parts_of(sent: PushItem) -> AsyncIterator[bytes]:
    """A large file in parts. Fails before the end if the file has changed since it was examined."""
    digest = hashlib.sha256()
    with open(sent.path, "rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            yield chunk
    if digest.hexdigest() != sent.digest:
        raise RefusedError(f"{sent.path} was changed while it was sent")
