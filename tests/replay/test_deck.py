"""Replay by the deck: the playing rule, one behaviour per test, without a process or a socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.wire.frames import Side
from tests.support.decks import CONCURRENT, Player, Said, alter, make_cassette, played
from tests.support.messages import call, error, progress, request, result, tell, values


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"result":{"n":1E2,"big":123456789012345678901234567890}}',
        '{ "result" : {"\\u00e9\\/": "\\ud83d\\ude00"} ,\t"id" : 1, "jsonrpc":"2.0" }',
        '{"jsonrpc":"2.0","result":{"id":1,"nested":{"id":2}},"id":1}',
        '{"id":1,"jsonrpc":"2.0","result":{"a":1,"a":2}}',
    ],
)
def test_an_answer_is_the_recorded_text_with_only_the_live_id(tmp_path: Path, text: str) -> None:
    player = played(tmp_path, ("client", call(1)), ("server", text))
    (answer,) = player.say(call("live"))
    assert answer == text.replace('"id":1,"result"', '"id":"live","result"').replace(
        '"id" : 1', '"id" : "live"'
    ).replace(',"id":1}', ',"id":"live"}').replace('{"id":1,"jsonrpc"', '{"id":"live","jsonrpc"')


def test_a_malformed_frame_comes_out_as_it_was_recorded(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", call(1)), ("server", '{"jsonrpc": oops'), ("server", result(1)))
    assert player.say(call(1)) == ['{"jsonrpc": oops', result(1)]


def test_progress_comes_before_its_answer_with_the_live_token(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1, token=1)),
        ("server", progress(1, 1)),
        ("server", progress(1, 2)),
        ("server", result(1)),
    )
    assert player.say(call(9, token="mine")) == [progress("mine", 1), progress("mine", 2), result(9)]


def test_progress_is_dropped_when_the_client_did_not_ask_for_it(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", call(1, token=1)), ("server", progress(1, 1)), ("server", result(1)))
    assert player.say(call(9)) == [result(9)]


def test_a_nested_server_request_waits_for_the_clients_answer(tmp_path: Path) -> None:
    ask = request(1, "sampling/createMessage", maxTokens=5)
    player = played(
        tmp_path, ("client", call(1)), ("server", ask), ("client", result(1, "sampled")), ("server", result(1, "done"))
    )
    assert player.say(call(7)) == [ask]
    assert player.say(result(1, "sampled")) == [result(7, "done")]
    assert player.told("note") == []


def test_a_different_answer_to_a_server_request_is_noted_and_play_goes_on(tmp_path: Path) -> None:
    ask = request(1, "sampling/createMessage", maxTokens=5)
    player = played(tmp_path, ("client", call(1)), ("server", ask), ("client", result(1, "yes")), ("server", result(1)))
    player.say(call(1))
    refused = '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no sampling here"}}'
    assert player.say(refused) == [result(1)]
    assert "answered differently than recorded: with an error" in player.told("note")[0]


def test_an_unsolicited_notification_comes_at_its_cue(tmp_path: Path) -> None:
    changed = tell("notifications/tools/list_changed")
    player = played(
        tmp_path,
        ("client", request(0, "initialize")),
        ("server", result(0)),
        ("client", tell("notifications/initialized")),
        ("server", changed),
    )
    assert player.say(request(5, "initialize")) == [result(5)]
    assert player.say(tell("notifications/initialized")) == [changed]
    assert player.say(tell("notifications/initialized")) == []


def test_the_short_name_of_initialized_counts_too(tmp_path: Path) -> None:
    changed = tell("notifications/tools/list_changed")
    player = played(tmp_path, ("client", tell("initialized")), ("server", changed))
    assert player.say(tell("notifications/initialized")) == [changed]


def test_messages_before_the_first_client_message_come_at_the_start(tmp_path: Path) -> None:
    hello = tell("notifications/message", level="info", data="up")
    player = played(tmp_path, ("server", hello), ("client", call(1)), ("server", result(1)))
    assert player.start() == [hello]


def test_messages_of_the_client_in_any_order_never_deadlock(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1, n=1)),
        ("client", call(2, n=2)),
        ("server", result(2, "two")),
        ("server", result(1, "one")),
    )
    assert player.say(call(8, n=2)) == [result(8, "two")]
    assert player.say(call(9, n=1)) == [result(9, "one")]


def test_ids_of_both_sides_may_be_the_same(tmp_path: Path) -> None:
    roots = request(1, "roots/list")
    player = played(tmp_path, ("client", call(1)), ("server", roots), ("client", result(1, [])), ("server", result(1)))
    assert player.say(call(1)) == [roots]
    assert player.say(result(1, [])) == [result(1)]


def test_a_server_request_whose_id_is_in_flight_gets_the_next_free_one(tmp_path: Path) -> None:
    def conversation(n: int) -> list[Said]:
        return [
            ("client", call(n, n=n)),
            ("server", request(1, "roots/list")),
            ("client", result(1, [n])),
            ("server", result(n)),
        ]

    player = played(tmp_path, *conversation(10), *conversation(20))
    assert player.say(call(10, n=10)) == [request(1, "roots/list")]
    (second,) = player.say(call(20, n=20))
    assert json.loads(second)["id"] == 2
    assert player.say(result(2, [20])) == [result(20)]
    assert player.say(result(1, [10])) == [result(10)]


def test_the_same_request_gets_its_answers_in_recorded_order(tmp_path: Path) -> None:
    conversation = [
        said for n in range(3) for said in (("client", request(n, "tasks/get", taskId="t")), ("server", result(n, n)))
    ]
    player = played(tmp_path, *conversation)  # type: ignore[arg-type]
    assert [values(player.say(request(i, "tasks/get", taskId="t"))) for i in (7, 8, 9)] == [[0], [1], [2]]


@pytest.mark.slow
def test_a_request_that_was_skipped_is_still_the_next_of_its_key(tmp_path: Path) -> None:
    many = [said for n in range(2000) for said in (("client", call(n, n=n % 1000)), ("server", result(n, n)))]
    player = played(tmp_path, *many)  # type: ignore[arg-type]
    for n in range(1, 1000):  # all but the first
        assert values(player.say(call(n, n=n))) == [n]
    assert values(player.say(call(5000, n=0))) == [0]
    assert values(player.say(call(1000, n=0))) == [1000]
    assert values(player.say(call(1001, n=1))) == [1001]


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        (
            '{"jsonrpc":"2.0","id":%s,"method":"x","params":{"n":1}}',
            '{"jsonrpc":"2.0","id":%s,"method":"x","params":{"n":1}}',
        ),
        (
            '{"method":"x","params":{"n":1},"jsonrpc":"2.0","id":%s}',
            '{"method":"x","params":{"n":1},"jsonrpc":"2.0","id":%s}',
        ),
        ('{"jsonrpc":"2.0","id":%s,"method":"x","params":{"n":1}}', '{"method":"x","params":{"n":1},"id":%s}'),
    ],
)
@pytest.mark.parametrize("rpc_id", ["1", "2", "-7", '"a-b"', '"\\u00e9"', '"x y"'])
def test_a_request_is_found_whatever_its_id_and_position(tmp_path: Path, recorded: str, live: str, rpc_id: str) -> None:
    said: list[Said] = [turn for n in (1, 2, 3) for turn in (("client", recorded % n), ("server", result(n, n)))]
    player = played(tmp_path, *said)
    expected = [json.loads(result(0, n)) | {"id": json.loads(rpc_id)} for n in (1, 2, 3)]
    assert [json.loads(text) for _ in range(3) for text in player.say(live % rpc_id)] == expected


def test_an_id_within_the_params_is_no_id_of_the_request(tmp_path: Path) -> None:
    tricky = '{"jsonrpc":"2.0","id":%s,"method":"x","params":{"id":%s}}'
    player = played(
        tmp_path, ("client", tricky % (1, 5)), ("server", result(1)), ("client", tricky % (2, 6)), ("server", result(2))
    )
    assert player.say(tricky % (9, 5)) == [result(9)]
    assert error(player.say(tricky % (9, 7)))["code"] == -32010
    assert player.say(tricky % (7, 6)) == [result(7)]


def test_frames_without_messages_are_passed_over(tmp_path: Path) -> None:
    noise: list[Said] = [("client", f"noise {n}") for n in range(40)]
    player = played(
        tmp_path, *noise, ("client", call(1)), ("server", result(1)), *noise, ("client", call(2)), ("server", result(2))
    )
    assert player.say(call(1)) == [result(1)]
    assert player.say(call(2)) == [result(2)]


@pytest.mark.parametrize("method", ["tools/list", "skills/list", "skills/get", "resources/directory/read"])
def test_housekeeping_repeats_its_last_answer(tmp_path: Path, method: str) -> None:
    player = played(
        tmp_path, ("client", request(1, method)), ("server", result(1)), ("server", tell("notifications/x"))
    )
    assert player.say(request(1, method)) == [result(1), tell("notifications/x")]
    assert player.say(request(2, method)) == [result(2)]
    assert player.deck.misses == 0


@pytest.mark.parametrize(("repeats", "then"), [("last", [[2], [2]]), ("cycle", [[1], [2]])])
def test_repeats_decides_how_a_played_out_request_is_answered(
    tmp_path: Path, repeats: Any, then: list[list[int]]
) -> None:
    player = played(
        tmp_path,
        ("client", call(1)),
        ("server", result(1, 1)),
        ("client", call(2)),
        ("server", result(2, 2)),
        repeats=repeats,
    )
    assert [values(player.say(call(n))) for n in (1, 2)] == [[1], [2]]
    assert [values(player.say(call(n))) for n in (3, 4)] == then


@pytest.mark.slow
def test_a_cycle_goes_through_all_answers_however_far_apart(tmp_path: Path) -> None:
    many = [turn for n in range(900) for turn in (("client", call(n, n=n % 200)), ("server", result(n, n)))]
    player = played(tmp_path, *many, repeats="cycle")  # type: ignore[arg-type]
    first = [values(player.say(call(n, n=n % 200))) for n in range(900)]
    assert first == [[n] for n in range(900)]
    assert [values(player.say(call(n, n=7))) for n in range(6)] == [[7], [207], [407], [607], [807], [7]]


def test_a_repeated_exchange_plays_its_progress_again(tmp_path: Path) -> None:
    player = played(
        tmp_path, ("client", call(1, token=1)), ("server", progress(1, 1)), ("server", result(1)), repeats="last"
    )
    for n in (1, 2):
        assert player.say(call(n, token=n)) == [progress(n, 1), result(n)]


def test_a_call_that_is_played_out_is_a_miss_that_says_so(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", call(1)), ("server", result(1)))
    player.say(call(1))
    assert error(player.say(call(2)))["code"] == -32010
    assert "already played" in player.told("miss")[0]
    assert player.deck.misses == 1


def test_a_method_that_is_on_no_tape_is_not_found(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", call(1)), ("server", result(1)))
    assert error(player.say(request(1, "resources/list")))["code"] == -32601
    assert player.deck.misses == 1


def test_the_probe_of_a_newer_client_is_answered_at_once_and_is_no_miss(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", request(0, "initialize")), ("server", result(0)))
    assert error(player.say(request(0, "server/discover")))["code"] == -32601
    assert player.say(request(1, "ping")) == ['{"jsonrpc":"2.0","id":1,"result":{}}']
    assert player.deck.misses == 0


def test_initialize_at_a_modern_tape_names_the_era(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", request(0, "server/discover")), ("server", result(0)), ("client", call(1)))
    assert "2026-07-28" in error(player.say(request(0, "initialize", protocolVersion="2025-11-25")))["message"]


def test_a_handshake_with_other_versions_and_capabilities_matches(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", request(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "a"})),
        ("server", result(0)),
    )
    other = request(
        "x", "initialize", protocolVersion="2025-11-25", capabilities={"roots": {}}, clientInfo={"name": "b"}
    )
    assert player.say(other) == [result("x")]
    assert player.told("note") == [
        "the client offers protocol 2025-11-25, the recorded one offered 2025-06-18; the answer is as recorded"
    ]


def test_an_unanswered_request_says_that_the_recording_ends(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", call(1, token=1)), ("server", progress(1, 1)))
    first, last = player.say(call(3, token=3))
    assert first == progress(3, 1)
    assert json.loads(last)["error"] == {"code": -32010, "message": "the recording ends before the answer"}
    assert (player.deck.played, player.deck.misses) == (0, 1)
    (told,) = player.told("miss")
    assert told.startswith("miss: tools/call echo\n  the recording ends before the answer: #1 in ")


def test_the_end_of_the_recording_comes_after_its_messages_even_in_recorded_time(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", [("client", call(1, token=1), 0), ("server", progress(1, 1), 1_000_000)])
    player = Player(path, speed=1.0)
    assert player.say(call(3, token=3), now=0.0) == []
    first, last = player.later(1.0)
    assert first == progress(3, 1)
    assert "the recording ends" in last


def test_a_request_cancelled_on_the_tape_is_left_silent(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", call(1)), ("client", tell("notifications/cancelled", requestId=1)))
    assert player.say(call(4)) == []
    assert player.say(tell("notifications/cancelled", requestId=4)) == []


def test_messages_recorded_after_a_cancel_wait_for_the_live_one(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", call(1)),
        ("client", tell("notifications/cancelled", requestId=1)),
        ("server", result(1, "late")),
    )
    assert player.say(call(4)) == []
    assert player.say(tell("notifications/cancelled", requestId=4)) == [result(4, "late")]


def test_a_cancel_may_come_on_another_channel_than_its_call(tmp_path: Path) -> None:
    cancel = tell("notifications/cancelled", requestId=1)
    player = played(tmp_path, ("client", call(1)), ("client", cancel), ("server", result(1, "late")))
    player.deck.receive(call(1).encode(), "post-1", 0.0)
    assert player.deck.due(0.0) == []
    player.deck.receive(cancel.encode(), "post-2", 0.0)
    (late,) = player.deck.due(0.0)
    assert late.text.rstrip() == result(1, "late").encode()


def test_a_live_cancel_drops_unsent_messages(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", [("client", call(1), 0), ("server", result(1), 5_000_000)])
    player = Player(path, speed=1.0)
    assert player.say(call(4), now=100.0) == []
    assert player.deck.next_at() == 105.0
    player.say(tell("notifications/cancelled", requestId=4), now=101.0)
    assert player.deck.next_at() is None


def test_speed_keeps_the_recorded_gaps(tmp_path: Path) -> None:
    path = make_cassette(
        tmp_path / "tape.db",
        [("client", call(1, token=1), 0), ("server", progress(1, 1), 1_000_000), ("server", result(1), 3_000_000)],
    )
    player = Player(path, speed=2.0)
    assert player.say(call(1, token=1), now=10.0) == []
    assert player.deck.next_at() == 10.5
    assert player.later(10.5) == [progress(1, 1)]
    assert player.later(11.4) == []
    assert player.later(11.5) == [result(1)]


def test_the_recorded_order_holds_an_answer_back_until_those_before_it_are_out(tmp_path: Path) -> None:
    player = played(tmp_path, *CONCURRENT, in_recorded_order=True)
    assert player.say(call(1, n=1)) == []
    assert player.say(call(2, n=2)) == [result(2, "two"), result(1, "one")]


def test_the_recorded_order_gives_way_after_a_while_and_says_so(tmp_path: Path) -> None:
    player = played(tmp_path, *CONCURRENT, in_recorded_order=True)
    assert player.say(call(1, n=1), now=50.0) == []
    assert player.later(51.0) == []
    assert player.later(player.deck.next_at() or 0.0) == [result(1, "one")]
    assert "gave way" in player.told("note")[0]


def test_the_recorded_order_gives_way_at_once_when_the_client_has_left(tmp_path: Path) -> None:
    player = played(tmp_path, *CONCURRENT, in_recorded_order=True)
    player.say(call(1, n=1), now=50.0)
    player.deck.leave(50.0)
    assert player.later(50.0) == [result(1, "one")]


LISTEN = "subscriptions/listen"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def test_a_listen_stream_plays_its_messages_with_the_live_subscription(tmp_path: Path) -> None:
    def tagged(rpc_id: Any, method: str) -> str:
        return tell(method, _meta={SUBSCRIPTION: rpc_id})

    player = played(
        tmp_path,
        ("client", request(1, LISTEN)),
        ("server", tagged(1, "notifications/subscriptions/acknowledged")),
        ("client", call(2)),
        ("server", result(2)),
        ("server", tagged(1, "notifications/tools/list_changed")),
    )
    assert player.say(request("L", LISTEN)) == [tagged("L", "notifications/subscriptions/acknowledged")]
    assert player.say(call(5)) == [result(5), tagged("L", "notifications/tools/list_changed")]


def test_a_listen_that_was_not_made_is_not_played(tmp_path: Path) -> None:
    player = played(
        tmp_path,
        ("client", request(1, LISTEN)),
        ("client", call(2)),
        ("server", tell("notifications/x", _meta={SUBSCRIPTION: 1})),
        ("server", result(2)),
    )
    assert player.say(call(5)) == [result(5)]


def test_a_request_that_needs_input_is_answered_round_by_round(tmp_path: Path) -> None:
    needs = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "requestState": "s1"}})
    again = request(2, "tools/call", name="echo", arguments={}, requestState="s1", inputResponses={"name": {"x": 1}})
    player = played(tmp_path, ("client", call(1)), ("server", needs), ("client", again), ("server", result(2)))
    assert player.say(call("a")) == [needs.replace('"id": 1', '"id": "a"')]
    other = request("b", "tools/call", name="echo", arguments={}, requestState="s1", inputResponses={"name": {"x": 2}})
    assert player.say(other) == [result("b")]
    assert "was given another input than recorded" in player.told("note")[0]


def test_a_batch_is_answered_as_a_batch_with_the_live_ids(tmp_path: Path) -> None:
    asked, told = f"[{call(1, n=1)}, {call(2, n=2)}]", f"[ {result(2, 'b')},{result(1, 'a')} ]"
    player = played(tmp_path, ("client", asked), ("server", told))
    assert player.say(f"[{call('x', n=1)}, {call('y', n=2)}]") == [f"[ {result('y', 'b')},{result('x', 'a')} ]"]


def test_each_unanswered_request_of_a_batch_gets_its_error(tmp_path: Path) -> None:
    batch = f"[{call(1, n=1)},{call(2, n=2)}]"
    told = [json.loads(text) for text in played(tmp_path, ("client", batch)).say(batch)]
    assert [(body["id"], body["error"]["code"]) for body in told] == [(1, -32010), (2, -32010)]


def test_requests_of_a_recorded_batch_may_come_one_by_one(tmp_path: Path) -> None:
    player = played(
        tmp_path, ("client", f"[{call(1, n=1)},{call(2, n=2)}]"), ("server", f"[{result(1, 'a')},{result(2, 'b')}]")
    )
    assert player.say(call(7, n=2)) == [result(7, "b")]
    assert player.say(call(8, n=1)) == [result(8, "a")]


def test_a_redacted_recording_matches_where_the_secret_is_not_known(tmp_path: Path) -> None:
    path = make_cassette(
        tmp_path / "tape.db", [("client", call(1, header="Bearer [redacted:shape:bearer]!")), ("server", result(1))]
    )
    alter(path, "UPDATE facts SET redactions = 1 WHERE id & 4294967295 = 1")  # the recorder's mark
    player = Player(path)
    assert error(player.say(call(2, header="Bearer !")))["code"] == -32010
    assert player.say(call(3, header="Bearer abc123!")) == [result(3)]


def test_ignored_parts_may_differ(tmp_path: Path) -> None:
    player = played(
        tmp_path, ("client", call(1, now="then", city="Bern")), ("server", result(1)), ignore=["$.params.arguments.now"]
    )
    assert error(player.say(call(1, now="x", city="Rome")))["code"] == -32010
    assert player.say(call(2, now="now", city="Bern")) == [result(2)]


def test_with_match_on_only_named_parts_count(tmp_path: Path) -> None:
    player = played(tmp_path, ("client", call(1, "echo", a=1)), ("server", result(1)), match_on=["$.params.name"])
    assert error(player.say(call(1, "other", a=1)))["code"] == -32010
    assert player.say(call(2, "echo", a=2)) == [result(2)]


@pytest.mark.parametrize(
    ("recorded", "live", "options"),
    [
        (call(1, where={"a": 1}), call(1, q=1), {"match_on": ["$.params.name"]}),
        (request(1, "tools/call", name="echo"), call(1, q=1), {"ignore": ["$.params.arguments"]}),
        (call(1, ids=[{"n": 1}]), call(1, ids=[]), {"ignore": ["$.params.arguments.ids"]}),
    ],
)
def test_a_container_with_nothing_in_it_that_counts_does_not_count(
    tmp_path: Path, recorded: str, live: str, options: dict[str, Any]
) -> None:
    player = played(tmp_path, ("client", recorded), ("server", result(1)), **options)
    assert player.say(live) == [result(1)]


def test_the_server_takes_back_a_request_under_the_id_it_went_out_with(tmp_path: Path) -> None:
    def conversation(n: int) -> list[Said]:
        taken_back = tell("notifications/cancelled", requestId=1)
        return [
            ("client", call(n, n=n)),
            ("server", request(1, "roots/list")),
            ("server", taken_back),
            ("server", result(n)),
        ]

    first = [("client", call(5)), ("server", request(1, "roots/list")), ("client", result(1)), ("server", result(5))]
    player = played(tmp_path, *first, *conversation(10))  # type: ignore[arg-type]
    assert player.say(call(5)) == [request(1, "roots/list")]
    assert player.say(call(10, n=10)) == [
        request(2, "roots/list"), tell("notifications/cancelled", requestId=2), result(10),
    ]  # fmt: skip
    assert player.say(result(1)) == [result(5)]


def test_keys_of_another_version_are_made_anew(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", result(1))])
    alter(path, "UPDATE sessions SET key_version = 0", "UPDATE derived SET key = x'00' WHERE key IS NOT NULL")
    assert Player(path).say(call(2)) == [result(2)]


def test_unplayed_requests_are_known(tmp_path: Path) -> None:
    player = played(tmp_path, *CONCURRENT)
    player.say(call(1, n=2))
    assert player.unplayed() == [1]


def test_a_client_that_leaves_a_channel_takes_only_its_own_answers_along(tmp_path: Path) -> None:
    said: list[tuple[Side, str, int]] = []
    for n in (1, 2):
        said += [("client", call(n, n=n), 0), ("server", result(n, n), n * 1_000_000)]
    said.append(("server", tell("notifications/message", data="all"), 2_500_000))
    player = Player(make_cassette(tmp_path / "tape.db", sorted(said, key=lambda one: one[2])), speed=1.0)
    for n, channel in ((1, "post-1"), (2, "post-2")):
        player.deck.receive(call(n, n=n).encode(), channel, 0.0)
    assert player.later(0.0) == []
    player.deck.abandon("post-2")
    assert player.later(9.0) == [result(1, 1), tell("notifications/message", data="all")]
    assert player.deck.next_at() is None


def test_messages_that_a_call_waits_for_still_come_when_the_client_has_left_another(tmp_path: Path) -> None:
    ask = request("q", "roots/list")
    said: list[Said] = [("client", call(1, n=1)), ("server", ask), ("client", call(2, n=2)), ("server", result(2))]
    player = played(tmp_path, *said, ("client", result("q", [])), ("server", result(1, "done")))
    for n in (1, 2):
        player.deck.receive(call(n, n=n).encode(), f"post-{n}", 0.0)
    assert player.later(0.0) == [ask, result(2)]
    player.deck.receive(call(7, n=2).encode(), "post-3", 0.0)
    player.later(0.0)
    player.deck.abandon("post-3")
    assert player.say(result("q", [])) == [result(1, "done")]
    player.deck.abandon("post-1")
    assert player.say(result("q", [])) == []


def test_the_remaining_delayed_messages_still_go_out_in_order(tmp_path: Path) -> None:
    times = [5, 1, 2, 3]
    said: list[tuple[Side, str, int]] = [("client", call(n, n=n), n) for n in range(len(times))]
    said += sorted((("server", result(n, n), at * 1_000_000) for n, at in enumerate(times)), key=lambda one: one[2])
    player = Player(make_cassette(tmp_path / "tape.db", said), speed=1.0)
    for n in range(len(times)):
        player.deck.receive(call(n, n=n).encode(), f"post-{n}", 0.0)
    assert player.later(0.0) == []
    player.deck.abandon("post-1")
    for n in (2, 3, 0):
        due = player.deck.next_at()
        assert due is not None and times[n] - 0.5 < due <= times[n]
        assert player.later(due) == [result(n, n)]
    assert player.deck.next_at() is None
