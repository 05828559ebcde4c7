"""`mcp-tape replay` as a process: the recorded server, byte for byte, for any client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.options import REPLAY, OptionValues, words_for
from tests.support.decks import CONCURRENT, alter, make_cassette
from tests.support.forked import start
from tests.support.messages import call, lines, progress, request, result, tell
from tests.support.running import MCP_TAPE, WAIT, receive_line, run, send, started

CASSETTES = Path(__file__).parents[3] / "cassettes"


def replay(tape: Path, *words: str, **options: Any) -> list[str]:
    return [*MCP_TAPE, "replay", str(tape), *words, *words_for(REPLAY, OptionValues(**options))]


def report(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def asked_of(tape: Path) -> bytes:
    done = run([*MCP_TAPE, "convert", str(tape), "--to", "raw", "--side", "client"])
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["everything", "noisy", "modern", "batch", "cancelled"])
def test_twenty_replays_of_one_client_script_give_the_same_bytes(name: str) -> None:
    tape = CASSETTES / f"{name}.db"
    script = asked_of(tape)
    replays = [start(replay(tape, "-q"), stdin=-1, stdout=-1, stderr=-1) for _ in range(20)]
    outputs = {process.communicate(script, timeout=WAIT)[0] for process in replays}
    assert len(outputs) == 1
    assert outputs.pop()


def test_a_recording_that_ends_before_an_answer_is_reported_like_a_miss(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [("client", call(1))])
    done = run(replay(tape, "--report", str(tmp_path / "report.jsonl")), lines(call(7)))
    assert done.returncode == 1
    assert "the recording ends before the answer: #1 in " in done.stderr.decode()
    assert "0 played, 1 missed" in done.stderr.decode()
    told = [(line["what"], line["id"], line["seq"]) for line in report(tmp_path / "report.jsonl")]
    assert told == [("played", 7, 1), ("miss", 7, 1)]


def test_how_the_input_is_cut_up_makes_no_difference(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    script = lines(call(2, n=2), call(1, n=1))
    at_once = run(replay(tape), script).stdout
    with started(replay(tape)) as process:
        assert process.stdin and process.stdout
        for at in range(len(script)):
            os.write(process.stdin.fileno(), script[at : at + 1])
        process.stdin.close()
        assert process.stdout.read() == at_once
    assert at_once == lines(result(2, "two"), result(1, "one"))


def test_a_line_end_is_the_recorded_one(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", result(1) + "\r")])
    assert run(replay(tape), lines(call(1))).stdout == result(1).encode() + b"\r\n"


PARTING: list[Any] = [
    ("client", call(1, n=1)), ("server", result(1)), ("client", call(2, n=2)), ("server", result(2)), ("server", "bye"),
]  # fmt: skip


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ([call(1, n=1), call(2, n=2)], [result(1), result(2), "bye"]),
        ([call(2, n=2), call(1, n=1)], [result(2), "bye", result(1)]),
        ([call(2, n=2), request(3, "ping")], [result(2), "bye", '{"jsonrpc":"2.0","id":3,"result":{}}']),
    ],
)
def test_noise_without_a_line_end_is_the_last_or_gets_one(tmp_path: Path, asked: list[str], written: list[str]) -> None:
    tape = make_cassette(tmp_path / "tape.db", PARTING)
    alter(tape, "UPDATE facts SET eol = '' WHERE id & 4294967295 = 5")
    expected = "\n".join(written) + ("" if written[-1] == "bye" else "\n")
    assert run(replay(tape), lines(*asked)).stdout.decode() == expected
    with started(replay(tape)) as process:  # the second request follows the first answer
        assert process.stdin and process.stdout
        send(process.stdin, lines(asked[0]))
        first = receive_line(process.stdout)
        send(process.stdin, lines(asked[1]))
        process.stdin.close()
        assert (first + process.stdout.read()).decode() == expected


def test_a_line_that_was_recorded_in_pieces_is_written_as_one(tmp_path: Path) -> None:
    said: list[Any] = [("client", call(1)), *[("server", piece) for piece in ("no ", "message ", "at all")]]
    tape = make_cassette(tmp_path / "tape.db", [*said, ("server", result(1))])
    alter(tape, "UPDATE facts SET eol = '' WHERE id & 4294967295 IN (2, 3)")
    assert run(replay(tape), lines(call(1))).stdout == lines("no message at all", result(1))


def test_a_last_request_without_a_newline_is_answered(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", result(1))])
    assert run(replay(tape), call(1).encode()).stdout == lines(result(1))


@pytest.mark.slow
def test_a_client_that_sends_everything_before_it_reads_gets_everything(tmp_path: Path) -> None:
    count, payload = 3000, "x" * 500
    said = [turn for n in range(count) for turn in (("client", call(n, n=n)), ("server", result(n, payload)))]
    tape = make_cassette(tmp_path / "tape.db", said)  # type: ignore[arg-type]
    script = lines(*(call(n, n=n) for n in range(count)))
    with started(replay(tape)) as process:
        assert process.stdin and process.stdout
        writer = threading.Thread(target=lambda: (process.stdin.write(script), process.stdin.close()))  # type: ignore[union-attr]
        writer.start()
        writer.join(WAIT)  # it can write everything before anything is read
        assert not writer.is_alive()
        assert process.stdout.read().count(b"\n") == count


@pytest.mark.slow
def test_a_huge_answer_comes_whole(tmp_path: Path) -> None:
    big = result(1, "y" * 20_000_000)
    tape = make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", big)])
    assert run(replay(tape), lines(call(1))).stdout == lines(big)


def test_garbage_of_the_client_is_passed_over(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", result(1))])
    script = b"\xff\xfe\n\n{oops\n[]\n[1]\nnull\n" + lines(call(1))
    done = run(replay(tape), script)
    assert (done.stdout, done.returncode) == (lines(result(1)), 0)


@pytest.mark.parametrize("member", ['"method":"\\ud800"', '"method":"tools/call","params":{"name":"\\ud800"}'])
def test_half_a_character_in_a_request_is_a_miss_like_any_other(tmp_path: Path, member: str) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    done = run(replay(tape), lines(f'{{"jsonrpc":"2.0","id":1,{member}}}', call(1, n=1)))
    first, second = done.stdout.splitlines()
    assert json.loads(first)["error"]["code"] in (-32010, -32601)
    assert second + b"\n" == lines(result(1, "one"))
    assert b"Traceback" not in done.stderr


def test_the_report_grows_during_the_replay(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    log = tmp_path / "report.jsonl"
    with started(replay(tape, "--report", str(log), "--run", "r1")) as process:
        assert process.stdin and process.stdout
        process.stdin.write(lines(call(7, n=1), call(8, n=3)))
        for _ in range(2):
            assert process.stdout.readline()
        process.kill()  # earlier facts are not lost
        process.wait(WAIT)
    played, miss = report(log)
    assert (played["what"], played["method"], played["name"], played["id"], played["seq"]) == (
        "played", "tools/call", "echo", 7, 1,
    )  # fmt: skip
    assert (miss["what"], miss["id"]) == ("miss", 8)
    assert {row["pid"] for row in (played, miss)} == {process.pid}
    assert {row["run"] for row in (played, miss)} == {"r1"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full disk to write to")
def test_an_unwritable_report_is_reported_once_and_the_replay_goes_on(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", result(1, "one"))])
    done = run(replay(tape, "--report", "/dev/full", "-q"), lines(call(1), call(2), call(3)))
    assert done.stdout.splitlines()[0].decode() == result(1, "one") and len(done.stdout.splitlines()) == 3
    assert done.returncode == 1 and done.stderr.count(b"the report is not whole, as it cannot be written") == 1


def test_the_report_takes_any_id_and_name(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    log = tmp_path / "report.jsonl"
    odd = '{"jsonrpc":"2.0","id":"\\ud800","method":"tools/call","params":{"name":"\\udfff"}}'
    huge = '{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"tools/call","params":{"name":"x"}}'
    done = run(replay(tape, "--report", str(log)), lines(odd, huge, call(1, n=1)))
    assert done.stdout.count(b"\n") == 3
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()][1:] == [123456789012345678901234567890, 1]
    assert b"Traceback" not in done.stderr
    assert [row["what"] for row in report(log)] == ["miss", "miss", "played", "unplayed"]


@pytest.mark.slow
def test_replays_that_run_at_once_share_a_report(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    log = tmp_path / "report.jsonl"
    replays = [subprocess.Popen(replay(tape, "--report", str(log)), stdin=-1, stdout=-1, stderr=-1) for _ in range(4)]
    for process in replays:
        process.communicate(lines(call(1, n=1)), timeout=WAIT)
    rows = report(log)
    assert sorted(row["what"] for row in rows) == ["played"] * 4 + ["unplayed"] * 4
    assert {row["pid"] for row in rows} == {process.pid for process in replays}


def test_unplayed_requests_are_a_finding_only_when_strict(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    script = lines(call(1, n=1))
    assert run(replay(tape), script).returncode == 0
    done = run(replay(tape, "--strict"), script)
    assert done.returncode == 1
    assert b"1 played, 0 missed, 1 unplayed" in done.stderr
    assert b"unplayed: #2 tools/call echo" in run(replay(tape, "--strict", "-q"), script).stderr


def test_the_newest_session_with_more_than_a_probe_plays(tmp_path: Path) -> None:
    def session(value: str) -> list[Any]:
        return [("client", call(1)), ("server", result(1, value))]

    probe = [("client", request(0, "server/discover")), ("server", '{"jsonrpc":"2.0","id":0,"error":{"code":-32601}}')]
    tape = make_cassette(tmp_path / "tape.db", session("old"), session("new"), probe)
    assert run(replay(tape), lines(call(5))).stdout == lines(result(5, "new"))
    assert run(replay(tape, "--session", "1"), lines(call(5))).stdout == lines(result(5, "old"))
    both = run(replay(tape, "--session", "all"), lines(call(5), call(6))).stdout
    assert both == lines(result(5, "new"), result(6, "old"))
    # the probe is answered from the session that has one
    assert json.loads(run(replay(tape), lines(request(9, "server/discover"))).stdout)["error"]["code"] == -32601


def test_a_session_that_extends_another_plays_with_it(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [("client", call(1, n=1)), ("server", result(1))])
    make_cassette(tape, [("client", call(1, n=2)), ("server", result(1, "more"))], extends=1)
    done = run(replay(tape), lines(call(1, n=1), call(2, n=2)))
    assert done.stdout == lines(result(1), result(2, "more"))


def test_an_incomplete_recording_says_so(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    alter(tape, "UPDATE sessions SET incomplete = 'the disk was full'")
    assert b"session 1 is incomplete: the disk was full" in run(replay(tape)).stderr


def test_a_cassette_of_several_commands_says_which_plays(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    for number, words in enumerate((["python3", "weather.py"], ["/opt/bin/python3", "weather.py"], ["clock"]), 1):
        make_cassette(tape, [("client", call(number)), ("server", result(number))], target={"command": words})
        told = run(replay(tape)).stderr.decode()
        assert ("also has session" in told) == (number == 3), told
    assert "playing session 3, of clock; " in told and "also has session 2, of python3 weather.py, which --sess" in told
    assert b"also has" not in run(replay(tape, "--session", "2")).stderr


@pytest.mark.parametrize(("fault", "code"), [("exit:7", 7), ("disconnect", 0), ("truncate:5", 0)])
def test_a_fault_may_end_the_session(tmp_path: Path, fault: str, code: int) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    with started(replay(tape, "--fault", f"tools/call@2={fault}")) as process:
        assert process.stdin and process.stdout
        process.stdin.write(lines(call(1, n=1), call(2, n=2)))
        answers = process.stdout.read()  # up to its end, although our end stays open
        assert process.wait(WAIT) == code
    assert answers.startswith(lines(result(1, "one")))
    assert len(answers) == len(lines(result(1, "one"))) + (5 if fault.startswith("truncate") else 0)


def test_a_miss_is_a_finding_even_if_a_fault_ends_the_session(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    done = run(replay(tape, "--fault", "tools/call=disconnect"), lines(call(8, n=8), call(1, n=1)))
    assert done.returncode == 1


def test_a_delayed_answer_comes_even_after_the_client_has_finished_sending(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    done = run(replay(tape, "--fault", "tools/call@1=delay:30"), lines(call(1, n=1), call(2, n=2)))
    assert done.stdout == lines(result(2, "two"), result(1, "one"))


def test_recorded_time_is_kept_when_asked_for(tmp_path: Path) -> None:
    said = [("client", call(1, token=1), 0), ("server", progress(1, 1), 10_000), ("server", result(1), 20_000)]
    tape = make_cassette(tmp_path / "tape.db", said)  # type: ignore[arg-type]
    done = run(replay(tape, speed=1), lines(call(1, token=1)))
    assert done.stdout == lines(progress(1, 1), result(1))


def test_replay_writes_nothing_and_works_in_parallel(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    before = tape.read_bytes()
    os.chmod(tape, 0o444)
    assert run(replay(tape), lines(call(1, n=1))).returncode == 0
    assert tape.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tape.db"]


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--ignore", "params"], "a JSONPath starts with $"),
        (["--session", "newest"], "neither latest, all nor"),
        (["--speed", "-1"], "is not a number of 0 or more"),
        (["--repeats", "often"], "is not one of"),
        (["--report", "/nonexistent/x"], "cannot write /nonexistent/x"),
    ],
)
def test_wrong_options_are_refused_with_the_reason(tmp_path: Path, options: list[str], complaint: str) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    done = run(replay(tape, *options))
    assert done.returncode == 2
    assert complaint in done.stderr.decode()


def test_a_missing_cassette_is_reported_with_the_command_that_records_it(tmp_path: Path) -> None:
    done = run(replay(tmp_path / "none.db"))
    assert done.returncode == 3
    assert b"mcp-tape record" in done.stderr


def test_a_notification_that_waits_for_nothing_comes_at_the_start(tmp_path: Path) -> None:
    hello = tell("notifications/message", data="up")
    tape = make_cassette(tmp_path / "tape.db", [("server", hello), ("client", call(1)), ("server", result(1))])
    with started(replay(tape)) as process:
        assert process.stdout
        assert process.stdout.readline() == lines(hello)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_replay_stopped_by_a_signal_still_reports_unplayed_requests(tmp_path: Path, number: int) -> None:
    tape = make_cassette(tmp_path / "tape.db", CONCURRENT)
    log = tmp_path / "report.jsonl"
    with started(replay(tape, "--report", str(log), "--strict")) as process:
        assert process.stdin and process.stdout
        process.stdin.write(lines(call(1, n=1)))
        assert process.stdout.readline()
        process.send_signal(number)
        assert process.wait(WAIT) == 1
    assert [row["what"] for row in report(log)] == ["played", "unplayed"]
