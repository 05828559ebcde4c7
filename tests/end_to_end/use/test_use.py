"""`mcp-tape use`: VCR's modes in one command."""

from __future__ import annotations

import json
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD
from typing import Any

import pytest

from mcp_tape import use_cassette
from mcp_tape.wire.frames import KILLED
from tests.support.decks import make_cassette
from tests.support.messages import call, lines, request, result
from tests.support.running import (
    MCP_TAPE,
    WAIT,
    frames,
    full_pipe,
    is_recording,
    python,
    receive_line,
    run,
    sessions,
    started,
    until,
)
from tests.support.vcr import HELLO, INITIALIZE, SERVER, Vcr


@pytest.fixture
def vcr(tmp_path: Path) -> Vcr:
    return Vcr(tmp_path)


def values(done: subprocess.CompletedProcess[bytes]) -> dict[Any, Any]:
    bodies = [json.loads(line) for line in done.stdout.splitlines()]
    return {body["id"]: body.get("result", {}).get("value", body.get("error")) for body in bodies if "id" in body}


@pytest.mark.slow
def test_once_records_and_then_replays(vcr: Vcr) -> None:
    script = HELLO + lines(call(1, "a"))
    first = vcr.run("once", script)
    heard = vcr.heard()
    second = vcr.run("once", script)
    assert second.stdout == first.stdout
    assert len(heard) == 3
    assert vcr.heard() == heard  # no server was started
    assert len(sessions(vcr.tape)) == 1


@pytest.mark.slow
def test_once_does_not_take_a_probe_for_a_recording(vcr: Vcr) -> None:
    vcr.run("once", lines(request("p", "server/discover")))
    assert values(vcr.run("once", HELLO + lines(call(1, "a")))) == {0: ["initialize", 1], 1: ["tools/call", 2]}
    assert len(sessions(vcr.tape)) == 2


def cut_short(vcr: Vcr) -> None:
    """Record a client that is killed together with mcp-tape, before it has made all of its requests."""
    with started(vcr.command("once")) as process:
        assert process.stdin and process.stdout
        process.stdin.write(HELLO + lines(call(1, "a")))
        while b'"id":1' not in receive_line(process.stdout).replace(b" ", b""):
            pass
        process.kill()
    until(lambda: is_recording(vcr.tape) and sessions(vcr.tape)[0].incomplete == KILLED, "the writer to end")


@pytest.mark.slow
def test_once_records_a_truncated_session_again_and_plays_a_whole_one(vcr: Vcr) -> None:
    cut_short(vcr)
    script = HELLO + lines(call(1, "a"), call(2, "b"))
    again = vcr.run("once", script)
    assert again.returncode == 0 and b"was cut short" in again.stderr and b"recording it again" in again.stderr
    heard = vcr.heard()
    assert vcr.run("once", script).stdout == again.stdout
    assert vcr.heard() == heard
    assert [session.incomplete for session in sessions(vcr.tape)] == [KILLED, None]


def test_use_cassette_records_a_truncated_session_again(vcr: Vcr, capfd: pytest.CaptureFixture[str]) -> None:
    cut_short(vcr)
    live = [*python(vcr.server), str(vcr.log)]
    with use_cassette(vcr.tape, "once", command=live) as tape:
        assert tape.is_recording
    assert "was cut short" in capfd.readouterr().err
    with use_cassette(vcr.tape, "once", command=live, block_live=True) as tape:
        assert not tape.is_recording  # there is no better recording


@pytest.mark.slow
def test_once_survives_a_client_that_starts_the_command_twice_overlapping(vcr: Vcr) -> None:
    with started(vcr.command("once")) as first:
        assert first.stdin and first.stdout
        first.stdin.write(HELLO)
        first.stdout.readline()
        second = vcr.run("once", HELLO + lines(call(1, "a")))  # the first is incomplete, so this records too
        assert values(second)[1] == ["tools/call", 2]
        first.stdin.write(lines(call(1, "a")))
        first.stdout.readline()
        first.stdin.close()
        assert first.wait(WAIT) == 0
    assert [session.incomplete for session in sessions(vcr.tape)] == [None, None]
    assert values(vcr.run("none", HELLO + lines(call(1, "a"))))[1] == ["tools/call", 2]


def test_none_never_starts_the_server(vcr: Vcr) -> None:
    make_cassette(vcr.tape, [("client", call(1, "a")), ("server", result(1))])
    done = vcr.run("none", lines(call(1, "a"), call(2, "b")))
    assert done.returncode == 1
    assert vcr.heard() == []


