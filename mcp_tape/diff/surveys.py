"""Surveys: asks a live server for its lists, in either era. Records nothing and calls no tool.

A server may give different lists to different clients. So a comparison asks with the capabilities of the recorded
client, or of each client of a lock; a new lock asks with all capabilities and, if the answers depend on them, with each
one alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, NamedTuple

from .. import __version__
from ..compare import lock
from ..compare.surface import Surface, SurfaceAnswer
from ..compare.versions import Version, listed_version
from ..errors import ServerError
from ..redaction.diagnostics import DiagnosticRedactor, Rules
from ..transports.process import AS_WE_ARE, Around
from ..transports.stdio import connect
from ..wire import apps, jsontext, protocol
from ..wire.match import fits_redacted

# Client capabilities that a server's lists may depend on, by the names used on the command line.
CAPABILITIES: dict[str, dict[str, Any]] = {
    **{name: {name: {}} for name in ("elicitation", "roots", "sampling")},
    "ui": {"extensions": {apps.EXTENSION: {"mimeTypes": [apps.PAGE_TYPE]}}},
}
_PAGES = 1_000  # of one list; a server with more is probably repeating itself
_CLIENT = {"name": "mcp-tape", "version": __version__}
_Capabilities = dict[str, Any]


class LiveTarget(NamedTuple):
    """A live server to ask: a command to start, or a URL. `capabilities`: the asking client's, by name; None: the same
    as for the other side."""

    command: tuple[str, ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    cacert: str | None = None
    timeout: float = 30.0
    around: Around = AS_WE_ARE
    capabilities: tuple[str, ...] | None = None
    name: str = ""  # for reports


class Greeting(NamedTuple):
    """A client's greeting: its capabilities, the version that it offers as a legacy client (`offered`), and the version
    of its first request as a modern one (`modern`)."""

    capabilities: _Capabilities
    offered: str = protocol.LAST_LEGACY_VERSION
    modern: str | None = None


def capabilities_of(names: Sequence[str]) -> _Capabilities:
    """The capabilities with these names, in the form that a client declares."""
    return {key: value for name in sorted(names) for key, value in CAPABILITIES[name].items()}


def names_of(capabilities: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names of the capabilities that a client declares; all if they are unknown."""
    if capabilities is None:
        return tuple(CAPABILITIES)
    declared = {*capabilities, *(protocol.member(capabilities, "extensions") or ())}
    return tuple(name for name in CAPABILITIES if (apps.EXTENSION if name == "ui" else name) in declared)


def survey_like(old: Version, live: LiveTarget, rules: Rules) -> Version:
    """Ask a server in the same way as the old version, for each of its clients. Hides secrets as in the old one."""
    if live.capabilities is not None:
        wanted = jsontext.canonical_bytes(capabilities_of(live.capabilities))
        like = next((one for one in (old, *old.others) if jsontext.canonical_bytes(one.surface.client) == wanted), old)
        return _asked_like(like, live, rules, capabilities_of(live.capabilities))
    found = [_asked_like(one, live, rules, dict(one.surface.client or {})) for one in (old, *old.others)]
    return found[0]._replace(others=tuple(found[1:]))


def survey(live: LiveTarget, rules: Rules) -> tuple[Version, str]:
    """Ask an unknown server, with each capability that matters. Returns its version and a remark."""
    names = live.capabilities or ()
    whole = _ask(live, Greeting(capabilities_of(names)), rules)
    if not names or lock.is_same((bare := _ask(live, Greeting({}), rules)).surface, whole.surface):
        return whole, ""
    if not lock.is_same(_ask(live, Greeting(capabilities_of(names)), rules).surface, whole.surface):
        return whole, "it answers the same client differently each time: --check will fail with this lock"
    others = [bare]
    for name in names if len(names) > 1 else ():
        one = _ask(live, Greeting(capabilities_of([name])), rules)
        if not any(lock.is_same(one.surface, other.surface) for other in (bare, whole)):
            others.append(one)
    return whole._replace(others=tuple(others)), ""


def _asked_like(old: Version, live: LiveTarget, rules: Rules, capabilities: _Capabilities) -> Version:
    offered, versions = old.surface.offered, old.surface.versions
    modern = next((version for version in versions if protocol.is_modern({}, version)), None)
    greeting = Greeting(capabilities, offered or protocol.LAST_LEGACY_VERSION, None if offered else modern)
    found = _ask(live, greeting, rules)
    return found._replace(surface=_hide_as(old.surface, found.surface))


