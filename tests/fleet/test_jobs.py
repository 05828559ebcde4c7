"""Jobs: a function called with many items in several processes, some of which die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tape.fleet.jobs import call_each, cores, parse_jobs
from mcp_tape.transports.task_processes import TaskOutcome
from tests.support.running import WAIT, alive, children, python, started, until
from tests.support.working import double, meet, misbehave, seen_by

OURS = [os.getpid()]


def failures(*what: str, jobs: int = 2) -> list[str]:
    return [outcome.failure for _, outcome in call_each(misbehave, what, jobs)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_outcomes_come_in_the_order_of_the_things(jobs: int) -> None:
    assert list(call_each(double, range(100), jobs)) == [(number, TaskOutcome(2 * number)) for number in range(100)]


def test_without_jobs_there_is_no_other_process() -> None:
    assert [outcome.value for _, outcome in call_each(seen_by, range(2))] == [(0, os.getpid()), (1, os.getpid())]


def test_there_is_no_process_for_nothing() -> None:
    before = children(os.getpid())
    assert list(call_each(double, [], 4)) == []
    assert children(os.getpid()) == before


@pytest.mark.slow
def test_several_work_at_the_same_time(tmp_path: Path) -> None:
    found = [outcome for _, outcome in call_each(meet, [str(tmp_path)] * 2, 2)]
    assert len({outcome.value for outcome in found}) == 2, found


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_an_outcome_and_the_others_go_on(jobs: int) -> None:
    raised, fine, memory, last = failures("raise", "fine", "memory", "last", jobs=jobs)
    assert raised.startswith("ValueError: no such luck (working.py:")
    assert memory.startswith("MemoryError: (working.py:")
    assert fine == last == ""


@pytest.mark.slow
def test_a_process_that_dies_is_an_outcome_and_the_others_go_on() -> None:
    found = failures("kill", "a", "segfault", "b", "exit", "c")
    assert found[1::2] == ["", "", ""]
    assert found[::2] == [
        "its process was killed by signal 9 (SIGKILL)",
        "its process was killed by signal 11 (SIGSEGV)",
        "its process ended with exit code 7",
    ]


@pytest.mark.slow
def test_a_result_that_cannot_be_handed_over_is_an_outcome() -> None:
    unpicklable, large = call_each(misbehave, ["unpicklable", "large"], 2)
    assert "lambda" in unpicklable[1].failure
    assert large[1] == TaskOutcome("x" * 5_000_000)


@pytest.mark.slow
def test_workers_have_nothing_to_read_and_print_to_people(capfd: pytest.CaptureFixture[str]) -> None:
    assert [outcome for _, outcome in call_each(misbehave, ["print", "read"], 2)] == [
        TaskOutcome("print"),
        TaskOutcome("nothing"),
    ]
    assert capfd.readouterr() == ("", "for people\nand more\n")


@pytest.mark.slow
def test_things_are_taken_as_there_is_room(tmp_path: Path) -> None:
    taken = 0

    def things() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    found = call_each(double, things(), 2)
    for number in range(1, 200):
        assert next(found) == (number, TaskOutcome(2 * number))
        assert taken <= number + 40
    found.close()


@pytest.mark.slow
def test_an_iterator_that_is_closed_leaves_no_process() -> None:
    before = children(os.getpid())
    found = call_each(seen_by, range(1000), 2)
    (_, process) = next(found)[1].value
    assert alive(process)
    found.close()
    assert not alive(process)
    assert children(os.getpid()) == before


def test_where_no_process_can_be_started_that_is_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    assert failures("a", "b", "c") == ["no process can be started for it: No such file or directory"] * 3


def test_a_function_that_cannot_be_handed_over_is_an_error_at_once() -> None:
    with pytest.raises((AttributeError, TypeError), match=r"lambda|pickle"):
        next(call_each(lambda item: item, [1], 2))


MAIN = python(
    "import sys; from mcp_tape.fleet.jobs import call_each; from mcp_tape.transports.signals import exit_on_signal;"
    "from tests.support.working import tell_and_wait\n"
    "with exit_on_signal(): list(call_each(tell_and_wait, sys.argv[1:] * 5, 2))"
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_everything(tmp_path: Path, number: int) -> None:
    with started([*MAIN, str(tmp_path)], cwd=Path(__file__).parents[2]) as process:
        until(lambda: len(list(tmp_path.glob("*.told"))) == 2, "two workers")
        pids = [int(pid) for told in tmp_path.glob("*.told") for pid in told.read_text().split()]
        process.send_signal(number)
        process.wait(WAIT)
        until(lambda: not any(map(alive, pids)), "the end of all")
        if number != signal.SIGKILL:
            assert process.returncode == 128 + number
            assert len(list(tmp_path.glob("*.cleaned"))) == 2
            assert process.stderr is not None and process.stderr.read() == b""


def test_jobs_are_a_number_or_as_many_as_cores() -> None:
    assert parse_jobs("3") == 3
    assert parse_jobs("auto") == parse_jobs("0") == cores() >= 1


@pytest.mark.parametrize("text", ["", "-1", "two", "1.5", "٤"])
def test_an_invalid_number_of_jobs_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a number of processes"):
        parse_jobs(text)
