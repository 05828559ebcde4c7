"""Routing of messages between a tape and a live server, without a process or a socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import ServerError
from mcp_tape.replay.live import Episodes
from mcp_tape.replay.sends import ClientCall, Refuse
from mcp_tape.replay.stage import ReplayOptions, Stage
from tests.support.decks import Player, Said, make_cassette
from tests.support.http_facts import Http, cassette
from tests.support.live import modern
from tests.support.messages import call, request, result, tell

INITIALIZE = request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "c"})
INITIALIZED = tell("notifications/initialized")
GREETED: list[Said] = [("client", INITIALIZE), ("server", result(0)), ("client", INITIALIZED)]


class Beside:
    """A tape and a live server played by the test, as a transport would do it."""

    def __init__(self, path: Path, transport: str = "stdio", *, prefix: bool = False) -> None:
        self.notes: list[str] = []
        self.started: list[str | None] = []  # the calls that started it
        self.is_http = transport == "http"
        self.is_there = True
        self.episodes = Episodes(
            self._start,
            self.notes.append,
            strays=not self.is_http,
            prefix=prefix,
        )
        self.player = Player(path, pass_on=self._pass_on)
        self.episodes.attach(self.player.deck)
        self.calls: dict[str, ClientCall] = {}

    def _start(self, call: ClientCall) -> None:
        if not self.is_there:
            raise ServerError("there is no such command")
        self.started.append(call.message.method)

    def _pass_on(self, call: ClientCall) -> bool:
        self.calls[call.rpc_id] = call
        return self.episodes.pass_on(call)

    def say(self, *texts: str) -> list[Any]:
        """Send messages from the client; return what it receives."""
        for text in texts:
            left = self.episodes.hear(text.encode(), origin=f"headers of {text}")
            if left is not None:
                self.player.deck.receive(left, "stdio", 0.0)
        return self.heard()

    def live(self, *texts: str, on: int | None = None) -> list[Any]:
        """Send messages from the live server, over HTTP perhaps on the stream of a call; return the client's."""
        for text in texts:
            self.episodes.hear_live(text.encode(), call=self.calls[str(on)] if self.is_http and on else None)
        return self.heard()

    def heard(self) -> list[Any]:
        """The messages for the client, from the tape and the live server."""
        due = [*self.player.deck.due(0.0), *self.episodes.take_for_client()]
        return [json.loads(action.text) for action in due]  # type: ignore[union-attr]

    def at_live(self) -> list[Any]:
        return [json.loads(message.text) for message in self.episodes.take_for_live()]


def asking_tape(directory: Path, rpc_id: int | str = 1) -> Path:
    """The server on this tape makes a request with this id before it answers `old`."""
    asks: list[Said] = [("client", call(1, "old")), ("server", request(rpc_id, "roots/list"))]
    answered: list[Said] = [("client", result(rpc_id, "told")), ("server", result(1, "taped"))]
    return make_cassette(directory / "tape.db", [*GREETED, *asks, *answered])


@pytest.fixture(params=["stdio", "http"])
def beside(tmp_path: Path, request: pytest.FixtureRequest) -> Beside:
    """A tape beside a live server that has completed the handshake, and holds a call of the client."""
    beside = Beside(asking_tape(tmp_path), request.param)
    beside.say(INITIALIZE, INITIALIZED, call(6, "new"))
    assert [line["method"] for line in beside.at_live()] == ["initialize"]
    beside.live(result(0))
    assert [line["method"] for line in beside.at_live()] == ["notifications/initialized", "tools/call"]
    assert beside.started == ["tools/call"]
    return beside


def test_the_tape_may_ask_under_an_id_that_the_live_server_has_in_flight(beside: Beside) -> None:
    (live,) = beside.live(request(1, "roots/list"))
    (taped,) = beside.say(call(5, "old"))
    assert (taped["id"], taped["method"]) == (1, "roots/list")
    assert live["id"] != taped["id"]
    assert beside.say(result(1, "told")) == [json.loads(result(5, "taped"))]
    assert beside.at_live() == []
    assert beside.say(json.dumps({"jsonrpc": "2.0", "id": live["id"], "result": "for the live one"})) == []
    assert beside.at_live() == [{"jsonrpc": "2.0", "id": 1, "result": "for the live one"}]


