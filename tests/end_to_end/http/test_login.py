"""Logins recorded through the proxy, and side requests, recorded and replayed."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.support.http import EVENTS, LAST, Client, Message, Script, Upstream, Wire, answer, ask, begin, chunk
from tests.support.http_running import (
    Running,
    all_frames,
    call,
    event,
    exchanged,
    facts,
    modern,
    recording,
    replaying,
    result,
)  # fmt: skip
from tests.support.running import MCP_TAPE, run

TOKEN, CODE, SECRET, REFRESH = "at-5fK29x0q7Zb1", "code-8fJ2mWq4", "cs-3kd9Wm2pLx", "rt-Vw8s2kQ0aa"
PASSWORD, COOKIE, MINE = "ps-9Xk2mQ7vLw3f", "ck-7Tg5nB4xZq1d", "mk-4Rf8sW6yHp2c"
VERIFIER = "vf-6Jd3kW9pRs2t" * 3
SECRETS = (TOKEN, CODE, SECRET, REFRESH, PASSWORD, COOKIE, MINE, VERIFIER)
FORM = "application/x-www-form-urlencoded"
ICON = bytes(range(256))
VISIT = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def served(pages: dict[str, bytes]) -> Script:
    """Answer by verb and path, and everything else with 404."""

    def script(request: Message, wire: Wire) -> None:
        path = request.target.partition("?")[0]
        wire.send(pages.get(f"{request.verb} {path}", answer(b"nothing here", 404, "text/plain")))

    return script


def document(value: Any, status: int = 200, **more: str) -> bytes:
    return answer(json.dumps(value).encode(), status, **more)


def sides(tape: Path) -> list[dict[str, Any]]:
    return facts(all_frames(tape), "side")


def got(origin: str, path: str, **more: str) -> Message:
    return ask(origin, verb="GET", to=path, **more)


# A login -------------------------------------------------------------------------------------------------


class Strangers:
    """A protected server, and the authorization server of another origin."""

    recorder: Running

    def __init__(self, tape: Path) -> None:
        self.tape = tape
        self.auth = Upstream(lambda request, wire: served(self.login)(request, wire))
        self.api = Upstream(lambda request, wire: self.protected(request, wire))
        ends = {f"{name}_endpoint": f"{self.auth.origin}/{name}" for name in ("authorization", "token", "registration")}
        named = {"issuer": self.auth.origin, "authorization_response_iss_parameter_supported": True}
        registered = {"client_id": "c", "client_secret": SECRET, "redirect_uris": []}
        self.login: dict[str, bytes] = {
            "GET /.well-known/oauth-authorization-server": document(named | ends),
            "POST /registration": document(registered, 201),
            "POST /token": document(
                {"access_token": TOKEN, "refresh_token": REFRESH}, set_cookie=f"s={COOKIE}; Path=/"
            ),
        }

    def protected(self, request: Message, wire: Wire) -> None:
        if request.target == "/.well-known/oauth-protected-resource/mcp":
            wire.send(document({"resource": self.api.url, "authorization_servers": [self.auth.origin]}))
        elif request.header("authorization") != f"Bearer {TOKEN}":
            where = f'Bearer resource_metadata="{self.api.origin}/.well-known/oauth-protected-resource/mcp"'
            wire.send(answer(b"", 401, www_authenticate=where))
        else:
            wire.send(answer(result(request.document["id"], said=" ".join(SECRETS))))


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[Strangers]:
    found = Strangers(tmp_path / "tape.db")
    header = ("--header", "X-Ours: for the server alone")
    with found.auth, found.api, recording(found.tape, found.api.url, *header) as recorder:
        found.recorder = recorder
        yield found


def log_in(one: Strangers) -> str:
    """Log in step by step as a client does; return the token."""
    own = one.recorder.origin
    challenge = ask(one.recorder.url, modern(1, name="x")).header("www-authenticate") or ""
    named = challenge.partition('"')[2].rstrip('"')
    assert named == f"{own}/.well-known/oauth-protected-resource/mcp"
    resource = ask(named, verb="GET").document
    assert resource["resource"] == one.recorder.url
    issuer = resource["authorization_servers"][0]
    assert issuer.startswith(f"{own}/.mcp-tape/http/")
    metadata = got(own, f"/.well-known/oauth-authorization-server{urlsplit(issuer).path}").document
    assert metadata["issuer"] == issuer
    client = ask(metadata["registration_endpoint"], json.dumps({"redirect_uris": ["app://back"]}).encode())
    assert client.status == 201
    asked = {"response_type": "code", "client_id": "c", "redirect_uri": "http://127.0.0.1:9/cb", "state": "s"}
    more = urlencode(asked | {"resource": one.recorder.url, "code_challenge": "ch"})
    there = urlsplit(got(own, f"{urlsplit(metadata['authorization_endpoint']).path}?{more}").header("location") or "")
    assert there.netloc == f"127.0.0.1:{one.auth.port}"
    sent = {name: value for name, (value,) in parse_qs(there.query).items()}
    assert sent == asked | {"resource": one.api.url, "code_challenge": "ch", "redirect_uri": f"{own}/cb"}
    said = urlencode({"code": CODE, "state": "s", "iss": one.auth.origin})
    page = got(
        own, f"/cb?{said}", **VISIT
    )  # a redirect would still be the submission of a form, which a page may limit
    wait, _, back = (page.header("refresh") or "").partition("url=")
    assert (page.status, wait) == (200, "0;")
    assert parse_qs(urlsplit(back).query) == {"code": [CODE], "state": ["s"], "iss": [issuer]}
    form = {"grant_type": "authorization_code", "code": CODE, "resource": one.recorder.url, "code_verifier": VERIFIER}
    form |= {"redirect_uri": "http://127.0.0.1:9/cb", "client_secret": SECRET}
    own_headers = {"authorization": "Basic " + b64encode(f"c:{PASSWORD}".encode()).decode(), "cookie": f"a={MINE}"}
    asked_for = ask(metadata["token_endpoint"], urlencode(form).encode(), content_type=FORM, **own_headers)
    token = asked_for.document["access_token"]
    assert isinstance(token, str)
    return token


@pytest.mark.slow
def test_a_login_passes_through_with_the_real_resource_at_the_real_servers(strangers: Strangers) -> None:
    token = log_in(strangers)
    done = ask(strangers.recorder.url, modern(1, name="x"), authorization=f"Bearer {token}")
    assert TOKEN.encode() in done.body
    (form,) = [parse_qs(one.body.decode()) for one in strangers.auth.requests if one.target == "/token"]
    assert form["resource"] == [strangers.api.url]
    assert form["redirect_uri"] == [f"{strangers.recorder.origin}/cb"]
    (registration,) = [one.document for one in strangers.auth.requests if one.target == "/registration"]
    assert registration["redirect_uris"] == ["app://back", f"{strangers.recorder.origin}/.mcp-tape/callback"]
    assert {one.header("x-ours") for one in strangers.auth.requests} == {None}


@pytest.mark.slow
def test_no_secret_of_a_login_is_on_the_tape_which_plays(strangers: Strangers, tmp_path: Path) -> None:
    token, question = log_in(strangers), modern(1, name="x")
    ask(strangers.recorder.url, question, authorization=f"Bearer {token}")
    strangers.recorder.stop()
    said = strangers.recorder.said.encode() + b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for secret in SECRETS:
        assert secret.encode() not in said
    with replaying(strangers.tape) as replay:
        assert ask(replay.url, question).status == 200
        assert got(replay.origin, "/.well-known/oauth-protected-resource/mcp").status == 404


@pytest.mark.slow
def test_the_tape_has_the_metadata_of_the_servers(strangers: Strangers) -> None:
    log_in(strangers)
    strangers.recorder.stop()
    kept = sides(strangers.tape)
    assert [(one["verb"], one["path"], one["status"], one.get("origin")) for one in kept] == [
        ("GET", "/.well-known/oauth-protected-resource/mcp", 200, None),
        ("GET", "/.well-known/oauth-authorization-server", 200, strangers.auth.origin),
        ("POST", "/registration", 201, strangers.auth.origin),
        ("GET", "/authorization", 302, strangers.auth.origin),
        ("GET", "/cb", 200, None),
        ("POST", "/token", 200, strangers.auth.origin),
    ]
    assert json.loads(kept[0]["body"])["resource"] == strangers.api.url
    assert all("body" not in one for one in kept[2:])
    (challenged,) = [one for one in facts(all_frames(strangers.tape), "response") if one["status"] == 401]
    assert strangers.api.origin in challenged["headers"]["www-authenticate"]


def test_a_server_that_no_metadata_has_named_is_not_asked(strangers: Strangers) -> None:
    target = f"/.mcp-tape/http/127.0.0.1:{strangers.auth.port}/token"
    assert ask(strangers.recorder.origin, b"a=1", to=target, content_type=FORM).status == 404
    assert strangers.auth.requests == []


@pytest.mark.slow
def test_an_authorization_server_that_is_gone_is_an_error_for_the_client(tmp_path: Path) -> None:
    with Upstream(lambda request, wire: None) as gone:
        origin = gone.origin
    metadata = document({"resource": "http://127.0.0.1:1/mcp", "authorization_servers": [origin]})
    pages = {"GET /.well-known/oauth-protected-resource": metadata, "POST /mcp": answer(result(1))}
    with Upstream(served(pages)) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        found = got(recorder.origin, "/.well-known/oauth-protected-resource").document
        assert found["resource"] == "http://127.0.0.1:1/mcp"  # of another server: the client must refuse it
        issuer = urlsplit(found["authorization_servers"][0]).path
        failed = got(recorder.origin, f"{issuer}/.well-known/openid-configuration")
        assert failed.status == 502 and origin.encode() in failed.body
        assert ask(recorder.url, call(1)).status == 200


@pytest.mark.parametrize(
    ("status", "refused"),
    [(302, {}), (403, {"Sec-Fetch-Mode": "cors"}), (403, {"Sec-Fetch-Dest": "iframe"}), (421, {"host": "evil.test"})],
)
@pytest.mark.slow
def test_a_page_may_lead_a_browser_to_the_page_of_the_login_alone(
    status: int, refused: dict[str, str], tmp_path: Path
) -> None:
    metadata = document({"issuer": "x", "authorization_endpoint": "http://127.0.0.1:9/authorize"})
    pages = {"GET /.well-known/oauth-authorization-server": metadata}
    with Upstream(served(pages)) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        found = got(recorder.origin, "/.well-known/oauth-authorization-server").document
        page = urlsplit(found["authorization_endpoint"]).path
        assert got(recorder.origin, f"{page}?state=s", **VISIT | refused).status == status
        assert got(recorder.origin, "/mcp?response_type=code&client_id=c", **VISIT).status == 403
        assert got(recorder.origin, "/mcp", **VISIT).status == 403


@pytest.mark.slow
def test_metadata_may_be_compressed_or_elsewhere(tmp_path: Path) -> None:
    with Upstream(lambda request, wire: wire.send(document({"issuer": there.origin, "x": request.target}))) as there:
        packed = gzip.compress(json.dumps({"resource": "{0}", "authorization_servers": [there.origin]}).encode())

        def script(request: Message, wire: Wire) -> None:
            if request.target.endswith("resource"):
                plain = gzip.decompress(packed).replace(b"{0}", upstream.origin.encode())
                wire.send(answer(gzip.compress(plain), content_encoding="gzip"))
            else:
                wire.send(answer(b"", 302, location=f"{there.origin}/moved"))

        with Upstream(script) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
            resource = got(recorder.origin, "/.well-known/oauth-protected-resource")
            assert resource.header("content-encoding") is None
            assert resource.document["resource"] == recorder.origin
            moved = got(recorder.origin, "/.well-known/oauth-authorization-server").header("location") or ""
            assert moved.startswith(f"{recorder.origin}/.mcp-tape/http/")
            assert got(recorder.origin, moved.removeprefix(recorder.origin)).document["x"] == "/moved"
            page = got(recorder.origin, "/page").header("location")
            assert page == f"{there.origin}/moved"  # no metadata: a browser goes on to the real one


def test_clients_find_the_address_that_they_have_used(tmp_path: Path) -> None:
    pages = {"POST /mcp": answer(b"", 401, www_authenticate='Bearer resource_metadata="{0}/prm"')}

    def script(request: Message, wire: Wire) -> None:
        wire.send(pages["POST /mcp"].replace(b"{0}", upstream.origin.encode()))

    with Upstream(script) as upstream, recording(tmp_path / "tape.db", upstream.url) as recorder:
        port = urlsplit(recorder.origin).port
        for host in (f"localhost:{port}", f"127.0.0.1:{port}"):
            challenge = ask(recorder.url, call(1), host=host).header("www-authenticate")
            assert challenge == f'Bearer resource_metadata="http://{host}/prm"'


@pytest.mark.slow
def test_a_call_that_needed_a_wider_scope_plays_as_one(tmp_path: Path) -> None:
    tape, question = tmp_path / "tape.db", modern(1, name="x")

    def script(request: Message, wire: Wire) -> None:
        is_wide = request.header("authorization") == "Bearer wide-0123456789"
        challenge = 'Bearer error="insufficient_scope", scope="a b"'
        wire.send(answer(result(1)) if is_wide else answer(b"no", 403, "text/plain", www_authenticate=challenge))

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        assert ask(recorder.url, question, authorization="Bearer narrow-0123456789").status == 403
        assert ask(recorder.url, question, authorization="Bearer wide-0123456789").status == 200
    with replaying(tape) as replay:
        assert ask(replay.url, question).body == result(1)


# Side requests -------------------------------------------------------------------------------------------

CARD = b'{"name":"x",  "token":"tk-5fK29x0q7Zb1"}'
PAGES = {
    "GET /.well-known/mcp/server-card.json": answer(CARD),
    "GET /icon.png": answer(ICON, 200, "image/png"),
    "GET /none": answer(b"", 204),
    "GET /large": answer(b"x" * (1 << 20), 200, "text/plain"),
    "GET /events": begin() + chunk(event(b"1")) + LAST,
    "GET /moved": answer(b"", 302, location="/icon.png"),
    "POST /form": answer(b"posted", 200, "text/plain"),
    "DELETE /form": answer(b"deleted", 200, "text/plain"),
    "GET /private": answer(b"for you alone", 200, "text/plain"),
    "POST /mcp": answer(result(1)),
}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape on which a client has asked for all of them."""
    tape = tmp_path_factory.mktemp("beside") / "tape.db"
    with Upstream(served(PAGES)) as upstream, recording(tape, upstream.url) as recorder:
        for page in PAGES:
            verb, path = page.split()
            body = call(1) if verb == "POST" else None
            more = {"Cookie": "me=1"} if path == "/private" else {}
            both = [ask(origin, body, verb=verb, to=path, **more) for origin in (upstream.origin, recorder.origin)]
            there, here = both
            assert (here.status, here.body) == (there.status, there.body), page
            assert here.header("content-type") == there.header("content-type")
        assert got(recorder.origin, "/icon.png?v=2").body == ICON
        assert ask(recorder.origin, verb="HEAD", to="/icon.png").status == 404
    return tape


