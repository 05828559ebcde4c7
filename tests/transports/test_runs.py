"""Clients that start the command for every call: one program's connections are one run, recorded and replayed
together."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import textwrap
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import modes
from mcp_tape.cassette.lookup.playable_sessions import RecordedRun
from mcp_tape.cassette.reader import Cassette
from mcp_tape.replay.stage import ReplayOptions, Stage
from mcp_tape.system import posix_calls
from mcp_tape.transports import runs
from mcp_tape.wire.frames import KILLED
from tests.support.decks import Said, Visit, make_cassette
from tests.support.live import DISCOVER, INITIALIZE, INITIALIZED, META, modern
from tests.support.messages import call, lines, request, result
from tests.support.running import MCP_TAPE, WAIT, python, receive_line, run, sessions, started

# Stores its arguments in a file, like a server with a memory: each process knows those of earlier ones.
MEMORY = """
import json, pathlib, sys
kept = pathlib.Path(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    name = message.get("params", {}).get("name")
    known = kept.read_text().split() if kept.exists() else []
    if name and name.startswith("add-"):
        kept.write_text(" ".join([*known, name[4:]]))
    value = known if name == "read" else message["method"]
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"value": value}}), flush=True)
"""
# A program that connects again for each call, as some agents do.
AGENT = f"""
import json, subprocess, sys
for command, lines in json.loads(sys.argv[1]):
    text = "".join(line + "\\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout={WAIT})
    print(json.dumps([done.stdout.splitlines()[-1:], done.stderr]), flush=True)
"""
HELLO = [INITIALIZE, INITIALIZED]
STORY = [[*HELLO, call(n, name)] for n, name in enumerate(["add-Ann", "read", "add-Bob", "read"], 1)]


class Agent:
    """That program with one cassette; each `run` is a separate process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tape = directory / "tape.db"
        self.said = ""

    def command(self, mode: str, *options: str) -> list[str]:
        server = [*python(MEMORY), str(self.directory / "memory")]
        return [*MCP_TAPE, "use", str(self.tape), "--mode", mode, *options, "--", *server]

    def run(self, command: list[str], calls: list[list[str]] = STORY, name: str | None = None) -> list[Any]:
        """The last answer of each connection."""
        return self.connect([(command, texts) for texts in calls], name)

    def connect(self, connections: list[tuple[list[str], list[str]]], name: str | None = None) -> list[Any]:
        done = run([*python(AGENT), json.dumps(connections)], env=environment(name))
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.said = "".join(said for _, said in rows)
        assert len(rows) == len(connections), done.stderr
        return [json.loads(answer)["result"]["value"] for (answer,), _ in rows]


def environment(name: str | None = None) -> dict[str, str]:
    """Our environment, with another run name, or without one."""
    others = {variable: value for variable, value in os.environ.items() if variable != runs.VARIABLE}
    return others | ({} if name is None else {runs.VARIABLE: name})


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


LIVE = ["tools/call", ["Ann"], "tools/call", ["Ann", "Bob"]]


@pytest.mark.slow
def test_once_records_all_that_one_process_starts_and_then_replays_it_in_order(agent: Agent) -> None:
    assert agent.run(agent.command("once")) == LIVE
    assert "this run records" in agent.said
    before = agent.tape.read_bytes()
    assert agent.run(agent.command("once")) == LIVE
    assert agent.run([*MCP_TAPE, "replay", str(agent.tape)]) == LIVE
    assert agent.tape.read_bytes() == before
    assert len({session.run for session in sessions(agent.tape)}) == 1


@pytest.mark.slow
def test_rewrite_replaces_a_cassette_once_in_a_run(agent: Agent) -> None:
    make_cassette(agent.tape, [("client", call(1, "old")), ("server", result(1))])
    assert agent.run(agent.command("rewrite")) == LIVE
    assert len(sessions(agent.tape)) == 4
    assert agent.run(agent.command("none")) == LIVE


@pytest.mark.slow
def test_rewrite_keeps_all_connections_of_a_run_that_overlap(agent: Agent) -> None:
    make_cassette(agent.tape, [("client", call(1, "old")), ("server", result(1))])
    with started(agent.command("rewrite"), env=environment("r")) as slow:
        assert slow.stdin and slow.stdout
        slow.stdin.write(lines(*STORY[0]))
        assert [json.loads(receive_line(slow.stdout))["id"] for _ in range(2)] == [0, 1]
        agent.run(agent.command("rewrite"), STORY[1:2], "r")
        slow.stdin.close()
        assert slow.wait(WAIT) == 0
    assert [session.run for session in sessions(agent.tape)] == ["r", "r"]
    assert agent.run(agent.command("none"), STORY[:2]) == LIVE[:2]


@pytest.mark.slow
def test_a_run_may_be_named_where_processes_do_not_tell(agent: Agent) -> None:
    """Two programs of one build, one after the other."""
    assert agent.run(agent.command("once"), STORY[:2], "build-7") == LIVE[:2]
    assert agent.run(agent.command("once"), STORY[2:], "build-7") == LIVE[2:]
    named = [*MCP_TAPE, "replay", str(agent.tape), "--run", "build-8"]
    assert agent.run(named, STORY[:3]) + agent.run(named, STORY[3:]) == LIVE


@pytest.mark.slow
def test_an_empty_name_is_no_run(agent: Agent) -> None:
    agent.run(agent.command("once"), STORY[:1], "")
    assert sessions(agent.tape)[0].run is None
    agent.run(agent.command("once", "--run", ""), STORY[:1])
    assert len(sessions(agent.tape)) == 1


@pytest.mark.slow
def test_commands_of_a_shell_are_no_run(agent: Agent, tmp_path: Path) -> None:
    script = tmp_path / "twice.sh"
    script.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        echo '{request(1, "tools/list")}' | "$@"
        echo '{request(1, "tools/list")}' | "$@"
    """)
    )
    script.chmod(0o755)
    assert run([str(script), *agent.command("once")], env=environment()).returncode == 0
    assert [session.run for session in sessions(agent.tape)] == [None]


@pytest.mark.slow
def test_a_run_that_was_replayed_records_no_more(agent: Agent) -> None:
    once, none = agent.command("once"), agent.command("none")
    said = agent.connect([(once, STORY[0]), (once, STORY[1]), (none, STORY[0]), (once, STORY[1])])
    assert said == ["tools/call", ["Ann"], "tools/call", ["Ann"]]
    assert len(sessions(agent.tape)) == 2


# Without a process -------------------------------------------------------------------------------------


@pytest.fixture
def counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private place for counts: another run of these tests may use the same path elsewhere."""
    monkeypatch.setattr(posix_calls, "PLACES", (str(tmp_path),))
    return tmp_path / f"mcp-tape-{os.getuid()}"


def in_one_run(directory: Path, *conversations: list[Said]) -> Path:
    return make_cassette(directory / "tape.db", *conversations, run="r")


def answered(value: str) -> list[Said]:
    return [("client", INITIALIZE), ("server", result(0)), ("client", call(1, "read")), ("server", result(1, value))]


def turns(path: Path, name: str = "live") -> Any:
    return lambda recorded: runs.Turns(str(path), name, recorded, print)


@pytest.mark.usefixtures("counts")
def test_each_connection_plays_its_own_session_and_a_process_may_do_it_all_again(tmp_path: Path) -> None:
    path = in_one_run(tmp_path, answered("first"), answered("second"))
    visits = [Visit(path, clients=turns(path)) for _ in range(4)]
    for visit in visits:
        visit.say(INITIALIZE)
    assert [visit.say(call(5, "read")) for visit in visits] == ["first", "second", "first", "second"]
    other = Visit(path, clients=turns(path, "another run"))
    other.say(INITIALIZE)
    assert other.say(call(5, "read")) == "first"


@pytest.mark.usefixtures("counts")
def test_one_that_only_probes_has_no_number(tmp_path: Path) -> None:
    def told(value: str) -> list[Said]:
        return [("client", DISCOVER), ("server", result("d")), ("client", modern(1, "a")), ("server", result(1, value))]

    path = in_one_run(tmp_path, told("first"), told("second"))
    probe, first, second = (Visit(path, clients=turns(path)) for _ in range(3))
    for visit in (probe, second, first):  # all send a probe before any continues
        visit.say(request("p", "server/discover", _meta=META))
    assert [visit.say(modern(1, "a")) for visit in (first, second)] == ["first", "second"]


@pytest.mark.usefixtures("counts")
def test_a_note_says_that_a_run_has_more_connections_than_were_recorded(tmp_path: Path) -> None:
    path = in_one_run(tmp_path, answered("first"), answered("second"))
    said: list[str] = []
    for _ in range(3):
        assert not said
        with Cassette(path) as cassette:
            stage = Stage(cassette, ReplayOptions(), said.append, clients=turns(path, "more"))
            stage.player()[0].receive(INITIALIZE.encode(), "stdio", 0.0)
    assert said == ["note: connection 3 of a run of which 2 are recorded: it starts over"]


@pytest.mark.usefixtures("counts")
def test_requests_of_other_connections_are_not_unplayed(tmp_path: Path) -> None:
    path = in_one_run(tmp_path, answered("first"), answered("second"))
    for script, code in (([INITIALIZE, call(5, "read")], 0), ([INITIALIZE], 1), ([], 1)):
        with Cassette(path) as cassette:
            stage = Stage(cassette, ReplayOptions(strict=True), print, clients=turns(path, str(script)))
            player, _ = stage.player()
            for text in script:
                player.receive(text.encode(), "stdio", 0.0)
            played = stage.finish(None)
        assert (played.unplayed, played.code) == (2 - len(script), code)


def test_a_run_of_which_one_session_was_cut_short_is_no_recording_for_once(tmp_path: Path) -> None:
    path = in_one_run(tmp_path, answered("first"), answered("second"))
    said: list[str] = []
    assert modes.is_whole(str(path), said.append) and not said
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sessions SET incomplete = ? WHERE id = 2", (KILLED,))
    assert not modes.is_whole(str(path), said.append)
    assert "was cut short" in said[0]


@pytest.mark.usefixtures("counts")
def test_requests_missing_in_its_own_session_play_from_the_others_of_the_run(tmp_path: Path) -> None:
    more: list[Said] = [("client", call(2, "more")), ("server", result(2, "more"))]
    path = in_one_run(tmp_path, answered("first"), answered("second") + more)
    visit = Visit(path, clients=turns(path))
    visit.say(INITIALIZE)
    assert visit.say(call(2, "more")) == "more"


def test_without_a_count_the_newest_session_plays_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setattr(posix_calls, "PLACES", (str(blocked),))
    path, notes = in_one_run(tmp_path, answered("first"), answered("second")), []
    visit = Visit(path, clients=lambda recorded: runs.Turns(str(path), "live", recorded, notes.append))
    visit.say(INITIALIZE)
    assert visit.say(call(5, "read")) == "second"
    assert [note.partition(" (")[0] for note in notes] == ["cannot count the connections of this run"]
    assert not runs.Turns(str(path), "live", RecordedRun("r", "", [1, 2]), notes.append).has_begun


def test_a_directory_that_others_may_write_to_is_not_counted_in(counts: Path) -> None:
    counts.mkdir(mode=0o700)
    counts.chmod(0o777)
    notes: list[str] = []
    assert runs.Turns("tape.db", "live", RecordedRun("r", "", [1, 2]), notes.append).take() is None
    assert "not a directory of yours alone" in notes[0]


def test_old_counts_are_taken_away(counts: Path) -> None:
    first, second = (runs.Turns("tape.db", name, RecordedRun("r", "", [1, 2]), print) for name in ("one", "two"))
    assert (first.take(), first.take(), first.peek()) == (0, 1, 2)
    (counted,) = counts.iterdir()
    os.utime(counted, (0, 0))
    second.take()
    assert [first.has_begun, second.has_begun] == [False, True]


def test_a_process_is_known_by_more_than_its_number() -> None:
    found = posix_calls.look_at(os.getpid())
    assert found is not None
    assert (found.parent, found.program.startswith("python")) == (os.getppid(), True)
    assert posix_calls.look_at(2**22 + 1) is None  # beyond any process id


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="needs ps")
def test_a_system_without_proc_tells_by_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posix_calls, "HAS_PROC", False)
    found = posix_calls.look_at(os.getpid())
    assert found is not None
    assert (found.parent, found.program.startswith("py")) == (os.getppid(), True)
    assert found.began
