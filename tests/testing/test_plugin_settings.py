"""Precedence of settings in the pytest plugin, and its cost for suites without tapes."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from mcp_tape.testing.tape_settings import resolve
from tests.support.decks import make_cassette
from tests.support.messages import call, request, result
from tests.support.plugin import WITHOUT_OTHERS, Suite
from tests.support.running import WAIT, run

LAYERS = ["command line", "nearest mark", "farther mark", "mcp_tape_config", "ini", "default"]
OPTIONS = {
    "mode": ("--mcp-record", "mcp_record", ["all", "rewrite", "new_episodes", "all", "rewrite", "none"]),
    "unplayed": ("--mcp-unplayed", "mcp_unplayed", ["warn", "error", "warn", "error", "warn", "ignore"]),
    "format": ("--mcp-format", "mcp_tape_format", ["jsonl", "db", "jsonl", "db", "jsonl", "db"]),
    "dir": ("--mcp-tape-dir", "mcp_tape_dir", ["a", "b", "c", "d", "e", None]),
}


@pytest.mark.parametrize("firsts", [[0], [1, 2, 3, 4], [5]], ids=["command line", "ini", "nothing"])
@pytest.mark.slow
def test_the_first_source_of_a_setting_counts(suite: Suite, firsts: list[int]) -> None:
    """All options at once, because each configuration is slow to make; higher levels are silent."""
    if firsts != [5]:
        suite.add("pytest.ini", "".join(f"{ini} = {values[4]}\n" for _, ini, values in OPTIONS.values()))
    given = [f"{option}={values[0]}" for option, _, values in OPTIONS.values()]
    config = suite.config(*(given if firsts == [0] else []))
    for first in firsts:
        for name, (_, _, values) in OPTIONS.items():
            layers: list[dict[str, Any]] = [{name: value} if first <= n else {} for n, value in enumerate(values)]
            marks, configured = [layers[1], {"other": 1}, layers[2]], layers[3]
            assert resolve(name, config, marks, configured) == (values[first], LAYERS[first])


@pytest.mark.slow(quick=3)
@pytest.mark.parametrize("first", range(6), ids=LAYERS)
def test_a_test_has_the_mode_of_the_first_source_that_sets_one(suite: Suite, first: int) -> None:
    _, _, values = OPTIONS["mode"]
    mode = [f"mode={value!r}" if first <= n else "" for n, value in enumerate(values)]
    suite.add("pytest.ini", f"mcp_record = {values[4]}\n" if first <= 4 else "")
    suite.add("conftest.py", CONFIG.format(mode[3]))
    suite.test(
        f"pytestmark = pytest.mark.mcp_tape({mode[2]})\n"
        "@pytest.mark.filterwarnings('ignore:nothing was recorded')\n"
        f"@pytest.mark.mcp_tape({mode[1]})\n"
        f"def test_one(mcp_tape): assert mcp_tape.mode == {values[first]!r}\n"
    )
    path = suite.path / "cassettes" / "test_it" / "test_one.db"
    path.parent.mkdir(parents=True)
    before = make_cassette(path, [("client", call(1, "a")), ("server", result(1))]).read_bytes()
    suite.passes(*(["--mcp-record=all"] if first == 0 else []))
    assert suite.cassettes() == {"cassettes/test_it/test_one.db": before}


CONFIG = """
@pytest.fixture(scope="session")
def mcp_tape_config():
    return dict(server=SERVER, {})
