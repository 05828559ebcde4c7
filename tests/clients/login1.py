"""A client that logs in, on the Python SDK 1.x: python login1.py URL [TOOL]...; see login2.py."""

from __future__ import annotations

import asyncio
import os
import sys
from urllib.parse import parse_qsl, urlsplit

import httpx
from http_session import NO_TLS
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

REDIRECT = "http://127.0.0.1:9/callback"


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
        async with httpx.AsyncClient(verify=NO_TLS) as http:
            while not url.startswith(REDIRECT):
                answer = await http.get(url)
                if not answer.is_redirect:
                    sys.exit(f"the page says {answer.status_code}: {answer.text}")
                url = str(httpx.URL(url).join(answer.headers["location"]))
        self.said = dict(parse_qsl(urlsplit(url).query))
        keep(self.said["code"])
        print("logged in")

    async def result(self) -> tuple[str, str | None]:
        return self.said["code"], self.said.get("state")


async def main(url: str, *tools: str) -> None:
    about = OAuthClientMetadata(
        client_name="login1", redirect_uris=[REDIRECT], grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )  # fmt: skip
    browser = Browser()
    auth = OAuthClientProvider(url, about, Memory(), browser.open, browser.result)
    async with (
        httpx.AsyncClient(verify=NO_TLS, auth=auth, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (reads, writes, _),
        ClientSession(reads, writes) as session,
    ):
        await session.initialize()
        for tool in tools:
            if tool == "later":
                auth.context.token_expiry_time = 1  # so the client asks for another token
                continue
            result = await session.call_tool(tool, {})
            print(tool, result.content[0].text)


asyncio.run(main(*sys.argv[1:]))
