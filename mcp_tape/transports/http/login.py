"""URL rewriting for OAuth logins that pass through the recording proxy.

The client sees the proxy's origin as the resource, as the issuer and in every endpoint; the servers see their own URLs.
An authorization server on another origin is served below `/.mcp-tape/`. The browser is redirected to the real
authorization endpoint, so users see the page, the address and the certificate that they know.

https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson

from .addresses import is_loopback, is_same_redirect
from .upstream import origin_of

PREFIX = "/.mcp-tape/"  # paths of other origins
CALLBACK = PREFIX + "callback"
_WELL_KNOWN = "/.well-known/"
_ELSEWHERE = re.compile(rf"(/\.well-known/[^/?]+)?{re.escape(PREFIX)}(https?)/([^/?]+)(.*)", re.S)
_CHALLENGE = re.compile(r'(resource_metadata\s*=\s*)(?:"([^"]*)"|([^\s,"]+))', re.I)
_SIGNED = "signed_metadata"  # a JWT that takes precedence over the plain members: RFC 9728, section 2.2
_AUTHORIZATION, _REGISTRATION = "authorization_endpoint", "registration_endpoint"
_NAMES_ISSUER = "authorization_response_iss_parameter_supported"  # RFC 9207
_MOST_LOGINS = 1000  # in progress at the same time
# Parameters of forms, queries and JSON objects whose values must not be recorded.
_SECRETS = frozenset(
    "access_token refresh_token id_token client_secret registration_access_token code code_verifier assertion "
    "client_assertion subject_token actor_token password device_code token software_statement logout_token".split()
)


class Destination(NamedTuple):
    """The real target of a request: an origin, and the path and query there."""

    origin: str
    target: str

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def url(self) -> str:
        return self.origin + self.target


class _Login(NamedTuple):
    redirect_uri: str  # the client's
    callback: str  # the proxy's, sent to the server instead
    issuer: str


class LoginRewriter:
    """Translates URLs between a client, which knows the proxy's origin, and the servers, which know their own."""

    def __init__(self, server: str, own: str) -> None:
        """`server`: the URL of the MCP server. `own`: the proxy's origin."""
        parts = urlsplit(server)
        self.server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._own = own
        self._known: set[str] = set()  # other origins, named in metadata or a challenge
        self._originals: dict[str, str] = {}  # local URL → the URL as the server wrote it
        self._metadata: set[str] = set()  # metadata URLs, named in challenges
        self._authorizations: set[str] = set()  # authorization endpoints
        # The next two are of servers that name their issuer in authorization responses.
        self._issuers: dict[str, str] = {}  # authorization endpoint → issuer
        self._registrations: set[str] = set()  # registration endpoints
        self._registered: dict[str, list[str]] = {}  # client registered with our callback → its own redirect URIs
        self._logins: dict[str, _Login] = {}  # state → a login whose response comes back through the proxy
        self._codes: dict[str, str] = {}  # authorization code → the redirect URI that the server knows

    # -- URLs

    def local_url(self, url: str) -> str:
        """Translate a server's URL into the proxy's. Text that is not an HTTP URL is returned unchanged."""
        parts = _split(url)
        if parts is None:
            return url
        rest = url[len(parts[0]) + len("://") + len(parts[1]) :]
        if origin_of(url) == origin_of(self.server):
            found = self._own + rest
        else:
            self._known.add("{}://{}".format(*parts))
            found = f"{self._own}{PREFIX}{parts[0]}/{parts[1]}{rest}"
        _keep(self._originals, found, url)
        return found

    def real_value(self, value: str) -> str:
        """Translate a URL of the proxy back into the server's. Any other value is returned unchanged."""
        if value in self._originals:
            return self._originals[value]
        if value != self._own and not value.startswith((f"{self._own}/", f"{self._own}?", f"{self._own}#")):
            return value
        found = self.destination(value[len(self._own) :])
        return value if found is None else found.url

    def destination(self, target: str) -> Destination | None:
        """Return the real target of a request to the proxy; None if no server has named its origin."""
        found = _ELSEWHERE.fullmatch(target)
        if found is None:
            return Destination(self.server, target)
        well_known, scheme, host, rest = found.groups()
        origin = f"{scheme}://{host}"
        if origin not in self._known:
            return None
        target = (well_known or "") + rest
        return Destination(origin, target if target.startswith("/") else f"/{target}")

    # -- responses of servers

    def rewrite_challenge(self, value: str) -> str:
        """Rewrite a WWW-Authenticate header: https://www.rfc-editor.org/rfc/rfc9728#section-5.1."""

        def rewrite(found: re.Match[str]) -> str:
            url = found[2] if found[2] is not None else found[3]
            self._metadata.add(url.partition("?")[0])
            ours = self.local_url(url)
            return f'{found[1]}"{ours}"' if found[2] is not None else found[1] + ours

        return _CHALLENGE.sub(rewrite, value)

    def is_metadata(self, place: Destination) -> bool:
        """Return whether a request asks for metadata."""
        return _WELL_KNOWN in place.path or place.origin + place.path in self._metadata

    def rewrite_metadata(self, body: bytes) -> bytes:
        """Rewrite the metadata of a resource or an authorization server. Any other body is returned unchanged.

        https://www.rfc-editor.org/rfc/rfc9728#section-2, https://www.rfc-editor.org/rfc/rfc8414#section-2
        """
        document = _document(body)
        if document is None:
            return body
        rewritten = document.copy()
        if "authorization_servers" in document or "resource" in document:
            self._rewrite_resource(rewritten)
        elif "issuer" in document or _AUTHORIZATION in document:
            self._rewrite_server(rewritten)
        return body if rewritten == document else orjson.dumps(rewritten)

    def _rewrite_resource(self, document: dict[str, Any]) -> None:
        document.pop(_SIGNED, None)
        resource, servers = document.get("resource"), document.get("authorization_servers")
        # The client must refuse a resource on another origin, just as it would without the proxy.
        if isinstance(resource, str) and _split(resource) and origin_of(resource) == origin_of(self.server):
            document["resource"] = self.local_url(resource)
        if isinstance(servers, list):
            document["authorization_servers"] = [
                self.local_url(one) if isinstance(one, str) else one for one in servers
            ]

    def _rewrite_server(self, document: dict[str, Any]) -> None:
        document.pop(_SIGNED, None)
        issuer, names_issuer = document.get("issuer"), document.get(_NAMES_ISSUER) is True
        for name, url in list(document.items()):
            if not isinstance(url, str) or not (name == "issuer" or name.endswith("_endpoint")):
                continue
            document[name] = self.local_url(url)
            bare = url.partition("?")[0]
            if name == _AUTHORIZATION:
                self._authorizations.add(bare)
            if names_issuer and isinstance(issuer, str) and name == _AUTHORIZATION:
                self._issuers[bare] = issuer
            elif names_issuer and name == _REGISTRATION:
                self._registrations.add(bare)

    # -- requests of the client

    def rewrite_form(self, body: bytes) -> bytes:
        """Rewrite a form such as a token request: its resource, and the redirect URI that its code was issued for."""
        text = body.decode("latin-1")
        uri = self._codes.pop(dict(_pairs(text)).get("code", ""), None)

        def change(name: str, value: str) -> str:
            return uri if name == "redirect_uri" and uri is not None else self.real_value(value)

        return _with_values(text, change).encode("latin-1")

    def add_callback(self, place: Destination, body: bytes) -> bytes:
        """Add our callback to a client registration, if the server names its issuer in authorization responses."""
        document = _document(body) if place.origin + place.path in self._registrations else None
        uris = document and document.get("redirect_uris")
        if document is None or not isinstance(uris, list):
            return body
        return orjson.dumps(document | {"redirect_uris": [*uris, self._own + CALLBACK]})

    def strip_callback(self, body: bytes) -> bytes:
        """Remove our callback from the response to a registration."""
        document = _document(body)
        uris = document and document.get("redirect_uris")
        if document is None or not isinstance(uris, list) or self._own + CALLBACK not in uris:
            return body
        left = [uri for uri in uris if uri != self._own + CALLBACK]
        if isinstance(document.get("client_id"), str):
            _keep(self._registered, document["client_id"], [uri for uri in left if isinstance(uri, str)])
        return orjson.dumps(document | {"redirect_uris": left})

    # -- the browser

    def expects(self, target: str) -> bool:
        """Return whether a page of any site may send a browser to a target, because a login leads there."""
        place = self.destination(target)
        return place is not None and (self._is_authorization(place) or self._login(place) is not None)

    def _is_authorization(self, place: Destination) -> bool:
        """Clients of 2025-03-26 guess the path if there is no metadata, so the parameters decide, too."""
        if place.origin + place.path in self._authorizations:
            return True
        return {"response_type", "client_id"} <= dict(_pairs(place.query)).keys()

    def login_page(self, place: Destination) -> str | None:
        """Return the real URL of a login page; None if a request is for something else."""
        if not self._is_authorization(place):
            return None
        path, mark, query = place.target.partition("?")
        asked = dict(_pairs(query))
        callback = self._callback(place.origin + path, asked)
        if callback is not None:
            issuer = self._issuers[place.origin + path]
            _keep(self._logins, asked["state"], _Login(asked["redirect_uri"], callback, issuer))

        def change(name: str, value: str) -> str:
            return callback if name == "redirect_uri" and callback is not None else self.real_value(value)

        return place.origin + path + mark + _with_values(query, change)

    def _callback(self, endpoint: str, asked: dict[str, str]) -> str | None:
        """Return the redirect URI that brings the response to the proxy; None if it goes straight to the client.

        Only a response that names its issuer needs rewriting: the client knows the issuer by another URL. A client
        registered through the proxy has our callback among its redirect URIs. For others that listen on this machine,
        any port is valid, so ours is: https://www.rfc-editor.org/rfc/rfc8252#section-7.3
        """
        uri = asked.get("redirect_uri", "")
        if not uri or endpoint not in self._issuers or not asked.get("state"):
            return None
        if asked.get("response_mode", "query") != "query":
            return None
        registered = self._registered.get(asked.get("client_id", ""))
        if registered is not None:  # the server sees ours alone, so it can't refuse a redirect URI of a stranger
            return self._own + CALLBACK if any(is_same_redirect(uri, one) for one in registered) else None
        parts = _split(uri)
        host = urlsplit(uri).hostname if parts else None
        if parts is None or host is None or parts[0] != "http" or not is_loopback(host):
            return None
        named = f"[{host}]" if ":" in host else host
        return urlsplit(uri)._replace(netloc=f"{named}:{urlsplit(self._own).port or 80}").geturl()

    def _login(self, place: Destination) -> _Login | None:
        answer = dict(_pairs(place.query))
        return self._logins.get(answer.get("state", "")) if "code" in answer or "error" in answer else None

    def way_back(self, place: Destination) -> str | None:
        """Return the client's redirect URI with the server's response, the issuer translated; None without a login."""
        login = self._login(place)
        if login is None:
            return None
        answer = dict(_pairs(place.query))
        del self._logins[answer["state"]]
        if "code" in answer:
            _keep(self._codes, answer["code"], login.callback)

        def change(name: str, value: str) -> str:
            return self.local_url(value) if name == "iss" and value == login.issuer else value

        uri, mark, own = login.redirect_uri.partition("?")
        query = _with_values(place.query.removeprefix(f"{own}&") if own else place.query, change)
        return f"{uri}{mark or '?'}{own}{'&' if own else ''}{query}"


