"""Replay over HTTP: statuses, content types, sessions and streams as recorded."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.decks import make_cassette
from tests.support.http import EVENTS, JSON, Client, Message, Upstream, Wire, answer, ask
from tests.support.http_running import (
    HELLO,
    INITIALIZE,
    INITIALIZED,
    Running,
    call,
    event,
    failure,
    modern,
    recording,
    replaying,
    result,
    said,
)
from tests.support.http_tapes import (
    CHANGED,
    EVENTFUL,
    LISTEN,
    NO_RPC,
    NUMBER,
    SAMPLED,
    SAMPLING,
    TOOLS,
    asking_for_progress,
    legacy_tape,
    modern_tape,
    progress,
    subscribed,
    tool,
    with_token,
)


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the recorded tapes."""
    place = tmp_path_factory.mktemp("tapes")
    legacy_tape(place / "legacy.db")
    modern_tape(place / "modern.db")
    return place


@pytest.fixture(scope="module")
def legacy(tapes: Path) -> Iterator[Running]:
    with replaying(tapes / "legacy.db") as replay:
        yield replay
        assert replay.stop() == 0
        assert " 0 missed" in replay.said


@pytest.fixture
def session(legacy: Running) -> Iterator[dict[str, str]]:
    """The header of a private session."""
    header = {"mcp_session_id": begin_session(legacy)}
    assert ask(legacy.url, INITIALIZED, **header).status == 202
    yield header
    assert ask(legacy.url, verb="DELETE", **header).status == 200


def begin_session(replay: Running) -> str:
    done = ask(replay.url, INITIALIZE)
    assert done.status == 200
    return done.header("mcp-session-id") or ""


# The legacy era ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_json_answer_is_one_again(legacy: Running, session: dict[str, str]) -> None:
    listed = ask(legacy.url, call("l", "tools/list"), **session)
    assert (listed.status, listed.header("content-type")) == (200, JSON)
    assert listed.body == TOOLS.replace(b'"id": 1', b'"id": "l"')
    assert ask(legacy.url, tool(99, "plain"), **session).body == result(99, text="plain")


@pytest.mark.slow
def test_events_are_events_again_with_all_that_stood_before_their_data(
    legacy: Running, session: dict[str, str]
) -> None:
    done = ask(legacy.url, with_token(30, "events", 77), **session)
    assert (done.status, done.header("content-type")) == (200, EVENTS)
    first, second, third = EVENTFUL
    third = third.replace(result(3, text="with events"), result(30, text="with events"))
    assert done.body == first.replace(progress("t", 1), progress(77, 1)) + second + third


@pytest.mark.slow
def test_a_question_of_the_server_waits_for_its_answer(legacy: Running, session: dict[str, str]) -> None:
    with Client(legacy.url) as client:
        client.ask(tool(40, "asks"), **session)
        assert client.answer_head().header("content-type") == EVENTS
        assert client.read(len(event(SAMPLING))) == event(SAMPLING)
        assert ask(legacy.url, SAMPLED, **session).status == 202
        expected = event(result(40, text="asked"))
        assert client.read(len(expected)) == expected
        assert client.chunk() == b""


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.slow
def test_unsolicited_messages_wait_for_the_get_stream(early: bool, legacy: Running, session: dict[str, str]) -> None:
    with Client(legacy.url) as listener:
        if early:
            listener.ask(verb="GET", **session)
            listener.answer_head()
        assert ask(legacy.url, tool(50, "changes"), **session).body == result(50, text="changed")
        if not early:
            listener.ask(verb="GET", **session)
            listener.answer_head()
        assert listener.read(len(event(CHANGED, b"id: 1\n"))) == event(CHANGED, b"id: 1\n")


def test_refusals_have_their_status_and_their_body_again(legacy: Running, session: dict[str, str]) -> None:
    refused = ask(legacy.url, tool(60, "no_rpc"), **session)
    assert (refused.status, refused.body) == (422, NO_RPC)
    assert refused.header("content-type") == "application/problem+json"
    bad = ask(legacy.url, tool(61, "bad"), **session)
    assert (bad.status, bad.body) == (400, failure(None, -32600, "Bad Request"))


