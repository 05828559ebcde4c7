"""The tape of several servers: marks and `use_cassette` with `servers`, in all modes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import TapeError, UsedCassette, use_cassette
from mcp_tape.errors import ServerError
from tests.support.live import Client, hanging_up, modern, serving
from tests.support.messages import call, lines
from tests.support.plugin import Suite
from tests.support.running import python, run, sessions
from tests.support.using import HELLO

# Answers with its name, the number of its starts, and its arguments.
SERVER = """
import json, os, sys
name = sys.argv[1]
with open(sys.argv[2], "a+") as log:
    log.write(name + "\\n")
    log.seek(0)
    start = log.read().split().count(name)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        tool = message.get("params", {}).get("name")
        answer = {"value": f"{name} {tool} {start}", "token": os.environ.get("ACME_TOKEN")}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"""


class Place:
    """A cassette, and live servers that answer with their names."""

    def __init__(self, directory: Path) -> None:
        self.tape = directory / "tape.db"
        self.log = directory / "starts"

    def server(self, name: str) -> list[str]:
        return [*python(SERVER), name, str(self.log)]

    def use(self, mode: Any = "once", *names: str, **options: Any) -> UsedCassette:
        return use_cassette(self.tape, mode, servers={name: self.server(name) for name in names}, **options)

    def starts(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    def labels(self) -> list[str | None]:
        return sorted((session.label for session in sessions(self.tape)), key=str)


def ask(tape: UsedCassette, *tools: str, **more: Any) -> list[Any]:
    """Answers to calls, or the codes of errors."""
    done = run(tape.command, HELLO + lines(*(call(n, tool) for n, tool in enumerate(tools, 1))), **more)
    answers = {body["id"]: body for body in map(json.loads, done.stdout.splitlines())}
    return [
        answers[n]["result"]["value"] if "result" in answers[n] else answers[n]["error"]["code"]
        for n in range(1, len(tools) + 1)
    ]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def recorded(place: Place) -> Place:
    with place.use("once", "git", "time") as tape:
        ask(tape["git"], "a")
        ask(tape["time"], "b")
    return place


@pytest.mark.slow
def test_each_server_is_recorded_and_replayed_by_its_name(recorded: Place) -> None:
    before = recorded.starts()
    with recorded.use("none", "git", "time") as tape:
        assert ask(tape["time"], "b") + ask(tape["git"], "a") == ["time b 1", "git a 1"]
        assert tape.all_played and not tape.misses and tape.play_count == 4
    assert recorded.starts() == before == ["git", "time"]
    assert recorded.labels() == ["git", "time"]


@pytest.mark.slow
def test_calls_are_in_order_and_say_their_server(recorded: Place) -> None:
    for mode in ("none", "all", "new_episodes"):
        with recorded.use(mode, "git", "time") as tape:
            ask(tape["time"], "b")
            ask(tape["git"], "a")
            ask(tape["time"], "b")
        assert [made.server for made in tape.calls("tools/call")] == ["time", "git", "time"]
        assert [made.name for made in tape["git"].calls("tools/call")] == ["a"]


@pytest.mark.slow
def test_once_records_a_server_that_is_new_and_plays_the_others(recorded: Place) -> None:
    with recorded.use("once", "git", "time", "web") as tape:
        assert [name for name, door in tape.servers.items() if door.is_recording] == ["web"]
        assert ask(tape["git"], "a") + ask(tape["web"], "c") + ask(tape["time"], "b") == [
            "git a 1",
            "web c 1",
            "time b 1",
        ]
        assert [made.server for made in tape.calls("tools/call")] == ["git", "web", "time"]
    assert recorded.starts() == ["git", "time", "web"]
    with recorded.use("none", "git", "time", "web") as tape:
        assert ask(tape["web"], "c") == ["web c 1"]


@pytest.mark.slow
def test_misses_of_playing_servers_count_while_another_is_recorded(recorded: Place) -> None:
    with recorded.use("once", "git", "web") as tape:
        ask(tape["web"], "c")
        assert ask(tape["git"], "other") == [-32010]
        assert [miss.title for miss in tape.misses] == ["git: tools/call other"]


@pytest.mark.slow
def test_rewrite_replaces_the_file_once_and_only_if_all_went_well(recorded: Place) -> None:
    before = recorded.tape.read_bytes()
    failed = recorded.use("rewrite", "git", "time")
    ask(failed["git"], "a")
    failed.finish(keep=False)
    assert recorded.tape.read_bytes() == before
    with recorded.use("rewrite", "git", "time") as tape:
        ask(tape["git"], "a")
        ask(tape["time"], "b")
        assert recorded.tape.read_bytes() == before
    with recorded.use("none", "git", "time") as tape:
        assert ask(tape["git"], "a") + ask(tape["time"], "b") == ["git a 3", "time b 2"]
    assert recorded.labels() == ["git", "time"]


@pytest.mark.slow
def test_rewrite_leaves_out_servers_that_are_no_longer_given(recorded: Place) -> None:
    with recorded.use("rewrite", "git") as tape:
        ask(tape["git"], "a")
    assert recorded.labels() == ["git"]


@pytest.mark.slow
def test_new_episodes_add_to_the_server_that_misses(recorded: Place) -> None:
    with recorded.use("new_episodes", "git", "time", "web") as tape:
        assert ask(tape["git"], "a", "new") == ["git a 1", "git new 2"]
        assert ask(tape["time"], "b") == ["time b 1"]
        assert ask(tape["web"], "c") == ["web c 1"]
    assert recorded.labels() == ["git", "git", "time", "web"]
    assert tape.grew == 1
    with recorded.use("none", "git", "time", "web") as tape:
        assert ask(tape["git"], "a", "new") == ["git a 1", "git new 2"]


@pytest.mark.slow
def test_a_server_without_calls_can_be_replayed(place: Place) -> None:
    with place.use("once", "git", "time") as tape:
        ask(tape["git"], "a")
    with place.use("none", "git", "time") as tape:
        assert ask(tape["git"], "a") == ["git a 1"]
        assert ask(tape["time"], "b") == [-32601]
    with place.use("once", "git", "time") as tape:  # new requests are recorded
        assert ask(tape["time"], "b") == ["time b 1"]
    with place.use("none", "git", "time") as tape:
        assert ask(tape["time"], "b") == ["time b 1"]


def test_a_recording_of_nothing_is_one_of_all_servers(place: Place) -> None:
    with place.use("once", "git", "time") as tape:
        pass
    assert tape.is_of_nothing
    with place.use("none", "git", "time") as tape:
        assert not tape.calls() and tape.all_played


@pytest.mark.slow
def test_a_server_that_is_not_on_the_tape_is_reported(recorded: Place) -> None:
    with pytest.raises(TapeError, match="nothing of the server 'web' to play"):
        recorded.use("none", "git", "web")
    with pytest.raises(TapeError, match="live servers are blocked, and mode once would talk to"):
        recorded.use("once", "git", "web", block_live=True)


@pytest.mark.slow
def test_all_that_miss_are_in_one_report(recorded: Place) -> None:
    with recorded.use("none", "git", "time") as tape:
        ask(tape["time"], "x")
        ask(tape["git"], "y")
        assert {(miss.call.server, miss.title) for miss in tape.misses} == {
            ("time", "time: tools/call x"),
            ("git", "git: tools/call y"),
        }
        tape.rewind()
        assert not tape.misses and {left.server for left in tape.unplayed} == {"git", "time"}


@pytest.mark.slow
def test_a_server_that_cannot_start_is_named_and_nothing_is_kept(place: Place) -> None:
    servers = {"git": place.server("git"), "bad": ["/no/such/server"]}
    tape = use_cassette(place.tape, servers=servers)
    ask(tape["git"], "a")
    run(tape["bad"].command, HELLO)
    with pytest.raises(ServerError, match="bad: cannot start the server: there is no command '/no/such/server'"):
        tape.finish(keep=True)
    assert not place.tape.exists() and list(place.tape.parent.glob(".*")) == []


@pytest.mark.slow
def test_the_same_command_under_two_names_is_two_servers(place: Place) -> None:
    servers = {"a": place.server("git"), "b": place.server("git")}
    with use_cassette(place.tape, servers=servers) as tape:
        assert ask(tape["a"], "x") + ask(tape["b"], "x") == ["git x 1", "git x 2"]
    with use_cassette(place.tape, "none", servers=servers) as tape:
        assert ask(tape["b"], "x") + ask(tape["a"], "x") == ["git x 2", "git x 1"]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("name", ["-x", "a b/c", 'it\'s "so"', "Zoë 👩‍💻", "${HOME}"])
def test_names_may_hold_odd_characters(place: Place, name: str) -> None:
    servers = {name: place.server("git"), "other": place.server("time")}
    with use_cassette(place.tape, servers=servers) as tape:
        assert ask(tape[name], "x") == ["git x 1"]
    with use_cassette(place.tape, "none", servers=servers) as tape:
        assert ask(tape[name], "x") == ["git x 1"]
        assert tape.config()["mcpServers"].keys() == servers.keys()


@pytest.mark.slow
def test_clients_that_connect_several_times_find_each_session_in_turn(place: Place) -> None:
    with place.use("once", "git", "time") as tape:
        for tool in ("a", "b"):
            ask(tape["git"], tool)
            ask(tape["time"], tool)
    with place.use("none", "git", "time") as tape:
        assert ask(tape["git"], "a") + ask(tape["git"], "b") == ["git a 1", "git b 2"]
        assert ask(tape["time"], "a") + ask(tape["time"], "b") == ["time a 1", "time b 2"]


@pytest.mark.slow
def test_a_tape_of_several_has_no_door_of_its_own(recorded: Place) -> None:
    with recorded.use("none", "git", "time") as tape:
        for connect in ("command", "url", "server_params"):
            with pytest.raises(TapeError, match=r"has several servers: say which, as in tape\['git'\]"):
                getattr(tape, connect)
        with pytest.raises(TapeError, match=r"tape\['git'\].on"):
            tape.on("tools/call")
        with pytest.raises(TapeError, match="has no server 'gti'; it has 'git', 'time'"):
            tape["gti"]
        with pytest.raises(TapeError, match="choose one of mcpServers, servers"):
            tape.config("claude")


@pytest.mark.slow
def test_a_tape_of_one_server_has_no_names(recorded: Place) -> None:
    with use_cassette(recorded.tape, "none", session=1) as tape:
        assert tape.servers == {} and tape.calls() == []
        with pytest.raises(TapeError, match="it was not given servers"):
            tape["git"]
        with pytest.raises(TapeError, match="has no configuration"):
            tape.config()


@pytest.mark.slow
def test_a_function_answers_for_one_server(recorded: Place) -> None:
    with recorded.use("none", "git", "time") as tape:
        tape["git"].on("tools/call", tool="b")(lambda **arguments: {"content": [], "value": "a function"})
        assert ask(tape["git"], "b") + ask(tape["time"], "b") == ["a function", "time b 1"]


def test_servers_and_a_server_do_not_go_together(place: Place) -> None:
    with pytest.raises(TapeError, match="either servers or command"):
        place.use("once", "git", command=["server"])


@pytest.mark.slow
def test_the_environment_of_each_server(place: Place) -> None:
    git = {"command": place.server("git"), "env": {"ACME_TOKEN": "t0ken-of-git", "PLACE": "here"}}
    with use_cassette(place.tape, servers={"git": git, "time": place.server("time")}) as tape:
        few = {"PATH": os.environ["PATH"]}
        for name in ("git", "time"):
            ask(tape[name], "a", env=few)
        tokens = {made.server: made.result["token"] for made in tape.calls("tools/call")}
    assert tokens == {"git": "[redacted:key:token]", "time": None}
    assert b"t0ken-of-git" not in place.tape.read_bytes()


@pytest.mark.slow
def test_a_configuration_replaces_every_server(recorded: Place) -> None:
    with recorded.use("none", "git", "time") as tape:
        for key, kind in (("mcpServers", "transport"), ("servers", "type")):
            entries = tape.config(key)[key]
            assert entries.keys() == {"git", "time"}
            assert entries["git"] == {
                kind: "stdio", "command": tape["git"].command[0], "args": tape["git"].command[1:],
            }  # fmt: skip
        json.dumps(tape.config())


HEADERS = {"Authorization": "Bearer t0ken-of-the-web", "X-Input": "${input:what}"}


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("mode", ["all", "new_episodes"])
@pytest.mark.usefixtures("forked_recorders")
def test_a_command_and_a_url_are_recorded_together(place: Place, mode: Any) -> None:
    with serving() as live:
        servers = {"git": place.server("git"), "web": {"url": live.url, "headers": HEADERS, "type": "http"}}
        with use_cassette(place.tape, mode, servers=servers) as tape:
            assert ask(tape["git"], "a") == ["git a 1"]
            entry = tape.config()["mcpServers"]["web"]
            assert entry == {"type": "http", "url": tape["web"].url, "headers": HEADERS}  # for the client
            assert Client(tape["web"].url).ask(modern(1, "b")) == ["b", 1]
        assert [made.server for made in tape.calls("tools/call")] == ["git", "web"]
        assert [heard["headers"]["authorization"] for heard in live.heard] == ["Bearer t0ken-of-the-web"]
        assert not any("x-input" in heard["headers"] for heard in live.heard)
    assert b"t0ken-of-the-web" not in place.tape.read_bytes()
    with use_cassette(place.tape, "none", servers=servers) as tape:
        assert ask(tape["git"], "a") == ["git a 1"] and Client(tape["web"].url).ask(modern(1, "b")) == ["b", 1]
        assert tape.config("servers")["servers"]["web"] == {"type": "http", "url": tape["web"].url}
        assert tape.all_played


@pytest.mark.usefixtures("forked_recorders")
@pytest.mark.slow
def test_a_url_that_cannot_be_reached_leaves_no_cassette(place: Place) -> None:
    with hanging_up() as url:
        tape = use_cassette(place.tape, servers={"git": place.server("git"), "web": url})
        ask(tape["git"], "a")
        with Client(tape["web"].url).send("POST", call(1)) as response:
            assert response.status >= 500
        with pytest.raises(ServerError, match="was not reached"):
            tape.finish(keep=True)
    assert not place.tape.exists()


# In pytest ----------------------------------------------------------------------------------------------

TESTS = """
import pathlib, sys
HERE = pathlib.Path(__file__).parent
S = {{name: [sys.executable, "-c", {server!r}, name, str(HERE / "starts")] for name in ("git", "time")}}
pytestmark = pytest.mark.mcp_tape(servers=S)

