"""Recording in production with the whole command on stdin and stdout: samples, bodies, hooks and spans."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tape.record.production.sampling import draw_sample
from mcp_tape.wire.channels import STDIO
from tests.support import provision
from tests.support.collector import collecting, hanging
from tests.support.disks import fill, mounted
from tests.support.messages import call, request
from tests.support.rows import cassettes, texts
from tests.support.running import (
    ECHO,
    MCP_TAPE,
    WAIT,
    alive,
    children,
    frames,
    is_recording,
    python,
    receive,
    receive_line,
    record,
    run,
    send,
    sessions,
    started,
    until,
    writer_of,
)
from tests.support.sdk import live, outcomes

# Answers with the start of its input, repeats it on stderr, and introduces itself.
SERVER = python(
    "import json, os, sys\n"
    "for line in sys.stdin:\n"
    "    asked = json.loads(line)\n"
    "    if asked['method'] == 'tools/list':\n"
    "        result = {'tools': [{'name': 'echo', 'description': 'Says it again', 'inputSchema': {}}]}\n"
    "    else:\n"
    "        text = json.dumps(asked.get('params'))[:80]\n"
    "        print(text, file=sys.stderr, flush=True)\n"
    "        result = {'content': [{'type': 'text', 'text': text}], 'structuredContent': {'pid': os.getpid()}}\n"
    "    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)\n"
)
PLANTED = b"planted-4711"
FILLING = "x" * 3000


def asked(*numbers: int, word: str = PLANTED.decode()) -> bytes:
    lines = [request("list", "tools/list"), *(call(number, q=word, number=number) for number in numbers)]
    return "".join(f"{line}\n" for line in lines).encode()


def seed(is_taken: bool) -> str:
    """A seed by which a process's session is in a sample of 50 %, or not."""
    return next(str(n) for n in range(100) if draw_sample(0.5, str(n)).takes(STDIO) is is_taken)


def talk(process: subprocess.Popen[bytes], calls: int, word: str = "") -> None:
    """Make calls in turn."""
    assert process.stdout
    for number in range(calls):
        send(process.stdin, call(number, word=word, text=FILLING).encode() + b"\n")
        assert json.loads(receive_line(process.stdout))["id"] == number


def leave(process: subprocess.Popen[bytes]) -> bytes:
    """End a recording as its client does, and return its output."""
    assert process.stdin and process.stderr
    process.stdin.close()
    said = receive(process.stderr)
    assert process.wait(WAIT) == 0
    return said


# Samples ------------------------------------------------------------------------------------------------


SdkClient = Callable[[str, str], list[str]]


@pytest.mark.slow
def test_an_sdk_client_sees_the_same_in_the_sample_and_out_of_it(tmp_path: Path, sdk_client: SdkClient) -> None:
    program, server = sdk_client("mcp2-auto", "git"), provision.SERVERS["git"]
    tape = tmp_path / "tape.db"
    production = ["-q", "--sample", "100%", "--bodies", "hash", "--rotate", "1M", "--on-rotate", "true {}"]
    ways = [server, record(tape, server, "-q", "--sample", "0%"), record(tape, server, *production)]
    seen = []
    for number, command in enumerate(ways):
        (tmp_path / str(number)).mkdir()
        seen.append(outcomes(json.loads(live(program, command, tmp_path / str(number)))))
    assert seen[0] == seen[1] == seen[2] and len(seen[0]) > 3
    assert len(sessions(tape)) == 1 and sessions(tape)[0].server_name == "mcp-git"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
