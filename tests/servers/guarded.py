"""A server that needs a login, and is strict about it: python guarded.py SECRETS [--apart] [--issuer] [--uses N]

It prints its address. An access token is for this server alone, counts `--uses` times, and covers the scope that was
asked for: `erase` needs one of its own. A refresh token counts once. The authorization server is in the same process,
with `--apart` at an origin of its own; with `--issuer` its responses name it. Each secret that is issued or received is
written to the file SECRETS, one a line.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import itertools
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

Json = dict[str, Any]
ICON = bytes(range(256))
CARD = {"name": "guarded", "description": "a server that needs a login"}


class RefusedError(Exception):
    """An error of OAuth: https://www.rfc-editor.org/rfc/rfc6749#section-5.2"""


def expect(condition: object, error: str, why: str) -> None:
    if not condition:
        raise RefusedError(error, why)


class Authority:
    """The authorization server."""

    def __init__(self, origin: str, resource: str, options: argparse.Namespace) -> None:
        self.origin, self.resource, self.options = origin, resource, options
        self.clients: dict[str, Json] = {}
        self.codes: dict[str, Json] = {}
        self.access: dict[str, Json] = {}
        self.refresh: dict[str, Json] = {}
        self.counts = itertools.count(1)

    def secret(self, kind: str, value: str | None = None) -> str:
        value = value or f"{kind}_{secrets.token_hex(16)}"
        with open(self.options.secrets, "a") as file:
            file.write(value + "\n")
        return value

    def metadata(self) -> Json:
        found: Json = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic", "none"],
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": ["read", "erase"],
        }
        return found | ({"authorization_response_iss_parameter_supported": True} if self.options.issuer else {})

    async def register(self, request: Request) -> Response:
        asked = await request.json()
        expect(asked.get("redirect_uris"), "invalid_redirect_uri", "no redirect URI")
        number, method = f"client-{next(self.counts)}", asked.get("token_endpoint_auth_method", "client_secret_basic")
        own = {"client_id": number, "token_endpoint_auth_method": method}
        own |= {"registration_access_token": self.secret("registration")}
        if method != "none":
            own |= {"client_secret": self.secret("secret")}
        self.clients[number] = asked | own
        return JSONResponse(self.clients[number], 201)

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        client = self.clients.get(asked.get("client_id", ""), {})
        expect(client, "invalid_client", "no such client")
        expect(asked.get("redirect_uri") in client["redirect_uris"], "invalid_request", "another redirect URI")
        expect(asked.get("response_type") == "code", "unsupported_response_type", "code is the only one")
        expect(asked.get("code_challenge_method") == "S256", "invalid_request", "no PKCE")
        expect(asked.get("resource") == self.resource, "invalid_target", f"{asked.get('resource')} is not served here")
        code = self.secret("code")
        self.codes[code] = asked
        said = {"code": code} | ({"state": asked["state"]} if "state" in asked else {})
        said |= {"iss": self.origin} if self.options.issuer else {}
        cookie = {"set-cookie": f"session={self.secret('cookie')}"}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(said)}", 302, cookie)

    async def token(self, request: Request) -> Response:
        asked = {name: str(value) for name, value in (await request.form()).items()}
        client = self.client(request, asked)
        expect(asked.get("resource") == self.resource, "invalid_target", f"{asked.get('resource')} is not served here")
        if asked.get("grant_type") == "refresh_token":
            held = self.refresh.pop(asked.get("refresh_token", ""), {})
            expect(held.get("client_id") == client, "invalid_grant", "the refresh token was used, or never given")
            return self.issue(client, asked.get("scope") or held["scope"])
        held = self.codes.pop(asked.get("code", ""), {})
        expect(held.get("client_id") == client, "invalid_grant", "the code was used, or never given")
        expect(asked.get("redirect_uri") == held["redirect_uri"], "invalid_grant", "another redirect URI")
        verifier = self.secret("verifier", asked.get("code_verifier", ""))
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        expect(digest == held["code_challenge"], "invalid_grant", "the verifier does not fit")
        return self.issue(client, held.get("scope") or "read")

    def client(self, request: Request, asked: dict[str, str]) -> str:
        given = request.headers.get("authorization", "")
        if given.startswith("Basic "):
            number, _, secret = base64.b64decode(given[6:]).decode().partition(":")
        else:
            number, secret = asked.get("client_id", ""), asked.get("client_secret", "")
        client = self.clients.get(number, {})
        expect(client, "invalid_client", "no such client")
        expect(client.get("client_secret", "") == secret, "invalid_client", "another secret")
        return number

    def issue(self, client: str, scope: str) -> Response:
        access, refresh = self.secret("access"), self.secret("refresh")
        self.access[access] = {"scope": scope.split(), "left": self.options.uses}
        self.refresh[refresh] = {"client_id": client, "scope": scope}
        about = {"token_type": "Bearer", "expires_in": 3600, "scope": scope}
        tokens = {"access_token": access, "refresh_token": refresh, **about}
        return JSONResponse(tokens, headers={"cache-control": "no-store"})

    def routes(self) -> list[Route]:
        async def describe(request: Request) -> Response:
            return JSONResponse(self.metadata())

        return [
            Route("/.well-known/oauth-authorization-server", describe),
            Route("/register", refusing(self.register), methods=["POST"]),
            Route("/authorize", refusing(self.authorize)),
            Route("/token", refusing(self.token), methods=["POST"]),
        ]


