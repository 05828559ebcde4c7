"""Files other than SQLite are cassettes too: they are read into memory, and nothing is written beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from tests.support.golden import GOLDEN, TEXTS
from tests.support.texts import everything, tape


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_text_reads_as_the_database_that_it_was_made_of(tmp_path: Path, golden: Path) -> None:
    text = tmp_path / "tape.jsonl"
    text.write_bytes(tape("convert", golden, "--session", "all").stdout_bytes)
    assert everything(text) == everything(golden)
    assert [path.name for path in tmp_path.iterdir()] == ["tape.jsonl"]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_text_equals_its_written_cassette(golden: Path) -> None:
    text = golden.parent / "text" / f"{golden.stem}.jsonl"
    assert text in TEXTS
    assert text.read_bytes() == tape("convert", golden, "--session", "all").stdout_bytes


def test_a_file_of_no_known_kind_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("milk, eggs\n")
    with pytest.raises(CassetteError, match="not a cassette, and was left alone"):
        Cassette(other)
    assert other.read_text() == "milk, eggs\n"