"""


@pytest.mark.parametrize("scope", ["function", "class", "module", "session"])
def test_the_config_fixture_may_have_any_scope_and_be_overridden_anywhere(suite: Suite, scope: str) -> None:
    suite.write("conftest.py", "")
    suite.test(
        "@pytest.fixture(scope='module')\ndef mcp_tape_config(): return {'unplayed': 'error'}\n"
        "class TestIt:\n"
        f"    @pytest.fixture(scope={scope!r})\n    def mcp_tape_config(self): return {{'session': 1}}\n"
        "    def test_one(self, mcp_tape): pass\n"
        "def test_two(mcp_tape): pass\n"
    )
    for name in ("TestIt.test_one", "test_two"):
        path = suite.path / "cassettes" / "test_it" / f"{name}.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        make_cassette(path, [("client", call(1, "a")), ("server", result(1))])
    suite.run().assert_outcomes(passed=1, failed=1)


@pytest.mark.slow
def test_a_nearer_live_server_replaces_those_of_farther_sources(suite: Suite) -> None:
    suite.test(
        "pytestmark = pytest.mark.mcp_tape(url='http://127.0.0.1:9/mcp', mode='once')\n"
        "from conftest import SERVER\n"
        "@pytest.mark.mcp_tape(server=SERVER)\n"
        "def test_one(mcp_tape): assert ask(mcp_tape, 'a') == ['a 1']\n"
    )
    suite.passes()
    assert suite.starts() == 1


def test_the_header_shows_the_settings_their_sources_and_the_precedence(suite: Suite) -> None:
    suite.test("def test_one(): pass\n")
    order = "the first counts: command line, nearest mark, farther marks, mcp_tape_config, ini, default"
    suite.passes().stdout.fnmatch_lines([f"mcp-tape: record none (default); {order}"])
    suite.add("pytest.ini", "mcp_unplayed = warn\nmcp_block_live = true\nmcp_tape_dir = tapes\n")
    rest = "block live (ini), tapes in tapes (ini)"
    suite.passes("--mcp-record=once").stdout.fnmatch_lines(
        [f"mcp-tape: record once (command line), unplayed warn (ini), inexact ignore (default), {rest}; {order}"]
    )


def test_markers_and_options_are_documented_in_pytest(suite: Suite) -> None:
    suite.run("--markers").stdout.fnmatch_lines(["@pytest.mark.mcp_tape(name=None, *): use a cassette;*"])
    suite.run("--fixtures", "-v").stdout.fnmatch_lines_random(
        ["mcp_tape_config [[]session scope[]] *", "mcp_tape_factory [[]session scope[]] *", "mcp_tape -- *"]
    )
    shown = suite.run("--help").stdout.str()
    for name in ("record", "block-live", "unplayed", "tape-dir", "orphans"):
        assert f"--mcp-{name}" in shown
        assert f"mcp_{name.replace('-', '_')}" in shown


# -- cost

LOADED = """
import sys, pytest
code = pytest.main(sys.argv[1:])
print(code.value, *sorted(sys.modules), file=sys.stderr)
"""


def modules_of_a_run(suite: Suite, *options: str) -> set[str]:
    done = run(
        [sys.executable, "-c", LOADED, *WITHOUT_OTHERS, "-pno:xdist", "--collect-only", *options], cwd=suite.path
    )
    code, *modules = done.stderr.decode().splitlines()[-1].split()
    assert code == "5", done.stdout  # no tests were collected
    return set(modules)


@pytest.mark.slow
def test_a_run_without_tapes_loads_little_of_mcp_tape(suite: Suite) -> None:
    (suite.path / "conftest.py").unlink()
    without = modules_of_a_run(suite, "-p", "no:mcp_tape")
    assert not {name for name in without if name.startswith("mcp_tape")}
    assert modules_of_a_run(suite) - without == {
        *("mcp_tape", "mcp_tape.pytest_plugin", "mcp_tape.options", "mcp_tape.light")
    }


@pytest.mark.slow
def test_options_alone_load_nothing_heavy(suite: Suite) -> None:
    (suite.path / "conftest.py").unlink()
    suite.add("pytest.ini", "mcp_record = none\n")
    loaded = modules_of_a_run(suite)
    assert "mcp_tape.testing.plugin" in loaded  # it prints the settings
    assert not {"sqlite3", "orjson", "mcp_tape.testing.use", "mcp_tape.api"} & loaded


# -- with other plugins

BESIDE = """
import socket, urllib.request
import mcp

pytestmark = pytest.mark.mcp_tape("tape", mode="none")

@pytest.mark.vcr
@pytest.mark.block_network
def test_recording(mcp_tape, record_mode):
    with urllib.request.urlopen("http://example.org/") as page:
        assert page.read() == b"taped"
    assert record_mode == "none"
    assert ask(mcp_tape, "a") == ["ok"]
    with pytest.raises(RuntimeError, match="Network is disabled"):
        socket.create_connection(("127.0.0.1", 9))

@pytest.mark.asyncio
async def test_asyncio(mcp_tape):
    async with mcp.Client(mcp_tape.streams()) as client:
        assert (await client.list_tools()).tools == []

@pytest.mark.anyio
async def test_anyio(mcp_tape, anyio_backend):
    async with mcp.Client(mcp_tape.streams()) as client:
        assert (await client.list_tools()).tools == []

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
YAML = """
interactions:
- request: {body: null, headers: {}, method: GET, uri: "http://example.org/"}
  response: {body: {string: taped}, headers: {}, status: {code: 200, message: OK}}
version: 1
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}


@pytest.mark.slow
def test_pytest_recording_and_plugins_for_async_tests_work_beside_it(suite: Suite) -> None:
    said = [
        [("client", request(0, "initialize")), ("server", answer(0, value=0, **HELLO))],
        [("client", request(1, "tools/list")), ("server", answer(1, tools=[]))],
        [("client", call(2, "a")), ("server", result(2))],
    ]
    suite.write("cassettes/test_it/test_recording.yaml", YAML)
    make_cassette(suite.path / "cassettes" / "tape.db", [item for pair in said for item in pair])
    suite.test(BESIDE)
    before = suite.cassettes()
    options = ["--record-mode=none", "--mcp-record=once", "-oasyncio_default_fixture_loop_scope=function"]
    run_of_all = suite.pytester.runpytest_subprocess(*options, timeout=WAIT)
    run_of_all.assert_outcomes(passed=3)
    assert suite.cassettes() == before


def answer(rpc_id: int, **value: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": value})
