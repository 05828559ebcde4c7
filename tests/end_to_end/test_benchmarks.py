"""The benchmarks run, and print every figure. What the figures are is not tested here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import which

import pytest

from tests.support import forked, provision, warm

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WAIT = 600  # seconds: nothing hurries, and the machine may have other work

PATTERNS = """recorded order, reversed, shuffled, second half only, every other, other integer ids, string ids,
 progress tokens, 10 identical calls each, pings recorded before""".replace("\n", "").split(", ")
PIPELINED = ("recorded order", "shuffled", "other integer ids")
RATES = [*(f"one at a time, {name}" for name in PATTERNS), *(f"pipelined, {name}" for name in PIPELINED)]

HTTP_WAYS = ("modern", "modern, progress", "legacy", "legacy, SSE")
HTTP_PATTERNS = [*(f"modern, {name}" for name in PATTERNS[1:-1]), f"legacy, {PATTERNS[-1]}"]
STORMS = (
    """plain; secrets; 20 secrets each; both sides; noise; 20 kB each; structured; batches; plain, then structured"""
)


def run(script: str, samples: Path, python: str = sys.executable, **environment: str) -> str:
    """What the smallest run prints."""
    command = [python, BENCHMARKS / script, "--smoke", "--markdown", "--json", samples]
    done = subprocess.run(command, capture_output=True, timeout=WAIT, env=os.environ | environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def run_warm(script: str, samples: Path, needed: Sequence[str] = provision.SDK) -> str:
    """The same where programs begin with the SDK or mcp-tape loaded, which takes longer than all else."""
    python = str(warm.python(samples.parent, needed, kinds="*.py | -m"))
    warm.script(samples.parent, sys.executable, Path(*forked.SCRIPT), forked.loaded())
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return run(script, samples, python, WARM_PYTHON=python, PATH=path)


def figures_in(samples: Path) -> set[str]:
    return {row["figure"] for row in json.loads(samples.read_text())["results"]}


@pytest.mark.slow
def test_a_benchmark_prints_the_short_table_of_the_manual_before_all_others(replay_report: str) -> None:
    assert replay_report.startswith("## For docs/benchmarks.md\n")
    assert replay_report.index("## For benchmarks/README.md\n") < replay_report.index("### Bars\n")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "samples.json"


@pytest.fixture(scope="module")
def report(samples: Path) -> str:
    """Made once for all tests."""
    return run("record.py", samples)


@pytest.fixture(scope="module")
def replay_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "replay.json"


@pytest.fixture(scope="module")
def replay_report(replay_samples: Path) -> str:
    return run("replay.py", replay_samples)


@pytest.fixture(scope="module")
def http_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "http.json"


@pytest.fixture(scope="module")
def http_report(http_samples: Path) -> str:
    return run_warm("http_bench.py", http_samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    "figure",
    [
        "first reply ms",
        "added ms",
        "round trip µs",
        "added µs",
        "stored/s",
    ],
)
def test_the_benchmark_prints_every_figure(report: str, figure: str) -> None:
    assert figure in report


@pytest.mark.slow
@pytest.mark.parametrize("contestant", ["direct", "plain relay", "mcp-tape"])
def test_the_benchmark_measures_every_contestant(report: str, contestant: str) -> None:
    assert f"| {contestant} " in report


@pytest.mark.slow
def test_the_benchmark_names_every_bar(report: str) -> None:
    for bar in (
        "added to a round trip: ",
        "added to the first reply, below mcp-rec's: ",
        "a burst stored at 60 % of mcp-rec's pace: ",
    ):
        assert f": {bar}" in report
    assert "Failed" not in report


@pytest.mark.slow
def test_the_benchmark_writes_its_samples(report: str, samples: Path) -> None:
    assert figures_in(samples) == {"first reply ms", "round trip µs", "stored/s"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "figure",
    [
        "first reply ms",
        "first reply of 500 ms",
        *(f"{rate}/s" for rate in RATES),
        'python -c "import sqlite3, json"',
    ],
)
def test_the_replay_benchmark_prints_every_figure(replay_report: str, figure: str) -> None:
    assert figure in replay_report


@pytest.mark.slow
def test_the_replay_benchmark_measures_every_contestant_without_a_miss(replay_report: str) -> None:
    assert "| orjson server |" in replay_report
    assert " mcp-tape |" in replay_report
    assert "failed" not in replay_report.lower()


@pytest.mark.slow
def test_the_replay_benchmark_names_every_bar(replay_report: str) -> None:
    for bar in (
        "first reply, pinned",
        "first reply, pinned, below mcp-rec's",
        "first reply of 500 exchanges, pinned",
        *(f"{rate}, pinned, share of the orjson server's" for rate in RATES),
        *(f"{rate}, pinned, above mcp-rec's" for rate in RATES),
    ):
        assert f": {bar}: " in replay_report


@pytest.mark.slow
def test_the_replay_benchmark_writes_its_samples(replay_report: str, replay_samples: Path) -> None:
    assert figures_in(replay_samples) == {"first reply", "first reply, large", *RATES}


@pytest.mark.slow
@pytest.mark.parametrize(
    "figure",
    [
        "round trip µs",
        "added µs",
        "× plain proxy's",
        "p99 µs",
        "one at a time/s",
        "8 connections/s",
        "× mcp SDK's",
        "first reply ms",
        "RSS MB, 20 streams",
        "KB/stream",
    ],
)
def test_the_http_benchmark_prints_every_figure(http_report: str, figure: str) -> None:
    assert figure in http_report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "contestants"),
    [
        *((answer, ["direct", "plain proxy", "mcp-tape"]) for answer in ("JSON", "SSE", "progress")),
        *((way, ["mcp SDK", "bare app", "mcp-tape"]) for way in HTTP_WAYS),
        *((pattern, ["mcp SDK", "mcp-tape"]) for pattern in HTTP_PATTERNS[-2:]),
        ("recorded", ["plain proxy", "mcp-tape"]),
        *((era, ["mcp SDK", "mcp-tape"]) for era in ("replayed, modern", "replayed, legacy")),
    ],
)
def test_the_http_benchmark_measures_every_contestant_without_a_miss(
    http_report: str, case: str, contestants: list[str]
) -> None:
    for contestant in contestants:
        assert f"| {case}: {contestant} " in http_report
    assert "failed" not in http_report.lower()


@pytest.mark.slow
def test_the_http_benchmark_names_every_bar(http_report: str) -> None:
    for rate in ("one at a time/s", "8 connections/s"):
        for case in (*HTTP_WAYS, *HTTP_PATTERNS):
            for of in ("mcp SDK", "mcp-recorder"):
                assert f": {rate}, {case}, pinned, against {of}'s: " in http_report


@pytest.mark.slow
def test_the_http_benchmark_writes_its_samples(http_report: str, http_samples: Path) -> None:
    passing = {"round trip", "p99", "passed/s", "first reply"}
    playing = {"one at a time/s", "8 connections/s", "first reply"}
    holding = {"RSS", "RSS, one stream", "KB/stream"}
    cases = {
        **dict.fromkeys(("JSON", "SSE", "progress"), passing),
        **dict.fromkeys((*HTTP_WAYS, *HTTP_PATTERNS[-2:]), playing),
        **dict.fromkeys(("recorded", "replayed, modern", "replayed, legacy"), holding),
    }
    assert figures_in(http_samples) == {f"{figure}, {case}" for case, figures in cases.items() for figure in figures}


@pytest.mark.slow
def test_the_benchmark_of_workers_loads_each_number_of_them(tmp_path: Path) -> None:
    if which("wrk") is None:
        assert not os.environ.get("CI"), "wrk is not installed, and CI must have it"
        pytest.skip("needs wrk")
    report = run("workers.py", tmp_path / "workers.json")
    assert "failed" not in report.lower()
    for case in ("no session", "a session a connection", "sessions, connections shared"):
        for workers in ("1 worker", "2 workers"):
            assert f"| {case}: {workers} " in report
    for bar in ("CPU µs/request, no session, 2 workers", "requests/s, a session a connection, 2 workers"):
        assert f": {bar}: " in report


@pytest.mark.slow
def test_the_benchmark_of_a_fleet_goes_to_a_bucket_and_back_and_to_a_lake(tmp_path: Path) -> None:
    report = run_warm("fleet.py", tmp_path / "fleet.json")
    assert "failed" not in report.lower() and "absent" not in report
    for who in (
        "push: mcp-tape",
        "push: plain obstore",
        "pull: mcp-tape",
        "lake: mcp-tape, --jobs 2",
        "query: mcp-tape",
    ):
        assert f"| {who} " in report
    for bar in ("peak of push, 12 cassettes", "lake with 2 jobs, 12 cassettes"):
        assert f": {bar}: " in report


@pytest.fixture(scope="module")
def suites_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "suites.json"


@pytest.fixture(scope="module")
def suites_report(suites_samples: Path) -> str:
    return run_warm("suites.py", suites_samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    "contestant",
    ["SDK's server in memory", "tape.streams()", "tape.streams(), one cassette", "tape.url", "tape.command"],
)
def test_the_benchmark_of_suites_runs_every_suite(suites_report: str, contestant: str) -> None:
    assert f"| {contestant} " in suites_report
    assert "failed" not in suites_report.lower()


@pytest.mark.slow
def test_the_benchmark_of_suites_names_every_bar_and_writes_its_samples(
    suites_report: str, suites_samples: Path
) -> None:
    for tape in ("tape.streams()", "tape.streams(), one cassette", "tape.url", "tape.command"):
        for other in ("live server, started", "mcp-recorder"):
            assert f": {tape}, ms per test, below {other}: " in suites_report
    assert ": tape.streams(), ms in a test: " in suites_report
    assert figures_in(suites_samples) == {"ms per test", "ms in a test"}


@pytest.fixture(scope="module")
def diff_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "diff.json"


@pytest.fixture(scope="module")
def diff_report(diff_samples: Path) -> str:
    return run_warm("diff.py", diff_samples, ["deepdiff", "mcp_tape.compare.versions"])


@pytest.mark.slow
@pytest.mark.parametrize("contestant", ["mcp-tape", "deepdiff, every pair", "deepdiff, unequal pairs"])
def test_the_benchmark_of_diff_measures_every_contestant(diff_report: str, contestant: str) -> None:
    assert f"| made-up ids: {contestant} " in diff_report
    assert "failed" not in diff_report.lower()


@pytest.mark.slow
def test_the_benchmark_of_diff_finds_what_was_changed_and_nothing_else(diff_report: str) -> None:
    assert "- pass: answers found to differ, made-up ids: 1, expected 1\n" in diff_report


@pytest.mark.slow
def test_the_benchmark_of_diff_names_every_bar_and_writes_its_samples(diff_report: str, diff_samples: Path) -> None:
    for bar in ("seconds, made-up ids, against deepdiff, every pair", "peak, 100,000 calls, made-up ids"):
        assert f": {bar}: " in diff_report
    figures = {"seconds, made-up ids", "found, made-up ids", "peak, 100 calls, made-up ids"}
    assert figures_in(diff_samples) == figures


@pytest.fixture(scope="module")
def reading_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "reading.json"


@pytest.fixture(scope="module")
def reading_report(reading_samples: Path) -> str:
    return run_warm("reading.py", reading_samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["ls", "show, ten lines", "show SEQ", "show", "stats", "search, a rare word", "export --format jsonl", "check"],
)
def test_the_benchmark_of_reading_measures_every_command_and_names_its_bars(reading_report: str, command: str) -> None:
    assert f"| {command} " in reading_report
    for bar in (f"seconds, {command}", f"peak, {command}"):
        assert f": {bar}: " in reading_report
    assert "failed" not in reading_report.lower()


@pytest.mark.slow
def test_the_benchmark_of_reading_writes_its_samples(reading_report: str, reading_samples: Path) -> None:
    figures = {f"{figure}, {messages} messages" for figure in ("seconds", "peak") for messages in (20, 200)}
    assert figures_in(reading_samples) == figures


@pytest.mark.slow
def test_the_benchmark_of_kills_finds_all_that_was_received(tmp_path: Path) -> None:
    samples = tmp_path / "kills.json"
    report = run("kills.py", samples)
    assert "Failed" not in report
    assert "all that was received is kept after a kill: " in report
    stdio = {f"stdio, {storm}, 10, {of}" for storm in STORMS.split("; ") for of in ("relay", "group")}
    assert figures_in(samples) == {*stdio, "HTTP, plain, 10, relay", "HTTP, secrets, 10, relay"}


@pytest.mark.slow
def test_viewing_measures_the_page_in_a_browser(chromium: Callable[[], str], samples: Path) -> None:
    chromium()
    table = run("viewing.py", samples)
    assert figures_in(samples) >= {"ready", "file", "blank", "filter: a tool", "filter: a common word"}
    assert "ready to use" in table


@pytest.mark.slow
def test_opening_a_text_is_measured_against_a_database() -> None:
    command = [sys.executable, BENCHMARKS / "text.py", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, timeout=WAIT, text=True)
    assert re.fullmatch(r"database [\d.]+ ms, text [\d.]+ ms: -?[\d.]+ ms above, 10 allowed\n", done.stdout), (
        done.stderr
    )