def test_none_without_a_cassette_says_how_to_record_it(vcr: Vcr) -> None:
    done = vcr.run("none", b"")
    assert done.returncode == 3
    assert b"mcp-tape record" in done.stderr


@pytest.mark.slow
def test_all_records_every_time(vcr: Vcr) -> None:
    for _ in range(2):
        assert values(vcr.run("all", HELLO))[0] == ["initialize", 1]
    assert len(sessions(vcr.tape)) == 2


@pytest.mark.slow
def test_new_episodes_sends_only_misses_to_the_live_server(vcr: Vcr) -> None:
    vcr.run("once", HELLO + lines(call(1, "a")))
    vcr.log.unlink()
    done = vcr.run("new_episodes", HELLO + lines(call(1, "a"), call(2, "b")))
    assert values(done) == {0: ["initialize", 1], 1: ["tools/call", 2], 2: ["tools/call", 2]}
    assert vcr.heard() == [*HELLO.decode().splitlines(), call(2, "b")]
    assert b"earlier calls never reached it" in done.stderr
    assert done.returncode == 0
    second = sessions(vcr.tape)[1]
    assert (second.extends, second.incomplete) == (1, None)


@pytest.mark.slow
def test_new_episodes_are_on_the_tape_the_next_time(vcr: Vcr) -> None:
    script = HELLO + lines(call(1, "a"), call(2, "b"))
    vcr.run("once", HELLO + lines(call(1, "a")))
    live = vcr.run("new_episodes", script)
    vcr.log.unlink()
    replayed = vcr.run("new_episodes", script)
    assert replayed.stdout == live.stdout
    assert vcr.heard() == []
    assert len(sessions(vcr.tape)) == 2
    assert vcr.run("none", script).stdout == live.stdout
    assert not vcr.tape.with_name("tape.db-wal").exists()


@pytest.mark.slow
def test_new_episodes_goes_to_the_tape_first_even_after_a_miss(vcr: Vcr) -> None:
    vcr.run("once", HELLO + lines(call(1, "a")))
    vcr.log.unlink()
    done = vcr.run("new_episodes", HELLO + lines(call(2, "b"), call(1, "a")))
    assert values(done)[1] == ["tools/call", 2]
    assert call(1, "a") not in vcr.heard()
    assert b"grew by 1 call; 1 answer after a live call is from the old tape; to record everything again" in done.stderr


@pytest.mark.slow
def test_replay_prefix_makes_the_live_server_the_calls_before_the_miss(vcr: Vcr) -> None:
    before, listed = lines(call(1, "a"), call(2, "b")), lines(request(3, "tools/list"))
    vcr.run("once", HELLO + before + listed)
    vcr.log.unlink()
    script = HELLO + before + listed + lines(call(4, "c"), call(5, "d"))
    done = vcr.run("new_episodes", script, "--replay-prefix")
    assert [values(done)[number] for number in (4, 5)] == [["tools/call", 4], ["tools/call", 5]]
    heard = [json.loads(line) for line in vcr.heard()]
    assert [message.get("params", {}).get("name") for message in heard] == [None, None, "a", "b", "c", "d"]
    assert b"the handshake and 2 earlier calls are replayed to it first" in done.stderr
    added = [frame.text for frame in frames(vcr.tape, 2) if b"tools/call" in frame.text and frame.sender == "client"]
    assert added == [call(4, "c").encode(), call(5, "d").encode()]  # not the calls that are on the tape already
    assert vcr.run("none", script, "--strict").stdout == done.stdout


