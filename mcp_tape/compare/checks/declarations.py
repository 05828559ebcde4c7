"""Checks of the server as a whole: protocol versions, capabilities, extensions, instructions, the version number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from ...wire import protocol
from ...wire.jsontext import Path
from ..changes import ABSENT, Difference
from ..minted.binding import BoundValues
from ..rule_table import Level
from ..surface import Surface, unrequested_reason
from .json_values import compare_meta
from .tools import compare_member

_EXTENSIONS = "extensions"
_NEVER_WORKED = "it never worked: the server knew no list of it"
_KNOWN = {"experimental", "logging", "completions", "prompts", "resources", "tools", "tasks"}
# Promises within a capability that have their own rule.
_PROMISES = {"listChanged": "capability-list-changed-removed", "subscribe": "capability-subscribe-removed"}


def compare_server(old: Surface, new: Surface) -> Iterator[Difference]:
    yield from _versions(old, new)
    if old.capabilities is not None and new.capabilities is not None:
        for found in _capabilities(old.capabilities, new.capabilities, ("capabilities",)):
            yield found._replace(level="info", note=_NEVER_WORKED) if _has_never_worked(found, old) else found
        yield from _extensions(old.capabilities.get(_EXTENSIONS), new.capabilities.get(_EXTENSIONS))
        yield from _instructions(old.instructions, new.instructions)
        for member in dict.fromkeys([*old.info, *new.info]):
            yield from compare_member("server-info-changed", dict(old.info), dict(new.info), member, ("serverInfo",))
        yield from _report_one_sided(old, new)
        same = partial(BoundValues().is_same, "")
        yield from compare_meta("server-info-changed", dict(old.meta), dict(new.meta), ("_meta",), same)
    if old.name and new.name and old.name != new.name:
        yield Difference("server-name-changed", ("serverInfo", "name"), old.name, new.name)
    if new.unsteady and not old.unsteady:
        yield Difference("tool-list-nondeterministic", ("tools",))


def _report_one_sided(old: Surface, new: Surface) -> Iterator[Difference]:
    """A name or version that only one side gives. If both do, other rules compare them."""
    for member, before, after in (("name", old.name, new.name), ("version", old.version, new.version)):
        if not (before and after):
            yield from compare_member("server-info-changed", {member: before}, {member: after}, member, ("serverInfo",))


def _has_never_worked(found: Difference, old: Surface) -> bool:
    """True for a declared capability whose lists never worked."""
    kinds = [kind for kind in protocol.KINDS if found.path == ("capabilities", kind.capability)]
    asked = [kind for kind in kinds if old.lists[kind.method].why != unrequested_reason(kind)]
    return found.rule == "capability-removed" and bool(asked) and all(map(old.has_none, asked))


def _versions(old: Surface, new: Surface) -> Iterator[Difference]:
    if not old.versions or not new.versions or old.offered != new.offered:
        return
    for version in old.versions:
        if version not in new.versions and _is_gone(version, new):
            yield Difference("protocol-version-removed", ("supportedVersions",), version, ABSENT)
    for version in new.versions:
        if version not in old.versions and _is_gone(version, old):
            yield Difference("protocol-version-added", ("supportedVersions",), ABSENT, version)


def _is_gone(version: str, others: Surface) -> bool:
    """True if the other side certainly does not support a version.

    A legacy server answers with the requested version, or else with the newest that it supports; it may or may not
    support older ones: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation
    """
    return others.offered is None or version == others.offered or version > max(others.versions)


def _capabilities(old: Any, new: Any, path: Path) -> Iterator[Difference]:
    for name in dict.fromkeys([*old, *new]):
        if name == _EXTENSIONS and len(path) == 1:
            continue
        before, after = (_declared_capability(side, name, len(path) == 1) for side in (old, new))
        yield from _capability(name, before, after, (*path, name))


def _declared_capability(side: Any, name: str, top: bool) -> Any:
    """A declared capability. An empty `experimental` promises nothing; some SDKs always send it."""
    return side.get(name) or {} if top and name == "experimental" else side.get(name, ABSENT)


def _capability(name: str, before: Any, after: Any, path: Path) -> Iterator[Difference]:
    if _is_present(before) and not _is_present(after):
        level: Level | None = "warn" if path[1] not in _KNOWN else None
        yield Difference(_PROMISES.get(name, "capability-removed"), path, before, after, level=level)
    elif _is_present(after) and not _is_present(before):
        yield Difference("capability-added", path, before, after)
    elif isinstance(before, dict) or isinstance(after, dict):
        # `true` and `{}` both mean that the capability exists, and nothing more.
        old, new = (value if isinstance(value, dict) else {} for value in (before, after))
        yield from _capabilities(old, new, path)


def _is_present(value: Any) -> bool:
    return value is not ABSENT and value is not None and value is not False


def _extensions(old: Any, new: Any) -> Iterator[Difference]:
    old, new = (value if isinstance(value, dict) else {} for value in (old, new))
    for name in dict.fromkeys([*old, *new]):
        before, after, path = old.get(name, ABSENT), new.get(name, ABSENT), ("capabilities", _EXTENSIONS, name)
        if after is ABSENT:
            yield Difference("extension-removed", path, before, after)
        elif before is ABSENT:
            yield Difference("extension-added", path, before, after)
        elif before != after:
            yield Difference("extension-settings-changed", path, before, after)


def _instructions(old: str | None, new: str | None) -> Iterator[Difference]:
    if old and not new:
        yield Difference("instructions-removed", ("instructions",), old, ABSENT)
    elif (old or "") != (new or ""):
        yield Difference("instructions-changed", ("instructions",), old or ABSENT, new)


def compare_version_numbers(old: str | None, new: str | None) -> Iterator[Difference]:
    """Compare the version numbers of two versions with a breaking change between them."""
    if not old or not new:
        return
    path, note = ("serverInfo", "version"), f"{old} → {new} with a breaking change"
    before, after = _numbers(old), _numbers(new)
    if old == new:
        yield Difference("server-version-not-bumped", path, old, new, f"still {new} with a breaking change")
    elif before and after and after < before:
        yield Difference("server-version-decreased", path, old, new, note)
    elif before and after and after[0] == before[0]:
        yield Difference("server-major-not-bumped", path, old, new, note)


def _numbers(version: str) -> list[int]:
    found = re.match(r"v?(\d{1,18}(?:\.\d{1,18})*)(?!\d)", version)
    return [int(part) for part in found[1].split(".")] if found else []
