"""Batches on the tape: each of their messages is sent once, and many take no longer than if each were alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.decks import Player, Said, alter, back_to_back, make_cassette

Body = dict[str, Any]


def call(n: int, token: Any = None, **arguments: Any) -> Body:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    params = {"name": "add", "arguments": {"n": n} | arguments} | meta
    return {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}


def ping(n: int) -> Body:
    return {"jsonrpc": "2.0", "id": n, "method": "ping"}


def result(n: int, value: Any = "ok") -> Body:
    return {"jsonrpc": "2.0", "id": n, "result": {"value": value}}


def ask(n: int) -> Body:
    return {"jsonrpc": "2.0", "id": n, "method": "roots/list"}


def progress(token: Any) -> Body:
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}


def client(*bodies: Body) -> Said:
    return "client", json.dumps(bodies)


def server(*bodies: Body) -> Said:
    return "server", json.dumps(bodies)


def test_the_answers_to_several_questions_of_a_server_let_its_own_answers_out_once(tmp_path: Path) -> None:
    tape = [client(call(1)), server(ask(1), ask(2)), client(result(1), result(2)), server(result(1))]
    player = Player(make_cassette(tmp_path / "tape.db", tape))
    assert player.say(tape[0][1]) == [tape[1][1]]
    assert player.say(tape[2][1]) == [tape[3][1]]


def test_a_call_batched_with_an_answer_does_not_repeat_the_messages_it_cues(tmp_path: Path) -> None:
    tape = [client(call(1)), server(ask(1)), client(call(2), result(1)), server(result(1)), server(result(2))]
    player = Player(make_cassette(tmp_path / "tape.db", tape))
    player.say(tape[0][1])
    assert player.say(tape[2][1]) == [tape[3][1], tape[4][1]]


def test_the_end_of_the_recording_is_noted_once_per_call(tmp_path: Path) -> None:
    tape = [client(call(1)), server(ask(1), ask(2)), client(result(1), result(2))]
    player = Player(make_cassette(tmp_path / "tape.db", tape))
    player.say(tape[0][1])
    (end,) = player.say(tape[2][1])
    assert "the recording ends" in end


def cancel(n: int) -> Body:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}}


def test_the_cancel_of_one_call_leaves_the_others_of_its_batch_alone(tmp_path: Path) -> None:
    player = Player(make_cassette(tmp_path / "tape.db", [client(call(1), call(2)), client(cancel(1))]))
    (end,) = player.say(client(call(1), call(2))[1])
    assert (json.loads(end)["id"], json.loads(end)["error"]["code"]) == (2, -32010)
    assert player.say(json.dumps(cancel(1))) == []


def test_all_calls_of_a_batch_hear_of_the_end_once_the_last_question_is_answered(tmp_path: Path) -> None:
    tape = [client(call(1), call(2)), server(ask(7)), client(result(7))]
    player = Player(make_cassette(tmp_path / "tape.db", tape))
    assert player.say(tape[0][1]) == [tape[1][1]]
    assert [json.loads(text)["id"] for text in player.say(tape[2][1])] == [1, 2]


def test_progress_has_the_token_of_its_call_where_a_notification_comes_before_that_call(tmp_path: Path) -> None:
    told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    tape = [client(call(1, token=5), told, call(2, token=6)), ("server", json.dumps(progress(6)))]
    player = Player(make_cassette(tmp_path / "tape.db", [*tape, server(result(1), result(2))]))
    live = client(call(1, token="a"), told, call(2, token="b"))[1]
    assert json.loads(player.say(live)[0])["params"]["progressToken"] == "b"


def test_answers_to_a_batch_that_goes_to_two_places_are_not_put_together(tmp_path: Path) -> None:
    tape = [client(call(1), call(2)), server(result(1), result(2))]
    player = Player(make_cassette(tmp_path / "tape.db", tape))
    for n in (1, 2):
        player.deck.receive(json.dumps(call(n)).encode(), f"post-{n}", 0.0)
    assert {send.channel for send in player.deck.due(0.0)} == {"post-1", "post-2"}


@pytest.mark.parametrize("first_first", [True, False])
def test_answers_to_a_batch_keep_their_recorded_order(tmp_path: Path, first_first: bool) -> None:
    """All of them, not just the first one sent."""
    asked = [client(call(1), call(2)), client(call(3)), client(cancel(2))]
    answers = [result(1), result(2), result(3)] if first_first else [result(2), result(1), result(3)]
    tape = [*asked, *(("server", json.dumps(answer)) for answer in answers)]
    player = Player(make_cassette(tmp_path / "tape.db", tape), in_recorded_order=True)
    said = [text for _, line in asked for text in player.say(line)]
    assert [json.loads(text)["id"] for text in said] == [answer["id"] for answer in answers]


def test_a_batch_that_is_repeated_tells_its_progress_as_often_as_the_first_time(tmp_path: Path) -> None:
    tape = [client(call(1, "a"), call(2, "b")), server(progress("a"), progress("b"), result(1), result(2))]
    player = Player(make_cassette(tmp_path / "tape.db", tape), repeats="cycle")
    assert [player.say(tape[0][1]) for _ in range(3)] == [[tape[1][1]]] * 3


def test_a_batch_may_ask_more_often_than_it_was_recorded(tmp_path: Path) -> None:
    player = Player(make_cassette(tmp_path / "tape.db", [client(ping(1)), server(result(1))]))
    told = player.say(client(ping(1), ping(2), ping(3))[1])
    assert [json.loads(text)["id"] for text in told] == [1, 2, 3]


def test_messages_that_another_process_adds_to_the_file_are_played(tmp_path: Path) -> None:
    tape = [client(*map(call, range(20))), server(*map(result, range(20)))]
    path = make_cassette(tmp_path / "tape.db", tape)
    player = Player(path, repeats="last")
    assert player.say(json.dumps(call(3))) == [json.dumps(result(3))]
    alter(path, """UPDATE facts SET text = replace(text, '"ok"', '"new"') WHERE sender = 'server'""")
    assert player.say(json.dumps(call(3))) == [json.dumps(result(3, "new"))]


# -- growth


def _whole(n: int) -> list[Said]:
    return [client(*map(call, range(n))), server(*map(result, range(n)))]


def _same(n: int) -> list[Said]:
    return [client(*(call(i) | {"params": {"name": "add"}} for i in range(n))), server(*map(result, range(n)))]


def _answered_one_by_one(n: int) -> list[Said]:
    return [client(*map(call, range(n))), *(("server", json.dumps(result(i))) for i in range(n))]


def _unanswered(n: int) -> list[Said]:
    return [client(*map(call, range(n)))]


def _with_progress(n: int) -> list[Said]:
    told = (body for i in range(n) for body in (progress(i), result(i)))
    return [client(*(call(i, i) for i in range(n))), server(*told)]


def _questions(n: int) -> list[Said]:
    return [client(call(0)), server(*map(ask, range(n))), client(*map(result, range(n))), server(result(0))]


def _as_recorded(tape: list[Said]) -> list[str]:
    return [text for side, text in tape if side == "client"]


def _one_by_one(tape: list[Said]) -> list[str]:
    return [json.dumps(body) for text in _as_recorded(tape) for body in json.loads(text)]


def _in_vain(tape: list[Said]) -> list[str]:
    (text,) = _as_recorded(tape)
    return [json.dumps([body | {"params": {"name": "add", "arguments": {"n": "other"}}} for body in json.loads(text)])]


def _work(path: Path, make: Callable[[int], list[Said]], live: Any, n: int, options: dict[str, Any]) -> int:
    """The work to play a batch of n: function calls, and steps of SQLite."""
    tape = make(n)
    player = Player(make_cassette(path / f"{n}.db", tape), **options)
    work = 0

    def count(*_: Any) -> None:
        nonlocal work
        work += 1

    player.cassette.connection.set_progress_handler(count, 10)
    sys.setprofile(count)
    try:
        for text in live(tape):
            player.deck.receive(text.encode(), "stdio", 0.0)
            player.deck.due(0.0)
    finally:
        sys.setprofile(None)
    return work


@pytest.mark.slow(quick=2)
@pytest.mark.parametrize(
    ("make", "live", "options"),
    [
        (_whole, _as_recorded, {}),
        (_whole, _one_by_one, {}),
        (_whole, _as_recorded, {"ignore": ["$.params.arguments"]}),
        (_whole, _in_vain, {}),
        (_same, _as_recorded, {}),
        (_same, _one_by_one, {}),
        (_answered_one_by_one, _as_recorded, {}),
        (_answered_one_by_one, _as_recorded, {"in_recorded_order": True}),
        (_unanswered, _as_recorded, {}),
        (_unanswered, _one_by_one, {}),
        (_with_progress, _as_recorded, {}),
        (_with_progress, _as_recorded, {"speed": 1.0}),
        (_questions, _as_recorded, {}),
    ],
)
def test_twice_as_many_messages_take_twice_as_long(
    tmp_path: Path, make: Any, live: Any, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tape.replay.misses._LOOKED_AT", 20)
    few, many = (_work(tmp_path, make, live, n, options) for n in (100, 200))
    assert many < 2.5 * few


def test_a_batch_is_verified_as_it_was_recorded(tmp_path: Path) -> None:
    tape = _whole(30)
    asked, told, *_ = back_to_back(make_cassette(tmp_path / "tape.db", tape))
    assert [text.decode().rstrip() for text in asked + told] == [text for _, text in tape]
