"""Which cassettes are text."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.cassette import batch
from mcp_tape.cassette.reader import Session
from mcp_tape.cassette.text.recognize import is_text, recorder_database
from tests.support.golden import GOLDEN


@pytest.mark.parametrize(("name", "data", "expected"), [
    ("tape.jsonl", None, True), ("tape.jsonl", b"", True), ("tape.db", None, False), ("tape.db", b"", False),
    ("tape.db", b'{"sender": "client"}\n', True), ("tape.jsonl", b"broken", True), ("notes.txt", b"milk", False),
])  # fmt: skip
def test_the_first_bytes_decide_and_then_the_name(
    tmp_path: Path, name: str, data: bytes | None, expected: bool
) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    assert is_text(str(path)) is expected
    assert recorder_database(str(path)) == (f"{path}.db" if expected else str(path))


def test_a_database_is_recognized_whatever_its_name(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_bytes(GOLDEN[0].read_bytes())
    assert not is_text(str(path))


def test_the_schema_names_the_columns_of_a_session() -> None:
    assert tuple(batch.SESSION) == Session._fields
