"""A client for the official conformance suite, on the Python SDK 2.x: python conformance.py [--record CASSETTE] URL

It uses everything that the server offers, and prints the results as JSON. The suite's environment variables select
the revision, and sometimes the calls to make. With --record it goes through `mcp-tape record`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import mcp_types as types
from http_session import NO_TLS, Stream
from mcp import Client, MCPError
from mcp.client import session
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import ValidationError

TIMEOUT = 120.0
REDIRECT, BASIC = "http://127.0.0.1:9/callback", "client_secret_basic"
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}, "valid_tool": {"region": "here"}}
ONLY_LISTED = {"lookup_user", "json_schema_2020_12_tool"}  # the suite's servers do not answer calls of these


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def elicit(_: Any, params: Any) -> types.ElicitResult:
    """Accept with the defaults; confirm fields without one."""
    fields = plain(params)["requestedSchema"]["properties"]
    return types.ElicitResult(
        action="accept", content={name: field.get("default", True) for name, field in fields.items()}
    )


async def sample(_: Any, params: Any) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text=f"{len(params.messages)} heard")
    return types.CreateMessageResult(role="assistant", content=said, model="none")


async def list_roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[])


def calls(tools: list[types.Tool]) -> list[tuple[str, dict[str, Any]]]:
    """The calls to make: those that the suite names, or one of every tool."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    if "toolCalls" in context:
        return [(call["name"], call["arguments"]) for call in context["toolCalls"]]
    echoed = {tool.name: tool.input_schema for tool in tools}.get("json_schema_2020_12_tool")
    given = ARGUMENTS | {"json_schema_echo": {"schema": echoed}}
    return [(tool.name, given.get(tool.name, {})) for tool in tools if tool.name not in ONLY_LISTED]


async def call(client: Client, name: str, given: dict[str, Any]) -> Any:
    try:
        return plain(await client.call_tool(name, given))
    except (MCPError, ValidationError) as error:  # this SDK rejects a result without a resultType
        return type(error).__name__


async def use(client: Client) -> dict[str, Any]:
    """Use everything that the server offers, once."""
    tools = await client.list_tools()
    did: dict[str, Any] = {"protocol": client.protocol_version, "tools": plain(tools)["tools"]}
    did["context"] = os.environ.get("MCP_CONFORMANCE_CONTEXT")
    did["called"] = [[name, await call(client, name, given)] for name, given in calls(tools.tools)]
    offered = client.server_capabilities
    if offered.resources is not None:
        resources = (await client.list_resources()).resources
        did["read"] = [[resource.uri, plain(await client.read_resource(resource.uri))] for resource in resources]
    if offered.prompts is not None:
        prompts = (await client.list_prompts()).prompts
        did["prompted"] = [[prompt.name, plain(await client.get_prompt(prompt.name))] for prompt in prompts]
    return did


class Memory:
    """Tokens and the client's registration, until the client ends."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Follows a login from page to page, up to where the client would listen."""

    def __init__(self) -> None:
        self.came_back: dict[str, str] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient(verify=NO_TLS, timeout=TIMEOUT) as http:
            while not url.startswith(REDIRECT):
                url = (await http.get(url)).headers["location"]
        self.came_back = dict(parse_qsl(urlsplit(url).query))

    async def result(self) -> AuthorizationCodeResult:
        said = self.came_back
        return AuthorizationCodeResult(code=said["code"], state=said.get("state"), iss=said.get("iss"))


def login(url: str, scenario: str) -> httpx2.Auth:
    """The client's part of a login, as the scenario requires."""
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    own = {name: given[name] for name in ("client_id", "client_secret") if name in given}
    if scenario == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(url, Memory(None), **own)
    about = OAuthClientMetadata(
        client_name="conformance", redirect_uris=[REDIRECT], grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )  # fmt: skip
    known = None
    if own:
        known = OAuthClientInformationFull(**about.model_dump() | own | {"token_endpoint_auth_method": BASIC})
    browser = Browser()
    document = "https://conformance-test.local/client-metadata.json" if scenario == "auth/basic-cimd" else None
    return OAuthClientProvider(url, about, Memory(known), browser.open, browser.result, client_metadata_url=document)


async def log_in_and_use(url: str, scenario: str, mode: str) -> dict[str, Any]:
    """Use a server that needs a login; or return how the client refused to."""
    session.DISCOVER_TIMEOUT_SECONDS = TIMEOUT  # it includes the login, and the client tries another protocol after it
    async with httpx2.AsyncClient(verify=NO_TLS, timeout=TIMEOUT, auth=login(url, scenario)) as http:
        try:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                return await use(client)
        except Exception as error:
            refused = sorted({type(inner).__name__ for inner in leaves(error)})
            return {"refused": refused, "context": os.environ.get("MCP_CONFORMANCE_CONTEXT")}


def leaves(error: BaseException) -> list[BaseException]:
    inner = getattr(error, "exceptions", None)
    return [error] if inner is None else [leaf for each in inner for leaf in leaves(each)]


async def run(url: str) -> dict[str, Any]:
    modern = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "") >= "2026"
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if scenario.startswith("auth/"):
        return await log_in_and_use(url, scenario, "auto" if modern else "legacy")
    callbacks = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": list_roots}
    if modern:
        async with Client(url, mode="auto", read_timeout_seconds=TIMEOUT, **callbacks) as client:
            return await use(client)
    stream = Stream(url)
    http = httpx2.AsyncClient(verify=NO_TLS, timeout=TIMEOUT, event_hooks=stream.hooks)
    server = streamable_http_client(url, http_client=http)
    async with Client(server, mode="legacy", read_timeout_seconds=TIMEOUT, **callbacks) as client:
        with contextlib.suppress(asyncio.TimeoutError):  # a server without sessions has no such stream
            await asyncio.wait_for(stream.opened(modern), 3)
        return await use(client)


@contextlib.contextmanager
def recorded(url: str, cassette: str) -> Iterator[str]:
    """The URL of the same server through the recording proxy."""
    command = ["mcp-tape", "record", "--url", url, "-o", cassette]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout
        try:
            yield proxy.stdout.readline().strip()
            proxy.terminate()
            if proxy.wait(TIMEOUT):
                sys.exit(f"mcp-tape record ended with {proxy.returncode}")
        finally:
            proxy.kill()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", metavar="CASSETTE")
    parser.add_argument("url")
    options = parser.parse_args()
    with recorded(options.url, options.record) if options.record else contextlib.nullcontext(options.url) as url:
        did = asyncio.run(run(url))
    print(json.dumps(did, sort_keys=True))  # printed last, so that a failure prints nothing


if __name__ == "__main__":
    main()
