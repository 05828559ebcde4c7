"""Cassettes with flipped bytes: every reading command ends, with an exit code of its own and without a traceback.

Its output is not checked: a flipped byte may be part of a message.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.fuzzing import bounded
from tests.support.reading import GOLDEN, invoke

SMALL = [path for path in GOLDEN if path.stat().st_size < 80_000]
DEMO = next(path for path in GOLDEN if path.stem == "demo")
PAGE, HEADER = 1024, 100
COMMANDS_EACH = 5  # per file; all commands take turns

COMMANDS = [
    command.split("|")
    for command in (
        "ls|FILE",
        "ls|FILE|--json",
        "show|FILE",
        "show|FILE|--all|--json",
        "show|FILE|3",
        "show|FILE|5|--json",
        "show|FILE|--filter|status:error -method:ping dur:>0",
        "show|FILE|--filter|session:1.. tool:* size:1.. e",
        "stats|FILE",
        "stats|FILE|--filter|from:client|--json",
        "convert|FILE",
        "convert|FILE|--session|all|--filter|kind:request",
        "convert|FILE|--to|raw|--side|server",
        "convert|FILE|--to|md",
        "convert|FILE|--to|txt",
        "convert|FILE|--to|otlp",
        "query|FILE|SELECT * FROM tool_calls",
        "query|FILE|SELECT * FROM exchanges|--json",
        "query|FILE|SELECT * FROM notifications|--csv",
        "query|FILE|SELECT * FROM frames JOIN messages ON frame = id|--nl",
        "search|FILE|server",
        "search|FILE|tool* e*|--json",
        "check|FILE",
        "check|FILE|--json",
        "diff|ORIGINAL|FILE",
        "diff|FILE|ORIGINAL|--json",
        "replay|FILE",
    )
]


class Flips(NamedTuple):
    """Where bytes are flipped, in how many files, and the most per file: the first file has one, the next two..."""

    name: str
    place: Callable[[random.Random, bytes], int]
    files: int
    most: int

    @property
    def total(self) -> int:
        return sum(number for _, number in self.numbered())

    def numbered(self) -> Iterator[tuple[int, int]]:
        return zip(range(self.files), cycle(range(1, self.most + 1)), strict=False)


def anywhere(chance: random.Random, data: bytes) -> int:
    return chance.randrange(len(data))


def in_the_header(chance: random.Random, data: bytes) -> int:
    return chance.randrange(HEADER)


def where_a_page_begins(chance: random.Random, data: bytes) -> int:
    """The head of a b-tree's page, and its array of cells."""
    return chance.randrange(0, len(data), PAGE) + chance.randrange(64)


def in_a_row(chance: random.Random, data: bytes) -> int:
    return _in_cells(chance, data, 13)


def in_an_index(chance: random.Random, data: bytes) -> int:
    return _in_cells(chance, data, 10)


def _in_cells(chance: random.Random, data: bytes, kind: int) -> int:
    """The content of a b-tree's page, after the schema."""
    used = [
        (page + int.from_bytes(data[page + 5 : page + 7], "big"), page + PAGE)
        for page in range(PAGE, len(data), PAGE)
        if data[page] == kind
    ]
    return chance.randrange(*chance.choice([span for span in used if span[0] < span[1]]))


FLIPS = (
    Flips("anywhere", anywhere, 800, 8),
    Flips("in the header", in_the_header, 250, 8),
    Flips("where pages begin", where_a_page_begins, 600, 8),
    Flips("in rows", in_a_row, 600, 4),
    Flips("in indices", in_an_index, 600, 4),
)


@pytest.fixture
def nothing_on_stdin() -> Iterator[None]:
    """Empty stdin, which replay reads."""
    before, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    yield
    os.dup2(before, 0)
    os.close(before)
    os.close(null)


def flipped(original: Path, flips: Flips, number: int, chance: random.Random) -> tuple[bytes, list[Any]]:
    """The bytes of a cassette with some of them flipped, and their places."""
    data = bytearray(original.read_bytes())
    done = []
    for _ in range(number):
        place, mask = (
            flips.place(chance, data),
            chance.choice([1 << chance.randrange(8), chance.randrange(1, 256)]),
        )
        data[place] ^= mask
        done.append((place, mask))
    return bytes(data), done


def write(path: Path, data: bytes) -> None:
    for beside in ("-wal", "-shm", "-journal"):
        Path(f"{path}{beside}").unlink(missing_ok=True)
    path.write_bytes(data)


