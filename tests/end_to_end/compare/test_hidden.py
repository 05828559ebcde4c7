"""Invisible characters are visible in every output, and a default is shown with its value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.diffs import Talk, compared, taped, tool, tools, wrote
from tests.support.running import MCP_TAPE, run
from tests.support.schemas import STRING, an, of

HIDING = "\u200b\u202e\u2063\u3164\ufe01\ufe02\U000e0041\U000e0101"
COMMANDS = [
    ["convert", "--to", "txt", "new.db"],
    ["show", "new.db"],
    ["show", "new.db", "4"],
    ["search", "new.db", "adds"],
    ["convert", "new.db", "--to", "md"],
    ["convert", "new.db", "--to", "jsonl"],
    ["check", "--audit", "new.db"],
    *(
        ["diff", "old.db", "new.db", "--format", form]
        for form in ("text", "json", "markdown", "html", "junit", "github")
    ),
    ["diff", "old.db", "new.db", "--format", "sarif"],
    ["diff", "old.db", "new.db", "--full"],
]


def adding(text: str) -> Talk:
    schema = an({text: STRING}, **{"$defs": {text: STRING}})
    return [*tools(tool("add", description=text, inputSchema=schema, _meta={text: text})), wrote(text)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hidden")
    taped(place / "old.db", adding("adds"))
    taped(place / "new.db", adding(f"adds {HIDING}"))
    return place


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_prints_invisible_characters(place: Path, words: list[str]) -> None:
    done = run([*MCP_TAPE, *words], cwd=place)
    printed = done.stdout.decode()
    assert "adds" in printed or "invisible" in printed
    assert [character for character in HIDING if character in printed] == []


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        (of(STRING), of({**STRING, "default": "pd"}), 'new default "pd"'),
        (of({**STRING, "default": "pd"}), of(STRING), 'the default "pd" is gone'),
    ],
)
def test_a_default_that_came_or_went_is_shown_with_its_value(old: object, new: object, note: str) -> None:
    before, after = (tools(tool("add", inputSchema=schema)) for schema in (old, new))
    assert [change.note for change in compared(before, after).changes] == [note]


def test_checking_another_file_names_the_command_that_makes_a_cassette(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    done = run([*MCP_TAPE, "check", "notes.txt"], cwd=tmp_path)
    assert (done.returncode, b"another file" in done.stdout) == (3, False)
    assert b"notes.txt is not a cassette, and was left alone" in done.stdout
