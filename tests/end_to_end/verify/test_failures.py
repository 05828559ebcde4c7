"""Servers that crash, hang, flood or never start: each is reported, and nothing waits for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.errors import ServerError
from tests.servers.moody import BIG
from tests.support.decks import alter
from tests.support.many import comparison
from tests.support.running import MCP_TAPE, alive, python, run
from tests.support.verifying import command, exchanges, moody, moody_tape, play, words

SOON = 2  # seconds for an answer that is not held back, even on a busy machine


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return moody_tape(tmp_path_factory.mktemp("tape") / "tape.db")


def answered(path: str) -> list[str]:
    """The texts that the server sent on request."""
    calls = [answer for method, _, answer in exchanges(path) if method == "tools/call" and answer]
    return [words(answer) for answer in calls]


@pytest.mark.slow
def test_a_crash_is_reported_with_the_last_stderr_of_the_server(tape: Path, tmp_path: Path) -> None:
    done = play(tape, tmp_path / "new", moody("crash"))
    (failure,) = done.failures
    assert failure.kind == "crashed"
    assert failure.message == "the server ended with exit code 3 before it answered tools/call say"
    assert failure.stderr == ("about to", "fall over")
    assert answered(done.new_path) == ["one"]


@pytest.mark.slow
def test_the_stderr_of_a_server_is_reported_without_its_secrets(tape: Path, tmp_path: Path) -> None:
    loud = python("import os, sys; sys.exit('password=' + os.environ['HOME'] + ' ghp_' + 'a1B2' * 9)")
    (failure,) = play(tape, tmp_path / "new", loud).failures
    assert failure.stderr[-1].endswith(" [redacted:shape:github]")


@pytest.mark.slow
def test_a_crash_is_no_traceback_on_the_command_line(tape: Path) -> None:
    code, out, err = command(str(tape), "--", *moody("crash"))
    assert code == 1
    assert "server-crashed" in out
    assert "exit code 3" in err and "fall over" in err
    assert "Traceback" not in out + err


BADLY = python("import sys; from tests.servers.moody import main; main('good'); sys.exit('kaboom')")


@pytest.mark.slow
def test_a_server_that_fails_after_its_last_answer_is_reported(tape: Path, tmp_path: Path) -> None:
    (failure,) = play(tape, tmp_path / "new", BADLY).failures
    assert failure.kind == "exit code"
    assert failure.message.startswith("the server ended with exit code 1 after its last answer")
    assert failure.stderr == ("kaboom",)


def accepting(place: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Verify, accept everything, and verify again: the exit code and the report."""
    seen = comparison(command("tape.db", "--json", *words)[1])
    (place / ".mcp-tape-ignore").write_text("\n".join(change["fingerprint"] for change in seen["changes"]))
    code, out, _ = command("tape.db", "--json", *words)
    return code, comparison(out)


@pytest.mark.slow
def test_an_exit_code_after_the_last_answer_is_a_warning_and_can_be_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.chdir(tmp_path)
    tape = moody_tape(tmp_path / "tape.db", "one")
    code, out, _ = command(str(tape), "--json", "--", *BADLY)
    assert code == 0
    assert [(one["rule"], one["level"], one["after"]) for one in comparison(out)["changes"]] == [
        ("server-exit-code-changed", "warn", 1)
    ]
    assert (tmp_path / "tape.db.new").exists()
    pending = json.loads(run([*MCP_TAPE, "review", "--json"], cwd=tmp_path).stdout)  # the same changes, to decide on
    assert [one["fingerprint"] for one in pending["changes"]] == [comparison(out)["changes"][0]["fingerprint"]]
    code, report = accepting(tmp_path, "--fail-on", "warn", "--", *BADLY)
    assert (code, report["changes"], report["unknown"]) == (0, [], [])


@pytest.mark.slow
def test_an_accepted_crash_stays_red_and_the_report_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.chdir(tmp_path)
    moody_tape(tmp_path / "tape.db", "one", "two", "three")
    code, report = accepting(tmp_path, "--", *moody("crash"))
    assert (code, report["changes"]) == (1, [])
    assert [entry["why"] for entry in report["unknown"] if entry["grave"]] == [
        "NEW: the server ended with exit code 3 before it answered tools/call say; "
        "its further answers were not verified"
    ]


