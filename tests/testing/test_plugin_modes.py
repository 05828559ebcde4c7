"""Modes in the pytest plugin: when the live server is used, and when a recording replaces the cassette."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.plugin import ASYNCIO, Suite
from tests.support.running import MCP_TAPE, WAIT, is_one_file, receive_line, run, sessions, started

WRITING = ["once", "new_episodes", "all", "rewrite"]
PATH = "cassettes/test_it/test_one.db"


def one(*tools: str, more: str = "") -> str:
    return f"def test_one(mcp_tape):\n    said = ask(mcp_tape, *{tools!r})\n    print(said)\n    {more}\n"


def said(result: pytest.RunResult) -> list[str]:
    """The answers that the tests got and printed."""
    return [line for line in result.outlines if line.startswith("[") and "%" not in line]


@pytest.fixture
def recorded(suite: Suite) -> Suite:
    """A suite with one test that has recorded its cassette."""
    suite.test(one("a"))
    suite.record("test_it/test_one", "a")
    return suite


# -- each mode


@pytest.mark.slow
def test_none_writes_nothing_and_starts_nothing(recorded: Suite) -> None:
    before = recorded.cassettes()
    stat = recorded.cassette().stat()
    assert said(recorded.passes("-rP")) == ["['a 1']"]
    recorded.test(one("a", "z"))
    recorded.run("--mcp-record=none").assert_outcomes(failed=1)
    assert recorded.cassettes() == before
    assert recorded.cassette().stat().st_mtime_ns == stat.st_mtime_ns
    assert recorded.starts() == 1


def test_once_replays_an_existing_recording_and_adds_nothing(recorded: Suite) -> None:
    recorded.test(one("a", "z"))
    before = recorded.cassettes()
    recorded.run("--mcp-record=once").assert_outcomes(failed=1)
    assert (recorded.cassettes(), recorded.starts()) == (before, 1)


@pytest.mark.slow
def test_new_episodes_adds_missing_calls(recorded: Suite) -> None:
    recorded.test(one("a", "z"))
    assert said(recorded.passes("--mcp-record=new_episodes", "-rP")) == ["['a 1', 'z 2']"]
    assert [session.extends for session in sessions(recorded.path / PATH)] == [None, 1]
    assert said(recorded.passes("-rP")) == ["['a 1', 'z 2']"]
    recorded.passes("--mcp-record=new_episodes", "-Werror")
    assert recorded.starts() == 2


@pytest.mark.slow
def test_a_run_ends_with_how_much_its_cassettes_have_grown(suite: Suite) -> None:
    for name in ("test_it/test_one", "test_it/test_two", "test_it/test_three", "shared"):
        suite.record(name, "a", "b")
    suite.test(
        "def test_one(mcp_tape): ask(mcp_tape, 'a', 'z', 'b')\n"
        "def test_two(mcp_tape): ask(mcp_tape, 'a', 'b', 'z')\n"
        "def test_three(mcp_tape): ask(mcp_tape, 'a', 'b'); assert 0\n"
        "@pytest.mark.mcp_tape('shared')\n@pytest.mark.parametrize('tool', 'yz')\n"
        "def test_four(mcp_tape, tool): ask(mcp_tape, tool, 'b')\n"
    )
    result = suite.run("--mcp-record=new_episodes")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*mcp-tape: new episodes*",
            "3 cassettes grew; 3 answers after a live call came from the old tape",
            "cassettes/shared.db: 2",
            "cassettes/test_it/test_one.db: 1",
            "To record them again, *: pytest --mcp-record=rewrite",
        ],
        consecutive=True,
    )
    assert "episodes" not in suite.run().stdout.str()


@pytest.mark.slow
def test_new_episodes_records_where_there_is_nothing(suite: Suite) -> None:
    suite.test(one("a"))
    suite.passes("--mcp-record=new_episodes")
    assert said(suite.passes("-rP")) == ["['a 1']"]


@pytest.mark.slow
def test_all_appends_a_session_that_plays_from_then_on(recorded: Suite) -> None:
    assert said(recorded.passes("--mcp-record=all", "-rP")) == ["['a 2']"]
    assert len(sessions(recorded.path / PATH)) == 2
    assert said(recorded.passes("-rP")) == ["['a 2']"]


@pytest.mark.slow
def test_rewrite_leaves_only_the_new_session(recorded: Suite) -> None:
    recorded.test(one("b"))
    recorded.passes("--mcp-record=rewrite")
    assert len(sessions(recorded.path / PATH)) == 1
    assert said(recorded.passes("-rP")) == ["['b 2']"]


@pytest.mark.slow
def test_a_recording_is_one_file_with_nothing_beside_it(recorded: Suite) -> None:
    for mode in WRITING:
        recorded.passes(f"--mcp-record={mode}")
        assert list(recorded.cassettes()) == [PATH]
        assert is_one_file(recorded.path / PATH)


@pytest.mark.slow
def test_a_url_is_recorded_and_replayed_too(suite: Suite) -> None:
    demo = Path(__file__).parents[2] / "cassettes" / "demo.db"
    with started([*MCP_TAPE, "replay", str(demo), "--listen", "127.0.0.1:0", "--repeats", "cycle"]) as live:
        assert live.stdout
        url = receive_line(live.stdout).decode().strip()
        suite.write("test_it.py", URL.format(url))
        import mcp  # noqa: F401 - before a run within this process, which forgets what it has loaded

        suite.passes("--mcp-record=once", *ASYNCIO)
        live.send_signal(signal.SIGTERM)
        live.wait(WAIT)
    suite.passes(*ASYNCIO)


URL = """
import mcp, pytest

