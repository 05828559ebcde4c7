"""Checks of skills: additions and removals, their frontmatter, and their files by digest.

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...wire import protocol
from ..changes import ABSENT, Difference, SubjectDifference
from ..rule_table import Level
from .resources_prompts import Item, Items, compare_items
from .tools import compare_member

_GRANTS = "allowed-tools"  # permissions that a skill asks for: users approved these


def compare_skills(old: Items, new: Items) -> Iterator[SubjectDifference]:
    return compare_items("skill", ("skill-removed", "skill-added"), old, new, compare_skill)


def compare_skill(old: Item, new: Item) -> Iterator[Difference]:
    """Compare two entries of one skill."""
    before, after = (_frontmatter(entry) for entry in (old, new))
    yield from compare_member("skill-description-changed", before, after, "description", ("frontmatter",))
    for name in dict.fromkeys([*before, *after]):
        if name != "description":
            level: Level | None = "warn" if name == _GRANTS else None
            found = compare_member("skill-frontmatter-changed", before, after, name, ("frontmatter",))
            yield from (difference._replace(level=level) for difference in found)
    yield from _files(old, new)


def _frontmatter(entry: Item) -> Item:
    given = entry.get("frontmatter")
    return given if isinstance(given, dict) else {}


def _files(old: Item, new: Item) -> Iterator[Difference]:
    before, after = _digests(old), _digests(new)
    if before is None or after is None:
        if (before is None) != (after is None):
            one, other = ("with digests" if files is not None else "without" for files in (before, after))
            level: Level | None = "info" if before is None else None
            yield Difference("skill-became-dynamic", ("resources",), one, other, level=level)
        return
    for uri in dict.fromkeys([*before, *after]):
        path, one, other = ("resources", _path_within(uri, new)), before.get(uri, ABSENT), after.get(uri, ABSENT)
        if other is ABSENT:
            yield Difference("skill-file-removed", path, one, ABSENT)
        elif one is ABSENT:
            yield Difference("skill-file-added", path, ABSENT, other)
        elif one != other:
            yield Difference("skill-file-changed", path, one, other)


def _digests(entry: Item) -> dict[str, Any] | None:
    """Digests of a skill's files by URI; None if it publishes none, because its files are made on demand."""
    files = entry.get("resources")
    if not isinstance(files, list):
        return None
    named = ((protocol.member(file, "uri"), protocol.member(file, "digest")) for file in files)
    return {uri: digest for uri, digest in named if isinstance(uri, str)}


def _path_within(uri: str, entry: Item) -> str:
    """A file's path within its skill: `templates/invoice.md`."""
    return uri.removeprefix(str(entry.get("uri")).rpartition("/")[0] + "/")
