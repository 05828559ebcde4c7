"""The place of a lake: its kind, full disks, and leftovers of killed runs."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcp_tape.fleet.lake.lakes import LakeError, open_lake
from mcp_tape.fleet.lake.run import lake_one
from tests.support.decks import make_cassette
from tests.support.disks import fill, mounted
from tests.support.golden import path_of
from tests.support.lakes import everything, files, lake, leftovers, statuses, talk
from tests.support.running import python, receive_line, started

# Makes a private directory in a lake, prints a line, and waits to be killed.
MAKING = """
import sys
from mcp_tape.fleet.lake.lakes import open_lake
with open_lake(sys.argv[1], True).staging() as directory:
    open(directory + "/0-calls.parquet", "w").write("half of it")
    print(directory, flush=True)
    sys.stdin.read()
"""


def test_a_lake_describes_its_kind(tmp_path: Path) -> None:
    open_lake(str(tmp_path / "a" / "b"), False)
    assert json.loads((tmp_path / "a" / "b" / "lake.json").read_text()) == {"schema": 1, "content": False}
    assert os.listdir(tmp_path / "a" / "b") == ["lake.json"]


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({"schema": 1, "content": False}, "is a lake without content"),
        ({"schema": 2, "content": True, "more": 1}, r"is a lake with content \(schema 2\), and not .*schema 1"),
        ([1], "is not a lake"),
        ({}, "is not a lake"),
    ],
)
def test_another_kind_of_lake_stays_unchanged(tmp_path: Path, there: object, why: str) -> None:
    (tmp_path / "lake.json").write_text(json.dumps(there))
    with pytest.raises(LakeError, match=why):
        open_lake(str(tmp_path), True)
    found = lake_one(str(path_of("demo")), str(tmp_path))
    assert found.status == "failed" and found.findings[0].message.startswith(str(tmp_path))
    assert os.listdir(tmp_path) == ["lake.json"]


def test_of_two_kinds_at_once_one_wins(tmp_path: Path) -> None:
    def attempt(with_content: bool) -> bool:
        try:
            open_lake(str(tmp_path), with_content)
        except LakeError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(attempt, [True, False] * 8))
    assert won in ([True, False] * 8, [False, True] * 8)


def test_a_file_is_no_lake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(LakeError, match=r"cannot write the lake .*file: File exists"):
        open_lake(str(tmp_path / "file"), True)


@pytest.mark.slow
def test_leftovers_of_killed_runs_go_and_files_of_live_ones_stay(tmp_path: Path) -> None:
    dest = tmp_path / "lake"
    with started([*python(MAKING), str(dest)]) as killed, started([*python(MAKING), str(dest)]) as alive:
        left, kept = (Path(receive_line(process.stdout).decode().strip()) for process in (killed, alive))
        assert len(leftovers(dest)) == 2 and not files(dest)  # readers of the lake do not see these
        killed.kill()
        killed.wait()
        lake([str(path_of("demo"))], str(dest))
        assert not left.exists() and kept.exists()
    lake([str(path_of("demo"))], str(dest))
    assert leftovers(dest) == []


def test_a_full_disk_is_the_end_of_a_run_and_the_next_one_goes_on(tmp_path: Path) -> None:
    tapes = [str(make_cassette(tmp_path / f"{n}.db", talk(f"server-{n}", "a"))) for n in range(3)]
    with mounted(tmp_path / "disk") as disk:
        dest = disk / "lake"
        assert statuses(lake(tapes[:1], str(dest))) == ["added"]
        ballast = fill(disk)
        (found,) = lake(tapes[1:], str(dest))
        assert found.details == {"lake": "unwritten"}
        assert found.notes == (
            f"cannot write the lake {dest}: No space left on device; its files are complete: try again",
        )
        assert len(everything(dest)["sessions"]) == 1 and leftovers(dest) == []
        ballast.unlink()
        assert statuses(lake(tapes, str(dest))) == ["there", "added", "added"]
        assert len(everything(dest)["sessions"]) == 3


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_only_whole_files(tmp_path: Path) -> None:
    large = make_cassette(tmp_path / "large.db", talk("large", *(os.urandom(20_000).hex() for _ in range(40))))
    small = make_cassette(tmp_path / "small.db", talk("small", "a"))
    with mounted(tmp_path / "disk", "1m") as disk:
        found = lake([str(small), str(large)], str(disk / "lake"))
        assert statuses(found) == ["added", "unwritten"] and "No space left" in found[1].notes[0]
        assert {row["server"] for row in everything(disk / "lake")["messages"]} == {"small"}
        assert leftovers(disk / "lake") == []
