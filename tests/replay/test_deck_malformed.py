"""Invalid lines: the client's gets its recorded answer, which goes to no other client."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.decks import Player, Said, make_cassette
from tests.support.messages import call, progress, request, result, tell

BROKEN = "{broken"
PARSE_ERROR = '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
INVALID = '{"jsonrpc": "2.0", "id": %s, "foo": 1}'
INVALID_REQUEST = '{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"Invalid Request"}}'
NULL = '{"jsonrpc": "2.0", "id": null, "method": "tools/call", "params": {"name": "%s"}}'

TALK: list[Said] = [
    ("client", call(1)),
    ("server", result(1)),
    ("client", BROKEN),
    ("server", PARSE_ERROR),
    ("client", INVALID % 1),
    ("server", INVALID_REQUEST % 1),
]


@pytest.fixture
def player(tmp_path: Path) -> Player:
    return Player(make_cassette(tmp_path / "tape.db", TALK))


ANSWERS = {
    call(7): [result(7)],
    BROKEN: [PARSE_ERROR],
    "{broken in another way": [PARSE_ERROR],
    INVALID % 8: [INVALID_REQUEST % 8],
    INVALID % '"x"': [INVALID_REQUEST % '"x"'],
}


@pytest.mark.parametrize(
    "order",
    [
        [call(7)],
        [BROKEN],
        [INVALID % 8],
        [call(7), BROKEN, INVALID % 8],
        [BROKEN, call(7), INVALID % '"x"'],
        [INVALID % 8, "{broken in another way", call(7)],
    ],
)
def test_the_answer_to_a_malformed_line_waits_for_that_line(player: Player, order: list[str]) -> None:
    for text in order:
        assert player.say(text) == ANSWERS[text]
    assert player.told("note") == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BROKEN, "a line that is not JSON; the tape has no such line, and it gets no answer"),
        (INVALID % 9, "a line that is not a JSON-RPC message; the tape has no such line"),
    ],
)
def test_one_that_is_sent_once_more_gets_a_note_and_nothing_of_anybody_else(
    player: Player, text: str, why: str
) -> None:
    player.say(text)
    assert player.say(text) == []
    (note,) = player.told("note")
    assert why in note
    assert player.say(call(7)) == [result(7)]


def test_one_that_the_tape_does_not_have_gets_a_note(player: Player) -> None:
    assert player.say('{"jsonrpc":"2.0","id":1,"bar":1}') == []
    assert player.say(NULL % "echo") == []
    assert player.say("") == player.say(" \t") == []
    one, other = player.told("note")
    assert "not a JSON-RPC message" in one
    assert "sent tools/call with an id that is neither a string nor a number" in other
    assert player.deck.misses == 0


def test_a_request_whose_id_is_null_is_answered_as_the_server_did(tmp_path: Path) -> None:
    refused = INVALID_REQUEST % "null"
    talk: list[Said] = [("client", NULL % "a"), ("server", refused), ("client", call(1, "a")), ("server", result(1))]
    player = Player(make_cassette(tmp_path / "tape.db", talk))
    assert player.say(call(5, "a")) == [result(5)]
    assert player.say(NULL % "b") == []
    assert player.say(NULL % "a") == [refused]


def test_answers_to_several_lines_go_to_each_in_turn(tmp_path: Path) -> None:
    other = PARSE_ERROR.replace("Parse error", "Parse error again")
    talk: list[Said] = [("client", "{one"), ("client", "{two"), ("server", PARSE_ERROR), ("server", other)]
    player = Player(make_cassette(tmp_path / "tape.db", talk))
    assert [player.say("{two"), player.say("{one")] == [[other], [PARSE_ERROR]]


def test_other_messages_after_a_malformed_line_wait_for_it_too(tmp_path: Path) -> None:
    log = tell("notifications/message", data="what was that?")
    talk: list[Said] = [("client", call(1)), ("server", result(1)), ("client", BROKEN), ("server", log)]
    player = Player(make_cassette(tmp_path / "tape.db", talk))
    assert player.say(call(1)) == [result(1)]
    assert player.say(BROKEN) == [log]


def test_a_line_without_a_message_changes_nothing_in_an_exchange(tmp_path: Path) -> None:
    talk: list[Said] = [("client", call(1, token="t")), ("client", BROKEN), ("server", progress("t", 1))]
    talk += [("server", PARSE_ERROR), ("server", result(1))]
    player = Player(make_cassette(tmp_path / "tape.db", talk))
    assert player.say(call(2, token="u")) == [progress("u", 1), result(2)]
    assert player.say(BROKEN) == [PARSE_ERROR]
    assert player.say(request(3, "ping")) == ['{"jsonrpc":"2.0","id":3,"result":{}}']
