"""The surface of a server: its name and versions, its capabilities, and the lists of its offer.

Read from answers in order, recorded or live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..wire import jsontext, protocol

LISTS = frozenset(kind.method for kind in protocol.KINDS)
GREETINGS = (protocol.INITIALIZE, protocol.DISCOVER)
SURFACE = LISTS | set(GREETINGS)
NO_METHOD = "the server has no such method"


class SurfaceAnswer(NamedTuple):
    """A request about the surface, and its answer. `place` is session and seq."""

    place: tuple[int, int]
    method: str
    params: Any
    body: Any  # with a result or an error


class ListWalk(NamedTuple):
    """A list, read page by page. `why`: the reason if it was not read to its end."""

    items: tuple[Any, ...]
    pages: int
    first: tuple[int, int]
    last: tuple[int, int]
    why: str | None


class SurfaceList(NamedTuple):
    """The items of a list by key, in order. `why`: the reason if they are unknown."""

    items: dict[str, dict[str, Any]]
    pages: int = 0
    why: str | None = None
    again: Mapping[str, list[Any]] = {}  # items with the key of an earlier one
    in_order: bool = True  # in the server's own order


class Surface(NamedTuple):
    """Everything that a server declares. `offered`: the protocol version that a legacy client asked for. `client`: the
    capabilities of the client that asked; None if unknown."""

    name: str | None
    version: str | None
    versions: tuple[str, ...]
    offered: str | None
    capabilities: dict[str, Any] | None
    instructions: str | None
    lists: dict[str, SurfaceList]  # by the method
    unsteady: bool = False  # the tools changed within a session without a notification
    info: Mapping[str, Any] = {}  # the server's other facts about itself
    meta: Mapping[str, Any] = {}  # its `_meta`
    client: Mapping[str, Any] | None = None

    @property
    def greeting(self) -> dict[str, Any]:
        """The server's facts about itself as a whole, not about a listed item."""
        info = {"name": self.name, "version": self.version, **self.info}
        said = {"serverInfo": info, "instructions": self.instructions, "capabilities": self.capabilities}
        return said | {"supportedVersions": list(self.versions), "_meta": dict(self.meta)}

    def has_none(self, kind: protocol.Kind) -> bool:
        """Return whether a server certainly offered nothing of a kind: it did not declare it, or refused the list."""
        listed = self.lists[kind.method]
        declared = self.capabilities is None or protocol.declares(self.capabilities, kind)
        return listed.why == NO_METHOD or (not declared and not listed.pages)


def read_surface(answers: Iterable[SurfaceAnswer], notified: Callable[[str], Sequence[tuple[int, int]]]) -> Surface:
    """Read the surface from answers. `notified` returns the places of a notification."""
    answers = list(answers)
    greeting = _greeting(answers)
    result = protocol.member(greeting.body, "result") if greeting else None
    info = _info(result)
    capabilities = protocol.member(result, "capabilities")
    capabilities = capabilities if isinstance(capabilities, dict) else ({} if greeting else None)
    found = {kind.method: walks(kind, answers) for kind in protocol.KINDS}
    return Surface(
        _text(info.get("name")),
        _text(info.get("version")),
        _versions(result),
        _text(protocol.member(greeting.params, "protocolVersion")) if greeting else None,
        capabilities,
        _text(protocol.member(result, "instructions")),
        {kind.method: _newest_list(kind, found[kind.method], capabilities) for kind in protocol.KINDS},
        _is_unsteady(found[protocol.TOOLS], notified(protocol.TOOLS_CHANGED)),
        {member: value for member, value in info.items() if member not in ("name", "version")},
        protocol.own_meta(result),
        protocol.client_capabilities(greeting.method, greeting.params) if greeting else None,
    )


def _greeting(answers: list[SurfaceAnswer]) -> SurfaceAnswer | None:
    """The answer to `initialize`, or else to `server/discover`."""
    given = [answer for answer in answers if isinstance(protocol.member(answer.body, "result"), dict)]
    return next((answer for method in GREETINGS for answer in given if answer.method == method), None)


def _info(result: Any) -> dict[str, Any]:
    meta = protocol.member(result, "_meta")
    info = protocol.member(result, "serverInfo") or protocol.member(meta, protocol.META_SERVER)
    return info if isinstance(info, dict) else {}


def _versions(result: Any) -> tuple[str, ...]:
    many, one = protocol.member(result, "supportedVersions"), protocol.member(result, "protocolVersion")
    found = many if isinstance(many, list) else [one]
    return tuple(version for version in found if isinstance(version, str))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def walks(kind: protocol.Kind, answers: Iterable[SurfaceAnswer]) -> list[ListWalk]:
    """Every walk of a list, with its pages joined:
    https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination
    """
    found: list[ListWalk] = []
    for answer in answers:
        if answer.method != kind.method:
            continue
        result = protocol.member(answer.body, "result")
        items = protocol.member(result, kind.member)
        why = None if isinstance(items, list) else _failure(answer.body) if result is None else "it is not a list"
        if protocol.member(result, "nextCursor") not in (None, ""):
            why = "it was not read to its end"
        page = ListWalk(tuple(items if isinstance(items, list) else ()), 1, answer.place, answer.place, why)
        if protocol.member(answer.params, "cursor") is None:
            found.append(page)
        elif found:
            before = found[-1]
            found[-1] = ListWalk(before.items + page.items, before.pages + 1, before.first, page.last, why)
    return found


def _failure(body: Any) -> str:
    code = protocol.member(protocol.member(body, "error"), "code")
    return NO_METHOD if code == protocol.METHOD_NOT_FOUND else "the answer was an error"


def unrequested_reason(kind: protocol.Kind) -> str:
    """The reason for a list that was never requested."""
    return f"there is no {kind.method}"


def _newest_list(kind: protocol.Kind, walks: list[ListWalk], capabilities: dict[str, Any] | None) -> SurfaceList:
    """The newest complete walk of a list."""
    whole = [walk for walk in walks if walk.why is None]
    if not whole:
        if capabilities is not None and not protocol.declares(capabilities, kind):
            return SurfaceList({})  # known to be empty
        return SurfaceList({}, why=walks[-1].why if walks else unrequested_reason(kind))
    items: dict[str, list[Any]] = {}
    for item in whole[-1].items:
        key = protocol.member(item, kind.key)
        if isinstance(key, str):
            items.setdefault(key, []).append(item)
    again = {key: found[1:] for key, found in items.items() if len(found) > 1}
    return SurfaceList({key: found[0] for key, found in items.items()}, whole[-1].pages, again=again)


def _is_unsteady(walks: list[ListWalk], notified: Sequence[tuple[int, int]]) -> bool:
    """True if a list was read twice in a session, and differs without a notification in between."""
    return any(
        one.last[0] == other.first[0]  # in one session
        and not any(one.first < place < other.last for place in notified)
        and jsontext.canonical_bytes(list(one.items)) != jsontext.canonical_bytes(list(other.items))
        for one, other in pairwise(walk for walk in walks if walk.why is None)
    )
