"""The live server of the test suites: `python suites_server.py`, or with `http` at a URL, which it prints."""

from __future__ import annotations

import socket
import sys

from mcp.server import MCPServer

server = MCPServer("suite", version="1.0")


@server.tool()
def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}."


def serve() -> None:
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    hosts = TransportSecuritySettings(allowed_hosts=["127.0.0.1", "127.0.0.1:*"])  # mcp-recorder names no port
    app = server.streamable_http_app(transport_security=hosts)
    # With its protocol named: only then asyncio turns off Nagle's delay.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["http"] else server.run("stdio")