@pytest.mark.slow
def test_each_request_beside_the_conversation_is_a_frame(beside: Path) -> None:
    kept = {f"{one['verb']} {one['path']}": one for one in sides(beside)}
    assert list(kept) == [*(page for page in PAGES if page != "POST /mcp"), "GET /icon.png?v=2", "HEAD /icon.png"]
    assert {page for page, one in kept.items() if {"body", "base64"} & one.keys()} == {
        "GET /.well-known/mcp/server-card.json", "GET /icon.png", "GET /icon.png?v=2"
    }  # fmt: skip
    assert [frame.channel for frame in all_frames(beside) if b'"side"' in frame.text] == [
        f"side-{number}" for number in range(1, 12)
    ]
    assert "tk-5fK29x0q7Zb1" not in kept["GET /.well-known/mcp/server-card.json"]["body"]
    assert len(exchanged(beside)) == 1


def test_frames_of_a_login_are_shown(beside: Path) -> None:
    shown = run([*MCP_TAPE, "show", str(beside)]).stdout.decode()
    assert "GET /icon.png 200 on side-2" in shown
    assert "DELETE /form 200" in shown


def test_responses_at_other_paths_are_served_again(beside: Path) -> None:
    with replaying(beside) as replay:
        icon = got(replay.origin, "/icon.png")
        assert (icon.status, icon.body, icon.header("content-type")) == (200, ICON, "image/png")
        assert icon.header("content-security-policy") == "sandbox"
        assert ask(replay.origin, verb="HEAD", to="/icon.png").header("content-length") == "256"
        card = got(replay.origin, "/.well-known/mcp/server-card.json")
        assert card.document == {"name": "x", "token": "[redacted:key:token]"}
        assert got(replay.origin, "/icon.png?v=2").status == 200
        for path in ("/icon.png?v=3", "/private", "/large", "/events", "/none"):
            assert got(replay.origin, path).status == 404, path
        assert ask(replay.origin, b"x", to="/icon.png").status == 404
        assert ask(replay.url, call(1)).status == 200


@pytest.mark.parametrize("how", ["hash", "none"])
def test_without_bodies_there_are_none_of_these_either(how: str, tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with Upstream(served(PAGES)) as upstream, recording(tape, upstream.url, "--bodies", how) as recorder:
        for path in ("/icon.png", "/.well-known/mcp/server-card.json"):
            assert got(recorder.origin, path).status == 200
        assert ask(recorder.url, modern(1, name="x")).status == 200
    (icon, card) = sides(tape)
    assert icon["base64"].startswith("[") and card["body"].startswith("[")


def test_a_stream_of_events_beside_the_conversation_is_passed_on_as_it_comes(tmp_path: Path) -> None:
    def script(request: Message, wire: Wire) -> None:
        wire.send(begin(EVENTS) + chunk(event(b"1")))  # and no end

    with (
        Upstream(script) as upstream,
        recording(tmp_path / "tape.db", upstream.url) as recorder,
        Client(f"{recorder.origin}/events") as client,
    ):
        client.ask(verb="GET")
        assert client.answer_head().status == 200
        assert client.read(len(event(b"1"))) == event(b"1")
