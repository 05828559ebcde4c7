"""A model reads cassettes at or below the places that the server was given, and no other file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mcp_tape.agent.paging import ToolError
from mcp_tape.agent.places import ReadableCassettes, ToolCall, readable_cassettes
from mcp_tape.agent.tool_table import TOOLS
from mcp_tape.errors import CassetteError
from tests.support.golden import path_of

NAMING = [name for name, tool in TOOLS.items() if "file" in tool.takes["properties"]]
REQUIRED = {"show_exchange": {"seq": 1}, "search": {"words": "x"}, "query": {"sql": "SELECT 1"}}


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Two cassettes below a directory, one beside it, and links that lead out of it."""
    for name in ("in/time.db", "in/deep/demo.db", "out/secret.db"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path_of(Path(name).stem if "secret" not in name else "git"), tmp_path / name)
    (tmp_path / "in" / "notes.txt").write_text("hello")
    (tmp_path / "in" / "link.db").symlink_to(tmp_path / "out" / "secret.db")
    (tmp_path / "in" / "away").symlink_to(tmp_path / "out")
    return tmp_path


def outside(shelf: Path) -> list[str]:
    inside = shelf / "in"
    return [
        str(shelf / "out" / "secret.db"),
        str(inside / ".." / "out" / "secret.db"),
        str(inside / "link.db"),
        str(inside / "away" / "secret.db"),
        f"{inside}-other.db",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        f"file://{shelf}/out/secret.db",
        "git:main:in/time.db",
        "",
        ".",
    ]


def test_all_cassettes_are_listed_and_no_links_elsewhere(shelf: Path) -> None:
    found = [os.path.relpath(path, shelf) for path in ReadableCassettes([str(shelf / "in")]).cassettes()]
    assert found == ["in/time.db", "in/deep/demo.db"]


def test_a_cassette_that_is_given_twice_is_listed_once(shelf: Path) -> None:
    places = ReadableCassettes([str(shelf / "in" / "time.db"), str(shelf / "in"), str(shelf / "in" / "deep")])
    assert [Path(path).name for path in places.cassettes()] == ["time.db", "demo.db"]


def test_every_file_outside_is_refused_whether_or_not_it_is_there(shelf: Path) -> None:
    places = ReadableCassettes([str(shelf / "in")])
    for file in outside(shelf):
        with pytest.raises(ToolError, match=r"^refused: "):
            places.path_of(file)
    with pytest.raises(ToolError, match="not a file name"):
        places.path_of("in\0.db")


@pytest.mark.parametrize("tool", NAMING)
def test_every_tool_that_takes_a_file_refuses_those_outside(shelf: Path, tool: str) -> None:
    for file in outside(shelf):
        with pytest.raises(ToolError, match=r"^refused: "):
            TOOLS[tool].call(ToolCall(ReadableCassettes([str(shelf / "in")])), REQUIRED.get(tool, {}) | {"file": file})


@pytest.mark.slow
def test_diff_refuses_files_outside_on_either_side_and_git(shelf: Path) -> None:
    inside = str(shelf / "in" / "time.db")
    for file in outside(shelf):
        for pair in ({"old": inside, "new": file}, {"old": f"{file}#1", "new": inside}):
            with pytest.raises(ToolError, match=r"^refused: |not git revisions"):
                TOOLS["diff"].call(ToolCall(ReadableCassettes([str(shelf / "in")])), pair)


def test_one_file_that_is_given_is_all_that_may_be_read(shelf: Path) -> None:
    places = ReadableCassettes([str(shelf / "in" / "time.db")])
    assert places.path_of(None) == str(shelf / "in" / "time.db")
    with pytest.raises(ToolError, match=r"^refused: "):
        places.path_of(str(shelf / "in" / "deep" / "demo.db"))


def test_a_link_that_was_given_itself_may_be_read(shelf: Path) -> None:
    link = str(shelf / "in" / "link.db")
    places = ReadableCassettes([link])
    assert places.path_of(link) == link and list(places.cassettes()) == [link]


def test_without_a_name_there_must_be_only_one(shelf: Path) -> None:
    with pytest.raises(ToolError, match=r"there are several cassettes: name one as \"file\", such as .*time\.db"):
        ReadableCassettes([str(shelf / "in")]).path_of(None)
    with pytest.raises(ToolError, match=r"there is no cassette at or below .* Record one with"):
        ReadableCassettes([str(shelf / "nothing")]).path_of(None)


def test_a_file_inside_that_is_not_a_cassette_gets_its_own_error(shelf: Path) -> None:
    places = ReadableCassettes([str(shelf / "in")])
    with pytest.raises(ToolError, match=r"there is no cassette .*none\.db; list_cassettes"):
        places.path_of(str(shelf / "in" / "none.db"))
    with pytest.raises(ToolError, match="there is no cassette"):
        places.path_of(str(shelf / "in" / "deep"))
    with (
        pytest.raises(CassetteError, match=r"notes\.txt"),
        ToolCall(places).open_cassette(str(shelf / "in" / "notes.txt")),
    ):
        pass


def test_a_pipe_is_not_opened(shelf: Path) -> None:
    os.mkfifo(shelf / "in" / "pipe.db")
    with pytest.raises(ToolError, match="there is no cassette"):
        ReadableCassettes([str(shelf / "in")]).path_of(str(shelf / "in" / "pipe.db"))


def test_a_place_of_the_command_line_must_be_there(shelf: Path) -> None:
    with pytest.raises(CassetteError, match=r"there is no cassette at .*none\.db"):
        readable_cassettes([str(shelf / "in"), str(shelf / "none.db")])
