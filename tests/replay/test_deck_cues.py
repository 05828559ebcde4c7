"""Cues: each client message is matched with the tape, even if no recorded message waited for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.decks import Player, alter, played
from tests.support.messages import call, error, progress, request, result, tell

CHANGED = tell("notifications/tools/list_changed")


def cancel(rpc_id: Any) -> str:
    return tell("notifications/cancelled", requestId=rpc_id)


def ask(rpc_id: Any, token: Any = None) -> str:
    return request(rpc_id, "sampling/createMessage", _meta={"progressToken": token})


def log(data: str) -> str:
    return tell("notifications/message", level="info", data=data)


@pytest.mark.parametrize("live", [1, "another"])
@pytest.mark.parametrize("report_played", [True, False])
def test_messages_after_a_late_cancel_are_played(tmp_path: Path, live: Any, report_played: bool) -> None:
    player = played(
        tmp_path,
        ("client", call(1)),
        ("server", result(1)),
        ("client", cancel(1)),
        ("server", CHANGED),
        report_played=report_played,
    )
    assert player.say(call(live)) == [result(live)]
    assert player.say(cancel(live)) == [CHANGED]
    assert player.say(cancel(live)) == []


def test_late_cancels_are_distinguished_by_the_call_they_name(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1, n=1)),
        ("server", result(1)),
        ("client", call(2, n=2)),
        ("server", result(2)),
        ("client", cancel(1)),
        ("server", log("one")),
        ("client", cancel(2)),
        ("server", log("two")),
    )
    player.say(call(7, n=1))
    player.say(call(8, n=2))
    assert player.say(cancel(8)) == [log("two")]
    assert player.say(cancel(7)) == [log("one")]


@pytest.mark.parametrize("report_played", [True, False])
@pytest.mark.parametrize("asked", [(2, 1), (1, 2), (1, 2, 1)])
def test_a_cancel_of_an_id_that_was_used_again_is_of_the_newest_call(
    tmp_path: Path, asked: tuple[int, ...], report_played: bool
) -> None:
    player = played(
        tmp_path,
        ("client", call(1, n=1)),
        ("server", result(1)),
        ("client", call(2, n=2)),
        ("server", log("on the way")),  # so another message waits with the answer
        ("server", result(2)),
        ("client", cancel(1)),
        ("server", log("one")),
        ("client", cancel(2)),
        ("server", log("two")),
        repeats="last",
        report_played=report_played,
    )
    for n in asked:
        assert result(7) in player.say(call(7, n=n))
    assert player.say(cancel(7)) == [log("one" if asked[-1] == 1 else "two")]


def test_a_quick_answer_takes_over_the_id_of_an_open_call(tmp_path: Path) -> None:
    said = [
        ("client", call(1, n=1)),
        ("client", cancel(1)),
        ("server", log("gone")),
        ("client", call(2, n=2)),
        ("server", result(2)),
    ]
    answers = []
    for report_played in (True, False):
        (tmp_path / str(report_played)).mkdir()
        player = played(tmp_path / str(report_played), *said, report_played=report_played)
        answers.append([player.say(text) for text in (call(7, n=1), call(7, n=2), cancel(7))])
    assert answers[0] == answers[1]


def test_a_cancel_of_an_unknown_request_is_the_next_one_on_the_tape(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", cancel(5)), ("server", log("no such call")), ("client", call(1)))
    assert player.say(cancel(9)) == [log("no such call")]


def test_each_cancel_of_a_call_plays_the_messages_after_that_cancel(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1)),
        ("client", cancel(1)),
        ("server", log("I heard you")),
        ("client", cancel(1)),
        ("server", result(1, "at last")),
    )
    assert player.say(call(3)) == []
    assert player.say(cancel(3)) == [log("I heard you")]
    assert player.say(cancel(3)) == [result(3, "at last")]


def test_a_call_does_not_wait_for_an_answer_that_the_server_no_longer_wants(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1)),
        ("server", ask("s")),
        ("server", cancel("s")),
        ("client", result("s")),
        ("server", result(1)),
    )
    assert player.say(call(4)) == [ask("s"), cancel("s"), result(4)]
    assert player.say(result("s")) == []
    assert player.told("note") == []


def test_the_id_of_a_cancelled_question_is_not_reused(tmp_path: Path) -> None:
    """Its answer may still be in transit, and would be mistaken for another one's."""
    player = played(
        tmp_path,
        ("client", call(1, "a")),
        ("server", ask("s", "a")),
        ("server", cancel("s")),
        ("client", result("s")),
        ("server", result(1)),
        *(
            turn
            for n, tool in ((2, "b"), (3, "c"))
            for turn in (
                ("client", call(n, tool)),
                ("server", ask("s", tool)),
                ("client", result("s")),
                ("server", result(n)),
            )
        ),
    )
    live = [player.say(call(rpc_id, tool)) for rpc_id, tool in ((5, "b"), (6, "a"), (7, "c"))]
    assert live == [[ask("s", "b")], [ask(1, "a"), cancel(1), result(6)], [ask(2, "c")]]
    assert [player.say(result(rpc_id)) for rpc_id in (1, 2, "s")] == [[], [result(7)], [result(5)]]
    as_recorded = Player(tmp_path / "tape.db")
    assert as_recorded.say(call(6, "a")) == [ask("s", "a"), cancel("s"), result(6)]
    assert as_recorded.say(call(7, "b")) == [ask(1, "b")]
    assert as_recorded.say(result("s")) == []
    assert as_recorded.say(call(8, "c")) == [ask("s", "c")]


