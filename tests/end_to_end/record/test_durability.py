"""Recorded before it is delivered: after any kill, hang or full disk, no data is lost silently."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support.disks import fill, mounted
from tests.support.running import (
    ECHO,
    WAIT,
    alive,
    children,
    frames,
    full_pipe,
    in_background,
    is_one_file,
    is_recording,
    python,
    receive,
    receive_line,
    record,
    run,
    send,
    sessions,
    started,
    stream,
    until,
    writer_of,
)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
TOLD = b'{"jsonrpc":"2.0","method":"told","params":{"n":%d}}\n'


def exchange(process: subprocess.Popen[bytes], line: bytes) -> None:
    """Send a line to an echo server, and receive it."""
    with in_background(lambda: send(process.stdin, line)):
        assert receive(process.stdout, len(line)) == line


def end(process: subprocess.Popen[bytes]) -> int:
    process.stdin.close()
    with in_background(lambda: receive(process.stdout)):
        return process.wait(WAIT)


# Several recorders on one file -----------------------------------------------------------------------------


@pytest.mark.slow
def test_two_recorders_on_one_file_both_keep_everything(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    with started(record(cassette, ECHO)) as one, started(record(cassette, ECHO)) as two:
        for n in range(50):
            exchange(one, b'{"jsonrpc":"2.0","id":%d,"method":"one"}\n' % n)
            exchange(two, b'{"jsonrpc":"2.0","id":%d,"method":"two"}\n' % n)
        assert end(one) == 0
        exchange(two, b"alone now\n")
        assert end(two) == 0
    assert [session.incomplete for session in sessions(cassette)] == [None, None]
    streams = sorted((stream(cassette, "client", n) for n in (1, 2)), key=len)
    assert streams[0] == b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"one"}\n' % n for n in range(50))
    assert streams[1] == streams[0].replace(b"one", b"two") + b"alone now\n"
    assert is_one_file(cassette)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("attempt", range(5))
def test_recorders_that_start_and_end_at_the_same_moment_share_a_new_file(tmp_path: Path, attempt: int) -> None:
    cassette = tmp_path / "tape.db"
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(started(record(cassette, ECHO, "-q"))) for _ in range(4)]
        for process in processes:
            send(process.stdin, PING % process.pid)
        for process in processes:
            process.stdin.close()
        for process in processes:
            assert (receive(process.stdout), receive(process.stderr)) == (PING % process.pid, b"")
            assert process.wait(WAIT) == 0
    assert sorted(stream_of(cassette, n) for n in (1, 2, 3, 4)) == sorted(PING % p.pid for p in processes)
    assert [session.incomplete for session in sessions(cassette)] == [None] * 4
    assert is_one_file(cassette)


def stream_of(cassette: Path, session: int) -> bytes:
    return b"".join(f.text + f.eol for f in frames(cassette, session) if f.sender == "client" and f.kind != "control")


@pytest.mark.slow
def test_an_existing_cassette_gets_one_more_session(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    for n in range(3):
        assert run(record(cassette, ECHO), PING % n).returncode == 0
    assert [stream(cassette, "client", n + 1) for n in range(3)] == [PING % n for n in range(3)]


# Readers -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_reader_sees_messages_while_they_are_recorded(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    with started(record(cassette, ECHO)) as process:
        for n in range(3):
            exchange(process, PING % n)
            until(lambda line=PING % n: is_kept(cassette, line), "the message on the tape")
        (session,) = sessions(cassette)
        assert session.ended_at is None and session.incomplete and "never closed" in session.incomplete
        assert end(process) == 0
    assert sessions(cassette)[0].incomplete is None
    assert is_one_file(cassette)


def is_kept(cassette: Path, line: bytes) -> bool:
    return is_recording(cassette) and {"client", "server"} == {
        frame.sender for frame in frames(cassette) if frame.text + frame.eol == line
    }


@pytest.mark.slow
def test_a_reader_that_stays_longer_than_the_recorder_tidies_up(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    with started(record(cassette, ECHO)) as process:
        exchange(process, PING % 1)
        until(lambda: is_kept(cassette, PING % 1), "the message on the tape")
        with Cassette(cassette) as reader:
            assert len(reader.sessions()) == 1
            exchange(process, PING % 2)
            assert end(process) == 0
            assert [frame.text for frame in reader.frames(1) if frame.kind == "message"] == [
                (PING % n).rstrip() for n in (1, 1, 2, 2)
            ]
            assert reader.sessions()[0].incomplete is None
    assert is_one_file(cassette)


@pytest.mark.slow
def test_a_reader_that_takes_its_time_does_not_lock_recorders_out(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    data = b"".join(PING % n for n in range(2_000))
    assert run(record(cassette, ECHO), data).returncode == 0
    with Cassette(cassette) as reader:
        half_read = reader.frames(1)
        first = next(half_read)
        assert run(record(cassette, ECHO, "-q"), PING % 1).stderr == b""
        rest = [first, *half_read]
    assert b"".join(f.text + f.eol for f in rest if f.sender == "client" and f.kind == "message") == data
    assert [session.incomplete for session in sessions(cassette)] == [None, None]
    assert is_one_file(cassette)


# A failing writer ------------------------------------------------------------------------------------------


@linux_only
@pytest.mark.slow
def test_when_the_writer_is_killed_the_conversation_goes_on_and_the_session_says_incomplete(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    with started(record(cassette, ECHO, "-q")) as process:
        exchange(process, PING % 1)
        until(lambda: is_kept(cassette, PING % 1), "the message on the tape")
        os.kill(writer_of(process.pid, cassette), signal.SIGKILL)
        says = receive_line(process.stderr)  # at once, without another message
        assert b"has died" in says and b"the conversation goes on" in says
        exchange(process, PING % 2)
        exchange(process, b"x" * 3_000_000 + b"\n")
        assert end(process) == 0
        assert b"INCOMPLETE: the recording process has died" in receive(process.stderr)
    (session,) = sessions(cassette)
    assert session.incomplete == "the recording process has died"
    assert stream(cassette, "server").startswith(PING % 1)
    assert is_one_file(cassette)


@pytest.mark.slow
@linux_only
def test_with_stderr_unread_a_dead_writer_does_not_stop_the_conversation_either(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    with full_pipe() as stderr, started(record(cassette, ECHO, "-q"), stderr=stderr) as process:
        exchange(process, PING % 1)
        os.kill(writer_of(process.pid, cassette), signal.SIGKILL)
        for n in range(10):
            exchange(process, PING % n)
        assert end(process) == 0
    assert sessions(cassette)[0].incomplete == "the recording process has died"


@pytest.mark.slow
@linux_only
def test_when_the_writer_is_stuck_the_conversation_goes_on_and_the_session_says_incomplete(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    with started(record(cassette, ECHO, "-q")) as process:
        exchange(process, PING % 1)
        until(lambda: is_kept(cassette, PING % 1), "the message on the tape")
        writer = writer_of(process.pid, cassette)
        os.kill(writer, signal.SIGSTOP)
        try:
            exchange(process, b"x" * 3_000_000 + b"\n")  # more than the pipe to the writer holds
            assert b"is stuck: the conversation goes on" in receive_line(process.stderr)
            exchange(process, PING % 2)
            assert end(process) == 0
            assert b"INCOMPLETE: the recording process is stuck" in receive(process.stderr)
            assert sessions(cassette)[0].incomplete == "the recording process is stuck"
        finally:
            os.kill(writer, signal.SIGCONT)
        until(lambda: not alive(writer), "the writer to end")
    assert sessions(cassette)[0].incomplete  # even if the writer is the last to update it
    assert stream(cassette, "server").startswith(PING % 1)


# Runs the relay's end of recording with a writer that first computes, and then takes everything.
COMPUTING = """
import os, select, sys, time
from mcp_tape.record import recorder
recorder._STUCK_AFTER = 2
recorder._TOO_LONG = float(sys.argv[1])
def write(reader, status):
    until = time.monotonic() + 3
    while time.monotonic() < until: select.select((), (), (), 0.01)
    while os.read(reader, 65536): pass
    os.write(status, b"done 1 2 3 4 \\n")
