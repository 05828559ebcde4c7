"""Causes of hangs: real servers that die, stay silent, print too much or answer too late, and clients that leave."""

from __future__ import annotations

import json
import os
import signal as signals
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.contracts.reasons import RULES, Reason, reasons
from mcp_tape.record.tape import Tape
from mcp_tape.wire.frames import Frame, LedgerEntry
from tests.support.decks import FACTS, OneSession
from tests.support.http_facts import Http, cassette
from tests.support.messages import call, request, result, tell
from tests.support.reading import GOLDEN, invoke
from tests.support.running import WAIT, frames, python, receive_line, record, send, sessions, started, until

SERVER = python(
    """
import json, os, sys
def say(**members): print(json.dumps({"jsonrpc": "2.0"} | members), flush=True)
late = []
for line in sys.stdin:
    message = json.loads(line)
    what = message.get("params", {}).get("name", message.get("method"))
    if what == "noise": print("Listening on stdio", flush=True)
    if what == "ask": say(id=7, method="roots/list")
    if what == "late": late.append(message["id"])
    if what == "flush": [say(id=number, result={}) for number in late]
    if what == "die": sys.stderr.write("Traceback\\nKeyError: 'token'\\n"); sys.exit(3)
    if what == "quit": say(id=message["id"], result={}); sys.exit(0)
    if what == "kill": os.kill(os.getpid(), 9)
    if what == "end": sys.exit(0)
    is_request = "id" in message and "method" in message
    if what not in ("silent", "late", "end") and is_request: say(id=message["id"], result={})
"""
)


def told(tape: Path, said: Sequence[str], answers: int, *, leave: bool = True) -> list[Reason]:
    """The reasons for a session in which a client sends all of this, reads this many lines, and then perhaps leaves."""
    with started(record(tape, SERVER, "-q")) as process:
        assert process.stdin and process.stdout
        send(process.stdin, "".join(line + "\n" for line in said).encode())
        for _ in range(answers):
            receive_line(process.stdout)
        if leave:
            process.stdin.close()
        process.wait(WAIT)
    return of(tape)


def of(tape: Path, **options: Any) -> list[Reason]:
    with Cassette(tape) as cassette:
        return list(reasons(cassette, [session.id for session in cassette.sessions()], **options))


Control = tuple[str, "str | dict[str, object]", int]  # the sender, a message or an event, and the time
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc).timestamp()


def made(path: Path, *said: Control, is_open: bool = False) -> Path:
    """A session over stdio with these lines and events, in this order."""
    rows: list[tuple[Frame, list[LedgerEntry]]] = []
    kept = Tape(lambda frame, entries: rows.append((frame, entries)), None)
    for who, what, at in said:
        if isinstance(what, str):
            kept.feed("client" if who == "client" else "server", "stdio", what.encode() + b"\n", at)
        else:
            kept.control("client" if who == "client" else "server", "tape" if who == "tape" else "stdio", what, at)
    writer = OneSession(path, FACTS | {"started_at": "2026-01-01T12:00:00Z"})
    writer.append(rows, kept.ledger.facts)
    if not is_open:
        writer.finish({"ended_at": "2026-01-01T12:00:09Z", "incomplete": None})
    writer.close()
    return path


def rules(found: Sequence[Reason]) -> list[tuple[str, int | None]]:
    return [(reason.rule, reason.seq) for reason in found]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.db"


def test_a_session_that_went_well_has_no_reasons(tape: Path) -> None:
    assert told(tape, [call(1, "a"), call(2, "b")], 2) == []


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: Path(path).name)
def test_golden_cassettes_have_none_but_those_that_are_on_them(path: str) -> None:
    assert {reason.rule for reason in of(Path(path))} <= {"noise", "unanswered", "left-first", "given-up", "late"}


def test_a_call_that_was_never_answered_and_a_client_that_left_first(tape: Path) -> None:
    found = told(tape, [call(1, "a"), call(2, "silent")], 1)
    assert [rule for rule, _ in rules(found)] == ["unanswered", "left-first"]
    assert found[0].seq == 2 and found[0].what.startswith("tools/call silent was never answered: ")
    assert found[0].what.endswith("the client left") and "with 1 call" in found[1].what


