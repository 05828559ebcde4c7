"""kill -9 at every step of making a lake: each file in it is complete, and the next run finishes the work."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mcp_tape.fleet.lake.run import lake_one
from tests.support.kills import fork_with, until_it_lives
from tests.support.lakes import everything, files, lake, leftovers, of_two_days, statuses

fork_with(__name__)
fork_with("pandas")  # pyarrow loads it on first use, if installed


def run_lake(place: str) -> None:
    lake([os.path.join(place, "tape.db")], os.path.join(place, "lake"))


@pytest.mark.slow
def test_a_run_that_is_killed_at_any_step_and_repeated_has_exactly_the_right_rows(tmp_path: Path) -> None:
    tape, dest, right = of_two_days(tmp_path / "tape.db"), tmp_path / "lake", tmp_path / "right"
    lake_one(str(tape), str(right))
    expected = everything(right)
    names = [path.relative_to(right) for path in files(right)]
    seen = set()
    for was_killed in until_it_lives(run_lake, str(tmp_path)):
        seen.add(len(files(dest)))
        there = everything(dest)  # each file is complete
        assert all(row in expected[table] for table in there for row in there[table])
        known = {(row["cassette"], row["session"]) for row in there["sessions"]}
        assert all(len(there[table]) == len(expected[table]) for table in ("messages", "calls")) or not known
        is_done = len(there["sessions"]) == len(expected["sessions"])
        assert statuses(lake([str(tape)], str(dest))) == ["there" if is_done else "added"] and (is_done or was_killed)
        assert everything(dest) == expected
        assert [path.relative_to(dest) for path in files(dest)] == names and leftovers(dest) == []
        shutil.rmtree(dest)
    assert seen == set(range(len(names) + 1))  # killed after each of the files


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_comes_to_its_end(tmp_path: Path) -> None:
    tape, dest, right = of_two_days(tmp_path / "tape.db"), tmp_path / "lake", tmp_path / "right"
    lake_one(str(tape), str(right))
    kills = sum(until_it_lives(run_lake, str(tmp_path)))
    assert kills > 10
    assert everything(dest) == everything(right) and leftovers(dest) == []
