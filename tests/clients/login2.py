"""A client that logs in, on the Python SDK 2.x: python login2.py URL [TOOL]...

It calls the tools and prints their answers; before the tools after `later`, its token expires. Its browser follows
redirects, as no button must be pressed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from urllib.parse import parse_qsl, urlsplit

import httpx2
from http_session import NO_TLS
from mcp import Client
from mcp.client import session
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

REDIRECT = "http://127.0.0.1:9/callback"
session.DISCOVER_TIMEOUT_SECONDS = 60  # it includes the login, and the client tries another protocol after it


def keep(*secrets: str | None) -> None:
    """Add secrets to the file that LOGIN_SECRETS names, for tests to search for."""
    if file := os.environ.get("LOGIN_SECRETS"):
        with open(file, "a") as out:
            out.writelines(f"{secret}\n" for secret in secrets if secret)


class Memory:
    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        keep(tokens.access_token, tokens.refresh_token)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info
        keep(client_info.client_secret)


class Browser:
    said: dict[str, str]

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient(verify=NO_TLS) as http:
            while not url.startswith(REDIRECT):
                answer = await http.get(url)
                if not answer.is_redirect:
                    sys.exit(f"the page says {answer.status_code}: {answer.text}")
                url = str(httpx2.URL(url).join(answer.headers["location"]))
        self.said = dict(parse_qsl(urlsplit(url).query))
        keep(self.said["code"])
        print("logged in")

    async def result(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=self.said["code"], state=self.said.get("state"), iss=self.said.get("iss"))


async def main(url: str, *tools: str) -> None:
    about = OAuthClientMetadata(
        client_name="login2", redirect_uris=[REDIRECT], grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )  # fmt: skip
    browser = Browser()
    auth = OAuthClientProvider(url, about, Memory(), browser.open, browser.result)
    async with (
        httpx2.AsyncClient(verify=NO_TLS, auth=auth, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        for tool in tools:
            if tool == "later":
                auth.context.token_expiry_time = 1  # so the client asks for another token
                continue
            result = await client.call_tool(tool, {})
            print(tool, result.content[0].text)


asyncio.run(main(*sys.argv[1:]))
