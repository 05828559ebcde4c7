"""The same work without mcp-tape: `python fleet_programs.py WHAT ARGUMENTS`, each in a separate process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys
from collections import Counter
from pathlib import Path

_AT_ONCE = 32
_SLOWEST = (
    """SELECT name, count(*), max(microseconds) FROM '{}' WHERE method = 'tools/call' GROUP BY name ORDER BY name"""
)
_OF_ONE = "SELECT name, count(*), max(microseconds) FROM exchanges WHERE method = 'tools/call' GROUP BY name"


async def put(source: str, url: str) -> None:
    """Put every file of a directory into a bucket, many at once, with only obstore."""
    import obstore
    from obstore.store import S3Store

    store, gate = S3Store.from_url(url), asyncio.Semaphore(_AT_ONCE)

    async def one(path: Path) -> None:
        async with gate:
            await obstore.put_async(store, path.name, path.read_bytes(), mode="create")

    await asyncio.gather(*map(one, Path(source).iterdir()))


async def get(url: str, target: str) -> None:
    """Get everything below a URL into a directory."""
    import obstore
    from obstore.store import S3Store

    store, gate, place = S3Store.from_url(url), asyncio.Semaphore(_AT_ONCE), Path(target)
    place.mkdir()

    async def one(name: str) -> None:
        async with gate:
            found = await obstore.get_async(store, name)
            (place / name.replace("/", "-")).write_bytes(await found.bytes_async())

    names = [row["path"] for page in obstore.list(store) for row in page]
    await asyncio.gather(*map(one, names))


def query(pattern: str) -> None:
    """The number of calls and the slowest call of each tool, with DuckDB."""
    import duckdb

    print(duckdb.sql(_SLOWEST.format(pattern)).fetchall())


def scan(source: str) -> None:
    """The same with SQLite, one cassette at a time."""
    number, slowest = Counter[str](), Counter[str]()
    for path in Path(source).iterdir():
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            for name, calls, microseconds in db.execute(_OF_ONE):
                number[name] += calls
                slowest[name] = max(slowest[name], microseconds or 0)
    print([(name, number[name], slowest[name]) for name in sorted(number)])


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what in ("put", "get"):
        asyncio.run({"put": put, "get": get}[what](*arguments))
        os._exit(0)  # obstore's threads may abort a normal exit
    else:
        {"query": query, "scan": scan}[what](*arguments)
