"""Locks: the surfaces of servers, without calls, as text to commit and compare with later.

One JSON document, laid out for review: a fact a line, lists sorted by name and objects by key, no times. The same
surface gives the same bytes. A server that offers other things to other clients has an entry for each of them, which
holds only the differences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import groupby
from typing import Any

from ..errors import CassetteError, replace_control_characters
from ..wire import jsontext, protocol
from ..wire.jsonpath import read_path
from ..wire.jsontext import Path
from .changes import Change, Subject
from .surface import Surface, SurfaceList
from .versions import Version

MARK = "mcp-tape lock"
FORMAT = 1  # a reader refuses newer formats
HEAD = 100  # the mark is within the first bytes
_SERVERS, _OTHERS = "servers", "otherClients"
_WITHOUT, _INSTEAD = "without", "instead"
_LISTS = {kind.member: kind for kind in protocol.KINDS}
_OF_SUBJECT = {kind.subject: kind for kind in protocol.KINDS}
_OF_SERVER = {"serverInfo": "server", "supportedVersions": "protocol"}  # members with another name in a surface
_UNCALLED = "a lock holds a server's lists, and no calls"


def dump(servers: Mapping[str, Version]) -> str:
    """Write the surfaces of servers, by name."""
    document = {MARK: FORMAT, _SERVERS: {name: _entry(servers[name]) for name in sorted(servers)}}
    text = json.dumps(_order_keys(document), indent=2, ensure_ascii=False)
    return "\n".join(replace_control_characters(line, jsontext.escape_letter) for line in text.split("\n")) + "\n"


def is_same(one: Surface, other: Surface) -> bool:
    """Return whether two surfaces give the same lock, whatever the capabilities of their clients."""
    return bool(_members(one._replace(client=None)) == _members(other._replace(client=None)))


def is_lock(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a lock."""
    return f'"{MARK}"'.encode() in head[:HEAD]


class Lock:
    """A lock file. CassetteError explains what is wrong with it."""

    def __init__(self, data: bytes, path: str) -> None:
        self.path = path
        self._text = data.decode("utf-8", "replace")
        try:
            document = jsontext.loads(data.decode())
        except (ValueError, RecursionError) as error:
            why = f"this lock is not JSON ({error}); take it from git again"
            raise CassetteError(f"cannot read {path}: {why}") from None
        number, servers = (protocol.member(document, name) for name in (MARK, _SERVERS))
        if type(number) is not int or number > FORMAT:
            raise CassetteError(f"{path} is a lock of a newer mcp-tape; upgrade with: pip install -U mcp-tape")
        if not isinstance(servers, dict) or not servers or not all(isinstance(one, dict) for one in servers.values()):
            raise CassetteError(f"{path} is a lock without servers; make it again with: mcp-tape lock -o {path}")
        self._servers: dict[str, dict[str, Any]] = servers

    @property
    def names(self) -> list[str]:
        return list(self._servers)

    def version(self, name: str | None = None) -> Version:
        """The version of a server; without a name, of the only one."""
        name = self.resolve_name(name)
        entry = self._servers[name]
        others = entry.get(_OTHERS)
        versions = [_version(entry, f"{self.path}#{name}")]
        for other in others if isinstance(others, list) else ():
            if isinstance(other, dict):
                versions.append(_version(_apply_difference(entry, other), f"{self.path}#{name}"))
        return versions[0]._replace(others=tuple(versions[1:]))

    def resolve_name(self, name: str | None) -> str:
        """The name of a server that is there; without one, of the only server."""
        if name is None and len(self._servers) == 1:
            return self.names[0]
        if name in self._servers:
            return str(name)
        listed = ", ".join(self.names)
        if name is None:
            raise CassetteError(f"{self.path} holds several servers: {listed}; say which with {self.path}#NAME")
        raise CassetteError(f"{self.path} has no server {name}; it has: {listed}")

    def line(self, name: str, change: Change) -> int:
        """The line of a changed thing; of the nearest thing around it if it is not there."""
        path = (_SERVERS, name, *self._place(name, change.subject, read_path(change.path)))
        while (at := self._starts.get(path)) is None and path:
            path = path[:-1]
        return self._text.count("\n", 0, at or 0) + 1

    def _place(self, name: str, subject: Subject, path: Path) -> Path:
        kind = _OF_SUBJECT.get(subject.kind)
        if kind is None:
            return (_OF_SERVER.get(str(path[0]), path[0]), *path[1:]) if path else ()
        listed = self._servers[name].get(kind.member)
        for at, item in enumerate(listed if isinstance(listed, list) else ()):
            if protocol.member(item, kind.key) == subject.name:
                return (kind.member, at, *path)
        return (kind.member,)

    @cached_property
    def _starts(self) -> dict[Path, int]:
        """The place of each value in the text."""
        return {path: start for path, start, _ in jsontext.values(self._text, jsontext.DEEPEST)}


# -- writing


def _entry(version: Version) -> dict[str, Any]:
    entry = _members(version.surface)
    others = [_difference(entry, _members(other.surface)) for other in version.others]
    return entry | ({_OTHERS: sorted(others, key=_rank_of_client)} if others else {})


