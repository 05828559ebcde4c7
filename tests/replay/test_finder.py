"""The recorded request that answers a live one, and the order of equal ones."""

from __future__ import annotations

import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.wire import protocol
from tests.support.decks import Player, Said, make_cassette
from tests.support.http_facts import Http, cassette
from tests.support.messages import call, progress, request, result, values

LOOSER: dict[str, dict[str, Any]] = {
    "ignore": {"ignore": ["$.params.arguments.n"]},
    "match_on": {"match_on": ["$.params.name"]},
    "normalize": {"normalize": ["case"]},
    "nearest": {"match": ["nearest:0.1"]},
    "rules": {"rules": [lambda recorded, live: None]},
}
ASKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # recorded, and a call that only a looser rung matches
    "ignore": ({"n": 1}, {"n": 9}),
    "match_on": ({"n": 1}, {"n": 9}),
    "normalize": ({"q": "the city of Bern"}, {"q": "the city of BERN"}),
    "nearest": ({"q": "the weather in Basel"}, {"q": "weather in Basel, please"}),
    "rules": ({"n": 1}, {"n": 9}),
}


def taped(tmp_path: Path, *asked: dict[str, Any], **options: Any) -> Player:
    said: list[Said] = []
    for number, arguments in enumerate(asked, 1):
        said += [("client", call(number, token="t", **arguments)), ("server", progress("t", number))]
        said.append(("server", result(number, number)))
    return Player(make_cassette(tmp_path / "tape.db", said), **options)


def ask(player: Player, arguments: dict[str, Any]) -> list[Any]:
    """The answer to a call: its progress and its value."""
    bodies = [json.loads(text) for text in player.say(call("live", token="mine", **arguments))]
    return [body["params"]["progress"] if "params" in body else body["result"]["value"] for body in bodies]


@pytest.mark.parametrize("rung", sorted(LOOSER))
def test_an_exact_request_gets_its_own_recording_even_if_a_looser_rung_used_it_before(
    tmp_path: Path, rung: str
) -> None:
    exact, loose = ASKED[rung]
    player = taped(tmp_path, exact, **LOOSER[rung])
    assert ask(player, loose) == [1, 1]
    assert ask(player, exact) == [1, 1], "its whole exchange"
    assert [fact.inexact.rung for fact in player.facts if fact.inexact] == ["match_on" if rung == "rules" else rung]


@pytest.mark.parametrize("rung", sorted(LOOSER))
def test_equal_requests_have_their_answers_in_order_though_a_looser_rung_gave_the_first(
    tmp_path: Path, rung: str
) -> None:
    exact, loose = ASKED[rung]
    player = taped(tmp_path, exact, exact, **LOOSER[rung])
    assert [ask(player, one) for one in (loose, exact, exact)] == [[1, 1], [1, 1], [2, 2]]
    assert player.unplayed() == []


def test_an_exact_call_that_never_reached_the_server_leaves_its_answer_to_the_next(tmp_path: Path) -> None:
    player = taped(tmp_path, {"n": 1}, ignore=["$.params.arguments.n"], report_played=True)
    ask(player, {"n": 9})
    ask(player, {"n": 1})
    (*_, made) = (fact.call for fact in player.facts if fact.what == "played")
    player.deck.give_back(made)
    assert ask(player, {"n": 1}) == [1, 1]


# -- equal requests with other headers or versions

REFUSED = '{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version"}}'


def stating(rpc_id: int, version: str) -> str:
    return call(rpc_id).replace('"arguments": {}', f'"_meta": {{"{protocol.META_VERSION}": "{version}"}}')


