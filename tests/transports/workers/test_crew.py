"""Groups of worker processes: ready, at their end, dead, stuck, and with a parent that is asked to end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.running import WAIT, alive, python, receive, receive_line, run, started, until

BEGIN = """
import os, signal, sys
from mcp_tape.errors import CassetteError
from mcp_tape.transports.workers import crew

def serve(place):
    place.ready()
    place.line.recv(1)

def say(text):
    print(text, file=sys.stderr, flush=True)

def end(work, number=2):
    print(crew.Crew(number, work, say, lambda: say("closing")).run(lambda: print("started", flush=True)), flush=True)
"""


def crew(source: str) -> list[str]:
    return python(f"{BEGIN}\n{source}")


@contextlib.contextmanager
def working(source: str) -> Iterator[subprocess.Popen[bytes]]:
    """A crew whose workers are all ready."""
    with started(crew(source)) as process:
        assert process.stdout and receive_line(process.stdout) == b"started\n"
        yield process


def ended(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """The output of a crew, on stdout and stderr, until its end."""
    assert process.stdout and process.stderr
    return receive(process.stdout).decode(), receive(process.stderr).decode()


def test_results_of_workers_are_collected() -> None:
    with working("end(lambda place: serve(place) or {'number': place.number, 'earlier': place.earlier})") as process:
        process.send_signal(signal.SIGTERM)
        printed, said = ended(process)
        assert process.wait(WAIT) == 0
    assert "(0, {'number': 0, 'earlier': 0})" in printed and "(1, {'number': 1, 'earlier': 0})" in printed
    assert "died=0" in printed and said == "closing\n"


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_as_often_as_it_does() -> None:
    source = """
def work(place):
    place.ready()
    say(f"{os.getpid()} is {place.number}.{place.earlier}")
    place.line.recv(1)
    return "done"
end(work, 1)
"""
    with working(source) as process:
        assert process.stderr
        for earlier in range(3):
            pid, _, place = receive_line(process.stderr).decode().split()
            assert place == f"0.{earlier}"
            os.kill(int(pid), signal.SIGKILL)
            assert b"worker 1 was killed by SIGKILL" in receive_line(process.stderr)
        receive_line(process.stderr)
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == "CrewResults(results=[(0, 'done')], died=3)\n"


def test_a_worker_that_dies_before_it_is_ready_ends_them_all_with_an_error() -> None:
    done = run(crew("end(lambda place: serve(place) if place.number else os._exit(7))"))
    assert b"worker 1 ended with 7 before it could serve" in done.stderr
    assert (done.returncode, b"Ended" in done.stdout) == (1, False)


def test_an_error_of_one_worker_is_the_error_of_all() -> None:
    source = """
def work(place):
    serve(place) if place.number else place.ready()
    raise CassetteError("the tape is torn")
try:
    end(work)
except crew.TapeError as error:
    print(error, error.exit_code)
"""
    done = run(crew(source))
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [b"the tape is torn 3"])


def test_a_bug_is_reported_without_possible_secrets() -> None:
    secret = "ghp_" + "a1B2" * 9
    # In halves, because a traceback prints the lines of a program on the command line.
    done = run(crew(f"end(lambda place: {{}}['{secret[:9]}' '{secret[9:]}'], 1)"))
    assert b"worker 1 failed within mcp-tape, please report it: KeyError: " in done.stderr
    assert secret.encode() not in done.stderr


@pytest.mark.slow
def test_one_that_does_not_end_is_killed() -> None:
    source = "crew._PATIENCE = 0.2\nend(lambda place: place.ready() or signal.pause() or signal.pause())"
    with working(source) as process:
        process.send_signal(signal.SIGTERM)
        printed, said = ended(process)
    assert "CrewResults(results=[], died=2)" in printed
    assert said.count("was killed by SIGKILL: its replayed requests are not counted") == 2


def test_none_outlives_a_parent_that_is_killed() -> None:
    with working("end(lambda place: say(os.getpid()) or serve(place), 3)") as process:
        assert process.stderr
        workers = [int(receive_line(process.stderr)) for _ in range(3)]
        assert all(map(alive, workers))
        process.kill()
        process.wait(WAIT)
        until(lambda: not any(map(alive, workers)), "the workers to end")


@pytest.mark.slow
def test_a_parent_that_ignores_a_signal_goes_on() -> None:
    with working("signal.signal(signal.SIGHUP, signal.SIG_IGN)\nend(serve)") as process:
        process.send_signal(signal.SIGHUP)  # as with nohup
        process.send_signal(signal.SIGINT)
        assert "died=0" in ended(process)[0]