def test_both(mcp_tape):
    assert ask(mcp_tape["git"], "a")[0].startswith("git a")
    assert ask(mcp_tape["time"], "b")[0].startswith("time b")
    assert [call.server for call in mcp_tape.calls("tools/call")] == ["git", "time"]

def test_one(mcp_tape):
    assert ask(mcp_tape["time"], "b")[0].startswith("time b")

@pytest.mark.mcp_tape("shared")
@pytest.mark.parametrize("name", ["git", "time"])
def test_shared(mcp_tape, name):
    assert ask(mcp_tape[name], "c")[0].startswith(f"{{name}} c")

def test_missing(mcp_tape):
    import os
    tool = os.environ.get("TOOL", "a")
    ask(mcp_tape["git"], tool)
    ask(mcp_tape["time"], tool)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    suite = Suite(pytester)
    suite.test(TESTS.format(server=SERVER))
    return suite


MODES = ["once", "rewrite", "all", "new_episodes"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", [(), ("-n2", "--dist=loadfile"), ("-prandom_order_of_tests",)])
def test_a_suite_is_recorded_and_replayed(suite: Suite, mode: str, options: tuple[str, ...]) -> None:
    suite.write("random_order_of_tests.py", "def pytest_collection_modifyitems(items): items.reverse()\n")
    suite.pytester.syspathinsert()
    suite.run_apart(f"--mcp-record={mode}", *options).assert_outcomes(passed=5)
    names = ["shared.db", "test_it/test_both.db", "test_it/test_missing.db", "test_it/test_one.db"]
    assert sorted(suite.cassettes()) == [f"cassettes/{name}" for name in names]
    before = suite.cassettes()
    suite.run_apart("-n2", "--mcp-block-live").assert_outcomes(passed=5)
    suite.run_apart(f"--mcp-record={mode}", *options).assert_outcomes(passed=5)
    assert (suite.cassettes() == before) == (mode in ("once", "new_episodes"))


@pytest.mark.slow
def test_both_doors_missing_at_once_fail_a_test_with_one_report(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.passes("--mcp-record=once", "-k", "missing", passed=1)
    monkeypatch.setenv("TOOL", "other")
    result = suite.run("-k", "missing")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*2 calls missed: git: tools/call other, time: tools/call other*"])
    result.stdout.fnmatch_lines(["*pytest test_it.py::test_missing --mcp-record=new_episodes*"])


@pytest.mark.slow
def test_misses_of_a_shared_tape_are_reported_once_and_by_the_test_that_made_them(suite: Suite) -> None:
    suite.write("test_it.py", "")
    suite.add("conftest.py", TESTS.format(server=SERVER).split("pytestmark")[0])
    suite.add("conftest.py", "\n@pytest.fixture(scope='session')\ndef tape(mcp_tape_factory):\n"
              "    return mcp_tape_factory('made', servers=S)\n")  # fmt: skip
    tests = "def test_{0}(tape):\n    import os\n    ask(tape['{1}'], os.environ.get('{0}', 'a'))\n\n"
    suite.test("".join(tests.format(*pair) for pair in (("first", "time"), ("second", "git"), ("third", "time"))))
    suite.passes("--mcp-record=once", passed=3)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("first", "second", "third"):
            patch.setenv(name, f"of-{name}")
        result = suite.run("-rf")
    result.assert_outcomes(failed=3)
    missed = [line for line in result.outlines if line.startswith("1 call missed")]
    assert missed == [
        f"1 call missed: {server}: tools/call of-{name}"
        for name, server in (("first", "time"), ("second", "git"), ("third", "time"))
    ]


def test_a_server_that_was_never_recorded_says_how(suite: Suite) -> None:
    result = suite.run("-k", "one")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*has nothing of the server 'git' to play*", "To record it: *::test_one --mcp-record=once"]
    )
