"""End of file, early leavers and signals pass through as clients and servers expect; no process is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import (
    ECHO,
    WAIT,
    alive,
    children,
    frames,
    full_pipe,
    in_background,
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

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="uses /proc")


# End of file and early leavers -------------------------------------------------------------------------


def test_the_clients_end_of_file_reaches_the_server_and_its_answer_still_arrives(tmp_path: Path) -> None:
    server = python("import sys; asked = sys.stdin.read(); print('after the end:', asked)")
    done = run(record(tmp_path / "tape.db", server), b"hello")
    assert (done.returncode, done.stdout) == (0, b"after the end: hello\n")
    assert stream(tmp_path / "tape.db", "server") == done.stdout


@pytest.mark.slow
def test_a_client_that_stops_reading_ends_a_talking_server_as_it_would_directly(tmp_path: Path) -> None:
    server = python("""
import os, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
while True: os.write(1, b"line\\n" * 1000)
""")
    with started(record(tmp_path / "tape.db", server)) as process:
        assert receive(process.stdout, 5) == b"line\n"
        process.stdout.close()
        assert process.wait(WAIT) == 128 + signal.SIGPIPE
    assert sessions(tmp_path / "tape.db")[0].incomplete is None


def test_a_client_that_stops_reading_can_still_speak(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    server = python("import os, sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())")
    with started(record(tmp_path / "tape.db", [*server, str(heard)])) as process:
        process.stdout.close()
        send(process.stdin, b"still here\n")
        process.stdin.close()
        assert process.wait(WAIT) == 0
    assert heard.read_bytes() == b"still here\n"
    assert stream(tmp_path / "tape.db", "client") == b"still here\n"


@pytest.mark.slow
def test_a_client_that_closes_everything_at_once_leaves_a_whole_tape(tmp_path: Path) -> None:
    with started(record(tmp_path / "tape.db", ECHO)) as process:
        send(process.stdin, b"hello\n")
        assert receive_line(process.stdout) == b"hello\n"
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        assert process.wait(WAIT) == 0
    assert stream(tmp_path / "tape.db", "server") == b"hello\n"
    assert sessions(tmp_path / "tape.db")[0].incomplete is None


def test_a_client_that_closes_stderr_still_gets_the_servers_exit_code(tmp_path: Path) -> None:
    with started(record(tmp_path / "tape.db", python("import sys; sys.stdin.read(); sys.exit(3)"))) as process:
        process.stderr.close()
        process.stdin.close()
        assert process.wait(WAIT) == 3


@pytest.mark.slow
def test_a_client_that_never_reads_stderr_does_not_keep_us_from_ending(tmp_path: Path) -> None:
    with (
        full_pipe() as stderr,
        started(record(tmp_path / "tape.db", python("raise SystemExit(3)")), stderr=stderr) as process,
    ):
        assert process.wait(WAIT) == 3
    assert sessions(tmp_path / "tape.db")[0].incomplete is None


@pytest.mark.slow
def test_a_server_that_closes_its_stdout_but_lives_on_is_heard_no_more_and_still_spoken_to(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    server = """
import os, sys
os.write(1, b"bye\\n")
os.close(1)
open(sys.argv[1], "wb").write(sys.stdin.buffer.read())
"""
    with started(record(tmp_path / "tape.db", [*python(server), str(heard)])) as process:
        assert receive(process.stdout) == b"bye\n"  # the stream ends, though the server is alive
        send(process.stdin, b"still there?\n")
        process.stdin.close()
        assert process.wait(WAIT) == 0
    assert heard.read_bytes() == b"still there?\n"
    assert stream(tmp_path / "tape.db", "client") == b"still there?\n"


@pytest.mark.slow
def test_a_server_that_closes_its_stdin_breaks_the_clients_pipe(tmp_path: Path) -> None:
    server = python("import os, signal; os.close(0); os.write(1, b'deaf\\n'); signal.pause()")
    with started(record(tmp_path / "tape.db", server)) as process:
        assert receive_line(process.stdout) == b"deaf\n"

        def breaks() -> bool:
            try:
                send(process.stdin, b"hello?\n")
            except BrokenPipeError:
                return True
            return False

        until(breaks, "a broken pipe")
        process.terminate()
        assert process.wait(WAIT) == 128 + signal.SIGTERM


@linux_only
@pytest.mark.slow
def test_the_last_output_of_a_server_arrives_however_late_it_is_read(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    server = [*python("import os, sys; os.write(1, b'x' * 150_000); open(sys.argv[1], 'w').close()"), str(gone)]
    with started(record(tmp_path / "tape.db", server)) as process:
        until(gone.exists, "all to be said")
        until(lambda: len(children(process.pid)) <= 2, "the server's end")
        assert receive(process.stdout) == b"x" * 150_000
        assert process.wait(WAIT) == 0


@linux_only
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_server_whose_client_has_a_full_disk_ends_by_itself(tmp_path: Path, stream: str) -> None:
    server = ["sh", "-c", "echo one >&2; echo one; read go; echo two >&2; echo two; exit 3"]
    with open("/dev/full", "wb") as full, started(record(tmp_path / "tape.db", server), **{stream: full}) as process:
        send(process.stdin, b"go on\n")
        if stream == "stdout":
            assert b"stdout cannot be written (No space left on device)" in receive(process.stderr)
        assert process.wait(WAIT) == 3
    assert sorted(frame.text for frame in frames(tmp_path / "tape.db") if frame.kind != "control") == [
        b"go on", b"one", b"one", b"two", b"two"
    ]  # fmt: skip


@pytest.mark.slow
def test_a_server_inherits_descriptors_of_its_client_and_no_other_process_holds_them(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    server = [*python(f"import os; os.write({writer}, b'here'); os.close({writer}); os.read(0, 1)")]
    with started(record(tmp_path / "tape.db", server), pass_fds=[writer]) as process:
        os.close(writer)
        assert receive(reader) == b"here"  # the stream ends, though all of them are alive
        process.stdin.close()
        assert process.wait(WAIT) == 0
    os.close(reader)


# Grandchildren -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def gate(path: Path) -> Iterator[Path]:
    """A named pipe at which a process can wait until another one writes; opened on exit in any case."""
    os.mkfifo(path)
    yield path
    with contextlib.suppress(OSError):  # no process is waiting
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


# The server starts a grandchild, which shares its pipes, and ends. argv: gate, file for the pid, and "done".
GRANDCHILD = """
import os, subprocess, sys
gate, pid, done = sys.argv[1:]
grandchild = subprocess.Popen([sys.executable, "-c", '''
import os, sys
gate, done = sys.argv[1:]
os.write(1, b"grandchild\\\\n")
os.write(2, b"said\\\\n")
open(gate).read()
try:
    os.write(1, b"too late\\\\n")
    os.write(2, b"too late\\\\n")
except OSError:
    pass
open(done, "w").close()
''', gate, done])
open(pid, "w").write(str(grandchild.pid))
os.write(1, b"server\\n")
os.read(0, 1)
"""


@pytest.mark.slow
def test_a_grandchild_that_holds_the_pipes_does_not_hold_us(tmp_path: Path) -> None:
    cassette, pid = tmp_path / "tape.db", tmp_path / "pid"
    with gate(tmp_path / "gate") as wait_here:
        server = [*python(GRANDCHILD), str(wait_here), str(pid), str(tmp_path / "done")]
        with started(record(cassette, server, "-q")) as process:
            got = receive(process.stdout, len(b"server\ngrandchild\n"))
            assert sorted(got.splitlines()) == [b"grandchild", b"server"]
            process.stdin.close()
            assert process.wait(WAIT) == 0
            assert alive(int(pid.read_text()))
            assert receive(process.stderr) == b"said\n"
    assert stream(cassette, "server") == got
    assert sessions(cassette)[0].incomplete is None


@linux_only
@pytest.mark.slow
def test_output_after_the_end_of_the_recording_is_not_passed_on(tmp_path: Path) -> None:
    cassette, pid, done = tmp_path / "tape.db", tmp_path / "pid", tmp_path / "done"
    with gate(tmp_path / "gate") as wait_here:
        server = [*python(GRANDCHILD), str(wait_here), str(pid), str(done)]
        with started(record(cassette, server, "-q")) as process:
            got = receive(process.stdout, len(b"server\ngrandchild\n"))
            writer = writer_of(process.pid, cassette)
            os.kill(writer, signal.SIGSTOP)  # delays the end
            try:
                process.stdin.close()
                # After everything is drained, only the child that guards the process group is left.
                until(lambda: list(children(process.pid)) == [writer], "the end of the conversation")
                wait_here.write_text("go on")
                until(done.exists, "the grandchild to speak too late")
            finally:
                os.kill(writer, signal.SIGCONT)
            assert receive(process.stdout) == b""
            assert receive(process.stderr) == b"said\n"
            assert process.wait(WAIT) == 0
    assert stream(cassette, "server") == got


# Signals -----------------------------------------------------------------------------------------------

# Counts its signals in a file, and takes 600 ms to end after the first.
COUNTING = """
import os, signal, sys, threading
counted = []
def count(number, _):
    os.write(log, b"%d\\n" % number)
    counted.append(number)
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, count)
os.write(1, b"ready\\n")
never = threading.Event()
while not counted: never.wait(0.05)
never.wait(0.4)
os.write(1, b"bye\\n")
os._exit(7)
"""
IGNORING = """
import os, signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.write(1, b"ready\\n")
while True: signal.pause()
"""
OBEYING = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL); os.write(1, b'ready\\n'); signal.pause()"
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
whom = pytest.mark.parametrize("whom", ["process", "group"])


def heed_interrupts() -> None:
    """Reset ignored signals, inherited from tests that were started in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def recording(cassette: Path, server: list[str], *options: str, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A recording in its own process group, once its server is ready."""
    more = {"preexec_fn": heed_interrupts} | more
    with started(record(cassette, server, *options), start_new_session=True, **more) as process:
        assert receive_line(process.stdout) == b"ready\n"
        yield process


def signal_to(whom: str, process: subprocess.Popen[bytes], number: int) -> None:
    if whom == "group":
        os.killpg(process.pid, number)
    else:
        os.kill(process.pid, number)


@pytest.mark.slow
@whom
@pytest.mark.parametrize("number", SIGNALS)
def test_a_server_gets_a_signal_once_and_may_take_its_time(tmp_path: Path, whom: str, number: signal.Signals) -> None:
    cassette, log = tmp_path / "tape.db", tmp_path / "log"
    with recording(cassette, [*python(COUNTING), str(log)]) as process:
        signal_to(whom, process, number)
        assert receive(process.stdout) == b"bye\n"
        assert process.wait(WAIT) == 7
    assert log.read_text() == f"{int(number)}\n"
    (session,) = sessions(cassette)
    assert (session.exit_code, session.incomplete) == (7, None)


@pytest.mark.slow(quick=1)
@whom
@pytest.mark.parametrize("number", SIGNALS)
def test_a_server_that_obeys_ends_with_that_signal(tmp_path: Path, whom: str, number: signal.Signals) -> None:
    with recording(tmp_path / "tape.db", python(OBEYING)) as process:
        signal_to(whom, process, number)
        assert process.wait(WAIT) == 128 + number
    assert sessions(tmp_path / "tape.db")[0].exit_code == 128 + number


@pytest.mark.slow
@whom
def test_a_server_that_ignores_the_signal_is_killed(tmp_path: Path, whom: str) -> None:
    with recording(tmp_path / "tape.db", python(IGNORING)) as process:
        signal_to(whom, process, signal.SIGTERM)
        assert process.wait(WAIT) == 128 + signal.SIGKILL
    (session,) = sessions(tmp_path / "tape.db")
    assert (session.exit_code, session.incomplete) == (128 + signal.SIGKILL, None)


@pytest.mark.slow
def test_different_signals_are_each_passed_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with recording(tmp_path / "tape.db", [*python(COUNTING), str(log)]) as process:
        signal_to("process", process, signal.SIGINT)
        signal_to("process", process, signal.SIGTERM)
        assert process.wait(WAIT) == 7
    assert sorted(map(int, log.read_text().split())) == [signal.SIGINT, signal.SIGTERM]


# Logs the numbers of all its signals, and ends on SIGTERM.
LOGGING = """
import os, signal, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(number, _):
    os.write(log, b"%d\\n" % number)
    if number == signal.SIGTERM: os._exit(7)
for number in map(int, sys.argv[2:]):
    signal.signal(number, note)
os.write(1, b"ready\\n")
while True: signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="has real-time signals")
@pytest.mark.slow
def test_every_other_signal_is_passed_on_and_ends_no_process_of_ours(tmp_path: Path) -> None:
    log = tmp_path / "log"
    others = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGALRM, signal.SIGWINCH, signal.SIGCONT]
    others += [signal.SIGABRT, signal.SIGPROF, signal.SIGURG, signal.SIGIO, signal.SIGRTMIN, signal.SIGRTMAX]
    numbers = [str(int(number)) for number in (*others, signal.SIGTERM)]
    with recording(tmp_path / "tape.db", [*python(LOGGING), str(log), *numbers]) as process:
        for so_far, number in enumerate(others, 1):
            process.send_signal(number)
            until(lambda so_far=so_far: log.read_text().split() == numbers[:so_far], f"signal {number}")  # type: ignore[misc]
        os.killpg(process.pid, signal.SIGUSR1)  # must not affect the next signal
        process.terminate()
        assert process.wait(WAIT) == 7
    assert log.read_text().split()[-1] == numbers[-1]


