"""Safety of recording over HTTP: clients that are admitted, servers that are trusted or missing, and hidden secrets."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.http import JSON, LAST, Client, Message, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import (
    HELLO,
    INITIALIZE,
    Running,
    all_frames,
    call,
    event,
    facts,
    modern,
    recording,
    result,
    said,
    texts,
)
from tests.support.running import MCP_TAPE, is_recording, run, sessions, until

SECRET = "qZ8vT3nLw5XyR2pK"  # not a word, and long enough to search for


def echo(request: Message, wire: Wire) -> None:
    wire.send(answer(result(request.document["id"])))


def on_disk(tape: Path) -> bytes:
    """Every byte of the cassette and of SQLite's files beside it."""
    return b"".join(path.read_bytes() for path in sorted(tape.parent.glob(f"{tape.name}*")))


# Admission ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Upstream, Running]]:
    tape = tmp_path_factory.mktemp("guarded") / "tape.db"
    with Upstream(echo) as upstream, recording(tape, upstream.url) as recorder:
        yield upstream, recorder
    assert len(texts(all_frames(tape), "client")) == len(upstream.requests)


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {"host": "127.0.0.1"}),
        (200, {"host": "LOCALHOST:1"}),
        (200, {"host": "[::1]:80"}),
        (200, {"origin": "http://localhost:3000"}),
        (200, {"origin": "http://127.0.0.1:6274"}),
        (421, {"host": "evil.test"}),
        (421, {"host": "127.0.0.1.evil.test:80"}),
        (421, {"host": "localhost.evil.test"}),
        (421, {"host": ""}),
        (421, {"host": "[::1"}),
        (403, {"origin": "https://evil.test"}),
        (403, {"origin": "http://localhost.evil.test"}),
        (403, {"origin": "null"}),
        (403, {"origin": "http://[::1"}),
        (403, {"origin": "localhost"}),
        (200, {"sec_fetch_site": "none", "sec_fetch_mode": "navigate"}),
        (200, {"sec_fetch_site": "same-origin"}),
        (200, {"sec_fetch_site": "same-site", "host": "localhost:1"}),
        (200, {"sec_fetch_site": "cross-site", "origin": "http://localhost:3000"}),
        (200, {"sec_fetch_mode": "cors"}),  # sent by Node's fetch
        (403, {"sec_fetch_site": "cross-site"}),
        (403, {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_user": "?1"}),
        (403, {"sec_fetch_site": "cross-site", "origin": "https://evil.test"}),
        (403, {"sec_fetch_site": "same-site", "host": "192.0.2.1"}),
        (403, {"sec_fetch_site": "none, cross-site"}),
        (403, {"sec_fetch_site": "whatever comes next"}),
    ],
)
def test_only_requests_meant_for_us_are_passed_on(
    status: int, headers: dict[str, str], guarded: tuple[Upstream, Running]
) -> None:
    upstream, recorder = guarded
    before = len(upstream.requests)
    assert ask(recorder.url, call(1), **headers).status == status
    assert len(upstream.requests) - before == (status == 200)


@pytest.mark.parametrize("verb", ["GET", "HEAD"])
def test_an_image_of_a_web_page_does_not_reach_the_server(verb: str, guarded: tuple[Upstream, Running]) -> None:
    upstream, recorder = guarded
    before = len(upstream.requests)
    shown = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"}
    assert ask(recorder.url, verb=verb, to="/api/delete?id=1", **shown).status == 403
    assert len(upstream.requests) == before


@pytest.mark.parametrize(("verb", "target"), [("CONNECT", "127.0.0.1:9"), ("TRACE", "/mcp")])
def test_no_tunnel_is_made_and_no_request_is_echoed(verb: str, target: str, guarded: tuple[Upstream, Running]) -> None:
    upstream, recorder = guarded
    before = len(upstream.requests)
    assert ask(recorder.url, verb=verb, to=target).status == 405
    assert len(upstream.requests) == before


@pytest.mark.slow
def test_we_listen_for_other_machines_only_with_allow_remote(tmp_path: Path) -> None:
    tape, common = tmp_path / "tape.db", ["--url", "http://127.0.0.1:9/mcp", "--listen"]
    for host in ("0.0.0.0", "[::]", socket.gethostname() + ".test", "192.0.2.1"):
        for command in (["record", "-o", str(tape), *common], ["use", str(tape), *common], ["replay", "x", "--listen"]):
            done = run([*MCP_TAPE, *command, f"{host}:0"])
            assert (done.returncode, done.stdout) == (2, b"")
            assert b"--allow-remote" in done.stderr
    assert not tape.exists()
    with recording(tape, "http://127.0.0.1:9/mcp", "--listen", "localhost:0") as recorder:
        assert "warning" not in recorder.said


def test_an_address_in_use_is_reported_and_left_alone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        tape = tmp_path / "tape.db"
        done = run([*MCP_TAPE, "record", "--url", "http://127.0.0.1:9/mcp", "-o", str(tape), "--listen", address])
    assert (done.returncode, done.stdout) == (4, b"")
    assert b"cannot listen on" in done.stderr and b"Traceback" not in done.stderr
    assert not tape.exists()