def test_of_two_requests_with_one_id_the_server_takes_back_the_one_it_meant(tmp_path: Path) -> None:
    one, two, three = (tell(f"notifications/{n}") for n in range(3))
    first = [("client", one), ("server", ask("s", "a")), ("client", result("s"))]
    player = played(
        tmp_path, *first, ("client", two), ("server", ask("s", "b")), ("client", three), ("server", cancel("s"))
    )
    assert [player.say(text) for text in (two, one, three)] == [[ask("s", "b")], [ask(1, "a")], [cancel("s")]]
    other = Player(tmp_path / "tape.db")
    assert [other.say(text) for text in (one, three)] == [[ask("s", "a")], [cancel(1)]]
    assert other.say(result("s")) == []
    assert other.told("note") == []


@pytest.mark.parametrize("rpc_id", [None, "odd"])
def test_messages_after_an_answer_to_nothing_are_played(tmp_path: Path, rpc_id: Any) -> None:
    stray = json.dumps({"jsonrpc": "2.0", "id": rpc_id, "error": {"code": -32700, "message": "Parse error"}})
    player = played(tmp_path, ("client", call(1)), ("server", result(1)), ("client", stray), ("server", log("sorry")))
    player.say(call(1))
    assert player.say(stray) == [log("sorry")]
    assert player.told("note") == []
    assert player.say(stray) == []
    assert len(player.told("note")) == 1


def test_progress_of_a_client_is_matched_by_its_token(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1, "a")),
        ("server", ask("s-a", "a")),
        ("client", call(2, "b")),
        ("server", ask("s-b", "b")),
        ("client", progress("a", 1)),
        ("client", progress("b", 1)),
        ("server", log("heard b")),
        ("server", result(2)),
    )
    player.say(call(1, "a"))
    player.say(call(2, "b"))
    assert player.say(progress("b", 1)) == [log("heard b"), result(2)]
    assert player.say(progress("none", 1)) == []
    assert player.say(progress("a", 1)) == []


@pytest.mark.parametrize("between", [[], [("client", call(2, "other")), ("server", log("meanwhile"))]])
def test_progress_behind_the_answer_has_the_live_token(tmp_path: Path, between: list[Any]) -> None:
    tape = [("client", call(1, token="then")), ("server", result(1)), *between, ("server", progress("then", 1))]
    player = played(tmp_path, *tape)
    said = player.say(call(5, token="now")) + (player.say(call(6, "other")) if between else [])
    assert progress("now", 1) in said
    assert progress("then", 1) not in said