def _rank_of_client(other: dict[str, Any]) -> tuple[int, bytes]:
    capabilities = other["client"]["capabilities"]
    return len(capabilities or ()), jsontext.canonical_bytes(capabilities)


def _members(surface: Surface) -> dict[str, Any]:
    unknown = {kind.what: listed.why for kind in protocol.KINDS if (listed := surface.lists[kind.method]).why}
    return {
        "server": {"name": surface.name, "version": surface.version, **surface.info},
        "client": {"capabilities": surface.client},
        "protocol": {"asked": surface.offered, "answered": list(surface.versions)},
        "capabilities": surface.capabilities,
        "instructions": surface.instructions,
        **({"_meta": dict(surface.meta)} if surface.meta else {}),
        **{kind.member: _items(surface.lists[kind.method]) for kind in protocol.KINDS if kind.what not in unknown},
        **({"unknown": unknown} if unknown else {}),
        **({"unsteady": True} if surface.unsteady else {}),
    }


def _items(listed: SurfaceList) -> list[Any]:
    return [one for key, item in sorted(listed.items.items()) for one in (item, *listed.again.get(key, ()))]


def _order_keys(value: Any, depth: int = 0) -> Any:
    """A value with sorted keys, except those of the document and of an entry, which have an order for people."""
    if isinstance(value, dict):
        return {key: _order_keys(value[key], depth + 1) for key in (value if depth in (0, 2) else sorted(value))}
    return [_order_keys(one, depth + 1) for one in value] if isinstance(value, list) else value


def _difference(entry: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The members that differ for another client. Of a list: the missing items, and the items in their place."""
    found: dict[str, Any] = {"client": other["client"]}
    for member in dict.fromkeys([*entry, *other]):
        one, its = entry.get(member), other.get(member)
        if member == "client" or one == its:
            continue
        if member in _LISTS and isinstance(one, list) and isinstance(its, list):
            before, after = _by_key(member, one), _by_key(member, its)
            without = [key for key in before if key not in after]
            instead = [item for key, items in after.items() if items != before.get(key) for item in items]
            its = ({_WITHOUT: without} if without else {}) | ({_INSTEAD: instead} if instead else {})
        found[member] = its
    return found


def _by_key(member: str, items: list[Any]) -> dict[str, list[Any]]:
    """Items by their key, several with one key together. They are sorted already."""
    name = _LISTS[member].key
    keyed = [item for item in items if isinstance(protocol.member(item, name), str)]
    return {key: list(same) for key, same in groupby(keyed, key=lambda item: str(item[name]))}


# -- reading


def _apply_difference(entry: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """An entry as another client sees it."""
    found = {member: value for member, value in entry.items() if member != _OTHERS}
    for member, value in other.items():
        listed = entry.get(member)
        if member in _LISTS and isinstance(listed, list) and isinstance(value, dict):
            value = list(_listed_instead(member, listed, value))
        found[member] = value
    return found


def _listed_instead(member: str, listed: list[Any], other: dict[str, Any]) -> Iterator[Any]:
    without, instead = other.get(_WITHOUT), other.get(_INSTEAD)
    items = _by_key(member, listed)
    changed = _by_key(member, instead if isinstance(instead, list) else [])
    for key in without if isinstance(without, list) else ():
        items.pop(str(key), None)
    for _, same in sorted((items | changed).items()):
        yield from same


def _version(entry: dict[str, Any], title: str) -> Version:
    server, capabilities, meta = (_object(entry.get(member)) for member in ("server", "capabilities", "_meta"))
    name, version = (_text(protocol.member(server, key)) for key in ("name", "version"))
    answered = protocol.member(entry.get("protocol"), "answered")
    surface = Surface(
        name,
        version,
        tuple(filter(_text, answered)) if isinstance(answered, list) else (),
        _text(protocol.member(entry.get("protocol"), "asked")),
        capabilities,
        _text(entry.get("instructions")),
        {kind.method: _read_list(kind, entry) for kind in protocol.KINDS},
        entry.get("unsteady") is True,
        {member: value for member, value in (server or {}).items() if member not in ("name", "version")},
        meta or {},
        _object(protocol.member(entry.get("client"), "capabilities")),
    )
    return Version(" ".join(filter(None, (name, version))) or title, surface, None, _UNCALLED)


def _read_list(kind: protocol.Kind, entry: dict[str, Any]) -> SurfaceList:
    why, listed = protocol.member(entry.get("unknown"), kind.what), entry.get(kind.member)
    if not isinstance(listed, list):
        return SurfaceList({}, why=_text(why) or f"there is no {kind.method}")
    found = _by_key(kind.member, sorted(listed, key=lambda item: str(protocol.member(item, kind.key))))
    items = {key: same[0] for key, same in found.items()}
    again = {key: same[1:] for key, same in found.items() if len(same) > 1}
    return SurfaceList(items, int(bool(items)), again=again, in_order=False)


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