def _ask(live: LiveTarget, greeting: Greeting, rules: Rules) -> Version:
    """Start a server, or connect to one at a URL, and return its version."""
    rules = rules._replace(headers=live.headers)
    discreet = DiagnosticRedactor(rules)
    title = discreet.text(live.url) if live.url else discreet.command(live.command)
    try:
        with _connection(live, rules) as connection:
            try:
                return listed_version(list(Survey(connection, live.timeout, discreet, greeting).answers()), title)
            except ServerError as error:
                if live.url:
                    raise
                hint = "Run it alone to see why, or give it longer with --timeout"
                raise ServerError(f"{error}\n{hint}: {title}") from None
    except ServerError as error:
        raise ServerError(discreet.text(f"{live.name}: {error}" if live.name else str(error))) from None


@contextmanager
def _connection(live: LiveTarget, rules: Rules) -> Iterator[connect.Connection]:
    if live.command:
        with connect.StdioConnection(live.command, rules=rules, around=live.around) as connection:
            yield connection
        return
    from ..transports.http.addresses import is_sse_url
    from ..transports.http.connect import HttpConnection

    with HttpConnection(live.url, live.headers, live.cacert, sse=is_sse_url(live.url)) as remote:
        yield remote


class Survey:
    """A client that only asks for lists. Answers are redacted, as in a recording."""

    def __init__(
        self, connection: connect.Connection, timeout: float, discreet: DiagnosticRedactor, greeting: Greeting
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._discreet = discreet
        self._greeting = greeting
        self._asked = 0
        self._meta: dict[str, Any] = {}

    def answers(self) -> Iterator[SurfaceAnswer]:
        """Ask for everything that the server declares."""
        answer = self._greet()
        yield answer
        capabilities = protocol.member(answer.body.get("result"), "capabilities") or {}
        for kind in protocol.KINDS:
            if protocol.declares(capabilities, kind):
                yield from self._pages(kind)

    def _greet(self) -> SurfaceAnswer:
        """Greet the server in the requested era, else in the other one."""
        modern = self._greeting.modern
        if modern and "result" in (answer := self._discover(modern)).body:
            return answer
        capabilities, offered = self._greeting.capabilities, self._greeting.offered
        params = {"protocolVersion": offered, "capabilities": capabilities, "clientInfo": _CLIENT}
        answer = refusal = self._ask(protocol.INITIALIZE, params)
        if "result" not in answer.body and not modern:
            answer = self._discover(protocol.MODERN_VERSION)
        if "result" not in answer.body:
            why = jsontext.compact_text(refusal.body.get("error"))
            raise ServerError(f"the server refused the handshake: {why}")
        if not self._meta:
            connect.notify(self._connection, protocol.INITIALIZED)
        return answer

    def _discover(self, version: str) -> SurfaceAnswer:
        self._meta = protocol.client_meta(version, _CLIENT, self._greeting.capabilities)
        answer = self._ask(protocol.DISCOVER, {})
        if "result" not in answer.body:
            self._meta = {}
        return answer

    def _pages(self, kind: protocol.Kind) -> Iterator[SurfaceAnswer]:
        cursor = None
        for _ in range(_PAGES):
            answer = self._ask(kind.method, {} if cursor is None else {"cursor": cursor})
            yield answer
            cursor = protocol.member(answer.body.get("result"), "nextCursor")
            if cursor in (None, ""):
                return

    def _ask(self, method: str, params: dict[str, Any]) -> SurfaceAnswer:
        self._asked += 1
        whole = params | self._meta
        declared = self._greeting.capabilities
        body = connect.ask(self._connection, method, whole, self._asked, self._timeout, declared)
        hidden = self._discreet.document(body)
        if not isinstance(hidden, dict):
            raise ServerError(f"the answer to {method} cannot be compared: its secrets could not be hidden")
        return SurfaceAnswer((0, self._asked), method, whole, hidden)


def _hide_as(old: Surface, live: Surface) -> Surface:
    """Replace values of the live surface by the placeholders that the recorded surface has in their place.

    The recorder knew more secrets: other variables, its user's rules, earlier messages.
    """
    instructions = _put_placeholders(old.instructions, live.instructions)
    capabilities = _put_placeholders(old.capabilities, live.capabilities)
    items = {method: _put_placeholders(old.lists[method].items, found.items) for method, found in live.lists.items()}
    lists = {method: found._replace(items=items[method]) for method, found in live.lists.items()}
    info, meta = (
        _put_placeholders(dict(then), dict(now)) for then, now in ((old.info, live.info), (old.meta, live.meta))
    )
    return live._replace(instructions=instructions, capabilities=capabilities, lists=lists, info=info, meta=meta)


def _put_placeholders(old: Any, live: Any) -> Any:
    if isinstance(old, dict) and isinstance(live, dict):
        return {key: _put_placeholders(old.get(key), value) for key, value in live.items()}
    if isinstance(old, list) and isinstance(live, list):
        return [_put_placeholders(*pair) for pair in zip_longest(old[: len(live)], live)]
    return old if isinstance(old, str) and fits_redacted(old, live) else live
