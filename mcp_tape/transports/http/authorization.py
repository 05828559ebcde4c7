"""The made-up authorization server of `replay --auth`: clients must log in, and users are asked nothing.

It checks what the specification requires of a client. It uses no randomness and no clock: tokens are derived from the
tape, a seed and a counter, are valid nowhere else, and expire only by faults. Recorded metadata is repeated where it
changes what a client does.

https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from binascii import a2b_base64
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import orjson

from .addresses import is_same_redirect
from .message import TEXT, header

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...replay.sends import Challenge
    from ...replay.stage import Stage
    from ...wire.frames import Message
    from .listen import HttpRequest

RESOURCE = "/.well-known/oauth-protected-resource"
METADATA = "/.well-known/oauth-authorization-server"
AUTHORIZE, TOKEN, REGISTER = "/authorize", "/token", "/register"
_BASIC, _POST, _NONE = "client_secret_basic", "client_secret_post", "none"
# Recorded metadata that changes what a client does.
_REPEATED = (
    "grant_types_supported", "token_endpoint_auth_methods_supported", "client_id_metadata_document_supported",
    "authorization_response_iss_parameter_supported", "scopes_supported",
)  # fmt: skip
_MADE_UP: dict[str, Any] = {
    "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
    "token_endpoint_auth_methods_supported": [_NONE, _BASIC, _POST],
    "client_id_metadata_document_supported": True,
    "authorization_response_iss_parameter_supported": True,
}
_NAMES_ISSUER = "authorization_response_iss_parameter_supported"
_JSON = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
_WITHOUT_USER = ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")


class Grant(NamedTuple):
    """What a code or a token is valid for."""

    client: str
    resource: str
    scope: str
    family: int  # the login that it comes from
    redirect_uri: str = ""
    challenge: str = ""  # PKCE's code_challenge


class DeniedError(Exception):
    """An OAuth error code, and the reason: https://www.rfc-editor.org/rfc/rfc6749#section-5.2"""

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(reason)
        self.error = error