def test_a_live_server_asks_under_no_id_that_the_tape_has_in_flight(tmp_path: Path) -> None:
    beside = Beside(asking_tape(tmp_path, "live-1"))
    beside.say(INITIALIZE, INITIALIZED, call(6, "new"))
    beside.at_live()
    beside.live(result(0))
    (taped,) = beside.say(call(5, "old"))
    (live,) = beside.live(request(1, "roots/list"))
    assert (taped["id"], live["id"]) == ("live-1", "live-2")


def test_a_live_server_that_takes_a_request_back_names_it_as_the_client_knows_it(beside: Beside) -> None:
    (asked,) = beside.live(request(1, "roots/list"))
    (taken_back,) = beside.live(tell("notifications/cancelled", requestId=1))
    assert taken_back["params"] == {"requestId": asked["id"]}
    beside.say(call(5, "old"))
    assert beside.live(tell("notifications/cancelled", requestId=1))[0]["params"] == {"requestId": 1}  # not the live id


def test_a_batch_of_the_live_server_is_taken_apart(beside: Beside) -> None:
    asked, answer = beside.live(f"[{request(1, 'roots/list')}, {result(6, 'live')}]")
    assert (asked["id"], answer) == ("live-1", json.loads(result(6, "live")))
    assert beside.episodes.is_idle


def test_each_server_gets_its_own_answers_of_a_batch(beside: Beside) -> None:
    (live,) = beside.live(request(1, "roots/list"))
    beside.say(call(5, "old"))
    for_live = json.dumps({"jsonrpc": "2.0", "id": live["id"], "result": {}})
    assert beside.say(f"[{for_live}, {result(1, 'told')}]") == [json.loads(result(5, "taped"))]
    assert beside.at_live() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_a_handshake_that_misses_reaches_the_live_server_once(tmp_path: Path) -> None:
    beside = Beside(make_cassette(tmp_path / "tape.db", [("client", call(1, "a")), ("server", result(1))]))
    assert beside.say(INITIALIZE) == []
    assert beside.at_live() == [json.loads(INITIALIZE)]
    assert beside.live(result(0, "live")) == [json.loads(result(0, "live"))]


def test_a_live_server_that_ends_before_it_has_greeted_owes_nothing(tmp_path: Path) -> None:
    beside = Beside(asking_tape(tmp_path))
    beside.say(INITIALIZE, call(6, "new"))
    beside.episodes.lose_live()
    assert [answer["error"]["code"] for answer in beside.heard()] == [-32010]
    assert beside.episodes.is_idle


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_nothing_overtakes_the_handshake(tmp_path: Path, transport: str) -> None:
    beside = Beside(asking_tape(tmp_path), transport)
    beside.say(INITIALIZE, call(6, "new"), INITIALIZED, call(7, "new"))
    (greeting,) = beside.episodes.take_for_live()
    assert (greeting.text.decode(), greeting.origin) == (INITIALIZE, f"headers of {INITIALIZE}")
    assert greeting.begins and greeting.call is None
    beside.episodes.settle_awaited("0")  # otherwise it never will be
    rest = beside.episodes.take_for_live()
    assert [json.loads(message.text).get("id") for message in rest] == [6, None, 7]
    assert [message.begins for message in rest] == [False, True, False]
    assert [message.call and message.call.rpc_id for message in rest] == ["6", None, "7"]
    beside.episodes.settle_awaited("0")
    assert beside.at_live() == []


# Calls before the miss ------------------------------------------------------------------------------------


