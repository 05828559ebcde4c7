"""Untrusted cassettes with odd values in any column: a result, and a lake that every engine can read."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from itertools import product
from pathlib import Path

import pytest

from mcp_tape.fleet.lake.run import lake_one
from tests.support.golden import path_of
from tests.support.lakes import everything, leftovers

ODD = (
    "NULL", "x'ff00'", "1e999", "9223372036854775807", "-9223372036854775808", "'[1, {}, null]'",
    "char(27, 8238, 0, 10)", "'retry'",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("table", ["sessions", "facts", "derived"])
def test_the_lake_stays_valid_with_any_value_in_a_column(table: str, tmp_path: Path) -> None:
    statuses = set()
    with contextlib.closing(sqlite3.connect(path_of("demo"))) as db:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    columns = [column for column in columns if column != "pending"]  # a reader waits for these
    for column, value in product(columns, ODD):
        path = Path(shutil.copy(path_of("demo"), tmp_path / "tape.db"))
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute(f"UPDATE {table} SET {column} = {value}")
        found = lake_one(path, tmp_path / "lake")
        statuses.add(found.details.get("lake", found.status))
    assert {"added", "unreadable"} <= statuses <= {"added", "there", "unreadable"}
    assert len(everything(tmp_path / "lake")["messages"]) > 50 and leftovers(tmp_path / "lake") == []