recording = recorder.Recorder("unused", write, lambda text: print("warning:", text))
put = recording.stream("client", "stdio")
for _ in range(100):
    put(b"x" * 65536)
summary = recording.close()
print(summary.frames, summary.incomplete)
"""


@pytest.mark.slow
@linux_only
@pytest.mark.parametrize(
    ("too_long", "says"),
    [
        ("60", b"1 None\n"),
        ("0.5", b"warning: the recording process is stuck: the conversation goes on, but it is no longer recorded\n"),
    ],
    ids=["for a while", "for too long"],
)
def test_a_writer_that_computes_is_waited_for_but_not_for_ever(too_long: str, says: bytes) -> None:
    done = run([*python(COMPUTING), too_long])
    assert done.stderr == b"" and done.stdout.startswith(says)


@pytest.mark.slow
def test_a_cassette_deleted_during_its_recording_is_reported(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    with started(record(cassette, ECHO, "-q")) as process:
        exchange(process, PING % 1)
        until(lambda: is_kept(cassette, PING % 1), "the message on the tape")
        for path in tmp_path.iterdir():
            path.unlink()
        exchange(process, PING % 2)
        assert end(process) == 0
        assert b"INCOMPLETE" in (says := receive(process.stderr)) and b"moved or deleted" in says


# A full disk -------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, if we may mount one."""
    with mounted(tmp_path / "small") as place:
        yield place


ECHO_THEN_3 = [*ECHO[:-1], ECHO[-1] + "\nraise SystemExit(3)"]


def converses_on_a_full_disk(cassette: Path, **more: object) -> None:
    line = b'{"jsonrpc":"2.0","method":"fill","params":"%s"}\n' % (b"x" * 10_000)
    with started(record(cassette, ECHO_THEN_3, "-q"), **more) as process:
        exchange(process, PING % 1)
        until(lambda: is_kept(cassette, PING % 1), "the message on the tape")
        for _ in range(300):
            exchange(process, line)
        says = receive_line(process.stderr)
        assert b"cannot write" in says and b"the conversation goes on" in says
        exchange(process, PING % 2)
        assert end(process) == 3
        incomplete, summary = receive(process.stderr).decode().splitlines()
    assert "INCOMPLETE: cannot write" in incomplete
    assert f"mcp-tape: {len(frames(cassette))} frames, 0 exchanges" in summary
    (session,) = sessions(cassette)
    assert session.incomplete
    assert stream(cassette, "client").startswith(PING % 1)