def test_the_live_server_is_made_the_calls_before_the_miss_one_by_one(tmp_path: Path) -> None:
    told: list[Said] = [
        ("client", call(1, "a")),
        ("server", result(1)),
        ("client", call(2, "b")),
        ("server", result(2)),
    ]
    beside = Beside(make_cassette(tmp_path / "tape.db", [*GREETED, *told]), prefix=True)
    beside.say(INITIALIZE, INITIALIZED, call(1, "a"), request("p", "ping"), call(2, "b"), call(3, "c"))
    assert [message["method"] for message in beside.at_live()] == ["initialize"]
    beside.live(result(0))
    _, first = beside.at_live()
    assert (first["id"], first["params"]["name"]) == ("earlier-1", "a")
    assert beside.live(tell("notifications/message", data="x"), request(1, "roots/list")) == []
    (refused,) = beside.at_live()
    assert (refused["id"], refused["error"]["code"]) == (1, -32601)  # the request was made during recording
    assert beside.live(result("earlier-1")) == []
    assert [message["params"]["name"] for message in beside.at_live()] == ["b"]
    assert beside.live(json.dumps({"jsonrpc": "2.0", "id": "earlier-2", "error": {"code": 1, "message": "no"}})) == []
    assert beside.at_live() == [json.loads(call(3, "c"))]
    assert beside.live(result(3, "live")) == [json.loads(result(3, "live"))]


def test_a_miss_that_is_no_call_leaves_the_calls_before_it_whole(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [("client", modern(1, "a")), ("server", result(1))])
    beside = Beside(tape, prefix=True)
    beside.say(modern(1, "a"), request(2, "resources/read", uri="a:b"))
    assert [message["method"] for message in beside.at_live()] == ["tools/call"]
    beside.live(result("earlier-1"))
    assert [message["method"] for message in beside.at_live()] == ["resources/read"]


def taped(directory: Path, *tools: str) -> Beside:
    said: list[Said] = []
    for number, tool in enumerate(tools, 1):
        said += [("client", modern(number, tool)), ("server", result(number))]
    return Beside(make_cassette(directory / "tape.db", said), prefix=True)


def test_calls_between_two_misses_are_made_before_the_second(tmp_path: Path) -> None:
    beside = taped(tmp_path, "a", "b")
    beside.say(modern(1, "a"), modern(2, "new"))
    beside.at_live()
    beside.live(result("earlier-1"), result(2, "live"))
    beside.at_live()
    answers = beside.say(modern(3, "b"), request(4, "ping"), modern(5, "newer"))
    assert sorted(answer["id"] for answer in answers) == [3, 4]
    (earlier,) = beside.at_live()
    assert (earlier["id"], earlier["params"]["name"]) == ("earlier-3", "b")
    assert beside.live(result("earlier-3")) == []
    assert [message["params"]["name"] for message in beside.at_live()] == ["newer"]
    assert beside.live(result(5, "live")) == [json.loads(result(5, "live"))] and beside.episodes.is_idle
    assert "calls of the tape that are made to the live server first: 1" in beside.notes


def test_a_live_server_that_cannot_be_started_owes_nothing(tmp_path: Path) -> None:
    beside = taped(tmp_path, "a")
    beside.is_there = False
    missed, played = beside.say(modern(1, "a"), modern(2, "new"))
    assert played == json.loads(result(1)) and missed["error"]["code"] == -32010
    assert beside.episodes.is_idle and str(beside.episodes.failed) == "there is no such command"


def test_the_answer_to_a_call_under_way_arrives_while_others_are_made(tmp_path: Path) -> None:
    beside = taped(tmp_path, "a")
    beside.say(modern(1, "new"), modern(2, "a"), modern(3, "newer"))
    assert [message["params"]["name"] for message in beside.at_live()] == ["new", "a"]
    assert not beside.episodes.is_catching_up, "what comes now may be of either"
    assert beside.live(result(1, "live")) == [json.loads(result(1, "live"))]
    assert beside.episodes.is_catching_up
    assert beside.live(result("earlier-2")) == []
    assert [message["params"]["name"] for message in beside.at_live()] == ["newer"]


def test_a_miss_in_a_batch_is_not_made_twice(tmp_path: Path) -> None:
    beside = taped(tmp_path, "a")
    beside.say(f"[{modern(1, 'new')},{modern(2, 'a')}]")
    assert [message["params"]["name"] for message in beside.at_live()] == ["new"]
    beside.live(result(1, "live"))
    beside.say(modern(3, "newer"))
    assert [message["params"]["name"] for message in beside.at_live()] == ["a"]


