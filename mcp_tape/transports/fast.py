"""A tape as a transport of fastmcp's Client. Imports fastmcp, which only its users have."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastmcp.client.transports import ClientTransport
from mcp import ClientSession


class TapeTransport(ClientTransport):  # type: ignore[misc,unused-ignore]
    """Each connection has a player of its own."""

    def __init__(self, streams: Callable[[], AbstractAsyncContextManager[tuple[Any, Any]]]) -> None:
        self._streams = streams

    @contextlib.asynccontextmanager
    async def connect_session(self, *, transport_options: Any = None, **kwargs: Any) -> AsyncIterator[ClientSession]:
        make = transport_options.session_class if transport_options else ClientSession
        async with self._streams() as (reads, writes), make(reads, writes, **kwargs) as session:
            yield session
