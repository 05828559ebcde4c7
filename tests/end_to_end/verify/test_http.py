"""The recorded client plays against a server over HTTP: both eras, the old HTTP+SSE, and from stdio to HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_tape.cassette.query.recorded_requests import opens_stream_late
from mcp_tape.cassette.reader import Cassette
from mcp_tape.errors import ServerError
from mcp_tape.transports.http.connect import HttpConnection
from tests.end_to_end.verify.test_verify import kind, told, use_all
from tests.servers.minting import Mint
from tests.support import provision
from tests.support.decks import make_cassette
from tests.support.golden import path_of
from tests.support.http import LAST, Message, Upstream, Wire, answer, begin, chunk
from tests.support.http_running import HELLO, event, listening, result, said
from tests.support.sdk_http import served
from tests.support.verifying import Client, Here, at_url, changes, command, exchanges, methods, module, play, writing

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])


@pytest.fixture(scope="module")
def minting() -> Iterator[str]:
    with at_url(*module("minting_http")) as url:
        yield url


@pytest.fixture(scope="module")
def old_minting() -> Iterator[str]:
    with at_url(*module("minting_http", "sse")) as url:
        yield url


def recorded(tape: Path, url: str, modern: bool = False, late: bool = False) -> Path:
    """A recording over HTTP, by the real recorder."""
    with listening("record", "-q", "--url", url, "-o", str(tape)) as recorder:
        with HttpConnection(recorder.url, sse=url.endswith("/sse"), late=late) as connection:
            use_all(Client(connection, modern).hello(), modern)
        assert recorder.stop() == 0
    return tape


def assert_played(tape: Path, url: str, directory: Path) -> None:
    done = play(tape, directory, url)
    assert (done.failures, done.skipped) == ((), ())
    assert len(done.new_sessions) == 1
    assert methods(done.new_path) == methods(tape)
    assert not [answer for *_, answer in exchanges(done.new_path) if "code" in answer]
    assert changes(done) == []


@pytest.mark.slow
@ERAS
def test_a_recording_over_http_is_played_over_http(modern: bool, tmp_path: Path, minting: str) -> None:
    assert_played(recorded(tmp_path / "tape.db", minting, modern), minting, tmp_path / "new")


@pytest.mark.slow
def test_a_recording_over_the_old_sse_is_played_over_the_old_sse(tmp_path: Path, old_minting: str) -> None:
    tape = recorded(tmp_path / "tape.db", old_minting)
    assert_played(tape, old_minting, tmp_path / "new")
    with Cassette(tape) as cassette:
        assert cassette.session().transport == "sse"


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
def test_a_stream_is_opened_when_the_recorded_client_did(late: bool, tmp_path: Path, minting: str) -> None:
    tape = recorded(tmp_path / "tape.db", minting, late=late)
    done = play(tape, tmp_path / "new", minting)
    for path in (tape, done.new_path):
        with Cassette(path) as cassette:
            assert opens_stream_late(cassette, 1) is late


@pytest.mark.slow
@ERAS
def test_a_recording_of_a_command_is_played_over_http(modern: bool, tmp_path: Path, minting: str) -> None:
    with writing(tmp_path / "tape.db", Mint(), modern=modern) as client:
        use_all(client, modern)
    assert_played(tmp_path / "tape.db", minting, tmp_path / "new")


@pytest.mark.slow
@pytest.mark.skipif(not provision.has_node(), reason="needs Node")
@pytest.mark.parametrize("server", ["everything-http", "everything-sse"])
def test_a_golden_cassette_is_played_at_the_same_server_over_http(server: str, tmp_path: Path) -> None:
    with served(server, tmp_path) as url:
        done = play(path_of("everything"), tmp_path / "new", url)
    assert (done.failures, done.skipped) == ((), ())
    before, after = (
        Counter(kind(one) for one in found if one[0] != "roots/list")  # a slow server asks once more
        for found in (exchanges(done.path, done.session), exchanges(done.new_path))
    )
    assert after == before
    assert changes(done) == []
    early = "notifications/tools/list_changed"  # sent right after the handshake, to clients that listen by then
    assert {**told(done.new_path, 1), early: 0} == {**told(done.path, done.session), early: 0}


@pytest.mark.slow
def test_a_session_is_ended_when_the_client_leaves(tmp_path: Path) -> None:
    with Upstream(small) as upstream:
        with writing(tmp_path / "tape.db", Mint()) as client:
            client.ask("tools/list")
        play(tmp_path / "tape.db", tmp_path / "new", upstream.url)
        heard = [(request.verb, request.header("mcp-session-id")) for request in upstream.requests]
    assert heard[0] == ("POST", None)
    assert heard[-1] == ("DELETE", "s1")
    assert {number for _, number in heard[1:]} == {"s1"}
    assert ("GET", "s1") in heard


def small(request: Message, wire: Wire) -> None:
    """A server that uses every form of HTTP response."""
    if request.verb != "POST":
        wire.send(answer(status=405))
        return
    body = request.document
    if body.get("method") == "initialize":
        wire.send(answer(result(body["id"], **HELLO), mcp_session_id="s1"))
    elif "id" not in body or "method" not in body:
        wire.send(answer(status=202))
    else:
        wire.send(answer(result(body["id"], tools=[])))


def odd(request: Message, wire: Wire) -> None:
    """Answer in a different form each time."""
    if request.verb == "GET" and request.header("last-event-id") == "mark":
        wire.send(begin() + chunk(event(result(2, said="later"))) + LAST)
        return
    body = request.document if request.verb == "POST" else {}
    number = body.get("id")
    if number == 2:
        wire.send(begin() + chunk(b"id: mark\nretry: 10\ndata:\n\n") + LAST)
    elif number == 3:
        wire.send(answer(b"<html>no</html>", 503, "text/html"))
    elif number == 4:
        wire.send(answer(said(id=None, error={"code": -32099, "message": "not today"}), 400))
    elif number == 5:
        wire.send(begin() + chunk(event(said(method="notifications/message", params={}))))
        wire.close()
    elif number == 6:
        wire.send(
            begin() + chunk(event(said(id=1, method="roots/list"))) + chunk(event(result(6, said="asked"))) + LAST
        )
    else:
        small(request, wire)


def test_every_http_outcome_becomes_an_answer_so_that_nothing_hangs(tmp_path: Path) -> None:
    with Upstream(odd) as upstream, HttpConnection(upstream.url) as connection:
        client = Client(connection).hello()
        assert client.ask("a") == {"said": "later"}
        assert client.ask("b")["message"] == "HTTP status 503"
        assert client.ask("c") == {"code": -32099, "message": "not today"}
        with pytest.raises(ServerError, match="d: "):
            client.ask("d")
        assert client.ask("e") == {"said": "asked"}
        assert upstream.requests[-1].document["error"]["code"] == -32601


def test_arguments_that_have_a_header_go_into_it(tmp_path: Path) -> None:
    schema = {"properties": {"city": {"x-mcp-header": "City"}, "at": {"properties": {"n": {"x-mcp-header": "N"}}}}}

    def script(request: Message, wire: Wire) -> None:
        body = request.document
        wire.send(answer(result(body["id"], tools=[{"name": "wähle", "inputSchema": schema}])))

    with Upstream(script) as upstream, HttpConnection(upstream.url) as connection:
        client = Client(connection, modern=True)
        client.ask("tools/list")
        client.call("wähle", city="Zürich", at={"n": 7})
        call = upstream.requests[-1]
    assert call.header("mcp-method") == "tools/call"
    assert call.header("mcp-name") == "=?base64?d8OkaGxl?="
    assert call.header("mcp-param-city") == "=?base64?WsO8cmljaA==?="
    assert call.header("mcp-param-n") == "7"
    assert call.header("mcp-protocol-version") == "2026-07-28"


@pytest.mark.slow
def test_an_unreachable_server_is_reported_with_exit_code_4(tmp_path: Path) -> None:
    with writing(tmp_path / "tape.db", Mint()) as client:
        client.ask("tools/list")
    with Upstream(small) as upstream:
        url = upstream.url
    code, out, err = command(str(tmp_path / "tape.db"), "--url", url)
    assert (code, out) == (4, "")
    assert f"cannot reach {url}" in err


@pytest.mark.slow
def test_a_play_of_which_nothing_is_left_is_a_finding(tmp_path: Path, minting: str) -> None:
    here = Here(Mint())
    Client(here, modern=True).call("create")
    tape = make_cassette(tmp_path / "tape.db", here.conversation)
    code, out, err = command(str(tape), "--skip-writes", "--url", minting)
    assert code == 1
    assert "UNKNOWN calls: NEW: nothing could be recorded" in out and "no changes" not in out
    assert "left out: tools/call create" in err and "no tool was called" in err


@pytest.mark.slow
def test_a_server_that_goes_away_is_a_finding(tmp_path: Path) -> None:
    def script(request: Message, wire: Wire) -> None:
        if request.verb == "POST" and request.document.get("method") == "tools/list":
            wire.close()
        else:
            small(request, wire)

    with writing(tmp_path / "tape.db", Mint()) as client:
        client.ask("tools/list")
    with Upstream(script) as upstream:
        done = play(tmp_path / "tape.db", tmp_path / "new", upstream.url)
    assert [(failure.kind, str(failure.request)) for failure in done.failures] == [("unanswered", "tools/list")]
