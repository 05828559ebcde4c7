"""Every command that reads a cassette gives the same result for its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import GOLDEN
from tests.support.texts import hidden, odd, over_http, tape

READING = [
    ["ls", "FILE"], ["ls", "FILE", "--json"], ["show", "FILE"], ["show", "FILE", "--json"], ["show", "FILE", "2"],
    ["stats", "FILE"], ["stats", "FILE", "--json"], ["why", "FILE"], ["search", "FILE", "echo"],
    ["query", "FILE", "SELECT * FROM messages"], ["query", "FILE", "SELECT * FROM tool_calls", "--json"],
    ["check", "FILE"], ["check", "FILE", "--audit"], ["convert", "--to", "txt", "FILE"],
    ["convert", "FILE", "--session", "all"], ["convert", "FILE", "--to", "md"],
    ["convert", "FILE", "--to", "raw", "--side", "server"], ["convert", "FILE", "--to", "html"],
    ["diff", "FILE", "FILE"], ["breaking", "FILE", "FILE"], ["redact", "FILE", "--dry-run"], ["doctor", "FILE"],
]  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One recording in two directories under the same name: a database, and its text."""
    place = tmp_path_factory.mktemp("pair")
    database, text = place / "one" / "tape", place / "two" / "tape"
    for path in (database, text):
        path.parent.mkdir()
    golden = next(path for path in GOLDEN if path.stem == "everything")
    tape("convert", golden, database, "--to", "db")
    tape("convert", golden, text, "--to", "jsonl")
    return database, text


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_command_says_the_same_of_a_text(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    said = []
    for path in pair:
        monkeypatch.chdir(path.parent)
        result = tape(*("tape" if word == "FILE" else word for word in words), code=0)
        said.append([text.replace(str(path.parent), "PLACE") for text in (result.stdout, result.stderr)])
        assert [one.name for one in path.parent.iterdir()] == ["tape"]
    assert said[0] == said[1]


@pytest.mark.parametrize("make", [odd, hidden, over_http])
def test_texts_that_are_hard_to_write_convert_there_and_back(tmp_path: Path, make: object) -> None:
    path = make(tmp_path / "tape.db")  # type: ignore[operator]
    tape("convert", path, tmp_path / "tape.jsonl")
    tape("convert", tmp_path / "tape.jsonl", tmp_path / "again.db")
    tape("convert", tmp_path / "again.db", tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "tape.jsonl").read_bytes()
    assert tape("convert", path, "--session", "all").stdout_bytes == (tmp_path / "tape.jsonl").read_bytes()
