"""Asking a live server what it offers, in either era, without recording it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import ServerError
from ..redaction.diagnostics import Discreet, Rules
from ..transports.stdio import connect
from ..wire import jsontext, protocol
from ..wire.match import fits_redacted
from .surface import KINDS, Answer, Kind, Surface
from .versions import Version, listed

if TYPE_CHECKING:
    from ..transports.stdio.connect import Connection

_PAGES = 1_000  # of one list; a server that gives more goes round in circles
_CLIENT = {"name": "mcp-tape", "version": __version__}
_LEGACY = "2025-11-25"


class Survey:
    """One client that only asks. What it is answered is redacted, as a recording of it would be."""

    def __init__(self, connection: Connection, timeout: float, discreet: Discreet) -> None:
        self._connection = connection
        self._timeout = timeout
        self._discreet = discreet
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
        hidden = self._discreet.document(body)
        if not isinstance(hidden, dict):
            raise ServerError(f"the answer to {method} cannot be compared: its secrets could not be hidden")
        return Answer((0, self._asked), method, params, hidden)


def survey(connection: Connection, old: Version, title: str, timeout: float, discreet: Discreet) -> Version:
    """The version that a live server is, with its secrets hidden."""
    live = listed(list(Survey(connection, timeout, discreet).answers(old)), title)
    return live._replace(surface=_hidden_as(old.surface, live.surface))


def _hidden_as(old: Surface, live: Surface) -> Surface:
    """The live surface with the placeholders of the recorded one, in the places where these stand for its values.

    The recorder knew more than we do: other variables, rules of its user, what was said before.
    """
    lists = {
        method: found._replace(
            items={key: _placed(old.lists[method].items.get(key), it) for key, it in found.items.items()}
        )
        for method, found in live.lists.items()
    }
    instructions = _placed(old.instructions, live.instructions)
    return live._replace(
        instructions=instructions, capabilities=_placed(old.capabilities, live.capabilities), lists=lists
    )


def _placed(old: Any, live: Any) -> Any:
    if isinstance(old, dict) and isinstance(live, dict):
        return {key: _placed(old.get(key), value) for key, value in live.items()}
    if isinstance(old, list) and isinstance(live, list):
        return [_placed(*pair) for pair in zip_longest(old[: len(live)], live)]
    return old if isinstance(old, str) and fits_redacted(old, live) else live


def surveyed(
    old: Version,
    timeout: float,
    *,
    command: Sequence[str] = (),
    url: str = "",
    headers: Sequence[tuple[str, str]] = (),
    cacert: str | None = None,
    rules: Rules | None = None,
) -> Version:
    """The same for a server that is started, or is at a URL."""
    rules = (rules or Rules(environ=os.environ))._replace(headers=tuple(headers))
    discreet = Discreet(rules)
    try:
        if not url:
            with connect.Stdio(command, rules=rules) as connection:
                return survey(connection, old, discreet.command(command), timeout, discreet)
        from ..transports.http.connect import Http

        with Http(url, headers, cacert) as connection:
            return survey(connection, old, discreet.text(url), timeout, discreet)
    except ServerError as error:
        raise ServerError(discreet.text(str(error))) from None
