"""Asking a live server what it offers, in either era, without recording it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import __version__, jsontext, protocol
from .diff.surface import KINDS, Answer, Kind
from .diff.versions import Version, listed
from .errors import ServerError
from .transports import connect

if TYPE_CHECKING:
    from .transports.connect import Connection

_PAGES = 1_000  # of one list; a server that gives more goes round in circles
_CLIENT = {"name": "mcp-tape", "version": __version__}
_LEGACY = "2025-11-25"


class Survey:
    """One client that only asks."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._asked = 0
        self._meta: dict[str, Any] = {}

    def answers(self, old: Version) -> Iterator[Answer]:
        """What there is to compare with an old version, whose era is tried first."""
        greeting = self._greet(old)
        yield greeting
        capabilities = protocol.member(greeting.body.get("result"), "capabilities") or {}
        for kind in KINDS:
            wanted = kind.what == "tools" or old.surface.lists[kind.method].pages
            if wanted and kind.capability in capabilities:
                yield from self._pages(kind)

    def _greet(self, old: Version) -> Answer:
        modern = [version for version in old.surface.versions if protocol.is_modern({}, version)]
        if old.surface.offered is None and modern:
            self._meta = protocol.client_meta(modern[0], _CLIENT)
            answer = self._ask(protocol.DISCOVER, {})
            if "result" in answer.body:
                return answer
            self._meta = {}
        params = {"protocolVersion": old.surface.offered or _LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
        answer = self._ask(protocol.INITIALIZE, params)
        if "result" not in answer.body:
            raise ServerError(f"the server refused the handshake: {jsontext.compact(answer.body.get('error'))}")
        told = {"jsonrpc": "2.0", "method": protocol.INITIALIZED}
        self._connection.send(jsontext.dumps(told).encode())
        return answer

    def _pages(self, kind: Kind) -> Iterator[Answer]:
        cursor = None
        for _ in range(_PAGES):
            answer = self._ask(kind.method, {} if cursor is None else {"cursor": cursor})
            yield answer
            cursor = protocol.member(answer.body.get("result"), "nextCursor")
            if cursor in (None, ""):
                return

    def _ask(self, method: str, params: dict[str, Any]) -> Answer:
        self._asked += 1
        sent = params | self._meta
        body = connect.ask(self._connection, method, sent, self._asked, self._timeout)
        return Answer((0, self._asked), method, params, body)


def survey(connection: Connection, old: Version, title: str, timeout: float) -> Version:
    """The version that a live server is."""
    return listed(list(Survey(connection, timeout).answers(old)), title)


def surveyed(
    old: Version,
    timeout: float,
    *,
    command: Sequence[str] = (),
    url: str = "",
    headers: Sequence[tuple[str, str]] = (),
    cacert: str | None = None,
) -> Version:
    """The same for a server that is started, or is at a URL."""
    if not url:
        with connect.Stdio(command) as connection:
            return survey(connection, old, " ".join(command), timeout)
    from .transports.connect_http import Http

    with Http(url, headers, cacert) as connection:
        return survey(connection, old, url, timeout)
