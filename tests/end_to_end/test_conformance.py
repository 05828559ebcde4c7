"""The official conformance suite has the same results direct, recorded and replayed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from tests.suite.listening import Listening
from tests.support import provision, warm
from tests.support.conformance import COLUMNS, MODES, REVISIONS, ROOT, Comparison
from tests.support.running import WAIT

PASSED = {  # all checks
    ("server", "2025-11-25"): 84,
    ("server", "2026-07-28"): 196,
    ("client", "2025-11-25"): 255,
    ("client", "2026-07-28"): 421,
}


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], dict[str, Any]]:
    """The results of the script, by mode and revision. Without npm a test is skipped, but never in CI."""
    if not provision.has_node():
        if os.environ.get("CI"):
            pytest.fail("node and npm are not installed, and CI must have them")
        pytest.skip("needs node and npm")
    script = [sys.executable, "-m", "tests.support.conformance", "--json"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=20 * WAIT, env=warm.environment())
    assert done.stdout, done.stderr
    comparisons = json.loads(done.stdout)
    assert done.returncode == int(any(one["problems"] for one in comparisons))
    return {(one["mode"], one["requirements"]): one for one in comparisons}


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("mode", MODES)
def test_the_same_checks_pass_direct_recorded_and_replayed(
    found: dict[tuple[str, str], dict[str, Any]], mode: str, revision: str
) -> None:
    one = found[mode, revision]
    assert not one["problems"], "\n".join(one["problems"])
    assert (one["missed"], one["failed"]) == (0, dict.fromkeys(COLUMNS, 0))
    assert one["passed"] == dict.fromkeys(COLUMNS, PASSED[mode, revision])


def compared(*statuses: str, said: str = "9 played, 0 missed", code: int = 0) -> Comparison:
    """One check in one scenario, with a status per column."""
    done = Comparison("server", "2025-11-25")
    for column, status in zip(COLUMNS, statuses, strict=True):
        done.columns[column] = {"ping": Counter({("ping", status): 1})}
    done.judge("ping", Listening("http://127.0.0.1:1/mcp", code, said))
    return done


def test_columns_that_agree_are_no_problem() -> None:
    done = compared("SUCCESS", "SUCCESS", "SUCCESS")
    assert done.problems() == []
    assert done.table().splitlines()[2].split() == ["checks", "passed", "1", "1", "1"]


@pytest.mark.parametrize("column", range(3))
@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED"])
def test_one_check_that_differs_is_a_problem(column: int, status: str) -> None:
    statuses = ["SUCCESS", "SUCCESS", "SUCCESS"]
    statuses[column] = status
    assert any("ping" in problem for problem in compared(*statuses).problems())


def test_nothing_passed_is_a_problem() -> None:
    assert compared("FAILURE", "FAILURE", "FAILURE").problems()


@pytest.mark.parametrize(
    ("said", "code"), [("9 played, 1 missed", 1), ("9 played, 1 missed", 0), ("", 0), ("9 played, 0 missed", -9)]
)
def test_a_miss_or_a_bad_end_is_a_problem(said: str, code: int) -> None:
    assert compared("SUCCESS", "SUCCESS", "SUCCESS", said=said, code=code).problems()