def test_a_stream_that_ended_early_is_resumed_behind_its_last_event(legacy: Running, session: dict[str, str]) -> None:
    done = ask(legacy.url, tool(80, "late"), **session)
    assert done.body == b"id: late/1\nretry: 1\ndata: \n\n"
    with Client(legacy.url) as other, Client(legacy.url) as client:
        other.ask(verb="GET", **session)
        other.answer_head()
        client.ask(verb="GET", last_event_id="late/1", **session)
        client.answer_head()
        expected = event(result(80, text="resumed"), b"id: late/2\n")
        assert client.read(len(expected)) == expected


def test_each_session_has_the_whole_tape_and_an_id_of_its_own(tapes: Path) -> None:
    with replaying(tapes / "legacy.db") as replay:
        first, second, third = (begin_session(replay) for _ in range(3))
        assert [first, second, third] == [NUMBER, f"{NUMBER}-2", f"{NUMBER}-3"]
        for number in (third, first, second):
            assert ask(replay.url, tool(1, "plain"), mcp_session_id=number).body == result(1, text="plain")
        for number in (third, second):
            assert ask(replay.url, verb="DELETE", mcp_session_id=number).status == 200
        for verb, body in (("POST", call(2, "tools/list")), ("GET", None), ("DELETE", None)):
            gone = ask(replay.url, body, verb=verb, mcp_session_id=second)
            assert (gone.status, gone.document["id"], gone.document["error"]["code"]) == (404, None, -32001)
        assert begin_session(replay) == f"{NUMBER}-4"  # no id is given out twice


# Without a session id ----------------------------------------------------------------------------------


def nameless(request: Message, wire: Wire) -> None:
    """A server of the legacy era without session ids, and without a stream of its own."""
    if request.verb == "POST":
        rpc_id, method = request.document.get("id"), request.document["method"]
        wire.send(answer(result(rpc_id, **(HELLO if method == "initialize" else {"tools": []}))))
    else:
        wire.send(answer(b"", 405))


@pytest.fixture(scope="module")
def without_ids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tape = tmp_path_factory.mktemp("nameless") / "tape.db"
    with Upstream(nameless) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, INITIALIZE).status == 200
        assert ask(recorder.url, call(1, "tools/list")).status == 200
        assert ask(recorder.url, verb="GET").status == 405
    return tape


@pytest.mark.slow
def test_no_session_id_is_wanted_where_none_was_recorded(without_ids: Path) -> None:
    with replaying(without_ids) as replay:
        for _ in range(2):  # each client starts again
            assert ask(replay.url, INITIALIZE).status == 200
            assert ask(replay.url, call(7, "tools/list")).document == {
                "jsonrpc": "2.0",
                "id": 7,
                "result": {"tools": []},
            }
            assert ask(replay.url, verb="GET").status == 405
        assert replay.stop() == 0
        assert "4 played, 0 missed: " in replay.said


@pytest.mark.slow
def test_nor_a_handshake_where_the_client_never_made_one(without_ids: Path) -> None:
    with replaying(without_ids) as replay:
        assert ask(replay.url, call(7, "tools/list")).status == 200


def test_one_is_wanted_of_the_old_transports_streams_all_the_same(without_ids: Path) -> None:
    with replaying(without_ids) as replay, Client(replay.origin + "/sse") as stream:
        stream.ask(verb="GET")
        stream.answer_head()
        assert ask(replay.url, call(7, "tools/list"), to="/messages").status == 404


# Refusals ----------------------------------------------------------------------------------------------


