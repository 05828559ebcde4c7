"""The benchmarks run, and print every figure and floor. The figures themselves are not tested here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import which

import pytest

from tests.support import forked, provision, warm

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WAIT = 600  # seconds: generous, since the machine may have other work
# By name: modules loaded before the start, the contestants, and the beginnings of required rows.
CASES: dict[str, tuple[Sequence[str], list[str], list[str]]] = {
    "life": ((), ["mcp-tape"], ["1 of 20, recorded order", "10 of 20, shuffled", "10 of 20, other ids", "1 of 200"]),
    "replay": ((), ["orjson server", "mcp-tape"], ["one at a time, other ids", "pipelined, shuffled"]),
    "record": ((), ["direct", "plain relay", "mcp-tape"], ["first reply", "round trip", "stored"]),
    "kills": ((), ["mcp-tape"], ["small calls", "new secrets", "199 lines of noise", "batches of 200", "HTTP"]),
    "http": (provision.SDK, ["mcp SDK", "mcp-tape"], ["modern, progress", "legacy, SSE", "modern, shuffled"]),
    "proxy": ((), ["plain proxy", "record", "record --sample 0%"], ["CPU of a call, JSON", "memory with 20"]),
    "suites": (provision.SDK, ["a test that does nothing", "mcp-tape"], ["tape.streams()", "tape.url", "tape.command"]),
    "diff": (["deepdiff", "mcp_tape.compare.versions"], ["deepdiff, every pair", "mcp-tape"], ["made-up ids, peak"]),
    "reading": ((), ["every text read", "mcp-tape"], ["ls", "show SEQ", "search, a rare word", "check, peak", "open"]),
    "viewing": ((), ["200 messages"], ["ready to use", "filter: a tool", "of 60 jumps, blank"]),
    "workers": (provision.SDK, ["1 worker", "2 workers"], ["no session", "a session a connection"]),
    "fleet": (provision.SDK, ["cp", "plain obstore", "mcp-tape"], ["push, 20", "pull, 2 ", "lake, 20", "query, 20"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_benchmark_measures_every_contestant_and_prints_every_figure(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if name == "workers" and which("wrk") is None:
        assert not os.environ.get("CI"), "wrk is not installed, and CI must have it"
        pytest.skip("needs wrk")
    if name == "viewing":
        chromium: Callable[[], str] = request.getfixturevalue("chromium")
        chromium()
    needed, contestants, rows = CASES[name]
    printed = run(name, tmp_path, needed)
    head, _, *table = [line for line in printed.splitlines() if line.startswith("|")]
    cells = [cell.strip() for cell in head.split("|")]
    assert set(contestants) < set(cells)
    assert cells[-4:] == ["measured", "floor", "", ""]
    assert [row for row in rows if not any(line.startswith(f"| {row}") for line in table)] == []
    assert "failed" not in printed
    assert any("≤" in line or "≥" in line for line in table)
    figures = {one["figure"] for one in json.loads((tmp_path / "samples.json").read_text())[0]["results"]}
    assert [figure for figure in figures if not any(line.startswith(f"| {figure}") for line in table)] == []


def run(name: str, place: Path, needed: Sequence[str]) -> str:
    """The output of the smallest run. Programs start with these libraries loaded, if any."""
    python, environment = sys.executable, {}
    if needed:
        python = str(warm.python(place, needed, kinds="*.py | -m"))
        warm.script(place, sys.executable, Path(*forked.SCRIPT), forked.loaded())
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {"WARM_PYTHON": python, "PATH": path}
    command = [python, BENCHMARKS, name, "--smoke", "--json", place / "samples.json"]
    done = subprocess.run(command, capture_output=True, timeout=WAIT, env=os.environ | environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_an_unknown_benchmark_is_refused_with_the_names_of_all(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, BENCHMARKS, "speed"], capture_output=True, timeout=WAIT, cwd=tmp_path)
    assert done.returncode == 2
    assert b"no benchmark speed; there are life, replay, http" in done.stderr