def test_new_episodes_keeps_the_ids_of_both_servers_apart(vcr: Vcr) -> None:
    """The tape's server and the live one both make a request with id 1, and neither is answered yet."""
    taped = [
        ("client", INITIALIZE), ("server", result(0)), ("client", call(1, "a")), ("server", request(1, "roots/list")),
        ("client", result(1, "taped")), ("server", result(1, "done")),
    ]  # fmt: skip
    make_cassette(vcr.tape, taped)  # type: ignore[arg-type]
    with started(vcr.command("new_episodes")) as process:
        assert process.stdin and process.stdout
        process.stdin.write(HELLO + lines(call(1, "a")))
        assert json.loads(process.stdout.readline())["id"] == 0
        assert json.loads(process.stdout.readline()) == json.loads(request(1, "roots/list"))
        process.stdin.write(lines(call(2, "ask")))
        asked = json.loads(process.stdout.readline())
        assert asked["method"] == "roots/list"
        assert asked["id"] != 1
        process.stdin.write(lines(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": "live"})))
        assert json.loads(process.stdout.readline()) == json.loads(result(2, "live"))
        process.stdin.write(lines(result(1, "taped")))
        assert json.loads(process.stdout.readline()) == json.loads(result(1, "done"))


@pytest.mark.slow
def test_new_episodes_passes_progress_of_a_live_call_on(vcr: Vcr) -> None:
    vcr.run("once", HELLO)
    done = vcr.run("new_episodes", HELLO + lines(call(2, "slow", token="t")))
    bodies = [json.loads(line) for line in done.stdout.splitlines()]
    assert bodies[1]["params"] == {"progressToken": "t", "progress": 1}
    assert bodies[2]["result"] == {"value": "slow"}


@pytest.mark.slow
def test_a_live_server_that_dies_leaves_no_call_unanswered(vcr: Vcr) -> None:
    vcr.run("once", HELLO)
    done = vcr.run("new_episodes", HELLO + lines(call(2, "die")))
    assert values(done)[2]["code"] == -32010
    assert b"the live server ended without an answer to 1 of its calls" in done.stderr


@pytest.mark.slow
def test_a_call_that_the_live_server_died_of_is_asked_again_once_that_is_mended(vcr: Vcr) -> None:
    vcr.run("once", HELLO)
    vcr.run("new_episodes", HELLO + lines(call(2, "die")))
    vcr.server = SERVER.replace("sys.exit(5)", 'say(id=message["id"], result={"value": "mended"})')
    assert values(vcr.run("new_episodes", HELLO + lines(call(2, "die"))))[2] == "mended"
    replayed = vcr.run("none", HELLO + lines(call(2, "die")), "--strict")
    assert (values(replayed)[2], replayed.returncode) == ("mended", 0)


@pytest.mark.slow
def test_a_live_server_may_say_much_while_the_client_asks_much(vcr: Vcr) -> None:
    """Each of the two pipes is full before the other is read to its end."""
    vcr.run("once", HELLO)
    vcr.server = SERVER.replace("calls += 1", """calls += 1
    for number in range(200):
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 1000}}))
        print("Y" * 1000, file=sys.stderr)""")  # fmt: skip
    asked = [call(number, "much", text="z" * 100_000) for number in range(1, 5)]
    done = vcr.run("new_episodes", HELLO + lines(*asked))
    assert {number: value[0] for number, value in values(done).items() if number} == dict.fromkeys(
        range(1, 5), "tools/call"
    )
    assert done.stderr.count(b"Y") == 200 * 5 * 1000  # our note may be within a line
    assert sessions(vcr.tape)[1].incomplete is None


@pytest.mark.slow
def test_logs_of_a_live_server_pass_after_the_end_of_its_output(vcr: Vcr) -> None:
    """While it ends, it waits until its stderr is read."""
    vcr.run("once", HELLO)
    logs = 'calls == 1 and threading.Thread(target=sys.stderr.write, args=("Y" * 1_000_000,)).start()'
    vcr.server = SERVER.replace("import json, sys", "import json, os, sys, threading")
    vcr.server = vcr.server.replace("calls += 1", f"calls += 1; {logs}") + "os.close(1); open(sys.argv[1], 'w').close()"
    with started(vcr.command("new_episodes", "-q")) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(HELLO + lines(call(2, "new")))
        assert [json.loads(receive_line(process.stdout))["id"] for _ in range(2)] == [0, 2]
        reader = process.stderr.fileno()
        until(lambda: int.from_bytes(ioctl(reader, FIONREAD, bytes(4)), sys.byteorder) > 60_000, "the pipe to be full")
        process.stdin.close()
        until(lambda: not vcr.heard(), "the server to have closed its output")
        assert process.stderr.read().count(b"Y") == 1_000_000
        assert process.wait(WAIT) == 0


@pytest.mark.slow
def test_a_client_that_never_reads_stderr_gets_its_answers_from_the_tape(vcr: Vcr) -> None:
    """The live server waits in vain until its stderr is read; nothing else waits."""
    vcr.run("once", HELLO + lines(call(1, "a")))
    vcr.server = SERVER.replace("calls += 1", 'calls += 1; sys.stderr.write("y" * 1_000_000)')
    with full_pipe() as jammed, started(vcr.command("new_episodes", "-q"), stderr=jammed) as process:
        assert process.stdin and process.stdout
        process.stdin.write(HELLO + lines(call(2, "new")))
        assert json.loads(receive_line(process.stdout))["id"] == 0
        until(lambda: len(vcr.heard()) > 3, "the live server to be asked")
        process.stdin.write(lines(call(1, "a")))
        assert json.loads(receive_line(process.stdout))["id"] == 1
        process.kill()


@pytest.mark.slow
def test_a_call_after_the_end_of_the_live_server_is_a_miss(vcr: Vcr) -> None:
    vcr.run("once", HELLO)
    with started(vcr.command("new_episodes")) as process:
        assert process.stdin and process.stdout
        process.stdin.write(HELLO + lines(call(2, "die")))
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.write(lines(call(3, "late")))
        answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(WAIT) == 1
    assert [answer["id"] for answer in answers] == [0, 2, 3]
    assert answers[2]["error"]["code"] == -32601


@pytest.mark.slow
def test_the_handshake_of_new_episodes_is_never_unplayed(vcr: Vcr) -> None:
    script = HELLO + lines(call(1, "a"), call(2, "b"))
    vcr.run("once", HELLO + lines(call(1, "a")))
    vcr.run("new_episodes", script)
    assert vcr.run("none", script, "--strict").returncode == 0


@pytest.mark.slow
def test_new_episodes_extend_the_first_session_whichever_plays(vcr: Vcr) -> None:
    vcr.run("once", HELLO + lines(call(1, "a")))
    vcr.run("new_episodes", HELLO + lines(call(2, "b")))
    vcr.run("new_episodes", HELLO + lines(call(3, "c")), "--session", "all")
    assert [session.extends for session in sessions(vcr.tape)] == [None, 1, 1]
    assert vcr.run("none", HELLO + lines(call(1, "a"), call(2, "b"), call(3, "c"))).returncode == 0


@pytest.mark.slow
def test_a_live_server_that_cannot_be_started_is_reported(vcr: Vcr, tmp_path: Path) -> None:
    vcr.run("once", HELLO)
    command = [*MCP_TAPE, "use", str(vcr.tape), "--mode", "new_episodes", "--", "no-such-server"]
    done = run(command, HELLO + lines(call(1)))
    assert sorted(values(done)) == [0, 1]  # calls on the tape are still answered
    assert done.returncode == 4
    assert b"no-such-server" in done.stderr
    assert len(sessions(vcr.tape)) == 1


@pytest.mark.slow
def test_rewrite_replaces_the_cassette_when_the_run_ended_well(vcr: Vcr) -> None:
    make_cassette(vcr.tape, [("client", call(1, "old")), ("server", result(1))])
    assert vcr.run("rewrite", HELLO + lines(call(1, "new"))).returncode == 0
    assert len(sessions(vcr.tape)) == 1
    assert any(b'"new"' in frame.text for frame in frames(vcr.tape))
    assert sorted(path.name for path in vcr.tape.parent.iterdir()) == ["server.log", "tape.db"]


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("script", [HELLO + lines(call(1, "die")), b"", lines(request(1, "server/discover"))])
def test_rewrite_leaves_the_old_cassette_when_it_did_not(vcr: Vcr, script: bytes) -> None:
    make_cassette(vcr.tape, [("client", call(1, "old")), ("server", result(1))])
    before = vcr.tape.read_bytes()
    with started(vcr.command("rewrite")) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(script)
        if b"die" not in script:
            process.stdin.close()
        process.stdout.read()
        assert b"was not changed" in process.stderr.read()
        process.wait(WAIT)
    assert vcr.tape.read_bytes() == before
    assert not list(vcr.tape.parent.glob("*.part*"))


def test_rewrite_leaves_the_old_cassette_where_the_server_gave_up_first_and_the_client_left_for_that(vcr: Vcr) -> None:
    make_cassette(vcr.tape, [("client", call(1, "old")), ("server", result(1))])
    before = vcr.tape.read_bytes()
    vcr.server = vcr.server.replace("sys.exit(5)", "import os; os.close(1); sys.stdin.read(); os._exit(5)")
    with started(vcr.command("rewrite")) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(HELLO + lines(call(1, "die")))
        process.stdout.read()
        process.stdin.close()
        assert b"was not changed: the server ended with 5 before the client did" in process.stderr.read()
        process.wait(WAIT)
    assert vcr.tape.read_bytes() == before


@pytest.mark.slow
def test_rewrite_says_that_it_does_not_know_whether_the_test_passed(vcr: Vcr) -> None:
    make_cassette(vcr.tape, [("client", call(1, "old")), ("server", result(1))])
    told = [vcr.run("rewrite", HELLO + lines(call(1, "new"))).stderr for _ in range(2)]
    assert b"the previous recording was replaced, even if its test failed" in told[0]
    assert b"the previous recording" not in told[1]  # it had the same content, and stayed


def test_a_mode_that_may_record_needs_the_command() -> None:
    done = run([*MCP_TAPE, "use", "tape.db"])
    assert done.returncode == 2
    assert b"add -- and its command" in done.stderr
