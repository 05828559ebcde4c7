"""A server's offer, without calls, as text to commit and compare with later. The same offer gives the same text.

One JSON document, laid out for review. Lists are sorted by name, and objects by key.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from ..errors import CassetteError
from ..wire import jsontext, protocol
from .surface import Surface, SurfaceList
from .versions import Version

MARK = "mcp-tape lock"
FORMAT = 1  # a reader refuses newer formats
HEAD = 100  # the mark is within so many bytes
_NO_CALLS = "a lock holds what a server offers, and no calls"


def dump(version: Version) -> str:
    surface = version.surface
    unknown = {kind.what: found.why for kind in protocol.KINDS if (found := surface.lists[kind.method]).why}
    document = {
        MARK: FORMAT,
        "server": {"name": surface.name, "version": surface.version, **surface.info},
        "client": {"capabilities": surface.client},
        "protocol": {"asked": surface.offered, "answered": list(surface.versions)},
        "capabilities": surface.capabilities,
        "instructions": surface.instructions,
        **({"_meta": surface.meta} if surface.meta else {}),
        **{kind.member: _items(surface.lists[kind.method]) for kind in protocol.KINDS if kind.what not in unknown},
        **({"unknown": unknown} if unknown else {}),
        **({"unsteady": True} if surface.unsteady else {}),
    }
    return json.dumps(_sort_keys(document, top=True), indent=2, ensure_ascii=False) + "\n"


def _items(listed: SurfaceList) -> list[Any]:
    return [one for key, item in sorted(listed.items.items()) for one in (item, *listed.again.get(key, ()))]


def _sort_keys(value: Any, top: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: _sort_keys(value[key]) for key in (value if top else sorted(value))}
    return [_sort_keys(one) for one in value] if isinstance(value, list) else value


def is_lock(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is a lock."""
    return f'"{MARK}"'.encode() in head[:HEAD]


def load(data: bytes, path: str) -> Version:
    """Parse a lock file. CassetteError explains what is wrong with it."""
    try:
        found = jsontext.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise CassetteError(f"cannot read {path}: this lock is not JSON ({error}); take it from git again") from None
    number = protocol.member(found, MARK)
    if type(number) is not int or number > FORMAT:
        raise CassetteError(f"{path} is a lock of a newer mcp-tape; upgrade with: pip install -U mcp-tape")
    server, capabilities, meta = (_object(found.get(member)) for member in ("server", "capabilities", "_meta"))
    name, version = (_text(protocol.member(server, key)) for key in ("name", "version"))
    answered = protocol.member(found.get("protocol"), "answered")
    surface = Surface(
        name,
        version,
        tuple(filter(_text, answered)) if isinstance(answered, list) else (),
        _text(protocol.member(found.get("protocol"), "asked")),
        capabilities,
        _text(found.get("instructions")),
        {kind.method: _read_list(kind, found) for kind in protocol.KINDS},
        found.get("unsteady") is True,
        {member: value for member, value in (server or {}).items() if member not in ("name", "version")},
        meta or {},
        _object(protocol.member(found.get("client"), "capabilities")),
    )
    return Version(" ".join(filter(None, (name, version))) or path, surface, None, _NO_CALLS)


def _read_list(kind: protocol.Kind, document: dict[str, Any]) -> SurfaceList:
    why, listed = protocol.member(document.get("unknown"), kind.what), document.get(kind.member)
    if not isinstance(listed, list):
        return SurfaceList({}, why=_text(why) or f"there is no {kind.method}")
    items: dict[str, list[Any]] = {}
    for item in listed:
        key = protocol.member(item, kind.key)
        if isinstance(key, str):
            items.setdefault(key, []).append(item)
    again = {key: found[1:] for key, found in items.items() if len(found) > 1}
    return SurfaceList({key: found[0] for key, found in items.items()}, int(bool(items)), again=again, in_order=False)


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def select_lists(version: Version, methods: Collection[str]) -> Version:
    """The version with only the lists of these methods."""
    left_out = SurfaceList({}, why="left out by a filter")
    found = version.surface.lists
    lists = {method: listed if method in methods else left_out for method, listed in found.items()}
    return version._replace(surface=version.surface._replace(lists=lists))
