"""Linux's own calls switched off, as on macOS: the rest goes on without them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.system import posix_calls, posix_processes
from tests.support.running import ECHO, python, run

# Runs the command line as on a system without /proc, parent-death signals and SO_PEERCRED.
ELSEWHERE = """
import signal, sys
from mcp_tape.system import posix_calls, posix_processes
posix_calls.HAS_PROC = posix_calls.SHARES_PORTS = posix_processes.IS_LINUX = False
posix_processes.original_environment = lambda: None
del signal.sigwaitinfo
import _signal
del _signal.sigwaitinfo
from mcp_tape.__main__ import main
main()
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posix_processes, "IS_LINUX", False)
    monkeypatch.setattr(posix_calls, "HAS_PROC", False)


@pytest.mark.usefixtures("elsewhere")
def test_a_server_is_started_without_a_signal_at_our_death() -> None:
    assert posix_processes.die_with_parent() is None
    child = posix_processes.Child([sys.executable, "-c", "raise SystemExit(5)"], None, None)
    child.wait()
    assert child.returncode == 5
    for stream in (child.stdin, child.stdout, child.stderr):
        os.close(stream)


@pytest.mark.usefixtures("elsewhere")
def test_a_writer_whose_work_is_not_known_takes_everything() -> None:
    def write(reader: int, status: int) -> None:
        while data := os.read(reader, 1 << 16):
            os.write(status, data)

    writer = posix_processes.WriterProcess(write)
    assert writer.put(b"head ", b"and data\n") == 14
    assert writer.processor_time() is None
    os.close(writer.pipe)
    with open(writer.status, "rb") as status:
        assert status.read() == b"head and data\n"
    writer.wait()


@pytest.mark.usefixtures("elsewhere")
def test_the_process_at_the_other_end_of_a_connection_is_not_named() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert posix_processes.peers(one) == []


def test_a_signal_is_awaited_without_its_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(posix_processes.signal, "sigwaitinfo")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)  # other threads do not block it
        assert posix_processes.next_signal({signal.SIGUSR1}) == (signal.SIGUSR1, False)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.slow
def test_a_conversation_is_recorded_and_replayed_there(tmp_path: Path) -> None:
    tape, said = tmp_path / "tape.db", b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    done = run([*python(ELSEWHERE), "record", "-o", str(tape), "-q", "--", *ECHO], said)
    assert (done.returncode, done.stdout) == (0, said)
    with Cassette(str(tape)) as cassette:
        assert [session.exit_code for session in cassette.sessions()] == [0]
    assert run([*python(ELSEWHERE), "replay", str(tape), "-q"], said).returncode in (0, 1)
