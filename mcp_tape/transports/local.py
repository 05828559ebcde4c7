"""Decks of this process for other processes: over a Unix socket that a bridge joins to stdio, and over HTTP."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..errors import TapeError
from ..system import calls
from .stdio import bridge, serve

if TYPE_CHECKING:
    import asyncio

    from ..replay.sends import Player
    from .http.listen import Application, Site

    Deckplace = Callable[[], contextlib.AbstractContextManager[Player]]

_PATIENCE = 5.0  # seconds for a thread to end


class Door:
    """A local address. Each connection gets its own player, in its own thread."""

    def __init__(self, players: Deckplace, say: Callable[[str], None]) -> None:
        self._players, self._say = players, say
        self._listener, self._address = calls.listen_locally()
        self._directory = os.path.dirname(self._address)
        self._inside: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._welcoming = self._start(self._welcome)

    @property
    def command(self) -> list[str]:
        """The command that connects its stdin and stdout to a player here."""
        return [sys.executable, "-I", "-S", bridge.__file__, self._address]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self._welcoming.join(_PATIENCE)  # no more clients
        for client in list(self._inside):
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(_PATIENCE)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _welcome(self) -> None:
        while True:
            try:
                client = calls.accept_locally(self._listener, self._address)
            except OSError:
                return  # closed
            self._inside.add(client)
            self._start(lambda client=client: self._play(client))  # type: ignore[misc]

    def _play(self, client: socket.socket) -> None:
        with client, contextlib.closing(client.dup()) as target:  # one to read, one to write: polled separately
            pid = client.recv(bridge.PID_BYTES, socket.MSG_WAITALL)
            try:
                with self._players() as player:
                    code = serve.serve(player, source=calls.descriptor_of(client), target=calls.descriptor_of(target))
            except TapeError as error:  # the client sees the same as with mcp-tape replay
                self._say(str(error))
                code = error.exit_code
            if code:
                with open(os.path.join(self._directory, str(int.from_bytes(pid, "big"))), "w") as file:
                    file.write(str(code))
            self._inside.discard(client)


@contextlib.contextmanager
def site_in_thread(
    site: Site, application: Callable[[], contextlib.AbstractContextManager[Application]]
) -> Iterator[str]:
    """Serve a site in a thread, which also makes the application. Yields the origin."""
    import asyncio  # only for HTTP

    ready = threading.Event()
    serving: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []
    failed: list[BaseException] = []

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.append((asyncio.get_running_loop(), task))
        with application() as app:
            await site.run(app, lambda origin: ready.set())

    def work() -> None:
        try:
            asyncio.run(run())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ready.wait()
    if failed:
        raise failed[0]
    try:
        yield site.origin
    finally:
        loop, task = serving[0]
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(task.cancel)
        thread.join(_PATIENCE)
