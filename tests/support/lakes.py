"""Lakes in tests: cassettes to make them from, and their rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyarrow import parquet

from mcp_tape.fleet.lake.columns import TABLES
from mcp_tape.fleet.lake.run import UNWRITTEN, lake_one, prepare
from mcp_tape.fleet.many.results import Result
from tests.support.decks import make_cassette
from tests.support.messages import call, request, result

Row = dict[str, Any]


def greeting(server: str, version: str = "1") -> list[Any]:
    """The beginning of a conversation with a server of this name."""
    info = {"protocolVersion": "2025-11-25", "serverInfo": {"name": server, "version": version}, "capabilities": {}}
    client = {"name": "client", "version": "0"}
    asked = request(0, "initialize", protocolVersion="2025-11-25", clientInfo=client, capabilities={})
    return [("client", asked), ("server", json.dumps({"jsonrpc": "2.0", "id": 0, "result": info}))]


def talk(server: str, *words: str) -> list[Any]:
    """A conversation with one call per word."""
    calls = [[("client", call(n, "say", word=word)), ("server", result(n, word))] for n, word in enumerate(words, 1)]
    return [*greeting(server), *(said for both in calls for said in both)]


def of_two_days(path: Path) -> Path:
    """A cassette whose sessions are in three partitions."""
    make_cassette(path, talk("one", "a", "b"), started_at="2026-11-16T10:00:00Z")
    make_cassette(path, talk("two", "c"), started_at="2026-11-17T10:00:00Z")
    return make_cassette(path, talk("two", "d"), talk("two-b", "e"), started_at="2026-11-17T23:59:59.5Z")


def files(lake: Path, table: str = "*") -> list[Path]:
    """The files of a lake, or of one of its tables."""
    return sorted(lake.glob(f"{table}/date=*/server=*/*.parquet"))


def rows(lake: Path, table: str) -> list[Row]:
    """All rows of a table in recorded order, with the directories that they are in."""
    found = [of_file(path) for path in files(lake, table)]
    return sorted((row for some in found for row in some), key=place)


def of_file(path: Path) -> list[Row]:
    day, server = (part.partition("=")[2] for part in path.parts[-3:-1])
    return [row | {"date": day, "server": server} for row in parquet.ParquetFile(path).read().to_pylist()]


def place(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name, 0) for name in ("cassette", "session", "seq", "part"))


def everything(lake: Path) -> dict[str, list[Row]]:
    """All rows of all tables; an incomplete file is an error."""
    return {table: rows(lake, table) for table in TABLES}


def leftovers(lake: Path) -> list[str]:
    """Files in a lake that do not belong there."""
    known = {*files(lake), lake / "lake.json"}
    return [str(path) for path in lake.rglob("*") if path.is_file() and path not in known]


def lake(tapes: Iterable[str], dest: str, content: bool = True) -> list[Result]:
    """The result of each cassette in a run of the command."""
    prepare(dest, content)
    results = []
    for tape in tapes:
        results.append(lake_one(tape, dest, content=content))
        if results[-1].details.get("lake") == UNWRITTEN:
            break
    return results


def statuses(results: Iterable[Result]) -> list[str]:
    return [result.details.get("lake", result.status) for result in results]