def test_a_miss_after_the_end_of_the_live_server_is_an_error(beside: Beside) -> None:
    beside.episodes.lose_live()
    assert [(answer["id"], answer["error"]["code"]) for answer in beside.heard()] == [(6, -32010)]
    assert [(answer["id"], answer["error"]["code"]) for answer in beside.say(call(7, "newer"))] == [(7, -32010)]
    assert beside.at_live() == []


def test_a_live_server_that_ends_while_it_catches_up_owes_the_miss(tmp_path: Path) -> None:
    tape = make_cassette(tmp_path / "tape.db", [("client", modern(1, "a")), ("server", result(1))])
    beside = Beside(tape, prefix=True)
    beside.say(modern(1, "a"), modern(2, "b"))
    beside.episodes.lose_live()
    assert [answer["error"]["code"] for answer in beside.heard()] == [-32010]
    assert beside.episodes.is_idle


def test_a_cancel_goes_to_the_server_that_was_asked(beside: Beside) -> None:
    beside.say(call(5, "old"))
    assert beside.say(tell("notifications/cancelled", requestId=5)) == []
    assert beside.at_live() == []
    beside.say(tell("notifications/cancelled", requestId=6))
    assert beside.at_live() == [json.loads(tell("notifications/cancelled", requestId=6))]
    told = tell("notifications/roots/list_changed")
    beside.say(told)
    assert beside.at_live() == [json.loads(told)]


def test_each_call_is_ended_once(beside: Beside) -> None:
    beside.say(call(7, "new"))
    first, second = (beside.calls[number] for number in ("6", "7"))
    assert beside.live(result(6, "live"), on=6) == [json.loads(result(6, "live"))]
    beside.episodes.leave_unanswered(first)
    beside.episodes.refuse(second, 503, "text/plain", b"busy")
    beside.episodes.leave_unanswered(second)
    assert beside.episodes.take_for_client() == [Refuse(503, second, b"busy", "text/plain")]
    assert beside.episodes.is_idle


def test_after_a_login_the_live_server_gets_the_handshake_and_earlier_calls_again(tmp_path: Path) -> None:
    beside = Beside(asking_tape(tmp_path), "http", prefix=True)
    beside.say(INITIALIZE, INITIALIZED, call(1, "old"))
    for _ in range(2):
        beside.say(call(6, "new"))
        seen = [beside.at_live()]
        for awaited in ("0", '"earlier-1"'):
            beside.episodes.settle_awaited(awaited)
            seen.append(beside.at_live())
        assert [[message["method"] for message in messages] for messages in seen] == [
            ["initialize"], ["notifications/initialized", "tools/call"], ["tools/call"]
        ]  # fmt: skip
        beside.episodes.refuse(beside.calls["6"], 401, "text/plain", b"", "Bearer")
        (refused,) = beside.episodes.take_for_client()
        assert isinstance(refused, Refuse) and refused.challenge == "Bearer"


def test_an_answer_on_the_stream_of_a_call_is_its_answer_whatever_its_id(tmp_path: Path) -> None:
    beside = Beside(asking_tape(tmp_path), "http")
    beside.say(call(6, "new"))
    assert beside.live(result(99, "live"), on=6)[0]["id"] == 6
    assert beside.live(result(99, "late"), "no message") == []  # no stream for it
    on_stdio = Beside(tmp_path / "tape.db")
    on_stdio.say(call(6, "new"))
    assert on_stdio.live(result(99, "live")) == [json.loads(result(99, "live"))]


def test_calls_of_two_clients_may_have_one_id(tmp_path: Path) -> None:
    """In the modern era, all clients share a deck."""
    beside = Beside(asking_tape(tmp_path), "http")
    beside.say(modern(6, "new"))
    first = beside.calls["6"]
    beside.say(modern(6, "new"))
    second = beside.calls["6"]
    for one in (second, first):
        beside.episodes.hear_live(result(6).encode(), call=one)
        (answer,) = beside.episodes.take_for_client()
        assert answer.call is one


