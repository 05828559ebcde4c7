"""The client of a server at a URL that redirects: within the server it follows, to other servers nothing is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_tape.errors import ServerError
from mcp_tape.transports.http.connect import HttpConnection
from mcp_tape.transports.http.upstream import ResumeMark, origin_of
from tests.end_to_end.use.test_use_url import taped
from tests.end_to_end.verify.test_http import small
from tests.servers.minting import Mint
from tests.support.http import LAST, Message, Script, Upstream, Wire, answer, begin, chunk
from tests.support.http_facts import cassette
from tests.support.live import INITIALIZE, Vcr, old_client, posted, serving
from tests.support.messages import call
from tests.support.running import WAIT, until
from tests.support.verifying import Client, command, writing

SECRET = ("X-Api-Key", "qZ8vT3nLw5XyR2pK")


def elsewhere(status: int, location: str) -> Upstream:
    return Upstream(lambda request, wire: wire.send(answer(status=status, location=location)))


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_redirect_within_the_server_is_followed_with_all_headers(status: int, absolute: bool) -> None:
    def script(request: Message, wire: Wire) -> None:
        if request.target == "/mcp":
            wire.send(answer(status=status, location=f"{upstream.origin if absolute else ''}/mcp/v2"))
        else:
            small(request, wire)

    with Upstream(script) as upstream, HttpConnection(upstream.url, [SECRET], listen=False) as connection:
        assert Client(connection).hello().ask("tools/list") == {"tools": []}
    assert {request.header("x-api-key") for request in upstream.requests} == {SECRET[1]}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_is_reported_and_not_followed(status: int) -> None:
    with (
        Upstream(small) as other,
        elsewhere(status, f"{other.origin}/x?token=no-word-8fK2") as upstream,
        HttpConnection(upstream.url, [SECRET]) as connection,
        pytest.raises(ServerError) as told,
    ):
        Client(connection).hello()
    assert other.requests == []
    assert f"it redirects to {other.origin}/x, another server" in str(told.value)
    assert "give its URL" in str(told.value) and "8fK2" not in str(told.value)


@pytest.mark.parametrize("location", ["urn:ietf:rfc:2141", "javascript:alert(1)", "http://[::1", "http://h:99999/"])
def test_a_redirect_without_a_target_is_reported(location: str) -> None:
    told = pytest.raises(ServerError, match=r"it redirects to|location header")
    with elsewhere(307, location) as upstream, HttpConnection(upstream.url) as connection, told:
        Client(connection).hello()


def test_a_server_that_redirects_in_circles_is_left() -> None:
    told = pytest.raises(ServerError, match="redirects more than 20 times")
    with elsewhere(307, "/mcp") as upstream, HttpConnection(upstream.url) as connection, told:
        Client(connection).hello()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://h/a", "http://h/a"),
        ("http://h/a", "https://h/a"),
        ("http://h/a", "http://h:8080/a"),
        ("http://localhost/a", "http://127.0.0.1/a"),
        ("http://h/a", "http://h.test/a"),
        ("http://h/a", "http://h:99999/a"),
    ],
)
def test_scheme_host_and_port_all_count(one: str, other: str) -> None:
    assert origin_of(one) != origin_of(other)


def test_optional_parts_of_a_url_do_not_count() -> None:
    assert origin_of("https://ada:pw@H:443/a?b") == origin_of("https://h/c")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9/messages", "//evil.test/messages", "http://[::1/messages"])
def test_an_endpoint_at_another_server_is_refused(endpoint: str) -> None:
    def script(request: Message, wire: Wire) -> None:
        wire.send(begin() + chunk(f"event: endpoint\ndata: {endpoint}\n\n".encode()) + LAST)

    with Upstream(script, "/sse") as upstream, pytest.raises(ServerError, match="wants messages at"):
        HttpConnection(upstream.url, sse=True)


@pytest.mark.slow
def test_verify_sends_no_restored_secret_to_another_server(tmp_path: Path) -> None:
    with writing(tmp_path / "tape.db", Mint()) as client:
        client.ask("tools/list")

    with Upstream(small) as other, elsewhere(307, other.url) as upstream:
        code, _, said = command(str(tmp_path / "tape.db"), "--url", upstream.url, "--header", ": ".join(SECRET))
    assert other.requests == []
    assert f"it redirects to {other.url}" in said and code != 0


@pytest.mark.slow
def test_a_live_server_beside_a_tape_that_redirects_to_another_is_an_error(tmp_path: Path) -> None:
    with Upstream(small) as other, elsewhere(307, other.url) as upstream, serving() as live:
        vcr = Vcr(tmp_path, live)
        cassette(vcr.tape, taped())
        (told,) = vcr.run("new_episodes", call(1, "b"), url=upstream.url)
    assert other.requests == []
    assert f"redirects to another server, {other.url}" in str(told)


@pytest.mark.slow(quick=1)
@pytest.mark.parametrize("endpoint", ["http://[x", "http://elsewhere.test/messages"])
def test_a_live_server_beside_a_tape_with_an_endpoint_elsewhere_leaves_no_call_unanswered(
    endpoint: str, tmp_path: Path
) -> None:
    def script(request: Message, wire: Wire) -> None:
        if request.verb == "GET":
            wire.send(begin() + chunk(f"event: endpoint\ndata: {endpoint}\n\n".encode()))
            wire.how_it_ends()
            wire.close()
        else:
            wire.send(answer(b"", 405))

    with Upstream(script, "/sse") as upstream, serving() as live:
        vcr = Vcr(tmp_path, live)
        cassette(vcr.tape, taped(), transport="sse")
        with vcr.use("new_episodes", url=upstream.url) as url, old_client(url) as (client, heard):
            for text in (INITIALIZE, call(1, "b")):
                assert posted(client, text) == 202
                told = next(heard)
    assert "error" in told and f"endpoint is on another server, {endpoint}" in vcr.stderr
    assert {request.target for request in upstream.requests} == {"/sse"}


@pytest.mark.parametrize("script", [small, lambda request, wire: wire.close()], ids=["answered", "broken-off"])
def test_a_request_is_waited_for_until_its_answer_has_been_received(script: Script) -> None:
    with Upstream(script) as upstream, HttpConnection(upstream.url, listen=False) as connection:
        connection.send(call(1, "b").encode())
        until(lambda: not connection._unanswered, "the answer is there")
        assert connection.is_waiting
        assert connection.receive(WAIT) is not None
        assert not connection.is_waiting


@pytest.mark.parametrize("retry", ["²", "-1", "9" * 5_000, "soon", ""])
def test_a_wait_that_is_no_number_is_left_aside(retry: str) -> None:
    mark = ResumeMark()
    mark.update(None, "250")
    mark.update("7", retry)
    assert (mark.retry, mark.last) == (0.25, "7")
