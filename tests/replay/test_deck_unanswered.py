"""Calls without a recorded answer, and the replies to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.record.tape import Tape
from mcp_tape.replay.sends import Hangup
from tests.support.decks import FACTS, OneSession, Player, Said, make_cassette, make_empty
from tests.support.http_facts import Http, cassette
from tests.support.messages import call, error, progress, result

BROKEN = {
    "NaN": '{"jsonrpc":"2.0","id":%s,"result":{"x":NaN}}',
    "two values": '{"jsonrpc":"2.0","id":%s,"result":{}}{"more":1}',
    "a trailing comma": '{"jsonrpc":"2.0","id":%s,"result":{"x":1,}}',
    "cut off": '{"id":%s,"jsonrpc":"2.0","result":{"x":',
    "the id behind": '{"jsonrpc":"2.0","result":{"x":NaN},"id":%s}',
    "an error": '{"jsonrpc": "2.0", "id": %s, "error": {"code": 0x1}}',
}


def ended(path: Path, said: list[Said], *controls: tuple[Any, dict[str, Any]]) -> Path:
    """A cassette of one session, with these events at its end."""
    make_empty(path)
    writer = OneSession(path, {"started_at": "2026-01-01T00:00:00Z"} | FACTS)
    batch: list[Any] = []
    tape = Tape(lambda frame, entries: batch.append((frame, entries)), None)
    for number, (side, text) in enumerate(said):
        tape.feed(side, "stdio", text.encode() + b"\n", number)
    for side, facts in controls:
        tape.control(side, "stdio", facts, 1000)
    writer.append(batch, tape.ledger.facts)
    writer.finish({"ended_at": "2026-01-01T00:00:01Z", "exit_code": 0})
    writer.close()
    return path


SERVER_EXITS: Any = [("server", {"event": "close"}), ("server", {"event": "exit", "code": 3})]
CLIENT_LEAVES: Any = [
    ("client", {"event": "close"}),
    ("server", {"event": "close"}),
    ("server", {"event": "exit", "code": 0}),
]
CLIENT_LEAVES_SERVER_FAILS: Any = [*CLIENT_LEAVES[:2], SERVER_EXITS[1]]
ONE: list[Said] = [("client", call(1))]
HUNG: list[Said] = [*ONE, ("client", call(2, "other")), ("server", result(2))]
ENDINGS: dict[str, tuple[list[Said], Any, int | None]] = {  # the message, and the exit code if the server ends
    "the recording ends before the answer": (ONE, [], None),
    "the recorded client left before the answer": (ONE, CLIENT_LEAVES, None),
    "the recorded server exited with code 3 before it answered": (ONE, SERVER_EXITS, 3),
    "the recorded server exited with code 3 before it answered ": (HUNG, CLIENT_LEAVES_SERVER_FAILS, 3),
    "the recorded server never answered": (HUNG, CLIENT_LEAVES, None),
    "the recorded server never answered ": (HUNG, [], None),
}


@pytest.mark.parametrize("why", ENDINGS)
def test_an_error_replaces_the_missing_answer(tmp_path: Path, why: str) -> None:
    said, controls, _ = ENDINGS[why]
    player = Player(ended(tmp_path / "tape.db", said, *controls))
    assert error(player.say(call(7))) == {"code": -32010, "message": why.strip()}
    assert player.told("miss")[0].startswith(f"miss: tools/call echo\n  {why.strip()}: #1 in ")
    assert (player.deck.played, player.deck.misses) == (0, 1)


@pytest.mark.parametrize("why", ENDINGS)
def test_a_call_without_an_answer_is_left_silent_where_that_was_asked_for(tmp_path: Path, why: str) -> None:
    said, controls, _ = ENDINGS[why]
    player = Player(ended(tmp_path / "tape.db", said, *controls), unanswered="silent")
    assert player.say(call(7)) == []
    assert (player.deck.played, player.deck.misses) == (1, 0)


@pytest.mark.parametrize("why", ENDINGS)
def test_the_server_ends_in_a_call_as_it_did_where_that_was_asked_for(tmp_path: Path, why: str) -> None:
    said, controls, code = ENDINGS[why]
    player = Player(ended(tmp_path / "tape.db", said, *controls), unanswered="exit")
    player.deck.receive(call(7).encode(), "stdio", 0.0)
    assert [action.code for action in player.deck.due(0.0) if isinstance(action, Hangup)] == (
        [] if code is None else [code]
    )
    assert player.deck.misses == 0


def test_messages_of_the_call_come_before_its_end(tmp_path: Path) -> None:
    said: list[Said] = [("client", call(1, token="t")), ("server", progress("t", 1))]
    player = Player(ended(tmp_path / "tape.db", said, *SERVER_EXITS), unanswered="exit")
    player.deck.receive(call(7, token="u").encode(), "stdio", 0.0)
    step, end = player.deck.due(0.0)
    assert json.loads(step.text)["params"] == {"progressToken": "u", "progress": 1}  # type: ignore[union-attr]
    assert end == Hangup(3, end.call)


def test_over_http_it_is_the_connection_that_ends(tmp_path: Path) -> None:
    def conversation(http: Http) -> None:
        http.post("post-1", call(1))
        http.respond("post-1")
        http.abort("server", "post-1")

    path = cassette(tmp_path / "tape.db", conversation)
    message = error(Player(path).say(call(7)))["message"]
    assert message == "the recorded server closed the connection before it answered"
    player = Player(path, unanswered="exit")
    player.deck.receive(call(7).encode(), "post-1", 0.0)
    assert [action.code for action in player.deck.due(0.0) if isinstance(action, Hangup)] == [0]


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("unanswered", ["error", "silent", "exit"])
def test_an_answer_that_is_no_valid_json_goes_out_as_it_was_recorded_with_the_live_id(
    tmp_path: Path, kind: str, unanswered: Any
) -> None:
    path = make_cassette(tmp_path / "tape.db", [("client", call(1)), ("server", BROKEN[kind] % 1)])
    player = Player(path, unanswered=unanswered)
    broken, *more = player.say(call("live"))
    assert broken == BROKEN[kind] % '"live"'
    if unanswered == "error":
        assert error(more)["message"] == "the recorded answer is not valid JSON"
    else:
        assert more == []


def test_each_of_several_calls_gets_its_own_answer_that_is_no_valid_json(tmp_path: Path) -> None:
    said: list[Said] = [("client", call(1, n=1)), ("client", call(2, n=2))]
    said += [("server", BROKEN["NaN"] % 1), ("server", BROKEN["cut off"] % 2)]
    player = Player(make_cassette(tmp_path / "tape.db", said), unanswered="silent")
    assert player.say(call(8, n=2)) == [BROKEN["cut off"] % 8]
    assert player.say(call(9, n=1)) == [BROKEN["NaN"] % 9]


def test_noise_that_names_another_id_stays_unchanged(tmp_path: Path) -> None:
    noise = ['DEBUG {"id":1}', BROKEN["NaN"] % 7, "plain"]
    said: list[Said] = [("client", call(1)), *(("server", line) for line in noise), ("server", result(1))]  # type: ignore[list-item]
    player = Player(make_cassette(tmp_path / "tape.db", said))
    assert player.say(call(3)) == [*noise, result(3)]
