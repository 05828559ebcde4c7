"""`mcp-tape use --url`: VCR's modes with a server at a URL."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import provision, warm
from tests.support.http_facts import Http, Talk, cassette
from tests.support.live import (
    INITIALIZE,
    INITIALIZED,
    META,
    Client,
    Vcr,
    hanging_up,
    modern,
    old_client,
    posted,
    serving,
)
from tests.support.messages import call, request, result, tell
from tests.support.running import MCP_TAPE, is_one_file, receive_line, run, sessions, started, until


@pytest.fixture
def vcr(tmp_path: Path) -> Iterator[Vcr]:
    with serving() as live:
        yield Vcr(tmp_path, live)


def taped(*texts: str) -> Talk:
    """A session of the legacy era with an answer to each of these."""

    def talk(http: Http) -> None:
        http.post("post-1", INITIALIZE)
        http.answer("post-1", result(0), mcp_session_id="taped")
        for number, text in enumerate(texts, 2):
            http.post(f"post-{number}", text, mcp_session_id="taped")
            http.answer(f"post-{number}", result(json.loads(text)["id"], "taped"))

    return talk


def modern_tape(http: Http) -> None:
    http.post("post-1", modern(1, "a"))
    http.answer("post-1", result(1, "taped"))


# The modes ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_once_records_and_then_replays(vcr: Vcr) -> None:
    first = vcr.run("once", call(1, "a"))
    assert vcr.code == 0
    heard = vcr.live.methods()
    assert first == [["a", 2]]
    assert heard == ["initialize", "notifications/initialized", "a"]
    assert vcr.run("once", call(1, "a")) == first
    assert vcr.live.methods() == heard
    assert [session.incomplete for session in sessions(vcr.tape)] == [None]
    assert is_one_file(vcr.tape)


@pytest.mark.slow
def test_once_does_not_take_a_probe_for_a_recording(vcr: Vcr) -> None:
    with vcr.use("once") as url:
        assert Client(url).ask(request("p", "server/discover", _meta=META))[0] == "server/discover"
    assert vcr.run("once", call(1, "a")) == [["a", 3]]
    assert len(sessions(vcr.tape)) == 2


def test_none_never_asks_the_server(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a")))
    assert vcr.run("none", call(1, "a"), call(2, "b"))[0] == "taped"
    assert (vcr.code, vcr.live.heard) == (1, [])
    assert "1 missed" in vcr.stderr


def test_none_without_a_cassette_says_how_to_record_it(tmp_path: Path) -> None:
    done = run([*MCP_TAPE, "use", str(tmp_path / "no.db"), "--mode", "none", "--url", "http://127.0.0.1:9/mcp"])
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"mcp-tape record" in done.stderr


@pytest.mark.slow
def test_all_records_every_time(vcr: Vcr) -> None:
    assert [vcr.run("all", call(1, "a")) for _ in range(2)] == [[["a", 2]], [["a", 4]]]
    assert [session.extends for session in sessions(vcr.tape)] == [None, None]


@pytest.mark.slow
def test_rewrite_replaces_the_cassette_when_something_was_asked(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "old")))
    assert vcr.run("rewrite", call(1, "new")) == [["new", 2]]
    assert vcr.code == 0
    assert len(sessions(vcr.tape)) == 1
    assert not [text for text in vcr.all_said() if '"old"' in text]
    assert sorted(path.name for path in vcr.tape.parent.iterdir()) == ["stderr", "tape.db"]


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("server", ["not asked", "not there", "hangs up"])
def test_rewrite_leaves_the_old_cassette_when_nothing_was_answered(vcr: Vcr, server: str) -> None:
    cassette(vcr.tape, taped(call(1, "old")))
    before = vcr.tape.read_bytes()
    with hanging_up() as upstream:
        upstream = upstream if server == "hangs up" else "http://127.0.0.1:9/mcp"
        with vcr.use("rewrite", url=upstream) as url:
            if server != "not asked":
                (answer,) = Client(url).told(INITIALIZE)
                assert answer["error"]["message"].startswith(f"mcp-tape cannot reach {upstream}")
    assert vcr.code == (0 if server == "not asked" else 4)
    assert "was not changed" in vcr.stderr
    assert vcr.tape.read_bytes() == before
    assert not list(vcr.tape.parent.glob("*.part*"))


# New episodes ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_new_episodes_sends_each_miss_to_the_live_server_once(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a")))
    assert vcr.run("new_episodes", call(1, "a"), call(2, "b"), call(3, "b"), call(4, "a")) == [
        "taped", ["b", 2], ["b", 3], ["a", 4],
    ]  # fmt: skip
    assert vcr.live.methods() == ["initialize", "notifications/initialized", "b", "b", "a"]
    assert vcr.code == 0
    assert "only the handshake was replayed to it" in vcr.stderr
    assert [(session.extends, session.incomplete) for session in sessions(vcr.tape)] == [(None, None), (1, None)]


@pytest.mark.slow
def test_replay_prefix_makes_the_live_server_the_calls_before_the_miss(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a"), call(2, "b")))
    asked = call(1, "a"), call(2, "b"), call(3, "c"), call(4, "d")
    heard = vcr.run("new_episodes", *asked, options=["--replay-prefix"])
    assert heard == ["taped", "taped", ["c", 4], ["d", 5]]
    assert vcr.live.methods() == ["initialize", "notifications/initialized", "a", "b", "c", "d"]
    assert "the handshake and 2 earlier calls are replayed to it first" in vcr.stderr
    assert vcr.run("none", *asked, options=["--strict"]) == heard and vcr.code == 0


@pytest.mark.slow
def test_new_episodes_are_on_the_tape_the_next_time(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a")))
    live = vcr.run("new_episodes", call(1, "a"), call(2, "b"))
    heard = vcr.live.methods()
    assert is_one_file(vcr.tape)
    assert vcr.run("new_episodes", call(1, "a"), call(2, "b")) == live
    assert vcr.run("none", call(1, "a"), call(2, "b")) == live
    assert (vcr.code, vcr.live.methods()) == (0, heard)


@pytest.mark.slow
def test_new_episodes_without_a_miss_write_nothing(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a")))
    before = vcr.tape.read_bytes()
    assert vcr.run("new_episodes", call(1, "a")) == ["taped"]
    assert vcr.tape.read_bytes() == before


@pytest.mark.slow
def test_new_episodes_of_an_empty_cassette_is_a_recording(vcr: Vcr) -> None:
    assert vcr.run("new_episodes", call(1, "a")) == [["a", 2]]
    assert [session.extends for session in sessions(vcr.tape)] == [None]


@pytest.mark.slow
def test_new_episodes_of_the_modern_era_have_no_handshake(vcr: Vcr) -> None:
    cassette(vcr.tape, modern_tape)
    with vcr.use("new_episodes") as url:
        clients = [Client(url), Client(url)]
        assert [client.ask(modern(1, tool)) for client in clients for tool in ("a", "b")] == [
            "taped", ["b", 1], "taped", ["b", 2],
        ]  # fmt: skip
    assert vcr.live.methods() == ["b", "b"]
    with vcr.use("none") as url:
        assert [Client(url).ask(modern(5, "b")) for _ in range(2)] == [["b", 1], ["b", 2]]
    assert vcr.code == 0


@pytest.mark.slow
def test_a_question_of_the_live_server_reaches_the_client_and_its_answer_the_server(vcr: Vcr) -> None:
    """The tape's server and the live one both make a request with id 1, and neither is answered yet."""

    def talk(http: Http) -> None:
        taped()(http)
        http.post("post-8", call(1, "a"), mcp_session_id="taped")
        http.respond("post-8")
        http.event("post-8", request(1, "roots/list"))
        http.post("post-9", result(1, "root"), mcp_session_id="taped")
        http.event("post-8", result(1, "done"))

    cassette(vcr.tape, talk)
    with vcr.use("new_episodes") as url:
        client = Client(url).hello()
        of_tape, of_live = client.told(call(1, "a")), client.told(call(2, "ask"))
        assert next(of_tape) == json.loads(request(1, "roots/list"))
        asked = next(of_live)
        assert (asked["method"], asked["id"] == 1) == ("roots/list", False)
        assert list(client.told(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": "live"}))) == []
        assert list(of_live) == [json.loads(result(2, "live"))]
        assert list(client.told(result(1, "root"))) == []
        assert list(of_tape) == [json.loads(result(1, "done"))]
    assert vcr.live.methods()[-2:] == ["ask", "answer"]
    assert vcr.live.heard[-1]["id"] == 1
    assert vcr.code == 0


@pytest.mark.slow
def test_progress_of_a_live_call_is_passed_on(vcr: Vcr) -> None:
    cassette(vcr.tape, taped())
    with vcr.use("new_episodes") as url:
        told = list(Client(url).hello().told(call(2, "slow", token="t")))
    assert [body.get("params", {}).get("progressToken") for body in told] == ["t", None]


@pytest.mark.slow
def test_each_client_in_turn_has_a_session_at_the_live_server(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a")))
    with vcr.use("new_episodes") as url:
        for number in (1, 2):
            client = Client(url).hello()
            assert client.ask(call(number, "b"))[0] == "b"
            with client.send("DELETE") as response:
                assert response.status == 200
            # Recordings of this run play only in the next one, so their timing does not matter.
            until(lambda n=number: sum('["b",' in text for text in vcr.all_said()) == n, "the answer is recorded")
    sent = [body["headers"].get("mcp-session-id") for body in vcr.live.heard if body["method"] == "tools/call"]
    assert len(set(sent)) == 2
    assert [session.extends for session in sessions(vcr.tape)] == [None, 1, 1]


@pytest.mark.slow
def test_a_legacy_client_of_a_modern_tape_begins_once_at_the_live_server(vcr: Vcr) -> None:
    cassette(vcr.tape, modern_tape)
    assert vcr.run("new_episodes", call(1, "b")) == [["b", 2]]
    assert vcr.live.methods() == ["initialize", "notifications/initialized", "b"]


@pytest.mark.slow
def test_new_episodes_of_an_era_extend_the_session_of_that_era(vcr: Vcr) -> None:
    vcr.run("all", call(1, "a"))
    with vcr.use("all") as url:
        Client(url).ask(modern(1, "a"))
    live = vcr.run("new_episodes", call(1, "a"), call(2, "b"))
    assert [session.extends for session in sessions(vcr.tape)] == [None, None, 1]
    assert vcr.run("none", call(1, "a"), call(2, "b")) == live
    assert vcr.code == 0


@pytest.mark.slow
def test_of_a_batch_only_the_misses_are_passed_on(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a"), call(1, "a")))
    with vcr.use("new_episodes") as url:
        client = Client(url).hello()
        client.ask(call(2, "b"))
        told = tell("notifications/roots/list_changed")
        answers = list(client.told(f"[{call(1, 'a')},{told},{call(2, 'c')}]"))
        until(lambda: "notifications/roots/list_changed" in vcr.live.methods(), "the live server to be told")
    assert {body["id"]: body["result"]["value"] for body in answers} == {1: "taped", 2: ["c", 3]}
    assert sorted(vcr.live.methods()[3:]) == ["c", "notifications/roots/list_changed"]


@pytest.mark.slow
def test_the_headers_given_go_to_the_live_server_and_nowhere_else(vcr: Vcr) -> None:
    cassette(vcr.tape, taped())
    with vcr.use(
        "new_episodes", "--header", "X-Pass: sesame-1234", "--header", "Authorization: Bearer swordfish"
    ) as url:
        Client(url).hello().ask(call(1, "b"))
    assert [(b["headers"]["x-pass"], b["headers"]["authorization"]) for b in vcr.live.heard] == [
        ("sesame-1234", "Bearer swordfish")
    ] * 3
    assert not [word for word in (b"sesame", b"swordfish") if word in vcr.tape.read_bytes() + vcr.stderr.encode()]


@pytest.mark.slow
def test_the_clients_own_headers_go_to_the_live_server(vcr: Vcr) -> None:
    cassette(vcr.tape, taped())
    with vcr.use("new_episodes") as url:
        Client(url, Authorization="Bearer swordfish").hello().ask(call(1, "b"))
        until(lambda: vcr.live.listened, "the live server to be asked for a stream")
    asked = [body["headers"] for body in vcr.live.heard] + vcr.live.listened
    assert {headers.get("authorization") for headers in asked} == {"Bearer swordfish"}


@pytest.mark.slow
def test_a_live_server_that_redirects_is_followed(tmp_path: Path) -> None:
    with serving(redirects=True) as live:
        vcr = Vcr(tmp_path, live)
        cassette(vcr.tape, taped())
        assert vcr.run("new_episodes", call(1, "b")) == [["b", 2]]


# Failures of the live server -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_live_server_that_is_not_there_is_an_error_and_exit_code_4(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a")))
    told = vcr.run("new_episodes", call(1, "a"), call(2, "b"), url="http://127.0.0.1:9/mcp")
    assert told[0] == "taped"
    assert "cannot reach http://127.0.0.1:9/mcp" in told[1]["message"]
    assert "cannot reach http://127.0.0.1:9/mcp" in vcr.stderr
    assert vcr.code == 4
    assert vcr.run("none", call(1, "a"), call(2, "b"))[1]["code"] == -32010  # the failure was not recorded as an answer


@pytest.mark.slow
def test_a_live_server_that_dies_leaves_no_call_unanswered(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a")))
    with vcr.use("new_episodes") as url:
        client = Client(url).hello()
        news, answer = client.told(call(2, "die"))
        assert news["params"] == {"data": "farewell"}
        assert (answer["id"], answer["error"]["code"]) == (2, -32010)
        assert client.ask(call(1, "a")) == "taped"
        assert client.ask(call(3, "b"))[0] == "b"
    vcr.run("new_episodes", call(3, "b"), call(2, "die"))
    assert [name for name in vcr.live.methods() if len(name) < 4] == [
        "die",
        "b",
        "die",
    ]  # retried, since there was no answer


@pytest.mark.slow
def test_a_refusal_of_the_live_server_answers_the_call(vcr: Vcr) -> None:
    cassette(vcr.tape, taped())
    (told,) = vcr.run("new_episodes", call(2, "refuse"))
    assert (told["code"], told["message"]) == (-32099, "not today")


@pytest.mark.slow
def test_a_modern_client_that_leaves_cancels_at_the_live_server(vcr: Vcr) -> None:
    cassette(vcr.tape, modern_tape)
    with vcr.use("new_episodes") as url:
        told = Client(url).told(modern(1, "hang"))
        assert next(told)["params"] == {"data": "wait"}
        told.close()
        until(vcr.live.left.is_set, "the live server to be left")
    assert '{"event":"abort"}' in vcr.all_said()


# HTTP+SSE ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_client_of_http_sse_is_answered_by_the_live_server_too(vcr: Vcr) -> None:
    cassette(vcr.tape, taped(call(1, "a")))
    with vcr.use("new_episodes") as url, old_client(url) as (client, heard):
        assert [posted(client, text) for text in (INITIALIZE, INITIALIZED, call(1, "a"), call(2, "b"))] == [202] * 4
        assert [next(heard)["result"]["value"] for _ in range(3)] == ["ok", "taped", ["b", 2]]


@pytest.mark.slow
def test_a_live_server_of_http_sse_is_asked_in_its_own_way(tmp_path: Path) -> None:
    with serving(old=True) as live:
        vcr = Vcr(tmp_path, live)
        for mode, tool in (("once", "a"), ("new_episodes", "b")):
            with vcr.use(mode) as url, old_client(url) as (client, heard):
                assert posted(client, call(1, tool)) == 202
                assert next(heard)["result"]["value"][0] == "old"
                if mode == "new_episodes":
                    assert posted(client, call(2, "die")) == 202
                    assert next(heard)["error"]["message"] == "the live server ended before the answer"
        assert len(live.streams) == 2  # one per use


# With the official SDK ---------------------------------------------------------------------------------

# Logs and counts its calls. `ask` and `rounds` ask the user, each as in its era.
SDK_SERVER = """
import asyncio, itertools, socket, sys, warnings
import uvicorn
from mcp.server.lowlevel import Server

warnings.simplefilter("ignore")
calls = itertools.count(1)
NAME = {"type": "object", "properties": {"name": {"type": "string"}}}
WHO = {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": NAME}}

async def list_tools(context, params):
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("count", "ask", "rounds")]
    return {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"}

async def call_tool(context, params):
    given = (context.params or {}).get("inputResponses")
    with open(sys.argv[1], "a") as log:
        log.write(params.name + "\\n")
    if params.name == "ask":
        told = (await context.session.elicit_form("Who?", NAME, context.request_id)).content["name"]
    elif params.name == "rounds" and not given:
        return {"resultType": "input_required", "inputRequests": {"who": WHO}}
    else:
        told = given["who"]["content"]["name"] if given else str(next(calls))
    return {"resultType": "complete", "content": [{"type": "text", "text": told}]}

async def main():
    app = Server("counts", version="1", on_list_tools=list_tools, on_call_tool=call_tool).streamable_http_app()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        runner = uvicorn.Server(uvicorn.Config(app, http="h11", log_level="warning", timeout_graceful_shutdown=1))
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        await runner.serve([listening])

asyncio.run(main())
"""
# Calls tools, each as name:argument; accepts requests with a name that shows that.
SDK_CLIENT = """
import asyncio, sys, warnings
import mcp_types as types
from mcp import Client

warnings.simplefilter("ignore")

async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "asked " + params.message})

async def main(mode, url, *calls):
    async with Client(url, mode=mode, read_timeout_seconds=120, elicitation_callback=elicit) as client:
        print(client.protocol_version)
        for name, which in (call.split(":") for call in calls):
            print((await client.call_tool(name, {"which": which})).content[0].text)

asyncio.run(main(*sys.argv[1:]))
"""
SDK_PROGRAMS = {"client.py": SDK_CLIENT, "server.py": SDK_SERVER}


def warm_program(file: Path, text: str) -> list[str]:
    """The command of a program that starts with the SDK loaded."""
    file.write_text(text)
    return warm.command(sys.executable, file, provision.SDK)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "version", "ask"), [("auto", "2026-07-28", "rounds"), ("legacy", "2025-11-25", "ask")]
)
def test_the_sdk_is_answered_from_the_tape_and_the_live_server(
    vcr: Vcr, tmp_path: Path, mode: str, version: str, ask: str
) -> None:
    log = tmp_path / "log"
    client, serving = (warm_program(tmp_path / name, text) for name, text in SDK_PROGRAMS.items())

    def printed(how: str, *calls: str) -> list[str]:
        with vcr.use(how, url=url) as ours:
            done = run([*client, mode, ours, *calls])
        assert (done.returncode, vcr.code) == (0, 0), done.stderr.decode() + vcr.stderr
        return done.stdout.decode().split("\n")[:-1]

    with (tmp_path / "errors").open("wb") as errors, started([*serving, str(log)], stderr=errors) as server:
        assert server.stdout
        url = receive_line(server.stdout).decode().strip()
        assert printed("once", "count:a") == [version, "1"]
        assert printed("new_episodes", "count:a", "count:b", f"{ask}:c") == [version, "1", "2", "asked Who?"]
        assert log.read_text().split() == ["count", "count", ask] + [ask] * (ask == "rounds")
    assert [session.extends for session in sessions(vcr.tape) if session.extends] == [1]