def test_each_refusal_is_reported_and_counted(tapes: Path) -> None:
    with replaying(tapes / "legacy.db", "--strict", "-q", code=1) as replay:
        for _ in range(2):
            assert ask(replay.url, call(1, "tools/list")).status == 400
        assert ask(replay.url, b"no").status == 400
        assert ask(replay.url, verb="DELETE", mcp_session_id="never").status == 404
        assert ask(replay.url, verb="PUT").status == 405
        assert ask(replay.url, verb="GET", to="/nowhere?token=k7Qz").status == 404
        assert replay.stop() == 1
        said = replay.said.replace("mcp-tape: ", "").splitlines()
        assert [line for line in said if line.startswith("refused")] == [
            "refused POST /mcp with 400: the header Mcp-Session-Id is missing",
            "refused POST /mcp with 400: the body is not a JSON-RPC message",
            "refused DELETE /mcp with 404: there is no such session; begin one with initialize",
            "refused PUT /mcp with 405: method not allowed",
            "refused GET /nowhere with 404: nothing is served here; see /mcp and /sse",
        ]
        assert "0 played, 0 missed, 6 refused, " in said[-1]


def test_a_refusal_that_was_recorded_is_none_of_ours(without_ids: Path) -> None:
    with replaying(without_ids) as replay:
        ask(replay.url, INITIALIZE)
        assert ask(replay.url, verb="GET").status == 405
        assert replay.stop() == 0
        assert "refused" not in replay.said


def test_a_client_without_a_session_gets_an_error(legacy: Running) -> None:
    assert ask(legacy.url, call(1, "tools/list")).status == 400
    assert ask(legacy.url, INITIALIZED).status == 400
    assert ask(legacy.url, call(1, "tools/list"), mcp_session_id="never").status == 404
    assert ask(legacy.url, verb="GET").status == 405
    assert ask(legacy.url, verb="DELETE").status == 404
    for body in (b"", b"{", b"[]", b"1", b"\xff", b'{"jsonrpc":"2.0"}'):
        done = ask(legacy.url, body)
        assert (done.status, done.document["error"]["code"]) == (400, -32700)


def test_the_end_of_a_session_ends_its_streams(legacy: Running) -> None:
    number = begin_session(legacy)
    with Client(legacy.url) as listener:
        listener.ask(verb="GET", mcp_session_id=number)
        listener.answer_head()
        assert ask(legacy.url, verb="DELETE", mcp_session_id=number).status == 200
        while listener.chunk():
            pass  # a clean end


@pytest.mark.parametrize(
    ("status", "headers"),
    [(200, {"host": "localhost"}), (421, {"host": "evil.test"}), (421, {"host": "[::1"}), (403, {"origin": "null"}),
     (403, {"origin": "https://evil.test"}), (403, {"origin": "http://[::1"})],
)  # fmt: skip
def test_only_requests_meant_for_us_are_answered(
    status: int, headers: dict[str, str], legacy: Running, session: dict[str, str]
) -> None:
    assert ask(legacy.url, tool(1, "plain"), **headers, **session).status == status


def test_other_paths_and_verbs_are_not_served(legacy: Running) -> None:
    for verb, path, status in [("GET", "/", 404), ("POST", "/x", 404), ("PUT", "/mcp", 405), ("POST", "/sse", 405),
                               ("GET", "/messages", 405), ("OPTIONS", "/mcp", 405), ("HEAD", "/mcp", 405)]:  # fmt: skip
        assert ask(legacy.url, verb=verb, to=path).status == status


def test_the_old_transport_plays_the_same_tape(legacy: Running) -> None:
    with Client(legacy.origin + "/sse") as stream:
        stream.ask(verb="GET")
        assert stream.answer_head().header("content-type") == EVENTS
        endpoint = stream.chunk().decode().split("data: ")[1].strip()
        assert endpoint.startswith("/messages?")
        assert ask(legacy.url, INITIALIZE, to=endpoint).status == 202
        assert json.loads(stream.chunk().split(b"data: ")[1])["id"] == 0
        assert ask(legacy.url, tool("p", "plain"), to=endpoint).status == 202
        assert stream.chunk() == event(result("p", text="plain"))
        assert ask(legacy.url, b"no message", to=endpoint).status == 400
    assert ask(legacy.url, INITIALIZE, to="/messages?sessionId=never").status == 404


