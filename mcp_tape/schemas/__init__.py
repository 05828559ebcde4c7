"""JSON Schemas of what mcp-tape writes for programs: a file for each shape, named after it.

They allow further members, since a release may add some. A schema refers to another one as `urn:mcp-tape:NAME`.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from ..wire import jsontext

_URN, _END = "urn:mcp-tape:", ".json"


def schema_names() -> list[str]:
    files = resources.files(__name__).iterdir()
    return sorted(file.name.removesuffix(_END) for file in files if file.name.endswith(_END))


def read_schema(name: str) -> dict[str, Any]:
    """Return a schema that stands alone: those that it refers to are in its `$defs`."""
    found = _read(name)
    others: dict[str, Any] = {}
    waiting = _references(found)
    while waiting:
        other = waiting.pop()
        if other not in others:
            others[other] = _read(other)
            waiting |= _references(others[other])
    return found | {"$defs": found.get("$defs", {}) | others} if others else found


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = jsontext.loads(resources.files(__name__).joinpath(name + _END).read_text("utf-8"))
    return found


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = value.get("$ref")
        here = {own.removeprefix(_URN)} if isinstance(own, str) and own.startswith(_URN) else set()
        return here.union(*map(_references, value.values()))
    return set().union(*map(_references, value)) if isinstance(value, list) else set()
