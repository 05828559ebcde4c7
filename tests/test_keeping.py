"""What is no cassette is refused by every command that asks or changes cassettes, and left alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from .reading import GOLDEN, invoke

DEMO = next(path for path in GOLDEN if path.name == "demo.db")
COMMANDS = {
    "query": ["query", "FILE", "SELECT * FROM frames"],
    "search": ["search", "FILE", "weather"],
    "check": ["check", "FILE"],
    "redact": ["redact", "FILE"],
    "rm": ["rm", "FILE", "--session", "1"],
    "merge": ["merge", "FILE", "-o", "OUT"],
    "migrate": ["migrate", "FILE"],
}


def missing(path: Path) -> None:
    pass


def a_directory(path: Path) -> None:
    path.mkdir()


def empty(path: Path) -> None:
    path.touch()


def a_text(path: Path) -> None:
    path.write_text("no cassette at all\n" * 20)


def another_database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE frames (id)")


def cut_off(path: Path) -> None:
    path.write_bytes(DEMO.read_bytes()[:20000])


def newer(path: Path) -> None:
    shutil.copy(DEMO, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


def without_a_table(path: Path) -> None:
    shutil.copy(DEMO, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE messages")


def with_a_trigger(path: Path) -> None:
    shutil.copy(DEMO, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TRIGGER t AFTER UPDATE ON frames BEGIN DELETE FROM sessions; END")


UNFIT = {
    missing: ("there is no|not there", 3),
    a_directory: ("is a directory", 3),
    empty: ("is empty", 3),
    a_text: ("not a cassette", 3),
    another_database: ("a SQLite database, but not a cassette", 3),
    cut_off: ("malformed", 3),
    newer: ("newer mcp-tape (schema 99", 3),
    without_a_table: ("no table messages", 3),
    with_a_trigger: ("SQL triggers", 3),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("unfit", UNFIT, ids=lambda unfit: unfit.__name__)
def test_what_is_no_cassette_is_refused_and_left_alone(
    tmp_path: Path, command: str, unfit: Callable[[Path], None]
) -> None:
    file = tmp_path / "tape.db"
    unfit(file)
    before = file.read_bytes() if file.is_file() else None
    place = {"FILE": str(file), "OUT": str(tmp_path / "out.db")}
    result = invoke(*(place.get(word, word) for word in COMMANDS[command]))
    hint, code = UNFIT[unfit]
    assert result.exit_code == code, result.output
    assert any(part in result.output for part in hint.split("|")), result.output
    assert (file.read_bytes() if file.is_file() else None) == before
    assert set(os.listdir(tmp_path)) <= {"tape.db"}
