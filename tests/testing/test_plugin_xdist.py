"""The pytest plugin with xdist: several processes, and one report. Each run takes seconds, so there are two."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.cassette import replace
from mcp_tape.testing.shared import keep_recordings
from tests.support.decks import make_cassette
from tests.support.plugin import Suite
from tests.support.running import WAIT, sessions

FACTORY = """
@pytest.fixture(scope="session")
def tape(mcp_tape_factory): return mcp_tape_factory("made", unplayed="warn")
def test_one(tape): ask(tape, "a")
def test_two(tape): ask(tape, "b")
"""


@pytest.mark.slow
def test_replay_is_safe_in_parallel_and_reports_of_the_workers_are_one(suite: Suite) -> None:
    """Each worker plays its part of a shared cassette, and sees only the cassettes of its own tests."""
    suite.record("shared", *"abcdef")
    suite.record("made", *"abc")
    for name in ("test_own/test_one", "test_own/test_two", "test_own/test_gone"):
        suite.record(name, "a")
    suite.test(
        "@pytest.mark.mcp_tape('shared', unplayed='error')\n"
        "@pytest.mark.parametrize('tool', 'abcde')\n"
        "def test_one(mcp_tape, tool): assert ask(mcp_tape, tool) == [f'{tool} 1']\n"
    )
    suite.test("def test_one(mcp_tape): pass\ndef test_two(mcp_tape): pass\n", "test_own.py")
    suite.test(FACTORY, "test_made.py")
    before = suite.cassettes()
    result = suite.run_apart("-n2", "--mcp-orphans")
    result.assert_outcomes(passed=9)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "mcp-tape: record none (default)*",
            "*mcp-tape: recorded requests that no test has made*",
            "*cassettes that no test of this run uses*",
            "cassettes/test_own/test_gone.db",
            "1 of 5",
        ]
    )
    result.stdout.fnmatch_lines_random(
        [
            "error: cassettes/shared.db: #13 of session 1 tools/call f",
            "warn: cassettes/made.db: #7 of session 1 tools/call c",
        ]
    )
    assert (suite.cassettes(), suite.starts()) == (before, 1)


# The two largest files go to different workers. Both tests start before either records, so that they overlap.
MEETING = f"""
import pathlib, time

@pytest.fixture
def met(request):
    pathlib.Path(request.path.stem).touch()
    wait_for("test_a"), wait_for("test_b")

def wait_for(name):
    end = time.monotonic() + {WAIT}
    while not pathlib.Path(name).exists():
        assert time.monotonic() < end
        time.sleep(0.01)

@pytest.mark.mcp_tape("meeting", mode="once")
def test_one(met, mcp_tape):
    wait_for("refused")
    ask(mcp_tape, "a")

@pytest.mark.parametrize("n", range(4))
def test_more(n): pass
"""
REFUSED = """
def pytest_runtest_logreport(report):
    if report.when == "setup" and report.failed:
        pathlib.Path("refused").touch()
"""
SHARED = """
pytestmark = pytest.mark.mcp_tape({0!r})
def test_one(mcp_tape): ask(mcp_tape, "b")
def test_two(mcp_tape): assert ask(mcp_tape, "c")[0][0] == {1!r}
"""


@pytest.mark.slow
def test_each_cassette_is_recorded_by_one_process(suite: Suite) -> None:
    for name in ("together", "failing"):
        suite.record(name, "a")
    before = suite.cassettes()
    suite.add("conftest.py", REFUSED)
    for name in ("test_a.py", "test_b.py"):
        suite.test(MEETING, name)
    suite.test(
        "@pytest.mark.parametrize('n', range(3))\ndef test_own(mcp_tape, n): ask(mcp_tape, 'a')\n", "test_own.py"
    )
    suite.test(SHARED.format("together", "c"), "test_together.py")
    suite.test(SHARED.format("failing", "x"), "test_failing.py")
    result = suite.run_apart("-n2", "--dist=loadfile", "-o", "mcp_record=all")
    result.assert_outcomes(passed=15, errors=1, failed=1)
    refused = "*meeting.db is being recorded by another test at this moment; *: without -n, *--dist loadfile"
    stays = "*/failing.db was not changed, because these failed: test_failing.py::test_two*"
    result.stdout.fnmatch_lines([refused])
    result.stdout.fnmatch_lines([stays])
    result.stdout.fnmatch_lines(["*/meeting.db was not made, because not all tests that use it ran in one process; *"])
    after = suite.cassettes()
    own = {f"cassettes/test_own/test_own[{n}].db" for n in range(3)}
    assert after.keys() == own | {f"cassettes/{name}.db" for name in ("together", "failing")}
    assert after["cassettes/failing.db"] == before["cassettes/failing.db"]
    assert len(sessions(suite.path / "cassettes/together.db")) == 3


def left_aside(path: Path) -> str:
    """The file that a process of the run leaves for the controller."""
    with replace.beside(str(path)) as part:
        make_cassette(Path(part.file), [("client", "{}")])
        return part.hand_over()


@pytest.mark.parametrize(("parts", "unfit", "stopped"), [(2, False, False), (1, True, False), (1, False, True)])
def test_a_cassette_that_not_one_process_has_recorded_alone_is_not_kept(
    tmp_path: Path, parts: int, unfit: bool, stopped: bool
) -> None:
    """A later process may have found nothing recorded yet."""
    path = tmp_path / "shared.db"
    found = [(str(path), left_aside(path)) for _ in range(parts)]
    (told,) = keep_recordings(found, {str(path)} if unfit else set(), stopped=stopped)
    assert told.startswith(f"{path} was not made, because ")
    assert list(tmp_path.iterdir()) == []


def test_a_recording_made_by_one_process_replaces_the_cassette(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "shared.db", [])
    part = left_aside(path)
    new = Path(part).read_bytes()
    assert keep_recordings([(str(path), part)], {"other.db"}, stopped=False) == []
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("shared.db", new)]
