"""Servers by name on one cassette: `--server` of record, replay and use."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from mcp_tape import Cassette
from tests.support.messages import call, lines
from tests.support.running import MCP_TAPE, python, record, run, sessions
from tests.support.vcr import HELLO, Vcr

ASKED = HELLO + lines(call(1, "a"))
ODD = ["-x", "a b", "it's", '"', "Zoë 👩‍💻", "../../etc", "%s{}$HOME", "--", "x" * 300]
SAYS = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"value": sys.argv[1]}}), flush=True)
"""


def says(name: str) -> list[str]:
    return [*python(SAYS), name]


def use(tape: Path, mode: str, name: str, *options: str) -> Any:
    """A server's answer to a call, by its name, and the command's exit."""
    command = [*MCP_TAPE, "use", str(tape), "--mode", mode, f"--server={name}", *options, "--", *says(name)]
    done = run(command, ASKED)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [answer["result"]["value"] for answer in answers if answer["id"] == 1], done.returncode


def replay(tape: Path, *options: str) -> Any:
    done = run([*MCP_TAPE, "replay", str(tape), *options], ASKED)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


@pytest.fixture
def two(tmp_path: Path) -> Path:
    tape = tmp_path / "two.db"
    for name in ("git", "time"):
        run(record(tape, says(name), "--server", name), ASKED)
    return tape


@pytest.mark.slow
def test_diff_and_verify_take_the_server_behind_the_file(two: Path, tmp_path: Path) -> None:
    same = run([*MCP_TAPE, "diff", f"{two}#git", f"{two}#git"])
    other = run([*MCP_TAPE, "diff", f"{two}#git", f"{two}#time"])
    assert (same.returncode, b"no changes" in same.stdout) == (0, True)
    assert b"call-" in other.stdout
    for name, code in ("time", 0), ("git", 1):
        done = run([*MCP_TAPE, "verify", f"{two}#{name}", "--allow-writes", "--fail-on", "info", "--", *says("time")])
        assert done.returncode == code, done.stderr
    missing = run([*MCP_TAPE, "diff", f"{two}#mail", f"{two}#git"])
    assert missing.returncode == 3 and b"it has: git, time" in missing.stderr


@pytest.mark.slow
def test_verify_keeps_the_label_of_updated_sessions(two: Path) -> None:
    verify = [*MCP_TAPE, "verify", f"{two}#time", "--allow-writes", "--fail-on", "never", "--update", "--"]
    assert run([*verify, *says("new")]).returncode == 0
    assert [session.label for session in sessions(two)] == ["git", "time"]
    assert replay(two, "--server", "time")[1][-1]["result"]["value"] == "new"


@pytest.mark.slow
def test_a_replay_answers_as_the_server_that_is_named(two: Path) -> None:
    for name in ("git", "time"):
        code, answers, _ = replay(two, "--server", name)
        assert (code, answers[-1]["result"]["value"]) == (0, name)
    assert [session.label for session in sessions(two)] == ["git", "time"]


@pytest.mark.slow
def test_a_replay_does_not_guess_which_server_is_meant(two: Path) -> None:
    code, answers, said = replay(two)
    assert (code, answers) == (3, [])
    assert "holds several servers: git, time; say which with --server NAME" in said
    assert replay(two, "--session", "all") == (code, answers, said), "nor does one of all sessions"


@pytest.mark.slow
def test_a_missing_server_is_reported_with_the_existing_ones(two: Path) -> None:
    code, _, said = replay(two, "--server", "gti")
    assert code == 3 and "no session of a server gti to play; it has: git, time" in said


@pytest.mark.slow
def test_a_session_of_another_server_is_not_there(two: Path) -> None:
    assert replay(two, "--server", "git", "--session", "1")[0] == 0
    code, _, said = replay(two, "--server", "git", "--session", "2")
    assert code == 3 and "does not hold session 2" in said


@pytest.mark.slow
def test_all_sessions_are_those_of_the_server(two: Path) -> None:
    assert replay(two, "--server", "git", "--session", "all")[1][-1]["result"]["value"] == "git"