class AuthorizationServer:
    """Registers clients, logs them in, issues tokens, and refuses requests without a valid one."""

    def __init__(self, stage: Stage, seed: int, paths: Sequence[str]) -> None:
        """`paths`: the paths that need a token. Clients without one are pointed to the first."""
        self._stage = stage
        self._paths = paths
        self._recorded = stage.chosen.controls.login()
        self._seed = f"{seed} {self._recorded.recorded_at}"
        self._counts: Counter[str] = Counter()
        self._clients: dict[str, dict[str, Any]] = {}
        self._codes: dict[str, Grant] = {}
        self._access: dict[str, Grant] = {}
        self._refresh: dict[str, Grant] = {}
        self._used: dict[str, int] = {}  # used refresh token → its family
        self._failing: dict[int, str] = {}  # family whose next refresh fails → the fault
        self._scope: frozenset[str] = frozenset()  # granted to the current request's token

    def answer(self, request: HttpRequest) -> bool:
        """Answer a step of a login, or a request without a valid token; return False for any other request."""
        path = request.path.rstrip("/")
        if request.body is None or self._answer_page(request, path):
            return request.body is not None
        if path not in self._paths:
            return False
        grant = self._access.get(_bearer(request))
        if grant is None:
            self._challenge(request, 401, "invalid_token" if _bearer(request) else "", self._recorded.scope)
            return True
        self._scope = frozenset(grant.scope.split())
        return False

    def expects(self, target: str) -> bool:
        """Return whether a page of any site may send a browser to a target."""
        return target.partition("?")[0] == AUTHORIZE

    # -- tokens in requests

    def covers(self, scope: str) -> bool:
        """Return whether the token of the current request covers a scope."""
        return self._scope.issuperset(scope.split())

    def refuse_narrow(self, request: HttpRequest, messages: Iterable[Message]) -> bool:
        """Refuse a call that needed a wider scope on the tape, if the token does not cover that scope."""
        for message in messages:
            scope = self._recorded.wider.get((message.method or "", message.name))
            if message.kind == "request" and scope is not None and not self.covers(scope):
                self._challenge(request, 403, "insufficient_scope", scope)
                return True
        return False

    def strike(self, request: HttpRequest, fault: Challenge) -> None:
        """Refuse a call because of a fault."""
        if fault.kind == "insufficient-scope":
            self._challenge(request, 403, "insufficient_scope", fault.scope)
            return
        grant = self._access.pop(_bearer(request), None)
        if fault.kind == "refresh-fails" and grant is not None:
            self._failing[grant.family] = fault.source
        self._challenge(request, 401, "invalid_token", self._recorded.scope)

    def _challenge(self, request: HttpRequest, status: int, error: str, scope: str | None) -> None:
        """https://www.rfc-editor.org/rfc/rfc6750#section-3, https://www.rfc-editor.org/rfc/rfc9728#section-5.1"""
        about = {"error": error, "scope": scope, "resource_metadata": _origin(request) + RESOURCE + request.path}
        words = ", ".join(f'{name}="{value}"' for name, value in about.items() if value)
        body = orjson.dumps({"error": error or "unauthorized"})
        challenge = f"Bearer {words}".encode("latin-1", "replace")
        request.respond(status, [(b"content-type", b"application/json"), (b"www-authenticate", challenge)], body)

    # -- pages

    def _answer_page(self, request: HttpRequest, path: str) -> bool:
        origin = _origin(request)
        if request.verb == "GET" and path.startswith(RESOURCE):
            self._describe_resource(request, origin, path.removeprefix(RESOURCE))
        elif request.verb == "GET" and path == METADATA:
            request.respond(200, _JSON, orjson.dumps(self._metadata(origin)))
        elif request.verb == "GET" and path == AUTHORIZE:
            self._authorize(request, origin)
        elif request.verb == "POST" and path in (TOKEN, REGISTER):
            try:
                status, answer = self._issue_token(request, origin) if path == TOKEN else self._register(request)
            except DeniedError as denied:
                self._deny(request, denied)
            else:
                request.respond(status, _JSON, orjson.dumps(answer))
        else:
            return False
        return True

    def _deny(self, request: HttpRequest, denied: DeniedError) -> None:
        self._stage.refuse(f"refused {request.verb} {request.path} with 400: {denied.error}: {denied}")
        body = {"error": denied.error, "error_description": f"mcp-tape: {denied}"}
        request.respond(400, _JSON, orjson.dumps(body))

    def _describe_resource(self, request: HttpRequest, origin: str, path: str) -> None:
        if path and path not in self._paths:
            request.respond(404, [(b"content-type", TEXT)], b"mcp-tape: nothing is protected there\n")
            return
        found: dict[str, Any] = {"resource": origin + (path or self._paths[0]), "authorization_servers": [origin]}
        found |= {"bearer_methods_supported": ["header"]}
        scopes = self._recorded.resource.get("scopes_supported")
        request.respond(200, _JSON, orjson.dumps(found | ({"scopes_supported": scopes} if scopes else {})))

    def _metadata(self, origin: str) -> dict[str, Any]:
        recorded = self._recorded.metadata
        found = {
            "issuer": origin, "authorization_endpoint": origin + AUTHORIZE, "token_endpoint": origin + TOKEN,
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        }  # fmt: skip
        if not recorded or "registration_endpoint" in recorded:
            found["registration_endpoint"] = origin + REGISTER
        about = {name: recorded[name] for name in _REPEATED if name in recorded} if recorded else _MADE_UP
        return found | about

    # -- registration: https://www.rfc-editor.org/rfc/rfc7591

    def _register(self, request: HttpRequest) -> tuple[int, dict[str, Any]]:
        try:
            asked = orjson.loads(request.body or b"")
        except orjson.JSONDecodeError:
            asked = None
        uris = asked.get("redirect_uris") if isinstance(asked, dict) else None
        if not isinstance(asked, dict):
            raise DeniedError("invalid_client_metadata", "the registration is not a JSON object")
        if not isinstance(uris, list) or not uris or not all(map(_is_uri, uris)):
            raise DeniedError("invalid_redirect_uri", "redirect_uris must be a list of at least one absolute URI")
        client = {name: value for name, value in asked.items() if name not in ("client_id", "client_secret")}
        client["token_endpoint_auth_method"] = method = asked.get("token_endpoint_auth_method") or _BASIC
        number = self._next_number("client")
        client["client_id"] = f"client-{number}"
        if method != _NONE:
            client |= {"client_secret": self._make_token("secret", number), "client_secret_expires_at": 0}
        self._clients[client["client_id"]] = client
        return 201, client

    # -- a login: https://www.rfc-editor.org/rfc/rfc6749#section-4.1, https://www.rfc-editor.org/rfc/rfc7636

    def _authorize(self, request: HttpRequest, origin: str) -> None:
        asked = dict(parse_qsl(request.query, keep_blank_values=True))
        try:
            uri = self._redirect_uri(asked)
        except DeniedError as denied:  # without a redirect URI, the error stays on this page
            self._deny(request, denied)
            return
        answer = {"state": asked["state"]} if "state" in asked else {}
        try:
            answer |= {"code": self._issue_code(asked, origin, uri)}
        except DeniedError as denied:
            self._stage.refuse(f"refused GET {AUTHORIZE}: {denied.error}: {denied}")
            answer |= {"error": denied.error, "error_description": f"mcp-tape: {denied}"}
        if not asked.get("state"):
            self._stage.note("a client logs in without a state, so it cannot recognize a response to another login")
        if self._metadata(origin).get(_NAMES_ISSUER):
            answer |= {"iss": origin}
        where = f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer)}"
        request.respond(302, [(b"location", where.encode("latin-1", "replace"))])

    def _redirect_uri(self, asked: dict[str, str]) -> str:
        client, uri = asked.get("client_id", ""), asked.get("redirect_uri", "")
        if not client:
            raise DeniedError("invalid_request", "the parameter client_id is missing")
        if not _is_uri(uri):
            raise DeniedError("invalid_request", f"the redirect URI {uri!r} is not an absolute URI")
        if client in self._clients:
            registered = self._clients[client]["redirect_uris"]
            if not any(is_same_redirect(uri, one) for one in registered):
                raise DeniedError("invalid_request", f"the client did not register the redirect URI {uri}")
        return uri

    def _issue_code(self, asked: dict[str, str], origin: str, uri: str) -> str:
        if asked.get("response_type") != "code":
            raise DeniedError("unsupported_response_type", "the response_type must be code")
        if asked.get("code_challenge_method") != "S256" or not asked.get("code_challenge"):
            raise DeniedError("invalid_request", "PKCE is missing: send code_challenge, and code_challenge_method=S256")
        resource = self._check_resource(asked, origin)
        family = self._next_number("login")
        grant = Grant(asked["client_id"], resource, self._granted_scope(asked), family, uri, asked["code_challenge"])
        code = self._make_token("code")
        self._codes[code] = grant
        return code

    def _check_resource(self, asked: dict[str, str], origin: str) -> str:
        """https://www.rfc-editor.org/rfc/rfc8707, which MCP clients must implement."""
        resource = asked.get("resource", "")
        if resource.rstrip("/") not in {origin, *(origin + path for path in self._paths)}:
            named = f"the resource is {resource!r}" if resource else "the parameter resource is missing"
            raise DeniedError("invalid_target", f"{named}; it must be {origin}{self._paths[0]}")
        return resource

    def _granted_scope(self, asked: dict[str, str]) -> str:
        return asked.get("scope") or self._recorded.scope or ""

    # -- tokens

    def _issue_token(self, request: HttpRequest, origin: str) -> tuple[int, dict[str, Any]]:
        kind = header(request.headers, b"content-type") or ""
        if not kind.startswith("application/x-www-form-urlencoded"):
            raise DeniedError("invalid_request", f"a token request must be a form, not {kind or 'of no content type'}")
        asked = dict(parse_qsl((request.body or b"").decode("latin-1"), keep_blank_values=True))
        client, grant_type = self._authenticate(request, asked), asked.get("grant_type", "")
        if grant_type == "authorization_code":
            grant = self._redeem_code(client, asked)
        elif grant_type == "refresh_token":
            grant = self._redeem_refresh_token(client, asked)
        elif grant_type in _WITHOUT_USER:
            grant = Grant(
                client, self._check_resource(asked, origin), self._granted_scope(asked), self._next_number("login")
            )
        else:
            raise DeniedError("unsupported_grant_type", f"the grant_type {grant_type!r} is not supported")
        if self._check_resource(asked, origin) != grant.resource:
            raise DeniedError("invalid_target", f"the resource is {asked['resource']!r}, and was {grant.resource!r}")
        access = self._make_token("access")
        self._access[access] = grant
        found = {"access_token": access, "token_type": "Bearer", "expires_in": 3600, "scope": grant.scope}
        if grant_type in _WITHOUT_USER:
            return 200, found
        refresh = self._make_token("refresh")
        self._refresh[refresh] = grant
        return 200, found | {"refresh_token": refresh}

    def _authenticate(self, request: HttpRequest, asked: dict[str, str]) -> str:
        """Return the id of the client, its secret checked. A client that did not register here is believed."""
        client, secret = asked.get("client_id", ""), asked.get("client_secret")
        scheme, _, given = (header(request.headers, b"authorization") or "").partition(" ")
        if scheme.lower() == "basic":
            try:
                name, _, password = a2b_base64(given).decode().partition(":")
            except ValueError:
                raise DeniedError("invalid_client", "the header Authorization is malformed") from None
            client, secret = unquote(name), unquote(password)
        registered = self._clients.get(client)
        if registered is not None and registered.get("client_secret") not in (None, secret):
            raise DeniedError("invalid_client", f"{client} sent another secret than the one it was given")
        return client

    def _redeem_code(self, client: str, asked: dict[str, str]) -> Grant:
        grant = self._codes.pop(asked.get("code", ""), None)
        if grant is None:
            raise DeniedError("invalid_grant", "the code was never issued, or was used before")
        if grant.client != client:
            raise DeniedError("invalid_grant", f"the code was issued to {grant.client}, and {client} sent it")
        if grant.redirect_uri != asked.get("redirect_uri", grant.redirect_uri):
            raise DeniedError("invalid_grant", f"the redirect URI must be that of the login, {grant.redirect_uri}")
        digest = urlsafe_b64encode(sha256(asked.get("code_verifier", "").encode("latin-1")).digest())
        if digest.rstrip(b"=").decode() != grant.challenge:
            raise DeniedError("invalid_grant", "the code_verifier does not match the code_challenge")
        return grant

    def _redeem_refresh_token(self, client: str, asked: dict[str, str]) -> Grant:
        """Refresh tokens are rotated: https://www.rfc-editor.org/rfc/rfc9700#section-4.14.2."""
        token = asked.get("refresh_token", "")
        grant = self._refresh.pop(token, None)
        if token in self._used:
            self._end_family(self._used[token])
            raise DeniedError("invalid_grant", "the refresh token was used before, so this login has ended")
        if grant is None or grant.client != client:
            raise DeniedError(
                "invalid_grant", "the refresh token was not issued to this client, or its login has ended"
            )
        fault = self._failing.pop(grant.family, None)
        if fault is not None:
            self._end_family(grant.family)
            self._stage.struck.add(fault)
            self._stage.note(f"fault {fault}: a refresh was refused")
            raise DeniedError("invalid_grant", f"fault: {fault}")
        self._used[token] = grant.family
        scope = asked.get("scope") or grant.scope
        if not set(scope.split()) <= set(grant.scope.split()):
            raise DeniedError("invalid_scope", f"{scope!r} is more than the login granted, {grant.scope!r}")
        return grant._replace(scope=scope)

    def _end_family(self, family: int) -> None:
        for tokens in (self._access, self._refresh):
            for token in [token for token, grant in tokens.items() if grant.family == family]:
                del tokens[token]

    # -- numbers and tokens

    def _next_number(self, kind: str) -> int:
        self._counts[kind] += 1
        return self._counts[kind]

    def _make_token(self, kind: str, number: int | None = None) -> str:
        """Make a token that is the same in each replay of this tape, and of no other."""
        number = self._next_number(kind) if number is None else number
        return f"tape-{kind}-{number}-{sha256(f'{self._seed} {kind} {number}'.encode()).hexdigest()[:24]}"


def _origin(request: HttpRequest) -> str:
    return f"http://{header(request.headers, b'host')}"


def _bearer(request: HttpRequest) -> str:
    scheme, _, token = request.fields.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _is_uri(uri: Any) -> bool:
    """Return whether a redirect URI is absolute, and safe in a header."""
    if not isinstance(uri, str) or not uri.isascii() or not uri.isprintable() or " " in uri or "#" in uri:
        return False
    try:
        return bool(urlsplit(uri).scheme)
    except ValueError:
        return False
