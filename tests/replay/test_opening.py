"""Connections of a run in another order: each plays the session that matches its first calls."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.cassette.lookup.playable_sessions import RecordedRun
from mcp_tape.replay.stage import ReplayOutcome
from tests.support.decks import Said, Visit, make_cassette
from tests.support.messages import call, request, result, tell

INITIALIZE = request(0, "initialize", protocolVersion="2025-06-18")
Asked = list[dict[str, Any]]
A: Asked = [{"who": "A"}, {"state": 1}, {"state": 1}]
B: Asked = [{"state": 1}, {"who": "B"}, {"state": 1}]
C: Asked = [{"who": "C"}, {"state": 1}]


class Counting:
    """Numbers connections in order of arrival."""

    def __init__(self) -> None:
        self._next = 0

    def peek(self) -> int:
        return self._next

    def take(self) -> int:
        self._next += 1
        return self._next - 1

    def is_of(self, recorded: str) -> bool:
        return False


class Connections:
    """The connections of one run that replay a recorded one."""

    def __init__(self, directory: Path, *recorded: Asked, greeting: Any = "hello", **more: Any) -> None:
        talks: list[list[Said]] = []
        for number, asked in enumerate(recorded, 1):
            name = greeting(number) if callable(greeting) else greeting
            talk: list[Said] = [("client", INITIALIZE), ("server", result(0, name))]
            talk += [("client", tell("notifications/initialized"))]
            for at, arguments in enumerate(asked, 1):
                talk += [("client", call(at, **arguments)), ("server", result(at, f"{number}: {arguments}"))]
            talks.append(talk)
        self.path = make_cassette(directory / "tape.db", *talks, run="r")
        self._clients = Counting()
        self._more = more

    def connect(self) -> Visit:
        return Visit(self.path, clients=self._count, **self._more)

    @staticmethod
    def ask(visit: Visit, asked: Asked) -> list[str]:
        """The answers to a handshake and these calls."""
        greeting = visit.say(INITIALIZE)
        visit.hear(tell("notifications/initialized"))
        return [greeting, *(visit.say(call(at + 10, **arguments)) for at, arguments in enumerate(asked))]

    def _count(self, recorded: RecordedRun) -> Counting:
        return self._clients


def ask(visit: Visit, asked: Asked) -> list[str]:
    """The answers to the calls."""
    return Connections.ask(visit, asked)[1:]


def answers(number: int, asked: Asked) -> list[str]:
    return [f"{number}: {arguments}" for arguments in asked]


def notes(visit: Visit) -> list[str]:
    return [fact.text for fact in visit.facts if fact.what == "note"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_connections_in_any_order_play_the_sessions_that_their_first_calls_fit(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    recorded = [A, B, C]
    run = Connections(tmp_path, *recorded)
    for number in order:
        visit = run.connect()
        assert ask(visit, recorded[number]) == answers(number + 1, recorded[number])
        assert notes(visit) == []
        played = visit.stage.finish(None)
        assert played == ReplayOutcome(1 + len(recorded[number]), 0, 0, 0)


def test_sessions_over_http_play_the_session_that_fits_their_first_calls_too(tmp_path: Path) -> None:
    run = Connections(tmp_path, A, B)
    for number, asked in ((2, B), (1, A)):
        visit = run.connect()
        visit.player, deck = visit.stage.session()
        assert ask(visit, asked) == answers(number, asked)
        assert deck.selection.sessions[0] == number


def test_connections_that_say_the_same_play_in_their_order(tmp_path: Path) -> None:
    run = Connections(tmp_path, [{"same": 1}], [{"same": 1}])
    assert [ask(run.connect(), [{"same": 1}]) for _ in range(2)] == [["1: {'same': 1}"], ["2: {'same': 1}"]]


def test_a_connection_that_asks_in_an_order_of_its_own_stays_with_its_session(tmp_path: Path) -> None:
    run = Connections(tmp_path, [{"n": 1}, {"n": 2}, {"n": 3}], [{"n": 3}, {"n": 1}, {"n": 2}])
    visit = run.connect()
    assert ask(visit, [{"n": 1}, {"n": 3}, {"n": 2}]) == ["1: {'n': 1}", "1: {'n': 3}", "1: {'n': 2}"]
    assert notes(visit) == []


def test_a_connection_with_many_messages_stays_with_its_session(tmp_path: Path) -> None:
    same: Asked = [{"same": 1}] * 64
    run = Connections(tmp_path, [*same, {"who": "A"}], [*same, {"who": "B"}])
    visit = run.connect()
    assert ask(visit, [*same, {"who": "B"}]) == [*answers(1, same), "2: {'who': 'B'}"]
    assert notes(visit) == ["tools/call echo was answered from session 2; this connection plays session 1"]


def test_a_note_says_so_where_another_session_had_answered_before_it_was_known(tmp_path: Path) -> None:
    run = Connections(tmp_path, A, B, greeting=lambda number: f"server {number}")
    visit = run.connect()
    assert ask(visit, B) == answers(2, B)
    (note,) = notes(visit)
    assert "makes the calls of session 2, in their order" in note
    assert "so far it got the answers of session 1, which differ" in note


def test_an_answer_of_another_session_is_reported(tmp_path: Path) -> None:
    run = Connections(tmp_path, A, C)
    visit = run.connect()
    assert ask(visit, [*A, {"who": "C"}]) == [*answers(1, A), "2: {'who': 'C'}"]
    assert notes(visit) == ["tools/call echo was answered from session 2; this connection plays session 1"]


def test_requests_sent_to_a_live_server_do_not_go_there_again_when_the_session_is_known(tmp_path: Path) -> None:
    run = Connections(tmp_path, A, B)
    passed: list[str | None] = []
    visit = run.connect()
    visit.player, _ = visit.stage.player(lambda made: passed.append(made.rpc_id) is None)
    visit.say(INITIALIZE)
    visit.hear(call(5, nowhere=1))
    visit.hear(call(6, state=1))
    assert passed == ["5"]
    assert visit.say(call(7, who="B")) == "2: {'who': 'B'}"
    assert passed == ["5"]


def test_a_stand_in_is_not_called_again_when_the_session_is_known(tmp_path: Path) -> None:
    stood: list[str | None] = []
    run = Connections(tmp_path, A, B, stand_in=lambda made: stood.append(made.rpc_id))
    assert ask(run.connect(), B) == answers(2, B)
    assert stood == ["0", "10", "11", "12"]


def test_unplayed_requests_are_those_of_the_session_finally_played(tmp_path: Path) -> None:
    visit = Connections(tmp_path, A, B).connect()
    ask(visit, B[:2])
    assert [row.place[:2] for row in visit.stage._unplayed_requests()] == [(2, 8)]


def test_messages_before_the_first_request_wait_for_it(tmp_path: Path) -> None:
    visit = Connections(tmp_path, A, B).connect()
    player = visit.player
    assert player.next_at() is None and not player.due(0.0)
    assert visit.hear(tell("notifications/initialized")) == [] and player.next_at() is None
    player.abandon("stdio")
    assert ask(visit, A) == answers(1, A)


def test_a_client_that_leaves_before_its_first_request_has_left(tmp_path: Path) -> None:
    visit = Connections(tmp_path, A, B).connect()
    visit.player.leave(0.0)
    assert not visit.player.due(0.0)
