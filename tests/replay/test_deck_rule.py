"""The table of the playing rule: an example for each row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_tape.replay import deck
from mcp_tape.replay.deck import RULE
from mcp_tape.replay.sends import ClientCall, Send
from tests.support.decks import Player, Said, make_cassette
from tests.support.messages import call, progress, request, result, tell

ASK = request("q", "roots/list")
CANCEL, LOG = "notifications/cancelled", "notifications/message"
PONG = '{"jsonrpc":"2.0","id":7,"result":{}}'
BROKEN, PARSE_ERROR = "{broken", '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
PLAIN: list[Said] = [("client", call(1)), ("server", result(1))]
A_MISS = '"code":-32010'
NESTED: list[Said] = [("client", call(1)), ("server", ASK)]


class Example(NamedTuple):
    """A tape, the client's earlier messages, its new one, and the expected result."""

    tape: list[Said]
    before: list[str]
    says: str
    hears: list[str]
    note: str = ""
    options: Any = None


def stand_in(made: ClientCall) -> Send | None:
    return Send(result(made.rpc_id, "stand-in").encode(), made.channel, made, True)


def modern(tool: str) -> str:
    facts = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    return request(1, "tools/call", name=tool, arguments={}, _meta=facts)


def cancelled(rpc_id: Any) -> str:
    return tell(CANCEL, requestId=rpc_id)


EXAMPLES: dict[tuple[str, str], Example] = {
    ("request", "its answer, and nothing else"): Example(PLAIN, [], call(7), [result(7)]),
    ("request", "its exchange"): Example(
        [("client", call(1, token="t")), ("server", progress("t", 1)), ("server", result(1))],
        [],
        call(7, token="u"),
        [progress("u", 1), result(7)],
    ),
    ("request", "its answer, given before"): Example(
        [("client", request(1, "ping")), ("server", tell(LOG, data=1)), ("server", result(1))],
        [request(6, "ping")],
        request(7, "ping"),
        [result(7)],
    ),
    ("request", "not looked up: a stand-in answers"): Example(
        PLAIN, [], call(7), [result("7", "stand-in")], options={"stand_in": stand_in}
    ),
    ("request", "an answer that the client's revision lacks"): Example(
        [("client", modern("b")), ("server", '{"jsonrpc":"2.0","id":1,"result":{"resultType":"task"}}')],
        [request(6, "initialize", protocolVersion="2025-11-25")],
        call(7, "b"),
        [A_MISS],
    ),
    ("request", "nothing"): Example(PLAIN, [], request(7, "ping"), [PONG]),
    ("response", "the question and an answer"): Example(
        [*NESTED, ("client", result("q", [])), ("server", result(1))],
        [call(7)],
        result("q", ["/other"]),
        [result(7)],
        "roots/list was answered differently than recorded",
    ),
    ("response", "the question alone"): Example([*NESTED, ("client", cancelled(1))], [call(7)], result("q", []), []),
    ("response", "a question that was taken back"): Example(
        [*NESTED, ("server", cancelled("q")), ("server", result(1))], [call(7)], result("q", []), []
    ),
    ("response", "an answer to nothing"): Example(
        [("client", result("x", 1)), ("server", tell(LOG, data="heard"))], [], result("x", 1), [tell(LOG, data="heard")]
    ),
    ("response", "nothing"): Example(PLAIN, [], result("x", 1), [], 'the client answered "x", which was not asked'),
    ("cancel", "a cancel"): Example(
        [("client", call(1)), ("client", cancelled(1)), ("server", tell(LOG, data="stopped"))],
        [call(7)],
        cancelled(7),
        [tell(LOG, data="stopped")],
    ),
    ("cancel", "nothing"): Example(PLAIN, [], cancelled(9), []),
    ("notification", "a notification"): Example(
        [("client", tell("notifications/initialized")), ("server", tell(LOG, data="ready"))],
        [],
        tell("notifications/initialized"),
        [tell(LOG, data="ready")],
    ),
    ("notification", "nothing"): Example(PLAIN, [], tell("notifications/initialized"), []),
    ("malformed line", "such a line"): Example(
        [("client", BROKEN), ("server", PARSE_ERROR)], [], BROKEN, [PARSE_ERROR]
    ),
    ("malformed line", "nothing"): Example(PLAIN, [], BROKEN, [], "the tape has no such line"),
}


def test_each_row_has_an_example() -> None:
    assert EXAMPLES.keys() == RULE.keys()


@pytest.mark.parametrize("row", RULE, ids=": ".join)
def test_the_deck_follows_its_table(row: tuple[str, str], tmp_path: Path) -> None:
    tape, before, says, hears, note, options = EXAMPLES[row]
    player = Player(make_cassette(tmp_path / "tape.db", tape), **(options or {}))
    for text in before:
        player.say(text)
    happened, noted = watched(player.deck), len(player.told("note"))
    answers = player.say(says)
    assert answers == hears or (hears == [A_MISS] and A_MISS in answers[0])
    assert happened == [(row, RULE[row])]
    assert [note in told for told in player.told("note")[noted:]] == ([True] if note else [])


def watched(one: deck.Deck) -> list[tuple[tuple[str, str], tuple[str, ...]]]:
    """The rows that a deck uses from now on, and its steps for each."""
    happened: list[tuple[tuple[str, str], tuple[str, ...]]] = []

    def watch(row: tuple[str, str], name: str, step: Any) -> Any:
        def made(*arguments: Any) -> None:
            happened[-1] = happened[-1][0], (*happened[-1][1], name)
            step(*arguments)

        return made

    happen = one._follow_rule

    def happening(arrival: deck.Arrival, now: float) -> None:
        happened.append((arrival[:2], ()))
        happen(arrival, now)

    one._follow_rule = happening  # type: ignore[method-assign]
    for row, steps in RULE.items():
        one._steps[row] = [watch(row, name, getattr(one, f"_{name}")) for name in steps]
    return happened


def test_a_client_is_asked_no_more_of_a_row_without_steps(tmp_path: Path) -> None:
    silent = [row for row, steps in RULE.items() if not steps]
    assert all(not EXAMPLES[row].hears and not EXAMPLES[row].note for row in silent)