def refusing(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except RefusedError as error:
            return JSONResponse({"error": error.args[0], "error_description": error.args[1]}, 400)

    return answered


def guard(app: Any, authority: Authority, metadata: str) -> Any:
    """The server, for clients with a token for it."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/mcp":
            await app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        held, about = authority.access.get(token), f'resource_metadata="{metadata}"'
        if held is None or held["left"] == 0:
            error = 'error="invalid_token", ' if token else ""
            challenge = {"www-authenticate": f'Bearer {error}scope="read", {about}'}
            await JSONResponse({"error": "invalid_token"}, 401, challenge)(scope, receive, send)
            return
        if b'"erase"' in body and b"tools/call" in body and "erase" not in held["scope"]:
            challenge = {"www-authenticate": f'Bearer error="insufficient_scope", scope="read erase", {about}'}
            await JSONResponse({"error": "insufficient_scope"}, 403, challenge)(scope, receive, send)
            return
        held["left"] -= 1
        whole = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Any:
            return whole.pop() if whole else await receive()

        await app(scope, receive_again, send)

    return guarded


def server(authority: Authority, origin: str) -> Any:
    mcp = MCPServer("guarded", version="1")

    @mcp.tool()
    def whoami() -> str:
        return "ada"

    @mcp.tool()
    def erase() -> str:
        return "erased"

    @mcp.tool()
    def leak() -> str:
        """Return every secret that was issued or received, one also in a URL."""
        issued = Path(authority.options.secrets).read_text().split()
        # A browser got the cookies at the real origin, so the proxy never saw them.
        issued = [secret for secret in issued if not secret.startswith("cookie_")]
        return json.dumps({"all": issued, "url": f"https://example.com/?x={issued[-1]}"})

    app = mcp.streamable_http_app()
    described = {"resource": f"{origin}/mcp", "authorization_servers": [authority.origin], "scopes_supported": ["read"]}

    async def resource(request: Request) -> Response:
        return JSONResponse(described)

    async def card(request: Request) -> Response:
        return JSONResponse(CARD)

    async def icon(request: Request) -> Response:
        return Response(ICON, media_type="image/png")

    app.router.routes[:0] = [
        Route("/.well-known/oauth-protected-resource/mcp", resource),
        Route("/.well-known/mcp/server-card.json", card),
        Route("/icon.png", icon),
        *(authority.routes() if authority.origin == origin else []),
    ]
    return guard(app, authority, f"{origin}/.well-known/oauth-protected-resource/mcp")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("secrets")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--issuer", action="store_true")
    parser.add_argument("--uses", type=int, default=1000)
    options = parser.parse_args()
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    own, other = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    authority = Authority(other if options.apart else own, f"{own}/mcp", options)
    apps = [server(authority, own), Starlette(routes=authority.routes())]
    print(own, flush=True)
    served = [uvicorn.Server(uvicorn.Config(app, log_level="error")) for app in apps]
    await asyncio.gather(*(one.serve([at]) for one, at in zip(served, sockets, strict=True)))


if __name__ == "__main__":
    asyncio.run(main())
