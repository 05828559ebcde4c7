"""The examples in docs/examples run: from their cassettes without any server, and against real servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from mcp_tape import Cassette
from tests.support import provision
from tests.support.running import run

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "examples"
FASTMCP = "test_fastmcp.py"
# The expected result of each with live servers blocked: the numbers of passed and skipped tests.
REPLAYED = {
    "test_agent.py": (4, 0),
    FASTMCP: (1, 0),
    "test_own_server.py": (1, 1),
    "test_rules.py": (4, 0),
    "test_sharing.py": (5, 0),
    "test_sync.py": (2, 0),
    "test_unittest.py": (1, 0),
}
COMMANDS = (["mcp-server-time", "--local-timezone", "UTC"], ["python", "shop.py"])
PATHS = re.compile(rb"/(?:root|home|Users|tmp|var|work|opt|private)/[^\s\"'\\]*")
MOST_BYTES = 100_000


def copy_to(place: Path) -> Path:
    """A copy of the examples, to run and to change."""
    return shutil.copytree(
        EXAMPLES, place / "examples", ignore=shutil.ignore_patterns("__pycache__", "pairs", "frameworks")
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return copy_to(tmp_path)


@pytest.fixture
def offline(tmp_path: Path) -> dict[str, str]:
    """An environment without any server."""
    return provision.nowhere(tmp_path / "empty")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The result of each test when all examples replay without any server."""
    parent = tmp_path_factory.mktemp("replayed")
    place, offline = copy_to(parent), provision.nowhere(parent / "empty")
    before = tapes(place)
    others = [file for file in REPLAYED if file != FASTMCP]
    runs = [tried(place, *files, "-v", "--mcp-block-live", env=offline) for files in ([FASTMCP], others)]
    assert tapes(place) == before
    assert [code for code, _ in runs] == [0, 0], runs
    return "".join(said for _, said in runs)


def tried(place: Path, *arguments: str, env: dict[str, str]) -> tuple[int, str]:
    """The exit code and output of a pytest run of some files, with options."""
    program = [provision.fastmcp(), "-m", "pytest"] if arguments[0] == FASTMCP else provision.pytest_command()
    command = [*program, "-p", "no:cacheprovider", *arguments]
    # Other installed plugins take longer to load than the tests.
    env = env | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    command += ["-p", "mcp_tape.pytest_plugin", "-p", "pytest_asyncio.plugin"]
    done = run(command, cwd=place, env=env)
    return done.returncode, (done.stdout + done.stderr).decode()


def changed(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


def tapes(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in (place / "cassettes").rglob("*")
            if path.is_file()}  # fmt: skip


def test_every_example_is_tried() -> None:
    assert {path.name for path in EXAMPLES.glob("test_*.py")} == set(REPLAYED)


@pytest.mark.slow
@pytest.mark.parametrize("file", REPLAYED)
def test_an_example_replays_with_no_server_in_reach(replayed: str, file: str) -> None:
    found = [len(re.findall(rf"^{file}::.* {outcome} ", replayed, re.M)) for outcome in ("PASSED", "SKIPPED")]
    assert tuple(found) == REPLAYED[file], replayed


@pytest.mark.slow
def test_examples_can_be_recorded_anew(place: Path, offline: dict[str, str]) -> None:
    files = ["test_rules.py", "test_own_server.py"]
    shutil.rmtree(place / "cassettes")
    code, said = tried(place, *files, "--mcp-record=rewrite", env=provision.environment())
    assert code == 0, said
    assert "3 passed, 3 skipped in " in said
    own = "cassettes/test_own_server/test_a_visit_to_the_shop.db"
    assert sorted(tapes(place)) == ["cassettes/rules.db", own]
    code, said = tried(place, *files, "--mcp-block-live", env=offline)
    assert code == 0, said
    assert "5 passed, 1 skipped in " in said


@pytest.mark.slow
def test_a_server_that_answers_otherwise_than_recorded_fails_the_example(place: Path) -> None:
    changed(place / "shop.py", '"red shoes": 79', '"red shoes": 80')
    code, said = tried(place, "test_own_server.py", env=provision.environment())
    assert code == 1, said
    assert "1 failed, 1 passed in " in said
    assert "'text': '79'" in said and "'text': '80'" in said


@pytest.mark.slow
def test_a_miss_fails_an_example_whose_agent_swallows_it(place: Path, offline: dict[str, str]) -> None:
    changed(place / "test_agent.py", "Moon/Tycho", "Moon/Kepler")
    code, said = tried(place, "test_agent.py", "-k", "finds", env=offline)
    assert code == 1, said
    assert 'recorded "Moon/Tycho", live "Moon/Kepler"' in said
    assert "AssertionError" not in said  # the agent's answer was correct


@pytest.mark.slow
def test_the_unittest_example_fails_on_a_miss_without_pytest(place: Path, offline: dict[str, str]) -> None:
    changed(place / "test_unittest.py", "Asia/Tokyo", "Asia/Seoul")
    done = run([sys.executable, "-m", "unittest", "test_unittest.py"], cwd=place, env=offline)
    assert done.returncode == 1
    assert b"Ran 1 test" in done.stderr
    assert b'recorded "Asia/Tokyo", live "Asia/Seoul"' in done.stderr


@pytest.mark.parametrize("path", sorted((EXAMPLES / "cassettes").rglob("*.db")), ids=lambda path: path.stem)
def test_a_cassette_of_the_examples_is_whole_small_and_names_no_place(path: Path) -> None:
    with Cassette(path) as cassette:
        sessions = cassette.sessions()
    assert sessions and not any(session.incomplete for session in sessions)
    assert all(json.loads(session.target)["command"] in COMMANDS for session in sessions)
    assert path.stat().st_size < MOST_BYTES
    assert PATHS.findall(path.read_bytes()) == []
    assert not os.path.exists(f"{path}-wal")
