"""Downloads of objects: from a bucket by obstore, at http:// and https:// by httpx2."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from ..values import size_text
from . import stores

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult

    from .web import WebAnswer

    Download: TypeAlias = GetResult | WebAnswer


@contextmanager
def get(url: str, etag: str | None = None, since: datetime | None = None) -> Iterator[Download | None]:
    """Request an object to read; None if it still has this ETag, or has not changed since."""
    if stores.askable_parts(url).scheme not in stores.BUCKETS:
        with _get_from_web(url, etag, since) as answer:
            yield answer if answer.is_new else None
        return
    store, path = stores.open_store(url)
    import obstore
    from obstore.exceptions import NotModifiedError

    options: GetOptions = {"if_none_match": etag} if etag else {"if_modified_since": since} if since else {}
    found: GetResult | None = None
    try:
        found = stores.wait_for(url, lambda: obstore.get_async(store, path, options=options))
    except NotModifiedError:
        pass
    except Exception as error:
        raise stores.translate_error(error, url) from None
    yield found


@asynccontextmanager
async def get_async(url: str) -> AsyncIterator[Download]:
    """Request an object to read."""
    if stores.askable_parts(url).scheme not in stores.BUCKETS:
        with await asyncio.to_thread(_get_from_web, url) as answer:
            yield answer
        return
    store, path = stores.open_store(url)
    import obstore

    yield await obstore.get_async(store, path)


def _get_from_web(url: str, etag: str | None = None, since: datetime | None = None) -> WebAnswer:
    from .web import WebAnswer

    return WebAnswer(stores.split(url)._replace(fragment="").geturl(), stores.safe_name(url), etag, since)


def size_of(answer: Download, name: str, most: int) -> int:
    """The size of an object that is about to be sent; StoreError if it is too large."""
    size = answer.meta["size"]
    if size > most:
        raise stores.StoreError(f"{name} has {size_text(size)}, which is more than {size_text(most)}")
    return size
