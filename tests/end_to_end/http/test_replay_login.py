"""A replay that lets in only clients that log in: its metadata, pages and tokens, and the faults of a login."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from mcp_tape import TapeError, use_cassette
from tests.support.http import Client, Message, Upstream, Wire, answer, ask
from tests.support.http_running import HELLO, INITIALIZE, call, listening, modern, recording, replaying, result
from tests.support.running import MCP_TAPE, run

FORM = "application/x-www-form-urlencoded"
BACK, VERIFIER = "http://127.0.0.1:9/cb", "v" * 43
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
VISIT = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
ASKED = modern(1, name="search")


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions of both eras, recorded without a login."""
    tape = tmp_path_factory.mktemp("login") / "tape.db"

    def script(request: Message, wire: Wire) -> None:
        is_hello = request.document["method"] == "initialize"
        more = {"mcp_session_id": "s"} if is_hello else {}
        wire.send(answer(result(request.document["id"], **(HELLO if is_hello else {"tools": []})), **more))

    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        ask(recorder.url, ASKED)
        ask(recorder.url, INITIALIZE)
        ask(recorder.url, call(1, "tools/list"), mcp_session_id="s")
    return tape


class Login:
    """A client's way through a login, step by step."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.origin = "http://" + urlsplit(url).netloc
        self.client: dict[str, Any] = {"client_id": "c"}

    def get(self, path: str, **more: str) -> Message:
        return ask(self.origin, verb="GET", to=path, **more)

    def register(self, **more: Any) -> Message:
        return ask(self.origin, json.dumps({"redirect_uris": [BACK]} | more).encode(), to="/register")

    def authorize(self, **more: str) -> Message:
        asked = {"response_type": "code", "client_id": self.client["client_id"], "redirect_uri": BACK, "state": "s"}
        asked |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": self.url}
        query = {name: value for name, value in (asked | more).items() if value != "-"}
        return self.get(f"/authorize?{urlencode(query)}")

    def come_back(self, **more: str) -> dict[str, str]:
        page = self.authorize(**more)
        assert page.status == 302, page
        return {name: value for name, (value,) in parse_qs(urlsplit(page.header("location") or "").query).items()}

    def token(self, *, headers: dict[str, str] | None = None, **more: str) -> Message:
        own = {"client_id": self.client["client_id"], "resource": self.url}
        own |= {"client_secret": self.client["client_secret"]} if "client_secret" in self.client else {}
        form = {name: value for name, value in (own | more).items() if value != "-"}
        return ask(self.origin, urlencode(form).encode(), to="/token", content_type=FORM, **headers or {})

    def exchange(self, code: str, /, **more: str) -> Message:
        own = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER, "redirect_uri": BACK}
        return self.token(**own | more)

    def refresh(self, token: str, **more: str) -> Message:
        return self.token(**{"grant_type": "refresh_token", "refresh_token": token} | more)

    def log_in(self, **more: str) -> dict[str, Any]:
        found: dict[str, Any] = self.exchange(self.come_back(**more)["code"]).document
        return found

    def ask(self, token: str, body: bytes = ASKED, **more: str) -> Message:
        return ask(self.url, body, authorization=f"Bearer {token}", **more)


@contextmanager
def guarded(tape: Path, *words: str, code: int = 0) -> Iterator[Login]:
    with replaying(tape, "--auth", *words, code=code) as replay:
        yield Login(replay.url)


@pytest.fixture(scope="module")
def replayed(tape: Path) -> Iterator[str]:
    with replaying(tape, "--auth") as replay:
        yield replay.url


@pytest.fixture
def login(replayed: str) -> Login:
    return Login(replayed)


@pytest.mark.slow
def test_a_client_finds_its_way_from_the_refusal_to_the_token(login: Login) -> None:
    refused = ask(login.url, ASKED)
    assert refused.status == 401
    named = f"{login.origin}/.well-known/oauth-protected-resource/mcp"
    assert refused.header("www-authenticate") == f'Bearer resource_metadata="{named}"'
    resource = ask(named, verb="GET").document
    assert (resource["resource"], resource["authorization_servers"]) == (login.url, [login.origin])
    metadata = login.get("/.well-known/oauth-authorization-server").document
    assert metadata["issuer"] == login.origin
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    login.client = login.register(client_name="x", token_endpoint_auth_method="none").document
    assert login.client["client_name"] == "x" and "client_secret" not in login.client
    said = login.come_back(scope="a b")
    assert (said["state"], said["iss"]) == ("s", login.origin)
    tokens = login.exchange(said["code"]).document
    assert (tokens["token_type"], tokens["scope"]) == ("Bearer", "a b")
    assert login.ask(tokens["access_token"]).body == result(1, tools=[])


WAYS = [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/messages?x=1")]


@pytest.mark.parametrize(("verb", "path"), WAYS)
def test_each_way_to_the_server_needs_a_token(login: Login, verb: str, path: str) -> None:
    token, body = login.log_in()["access_token"], ASKED if verb == "POST" else None
    for given, error in ((None, False), ("Bearer x", True), (f"Basic {token}", False), ("Bearer", False)):
        refused = ask(login.origin, body, verb=verb, to=path, **{"authorization": given} if given else {})
        assert refused.status == 401
        assert ("invalid_token" in (refused.header("www-authenticate") or "")) == error
    with Client(login.url) as client:
        client.ask(body, verb=verb, to=path, authorization=f"Bearer {token}", mcp_session_id="no")
        assert client.answer_head().status == (200 if path == "/sse" else 404)


def test_a_session_needs_the_token_in_each_request(login: Login) -> None:
    token = login.log_in()["access_token"]
    session = login.ask(token, INITIALIZE).header("mcp-session-id") or ""
    assert login.ask(token, call(1, "tools/list"), mcp_session_id=session).status == 200
    assert ask(login.url, call(1, "tools/list"), mcp_session_id=session).status == 401


def test_a_page_may_lead_a_browser_to_the_login(login: Login) -> None:
    assert login.get("/authorize?client_id=c&redirect_uri=http://127.0.0.1:9/", **VISIT).status == 302
    assert login.get("/mcp", **VISIT).status == 403


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge": "-"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "-"}, "invalid_request"),
        ({"resource": "-"}, "invalid_target"),
        ({"resource": "https://api.example.com/mcp"}, "invalid_target"),
    ],
)
def test_an_error_in_a_login_is_explained_to_the_client(login: Login, more: dict[str, str], error: str) -> None:
    said = login.come_back(**more)
    assert (said["error"], said["state"]) == (error, "s") and "code" not in said


@pytest.mark.parametrize(
    "uri", ["-", "http://evil.test/cb", "/cb", "http://127.0.0.1:9/other", "x\r\nset-cookie: a=b", "http://["]
)
def test_a_browser_is_sent_only_where_the_client_registered(login: Login, uri: str) -> None:
    login.client = login.register().document
    page = login.authorize(redirect_uri=uri)
    assert page.status == 400 and page.header("location") is None
    assert login.authorize(redirect_uri="http://127.0.0.1:12345/cb").status == 302  # another port, on this machine


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"redirect_uris":[]}', b'{"redirect_uris":["/x"]}', b'{"redirect_uris":[1]}']
)
def test_a_registration_without_a_redirect_uri_is_refused(login: Login, body: bytes) -> None:
    assert ask(login.origin, body, to="/register").status == 400


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"code_verifier": "-"}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:9/other"}, "invalid_grant"),
        ({"client_id": "d"}, "invalid_grant"),
        ({"resource": "-"}, "invalid_target"),
        ({"resource": "http://127.0.0.1:9/mcp"}, "invalid_target"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"code": "tape-code-1"}, "invalid_grant"),
    ],
)
def test_a_code_is_exchanged_by_the_rules_alone(login: Login, more: dict[str, str], error: str) -> None:
    code = login.come_back()["code"]
    refused = login.exchange(code, **more)
    assert (refused.status, refused.document["error"]) == (400, error)


def test_a_code_counts_once(login: Login) -> None:
    code = login.come_back()["code"]
    assert [login.exchange(code).status for _ in range(2)] == [200, 400]


def test_a_refresh_token_counts_once_and_its_login_ends_when_it_is_used_again(login: Login) -> None:
    first = login.log_in(scope="a b")
    second = login.refresh(first["refresh_token"]).document
    assert login.ask(second["access_token"]).status == 200
    assert login.refresh(second["refresh_token"], scope="a b c").document["error"] == "invalid_scope"
    assert login.refresh(first["refresh_token"]).document["error"] == "invalid_grant"
    assert login.ask(second["access_token"]).status == 401
    assert login.refresh(second["refresh_token"]).status == 400


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_a_client_gives_the_secret_that_it_got(login: Login, method: str) -> None:
    login.client = login.register(token_endpoint_auth_method=method).document
    own, secret = login.client["client_id"], login.client.pop("client_secret")
    right, wrong = (b64encode(f"{own}:{text}".encode()).decode() for text in (secret, "other"))
    codes = [login.come_back()["code"] for _ in range(4)]
    assert login.exchange(codes[0], client_secret=secret).status == 200
    assert login.exchange(codes[1], headers={"authorization": f"Basic {right}"}, client_id="-").status == 200
    assert login.exchange(codes[2]).document["error"] == "invalid_client"
    assert login.exchange(codes[3], headers={"authorization": f"Basic {wrong}"}).document["error"] == "invalid_client"
    assert login.exchange(codes[3], headers={"authorization": "Basic é"}).document["error"] == "invalid_client"


def test_a_program_without_a_user_gets_a_token(login: Login) -> None:
    tokens = login.token(grant_type="client_credentials", scope="a").document
    assert "refresh_token" not in tokens and login.ask(tokens["access_token"]).status == 200


@pytest.mark.slow
def test_each_replay_gives_out_the_same_and_another_seed_something_else(tape: Path) -> None:
    def run_through(*words: str) -> list[str]:
        with guarded(tape, *words) as login:
            login.client = login.register().document
            tokens = login.log_in()
            return [login.client["client_secret"], tokens["access_token"], tokens["refresh_token"]]

    one, again, other = run_through(), run_through(), run_through("--seed", "2")
    assert one == again and set(one).isdisjoint(other)


def test_broken_rules_are_reported_and_counted(tape: Path) -> None:
    with replaying(tape, "--auth", "--strict", code=1) as replay:
        login = Login(replay.url)
        login.exchange("made-up")
        login.authorize(state="-")
        assert "refused POST /token with 400: invalid_grant: the code was never issued" in replay.said
        assert "without a state" in replay.said
        assert "401" not in replay.said


# As recorded ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_recorded_login_sets_the_choices_of_clients(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"

    def script(request: Message, wire: Wire) -> None:
        metadata = {
            "issuer": upstream.origin,
            "authorization_endpoint": f"{upstream.origin}/a",
            "scopes_supported": ["x"],
        }
        metadata |= {"token_endpoint": f"{upstream.origin}/t", "token_endpoint_auth_methods_supported": ["none"]}
        resource = {"resource": upstream.url, "authorization_servers": [upstream.origin], "scopes_supported": ["read"]}
        token = request.header("authorization")
        if request.verb == "GET":
            wire.send(answer(json.dumps(resource if "resource" in request.target else metadata).encode()))
        elif token is None:
            wire.send(answer(b"", 401, www_authenticate='Bearer scope="read"'))
        elif token == "Bearer narrow-0123456789" and b"erase" in request.body:
            challenge = 'Bearer error="insufficient_scope", scope="read erase"'
            wire.send(answer(b"", 403, www_authenticate=challenge))
        else:
            wire.send(answer(result(1)))

    erase = modern(1, name="erase")
    with Upstream(script) as upstream, recording(tape, upstream.url) as recorder:
        for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"):
            ask(recorder.origin, verb="GET", to=path)
        ask(recorder.url, ASKED)
        ask(recorder.url, ASKED, authorization="Bearer narrow-0123456789")
        ask(recorder.url, erase, authorization="Bearer narrow-0123456789")
        ask(recorder.url, erase, authorization="Bearer wide-0123456789")
    with guarded(tape) as login:
        assert 'scope="read"' in (ask(login.url, ASKED).header("www-authenticate") or "")
        assert login.get("/.well-known/oauth-protected-resource").document["scopes_supported"] == ["read"]
        metadata = login.get("/.well-known/oauth-authorization-server").document
        assert metadata["issuer"] == login.origin and "registration_endpoint" not in metadata
        assert metadata["token_endpoint_auth_methods_supported"] == ["none"]
        narrow, wide = (login.log_in(scope=scope)["access_token"] for scope in ("read", "read erase"))
        assert login.ask(narrow).status == 200
        refused = login.ask(narrow, erase)
        assert refused.status == 403
        assert 'error="insufficient_scope", scope="read erase"' in (refused.header("www-authenticate") or "")
        assert login.ask(wide, erase).status == 200


# Faults --------------------------------------------------------------------------------------------------


def test_a_token_expires_at_the_call_that_a_fault_names(tape: Path) -> None:
    fault = "tools/call:search@2=token-expired"
    with replaying(tape, "--auth", "--fault", fault, "--strict") as replay:
        login = Login(replay.url)
        tokens = login.log_in()
        assert [login.ask(tokens["access_token"]).status for _ in range(3)] == [200, 401, 401]
        again = login.refresh(tokens["refresh_token"]).document
        assert login.ask(again["access_token"]).body == result(1, tools=[])
        assert f"fault {fault}" in replay.said


def test_a_refresh_fails_and_the_user_logs_in_again(tape: Path) -> None:
    fault = "tools/call:search@1=refresh-fails"
    with replaying(tape, "--auth", "--fault", fault) as replay:
        login = Login(replay.url)
        tokens = login.log_in()
        assert login.ask(tokens["access_token"]).status == 401
        assert login.refresh(tokens["refresh_token"]).document["error"] == "invalid_grant"
        assert "a refresh was refused" in replay.said
        assert login.ask(login.log_in()["access_token"]).status == 200
        replay.stop()
        assert "struck nothing" not in replay.said


def test_a_refresh_that_was_never_tried_has_not_failed(tape: Path) -> None:
    with replaying(tape, "--auth", "--fault", "tools/call@1=refresh-fails") as replay:
        login = Login(replay.url)
        assert login.ask(login.log_in()["access_token"]).status == 401
        replay.stop()
        assert "tools/call@1=refresh-fails has struck nothing" in replay.said


def test_a_scope_is_asked_for_until_the_token_covers_it(tape: Path) -> None:
    with guarded(tape, "--fault", "tools/call:search=insufficient-scope:files:write x") as login:
        narrow, wide = (login.log_in(scope=scope)["access_token"] for scope in ("a", "x a files:write"))
        for _ in range(2):
            refused = login.ask(narrow)
            assert refused.status == 403
            assert 'error="insufficient_scope", scope="files:write x"' in (refused.header("www-authenticate") or "")
        assert login.ask(wide).body == result(1, tools=[])


@pytest.mark.parametrize("fault", ["tools/call=token-expired", "tools/call=refresh-fails", "x=insufficient-scope:a"])
def test_faults_of_a_login_need_one(tape: Path, fault: str) -> None:
    for words in ([], ["--listen", "127.0.0.1:0"]):
        done = run([*MCP_TAPE, "replay", str(tape), "--fault", fault, *words])
        assert done.returncode == 2 and b"--auth" in done.stderr
    with pytest.raises(TapeError, match="auth=True"):
        use_cassette(tape, "none", faults=[fault])


@pytest.mark.parametrize(
    "fault", ["insufficient-scope", 'insufficient-scope:a"b', "insufficient-scope: a", "token-expire"]
)
def test_a_fault_of_a_login_is_read_strictly(tape: Path, fault: str) -> None:
    assert run([*MCP_TAPE, "replay", str(tape), "--fault", f"tools/call={fault}"]).returncode == 2


# Elsewhere -----------------------------------------------------------------------------------------------


def test_without_an_address_or_with_workers_there_is_no_login(tape: Path) -> None:
    for words, said in (
        (["--auth"], b"--auth needs --listen"),
        (["--listen", "127.0.0.1:0", "--auth", "--workers", "2"], b"--auth"),
    ):
        done = run([*MCP_TAPE, "replay", str(tape), *words])
        assert done.returncode == 2 and said in done.stderr


def test_a_tape_in_python_needs_a_login_too(tape: Path) -> None:
    with use_cassette(tape, "none", auth=True, faults=["tools/call@1=token-expired"]) as used:
        login = Login(used.url)
        tokens = login.log_in()
        assert [login.ask(tokens["access_token"]).status for _ in range(2)] == [401, 401]
        again = login.refresh(tokens["refresh_token"]).document
        assert login.ask(again["access_token"]).status == 200
        assert used.unstruck == []


@pytest.mark.slow
def test_the_token_of_a_replay_never_reaches_a_live_server(tape: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tape.db"
    copy.write_bytes(tape.read_bytes())
    with Upstream(lambda request, wire: wire.send(answer(result(2)))) as upstream:
        words = ("use", str(copy), "--url", upstream.url, "--mode", "new_episodes", "--auth", "--listen", "127.0.0.1:0")
        with listening(*words) as replay:
            login = Login(replay.url)
            token = login.log_in()["access_token"]
            assert login.ask(token, modern(2, name="other")).status == 200
        assert [request.header("authorization") for request in upstream.requests if b"other" in request.body] == [None]
