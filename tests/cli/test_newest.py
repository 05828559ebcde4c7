"""ls, show, view and why without a file: the newest cassettes, of this project and of the clients."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support.promises import CASSETTES
from tests.support.reading import invoke


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of client cassettes; the current directory is empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    place = tmp_path / ".local/share/mcp-tape/cassettes"
    (place / "cursor").mkdir(parents=True)
    return place


def put(path: Path, at: int) -> None:
    shutil.copy(CASSETTES / "demo.db", path)
    os.utime(path, (at, at))


@pytest.mark.parametrize("command", ["show", "view", "why"])
def test_the_newest_are_offered_newest_first(data: Path, command: str) -> None:
    put(data / "old.db", 1000)
    put(data / "cursor/new.db", 2000)
    put(Path("mine.db"), 1500)
    done = invoke(command)
    assert done.exit_code == 2
    lines = [line for line in done.stderr.splitlines() if line.endswith(".db")]
    assert [Path(line.split("  ")[-1]).name for line in lines] == ["new.db", "mine.db", "old.db"]
    assert all("demo-weather 1.0" in line and "exchanges" in line for line in lines), lines
    assert re.match(r"  2\d{3}-\d\d-\d\d \d\d:\d\d  demo-weather", lines[0]) and lines[1].endswith("  mine.db")


def test_one_that_cannot_be_read_comes_last_and_is_named_so(data: Path) -> None:
    put(data / "old.db", 1000)
    put(data / "corrupt.db", 2000)
    with (data / "corrupt.db").open("r+b") as file:
        file.truncate(5000)
    os.utime(data / "corrupt.db", (2000, 2000))
    lines = invoke("show").stderr.splitlines()
    assert lines[-2].endswith("old.db") and lines[-1] == f"  cannot be read  {data / 'corrupt.db'}"


@pytest.mark.parametrize("command", ["show", "why"])
def test_the_only_one_is_taken_and_named(data: Path, command: str) -> None:
    put(data / "only.db", 1000)
    done = invoke(command)
    assert done.exit_code == 0 and f"the only cassette: {data / 'only.db'}\n" in done.stderr


def test_where_there_is_none_it_says_how_to_record(data: Path) -> None:
    done = invoke("show")
    assert done.exit_code == 2 and "There is none here yet" in done.stderr


def test_ls_lists_those_of_the_clients_where_there_are_none_here(data: Path) -> None:
    put(data / "cursor/it.db", 1000)
    assert str(data / "cursor/it.db") in invoke("ls").stdout
    put(Path("mine.db"), 1000)
    assert invoke("ls").stdout.startswith("mine.db")