def exit_code(words: list[str], path: Path, original: Path, about: object = None) -> int:
    """A command's exit code. Anything but an exit fails the test."""
    given = {"FILE": str(path), "ORIGINAL": str(original)}
    try:
        result = invoke(*(given.get(word, word) for word in words), is_damaged=True)
    except BaseException as error:
        error.add_note(f"{words} on {original.name} with flips {about}") if hasattr(error, "add_note") else None
        raise
    # SQLite refuses a query for a table that the damage has renamed: it looks like wrong usage.
    assert result.exit_code in (0, 1, 2 if words[0] == "query" else 3, 3), (words, original.name, about, result.output)
    assert "Traceback" not in result.output
    return result.exit_code


def test_a_run_flips_ten_thousand_bytes() -> None:
    assert sum(flips.total for flips in FLIPS) >= 10_000


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_on_stdin")
@pytest.mark.parametrize("flips", FLIPS, ids=lambda flips: flips.name)
def test_every_command_ends_with_an_exit_code_on_a_cassette_with_flipped_bytes(
    flips: Flips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # without settings for diff, which are slower to read than a cassette
    chance, path, codes = random.Random(flips.name), tmp_path / "tape.db", Counter[int]()
    originals, commands = cycle(SMALL), cycle(COMMANDS)
    for _, number in flips.numbered():
        original = next(originals)
        data, done = flipped(original, flips, number, chance)
        write(path, data)
        with bounded((original.name, done)):
            codes.update(exit_code(words, path, original, done) for words in islice(commands, COMMANDS_EACH))
    # Otherwise all flips were found on opening, and the rest of the code was not tested.
    assert codes[0] > flips.files and codes[3] > flips.files // 4


def numbers_of_frames(path: Path) -> list[int]:
    """The place of the last byte of each frame's number in the file."""
    with closing(sqlite3.connect(path)) as db:
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'facts'")
    data = path.read_bytes()
    return [place for page in leaves(data, root) for place in numbers_on(data, (page - 1) * PAGE)]


def leaves(data: bytes, page: int) -> list[int]:
    """The leaves of a table's tree, which has two levels at most: https://www.sqlite.org/fileformat2.html#b_tree_pages"""
    start = (page - 1) * PAGE
    if data[start] == 13:
        return [page]
    cells = range(start + 12, start + 12 + 2 * int.from_bytes(data[start + 3 : start + 5], "big"), 2)
    places = [start + int.from_bytes(data[cell : cell + 2], "big") for cell in cells] + [start + 8]
    return [int.from_bytes(data[place : place + 4], "big") for place in places]


def numbers_on(data: bytes, start: int) -> Iterator[int]:
    cells = range(start + 8, start + 8 + 2 * int.from_bytes(data[start + 3 : start + 5], "big"), 2)
    for place in (start + int.from_bytes(data[cell : cell + 2], "big") for cell in cells):
        yield end_of_number(data, end_of_number(data, place) + 1)  # after the size of the row


def end_of_number(data: bytes, place: int) -> int:
    while data[place] & 0x80:
        place += 1
    return place


def with_number(path: Path, frame: int, seq: int) -> None:
    """Change the number in one frame's row, so that it disagrees with its place in the tree."""
    write(path, DEMO.read_bytes())
    data, place = bytearray(DEMO.read_bytes()), numbers_of_frames(path)[frame]
    data[place] = seq
    write(path, bytes(data))


@pytest.mark.parametrize("place", [(-1, 3), (11, 100)])  # the fourth comes after the last; or one is far ahead
@pytest.mark.parametrize(
    "command", ["convert FILE --to jsonl", "convert FILE --to md", "convert FILE --to txt", "search FILE e*"]
)
def test_rows_out_of_order_are_refused_and_not_read_for_ever(
    command: str, place: tuple[int, int], tmp_path: Path
) -> None:
    with_number(tmp_path / "tape.db", *place)
    with bounded(command):
        result = invoke(*command.replace("FILE", str(tmp_path / "tape.db")).split(), is_damaged=True)
    assert result.exit_code == 3 and "its rows are out of order" in result.stderr


def test_check_tells_of_a_name_in_the_schema_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    write(path, DEMO.read_bytes())
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET name = CAST(name AS BLOB) WHERE name = 'stderr'")
        db.commit()
    result = invoke("check", path)
    assert result.exit_code in (1, 3) and "stderr" in result.output
