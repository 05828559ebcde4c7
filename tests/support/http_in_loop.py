"""Requests to an HTTP application on separate connections, in the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from mcp_tape.transports.http.guard import Guard
from mcp_tape.transports.http.listen import Serving

if TYPE_CHECKING:
    from mcp_tape.transports.http.listen import Application


class InLoop:
    """An application that is served to one client after another."""

    def __init__(self, app: Application) -> None:
        self.failed: list[Exception] = []
        self._serving = Serving(app, Guard("127.0.0.1"), self.failed.append)

    async def ask(self, body: bytes, **headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection of a client that has posted a body."""
        ours, theirs = socket.socketpair()
        await self._serving.adopt(theirs, b"")
        reader, writer = await asyncio.open_connection(sock=ours)
        own = {"host": "127.0.0.1", "connection": "close", "content-length": str(len(body))} | headers
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in own.items())
        writer.write(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
        return reader, writer

    async def post(self, body: bytes, *, patience: float, **headers: str) -> bytes:
        """The answer to a body within a time limit, after which the client disconnects."""
        reader, writer = await self.ask(body, **headers)
        got = b""
        with contextlib.suppress(asyncio.TimeoutError, ConnectionError):
            while more := await asyncio.wait_for(reader.read(1 << 16), patience):
                got += more
        writer.close()
        return got

    async def end(self) -> None:
        """Raise the first failure."""
        await self._serving.end()
        if self.failed:
            raise self.failed[0]
