"""Every command that reads or changes cassettes refuses other files, and leaves them alone."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from mcp_tape.cli import cli
from tests.support.reading import GOLDEN, invoke
from tests.support.running import on_terminal, run
from tests.support.texts import several

FLIPS = 300
DEMO = next(path for path in GOLDEN if path.name == "demo.db")
COMMANDS = {
    "query": ["query", "FILE", "SELECT * FROM frames"],
    "search": ["search", "FILE", "weather"],
    "check": ["check", "FILE"],
    "redact": ["redact", "FILE"],
    "rm": ["rm", "FILE", "--session", "1"],
    "merge": ["merge", "FILE", "-o", "OUT"],
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
    path.write_bytes(DEMO.read_bytes()[:9000])


def newer(path: Path) -> None:
    shutil.copy(DEMO, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


def without_a_table(path: Path) -> None:
    shutil.copy(DEMO, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE derived")


def with_a_trigger(path: Path) -> None:
    shutil.copy(DEMO, path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TRIGGER t AFTER UPDATE ON facts BEGIN DELETE FROM sessions; END")


UNFIT = {
    missing: ("there is no|not there", 3),
    a_directory: ("is a directory", 3),
    empty: ("is empty", 3),
    a_text: ("not a cassette", 3),
    another_database: ("a SQLite database, but not a cassette", 3),
    cut_off: ("malformed", 3),
    newer: ("newer mcp-tape (schema 99", 3),
    without_a_table: ("no table derived", 3),
    with_a_trigger: ("SQL triggers", 3),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("unfit", UNFIT, ids=lambda unfit: unfit.__name__)
def test_a_file_that_is_not_a_cassette_is_refused_and_left_alone(
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


def test_every_command_that_reads_has_json() -> None:
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    without = {name for name, found in commands.items() if found and not any("--json" in p.opts for p in found.params)}
    assert without == {"record", "replay", "use", "mcp", "view", "demo", "schema"}


@pytest.mark.slow
def test_flipped_bytes_give_a_clear_answer_and_leave_nothing_behind(tmp_path: Path) -> None:
    chance = random.Random(7)
    file, out = tmp_path / "tape.db", tmp_path / "out.db"
    place = {"FILE": str(file), "OUT": str(out)}
    whole = several(file).read_bytes()
    for _ in range(FLIPS):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 2, 8, 40])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        file.write_bytes(data)
        words = COMMANDS[chance.choice(list(COMMANDS))]
        result = invoke(*(place.get(word, word) for word in words), is_damaged=True)  # a traceback fails here
        assert "Error: " not in result.output, result.output  # nor is a crash a finding
        assert result.exit_code in (0, 1, 2, 3)
        out.unlink(missing_ok=True)
        assert os.listdir(tmp_path) == ["tape.db"]


PROGRESS = """
from mcp_tape.console import progress
progress._PATIENCE = progress._EVERY = 0
with progress.Progress("looking", 4) as told:
    told(1)
    told.hide()
    print("found")
    told(3)
"""


def test_a_terminal_shows_the_progress_of_a_command() -> None:
    output = on_terminal([sys.executable, "-c", PROGRESS])
    assert output == b"\rlooking: 25 %\r\x1b[Kfound\r\n\rlooking: 75 %\r\x1b[K"


def test_a_pipe_is_not() -> None:
    assert run([sys.executable, "-c", PROGRESS]).stderr == b""