@pytest.mark.slow
def test_on_a_full_disk_the_conversation_goes_on_and_the_session_says_incomplete(small_disk: Path) -> None:
    converses_on_a_full_disk(small_disk / "tape.db")


@pytest.mark.slow
def test_at_the_limit_of_a_files_size_the_conversation_goes_on_and_the_session_says_incomplete(tmp_path: Path) -> None:
    limit = 1 << 20
    converses_on_a_full_disk(
        tmp_path / "tape.db", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    )


@pytest.mark.slow
def test_on_a_disk_that_was_full_before_the_conversation_goes_on(small_disk: Path) -> None:
    fill(small_disk)
    done = run(record(small_disk / "tape.db", ECHO_THEN_3, "-q"), PING % 1)
    assert (done.returncode, done.stdout) == (3, PING % 1)
    assert b"cannot write" in done.stderr and b"INCOMPLETE" in done.stderr
    assert b"mcp-tape: nothing was recorded: " in done.stderr and b"no client" not in done.stderr


# kill -9 -----------------------------------------------------------------------------------------------

# Sends without end, and appends everything that it receives to a file at once.
STORM = """
import os, sys, threading
def listen():
    heard = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
    while data := os.read(0, 65536):
        os.write(heard, data)
    os._exit(0)
threading.Thread(target=listen, daemon=True).start()
n = 0
while True:
    lines = b"".join(b'{"jsonrpc":"2.0","method":"storm","params":{"n":%d}}\\n' % i for i in range(n, n + 20))
    n += 20
    while lines:
        lines = lines[os.write(1, lines):]
"""


class Storm:
    """A client that sends and receives without end, and keeps what it receives."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.heard = bytearray()

    def talk(self) -> None:
        n = 0
        while True:
            send(self._process.stdin, b"".join(TOLD % i for i in range(n, n + 20)))
            n += 20

    def listen(self) -> None:
        while data := receive(self._process.stdout, 1):
            self.heard += data + os.read(self._process.stdout.fileno(), 65536)


@pytest.mark.slow(quick=1)
@linux_only
@pytest.mark.parametrize("whom", ["process", "group"])
@pytest.mark.parametrize("seed", range(6))
def test_after_kill_9_everything_received_is_on_the_tape_and_no_process_is_left(
    tmp_path: Path, whom: str, seed: int
) -> None:
    cassette, heard = tmp_path / "tape.db", tmp_path / "heard"
    moment = random.Random(f"{whom} {seed}").choice([1, 1_000, 30_000, 300_000, 1_500_000])
    command = record(cassette, [*python(STORM), str(heard)])
    with started(command, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        storm = Storm(process)
        with in_background(storm.talk), in_background(storm.listen):
            until(lambda: len(storm.heard) >= moment and heard.exists(), "the storm")
            family = children(process.pid)
            assert len(family) == 3
            (os.killpg if whom == "group" else os.kill)(process.pid, signal.SIGKILL)
            assert process.wait(WAIT) == -signal.SIGKILL
    until(lambda: not any(map(alive, family)), "server, writer and watch to end")
    (session,) = sessions(cassette)
    assert session.incomplete == "mcp-tape was killed; what it had passed on by then is here"
    assert stream(cassette, "server").startswith(bytes(storm.heard))
    assert stream(cassette, "client").startswith(heard.read_bytes())
    assert is_one_file(cassette)


@linux_only
def test_a_server_that_clings_to_life_does_not_outlive_a_killed_recording(tmp_path: Path) -> None:
    clinging = """
import os, signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
os.write(1, b"%d\\n" % os.getpid())
while True: signal.pause()
"""
    cassette = tmp_path / "tape.db"
    with started(record(cassette, python(clinging))) as process:
        server = int(receive_line(process.stdout))
        process.kill()
        until(lambda: not alive(server), "the server to end")
    until(lambda: is_recording(cassette) and sessions(cassette)[0].ended_at, "the writer to end")


@pytest.mark.slow(quick=2)
@linux_only
@pytest.mark.parametrize("seed", range(4))
def test_kill_9_while_starting_leaves_a_cassette_that_opens_or_none(tmp_path: Path, seed: int) -> None:
    cassette = tmp_path / "tape.db"
    moment = random.Random(seed).uniform(0.0, 0.3)
    with started(record(cassette, ECHO, "-q"), start_new_session=True) as process:
        send(process.stdin, PING % 1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        family = children(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        heard = receive(process.stdout)
    until(lambda: not any(map(alive, family)), "everybody to end")

    def kept() -> bytes:
        return stream(cassette, "server") if is_recording(cassette) else b""

    # A writer that started after the list of children was made may still be storing.
    until(lambda: kept().startswith(heard), "what was heard to be kept")
