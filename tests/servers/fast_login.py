"""A server of fastmcp that needs a login, with fastmcp's own authorization server: python fast_login.py"""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import ClientRegistrationOptions


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    options = ClientRegistrationOptions(enabled=True, valid_scopes=["read"], default_scopes=["read"])
    login = InMemoryOAuthProvider(base_url=origin, client_registration_options=options, required_scopes=["read"])
    server = FastMCP("fast", auth=login)

    @server.tool
    def whoami() -> str:
        return "ada"

    print(origin, flush=True)
    await uvicorn.Server(uvicorn.Config(server.http_app(), log_level="error")).serve([listener])


asyncio.run(main())
