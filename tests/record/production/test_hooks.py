"""A command for each finished cassette: nothing waits for it longer than the time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from itertools import accumulate
from pathlib import Path

import pytest

from mcp_tape.record.production.hooks import AT_ONCE, Hooks, parse
from tests.support.running import WAIT, alive, until


class Desk:
    """A directory with cassettes, and the reports about them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.said: list[str] = []
        self.taken: list[str] = []

    def run(self, *words: str, cassettes: int = 1, seconds: float = WAIT) -> Hooks:
        """Run a command for several files, to the end."""
        hooks = Hooks(words, seconds, self.said.append, self.taken.append)
        for number in range(cassettes):
            (self.place / f"t-{number}.db").write_text(str(number))
            hooks.add(str(self.place / f"t-{number}.db"))
        hooks.finish(lambda: None)
        return hooks

    def fails(self, *words: str, seconds: float = WAIT) -> str:
        """The report of a failing command, without its common part."""
        hooks = self.run(*words, seconds=seconds)
        assert (hooks.done, hooks.failed_count) == (0, 1)
        (said,) = self.said
        return said.removeprefix(f"--on-rotate has failed for {self.place / 't-0.db'}: ")


class Hurried(Hooks):
    """Runs have no time limit, but the wait at the end has none left."""

    @property
    def _seconds(self) -> float:  # type: ignore[override]
        return 0.0 if threading.current_thread() is threading.main_thread() else WAIT

    @_seconds.setter
    def _seconds(self, value: float) -> None:
        pass


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cp {} there/", ("cp", "{}", "there/")),
        ("cp '{}' \"a b\"", ("cp", "{}", "a b")),
        ("sh -c 'gzip < {} > {}.gz'", ("sh", "-c", "gzip < {} > {}.gz")),
    ],
)
def test_a_command_is_split_as_a_shell_splits_it(text: str, words: tuple[str, ...]) -> None:
    assert parse(text) == words


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cp it there", "does not say where the cassette's path goes"),
        ("", "does not say"),
        ("cp '{}", "No closing quotation"),
        ("no-such-command {}", "there is no command 'no-such-command'"),
    ],
)
def test_an_impossible_command_is_refused_at_once(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


def test_each_cassette_is_handed_over_once(desk: Desk) -> None:
    (desk.place / "there").mkdir()
    hooks = desk.run("cp", "{}", str(desk.place / "there"), cassettes=5)
    assert (hooks.done, hooks.failed_count, desk.said) == (5, 0, [])
    assert sorted(path.read_text() for path in (desk.place / "there").iterdir()) == list("01234")


def test_a_path_is_one_word_with_any_characters(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "a b; touch x $(y) 'z'")
    desk.place.mkdir()
    assert desk.run("cp", "{}", "{}.copy").done == 1
    assert {path.name for path in desk.place.iterdir()} == {"t-0.db", "t-0.db.copy"}


def test_a_failure_is_reported_with_its_code_and_its_last_line(desk: Desk) -> None:
    assert desk.fails("sh", "-c", "echo begun; echo broken >&2; exit 3 # {}") == "exit code 3: broken"


def test_a_failure_that_says_nothing_is_reported_too(desk: Desk) -> None:
    assert desk.fails("sh", "-c", "exit 7 # {}") == "exit code 7"


def test_a_run_ended_by_a_signal_has_failed(desk: Desk) -> None:
    assert desk.fails("sh", "-c", "kill -TERM $$ # {}") == "signal 15"


def test_one_that_cannot_be_started_has_failed(desk: Desk) -> None:
    assert desk.fails("/no/such/command", "{}") == "'/no/such/command' cannot be started: No such file or directory"


def test_of_much_output_only_the_last_line_is_kept(desk: Desk) -> None:
    flood = (
        "import sys\nfor _ in range(160): sys.stdout.write('x' * 65535 + '\\n')\nprint('the last')\nsys.exit(2) # {}"
    )
    assert desk.fails(sys.executable, "-c", flood) == "exit code 2: the last"


@pytest.mark.slow
def test_a_last_line_is_cut_where_it_is_long(desk: Desk) -> None:
    assert desk.fails(sys.executable, "-c", "print('x' * 10_000_000 + 'end'); exit(1) # {}").endswith("xxxend")


def test_secrets_in_a_last_line_are_hidden(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-of-the-bucket")
    found = desk.fails("sh", "-c", "echo denied: $AWS_SECRET_ACCESS_KEY; exit 1 # {}")
    assert found == "exit code 1: denied: [redacted:env:AWS_SECRET_ACCESS_KEY]"


def test_one_that_hangs_is_ended_with_all_that_it_has_started(desk: Desk) -> None:
    script = f"sleep 1000 & echo $! > {desk.place}/child; wait # {{}}"
    hooks = Hurried(("sh", "-c", script), WAIT, desk.said.append)
    (desk.place / "t-0.db").touch()
    hooks.add(str(desk.place / "t-0.db"))
    child = desk.place / "child"
    until(lambda: child.exists() and child.read_text().strip(), "the hook has started another")
    hooks.finish(lambda: None)
    until(lambda: desk.said, "a report")
    until(lambda: not alive(int(child.read_text())), "the end of what it has started")
    assert [said.rpartition(": ")[2] for said in desk.said] == ["it was ended"]


@pytest.mark.slow
def test_one_that_takes_too_long_is_ended_while_others_are_recorded(desk: Desk) -> None:
    hooks = Hooks(("sh", "-c", "sleep 1000 # {}"), 0.2, desk.said.append)
    (desk.place / "t-0.db").touch()
    hooks.add(str(desk.place / "t-0.db"))
    until(lambda: desk.said, "a report")
    assert [said.rpartition(": ")[2] for said in desk.said] == ["it took longer than 0.2 s, and was ended"]


@pytest.mark.slow
def test_one_that_closes_its_output_is_waited_for(desk: Desk) -> None:
    done = desk.place / "done"
    assert desk.run("sh", "-c", f"exec >&- 2>&- <&-; sleep 0.2; touch {done} # {{}}").done == 1
    assert done.exists()


@pytest.mark.slow
def test_processes_that_it_leaves_behind_are_not_waited_for(desk: Desk) -> None:
    child = desk.place / "child"
    try:
        assert desk.run("sh", "-c", f"sleep 1000 & echo $! > {child} # {{}}").done == 1
        assert alive(int(child.read_text()))
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(child.read_text()), signal.SIGKILL)


def test_its_input_is_empty(desk: Desk) -> None:
    assert desk.run("sh", "-c", 'test -z "$(cat)" # {}').done == 1


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def test_only_a_few_run_at_once(desk: Desk, gate: Path) -> None:
    log = desk.place / "log"
    hooks = Hooks(("sh", "-c", f"echo + >> {log}; read _ < {gate}; echo - >> {log} # {{}}"), WAIT, desk.said.append)
    for number in range(6):
        (desk.place / f"t-{number}.db").touch()
        hooks.add(str(desk.place / f"t-{number}.db"))
    until(lambda: log.exists() and log.read_text().count("+") == AT_ONCE, "the first ones")
    opened = os.open(gate, os.O_RDWR)
    os.write(opened, b"\n" * 1000)
    hooks.finish(lambda: None)
    os.close(opened)
    steps = [1 if line == "+" else -1 for line in log.read_text().split()]
    assert (hooks.done, hooks.failed_count) == (6, 0)
    assert max(accumulate(steps)) == AT_ONCE and sum(steps) == 0


def test_at_the_end_those_whose_turn_has_not_come_are_reported(desk: Desk) -> None:
    hooks = Hurried(("sh", "-c", "echo {}; sleep 1000"), WAIT, desk.said.append)
    for number in range(AT_ONCE + 2):
        (desk.place / f"t-{number}.db").touch()
        hooks.add(str(desk.place / f"t-{number}.db"))
    until(lambda: len(hooks._running) == AT_ONCE, "the first ones")
    hooks.finish(lambda: None)
    until(lambda: hooks.failed_count == AT_ONCE + 2, "a report for each")
    late = [said for said in desk.said if said.endswith("the recording has ended before its turn came")]
    assert (hooks.done, len(late), len(set(desk.said))) == (0, 2, AT_ONCE + 2)


def test_one_that_fails_is_tried_again_and_only_then_was_taken(desk: Desk) -> None:
    hooks = desk.run("sh", "-c", "test -e {}.tried || { touch {}.tried; exit 1; }", cassettes=5)
    assert (hooks.done, hooks.failed_count) == (5, 0)
    paths = [str(desk.place / f"t-{number}.db") for number in range(5)]
    assert sorted(desk.taken) == paths and len(desk.said) == 5
    assert desk.run("false", "{}", cassettes=5).failed_count == 5 and sorted(desk.taken) == paths
    assert len(desk.said) == 10  # one report each, however many tries


@pytest.mark.slow
def test_at_the_end_they_are_tried_again_until_it_is_in_vain_twice(desk: Desk) -> None:
    """The first run of each cassette fails, and some of the later ones."""
    run = 'n=1; until mkdir "$0/$n" 2>/dev/null; do n=$((n+1)); done; test $n -gt 5 -a $n -ne 10 -a $n -ne 11 # {}'
    log = desk.place / "log"
    log.mkdir()
    hooks = desk.run("sh", "-c", run, str(log), cassettes=5)
    assert (hooks.done, hooks.failed_count) == (5, 0)
    assert sorted(desk.taken) == [str(desk.place / f"t-{number}.db") for number in range(5)]


def test_one_that_is_gone_before_its_turn_is_reported(desk: Desk) -> None:
    hooks = Hooks(("true", "{}"), WAIT, desk.said.append)
    hooks.add(str(desk.place / "gone.db"))
    hooks.finish(lambda: None)
    assert desk.said == [f"--on-rotate has failed for {desk.place / 'gone.db'}: it was removed"]


@pytest.mark.slow
def test_while_it_waits_it_says_that_it_is_alive(desk: Desk) -> None:
    beats: list[int] = []
    hooks = Hooks(("sh", "-c", "sleep 1000 # {}"), 0.1, desk.said.append)
    (desk.place / "t.db").touch()
    hooks.add(str(desk.place / "t.db"))
    hooks.finish(lambda: beats.append(1))
    assert beats
