"""Requests that were refused and retried: the server's messages in between are still played."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_tape.cassette.reader import Cassette
from tests.support.decks import Player
from tests.support.derived import rebuild_cassette
from tests.support.http_facts import Http, cassette
from tests.support.messages import call, result, tell

Ends = Callable[[Http, str], None]


def refused(http: Http, channel: str) -> None:
    http.answer(channel, "later", 503)


def failed(http: Http, channel: str) -> None:
    http.control("server", channel, event="failed", why="no route")


def ended(http: Http, channel: str) -> None:
    http.answer(channel, "no such session", 404)


BATCH = f"[{tell('a')},{call(1)},{call(2)}]"


@pytest.mark.parametrize("ends", [refused, failed, ended])
@pytest.mark.parametrize(("text", "together"), [(call(1), False), (call(1), True), (BATCH, True)])
def test_messages_between_the_attempts_of_a_request_play(ends: Ends, text: str, together: bool, tmp_path: Path) -> None:
    def tries(http: Http) -> None:
        tried = ("post-2", "post-3")
        for channel in tried:
            http.post(channel, text, mcp_session_id="s")
            http.event("get-1", tell(f"during/{channel}"))
            if not together:
                ends(http, channel)
                http.event("get-1", tell(f"after/{channel}"))
        for channel in tried if together else ():
            ends(http, channel)
            http.event("get-1", tell(f"after/{channel}"))

    def talk(http: Http) -> None:
        http.open("get-1")
        http.respond("get-1")
        http.post("post-1", call(0, "before"))
        http.answer("post-1", result(0))
        tries(http)
        http.post("post-4", text)
        http.answer("post-4", f"[{result(1)},{result(2)}]" if text == BATCH else result(1))

    path = cassette(tmp_path / "tape.db", talk)
    player = Player(path)
    before, then = player.say(call(7, "before")), player.say(text)
    told = [said["method"] for said in map(json.loads, [*before, *then[:-1]]) if "method" in said]
    assert sorted(told) == ["after/post-2", "after/post-3", "during/post-2", "during/post-3"]
    assert "result" in then[-1]
    recorded = rows(path)
    rebuild_cassette(str(path))
    assert rows(path) == recorded


def rows(path: Path) -> list[tuple[object, ...]]:
    with Cassette(path) as tape:
        return tape.rows("SELECT seq, part, kind, method, answers, cue FROM messages ORDER BY seq, part")


@pytest.mark.parametrize("ends", [refused, failed, ended])
def test_the_recorded_order_does_not_wait_for_a_try_that_was_turned_away(ends: Ends, tmp_path: Path) -> None:
    def talk(http: Http) -> None:
        http.post("post-1", call(1, n=1), mcp_session_id="s")
        http.post("post-2", call(2, n=2), mcp_session_id="s")
        ends(http, "post-2")
        http.answer("post-1", result(1))
        http.post("post-3", call(2, n=2), mcp_session_id="s")
        http.answer("post-3", result(2))

    player = Player(cassette(tmp_path / "tape.db", talk), in_recorded_order=True)
    assert [player.say(call(n, n=n)) for n in (1, 2)] == [[result(1)], [result(2)]]
    assert player.told("note") == []