def test_a_session_that_is_not_in_the_sample_is_the_server_itself(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with started(record(tape, SERVER, "--sample", "50%", "--sample-seed", seed(False))) as process:
        assert process.stdout
        send(process.stdin, call(1).encode() + b"\n")
        result = json.loads(receive_line(process.stdout))["result"]
        assert result["structuredContent"] == {"pid": process.pid} and not children(process.pid)
        assert leave(process).startswith(b"mcp-tape: not in the sample: passed on, and not recorded\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_outside_the_sample_bytes_and_exit_codes_are_the_servers(tmp_path: Path) -> None:
    odd = bytes(range(256)) * 1000
    done = run(record(tmp_path / "tape.db", ECHO, "-q", "--sample", "0%"), odd)
    assert (done.returncode, done.stdout, done.stderr) == (0, odd, b"")
    done = run(record(tmp_path / "tape.db", python("import sys; sys.exit(7)"), "-q", "--sample", "0%"))
    assert done.returncode == 7
    words = ["-q", "--sample", "0%", "--env", "WHO=me", "--cwd", str(tmp_path)]
    done = run(record(tmp_path / "tape.db", python("import os; print(os.environ['WHO'], os.getcwd())"), *words))
    assert done.stdout.decode().split() == ["me", str(tmp_path)]
    done = run(record(tmp_path / "tape.db", ["no-such-server"], "-q", "--sample", "0%"))
    assert done.returncode == 4 and b"there is no command 'no-such-server'" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_session_in_the_sample_is_recorded_and_says_so(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    done = run(record(tape, SERVER, "--sample", "50%", "--sample-seed", seed(True)), asked(1, 2))
    assert done.returncode == 0 and done.stdout.count(b"\n") == 3
    (session,) = sessions(tape)
    assert session.recorder.endswith(" --sample 50%") and session.incomplete is None


# Bodies -------------------------------------------------------------------------------------------------


def holds(place: Path, planted: bytes) -> bool:
    """Whether any file of a directory contains a text, also in its name."""
    return any(planted in path.read_bytes() for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize("bodies", ["hash", "none"])
@pytest.mark.slow
def test_no_content_is_in_any_file_at_any_time(tmp_path: Path, bodies: str) -> None:
    tape = tmp_path / "tape.db"
    options = ["-q", "--bodies", bodies, "--rotate", "60k"]
    with started(record(tape, SERVER, *options), start_new_session=True, cwd=tmp_path) as process:
        assert process.stdout
        talk(process, 30, PLANTED.decode())
        until(lambda: is_recording(tape) and frames(tape), "frames on the tape")
        assert any(path.name.endswith("-wal") for path in tmp_path.iterdir()) and not holds(tmp_path, PLANTED)
        os.killpg(process.pid, signal.SIGKILL)
    until(lambda: len([text for text in texts(tmp_path) if "result" in text]) == 30, "all answers on the tapes")
    assert not holds(tmp_path, PLANTED) and not holds(tmp_path, FILLING[:100].encode())


def test_as_a_check_of_the_test_above_content_is_there_otherwise(tmp_path: Path) -> None:
    run(record(tmp_path / "tape.db", SERVER, "-q"), asked(1))
    assert holds(tmp_path, PLANTED)


def recorded(tape: Path, *words: str, said: bytes = b"", **environment: str) -> Path:
    done = run(record(tape, SERVER, "-q", *words), said or asked(1, 2), env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return tape


def mcp_tape(*words: object) -> subprocess.CompletedProcess[bytes]:
    return run([*MCP_TAPE, *map(str, words)])


@pytest.mark.slow
def test_recordings_with_hashes_still_compare(tmp_path: Path) -> None:
    one, same = (recorded(tmp_path / f"{name}.db", "--bodies", "hash") for name in "ab")
    other = recorded(tmp_path / "c.db", "--bodies", "hash", said=asked(1) + asked(2, word="other")[len(asked()) :])
    ignored = ["--ignore-path", "$.result.structuredContent.pid", "--ignore-path", "$.result.structuredContent"]
    assert mcp_tape("diff", one, same, *ignored).returncode == 0
    changed = mcp_tape("diff", one, other, *ignored, "--json", "--fail-on", "info")
    assert changed.returncode == 1 and b"[hash:" in changed.stdout
    assert mcp_tape("breaking", one, other).returncode == 0


@pytest.mark.slow
def test_diff_reports_that_recordings_with_different_bodies_cannot_be_compared(tmp_path: Path) -> None:
    full, hashed = recorded(tmp_path / "a.db"), recorded(tmp_path / "b.db", "--bodies", "hash")
    keyed = recorded(tmp_path / "c.db", "--bodies", "hash", MCP_TAPE_HASH_KEY="a-secret-of-some-length-4711")
    for old, new in ((full, hashed), (hashed, keyed)):
        done = mcp_tape("diff", old, new)
        assert done.returncode == 0 and b"message bodies cannot be compared" in done.stdout, done
    assert b"OLD was recorded with --bodies full, NEW with --bodies hash" in mcp_tape("diff", full, hashed).stdout


@pytest.mark.parametrize("bodies", ["hash", "none"])
@pytest.mark.slow
def test_people_still_see_clients_tools_and_times(tmp_path: Path, bodies: str) -> None:
    tape = recorded(tmp_path / "tape.db", "--bodies", bodies)
    for words in (["ls"], ["show"], ["stats"], ["why"], ["check"], ["convert"], ["show", "--json"]):
        done = mcp_tape(words[0], tape, *words[1:])
        assert done.returncode == 0 and PLANTED not in done.stdout, words
    assert b"tools/call echo" in mcp_tape("show", tape).stdout and b"Says it again" in mcp_tape("convert", tape).stdout


@pytest.mark.parametrize("bodies", ["hash", "none"])
@pytest.mark.slow
def test_a_recording_without_bodies_is_not_played(tmp_path: Path, bodies: str) -> None:
    tape = recorded(tmp_path / "tape.db", "--bodies", bodies)
    for words in (["replay", tape], ["use", tape, "--mode", "none"], ["verify", tape, "--allow-writes", "--", *SERVER]):
        done = mcp_tape(*words)
        assert done.returncode == 3 and b"was recorded with --bodies hash or none" in done.stderr, words


@pytest.mark.slow
def test_with_a_key_guesses_cannot_be_checked(tmp_path: Path) -> None:
    key = {"MCP_TAPE_HASH_KEY": "a-secret-of-some-length-4711"}
    plain = recorded(tmp_path / "plain.db", "--bodies", "hash")
    keyed, again = (recorded(tmp_path / f"{n}.db", "--bodies", "hash", **key) for n in "ab")
    said = [[frame.text for frame in frames(path) if frame.sender == "client"] for path in (plain, keyed, again)]
    assert said[0] != said[1] == said[2] and not holds(tmp_path, key["MCP_TAPE_HASH_KEY"].encode())


# Hooks --------------------------------------------------------------------------------------------------

LOUD = "echo {{}} >> {log}; echo to stdout; echo to stderr >&2; head -c 10000000 /dev/zero"


def handed(log: Path) -> list[str]:
    return [Path(line).name for line in log.read_text().split()] if log.exists() else []


@pytest.mark.slow
def test_the_output_of_a_hook_is_not_in_the_conversation(tmp_path: Path) -> None:
    hook = f"sh -c '{LOUD.format(log=tmp_path / 'log')}'"
    with started(record(tmp_path / "t.db", SERVER, "--rotate", "60k", "--on-rotate", hook)) as process:
        talk(process, 80)
        said = leave(process)
        assert process.stdout and receive(process.stdout) == b""
    names = [path.name for path in cassettes(tmp_path)]
    assert sorted(handed(tmp_path / "log")) == sorted(names) and len(names) > 2
    assert f"--on-rotate: {len(names)} done, 0 failed".encode() in said and b"to std" not in said


@pytest.mark.slow
def test_a_cassette_that_is_handed_on_is_complete(tmp_path: Path) -> None:
    """Its first reader need not write to it: all messages are there, even if a busy recorder had deferred them."""
    place = tmp_path / "look.py"
    place.write_text("""
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
sys.exit(db.execute("SELECT 1 FROM sessions WHERE pending IS NOT NULL").fetchone() is not None)
""")
    hook = f"{sys.executable} -S {place} {{}}"
    with started(record(tmp_path / "t.db", SERVER, "--rotate", "60k", "--on-rotate", hook)) as process:
        talk(process, 150)
        said = leave(process)
    number = len(cassettes(tmp_path))
    assert number > 3 and f"--on-rotate: {number} done, 0 failed".encode() in said, said


@pytest.mark.slow
def test_traffic_goes_on_while_hooks_hang_and_a_client_that_insists_does_not_wait(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    hook = f"sh -c 'echo $$ >> {pids}; exec sleep 1000 # {{}}'"
    options = ["-q", "--rotate", "60k", "--keep", "100", "--on-rotate", hook, "--hook-timeout", "600"]
    with started(record(tmp_path / "t.db", SERVER, *options)) as process:
        talk(process, 60)
        until(lambda: pids.exists() and pids.read_text().count("\n") == 2, "two hooks that hang")
        writer = writer_of(process.pid, tmp_path / "t.db")
        talk(process, 60)
        assert process.stdin
        process.stdin.close()
        until(
            lambda: [one for one in sessions(cassettes(tmp_path)[-1]) if one.exit_code == 0], "the end of the recording"
        )
        process.terminate()  # like SDK clients after two seconds
        assert process.wait(WAIT) == 0
    assert alive(writer)  # and keeps waiting, for up to ten minutes
    for pid in (writer, *map(int, pids.read_text().split())):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at itself in /proc")
def test_signals_reach_a_hook_as_any_command(tmp_path: Path) -> None:
    hook = "cp /proc/self/status {}.status"  # a shell would change it
    run(record(tmp_path / "t.db", SERVER, "-q", "--rotate", "1M", "--on-rotate", hook), asked(1))
    facts = dict(line.split(":", 1) for line in (tmp_path / "t.db.status").read_text().splitlines())
    assert int(facts["SigBlk"], 16) == 0 and not int(facts["SigIgn"], 16) & 1 << (signal.SIGPIPE - 1)


@pytest.mark.slow
def test_a_hanging_hook_is_waited_for_until_its_limit(tmp_path: Path) -> None:
    options = ["-q", "--rotate", "60k", "--on-rotate", "sh -c 'sleep 1000 # {}'", "--hook-timeout", "0.3"]
    done = run(record(tmp_path / "t.db", SERVER, *options), asked(1))
    assert done.returncode == 0 and done.stderr.count(b"--on-rotate has failed for ") == 1


@pytest.mark.slow
def test_if_the_relay_is_killed_the_last_cassette_is_handed_over_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ["-q", "--rotate", "60k", "--on-rotate", f"sh -c 'echo {{}} >> {log}'"]
    with started(record(tmp_path / "t.db", SERVER, *options), start_new_session=True) as process:
        talk(process, 40)
        os.killpg(process.pid, signal.SIGKILL)
    until(lambda: len([text for text in texts(tmp_path) if "result" in text]) == 40, "all answers on the tapes")
    until(lambda: len(handed(log)) > 1, "more than one of them")
    until(lambda: sorted(handed(log)) == sorted(path.name for path in cassettes(tmp_path)), "all of them")


@pytest.mark.slow
def test_if_the_writer_is_killed_the_next_recording_keeps_existing_cassettes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = record(tmp_path / "t.db", SERVER, "-q", "--rotate", "60k", "--on-rotate", f"sh -c 'echo {{}} >> {log}'")
    with started(command) as process:
        talk(process, 1)
        os.kill(writer_of(process.pid, tmp_path / "t.db"), signal.SIGKILL)
        assert process.stdin
        process.stdin.close()
        assert process.wait(WAIT) == 0
    assert not log.exists() and [path.name for path in cassettes(tmp_path)] == ["t.db"]
    assert run(command, asked(1)).returncode == 0
    assert handed(log) == ["t-2.db"] and len(sessions(tmp_path / "t-2.db")) == 1
    assert mcp_tape("ls", tmp_path / "t.db").returncode == 0  # and can be handed over by hand


@pytest.mark.slow
def test_recorders_of_one_row_never_share_a_cassette(tmp_path: Path) -> None:
    command = record(tmp_path / "t.db", SERVER, "-q", "--rotate", "1M", "--on-rotate", "true {}")
    with started(command) as one, started(command) as two, started(command) as three:
        for process in (one, two, three):
            talk(process, 2)
        for process in (one, two, three):
            leave(process)
    assert [len(sessions(path)) for path in cassettes(tmp_path)] == [1, 1, 1]


@pytest.mark.slow
def test_on_a_full_disk_the_conversation_goes_on_and_stored_data_is_handed_over(tmp_path: Path) -> None:
    log, limit = tmp_path / "log", 1 << 18
    options = ["-q", "--rotate", "100M", "--on-rotate", f"sh -c 'echo {{}} >> {log}'"]
    full = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))}
    with started(record(tmp_path / "t.db", SERVER, *options), **full) as process:
        talk(process, 150)
        said = leave(process)
    assert b"INCOMPLETE: cannot write" in said and handed(log) == ["t.db"]


# Takes a copy, and fails every third time: before it has the copy, or after that.
UNRELIABLE = """
n=1
until mkdir "$2/$n" 2>/dev/null; do n=$((n + 1)); done
test $((n % 6)) -ne 3 && cp "$1" "$3" && test $((n % 6)) -ne 0
"""


@pytest.mark.slow
def test_a_hook_that_often_fails_and_a_disk_that_is_full_for_a_while_lose_nothing(tmp_path: Path) -> None:
    log, there, hook = tmp_path / "log", tmp_path / "there", tmp_path / "hook"
    log.mkdir(), there.mkdir()
    hook.write_text(UNRELIABLE)
    said: list[str] = []
    told: list[bytes] = []

    def ask(number: int) -> None:
        assert process.stdout
        said.append(call(number, text=FILLING))
        send(process.stdin, said[-1].encode() + b"\n")
        said.append(receive_line(process.stdout).decode().rstrip("\n"))

    with mounted(tmp_path / "small", "3m") as place:
        options = ["--rotate", "30k", "--keep", "3", "--on-rotate", f"sh {hook} {{}} {log} {there}"]
        with started(record(place / "t.db", SERVER, *options)) as process:
            listener = threading.Thread(target=lambda: told.extend(iter(lambda: receive_line(process.stderr), b"")))
            listener.start()
            for number in range(60):
                ask(number)
            ballast = fill(place)
            for number in range(60, 200):
                ask(number)
                if any(b"waiting for room" in line for line in told):
                    ballast.unlink(missing_ok=True)
            assert process.stdin
            process.stdin.close()
            listener.join(WAIT)
            assert process.wait(WAIT) == 0
        assert len(cassettes(place)) == 3 and not list(place.glob("*.waiting"))
    number = len(cassettes(there))
    assert not ballast.exists() and number > 20 and texts(there) == said
    assert any(b"on-rotate has failed" in line for line in told)
    assert f"mcp-tape: --on-rotate: {number} done, 0 failed\n".encode() in told


# Fails the first time, and the newest cassette for as long as there are others.
CRAMPED = """
mkdir "$2/${1##*/}" 2>/dev/null && exit 1
cd "${1%/*}"
test "$(ls -v t*.db | tail -n 1)" != "${1##*/}" || test "$(ls t*.db | wc -l)" -eq 1
"""


@pytest.mark.slow
def test_older_cassettes_make_room_before_the_last_one_is_tried_again(tmp_path: Path) -> None:
    log, hook = tmp_path / "log", tmp_path / "hook"
    log.mkdir()
    hook.write_text(CRAMPED)
    options = ["--rotate", "30k", "--keep", "1", "--on-rotate", f"sh {hook} {{}} {log}"]
    with started(record(tmp_path / "t.db", SERVER, *options)) as process:
        talk(process, 40)
        said = leave(process)
    assert b"done, 0 failed" in said and len(cassettes(tmp_path)) == 1


# Spans --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_spans_are_sent_while_it_records(tmp_path: Path) -> None:
    with collecting() as collector, started(record(tmp_path / "t.db", SERVER, "--otlp", collector.url)) as process:
        talk(process, 3)
        until(lambda: len(collector.spans) == 3, "spans")
        assert b"3 spans sent, 0 dropped" in leave(process)
    assert {span.name for span in collector.spans} == {"tools/call echo"}
    assert FILLING[:50].encode() not in b"".join(one.SerializeToString() for one in collector.taken)


@pytest.mark.slow
def test_a_collector_that_hangs_delays_neither_the_traffic_nor_the_end(tmp_path: Path) -> None:
    with hanging() as url, started(record(tmp_path / "t.db", SERVER, "--otlp", url)) as process:
        talk(process, 300)  # all of them were answered
        assert b"0 spans sent, 300 dropped" in leave(process)  # though it still hangs
    assert sessions(tmp_path / "t.db")[0].incomplete is None


@pytest.mark.slow
def test_with_all_of_it_a_recording_is_as_it_was(tmp_path: Path) -> None:
    with collecting() as collector:
        words = ["--sample", "100%", "--bodies", "hash", "--rotate", "60k", "--on-rotate", "true {}"]
        done = run(record(tmp_path / "t.db", SERVER, "-q", *words, "--otlp", collector.url), asked(*range(50)))
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 51) and PLANTED in done.stdout
    assert len(collector.spans) == 51 and not holds(tmp_path, PLANTED)
    assert all(line == b"" or PLANTED in line for line in done.stderr.split(b"\n"))  # the server's own