@pytest.mark.slow
def test_a_signal_is_not_sent_again_with_the_next_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    numbers = [str(int(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    with recording(tmp_path / "tape.db", [*python(LOGGING), str(log), *numbers]) as process:
        process.send_signal(signal.SIGINT)
        until(lambda: log.read_text() or process.poll() is not None, "the first signal")
        process.terminate()
        assert process.wait(WAIT) in (7, 128 + signal.SIGKILL)  # killed, if the machine is very slow
    assert log.read_text().split() in (numbers, numbers[:1])


@pytest.mark.slow
def test_a_recording_that_is_immune_to_hangup_stays_so(tmp_path: Path) -> None:
    def immune() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with recording(
        tmp_path / "tape.db", python(f"print('ready', flush=True)\n{ECHO[-1]}"), preexec_fn=immune
    ) as process:
        signal_to("group", process, signal.SIGHUP)
        send(process.stdin, b"still there?\n")
        assert receive_line(process.stdout) == b"still there?\n"
        process.stdin.close()
        assert process.wait(WAIT) == 0


@pytest.mark.slow
def test_after_a_stop_signal_we_do_not_wait_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    server = python("""
import os
os.write(1, b"ready\\n")
while True: os.write(1, b"x" * 65535 + b"\\n")
""")
    cassette = tmp_path / "tape.db"
    with recording(cassette, server) as process:
        until(lambda: is_filling(process.stdout.fileno()), "a flood that nobody reads")
        process.terminate()
        assert process.wait(WAIT) == 128 + signal.SIGTERM
        assert stream(cassette, "server").startswith(b"ready\n" + receive(process.stdout))


def is_filling(reader: int) -> bool:
    import fcntl
    import struct
    import termios

    waiting = struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, b"\0\0\0\0"))[0]
    return bool(waiting >= 32768)


@linux_only
@pytest.mark.slow
def test_after_a_stop_signal_we_do_not_wait_for_a_talking_grandchild(tmp_path: Path) -> None:
    flood = "import os, threading\nwhile not threading.Event().wait(0.01): os.write(1, b'on and on\\\\n')"
    server = python(f"""
import os, signal, subprocess, sys
os.write(1, b"ready\\n")
subprocess.Popen([sys.executable, "-c", '''{flood}'''])
signal.pause()
""")
    with recording(tmp_path / "tape.db", server, "-q") as process, in_background(lambda: receive(process.stdout)):
        process.terminate()
        assert process.wait(WAIT) == 128 + signal.SIGTERM
        # the grandchild's pipes are closed, and it ends


@pytest.mark.slow
@linux_only
def test_after_a_stop_signal_with_all_passed_on_the_writer_finishes_alone(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    with recording(cassette, python("import os; os.write(1, b'ready\\n'); os.read(0, 1); os._exit(3)")) as process:
        writer = writer_of(process.pid, cassette)
        os.kill(writer, signal.SIGSTOP)
        try:
            process.stdin.close()
            until(lambda: list(children(process.pid)) == [writer], "the end of the conversation")
            until(lambda: process.poll() is not None or process.terminate(), "us to leave")
            assert process.returncode == 3
            assert b"INCOMPLETE" not in receive(process.stderr)  # we did not give up on it
        finally:
            os.kill(writer, signal.SIGCONT)
        until(lambda: not alive(writer), "the writer to finish")
    (session,) = sessions(cassette)
    assert (session.exit_code, session.incomplete) == (3, None)


@linux_only
@pytest.mark.slow
def test_no_process_is_left_when_a_recording_ends(tmp_path: Path) -> None:
    cassette = tmp_path / "tape.db"
    with recording(cassette, python(f"print('ready', flush=True)\n{ECHO[-1]}")) as process:
        writer_of(process.pid, cassette)
        family = children(process.pid)
        assert len(family) == 3  # server, writer, and the guard of the process group
        process.stdin.close()
        assert process.wait(WAIT) == 0
    assert not any(map(alive, family))


@pytest.mark.slow
def test_a_parent_that_ignores_its_children_changes_nothing(tmp_path: Path) -> None:
    ignoring = (
        "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execv(sys.argv[1], sys.argv[1:])"
    )
    server = python("import sys; sys.stdout.write(sys.stdin.readline()); sys.exit(7)")
    command = [*python(f"import os, signal, sys; {ignoring}"), *record(tmp_path / "tape.db", server)]
    done = subprocess.run(command, input=b"asked\n", capture_output=True, timeout=WAIT)
    assert (done.returncode, done.stdout) == (7, b"asked\n"), done.stderr
    (session,) = sessions(tmp_path / "tape.db")
    assert (session.exit_code, session.incomplete) == (7, None)
