"""Rows that no recorder writes: unreadable ones are reported with exit code 3, and a miss is always answered."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from mcp_tape import use_cassette
from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import CassetteError
from tests.support.decks import Player, alter, make_cassette
from tests.support.fuzzing import bounded
from tests.support.http import CutOffError, ask
from tests.support.http_running import modern, replaying
from tests.support.messages import call as calls
from tests.support.messages import result, tell
from tests.support.reading import Frames, call, invoke, make, said
from tests.support.running import MCP_TAPE, WAIT, run

ODD = "has an invalid value"
NUMBERS = ("part", "answers", "exchange", "cue")
TEXTS = ("method", "rpc_id", "name", "status", "key")


def tape(path: Path) -> Path:
    return make_cassette(
        path,
        [
            ("client", calls(1, "add", a=1)),
            ("server", result(1, "one")),
            ("client", calls(2, "add", a=2)),
            ("server", result(2, "two")),
        ],
    )


def refusing(path: Path) -> Path:
    """A server that refused a call with a text of its own, over HTTP."""
    headers = {"content-type": "text/plain"}
    frames = Frames()
    frames.happened("client", "post-1", event="request", verb="POST", path="/mcp", headers={})
    frames.client(call(1, "add", a=1), channel="post-1")
    frames.happened("server", "post-1", event="response", status=400, headers=headers)
    frames.add("server", b"go away, please", "post-1", "noise")
    frames.posts("post-2", call(2, "add", a=2), said(2, "two"))
    return make(path, frames, transport="http")


def complaint(path: Path, *ignore: str) -> str:
    """The error of a replay that is given all requests of the tape, and one more."""
    player = Player(path, ignore=ignore)
    try:
        for number in (1, 2, 3):
            player.say(calls(number, "add", a=number))
        player.unplayed()
    except CassetteError as error:
        return str(error)
    return ""


def test_a_miss_near_a_refusal_in_plain_text_quotes_it(tmp_path: Path) -> None:
    player = Player(refusing(tmp_path / "tape.db"))
    (answer,) = player.say(call(7, "add", a=3).decode())
    assert json.loads(answer)["error"]["code"] == -32010
    (report,) = player.told("miss")
    assert 'would have answered: "go away, please"' in report


def test_the_second_of_two_refused_requests_is_compared_too(tmp_path: Path) -> None:
    path = refusing(tmp_path / "tape.db")
    player = Player(path, ignore=["$.params.arguments.b"])
    assert "go away" in player.say(call(7, "add", a=1, b=1).decode())[0]
    assert player.say(call(8, "add", a=2, b=1).decode()) == [said(8, "two").decode()]


@pytest.mark.slow(quick=4)
@pytest.mark.parametrize("value", ["'x'", "x'00ff'", "1.5"], ids=["text", "bytes", "fraction"])
@pytest.mark.parametrize("column", NUMBERS)
def test_a_number_that_is_none_is_refused_or_never_read(tmp_path: Path, column: str, value: str) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, f"UPDATE derived SET {column} = {value} WHERE {column} = (SELECT max({column}) FROM derived)")
    assert ODD in (complaint(path) or ODD)
    assert ODD in (complaint(path, "$.params.arguments.b") or ODD)
    assert invoke("diff", path, path).exit_code in (0, 3)


@pytest.mark.parametrize("column", TEXTS)
def test_a_text_that_is_none_is_refused_or_never_read(tmp_path: Path, column: str) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, f"UPDATE derived SET {column} = CASE WHEN '{column}' = 'key' THEN 7 ELSE x'ff' END")
    assert ODD in (complaint(path) or ODD)
    assert invoke("diff", path, path).exit_code in (0, 3)


@pytest.mark.parametrize("change", ["part = 5", "part = -1", "id = id + 1000"])
def test_a_message_that_its_frame_does_not_have_is_refused(tmp_path: Path, change: str) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, f"UPDATE derived SET {change} WHERE method IS NOT NULL AND rpc_id IS NOT NULL AND id & 4294967295 = 3")
    with pytest.raises(CassetteError, match=ODD):
        Player(path, ignore=["$.params.arguments.b"]).say(calls(1, "add", a=9))


@pytest.mark.parametrize("text", ["'nothing'", "'[]'", "NULL", "'null'"])
def test_a_request_without_its_text_is_refused_where_it_is_compared(tmp_path: Path, text: str) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, f"UPDATE facts SET text = {text} WHERE id & 4294967295 = 1")
    with pytest.raises(CassetteError, match=ODD):
        Player(path, ignore=["$.params.arguments.b"]).say(calls(1, "add", a=9))


@pytest.mark.parametrize("change", ["derived SET part = 5", "derived SET name = x'07'", "facts SET text = 'nothing'"])
def test_a_miss_is_answered_with_any_recordings(tmp_path: Path, change: str) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, f"UPDATE {change} WHERE id & 4294967295 = 1")
    player = Player(path)
    (answer,) = player.say(calls(1, "add", a=9))
    assert json.loads(answer)["error"]["code"] == -32010
    (report,) = player.told("miss")
    assert report.startswith("miss: tools/call add") and f"mcp-tape check {path}" in report


@pytest.mark.parametrize("text", ["}", '{"a":1}]', '{"id":', "", "[1"])
def test_an_answer_that_is_not_json_goes_out_unchanged(tmp_path: Path, text: str) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, f"UPDATE facts SET text = '{text}' WHERE id & 4294967295 = 2")
    assert Player(path).say(calls(77, "add", a=1)) == [text]


def test_a_head_without_a_byte_is_written_out(tmp_path: Path) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, "UPDATE facts SET head = ''")
    assert invoke("convert", path).exit_code == 0
    assert invoke("convert", _written(path), tmp_path / "again.db").exit_code == 0


def _written(path: Path) -> Path:
    lines = path.with_name("lines")
    lines.write_text(invoke("convert", path).stdout)
    return lines


@pytest.mark.parametrize("asked", [calls(9, "add", a=1), tell("notifications/cancelled", requestId=1), tell("x")])
def test_messages_whose_frames_have_other_numbers_are_not_read_for_ever(tmp_path: Path, asked: str) -> None:
    said = [tell("notifications/cancelled", requestId=1), tell("x"), calls(1, "add", a=1), result(1, "one")]
    path = make_cassette(tmp_path / "tape.db", [("server" if '"result"' in text else "client", text) for text in said])
    alter(path, "UPDATE facts SET id = id + 100")
    player = Player(path, repeats="last")
    with bounded(asked), contextlib.suppress(CassetteError):
        for _ in range(5):
            player.say(asked)


def test_a_message_that_is_not_there_is_odd(tmp_path: Path) -> None:
    player = Player(tape(tmp_path / "tape.db"))
    assert player.selection.at((1, 1, 0)).name == "add"
    with pytest.raises(CassetteError, match=ODD):
        player.selection.at((1, 99, 0))


def test_replay_ends_with_3_and_a_reason(tmp_path: Path) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, "UPDATE facts SET channel = x'ff' WHERE id & 4294967295 = 2")
    done = run([*MCP_TAPE, "replay", str(path), "--report", str(tmp_path / "report")], calls(1, "add", a=1).encode())
    assert done.returncode == 3 and ODD in done.stderr.decode() and len(done.stderr.splitlines()) == 1


def test_a_client_of_use_cassette_ends_with_3_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, "UPDATE facts SET channel = x'ff' WHERE id & 4294967295 = 2")
    with use_cassette(path, mode="none") as used:
        assert run(used.command, calls(1, "add", a=1).encode() + b"\n").returncode == 3
    said = capfd.readouterr().err
    assert ODD in said and "Traceback" not in said


def test_replay_over_http_ends_in_the_same_way_and_says_so(tmp_path: Path) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, "UPDATE facts SET channel = x'ff' WHERE id & 4294967295 = 2")
    with replaying(path, speed=1) as replay:
        with contextlib.suppress(CutOffError):
            assert ask(replay.url, modern(1, name="add", arguments={"a": 1})).status == 500
        assert replay.process.wait(WAIT) == 3
        assert ODD in replay.said


def test_two_requests_at_one_place_are_compared(tmp_path: Path) -> None:
    path = tape(tmp_path / "tape.db")
    alter(
        path,
        "UPDATE derived SET part = 2, name = NULL WHERE id & 4294967295 = 3",
        "UPDATE derived SET key = x'00' || key WHERE key IS NOT NULL",
    )
    assert invoke("diff", path, tape(tmp_path / "other.db")).exit_code in (0, 1, 3)


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1])
def test_an_exchange_at_the_end_of_all_numbers_is_shown(tmp_path: Path, number: int) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, f"UPDATE derived SET exchange = {number}, answers = {number} WHERE id & 4294967295 IN (1, 2)")
    for command in (("show", path, "1"), ("show", path, "2"), ("show", path), ("stats", path), ("ls", path)):
        assert invoke(*command).exit_code in (0, 3)


@pytest.mark.parametrize("text", ["null", "7", '"text"', "[]", "true"])
def test_a_text_that_is_no_object_is_exported_as_markdown(tmp_path: Path, text: str) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, f"UPDATE facts SET text = '{text}'")
    assert invoke("convert", path, "--to", "md").exit_code == 0


@pytest.mark.parametrize("column", ["elapsed", "sender", "channel", "text"])
def test_redact_leaves_a_cassette_alone_whose_frames_are_odd(tmp_path: Path, column: str) -> None:
    path = tape(tmp_path / "tape.db")
    value = "NULL" if column == "text" else "x'ff'"
    alter(path, f"UPDATE facts SET {column} = {value} WHERE id & 4294967295 = 2", "UPDATE sessions SET key_version = 0")
    before = path.read_bytes()
    assert invoke("redact", path).exit_code == 3
    assert path.read_bytes() == before


def test_exchanges_of_odd_rows_are_refused(tmp_path: Path) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, "UPDATE derived SET name = x'07'")
    with Cassette(path) as cassette, pytest.raises(CassetteError, match=ODD):
        cassette.exchanges(1)


@pytest.mark.parametrize("number", [-(2**63), -1, 2**63 - 1])
def test_frames_with_numbers_of_no_session_are_not_merged(tmp_path: Path, number: int) -> None:
    path, out = tape(tmp_path / "tape.db"), tmp_path / "out.db"
    alter(path, f"UPDATE facts SET id = {number} WHERE id & 4294967295 = 1")
    assert "1 rows of frames belong to no row of sessions" in invoke("check", path).stdout
    assert invoke("merge", path, "-o", out).exit_code == 0
    with contextlib.closing(sqlite3.connect(out)) as db:
        assert not db.execute("SELECT 1 FROM facts WHERE id >> 32 NOT IN (1)").fetchall()


@pytest.mark.parametrize("number", [-5, 0, 2**31, 2**40, 2**63 - 1])
def test_a_session_with_an_odd_number_is_no_traceback(tmp_path: Path, number: int) -> None:
    path = tape(tmp_path / "tape.db")
    alter(path, f"UPDATE sessions SET id = {number}")
    for command in (
        ("show", path),
        ("ls", path),
        ("check", path),
        ("convert", path),
        ("stats", path),
        ("diff", path, path),
    ):
        assert invoke(*command).exit_code in (0, 1, 3)
