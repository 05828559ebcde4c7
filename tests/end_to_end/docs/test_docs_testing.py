"""The test files in the documentation are real: they record, replay, and fail on a miss.

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

from mcp_tape import pytest_plugin
from tests.support import forked
from tests.support.docs import ROOT, example, pytest_run
from tests.support.running import run

# Jest and Vitest have these under the same names; here Node's own runner replaces both.
VITEST = """
import assert from "node:assert/strict";
export { afterEach, beforeEach, test } from "node:test";
export const expect = (got) => ({
  toEqual: (wanted) => assert.deepEqual(got, wanted),
  toContain: (part) => assert.ok(got.includes(part), got),
});
"""


def in_seoul(text: str) -> str:
    """The same test, with a request that is not on its tape."""
    assert '"Asia/Tokyo"' in text
    return text.replace('"Asia/Tokyo"', '"Asia/Seoul"')


def block(page: str, mark: str) -> list[str]:
    """The lines of the block after a mark such as `<!-- missed -->`."""
    found = re.search(rf"^<!-- {mark} -->\n```\w+\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.S | re.M)
    assert found, mark
    return found[1].splitlines()


def tried(command: Sequence[str], directory: Path, mode: str = "none") -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join([forked.scripts(), str(Path(sys.executable).parent), os.environ["PATH"]])
    return run(command, cwd=directory, env=os.environ | {"PATH": path, "TAPE_MODE": mode})


def cassettes(directory: Path) -> dict[str, bytes]:
    place = directory / "cassettes"
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*.db")}


@pytest.mark.slow
def test_the_story_of_the_guide_from_an_empty_directory_to_a_miss(tmp_path: Path) -> None:
    example("docs/testing.md", "test_time.py", tmp_path)
    said = pytest_run(tmp_path).stdout.decode()
    assert all(line in said for line in block("docs/testing.md", "no cassette")), said

    record, replay = block("docs/testing.md", "commands")
    assert replay == "pytest"
    example("docs/migrating.md", "test_both.py", tmp_path)
    recorded = pytest_run(tmp_path, *record.split()[1:])
    assert b"2 passed, 1 skipped" in recorded.stdout, recorded.stdout
    before = cassettes(tmp_path)
    assert sorted(before) == ["test_time/test_tokyo_is_nine_hours_ahead.db", "time.db"]
    assert not list((tmp_path / "cassettes").rglob("*.yaml"))

    example("docs/testing.md", "conftest.py", tmp_path)
    unmarked(tmp_path)
    replayed = pytest_run(tmp_path, offline=True)
    assert b"4 passed" in replayed.stdout, replayed.stdout

    program = str(example("docs/testing.md", "visit.py", tmp_path))  # plays time.db, without pytest
    visited = run([sys.executable, program], cwd=tmp_path, env=os.environ | {"PATH": str(tmp_path / "nothing")})
    assert b"'get_current_time'" in visited.stdout, visited.stderr
    assert {path: cassettes(tmp_path)[path] for path in before} == before

    example("docs/testing.md", "test_time.py", tmp_path, in_seoul)
    missed = pytest_run(tmp_path, "test_time.py", offline=True).stdout.decode()
    assert "1 failed" in missed
    assert all(line in missed for line in block("docs/testing.md", "missed")), missed


@pytest.mark.slow
def test_the_agent_of_two_servers_is_recorded_and_replayed(tmp_path: Path) -> None:
    example("docs/testing.md", "test_agent_of_two.py", tmp_path)
    recorded = pytest_run(tmp_path, "--mcp-record=once")
    assert b"1 passed" in recorded.stdout, recorded.stdout
    assert list(cassettes(tmp_path)) == ["test_agent_of_two/test_two_servers.db"]
    replayed = pytest_run(tmp_path, "--mcp-unplayed=error", offline=True)
    assert b"1 passed" in replayed.stdout, replayed.stdout


def unmarked(directory: Path) -> None:
    """The same test and tape under another name, without the marker: the server is in mcp_tape_config."""
    mark = "@pytest.mark.mcp_tape(server=SERVER)\n"
    text = (directory / "test_time.py").read_text("utf-8")
    assert mark in text
    (directory / "test_bare.py").write_text(text.replace(mark, ""), "utf-8")
    shutil.copytree(directory / "cassettes" / "test_time", directory / "cassettes" / "test_bare")


def test_every_option_and_fixture_of_the_plugin_is_in_its_reference() -> None:
    guide = (ROOT / "docs" / "pytest.md").read_text("utf-8")
    source = Path(pytest_plugin.__file__).read_text("utf-8")
    names = re.findall(r'addoption\("(--[\w-]+)"|addini\("(\w+)"|^def (mcp_\w+)\(', source, re.M)
    found = {name for group in names for name in group if name}
    assert {"--mcp-record", "mcp_record", "mcp_tape_factory"} <= found
    assert not [name for name in found if f"`{name}" not in guide]


def test_every_example_is_listed() -> None:
    guide = (ROOT / "docs" / "pytest.md").read_text("utf-8")
    listed = re.findall(r"^\| \[(\w+\.py)\]\(examples/\1\)", guide, re.M)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs" / "examples").glob("test_*.py"))


@pytest.mark.slow
def test_the_contract_of_a_test_is_kept_when_it_is_recorded_and_when_it_is_replayed(tmp_path: Path) -> None:
    example("docs/contracts.md", "test_contract.py", tmp_path)
    for options in (["--mcp-record=once"], []):
        assert b"1 passed" in pytest_run(tmp_path, *options).stdout
    example(
        "docs/contracts.md",
        "test_contract.py",
        tmp_path,
        lambda text: text.replace('"tools/call": 3', '"tools/call": 0'),
    )
    failed = pytest_run(tmp_path).stdout.decode()
    assert re.search(
        r"E +AssertionError: .*test_contract/test_the_agent_keeps_to_its_tools.db: the contract is broken", failed
    )
    assert "max 'tools/call<=0': call 2, tools/call get_current_time is number 1 of 1" in failed
    assert "contracts/breaches.py" not in failed and "testing/used.py" not in failed


@pytest.mark.slow
def test_the_example_of_the_readme_records_and_replays(tmp_path: Path) -> None:
    example("README.md", "test_clock.py", tmp_path)
    done = pytest_run(tmp_path)
    assert done.returncode == 0, done.stdout
    example("README.md", "test_clock.py", tmp_path, lambda text: text.replace("mcp-server-time", "no-server"))
    assert "no-server" in (tmp_path / "test_clock.py").read_text()
    assert pytest_run(tmp_path).returncode == 0  # from the tape alone


@pytest.mark.slow
def test_the_javascript_example_records_then_replays_then_fails_on_a_miss(
    tmp_path: Path, node: Callable[[], Path]
) -> None:
    modules = tmp_path / "node_modules"
    (modules / "vitest").mkdir(parents=True)
    (modules / "vitest" / "package.json").write_text('{"name":"vitest","type":"module","exports":"./index.js"}')
    (modules / "vitest" / "index.js").write_text(VITEST)
    (modules / "@modelcontextprotocol").symlink_to(node() / "@modelcontextprotocol")
    file = str(example("docs/languages.md", "time.test.mjs", tmp_path))
    assert run(["node", "--check", file]).returncode == 0
    for mode in ("once", "none"):
        done = tried(["node", "--test", file], tmp_path, mode)
        assert done.returncode == 0, done.stdout
    assert sorted(cassettes(tmp_path)) == ["tokyo.db"]
    example("docs/languages.md", "time.test.mjs", tmp_path, in_seoul)
    missed = tried(["node", "--test", file], tmp_path, "none")
    assert missed.returncode == 1
    assert b'recorded "Asia/Tokyo", live "Asia/Seoul"' in missed.stdout


def test_the_go_example_is_go(tmp_path: Path) -> None:
    if shutil.which("gofmt") is None:
        pytest.skip("there is no Go")
    done = run(["gofmt", "-l", str(example("docs/languages.md", "clock_test.go", tmp_path))])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
