"""The test files that the documentation shows are real: they record, replay, and fail on a miss.

A block is a whole file when the line before it is `<!-- file: NAME -->`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from .support import run

ROOT = Path(__file__).parent.parent
FILE = re.compile(r"^<!-- file: (?P<name>\S+) -->\n```\w+\n(?P<text>.*?)^```$", re.S | re.M)
# Jest and Vitest offer these under the same names; Node's own runner stands in for them here.
VITEST = """
import assert from "node:assert/strict";
export { afterEach, beforeEach, test } from "node:test";
export const expect = (got) => ({
  toEqual: (wanted) => assert.deepEqual(got, wanted),
  toContain: (part) => assert.ok(got.includes(part), got),
});
"""


def example(page: str, name: str, directory: Path, place: Callable[[str], str] = lambda text: text) -> Path:
    """A file of a page, written into a directory; `place` may change its text."""
    (text,) = [found["text"] for found in FILE.finditer((ROOT / page).read_text("utf-8")) if found["name"] == name]
    changed = place(text)
    (directory / name).write_text(changed, "utf-8")
    return directory / name


def in_seoul(text: str) -> str:
    """The same test, with a question that is not on its tape."""
    assert '"Asia/Tokyo"' in text
    return text.replace('"Asia/Tokyo"', '"Asia/Seoul"')


def tried(command: Sequence[str], directory: Path, mode: str) -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return run(command, cwd=directory, env=os.environ | {"PATH": path, "TAPE_MODE": mode})


def pytest_run(directory: Path, mode: str) -> subprocess.CompletedProcess[bytes]:
    return tried([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=."], directory, mode)


def cassettes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "cassettes").iterdir()}


def test_the_pytest_example_records_then_replays_then_fails_on_a_miss(tmp_path: Path) -> None:
    example("docs/testing.md", "test_time.py", tmp_path)
    recorded = pytest_run(tmp_path, "once")
    assert recorded.returncode == 0, recorded.stdout
    before = cassettes(tmp_path)
    assert sorted(before) == [
        "test_the_time_in_kathmandu_has_its_offset.db",
        "test_the_time_in_tokyo_has_its_offset.db",
    ]
    replayed = pytest_run(tmp_path, "none")
    assert replayed.returncode == 0, replayed.stdout
    assert b"2 passed" in replayed.stdout
    assert cassettes(tmp_path) == before

    example("docs/testing.md", "test_time.py", tmp_path, in_seoul)
    missed = pytest_run(tmp_path, "none")
    assert missed.returncode == 1
    assert b"AssertionError: miss: tools/call get_current_time" in missed.stdout
    assert b'recorded "Asia/Tokyo", live "Asia/Seoul"' in missed.stdout


def test_the_example_of_the_readme_records_and_replays(tmp_path: Path) -> None:
    example("README.md", "test_clock.py", tmp_path)
    for _ in range(2):
        done = pytest_run(tmp_path, "")
        assert done.returncode == 0, done.stdout
    with_tape = example(
        "README.md", "test_clock.py", tmp_path, lambda text: text.replace("mcp-server-time", "no-server")
    )
    assert "no-server" in with_tape.read_text()
    assert pytest_run(tmp_path, "").returncode == 0  # the tape alone


def test_the_javascript_example_records_then_replays_then_fails_on_a_miss(
    tmp_path: Path, node: Callable[[], Path]
) -> None:
    modules = tmp_path / "node_modules"
    (modules / "vitest").mkdir(parents=True)
    (modules / "vitest" / "package.json").write_text('{"name":"vitest","type":"module","exports":"./index.js"}')
    (modules / "vitest" / "index.js").write_text(VITEST)
    (modules / "@modelcontextprotocol").symlink_to(node() / "@modelcontextprotocol")
    file = str(example("docs/testing.md", "time.test.mjs", tmp_path))
    assert run(["node", "--check", file]).returncode == 0
    for mode in ("once", "none"):
        done = tried(["node", "--test", file], tmp_path, mode)
        assert done.returncode == 0, done.stdout
    assert sorted(cassettes(tmp_path)) == ["tokyo.db"]
    example("docs/testing.md", "time.test.mjs", tmp_path, in_seoul)
    missed = tried(["node", "--test", file], tmp_path, "none")
    assert missed.returncode == 1
    assert b'recorded "Asia/Tokyo", live "Asia/Seoul"' in missed.stdout


def test_the_go_example_is_go(tmp_path: Path) -> None:
    if shutil.which("gofmt") is None:
        pytest.skip("there is no Go")
    done = run(["gofmt", "-l", str(example("docs/testing.md", "clock_test.go", tmp_path))])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