# The modern era ----------------------------------------------------------------------------------------


def test_modern_clients_share_one_tape_that_begins_again(tapes: Path) -> None:
    with replaying(tapes / "modern.db") as replay:
        answers = [ask(replay.url, modern(f"c{n}", name="counted")).document for n in range(5)]
        assert [one["id"] for one in answers] == [f"c{n}" for n in range(5)]
        assert [one["result"]["text"] for one in answers] == [f"answer {n % 2 + 1}" for n in range(5)]
        done = ask(replay.url, json.dumps(asking_for_progress(31, 32)).encode())
        assert done.body == event(progress(32, 1)) + event(result(31, text="events"))
        assert done.header("mcp-session-id") is None
        assert ask(replay.url, verb="GET").status == 405


def test_a_miss_has_the_status_of_its_era(tapes: Path) -> None:
    with replaying(tapes / "modern.db", code=1) as replay:
        as_recorded = ask(replay.url, modern(1, "no/such"))
        assert (as_recorded.status, as_recorded.body) == (404, failure(1, -32601, "Method not found"))
        never = ask(replay.url, modern(2, "never/heard"))
        assert (never.status, never.document["error"]["code"]) == (404, -32601)
        other = ask(replay.url, modern(3, name="other"))
        assert (other.status, other.document["error"]["code"]) == (200, -32010)
        assert replay.stop() == 1
        assert "1 played, 2 missed" in replay.said


def test_every_listener_has_a_stream_that_stays_open(tapes: Path) -> None:
    with replaying(tapes / "modern.db") as replay, contextlib.ExitStack() as open_:
        for number in range(3):
            client = open_.enter_context(Client(replay.url))
            client.ask(LISTEN.replace(b'"l"', b'"l%d"' % number))
            assert client.answer_head().header("content-type") == EVENTS
            told = ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
            expected = b"".join(event(subscribed(f"l{number}", method)) for method in told)
            assert client.read(len(expected)) == expected


# From one transport to another -------------------------------------------------------------------------


def test_a_tape_of_stdio_has_sessions_over_http_and_no_noise(tmp_path: Path) -> None:
    tape = make_cassette(
        tmp_path / "tape.db",
        [
            ("server", "this is not a message"),
            ("client", INITIALIZE.decode()),
            ("server", result(0, protocolVersion="2025-11-25").decode()),
            ("client", INITIALIZED.decode()),
            ("server", CHANGED.decode()),
            ("client", tool(1, "asks").decode()),
            ("server", "more noise"),
            ("server", SAMPLING.decode()),
            ("client", SAMPLED.decode()),
            ("server", result(1, text="asked").decode()),
            ("client", tool(2, "plain").decode()),
            ("server", result(2, text="plain").decode()),
        ],
    )
    with replaying(tape) as replay:
        assert [begin_session(replay), begin_session(replay)] == ["tape-1", "tape-2"]
        own = {"mcp_session_id": "tape-2"}
        with Client(replay.url) as listener, Client(replay.url) as client:
            listener.ask(verb="GET", **own)
            listener.answer_head()
            assert ask(replay.url, INITIALIZED, **own).status == 202
            assert listener.read(len(event(CHANGED))) == event(CHANGED)
            client.ask(tool(9, "asks"), **own)
            client.answer_head()
            assert client.read(len(event(SAMPLING))) == event(SAMPLING)
            ask(replay.url, SAMPLED, **own)
            assert client.chunk() == event(result(9, text="asked"))
        assert ask(replay.url, tool(8, "plain"), **own).body == result(8, text="plain")


def test_unknown_words_of_a_client_disturb_nothing(legacy: Running, session: dict[str, str]) -> None:
    assert ask(legacy.url, said(method="notifications/never"), **session).status == 202
    assert ask(legacy.url, result("never asked"), **session).status == 202
    assert ask(legacy.url, tool(1, "plain"), **session).status == 200
