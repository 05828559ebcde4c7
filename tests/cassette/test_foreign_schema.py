"""Foreign tables that a cassette's file may have, and schemas that it must not have in place of its own."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.foreign_schema import check
from mcp_tape.cassette.reader import Cassette
from mcp_tape.cassette.schema import APPLICATION_ID, SCHEMA, VERSION
from mcp_tape.errors import CassetteError
from tests.support.decks import alter, make_cassette
from tests.support.reading import GOLDEN, invoke
from tests.support.running import WAIT

DEMO = next(path for path in GOLDEN if path.stem == "demo")
ENDLESS = "length(hex(zeroblob(400000000)))"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A sqlite-utils database, which loads pandas if installed."""
    from sqlite_utils import Database

    with contextlib.closing(Database(path)) as db:
        yield db


def demo(place: Path) -> Path:
    return Path(shutil.copy(DEMO, place / "tape.db"))


def in_other_words(path: Path, old: str, new: str) -> Path:
    """A cassette whose schema differs in one place."""
    words = SCHEMA.replace(old, new, 1)
    assert words != SCHEMA
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; {words}")
    return path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("text TEXT,\n", f"text TEXT AS ({ENDLESS}),\n"),
        ("text TEXT,\n", f"text TEXT GENERATED ALWAYS AS ({ENDLESS}) VIRTUAL,\n"),
        ("note TEXT,\n", f"note TEXT AS ({ENDLESS}) STORED,\n"),
        ("text TEXT,\n", f"text TEXT CHECK ({ENDLESS}),\n"),
        ("text TEXT,\n", f"text TEXT DEFAULT ({ENDLESS}),\n"),
        ("text TEXT,\n", "text TEXT COLLATE nocase,\n"),
        ("text TEXT,\n", f'text TEXT, "as", "default" AS ({ENDLESS}),\n'),
        ("text TEXT,\n", "word TEXT,\n"),
        ("run TEXT,\n", ""),
        ("elapsed INTEGER", "elapsed INTEGER UNIQUE ON CONFLICT REPLACE"),
        ("data BLOB\n", f"data BLOB, CONSTRAINT text CHECK ({ENDLESS})\n"),
        ("derived (answers)", f"derived (answers, {ENDLESS})"),
        ("WHERE cue IS NOT NULL", f"WHERE cue IS NOT NULL AND {ENDLESS}"),
        ("(cue) WHERE cue IS NOT NULL", f"(cue) WHERE {ENDLESS} > 1"),
    ],
    ids=lambda words: re.sub(r"\W+", "-", words)[:40],
)
def test_expressions_in_place_of_a_table_are_refused(tmp_path: Path, old: str, new: str) -> None:
    path = in_other_words(tmp_path / "tape.db", old, new)
    with pytest.raises(CassetteError, match=r"was left alone: its (table|index) \w+ differs from a cassette's"):
        Cassette(path)


@pytest.mark.parametrize("module", ["fts5(id, elapsed, sender, channel, kind, eol, redactions, head, text, data)"])
def test_a_virtual_table_in_the_place_of_one_is_refused(tmp_path: Path, module: str) -> None:
    path = demo(tmp_path)
    alter(path, "ALTER TABLE facts RENAME TO other", f"CREATE VIRTUAL TABLE facts USING {module}")
    with pytest.raises(CassetteError, match=r"its table \w+ differs from a cassette's"):
        Cassette(path)


@pytest.mark.parametrize(
    "made", ["TRIGGER t AFTER INSERT ON facts BEGIN DELETE FROM facts; END", "INDEX t ON facts (-elapsed)"]
)
def test_a_table_disguised_as_a_view_is_refused(tmp_path: Path, made: str) -> None:
    path = demo(tmp_path)
    alter(
        path, f"CREATE {made}", "PRAGMA writable_schema = ON", "UPDATE sqlite_master SET type = 'view' WHERE name = 't'"
    )
    # New versions of SQLite find the error themselves.
    with pytest.raises(CassetteError, match=r"its view t differs from a cassette's|malformed database schema \(t\)"):
        Cassette(path)


@pytest.mark.parametrize(
    "sql", ["CREATE TRIGGER t AFTER INSERT ON facts BEGIN SELECT 1; END", "CREATE INDEX t ON facts (id)", "?"]
)
def test_the_statement_counts_rather_than_its_type_column(sql: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        made = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        check(db, "tape.db", made)
        with pytest.raises(CassetteError, match="its view t differs from a cassette's"):
            check(db, "tape.db", [*made, ("view", "t", sql)])


def a_table(path: Path) -> None:
    with opened(path) as db:
        db["ratings"].insert({"session": 1, "stars": 5})


def a_column(path: Path) -> None:
    alter(path, "ALTER TABLE sessions ADD COLUMN rating", 'ALTER TABLE facts ADD COLUMN "as" TEXT')


def a_text_index(path: Path) -> None:
    with opened(path) as db:
        db["sessions"].enable_fts(["note"])


def a_view(path: Path) -> None:
    alter(path, "CREATE VIEW slow AS SELECT * FROM exchanges WHERE microseconds > 100000")


def indices(path: Path) -> None:
    with opened(path) as db:
        db["facts"].create_index(["channel", "elapsed"])
    alter(path, "CREATE UNIQUE INDEX once ON derived (method, [id] DESC, part) WHERE method IS NOT NULL")


def statistics(path: Path) -> None:
    alter(path, "ANALYZE")


def written_anew(path: Path) -> None:
    alter(path, "VACUUM")


def transformed(path: Path) -> None:
    with opened(path) as db:
        for view in db.views:
            view.drop()
        for table in ("facts", "sessions"):
            db[table].transform()


def renamed(path: Path) -> None:
    alter(path, "ALTER TABLE sessions RENAME TO other", "ALTER TABLE other RENAME TO sessions")


@pytest.mark.parametrize(
    "change", [a_table, a_column, a_text_index, a_view, indices, statistics, written_anew, transformed, renamed]
)
def test_tables_that_others_add_or_rewrite_are_accepted(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = demo(tmp_path)
    before = invoke("show", path).stdout
    change(path)
    assert invoke("show", path).stdout == before


def test_columns_of_others_are_no_obstacle_to_recording(tmp_path: Path) -> None:
    path = demo(tmp_path)
    a_column(path)
    make_cassette(path, [("client", '{"jsonrpc":"2.0","id":1,"method":"ping"}')])
    assert invoke("show", path, "--session", "2").stdout.count("ping") == 1


def test_a_recovered_file_is_a_cassette_again(tmp_path: Path) -> None:
    if not shutil.which("sqlite3"):
        pytest.skip("the sqlite3 shell is not there")
    done = subprocess.run(["sqlite3", DEMO, ".recover"], capture_output=True, timeout=WAIT)
    if done.returncode:
        pytest.skip("this sqlite3 shell cannot recover")
    with contextlib.closing(sqlite3.connect(tmp_path / "tape.db")) as db:
        db.executescript(done.stdout.decode())
    assert invoke("show", tmp_path / "tape.db").stdout == invoke("show", DEMO).stdout
