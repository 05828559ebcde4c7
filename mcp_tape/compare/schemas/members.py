"""Checks of the schemas below two nodes: members of objects and items of arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from ...model.characters import escape_disguised
from ...wire import jsontext
from ...wire.jsontext import Path
from ..changes import ABSENT, comparable_bytes
from ..renames import renames, spelling
from .assertions import differ, short
from .facts import SchemaFact, Spared, narrows, way
from .implied import takes_names
from .nodes import Schema, SchemaNode, describe, is_open, merge_schemas
from .walk import SchemaWalk


def members(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Members that both nodes name, and those that only one names."""
    if "object" not in old.types & new.types:
        return
    now_called = renames(_declared_schemas(old), _declared_schemas(new), (spelling, _description_key))
    for name in dict.fromkeys((*old.declared_names, *new.declared_names)):
        at = (*path, "properties", name)
        if old.speaks_of(name) and new.speaks_of(name):
            yield from _compare_kept(walk, old, new, name, at)
        elif new.speaks_of(name):
            yield from _report_added(walk, old, new, name, at)
        else:
            yield from _report_removed(walk, old, new, name, at, now_called.get(name))


def _compare_kept(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, name: str, at: Path) -> Iterator[SchemaFact]:
    if name in new.required - old.required:
        note, doubt = _required_note(walk, new, name)
        yield SchemaFact("became-required", "narrower", at, False, True, f"optional → required{note}", doubt)
    elif name in old.required - new.required:
        yield SchemaFact("became-optional", "wider", at, True, False, "required → optional")
    was, now = old.at(name), new.at(name)
    if not walk.is_unchanged(was, now):
        yield from walk.compare(was, now, at)
        as_needed = (name in old.required) == (name in new.required)
        yield from _compare_annotations(walk.old_node(was).notes, walk.new_node(now).notes, as_needed, at)


def _required_note(walk: SchemaWalk, new: SchemaNode, name: str) -> tuple[str, bool]:
    """A note on a member that is now required, and whether that is in doubt.

    Some libraries list members with a default as required, and do not insist on them.
    """
    default = walk.new_node(new.at(name)).notes.get("default", ABSENT)
    return ("", False) if default is ABSENT else (f", with the default {short(default)}", True)


def _compare_annotations(
    mine: Mapping[str, Any], yours: Mapping[str, Any], as_needed: bool, at: Path
) -> Iterator[SchemaFact]:
    """Annotations of a member, which validators ignore. `as_needed`: whether it is required did not change."""
    before, after = mine.get("x-mcp-header", ABSENT), yours.get("x-mcp-header", ABSENT)
    if differ(before, after):
        yield SchemaFact("header-changed", "words", (*at, "x-mcp-header"), before, after, "sent in another header")
    # A default means nothing for a member that was always required, and a default of null equals none.
    before, after = (None if notes.get("default") is None else notes["default"] for notes in (mine, yours))
    if as_needed and differ(before, after):
        ends = mine.get("default", ABSENT), yours.get("default", ABSENT)
        moved = _members(before) is not None and _members(before) == _members(after)
        kind, note = ("reordered", "the same, in another order") if moved else ("changed", _default_note(*ends))
        yield SchemaFact(f"default-{kind}", "words", (*at, "default"), *ends, note)
    before, after = mine.get("title", ABSENT), yours.get("title", ABSENT)
    if before is not ABSENT and after is not ABSENT and differ(before, after):
        yield SchemaFact("description-changed", "words", (*at, "title"), before, after, "the title differs")


def _default_note(before: Any, after: Any) -> str:
    """Both values, since a report may omit one that was added or removed."""
    if before is ABSENT or after is ABSENT:
        return f"new default {short(after)}" if before is ABSENT else f"the default {short(before)} is gone"
    return "another default"


def _members(default: Any) -> list[bytes] | None:
    """The members of a list, or of a text that lists them with commas, in any order."""
    listed = [word.strip() for word in default.split(",")] if isinstance(default, str) else default
    return sorted(map(jsontext.canonical_bytes, listed)) if isinstance(listed, list) and len(listed) > 1 else None


def _report_added(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, name: str, at: Path) -> Iterator[SchemaFact]:
    was, now = old.at(name), new.at(name)
    if now is False:
        if was is not False:
            yield SchemaFact("closed", "narrower", at, _as_written(was), False, "it is refused")
        return
    inner = [] if was is False or is_open(was) else walk.compare_whole(was, now, at)
    required = name in new.required
    kind = "required" if required else "optional"
    more, doubt = _required_note(walk, new, name) if required else ("", False)
    note = f"new {kind} property ({describe(walk.new_node(now))}){more}"
    yield SchemaFact(f"{kind}-property-added", way(narrows=required, widens=was is False), at, ABSENT, now, note, doubt)
    yield from inner


def _declared_schemas(node: SchemaNode) -> dict[str, Schema]:
    return {name: node.at(name) for name in node.declared_names}