def test_a_server_that_dies_leaves_its_code_and_last_words(tape: Path) -> None:
    found = told(tape, [call(1, "silent"), call(2, "die")], 0, leave=False)
    assert {rule for rule, _ in rules(found)} == {"unanswered", "died"}
    died = next(reason for reason in found if reason.rule == "died")
    assert "exit code 3" in died.what and died.evidence[-1].endswith("KeyError: 'token'")
    assert all("the server ended with exit code 3" in one.what for one in found if one.rule == "unanswered")


def test_a_signal_is_named(tape: Path) -> None:
    found = told(tape, [call(1, "kill")], 0, leave=False)
    assert "exit code 137 (SIGKILL)" in next(reason.what for reason in found if reason.rule == "died")


def test_a_server_that_ends_without_an_error_while_a_call_waits_has_died_too(tape: Path) -> None:
    assert {"died", "unanswered"} == {rule for rule, _ in rules(told(tape, [call(1, "end")], 0, leave=False))}


@pytest.mark.slow
def test_noise_on_stdout_is_shown(tape: Path) -> None:
    (found,) = told(tape, [call(1, "noise"), call(2, "noise")], 4)
    assert found.rule == "noise" and "2 lines on stdout" in found.what
    assert [line.partition(" ")[2] for line in found.evidence] == ["Listening on stdio"] * 2


def test_an_answer_after_the_client_gave_up_is_late(tape: Path) -> None:
    said = [call(1, "late"), tell("notifications/cancelled", requestId=1), call(2, "flush")]
    (found,) = told(tape, said, 2)
    assert found.rule == "late" and "after the client had given up" in found.what and "#2" in found.evidence[0]


@pytest.mark.slow
def test_a_call_that_was_given_up_and_never_answered(tape: Path) -> None:
    found = told(tape, [call(1, "silent"), tell("notifications/cancelled", requestId=1), call(2, "a")], 1)
    assert rules(found) == [("given-up", 1)] and "tools/call silent after 0." in found[0].what


def test_a_request_of_the_server_that_the_client_never_answers(tape: Path) -> None:
    found = told(tape, [call(1, "ask")], 2)
    assert [rule for rule, _ in rules(found)] == ["unanswered"] and "roots/list of the server" in found[0].what


def test_an_answer_to_a_request_of_the_server_is_none(tape: Path) -> None:
    with started(record(tape, SERVER, "-q")) as process:
        assert process.stdin and process.stdout
        send(process.stdin, call(1, "ask").encode() + b"\n")
        receive_line(process.stdout)
        send(process.stdin, result(7, {}).encode() + b"\n")
        receive_line(process.stdout)
        process.stdin.close()
        process.wait(WAIT)
    assert of(tape) == []


def test_a_slow_start_is_one_by_the_bound_that_is_given(tape: Path) -> None:
    assert told(tape, [request(1, "initialize")], 1) == []
    (found,) = of(tape, slow=1)
    assert found.rule == "slow-start" and "initialize" in found.evidence[0]


def test_a_stream_of_notifications_needs_no_answer(tape: Path) -> None:
    said = request(1, "subscriptions/listen", name="silent")
    assert told(tape, [said], 0) == []


def test_over_http_ending_the_connection_of_a_call_gives_it_up(tmp_path: Path) -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1, "slow"))
        http.abort("client", "post-1")

    (reason,) = of(cassette(tmp_path / "tape.db", talk))
    assert (reason.rule, reason.seq) == ("given-up", 2) and "it ended the connection" in reason.what
    assert reason.evidence == ('#3 {"event":"abort"}',)


def test_over_http_deleting_the_session_or_leaving_its_only_stream_is_leaving(tmp_path: Path) -> None:
    def delete(http: Http) -> None:
        http.post("post-1", call(1, "slow"))
        http.open("delete-2")

    def leave(http: Http) -> None:
        http.open("get-1")
        http.respond("get-1")
        http.post("post-2", call(1, "slow"))
        http.answer("post-2", "", 202)
        http.abort("client", "get-1")

    for name, talk, transport in (("a", delete, "http"), ("b", leave, "sse")):
        found = of(cassette(tmp_path / f"{name}.db", talk, transport=transport))
        assert [reason.rule for reason in found] == ["unanswered", "left-first"]
        assert found[0].what.endswith("the client left")