@pytest.mark.asyncio
@pytest.mark.mcp_tape(url={!r})
async def test_one(mcp_tape):
    async with mcp.Client(mcp_tape.url, mode="legacy") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["forecast"]
"""


# -- kept recordings

ENDS = {
    "assert 0": {"failed": 1},
    "pytest.skip()": {"skipped": 1},
    "pytest.xfail()": {"xfailed": 1},
    "pytest.exit('enough')": {},
}


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(
    ("mode", "end"), [(mode, "assert 0") for mode in WRITING] + [("all", end) for end in ENDS if end != "assert 0"]
)
def test_the_old_cassette_survives_a_test_that_does_not_pass(recorded: Suite, mode: str, end: str) -> None:
    before = recorded.cassettes()
    recorded.test(one("a", "b", more=end) if mode != "once" else one("a", more=end))
    recorded.run(f"--mcp-record={mode}").assert_outcomes(**ENDS[end])
    assert recorded.cassettes() == before
    (recorded.path / PATH).unlink()
    recorded.run(f"--mcp-record={mode}").assert_outcomes(**ENDS[end])
    assert recorded.cassettes() == {}


@pytest.mark.slow
def test_the_old_cassette_survives_an_interrupted_run(recorded: Suite) -> None:
    before = recorded.cassettes()
    recorded.test(one("b", more="raise KeyboardInterrupt"))
    assert recorded.run_apart("--mcp-record=rewrite").ret == pytest.ExitCode.INTERRUPTED
    assert (recorded.cassettes(), recorded.starts()) == (before, 2)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("more", ["", "assert 0"])
def test_the_old_cassette_survives_a_failure_after_the_test(recorded: Suite, more: str) -> None:
    before = recorded.cassettes()
    after = f"@pytest.fixture\ndef after(mcp_tape):\n    yield\n    assert 0\n{one('b', more=more)}"
    recorded.test(after.replace("test_one(mcp_tape)", "test_one(mcp_tape, after)"))
    outcome = {"failed": 1, "errors": 1} if more == "assert 0" else {"passed": 1, "errors": 1}
    recorded.run("--mcp-record=all").assert_outcomes(**outcome)
    assert recorded.cassettes() == before


@pytest.mark.slow
def test_calls_of_fixtures_after_the_test_are_recorded_too(suite: Suite) -> None:
    suite.test(
        "@pytest.fixture\ndef after(mcp_tape):\n    yield\n    assert ask(mcp_tape, 'z') == ['z 2']\n"
        "def test_one(after, mcp_tape): ask(mcp_tape, 'a')\n"
    )
    suite.passes("--mcp-record=once")
    suite.passes()
    assert suite.starts() == 2


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("name", ["", "'shared'"])
def test_a_test_that_is_run_again_until_it_passes_is_recorded(suite: Suite, name: str) -> None:
    suite.add("conftest.py", AGAIN)
    again = one("a", more="assert said == ['a 2']")
    suite.test(f"pytestmark = pytest.mark.mcp_tape({name})\n{again}def test_two(mcp_tape): ask(mcp_tape, 'b')\n")
    suite.run("--mcp-record=once").assert_outcomes(failed=1, passed=2)
    assert said(suite.passes("-rP", passed=2)) == ["['a 2']"]
    assert suite.starts() == 3


AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    if any(report.failed for report in runtestprotocol(item, nextitem=nextitem)):
        item._initrequest()
        runtestprotocol(item, nextitem=nextitem)
    return True
"""


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("mode", WRITING[1:])
def test_a_recording_lies_beside_the_cassette_until_the_test_has_passed(recorded: Suite, mode: str) -> None:
    recorded.test(
        "import pathlib\n"
        "def test_one(mcp_tape):\n"
        "    path = pathlib.Path(mcp_tape.path)\n"
        "    before = path.read_bytes()\n"
        "    ask(mcp_tape, 'b')\n"
        "    assert [beside.name for beside in path.parent.glob('.' + path.name + '.*.part')]\n"
        "    assert path.read_bytes() == before\n"
    )
    before = recorded.cassettes()
    recorded.passes(f"--mcp-record={mode}", "-Werror")
    assert recorded.cassettes().keys() == before.keys()
    assert recorded.cassettes() != before


