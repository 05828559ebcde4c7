"""Rewriting a login: URLs of servers into URLs for the client, and back."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from mcp_tape.transports.http.login import CALLBACK, Destination, LoginRewriter, secrets_in

OWN, API, AUTH = "http://127.0.0.1:4000", "https://api.example.com", "https://auth.example.com:8443"
OF_AUTH = f"{OWN}/.mcp-tape/https/auth.example.com:8443"
NAMES_ISSUER = {"authorization_response_iss_parameter_supported": True}


@pytest.fixture
def login() -> LoginRewriter:
    return LoginRewriter(f"{API}/mcp?tenant=1", OWN)


def metadata(login: LoginRewriter, **document: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(login.rewrite_metadata(json.dumps(document).encode()))
    return found


def server_metadata(login: LoginRewriter, **more: Any) -> dict[str, Any]:
    ends = {f"{name}_endpoint": f"{AUTH}/{name}" for name in ("authorization", "token", "registration")}
    return metadata(login, issuer=AUTH, **ends, **more)


def test_a_resource_is_ours_and_its_authorization_server_leads_through_us(login: LoginRewriter) -> None:
    found = metadata(login, resource=f"{API}/mcp", authorization_servers=[AUTH, f"{API}/tenant/"], scopes_supported="x")
    assert found["resource"] == f"{OWN}/mcp"
    assert found["authorization_servers"] == [OF_AUTH, f"{OWN}/tenant/"]
    assert found["scopes_supported"] == "x"


@pytest.mark.parametrize("resource", ["https://other.example.com/mcp", "urn:x", f"{API}:99999/", "https://[", 1])
def test_a_resource_that_is_not_this_server_stays(login: LoginRewriter, resource: Any) -> None:
    """So the client refuses it, as it would without a proxy."""
    assert metadata(login, resource=resource)["resource"] == resource


@pytest.mark.parametrize("written", [f"{API}:443/mcp", "https://API.example.com/mcp", API, f"{API}/"])
def test_a_resource_goes_back_as_the_server_wrote_it(login: LoginRewriter, written: str) -> None:
    ours = metadata(login, resource=written)["resource"]
    assert urlsplit(ours).netloc == "127.0.0.1:4000"
    assert login.real_value(ours) == written


def test_signed_metadata_which_would_count_more_is_left_out(login: LoginRewriter) -> None:
    assert "signed_metadata" not in metadata(login, resource=API, signed_metadata="e30.e30.x")
    assert "signed_metadata" not in server_metadata(login, signed_metadata="e30.e30.x")


def test_endpoints_and_issuer_lead_through_us(login: LoginRewriter) -> None:
    found = server_metadata(login, jwks_uri=f"{AUTH}/keys", service_documentation="https://docs.example.com")
    assert found["issuer"] == OF_AUTH
    assert found["token_endpoint"] == f"{OF_AUTH}/token"
    assert found["authorization_endpoint"] == f"{OF_AUTH}/authorization"
    assert (found["jwks_uri"], found["service_documentation"]) == (f"{AUTH}/keys", "https://docs.example.com")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"resource":', b"\xff", b'{"a":1}', b'{"issuer":null}', b'"x"']
)
def test_other_bodies_than_metadata_stay_byte_for_byte(login: LoginRewriter, body: bytes) -> None:
    assert login.rewrite_metadata(body) == body
    assert login.strip_callback(body) == body
    assert login.add_callback(Destination(API, "/register"), body) == body


@pytest.mark.parametrize(
    ("target", "origin", "there"),
    [
        ("/token", API, "/token"),
        ("/a%2Fb?c=%7E", API, "/a%2Fb?c=%7E"),
        ("/.mcp-tape/https/auth.example.com:8443/token?a=1", AUTH, "/token?a=1"),
        ("/.mcp-tape/https/auth.example.com:8443", AUTH, "/"),
        ("/.mcp-tape/https/auth.example.com:8443?a", AUTH, "/?a"),
        ("/.well-known/oauth-authorization-server/.mcp-tape/https/auth.example.com:8443/t", AUTH,
         "/.well-known/oauth-authorization-server/t"),
        ("/.well-known/openid-configuration/.mcp-tape/https/auth.example.com:8443", AUTH,
         "/.well-known/openid-configuration"),
        ("/.mcp-tape/https/auth.example.com:8443/t/.well-known/openid-configuration", AUTH,
         "/t/.well-known/openid-configuration"),
    ],
)  # fmt: skip
def test_a_path_of_ours_is_one_of_a_server(login: LoginRewriter, target: str, origin: str, there: str) -> None:
    login.local_url(f"{AUTH}/")
    assert login.destination(target) == (origin, there)


@pytest.mark.parametrize("host", ["evil.test", "auth.example.com", "auth.example.com:8443@evil.test", "[::1]:80", ".."])
def test_a_server_that_nobody_has_named_is_not_asked(login: LoginRewriter, host: str) -> None:
    login.local_url(f"{AUTH}/")
    assert login.destination(f"/.mcp-tape/https/{host}/x") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'Bearer resource_metadata="{API}/prm", scope="a"', f'Bearer resource_metadata="{OWN}/prm", scope="a"'),
        (f"Bearer resource_metadata={API}/prm, scope=a", f"Bearer resource_metadata={OWN}/prm, scope=a"),
        (f'Bearer Resource_Metadata = "{AUTH}/prm"', f'Bearer Resource_Metadata = "{OF_AUTH}/prm"'),
        ('Bearer resource_metadata="/prm"', 'Bearer resource_metadata="/prm"'),
        ('Bearer error="invalid_token"', 'Bearer error="invalid_token"'),
        ('Basic realm="x"', 'Basic realm="x"'),
    ],
)
def test_a_challenge_names_metadata_here(login: LoginRewriter, before: str, after: str) -> None:
    assert login.rewrite_challenge(before) == after


def test_metadata_may_be_anywhere_that_a_challenge_says(login: LoginRewriter) -> None:
    place = Destination(API, "/prm?x=1")
    assert not login.is_metadata(place)
    login.rewrite_challenge(f'Bearer resource_metadata="{API}/prm"')
    assert login.is_metadata(place)


def test_of_a_form_only_our_urls_change(login: LoginRewriter) -> None:
    body = b"a=%7e&resource=http%3A%2F%2F127.0.0.1%3A4000%2Fmcp&b=+%zz&c&=d&uri=http%3A%2F%2F127.0.0.1%3A40000%2Fcb"
    assert login.rewrite_form(body) == body.replace(
        b"http%3A%2F%2F127.0.0.1%3A4000%2F", b"https%3A%2F%2Fapi.example.com%2F"
    )
    assert login.rewrite_form(b"\xff=1&&") == b"\xff=1&&"


# The browser ---------------------------------------------------------------------------------------------

REDIRECT = "http://localhost:7777/cb?own=1"


def to_page(login: LoginRewriter, **more: str) -> tuple[str, dict[str, list[str]]]:
    """Where a browser is sent to by a request to log in, and with what query."""
    asked = {"response_type": "code", "client_id": "c", "redirect_uri": REDIRECT, "state": "s"}
    query = urlencode(asked | {"resource": f"{OWN}/mcp"} | more)
    place = login.destination(f"/.mcp-tape/https/auth.example.com:8443/authorization?{query}")
    url = login.login_page(place) if place else None
    assert url is not None
    return url.partition("?")[0], parse_qs(urlsplit(url).query)


def back(login: LoginRewriter, **said: str) -> dict[str, list[str]]:
    """The query with which the browser comes back to the client."""
    url = login.way_back(Destination(API, "/cb?" + urlencode({"own": "1"} | said)))
    assert url is not None and url.startswith(REDIRECT)
    return parse_qs(urlsplit(url).query)


def test_a_browser_is_sent_to_the_real_page_with_the_real_resource(login: LoginRewriter) -> None:
    server_metadata(login)
    page, asked = to_page(login)
    assert page == f"{AUTH}/authorization"
    assert asked["resource"] == [f"{API}/mcp"]
    assert asked["redirect_uri"] == [REDIRECT]  # the response does not name its issuer, so it need not pass here


def test_a_response_that_names_its_issuer_comes_back_through_us(login: LoginRewriter) -> None:
    server_metadata(login, **NAMES_ISSUER)
    _, asked = to_page(login)
    assert asked["redirect_uri"] == ["http://localhost:4000/cb?own=1"]
    assert login.expects("/cb?own=1&code=k&state=s") and not login.expects("/cb?own=1&code=k&state=t")
    said = back(login, code="k", state="s", iss=AUTH)
    assert said == {"own": ["1"], "code": ["k"], "state": ["s"], "iss": [OF_AUTH]}
    form = urlencode({"code": "k", "redirect_uri": REDIRECT}).encode()
    assert parse_qs(login.rewrite_form(form).decode())["redirect_uri"] == asked["redirect_uri"]
    assert login.rewrite_form(form) == form  # a code counts once
    assert not login.expects("/cb?own=1&code=k&state=s")


def test_an_error_comes_back_too(login: LoginRewriter) -> None:
    server_metadata(login, **NAMES_ISSUER)
    to_page(login)
    assert back(login, error="access_denied", state="s", iss=AUTH)["error"] == ["access_denied"]


def test_another_issuer_is_not_made_to_look_right(login: LoginRewriter) -> None:
    server_metadata(login, **NAMES_ISSUER)
    to_page(login)
    assert back(login, code="k", state="s", iss=f"{AUTH}/")["iss"] == [f"{AUTH}/"]


def test_a_client_that_registers_through_us_has_our_callback(login: LoginRewriter) -> None:
    server_metadata(login, **NAMES_ISSUER)
    own = {"client_name": "x", "redirect_uris": ["cursor://back"]}
    sent = json.loads(login.add_callback(Destination(AUTH, "/registration"), json.dumps(own).encode()))
    assert sent == own | {"redirect_uris": ["cursor://back", OWN + CALLBACK]}
    answer = json.loads(login.strip_callback(json.dumps(sent | {"client_id": "c"}).encode()))
    assert answer == own | {"client_id": "c"}
    _, asked = to_page(login, redirect_uri="cursor://back")
    assert asked["redirect_uri"] == [OWN + CALLBACK]


@pytest.mark.parametrize("uri", ["https://evil.test/cb", "cursor://back/other", "http://localhost:7/other", "http://["])
def test_a_code_is_sent_only_where_the_client_registered(login: LoginRewriter, uri: str) -> None:
    """The server sees our callback alone, so it could not refuse another redirect URI."""
    server_metadata(login, **NAMES_ISSUER)
    own = {"client_id": "c", "redirect_uris": ["cursor://back", "http://localhost:8/cb", OWN + CALLBACK]}
    login.strip_callback(json.dumps(own).encode())
    assert to_page(login, redirect_uri=uri)[1]["redirect_uri"] == [uri]
    assert to_page(login, redirect_uri="http://localhost:9/cb")[1]["redirect_uri"] == [OWN + CALLBACK]


@pytest.mark.parametrize(
    "more",
    [
        {"redirect_uri": "cursor://back"},
        {"redirect_uri": "https://app.example.com/cb"},
        {"redirect_uri": "http://[bad"},
        {"state": ""},
        {"response_mode": "form_post"},
    ],
)
def test_where_we_cannot_be_in_between_the_response_goes_to_the_client(
    login: LoginRewriter, more: dict[str, str]
) -> None:
    server_metadata(login, **NAMES_ISSUER)
    _, asked = to_page(login, **more)
    assert asked["redirect_uri"] == [more.get("redirect_uri", REDIRECT)]


OF_STRANGER = "/.mcp-tape/https/evil.test/?response_type=code&client_id=1"


@pytest.mark.parametrize("target", ["/", "/mcp", "/authorize", "/x?client_id=1", OF_STRANGER])
def test_a_browser_is_expected_nowhere_else(login: LoginRewriter, target: str) -> None:
    server_metadata(login)
    assert not login.expects(target)


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("kind", "body", "found"),
    [
        ("application/json", b'{"access_token":"a","scope":"s","expires_in":3}', {"access_token": "a"}),
        ("application/json", b'{"code":5,"refresh_token":""}', {}),
        (FORM, b"code=a%2Fb&client_id=c&code_verifier=v", {"code": "a/b", "code_verifier": "v"}),
        ("application/json", b"<html>", {}),
    ],
)
def test_secrets_are_known_by_their_names(kind: str, body: bytes, found: dict[str, str]) -> None:
    assert secrets_in(kind, body) == found