def test_sessions_recorded_during_the_replay_are_not_on_its_tape(tmp_path: Path) -> None:
    path = make_cassette(tmp_path / "tape.db", GREETED)
    player = Player(path)
    make_cassette(path, [("client", call(2, "new")), ("server", result(2))], extends=1)
    (told,) = player.say(call(2, "new"))
    assert json.loads(told)["error"]["code"] == -32601


# Unanswered calls of an added session ---------------------------------------------------------------------


def grown(directory: Path, *added: list[Said]) -> Path:
    path = make_cassette(directory / "tape.db", [*GREETED, ("client", call(1, "old")), ("server", result(1))])
    return make_cassette(path, *added, extends=1)


def test_a_call_that_was_added_without_an_answer_is_not_on_the_tape(tmp_path: Path) -> None:
    player = Player(grown(tmp_path, [("client", call(2, "new"))]))
    (told,) = player.say(call(2, "new"))
    assert "is not on the tape" in json.loads(told)["error"]["message"]
    assert player.told("miss")
    player.say(call(1, "old"))
    assert player.unplayed() == [1]  # the handshake, which did not happen


@pytest.mark.parametrize("options", [{}, {"ignore": ["$.params.arguments.now"]}, {"session": "all"}])
def test_the_answer_of_a_later_try_plays(tmp_path: Path, options: dict[str, Any]) -> None:
    crashed: list[Said] = [("client", call(2, "new", now=1))]
    mended: list[Said] = [("client", call(3, "new", now=1)), ("server", result(3, "mended"))]
    player = Player(grown(tmp_path, crashed, mended, crashed), **options)
    assert json.loads(player.say(call(9, "new", now=1))[0])["result"] == {"value": "mended"}


def test_a_call_that_was_added_and_cancelled_is_as_silent_as_it_was(tmp_path: Path) -> None:
    cancelled: list[Said] = [("client", call(2, "new")), ("client", tell("notifications/cancelled", requestId=2))]
    player = Player(grown(tmp_path, cancelled))
    assert player.say(call(2, "new")) == []
    assert not player.told("miss")


@pytest.mark.parametrize("goes_on", [True, False])
def test_leaving_a_call_over_http_is_a_cancel_of_a_client_that_goes_on(tmp_path: Path, goes_on: bool) -> None:
    def added(http: Http) -> None:
        http.post("post-1", modern(1, "slow"))
        http.respond("post-1")
        http.abort("client", "post-1")
        if goes_on:
            http.post("post-2", modern(2, "next"))
            http.answer("post-2", result(2))

    path = make_cassette(tmp_path / "tape.db", [("client", modern(1, "old")), ("server", result(1))])
    cassette(path, added, extends=1)
    assert bool(Player(path).say(modern(1, "slow"))) is not goes_on  # silent, or a miss


# Tape answers that may be out of date ---------------------------------------------------------------------


@pytest.mark.parametrize(("hint", "stale"), [(True, 0), (False, 2)])
def test_answers_of_the_tape_after_a_live_call_that_may_write_are_counted(
    tmp_path: Path, hint: bool, stale: int
) -> None:
    tools = [{"name": "new", "annotations": {"readOnlyHint": hint}}]
    listed = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}})
    known: list[Said] = []
    for number in (2, 3, 4):
        known += [("client", call(number, f"old-{number}")), ("server", result(number))]
    path = make_cassette(tmp_path / "tape.db", [("client", request(1, "tools/list")), ("server", listed), *known])
    with Cassette(path) as cassette:
        stage = Stage(cassette, ReplayOptions(report=str(tmp_path / "report")), print)
        player, _ = stage.player(lambda call: True)
        for text in (call(2, "old-2"), call(8, "new"), call(3, "old-3"), call(9, "new"), call(4, "old-4")):
            player.receive(text.encode(), "stdio", 0.0)
        outcome = stage.finish(None)
        assert (outcome.grew, outcome.stale) == (2, stale)
    rows = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert [(row["calls"], row["stale"]) for row in rows if row["what"] == "grew"] == [(2, stale)]