@pytest.mark.parametrize("asked", [["old", "new", "new"], ["new", "new", "old"], ["new", "old", "new"]])
def test_of_equal_requests_those_with_the_version_that_the_client_states_answer(
    tmp_path: Path, asked: list[str]
) -> None:
    said: list[Said] = [("client", stating(1, "old")), ("server", REFUSED)]
    for number in (2, 3):
        said += [("client", stating(number, "new")), ("server", result(number, number))]
    player = Player(make_cassette(tmp_path / "tape.db", said))
    answers: dict[str, list[Any]] = {"old": [], "new": []}
    for version in asked:
        (text,) = player.say(stating(9, version))
        answers[version].append(json.loads(text).get("result", {}).get("value"))
    assert answers == {"old": [None], "new": [2, 3]}
    assert player.unplayed() == []


def test_a_client_with_an_unrecorded_version_gets_all_answers_in_order(tmp_path: Path) -> None:
    said: list[Said] = [("client", stating(1, "old")), ("server", result(1, "first"))]
    said += [("client", stating(2, "new")), ("server", result(2, "second"))]
    player = Player(make_cassette(tmp_path / "tape.db", said))
    assert values([*player.say(stating(3, "newer")), *player.say(stating(4, "newer"))]) == ["first", "second"]


def test_a_handshake_that_offers_a_recorded_version_gets_its_answer(tmp_path: Path) -> None:
    said: list[Said] = []
    for number, version in enumerate(["2024-11-05", "2025-06-18"]):
        said += [
            ("client", request(number, "initialize", protocolVersion=version)),
            ("server", result(number, version)),
        ]
    player = Player(make_cassette(tmp_path / "tape.db", said))
    assert values(player.say(request(9, "initialize", protocolVersion="2025-06-18"))) == ["2025-06-18"]
    assert player.told("note") == []


def test_of_equal_requests_over_http_those_with_the_headers_of_the_client_answer(tmp_path: Path) -> None:
    def conversation(http: Http) -> None:
        for number, region in enumerate(["us", "eu"], 1):
            http.post(f"post-{number}", call(number), mcp_param_region=region)
            http.answer(f"post-{number}", result(number, region))

    player = Player(cassette(tmp_path / "tape.db", conversation))
    for region in ("eu", "us"):
        player.deck.receive(call(9).encode(), "post-9", 0.0, None, partial(dict, {"mcp-param-region": region}))
        assert values(player.later(0.0)) == [region]


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.slow
def test_a_call_with_progress_over_http_takes_no_longer_at_the_end_of_a_long_tape(tmp_path: Path, twins: bool) -> None:
    """Counts SQLite's steps for exchanges of several messages, perhaps recorded twice."""

    def steps(exchanges: int) -> int:
        def conversation(http: Http) -> None:
            for number in range(exchanges):
                channel = f"post-{number}"
                http.post(
                    channel, call(number, token=number, n=number // (1 + twins)), mcp_param_region=f"{number % 2}"
                )
                http.respond(channel)
                http.event(channel, progress(number, 1))
                http.event(channel, result(number, number))
                http.end("server", channel)

        player, taken = Player(cassette(tmp_path / f"{exchanges}.db", conversation)), itertools.count()
        player.cassette.connection.set_progress_handler(lambda: next(taken) < 0, 20)
        last = exchanges - 1
        text = call("live", token="mine", n=last // (1 + twins))
        player.deck.receive(text.encode(), "post-1", 0.0, None, partial(dict, {"mcp-param-region": f"{last % 2}"}))
        assert json.loads(player.later(0.0)[-1])["result"]["value"] == last
        return next(taken)

    assert steps(400) < 1.5 * steps(40) + 10


@pytest.mark.slow
def test_a_call_takes_no_longer_where_many_sessions_have_the_same_calls(tmp_path: Path) -> None:
    """Counts SQLite's steps: the messages of all sessions have the same numbers."""
    talk: list[Said] = [("client", call(1)), ("server", result(1))]

    def steps(sessions: int) -> int:
        player, taken = Player(make_cassette(tmp_path / f"{sessions}.db", *[talk] * sessions)), itertools.count()
        player.cassette.connection.set_progress_handler(lambda: next(taken) < 0, 20)
        assert player.say(call(7)) == [result(7)]
        return next(taken)

    assert steps(100) <= steps(4)