ASKED: Control = ("client", call(1, "go"), 0)
ANSWERED: Control = ("server", result(1), 1_000_000)
LEFT: Control = ("client", {"event": "close"}, 500_000)
CLOSED: Control = ("server", {"event": "close"}, 600_000)
EXITED: Control = ("server", {"event": "exit", "code": 1}, 601_000)
DONE: Control = ("server", {"event": "exit", "code": 0}, 2_000_000)
QUIT: Control = ("server", {"event": "exit", "code": 0}, 601_000)
ENDED_BY_TERM: Control = ("server", {"event": "exit", "code": 143}, 602_000)
TERM: Control = ("tape", {"event": "signal", "number": 15}, 550_000)


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        # The server first: a client that leaves after that is not to blame.
        ((CLOSED, LEFT, EXITED), {"unanswered": "0.6 s later the server ended with exit code 1", "died": "before"}),
        ((CLOSED, EXITED, LEFT), {"unanswered": "0.6 s later the server ended with exit code 1", "died": "before"}),
        ((EXITED, LEFT), {"unanswered": "0.6 s later the server ended with exit code 1", "died": "before"}),
        ((CLOSED, LEFT), {"unanswered": "0.6 s later the server closed its stdout", "died": "closed its stdout"}),
        (
            (CLOSED, LEFT, DONE),
            {
                "unanswered": "the server closed its stdout",
                "died": "before the client left, and ended with exit code 0 1.4 s later",
            },
        ),
        # The client first. Its call lasts until then, and not until the last line.
        ((LEFT, CLOSED, DONE), {"unanswered": "0.5 s later the client left", "left-first": "with 1 call"}),
        ((LEFT, DONE), {"unanswered": "0.5 s later the client left", "left-first": "with 1 call"}),
        ((LEFT, TERM, CLOSED, ENDED_BY_TERM), {"unanswered": "0.5 s later the client left", "left-first": "1 call"}),
        (
            (LEFT, EXITED),
            {"unanswered": "the client left", "left-first": "1 call", "died": "after the client had left"},
        ),
        ((LEFT, ANSWERED, CLOSED, DONE), {"late": "tools/call go was answered 0.5 s after the client had left"}),
        # A signal stops the recorder; the whole process group may get it, and the server may be faster.
        ((TERM, CLOSED, EXITED), {"unanswered": "0.6 s later SIGTERM stopped", "stopped": "SIGTERM stopped the rec"}),
        ((CLOSED, TERM, ENDED_BY_TERM), {"unanswered": "SIGTERM stopped", "stopped": "with 1 call"}),
        ((CLOSED, ENDED_BY_TERM, TERM), {"unanswered": "SIGTERM stopped", "stopped": "with 1 call"}),
        ((CLOSED, TERM, EXITED), {"unanswered": "SIGTERM", "unknown": "the tape does not show which came first"}),
        # Without an open call, only a server that ends on its own is a reason.
        ((ANSWERED, CLOSED, QUIT), {"died": "the server ended with exit code 0 before the client left"}),
        ((ANSWERED, CLOSED, LEFT, EXITED), {"died": "the server ended with exit code 1 before the client left"}),
        ((ANSWERED, LEFT, CLOSED, DONE), {}),
        ((ANSWERED, TERM, CLOSED, ENDED_BY_TERM), {}),
        ((), {"unanswered": "the recording ends, and does not show why"}),
    ],
)
def test_the_first_end_on_the_tape_shows_which_side_ended_the_session(
    tape: Path, ends: Sequence[Control], found: dict[str, str]
) -> None:
    reasons = {reason.rule: reason.what for reason in of(made(tape, ASKED, *ends))}
    assert reasons.keys() == found.keys()
    assert all(words in reasons[rule] for rule, words in found.items()), reasons


def test_a_client_that_closes_its_input_at_once_waits_for_no_answer_and_has_none_late(tape: Path) -> None:
    assert of(made(tape, ASKED, ("client", {"event": "close"}, 1_000), ANSWERED, CLOSED, DONE)) == []


def test_a_call_of_a_session_that_goes_on_is_none_until_it_is_slow(tape: Path) -> None:
    made(tape, ASKED, is_open=True)
    assert [of(tape, now=at) for at in (NOON + 1, NOON + 4.9)] == [[], []]
    (found,) = of(tape, now=NOON + 29.5)
    assert (found.rule, found.seq) == ("unanswered", 1)
    assert found.what == "tools/call go has no answer 29.5 s later, and the session has not ended"
    assert [one.rule for one in of(tape, now=NOON + 1, slow=500_000)] == ["unanswered"]


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGINT"])
@pytest.mark.slow
def test_a_signal_that_stops_the_recorder_is_on_the_tape(tape: Path, signal: str) -> None:
    with started(record(tape, SERVER, "-q")) as process:
        assert process.stdin and process.stdout
        send(process.stdin, call(1, "a").encode() + b"\n" + call(2, "silent").encode() + b"\n")
        receive_line(process.stdout)
        process.send_signal(getattr(signals, signal))
        process.wait(WAIT)
    found = of(tape)
    assert [reason.rule for reason in found] == ["unanswered", "stopped"]
    assert found[1].what == f"{signal} stopped the recorder, with 1 call without an answer"