@pytest.mark.slow
def test_a_miss_does_not_name_requests_of_other_servers(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    run(record(tape, says("git"), "--server", "git"), ASKED)
    run(record(tape, says("time"), "--server", "time"), HELLO)
    done = run([*MCP_TAPE, "replay", str(tape), "--server", "time"], ASKED)
    assert json.loads(done.stdout.splitlines()[-1])["error"]["code"] == -32601  # no call of it was recorded


@pytest.mark.slow
def test_once_records_the_server_that_is_new(two: Path) -> None:
    assert use(two, "once", "git") == (["git"], 0)
    assert use(two, "once", "web") == (["web"], 0)
    assert use(two, "none", "web") == (["web"], 0)
    assert [session.label for session in sessions(two)] == ["git", "time", "web"]


@pytest.mark.slow
def test_new_episodes_extend_the_session_of_the_same_server(two: Path) -> None:
    command = [*MCP_TAPE, "use", str(two), "--mode", "new_episodes", "--server", "git", "--", *says("git")]
    assert run(command, HELLO + lines(call(1, "new"))).returncode == 0
    added = sessions(two)[-1]
    assert (added.label, added.extends) == ("git", 1)


@pytest.mark.slow
def test_rewrite_keeps_the_sessions_of_other_servers(two: Path) -> None:
    before = sessions(two)[1]
    use(two, "rewrite", "git", "--new-times")
    use(two, "rewrite", "git", "--new-times")
    first, second = sorted(sessions(two), key=lambda session: session.label or "")
    assert (first.label, second.started_at) == ("git", before.started_at)
    assert first.started_at > before.started_at


@pytest.mark.slow
def test_servers_that_are_rewritten_at_once_do_not_lose_each_other(two: Path) -> None:
    names = ["git", "time", "web", "mail"]
    threads = [threading.Thread(target=use, args=(two, "rewrite", name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(session.label or "" for session in sessions(two)) == sorted(names)


@pytest.mark.slow
def test_the_connections_of_a_run_are_counted_for_each_server(vcr: Vcr) -> None:
    def ask(name: str, run_id: str, tool: str) -> Any:
        done = vcr.run("once", HELLO + lines(call(1, tool)), "--server", name, "--run", run_id)
        return json.loads(done.stdout.splitlines()[-1]).get("error") is None

    for run_id in ("recorded", "replayed"):
        assert ask("a", run_id, "first") and ask("b", run_id, "other")
        assert ask("a", run_id, "second") and ask("b", run_id, "another")
    assert [session.label for session in sessions(vcr.tape)] == ["a", "b", "a", "b"]


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("name", ODD)
def test_any_name_that_can_be_printed_is_one(tmp_path: Path, name: str) -> None:
    tape = tmp_path / "tape.db"
    use(tape, "once", "other")
    assert use(tape, "once", name) == ([name], 0)
    assert use(tape, "none", name) == ([name], 0)
    listed = run([*MCP_TAPE, "ls", "--json", str(tape)])
    assert [json.loads(line)["label"] for line in listed.stdout.splitlines()] == ["other", name]
    with Cassette(tape, name) as cassette:
        assert [session.label for session in cassette.sessions()] == [name]


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J"])
@pytest.mark.slow
def test_other_names_are_refused(two: Path, name: str) -> None:
    code, _, said = replay(two, f"--server={name}")
    assert code == 2 and "is not a server name" in said


@pytest.mark.slow
def test_the_name_is_shown(two: Path) -> None:
    listed = run([*MCP_TAPE, "ls", str(two)]).stdout.decode()
    assert "git: " in listed and "time: " in listed
    assert run([*MCP_TAPE, "show", str(two)]).stdout.decode().startswith("session 2: time\n")
    assert "  label: git\n" in run([*MCP_TAPE, "convert", "--to", "txt", str(two)]).stdout.decode()


@pytest.mark.slow
def test_a_strangers_name_does_not_reach_the_terminal(two: Path) -> None:
    with sqlite3.connect(two) as db:
        db.execute("UPDATE sessions SET label = char(27) || '[2J' || char(10)")
    db.close()
    for command in (["ls"], ["show"], ["convert", "--to", "txt"]):
        shown = run([*MCP_TAPE, *command, str(two)]).stdout.decode()
        assert "[2J" in shown and "\x1b" not in shown and "[2J\n\n" not in shown


@pytest.mark.slow
def test_it_survives_an_export_and_a_merge(two: Path, tmp_path: Path) -> None:
    exported = run([*MCP_TAPE, "convert", "--session", "all", str(two)]).stdout
    (tmp_path / "lines.jsonl").write_bytes(exported)
    run([*MCP_TAPE, "convert", str(tmp_path / "lines.jsonl"), str(tmp_path / "loaded.db")])
    run([*MCP_TAPE, "merge", str(two), "-o", str(tmp_path / "merged.db")])
    for name in ("loaded.db", "merged.db"):
        assert [session.label for session in sessions(tmp_path / name)] == ["git", "time"]


@pytest.fixture
def vcr(tmp_path: Path) -> Vcr:
    return Vcr(tmp_path)
