"""The official SDK's own transports, 1.x or 2.x, each as two streams."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from mcp.client import streamable_http
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client


@contextlib.asynccontextmanager
async def to_process(parameters: Any) -> AsyncIterator[tuple[Any, Any]]:
    """A stdio server, started."""
    async with stdio_client(parameters) as (reads, writes):
        yield reads, writes


@contextlib.asynccontextmanager
async def to_url(url: str) -> AsyncIterator[tuple[Any, Any]]:
    """A Streamable HTTP server."""
    sdk: Any = streamable_http
    connect = getattr(sdk, "streamable_http_client", None) or sdk.streamablehttp_client
    async with connect(url) as streams:
        yield streams[0], streams[1]


@contextlib.asynccontextmanager
async def to_old_url(url: str) -> AsyncIterator[tuple[Any, Any]]:
    """An HTTP+SSE server."""
    async with sse_client(url) as (reads, writes):
        yield reads, writes