def _description_key(name: str, schema: Schema) -> Hashable:
    """A schema without its title, to recognize it by; None if it has no description."""
    if not isinstance(schema, dict) or not schema.get("description"):
        return None
    return comparable_bytes({keyword: value for keyword, value in schema.items() if keyword != "title"})


def _report_removed(
    walk: SchemaWalk, old: SchemaNode, new: SchemaNode, name: str, at: Path, other: str | None
) -> Iterator[SchemaFact]:
    was, now = old.at(name), new.at(name)
    inner = [] if now is False or is_open(now) else walk.compare_whole(was, now, at)
    required = name in old.required
    kind = "required" if required else "optional"
    refused = now is False or narrows(inner)
    note = f"{kind} property is gone ({describe(walk.old_node(was))})"
    # If no names are known, all names are data, and this one is nothing special.
    spared: Spared = () if refused or new.properties else ("narrower",)
    more = "; any is taken now" if spared else f"; probably {escape_disguised(other)} now" if other else ""
    way_ = way(narrows=refused, widens=required)
    yield SchemaFact(f"{kind}-property-removed", way_, at, before=was, note=note + more, spared=spared)
    yield from inner


def others(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Members without a known name."""
    if "object" not in old.types & new.types:
        return
    yield from _compare_additional(walk, old.additional, new.additional, (*path, "additionalProperties"))
    for pattern in dict.fromkeys((*old.patterned, *new.patterned)):
        mine, yours = (node.patterned.get(pattern, node.additional) for node in (old, new))
        yield from _compare_additional(walk, mine, yours, (*path, "patternProperties", pattern))
        yield from _report_doubtful(walk, old, new, pattern, (*path, "patternProperties", pattern))
    mine, yours = (merge_schemas({"type": "string"}, node.names) for node in (old, new))
    for fact in walk.compare(mine, yours, (*path, "propertyNames")):
        narrower, wider = fact.way in ("narrower", "other"), fact.way in ("wider", "other")
        unheard = narrower and not (old.is_closed and takes_names(walk.new_node(yours), old.properties))
        heard = wider and not (new.is_closed and takes_names(walk.old_node(mine), new.properties))
        if unheard or heard or not (narrower or wider):
            yield fact


def _report_doubtful(
    walk: SchemaWalk, old: SchemaNode, new: SchemaNode, pattern: str, path: Path
) -> Iterator[SchemaFact]:
    """A pattern that is not tried may match members with known names."""
    if (old.tries(pattern) and new.tries(pattern)) or not (old.declared_names or new.declared_names):
        return
    before, after = (node.patterned.get(pattern, ABSENT) for node in (old, new))
    if before is ABSENT or after is ABSENT or not walk.means_same(before, after):
        yield SchemaFact(
            "changed", "other", path, before, after, "the names that match this pattern cannot be determined"
        )


def _compare_additional(walk: SchemaWalk, old: Schema, new: Schema, path: Path) -> Iterator[SchemaFact]:
    facts = walk.compare_whole(old, new, path)
    if all(fact.way == "words" for fact in facts):
        return
    if new is False or is_open(old):
        note = "other properties are refused" if new is False else "other properties must fit a schema"
        yield SchemaFact("closed", "narrower", path, _as_written(old), new, note)
    elif old is False or is_open(new):
        yield SchemaFact("opened", "wider", path, old, _as_written(new), "other properties are allowed")
    else:
        yield from facts


def _as_written(schema: Schema) -> Schema:
    return ABSENT if schema is True else schema


def dependencies(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Members that are required or constrained if another member is present."""
    if "object" not in old.types & new.types:
        return
    for name in dict.fromkeys((*old.dependent, *new.dependent)):
        mine, yours = (node.dependent.get(name, frozenset()) for node in (old, new))
        at = (*path, "dependentRequired", name)
        settled = old.required | new.required  # always required: depends on nothing
        for needed in sorted(yours - mine - settled):
            yield SchemaFact("dependency-added", "narrower", at, after=needed, note=f"{name} needs {needed}")
        for needed in sorted(mine - yours - settled):
            yield SchemaFact("dependency-removed", "wider", at, before=needed, note=f"{name} does not need {needed}")
    for name in dict.fromkeys((*old.dependents, *new.dependents)):
        before, after = (node.dependents.get(name, True) for node in (old, new))
        yield from walk.compare(before, after, (*path, "dependentSchemas", name))


def items(walk: SchemaWalk, old: SchemaNode, new: SchemaNode, path: Path) -> Iterator[SchemaFact]:
    """Items of arrays, with those of `prefixItems` first."""
    if "array" not in old.types & new.types:
        return
    for index in range(max(len(old.prefix), len(new.prefix))):
        yield from walk.compare(old.item(index), new.item(index), (*path, "prefixItems", index))
    yield from walk.compare(old.items, new.items, (*path, "items"))
