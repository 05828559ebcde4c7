"""Every table and view of a cassette gives the same rows in every program that reads SQLite files."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import GOLDEN
from tests.support.running import run

NAMES = ("sessions", "facts", "derived", "frames", "messages", "exchanges", "tool_calls", "notifications", "stderr")
JSON = ("arguments", "result", "error", "params")  # the views extract them from texts
OF_BATCHES = ("request", "response")
NULL = "-"  # if values are written in hex
Row = tuple[Any, ...]
Read = Callable[[Path, str], tuple[list[Row], int]]  # the rows of a table or view, and count(*)

# ClickHouse starts threads, which a process that forks should not have.
CLICKHOUSE = """
import sys
import chdb
db = chdb.connect(":memory:")
for sql in sys.argv[1:]:
    sys.stdout.buffer.write(db.query(sql, "CSV").bytes() + b";")
"""


def connected(path: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True))


def columns(path: Path, name: str) -> list[str]:
    with connected(path) as db:
        return [column for column, *_ in db.execute(f"SELECT * FROM {name}").description]


def by_python(path: Path, name: str) -> tuple[list[Row], int]:
    with connected(path) as db:
        ((count,),) = db.execute(f"SELECT count(*) FROM {name}")
        return db.execute(f"SELECT * FROM {name}").fetchall(), count


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=repr)


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def tape(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copy(request.param, tmp_path))  # some engines leave files beside it


def expect_the_same(read: Read, tape: Path, seen: Callable[[list[str], Row], Row]) -> None:
    """Compare all rows with those of Python's SQLite, as `seen` by the engine."""
    for name in NAMES:
        rows, count = by_python(tape, name)
        told, counted = read(tape, name)
        there = columns(tape, name)
        assert in_order(told) == in_order(seen(there, row) for row in rows), name
        assert counted == count == len(rows), name


def test_no_table_or_view_is_left_out(tape: Path) -> None:
    with connected(tape) as db:
        found = db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
    assert sorted(name for (name,) in found) == sorted(NAMES)


def test_every_table_and_view_has_rows_in_some_cassette() -> None:
    for name in NAMES:
        assert any(by_python(path, name)[1] for path in GOLDEN), name


# SQLite ------------------------------------------------------------------------------------------------


def as_it_is(names: list[str], row: Row) -> Row:
    return row


def by_sqlite_utils(path: Path, name: str) -> tuple[list[Row], int]:
    from sqlite_utils import Database  # loads pandas, if installed

    with connected(path) as db:
        found = Database(db)[name]
        return [tuple(row.values()) for row in found.rows], found.count


def test_sqlite_utils_gives_the_same_rows(tape: Path) -> None:
    expect_the_same(by_sqlite_utils, tape, as_it_is)


def in_hex(names: list[str], row: Row) -> Row:
    return tuple(NULL if value is None else as_bytes(value).hex().upper() for value in row)


def as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def asked_in_hex(path: Path, name: str, source: str, text: str) -> str:
    values = (
        f"CASE WHEN {column} IS NULL THEN '{NULL}' ELSE hex({text.format(column)}) END"
        for column in (f'"{column}"' for column in columns(path, name))
    )
    return f"SELECT {', '.join(values)} FROM {source}"


def from_csv(text: bytes) -> list[Row]:
    return [tuple(row) for row in csv.reader(io.StringIO(text.decode()))]


def output(command: list[str]) -> bytes:
    done = run(command)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def by_the_shell(path: Path, name: str) -> tuple[list[Row], int]:
    shell = ["sqlite3", "-readonly", "-csv", str(path)]
    count = output([*shell, f"SELECT count(*) FROM {name}"])
    return from_csv(output([*shell, asked_in_hex(path, name, name, "{}")])), int(count)


@pytest.mark.slow(quick=2)
@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="there is no sqlite3 shell")
def test_the_sqlite3_shell_gives_the_same_rows(tape: Path) -> None:
    expect_the_same(by_the_shell, tape, in_hex)


# Other engines ------------------------------------------------------------------------------------------


@pytest.fixture
def duckdb() -> Iterator[Any]:
    """A DuckDB connection that reads SQLite files. Without DuckDB a test is skipped, but never in CI."""
    try:
        import duckdb
        import duckdb_extension_sqlite_scanner as scanner
    except ImportError as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have DuckDB and its scanner of SQLite files: {error}")
        pytest.skip(f"needs DuckDB and its scanner of SQLite files: {error}")
    (extension,) = Path(next(iter(scanner.__path__))).glob("extensions/v*/sqlite_scanner.duckdb_extension")
    with duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False}) as db:
        db.execute(f"LOAD '{extension}'")
        yield db


def parsed(value: Any) -> Any:
    """JSON as a value, since DuckDB rewrites its text; None for a lone surrogate, which DuckDB does not accept."""
    if value is None:
        return None
    text = json.dumps(json.loads(value), ensure_ascii=False, sort_keys=True)
    return None if any("\ud800" <= character <= "\udfff" for character in text) else text


@pytest.mark.slow(quick=2)
def test_duckdb_gives_the_same_rows(tape: Path, duckdb: Any) -> None:
    with connected(tape) as db:
        batches = db.execute("SELECT 1 FROM frames WHERE kind = 'batch'").fetchall()
    written_anew = (*JSON, *OF_BATCHES) if batches else JSON

    def as_json(names: list[str], row: Row) -> Row:
        return tuple(parsed(value) if name in written_anew else value for name, value in zip(names, row, strict=True))

    def read(path: Path, name: str) -> tuple[list[Row], int]:
        found = duckdb.execute(f"SELECT * FROM t.{name}")
        rows = [as_json([column for column, *_ in found.description], row) for row in found.fetchall()]
        return rows, duckdb.execute(f"SELECT count(*) FROM t.{name}").fetchone()[0]

    duckdb.execute(f"ATTACH '{tape}' AS t (TYPE sqlite, READ_ONLY)")
    expect_the_same(read, tape, as_json)


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Row], int]]:
    """The rows that ClickHouse reads from each cassette and name, in one process: loading it is the slowest part."""
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("needs ClickHouse")
    place = tmp_path_factory.mktemp("clickhouse")
    tapes = [Path(shutil.copy(golden, place)) for golden in GOLDEN]
    sources = {(tape, name): f"sqlite('{tape}', '{name}')" for tape in tapes for name in NAMES}
    rows = [asked_in_hex(*of, source, "toString({})") for of, source in sources.items()]
    counts = [f"SELECT count(*) FROM {source}" for source in sources.values()]
    told = output([sys.executable, "-c", CLICKHOUSE, *rows, *counts]).split(b";")
    return {
        f"{tape.name} {name}": (from_csv(told[at]), int(told[at + len(sources)]))
        for at, (tape, name) in enumerate(sources)
    }


@pytest.mark.slow
def test_clickhouse_gives_the_same_rows(tape: Path, clickhouse: dict[str, tuple[list[Row], int]]) -> None:
    expect_the_same(lambda _, name: clickhouse[f"{tape.name} {name}"], tape, in_hex)
