"""A cassette with sessions of both eras: each client gets answers of its own era only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.decks import Said, Visit, make_cassette
from tests.support.http_running import replaying
from tests.support.live import DISCOVER, INITIALIZE, INITIALIZED, META, Client, modern
from tests.support.messages import call, lines, request, result, tell
from tests.support.running import MCP_TAPE, run

NOT_FOUND = json.dumps({"jsonrpc": "2.0", "id": "d", "error": {"code": -32601, "message": "Method not found"}})
MODERN: list[Said] = [("client", DISCOVER), ("server", result("d", "modern")), ("client", modern(1, "a")),
                      ("server", result(1, "modern"))]  # fmt: skip
LEGACY: list[Said] = [("client", INITIALIZE), ("server", result(0, "legacy")), ("client", call(1, "a")),
                      ("server", result(1, "legacy"))]  # fmt: skip
BOTH_WAYS = pytest.mark.parametrize("sessions", [[MODERN, LEGACY], [LEGACY, MODERN]], ids=["old last", "new last"])
POOLS = pytest.mark.parametrize("which", ["latest", "all"])


def made(directory: Path, *sessions: list[Said]) -> Path:
    return make_cassette(directory / "tape.db", *sessions)


@POOLS
@BOTH_WAYS
def test_each_client_is_answered_in_its_own_era(tmp_path: Path, which: str, sessions: list[list[Said]]) -> None:
    path = made(tmp_path, *sessions)
    old, new, plain = Visit(path, which), Visit(path, which), Visit(path, which)
    assert [old.say(text) for text in (INITIALIZE, call(1, "a"))] == ["legacy", "legacy"]
    assert [new.say(text) for text in (DISCOVER, modern(1, "a"))] == ["modern", "modern"]
    assert plain.say(modern(1, "a")) == "modern"  # no probe is needed


def test_the_commands_of_stdio_and_http_do_too(tmp_path: Path) -> None:
    path = made(tmp_path, MODERN, LEGACY)
    done = run([*MCP_TAPE, "replay", str(path), "--session", "all"], lines(DISCOVER, modern(1, "a")))
    assert [json.loads(line)["result"]["value"] for line in done.stdout.splitlines()] == ["modern", "modern"]
    with replaying(path, "--session", "all") as replay:
        assert Client(replay.url).ask(modern(1, "a")) == "modern"
        assert Client(replay.url).hello().ask(call(1, "a")) == "legacy"


@POOLS
def test_a_request_of_the_other_era_is_a_miss_that_reports_it(tmp_path: Path, which: str) -> None:
    more: list[Said] = [("client", modern(2, "b")), ("server", result(2, "modern"))]
    visit = Visit(made(tmp_path, LEGACY, [*MODERN, *more]), which)
    visit.say(INITIALIZE)
    assert visit.say(call(2, "b"))["code"] == -32010
    (miss,) = [fact.text for fact in visit.facts if fact.what == "miss"]
    assert "session 2 has it, but is of the other era" in miss
    assert ("--session all" in miss) == (which == "all")  # in commands to paste, unchanged


def test_a_client_of_both_eras_gets_the_newest_probe_answer(tmp_path: Path) -> None:
    """It tries the modern era first: the server in the newer recording no longer supported it, or not yet."""
    refused: list[Said] = [("client", DISCOVER), ("server", NOT_FOUND), *LEGACY]
    visit = Visit(made(tmp_path, MODERN, refused))
    assert visit.say(DISCOVER)["code"] == -32601
    assert [visit.say(text) for text in (INITIALIZE, call(1, "a"))] == ["legacy", "legacy"]
    assert Visit(made(tmp_path, MODERN)).say(DISCOVER) == "modern"


def test_messages_before_the_first_request_are_not_lost(tmp_path: Path) -> None:
    told: Said = ("server", request(9, "roots/list"))
    visit = Visit(made(tmp_path, MODERN, [*LEGACY[:2], ("client", INITIALIZED), told, *LEGACY[2:]]))
    visit.player.receive(INITIALIZED.encode(), "stdio", 0.0)
    assert list(visit.player.due(0.0)) == []
    visit.player.receive(INITIALIZE.encode(), "stdio", 0.0)
    texts = [json.loads(send.text) for send in visit.player.due(0.0)]  # type: ignore[union-attr]
    assert [body.get("method", body["id"]) for body in texts] == [0, "roots/list"]


def test_a_session_that_tells_no_era_plays_to_every_client(tmp_path: Path) -> None:
    bare: list[Said] = [("client", call(5, "bare")), ("server", result(5, "bare"))]
    for first in (INITIALIZE, DISCOVER):
        visit = Visit(made(tmp_path, MODERN, LEGACY, bare), "all")
        visit.say(first)
        assert visit.say(call(5, "bare")) == "bare"


def test_a_batch_shows_the_era_by_its_requests_other_than_probes(tmp_path: Path) -> None:
    visit = Visit(made(tmp_path, LEGACY, MODERN))
    visit.player.receive(f"[{request(7, 'ping')}, {INITIALIZE}]".encode(), "stdio", 0.0)
    texts = [json.loads(send.text) for send in visit.player.due(0.0)]  # type: ignore[union-attr]
    assert {body["id"]: body["result"] for body in texts} == {7: {}, 0: {"value": "legacy"}}


# A client that is older than the tape ----------------------------------------------------------------------

ABOUT = {
    "resultType": "complete", "supportedVersions": ["2026-07-28"], "instructions": "Be kind.", "value": "modern",
    "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}, "prompts": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "shop", "version": "2"}},
}  # fmt: skip
DISCOVERED = json.dumps({"jsonrpc": "2.0", "id": "d", "result": ABOUT})


def asked_for(number: int, method: str, **params: Any) -> list[Said]:
    """A request of the modern era, and its answer."""
    return [("client", request(number, method, **params, _meta=META)), ("server", result(number, method))]


def test_an_older_client_is_greeted_with_facts_from_the_tape(tmp_path: Path) -> None:
    known = [*asked_for(2, "resources/read", uri="a:b"), *asked_for(3, "completion/complete")]
    visit = Visit(made(tmp_path, LEGACY, [MODERN[0], ("server", DISCOVERED), *MODERN[2:], *known]), "2")
    (greeted,) = visit.hear(INITIALIZE)
    assert greeted["result"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": {
            "tools": {"listChanged": True},
            "resources": {"subscribe": False},  # without recorded answers, nothing is declared
            "completions": {},
        },
        "serverInfo": {"name": "shop", "version": "2"},
        "instructions": "Be kind.",
    }
    assert visit.hear(INITIALIZED) == [] and visit.say(call(1, "a")) == "modern"
    assert [fact.what for fact in visit.facts] == ["note", "played"]
    assert "older than the tape" in visit.facts[0].text


def test_an_older_client_is_greeted_even_if_the_server_gave_no_facts(tmp_path: Path) -> None:
    visit = Visit(made(tmp_path, MODERN[2:]))
    (greeted,) = visit.hear(INITIALIZE.replace("2025-11-25", "1999-01-01"))
    assert greeted["result"] == {
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "", "version": ""},
    }  # fmt: skip
    assert visit.say(call(7, "a")) == "modern"


@pytest.mark.parametrize("kind", ["input_required", "task"])
def test_a_result_that_an_older_client_cannot_express_is_a_miss_that_reports_it(tmp_path: Path, kind: str) -> None:
    asks = json.dumps({"jsonrpc": "2.0", "id": 2, "result": {"resultType": kind, "requestState": "s"}})
    tape = made(tmp_path, [*MODERN, ("client", modern(2, "b")), ("server", asks)])
    visit = Visit(tape)
    visit.hear(INITIALIZE)
    error = visit.say(call(2, "b"))
    assert error["code"] == -32010 and f"of the kind {kind}, which the client's older revision" in error["message"]
    (miss,) = [fact.text for fact in visit.facts if fact.what == "miss"]
    assert "#5 in " in miss and "--mode rewrite" in miss
    assert visit.say(call(1, "a")) == "modern"
    assert Visit(tape).hear(modern(2, "b"))[0]["result"]["resultType"] == kind


def test_an_older_client_hears_of_changes_without_listening(tmp_path: Path) -> None:
    of = {"_meta": {"io.modelcontextprotocol/subscriptionId": "l"}}
    listen = request("l", "subscriptions/listen", notifications={"toolsListChanged": True}, _meta=META)
    tape: list[Said] = [
        ("client", listen), ("server", tell("notifications/subscriptions/acknowledged", **of)),
        *asked_for(2, "tools/list"), *MODERN[2:], ("server", tell("notifications/tools/list_changed", **of)),
        ("client", request(3, "tools/list", _meta=META)), ("server", result(3, "after")),
    ]  # fmt: skip
    visit = Visit(made(tmp_path, tape))
    visit.hear(INITIALIZE)
    asked = request(1, "tools/list"), request(2, "tools/list"), call(3, "a"), request(4, "tools/list")
    heard = [message for text in asked for message in visit.hear(text)]
    values = [message["method"] if "method" in message else message["result"]["value"] for message in heard]
    assert values == ["tools/list", "tools/list", "modern", "notifications/tools/list_changed", "after"]


def test_an_older_client_over_http_has_a_session_and_the_statuses_of_its_era(tmp_path: Path) -> None:
    refused = json.dumps({"jsonrpc": "2.0", "id": 2, "error": {"code": -32601, "message": "no"}})
    path = made(tmp_path, [*MODERN, ("client", modern(2, "b")), ("server", refused)])
    with replaying(path) as replay:
        client = Client(replay.url)
        (greeted,) = client.told(INITIALIZE)
        assert greeted["result"]["protocolVersion"] == "2025-11-25" and client.session == "tape-1"
        assert list(client.told(INITIALIZED)) == [] and client.ask(call(1, "a")) == "modern"
        with client.send("POST", call(2, "b")) as response:
            assert response.status == 200 and json.load(response)["error"]["code"] == -32601