@pytest.mark.slow
def test_each_kind_of_crash_has_its_own_fingerprint(tape: Path) -> None:
    prints = set()
    for mood in ("crash", "exit"):
        _, out, _ = command(str(tape), "--json", "--", *moody(mood))
        prints |= {one["fingerprint"] for one in comparison(out)["changes"] if one["rule"] == "server-crashed"}
    assert len(prints) == 2


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize("was", ["1", "143", "NULL"])
def test_a_server_that_ends_badly_is_no_news_where_it_was_not_known_to_end_well(tmp_path: Path, was: str) -> None:
    tape = moody_tape(tmp_path / "tape.db", "one")
    alter(tape, f"UPDATE sessions SET exit_code = {was}")
    assert play(tape, tmp_path / "new", BADLY).failures == ()


@pytest.mark.slow
def test_a_server_that_exits_at_once_is_reported(tape: Path, tmp_path: Path) -> None:
    (failure,) = play(tape, tmp_path / "new", moody("exit")).failures
    assert failure.message == "the server ended with exit code 1 before it answered initialize"
    assert failure.stderr == ("no configuration",)


@pytest.mark.slow
def test_a_server_that_cannot_be_started_is_reported_with_exit_code_4(tape: Path, tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="there is no command 'no-such-server'"):
        play(tape, tmp_path / "new", ["no-such-server"])
    code, out, err = command(str(tape), "--", "no-such-server")
    assert (code, out) == (4, "")
    assert "there is no command" in err


@pytest.mark.slow
def test_a_call_that_is_not_answered_is_given_up_and_the_play_goes_on(tape: Path, tmp_path: Path) -> None:
    done = play(tape, tmp_path / "new", moody("stuck"), timeout=SOON)
    (failure,) = done.failures
    assert (failure.kind, failure.message) == ("unanswered", f"no answer within {SOON} s")
    assert answered(done.new_path) == ["one", "three"]


@pytest.mark.slow
def test_a_server_that_no_longer_answers_is_left_after_two_calls(tape: Path, tmp_path: Path) -> None:
    done = play(tape, tmp_path / "new", moody("hang"), timeout=0.5)
    assert [failure.kind for failure in done.failures] == ["unanswered", "unanswered", "hung"]
    assert [method for method, *_ in exchanges(done.new_path)] == ["initialize", "tools/list", "tools/call"]


@pytest.mark.slow
def test_a_server_that_does_not_answer_the_handshake_is_left_at_once(tape: Path, tmp_path: Path) -> None:
    done = play(tape, tmp_path / "new", python("import sys; sys.stdin.read()"), timeout=0.5, starting=0.5)
    assert [failure.kind for failure in done.failures] == ["unanswered", "hung"]
    assert [method for method, *_ in exchanges(done.new_path)] == ["initialize"]


@pytest.mark.slow
def test_a_flood_of_notifications_does_not_hold_up_the_play(tape: Path, tmp_path: Path) -> None:
    done = play(tape, tmp_path / "new", moody("flood"))
    assert done.failures == ()
    assert answered(done.new_path) == ["one", "two", "three"]


@pytest.mark.slow
def test_a_flood_is_no_answer(tape: Path, tmp_path: Path) -> None:
    done = play(tape, tmp_path / "new", moody("flood_for_ever"), timeout=SOON)
    assert [failure.kind for failure in done.failures] == ["unanswered", "unanswered"]


@pytest.mark.slow
def test_a_large_answer_is_read_whole(tape: Path, tmp_path: Path) -> None:
    done = play(tape, tmp_path / "new", moody("big"))
    assert [len(said) for said in answered(done.new_path)] == [3, BIG, 5]


@pytest.mark.slow
def test_a_server_that_does_not_end_is_ended(tape: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    tell = f"import os; open({str(pid)!r}, 'w').write(str(os.getpid()))"
    deaf = f"{tell}; from tests.servers.moody import main; main('deaf')"
    done = play(tape, tmp_path / "new", [MCP_TAPE[0], "-c", deaf])  # not forked: the signals are for it
    assert done.failures == ()
    assert answered(done.new_path) == ["one", "two", "three"]
    assert not alive(int(pid.read_text()))


@pytest.mark.slow
def test_missing_unsolicited_messages_hold_up_nothing(tape: Path, tmp_path: Path) -> None:
    done = play(tape, tmp_path / "new", moody("silent"), timeout=SOON)
    assert done.failures == ()
    assert answered(done.new_path) == ["one", "two", "three"]


@pytest.mark.slow
def test_failures_are_in_the_json_too(tape: Path) -> None:
    code, out, _ = command(str(tape), "--json", "--timeout", "0.5", "--", *moody("stuck"))
    assert code == 1
    assert [change["rule"] for change in comparison(out)["changes"]][:1] == ["call-unanswered"]