# Secrets --------------------------------------------------------------------------------------------------


def test_our_header_reaches_the_server_and_no_other(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"

    def script(request: Message, wire: Wire) -> None:
        # Servers often quote a wrong token.
        wire.send(answer(result(1, text=f"never heard of {SECRET}a"), x_seen=SECRET))

    options = ("--header", f"Authorization: Bearer {SECRET}a", "--header", f"X-Own:{SECRET}b")
    with Upstream(script) as upstream, recording(tape, upstream.url, *options) as recorder:
        ask(recorder.url, call(1), authorization="Bearer of-the-client", x_own="1")
        assert recorder.stop() == 0
        assert SECRET not in recorder.said
    (request,) = upstream.requests
    assert [value for name, value in request.headers if name == "authorization"] == [f"Bearer {SECRET}a"]
    assert [value for name, value in request.headers if name == "x-own"] == [f"{SECRET}b"]
    assert SECRET.encode() not in on_disk(tape)


def secret(number: int) -> str:
    """A different one for each place, so that a leak shows its source."""
    return f"{SECRET}{number:04}"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


LEAKS: list[Callable[[str], dict[str, str]]] = [
    lambda value: {"authorization": f"Bearer {value}"},
    lambda value: {"authorization": f"Basic {encoded('user:' + value)}"},
    lambda value: {"cookie": f"theme=dark; session={value}"},
    lambda value: {"authorization": f"DPoP {value}", "dpop": f"e30.e30.{value}"},
    lambda value: {"x_api_key": value},
    lambda value: {"x_own": value},
    lambda value: {"mcp_param_api_key": value},
    lambda value: {"mcp_param_api_key": f"=?base64?{encoded(value)}?="},
]


def test_secrets_in_the_headers_of_a_request_are_not_kept(tmp_path: Path) -> None:
    tape, secrets = tmp_path / "tape.db", [secret(number) for number in range(len(LEAKS))]
    with Upstream(echo) as upstream, recording(tape, upstream.url) as recorder:
        for value, headers in zip(secrets, LEAKS, strict=True):
            ask(recorder.url, modern(1, name="t", arguments={"api_key": value}), **headers(value))
            assert set(headers(value).values()) <= {got for _, got in upstream.requests[-1].headers}
    kept = on_disk(tape)
    forms = {form: value for value in secrets for form in (value, encoded(value), encoded(f"user:{value}"))}
    assert [(form, value) for form, value in forms.items() if form.encode() in kept] == []


def test_a_secret_in_a_header_of_the_client_is_hidden_where_the_server_repeats_it(tmp_path: Path) -> None:
    """Alone, without the scheme, the user or the cookie's name that preceded it."""
    tape, secrets = tmp_path / "tape.db", [secret(number) for number in range(5)]

    def repeat(request: Message, wire: Wire) -> None:
        wire.send(answer(result(1, text=f"never heard of {secrets[len(upstream.requests) - 1]}")))

    with Upstream(repeat) as upstream, recording(tape, upstream.url) as recorder:
        for value, headers in zip(secrets, LEAKS[:5], strict=True):
            ask(recorder.url, call(1), **headers(value))
    assert [value for value in secrets if value.encode() in on_disk(tape)] == []
    assert b"never heard of [redacted:key:x-api-key]" in on_disk(tape)


def test_secrets_in_urls_are_not_kept(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"

    def script(request: Message, wire: Wire) -> None:
        elsewhere = f"https://auth.test/?access_token={SECRET}&x=1"
        wire.send(answer(b"", 302, location=elsewhere, set_cookie=f"sid={SECRET}; Path=/", x_key=SECRET))

    with Upstream(script) as upstream, recording(tape, f"{upstream.url}?api_key={SECRET}") as recorder:
        ask(recorder.url, call(1))
        ask(recorder.url, call(1), to=f"/mcp?x=1&api_key={SECRET}2")
        assert recorder.stop() == 0
        assert SECRET not in recorder.said
    assert [SECRET in request.target for request in upstream.requests] == [True, True]
    assert SECRET.encode() not in on_disk(tape)
    assert "/mcp?api_key=" in sessions(tape)[0].target


STREAMS: dict[str, Callable[[str], bytes]] = {
    "endpoint": lambda value: f"event: endpoint\ndata: /messages?api_key={value}\n\n".encode(),
    "comment": lambda value: f": api_key={value}\n\n".encode(),
    "aside": lambda value: event(said(method="notifications/x"), f": api_key={value}\n".encode()),
    "data": lambda value: event(said(method="notifications/x", params={"api_key": value})),
}


def test_secrets_in_a_stream_are_not_kept(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    streams = {f"/mcp?{where}": made(secret(number)) for number, (where, made) in enumerate(STREAMS.items())}

    def script(request: Message, wire: Wire) -> None:
        wire.send(begin() + chunk(streams[request.target]) + LAST)

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        for target, stream in streams.items():
            assert ask(recorder.url, verb="GET", to=target).body == stream
    assert len(all_frames(tape)) >= 3 * len(streams)
    kept = on_disk(tape)
    assert [where for number, where in enumerate(STREAMS) if secret(number).encode() in kept] == []


def test_a_secret_in_the_path_of_a_server_that_is_down_is_not_kept(tmp_path: Path) -> None:
    tape, token = tmp_path / "tape.db", "ghp_" + SECRET * 2 + "abcd"
    with recording(tape, f"http://user:{SECRET}@127.0.0.1:9/{token}/mcp", code=4) as recorder:
        ask(recorder.url, call(1))
        assert recorder.stop() == 4
        assert token not in recorder.said and SECRET not in recorder.said
    assert token.encode() not in on_disk(tape) and SECRET.encode() not in on_disk(tape)


# Trust ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_certificate_is_trusted_when_its_authority_is_named(tmp_path: Path) -> None:
    import trustme  # slow to load

    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    cacert = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(cacert))
    with Upstream(echo, tls=context) as upstream:
        with recording(tmp_path / "no.db", upstream.url, code=4) as recorder:
            done = ask(recorder.url, call(5))
            assert (done.status, done.document["id"]) == (502, 5)
            assert "certificate" in done.document["error"]["message"]
            assert "--cacert" in recorder.said
        assert upstream.requests == []
        with recording(tmp_path / "yes.db", upstream.url, "--cacert", str(cacert)) as recorder:
            assert recorder.url.startswith("http://")
            assert ask(recorder.url, call(5)).body == result(5)
    assert texts(all_frames(tmp_path / "yes.db"), "server") == [result(5)]


@pytest.mark.slow
def test_the_proxy_of_the_environment_is_used(tmp_path: Path) -> None:
    def forward(request: Message, wire: Wire) -> None:
        target = request.target.removeprefix("http://127.0.0.1:" + str(upstream.port))
        done = ask(upstream.url, request.body, to=target, via="1.1 test")
        wire.send(answer(done.body, done.status))

    with Upstream(echo) as upstream, Upstream(forward) as proxy:
        with recording(tmp_path / "tape.db", upstream.url, HTTP_PROXY=proxy.origin) as recorder:
            assert ask(recorder.url, call(1)).body == result(1)
        assert [request.target for request in proxy.requests] == [upstream.url]
        assert [request.header("via") for request in upstream.requests] == ["1.1 test"]
        with recording(tmp_path / "tape.db", upstream.url, HTTP_PROXY=proxy.origin, NO_PROXY="127.0.0.1") as recorder:
            assert ask(recorder.url, call(2)).body == result(2)
        assert len(proxy.requests) == 1


# Missing servers ------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def test_a_server_that_is_down_is_reported_everywhere(tmp_path: Path) -> None:
    tape, url = tmp_path / "tape.db", f"http://127.0.0.1:{free_port()}/mcp"
    with recording(tape, url, code=4) as recorder, Client(recorder.url) as client:
        for rpc_id in (7, "seven", 1e2):
            client.ask(call(rpc_id))  # type: ignore[arg-type]
            done = client.answer()
            assert (done.status, done.header("content-type"), done.document["id"]) == (502, JSON, rpc_id)
            assert url in done.document["error"]["message"]
        assert ask(recorder.url, b"[" + call(1) + b"," + call(2) + b"]").document["id"] is None
        assert ask(recorder.url, verb="GET").status == 502
        assert ask(recorder.url, verb="GET", to="/other").status == 502
        assert recorder.stop() == 4
        told = [line for line in recorder.said.splitlines() if "cannot reach" in line]
        assert len(told) == 1 and url in told[0]
        assert "Traceback" not in recorder.said
    (session,) = sessions(tape)
    assert "could not be reached" in (session.incomplete or "")
    assert len(facts(all_frames(tape), "failed")) == 5
    assert len(texts(all_frames(tape), "client")) == 4


@pytest.mark.slow
def test_a_client_that_leaves_a_server_that_is_down_is_nothing_to_tell(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with recording(tape, f"http://127.0.0.1:{free_port()}/mcp", code=4) as recorder:
        with Client(recorder.url) as client:
            client.ask(call(1), content_length="100000")
        until(lambda: is_recording(tape), "the end of the request to be recorded")
        assert recorder.stop() == 4
        assert "Error" not in recorder.said
    assert [one["event"] for one in facts(all_frames(tape))][-1] in ("abort", "failed")


@pytest.mark.slow
def test_a_server_that_comes_late_is_no_failure(tmp_path: Path) -> None:
    tape, port = tmp_path / "tape.db", free_port()
    with recording(tape, f"http://127.0.0.1:{port}/mcp") as recorder:
        assert ask(recorder.url, INITIALIZE).status == 502
        with Upstream(lambda request, wire: wire.send(answer(result(0, **HELLO))), port=port):
            assert ask(recorder.url, INITIALIZE).status == 200
        assert recorder.stop() == 0
    assert texts(all_frames(tape), "server") == [result(0, **HELLO)]


@pytest.mark.slow
def test_without_clients_nothing_fails(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with recording(tape, f"http://127.0.0.1:{free_port()}/mcp") as recorder:
        assert recorder.stop() == 0
        assert "no session" in recorder.said
    assert sessions(tape) == []