@pytest.mark.parametrize("between", [[], [("client", call(2, "other")), ("server", log("meanwhile"))]])
def test_late_progress_goes_only_to_clients_that_asked_for_it(tmp_path: Path, between: list[Any]) -> None:
    tape = [("client", call(1, token="then")), ("server", result(1)), *between, ("server", progress("then", 1))]
    player = played(tmp_path, *tape)
    said = [*Player(tmp_path / "tape.db").say(call(6, "other")), *player.say(call(5)), *player.say(call(6, "other"))]
    assert not any("progressToken" in text for text in said)


def test_progress_for_an_unknown_token_comes_as_recorded(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", call(1)), ("server", result(1)), ("server", progress("whose", 1)))
    assert player.say(call(5)) == [result(5), progress("whose", 1)]


def test_a_second_answer_to_one_request_has_the_live_id_too(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", call(1)), ("server", result(1, "a")), ("server", result(1, "b")))
    assert player.say(call("x")) == [result("x", "a"), result("x", "b")]


def test_a_second_answer_never_comes_before_the_first(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1, "slow")),
        ("client", cancel(1)),
        ("server", result(1, "a")),
        ("client", call(2, "other")),
        ("server", result(1, "b")),
        ("server", result(2)),
    )
    assert player.say(call(7, "slow")) == []
    assert player.say(call(8, "other")) == [result(8)]
    assert player.say(cancel(7)) == [result(7, "a"), result(7, "b")]


def test_a_question_within_a_call_is_cancelled_even_after_the_answer(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1)),
        ("server", ask("a")),
        ("server", ask("b")),
        ("server", result(1)),
        ("client", result("a")),
        ("server", cancel("b")),
    )
    assert player.say(call(7)) == [ask("a"), ask("b"), result(7)]
    assert player.say(result("a")) == [cancel("b")]


def test_the_end_of_a_recording_does_not_wait_for_progress_that_a_client_may_leave_out(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1)),
        ("server", ask("s", "t")),
        ("client", progress("t", 1)),
    )
    asked, end = player.say(call(1))
    assert asked == ask("s", "t")
    assert "the recording ends" in error([end])["message"]


def test_cassettes_of_before_play_by_the_same_rule(tmp_path: Path) -> None:
    """Rows without an exchange: a stray cancellation still counts."""
    player = played(tmp_path, ("client", call(1)), ("client", cancel(1)), ("server", CHANGED))
    alter(
        tmp_path / "tape.db",
        "UPDATE derived SET exchange = iif(cue IS NULL, NULL, 0) WHERE method LIKE 'notifications/%'",
    )
    player.say(call(1))
    assert player.say(cancel(1)) == [CHANGED]


WIDE = 123456789012345678901234567890


def test_ids_and_tokens_wider_than_64_bits_stay_exact(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(WIDE, token=WIDE)),
        ("client", call(WIDE + 1, token=WIDE + 1)),
        ("server", progress(WIDE, 1)),
        ("client", cancel(WIDE)),
        ("server", result(WIDE, "off")),
        ("server", result(WIDE + 1)),
    )
    assert player.say(call(WIDE + 5, token=WIDE + 6)) == [progress(WIDE + 6, 1)]
    assert player.say(call(WIDE + 7, token=WIDE + 8)) == [result(WIDE + 7)]
    assert player.say(cancel(WIDE + 5)) == [result(WIDE + 5, "off")]


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":99,"result":{},"id":%s}',
        '{"jsonrpc":"2.0","id":1,"result":{"id":5},"id":%s}',
        '{"jsonrpc":"2.0","id":99,"result":{},"\\u0069d":%s}',
        '{"jsonrpc":"2.0","id":%s,"result":{"id":5}}',
    ],
)
def test_of_two_ids_the_one_that_parsers_take_is_the_live_one(tmp_path: Path, text: str) -> None:
    player = played(tmp_path, ("client", call(1)), ("server", text % 1))
    assert player.say(call(7)) == [text % 7]


def test_progress_that_comes_behind_its_answer_waits_for_its_own_call_alone(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1, "a", token="x")),
        ("client", call(2, "b")),
        ("server", result(1)),
        ("server", progress("x", 1)),
        ("server", result(2)),
    )
    assert player.say(call(7, "a", token="y")) == [result(7), progress("y", 1)]
    assert player.say(call(8, "b")) == [result(8)]
