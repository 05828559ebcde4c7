"""A server of one's own, for test_own_server.py and test_rules.py."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

PRICES = {"red shoes": 79, "blue hat": 25, "green coat": 149}
server = MCPServer("shop", version="1.0")


@server.tool()
def search(text: str) -> list[str]:
    """The articles whose name contains a text."""
    return [name for name in PRICES if text in name]


@server.tool()
def price(name: str) -> int:
    """What an article costs."""
    if name not in PRICES:
        raise ToolError(f"there is no {name}")
    return PRICES[name]


@server.tool()
def order(name: str, email: str) -> str:
    """Order an article."""
    return f"{PRICES[name]} to be paid for {name}; the bill goes to {email}"


if __name__ == "__main__":
    server.run("stdio")