@pytest.mark.slow
def test_leftovers_of_a_killed_run_do_no_harm(recorded: Suite) -> None:
    recorded.write(f"{PATH}.lock", "")
    left = f"{Path(PATH).parent}/.{Path(PATH).name}.0123abcd.part/{Path(PATH).name}"
    recorded.write(left, "half of it")
    recorded.passes("--mcp-record=all")
    recorded.passes("--mcp-record=none")
    assert sorted(recorded.cassettes()) == [PATH]


@pytest.mark.parametrize("mode", WRITING)
def test_a_test_without_calls_keeps_its_recording_and_gets_a_warning(recorded: Suite, mode: str) -> None:
    before = recorded.cassettes()
    recorded.test("def test_one(mcp_tape): pass\n")
    result = recorded.run(f"--mcp-record={mode}")
    result.assert_outcomes(passed=1, warnings=0 if mode == "once" else 1)
    if mode != "once":
        result.stdout.fnmatch_lines(["*TapeWarning: nothing was recorded on *test_one.db: the test has made no call"])
    assert recorded.cassettes() == before


PROBE = """
import json, subprocess
def test_one(mcp_tape):
    ask = b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}\\n'
    done = subprocess.run(mcp_tape.command, input=ask, stdout=subprocess.PIPE)
    assert json.loads(done.stdout)["result"]["value"][:5] == "hello"
"""


NOBODY = "def test_one(mcp_tape): pass\n"


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(("test", "mode"), [(PROBE, "once"), *((NOBODY, mode) for mode in WRITING)])
def test_that_a_test_asks_for_nothing_is_recorded_once_and_replayed(suite: Suite, test: str, mode: str) -> None:
    suite.test(test)
    warned = suite.passes(f"--mcp-record={mode}", passed=1, warnings=1)
    warned.stdout.fnmatch_lines(["*TapeWarning: *test_one.db is a recording of nothing: the test has made no call"])
    before, starts = suite.cassettes(), suite.starts()
    suite.passes("-Werror")
    suite.passes("-Werror", "--mcp-block-live", f"--mcp-record={mode if mode == 'once' else 'none'}")
    assert (list(before), suite.starts()) == ([PATH], starts)
    suite.passes("--mcp-record=once", "-o", "filterwarnings=error")
    assert suite.cassettes() == before


@pytest.mark.slow
def test_calls_after_an_empty_recording_miss_or_are_recorded(suite: Suite) -> None:
    suite.test("def test_one(mcp_tape): pass\n")
    suite.run("--mcp-record=once")
    suite.test(one("a"))
    suite.run().assert_outcomes(failed=1)
    suite.passes("--mcp-record=once")
    assert said(suite.passes("-rP", "--mcp-record=once")) == ["['a 1']"]


@pytest.mark.slow
def test_every_command_reads_a_recording_of_nothing(suite: Suite) -> None:
    suite.test("def test_one(mcp_tape): pass\n")
    suite.run("--mcp-record=once")
    path = str(suite.path / PATH)
    for command in (
        ["ls"],
        ["show"],
        ["check"],
        ["convert", "--to", "txt"],
        ["stats"],
        ["convert"],
        ["replay"],
        ["diff", path],
    ):
        done = run([*MCP_TAPE, *command, path], b"")
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), (command, done.stderr)


# -- nothing is live by accident


@pytest.mark.parametrize("mode", ["new_episodes", "all", "rewrite"])
def test_blocked_live_servers_are_not_started(recorded: Suite, mode: str) -> None:
    before = recorded.cassettes()
    result = recorded.run("--mcp-block-live", f"--mcp-record={mode}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"live servers are blocked, and mode {mode} would talk to * for */test_one.db"])
    assert "Give the live server" not in result.stdout.str()
    assert (recorded.cassettes(), recorded.starts()) == (before, 1)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("mode", ["none", "once"])
def test_blocked_live_servers_do_not_stop_a_replay(recorded: Suite, mode: str) -> None:
    recorded.add("pytest.ini", "mcp_block_live = true\n")
    recorded.passes(f"--mcp-record={mode}")
    (recorded.path / PATH).unlink()
    recorded.run(f"--mcp-record={mode}").assert_outcomes(errors=1)
    recorded.passes("--mcp-record=once", "-o", "mcp_block_live=false")
