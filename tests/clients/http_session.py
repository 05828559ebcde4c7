"""The common part of the HTTP clients: a URL instead of a command, and the callbacks of each call.

Knows no SDK. A URL that ends in `/sse` is the old HTTP+SSE, every other one Streamable HTTP.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from scripted_session import WITHOUT, Do, Seen, Step

TIMEOUT = 120.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loading other certificates takes as long as some sessions


def is_url(target: str) -> bool:
    return target.startswith("http")


def is_old(url: str) -> bool:
    return url.endswith("/sse")


class Stream:
    """The stream for unsolicited server messages. A server drops these until the stream is open."""

    def __init__(self, target: str) -> None:
        self._expected = is_url(target) and not is_old(target) and "stream" not in WITHOUT
        self._opened = asyncio.Event()
        # In the form that both HTTP libraries accept.
        self.hooks = {"response": [self._answered]}

    async def _answered(self, response: Any) -> None:
        if response.request.method == "GET":
            self._opened.set()

    async def opened(self, modern: bool) -> None:
        """Wait until it is open, if there is one besides the streams of requests."""
        if self._expected and not modern:
            await asyncio.wait_for(self._opened.wait(), TIMEOUT)


class Heard(Seen):
    """Seen, with the callbacks that came before each result, in order, for steps with `hears`."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[tuple[list[str], list[Any]]] = []

    def asked(self, what: str, params: Any) -> None:
        super().asked(what, params)
        self._hear(what, params)

    def notified(self, notification: Any) -> None:
        super().notified(notification)
        self._hear(notification["method"].removeprefix("notifications/"), notification.get("params"))

    def _hear(self, what: str, params: Any) -> None:
        # Progress comes through the callback of its own call.
        for hears, heard in self._open:
            if what in hears and what != "progress":
                heard.append([what, params])

    async def play(self, do: Do, tools: list[str], modern: bool) -> None:
        async def listening(step: Step, report: Callable[..., Awaitable[None]]) -> Any:
            if "hears" not in step:
                return await do(step, report)
            heard: list[Any] = []
            self._open.append((step["hears"], heard))

            async def hear(*progress: Any) -> None:
                heard.append(["progress", list(progress)])
                await report(*progress)

            try:
                return await do(step, hear)
            finally:
                step["heard"] = list(heard)  # a copy: later callbacks do not count

        await super().play(listening, tools, modern)