def secrets_in(content_type: str, body: bytes) -> dict[str, str]:
    """Return the secrets in a form or a JSON object, by name."""
    if content_type.startswith("application/x-www-form-urlencoded"):
        return secrets_in_query("?" + body.decode("latin-1"))
    found = _document(body) or {}
    return {name: value for name, value in found.items() if name in _SECRETS and isinstance(value, str) and value}


def secrets_in_query(target: str) -> dict[str, str]:
    """Return the secrets in the query of a request, by name."""
    return {name: value for name, value in _pairs(target.partition("?")[2]) if name in _SECRETS and value}


def _split(url: str) -> tuple[str, str] | None:
    """Return scheme and host of an HTTP URL as they are written; None for anything else."""
    try:
        parts = urlsplit(url)
        is_asked = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        parts.port  # noqa: B018 - ValueError
    except ValueError:
        return None
    found = re.match(r"(https?)://([^/?#]*)", url) if is_asked else None
    return (found[1], found[2]) if found else None


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _pairs(query: str) -> Iterator[tuple[str, str]]:
    yield from parse_qsl(query, keep_blank_values=True)


def _with_values(query: str, change: Callable[[str, str], str]) -> str:
    """Change values in a query. Unchanged parameters keep their encoding."""
    pieces = []
    for piece in query.split("&"):
        (name, value), *_ = [*_pairs(piece), ("", "")]
        changed = change(name, value)
        pieces.append(piece if changed == value else urlencode([(name, changed)]))
    return "&".join(pieces)


def _keep(kept: dict[str, Any], name: str, value: Any) -> None:
    kept[name] = value
    if len(kept) > _MOST_LOGINS:
        del kept[next(iter(kept))]