@pytest.mark.slow
def test_a_healthy_recording_that_goes_on_is_no_finding(tape: Path) -> None:
    with started(record(tape, SERVER, "-q")) as process:
        assert process.stdin and process.stdout
        send(process.stdin, call(1, "a").encode() + b"\n")
        receive_line(process.stdout)
        until(lambda: tape.exists() and len(frames(tape)) >= 2, "two lines")
        for command in ("why", "doctor"):
            printed = invoke(command, str(tape))
            assert printed.exit_code == 0 and "session 1 has no end yet" in printed.output
        process.stdin.close()
        process.wait(WAIT)
    assert of(tape) == [] and "has no end yet" not in invoke("why", str(tape)).output


@pytest.mark.slow
def test_real_ends_are_read_the_same_in_each_of_many_runs(tmp_path: Path) -> None:
    """Several at once, so that processes overtake each other."""
    with ThreadPoolExecutor(4) as pool:
        for way, wanted in WAYS.items():
            runs = [tmp_path / f"{way}-{number}.db" for number in range(8)]
            for found in pool.map(partial(talk_and_end, way), runs):
                assert {reason.rule for reason in found} == wanted, (way, found)


WAYS = {
    "crash": {"unanswered", "died"},
    "end between calls": {"died"},
    "leave": {"unanswered", "left-first"},
    "stop": {"unanswered", "stopped"},
    "stop the group": {"unanswered", "stopped"},
}


def talk_and_end(way: str, tape: Path) -> list[Reason]:
    """A session that ends in one of these ways, with a client that leaves right after the server."""
    asked = {"crash": "die", "end between calls": "quit"}.get(way, "silent")
    with started(record(tape, SERVER, "-q"), start_new_session=True) as process:
        assert process.stdin and process.stdout
        send(process.stdin, call(1, "a").encode() + b"\n")
        receive_line(process.stdout)
        send(process.stdin, call(2, asked).encode() + b"\n")
        if asked == "silent":  # the server has received it once it answers the next one
            send(process.stdin, call(3, "a").encode() + b"\n")
            receive_line(process.stdout)
        if way == "leave":
            process.stdin.close()
        elif way == "stop":
            process.terminate()
        elif way == "stop the group":
            os.killpg(process.pid, signals.SIGTERM)
        else:
            while process.stdout.readline():
                pass
            process.stdin.close()
        process.wait(WAIT)
    return of(tape)


def test_a_recording_whose_recorder_was_killed_says_so(tape: Path) -> None:
    with started(record(tape, SERVER, "-q")) as process:
        assert process.stdin and process.stdout
        send(process.stdin, call(1, "a").encode() + b"\n")
        receive_line(process.stdout)
        process.kill()
        process.wait(WAIT)
        until(lambda: tape.exists() and [session for session in sessions(tape) if session.ended_at], "its end")
    assert [reason.rule for reason in of(tape)] == ["incomplete"]


def test_the_command_prints_lines_and_json_and_exits_with_1(tape: Path) -> None:
    told(tape, [call(1, "noise"), call(2, "silent")], 2)
    printed = invoke("why", str(tape))
    assert printed.exit_code == 1 and "[noise]" in printed.stdout and "[unanswered]" in printed.stdout
    lines = [json.loads(line) for line in invoke("why", str(tape), "--json").stdout.splitlines()]
    assert {line["rule"] for line in lines} == {"noise", "unanswered", "left-first"}
    assert list(lines[0]) == ["file", "rule", "what", "session", "seq", "evidence"]
    assert invoke("why", str(tape), "--session", "7").exit_code == 3


def test_every_rule_is_in_the_manual() -> None:
    page = (Path(__file__).parents[2] / "docs" / "findings.md").read_text("utf-8")
    for rule, says in RULES.items():
        assert f"| `{rule}` | {says}" in page
