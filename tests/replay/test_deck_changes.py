"""Change notifications: later answers wait for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.decks import Said, played
from tests.support.messages import call, request, result, tell

LISTS = {
    "tools/list": "notifications/tools/list_changed",
    "prompts/list": "notifications/prompts/list_changed",
    "resources/list": "notifications/resources/list_changed",
    "resources/templates/list": "notifications/resources/list_changed",
}


def tape(method: str, change: str, **params: Any) -> list[Said]:
    """A request, a call that changes its answer, and the request again."""
    return [
        ("client", request(1, method, **params)),
        ("server", result(1, "old")),
        ("client", call(2, "enable")),
        ("server", result(2)),
        ("server", tell(change, **params)),
        ("client", request(3, method, **params)),
        ("server", result(3, "new")),
    ]


@pytest.mark.parametrize("report_played", [True, False])
@pytest.mark.parametrize(("method", "change"), LISTS.items())
def test_a_list_behind_a_change_waits_for_it(tmp_path: Path, method: str, change: str, report_played: bool) -> None:
    player = played(tmp_path, *tape(method, change), report_played=report_played)
    answers = [player.say(request(n, method)) for n in (1, 5, 6)]
    assert answers == [[result(1, "old")], [result(5, "old")], [result(6, "old")]]
    assert player.told("note") == [
        f"{method} was asked for once more before {change}: the answer before that is repeated"
    ]
    assert player.say(call(7, "enable")) == [result(7), tell(change)]
    assert player.say(request(8, method)) == [result(8, "new")]
    assert player.say(request(9, method)) == [result(9, "new")]
    assert (player.deck.misses, player.unplayed()) == (0, [])


def test_a_resource_waits_for_the_update_of_its_own(tmp_path: Path) -> None:
    read, updated = "resources/read", "notifications/resources/updated"
    other = [("client", request(4, read, uri="b")), ("server", result(4, "b1"))]
    again = [("client", request(5, read, uri="b")), ("server", result(5, "b2"))]
    player = played(tmp_path, *other, *tape(read, updated, uri="a"), *again)
    assert [player.say(request(n, read, uri="b")) for n in (1, 2)] == [[result(1, "b1")], [result(2, "b2")]]
    assert [player.say(request(n, read, uri="a")) for n in (3, 4)] == [[result(3, "old")], [result(4, "old")]]
    player.say(call(5, "enable"))
    assert player.say(request(6, read, uri="a")) == [result(6, "new")]


def test_lists_that_came_before_a_change_are_played_in_their_turn(tmp_path: Path) -> None:
    first, *rest = (tape("tools/list", LISTS["tools/list"])[at : at + 2] for at in (0, 2, 4, 6))
    second = [("client", request(1, "tools/list")), ("server", result(1, "older"))]
    player = played(tmp_path, *first, *second, *(turn for turns in rest for turn in turns))
    said = [player.say(request(n, "tools/list")) for n in range(3)]
    assert said == [[result(0, "old")], [result(1, "older")], [result(2, "older")]]


def test_a_list_first_requested_after_a_change_does_not_wait(tmp_path: Path) -> None:
    player = played(tmp_path, *tape("tools/list", LISTS["tools/list"])[2:])
    assert player.say(request(1, "tools/list")) == [result(1, "new")]


def test_a_change_counts_also_for_a_client_that_did_not_listen(tmp_path: Path) -> None:
    """In the modern era only listening clients are notified, and other clients may still ask again."""
    subscribed = {"_meta": {"io.modelcontextprotocol/subscriptionId": "l"}}
    listen = [
        ("client", request("l", "subscriptions/listen")),
        ("server", tell("notifications/acknowledged", **subscribed)),
    ]
    turns = tape("tools/list", LISTS["tools/list"])
    turns[4] = ("server", tell(LISTS["tools/list"], **subscribed))
    player = played(tmp_path, *listen, *turns)
    assert player.say(request(1, "tools/list")) == [result(1, "old")]
    assert player.say(call(2, "enable")) == [result(2)]
    assert player.say(request(3, "tools/list")) == [result(3, "new")]


def test_nothing_comes_for_a_listener_that_has_left(tmp_path: Path) -> None:
    subscribed = {"_meta": {"io.modelcontextprotocol/subscriptionId": "l"}}
    listen = request("l", "subscriptions/listen")
    turns = tape("tools/list", LISTS["tools/list"])
    turns[4] = ("server", tell(LISTS["tools/list"], **subscribed))
    acknowledged = tell("notifications/acknowledged", **subscribed)
    player = played(tmp_path, ("client", listen), ("server", acknowledged), *turns)
    assert player.say(listen) == [acknowledged]
    player.deck.abandon("stdio")
    assert player.say(call(2, "enable")) == [result(2)]


def test_a_change_that_waits_for_its_time_is_not_out_yet(tmp_path: Path) -> None:
    turns = [(*turn, at * 1_000_000) for at, turn in enumerate(tape("tools/list", LISTS["tools/list"]))]
    player = played(tmp_path, *turns, speed=1.0)  # type: ignore[arg-type]
    player.say(request(1, "tools/list"), now=0.0)
    player.later(1.0)
    player.say(call(2, "enable"), now=2.0)
    player.later(3.0)
    player.say(request(3, "tools/list"), now=3.0)
    assert player.later(4.0) == [result(3, "old"), tell(LISTS["tools/list"])]
    player.say(request(4, "tools/list"), now=5.0)
    assert player.later(6.0) == [result(4, "new")]
