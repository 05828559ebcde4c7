"""Checks of the schemas below two nodes: members of objects and items of arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from ...model.characters import spelled
from ...wire import jsontext
from ...wire.jsontext import Path
from ..changes import ABSENT, canonical
from ..renames import renames, spelling
from .assertions import differ, short
from .facts import Fact, Spared, narrows, way
from .implied import takes_names
from .nodes import Node, Schema, describe, is_open, together
from .walk import Walk


def members(walk: Walk, old: Node, new: Node, path: Path) -> Iterator[Fact]:
    """Members that both nodes name, and those that only one names."""
    if "object" not in old.types & new.types:
        return
    now_called = renames(_named(old), _named(new), (spelling, _described))
    for name in dict.fromkeys((*old.declared, *new.declared)):
        at = (*path, "properties", name)
        if old.speaks_of(name) and new.speaks_of(name):
            yield from _kept(walk, old, new, name, at)
        elif new.speaks_of(name):
            yield from _added(walk, old, new, name, at)
        else:
            yield from _removed(walk, old, new, name, at, now_called.get(name))


def _kept(walk: Walk, old: Node, new: Node, name: str, at: Path) -> Iterator[Fact]:
    if name in new.required - old.required:
        note, doubt = _required(walk, new, name)
        yield Fact("became-required", "narrower", at, False, True, f"optional → required{note}", doubt)
    elif name in old.required - new.required:
        yield Fact("became-optional", "wider", at, True, False, "required → optional")
    was, now = old.at(name), new.at(name)
    if not walk.unchanged(was, now):
        yield from walk.compare(was, now, at)
        as_needed = (name in old.required) == (name in new.required)
        yield from _said(walk.old_node(was).notes, walk.new_node(now).notes, as_needed, at)


def _required(walk: Walk, new: Node, name: str) -> tuple[str, bool]:
    """A note on a member that is now required, and whether that is in doubt.

    Some libraries list members with a default as required, and do not insist on them.
    """
    default = walk.new_node(new.at(name)).notes.get("default", ABSENT)
    return ("", False) if default is ABSENT else (f", with the default {short(default)}", True)


def _said(mine: Mapping[str, Any], yours: Mapping[str, Any], as_needed: bool, at: Path) -> Iterator[Fact]:
    """Annotations of a member, which validators ignore. `as_needed`: whether it is required did not change."""
    before, after = mine.get("x-mcp-header", ABSENT), yours.get("x-mcp-header", ABSENT)
    if differ(before, after):
        yield Fact("header-changed", "words", (*at, "x-mcp-header"), before, after, "sent in another header")
    # A default means nothing for a member that was always required, and a default of null equals none.
    before, after = (None if notes.get("default") is None else notes["default"] for notes in (mine, yours))
    if as_needed and differ(before, after):
        ends = mine.get("default", ABSENT), yours.get("default", ABSENT)
        moved = _members(before) is not None and _members(before) == _members(after)
        kind, note = ("reordered", "the same, in another order") if moved else ("changed", _default_note(*ends))
        yield Fact(f"default-{kind}", "words", (*at, "default"), *ends, note)
    before, after = mine.get("title", ABSENT), yours.get("title", ABSENT)
    if before is not ABSENT and after is not ABSENT and differ(before, after):
        yield Fact("description-changed", "words", (*at, "title"), before, after, "the title differs")


def _default_note(before: Any, after: Any) -> str:
    """Both values, since a report may omit one that was added or removed."""
    if before is ABSENT or after is ABSENT:
        return f"new default {short(after)}" if before is ABSENT else f"the default {short(before)} is gone"
    return "another default"


def _members(default: Any) -> list[bytes] | None:
    """The members of a list, or of a text that lists them with commas, in any order."""
    listed = [word.strip() for word in default.split(",")] if isinstance(default, str) else default
    return sorted(map(jsontext.canonical, listed)) if isinstance(listed, list) and len(listed) > 1 else None


def _added(walk: Walk, old: Node, new: Node, name: str, at: Path) -> Iterator[Fact]:
    was, now = old.at(name), new.at(name)
    if now is False:
        if was is not False:
            yield Fact("closed", "narrower", at, _written(was), False, "it is refused")
        return
    inner = [] if was is False or is_open(was) else walk.whole(was, now, at)
    required = name in new.required
    kind = "required" if required else "optional"
    more, doubt = _required(walk, new, name) if required else ("", False)
    note = f"new {kind} property ({describe(walk.new_node(now))}){more}"
    yield Fact(f"{kind}-property-added", way(narrows=required, widens=was is False), at, ABSENT, now, note, doubt)
    yield from inner


def _named(node: Node) -> dict[str, Schema]:
    return {name: node.at(name) for name in node.declared}


def _described(name: str, schema: Schema) -> Hashable:
    """A schema without its title, to recognize it by; None if it has no description."""
    if not isinstance(schema, dict) or not schema.get("description"):
        return None
    return canonical({keyword: value for keyword, value in schema.items() if keyword != "title"})


def _removed(walk: Walk, old: Node, new: Node, name: str, at: Path, other: str | None) -> Iterator[Fact]:
    was, now = old.at(name), new.at(name)
    inner = [] if now is False or is_open(now) else walk.whole(was, now, at)
    required = name in old.required
    kind = "required" if required else "optional"
    refused = now is False or narrows(inner)
    note = f"{kind} property is gone ({describe(walk.old_node(was))})"
    # If no names are known, all names are data, and this one is nothing special.
    spared: Spared = () if refused or new.properties else ("narrower",)
    more = "; any is taken now" if spared else f"; probably {spelled(other)} now" if other else ""
    way_ = way(narrows=refused, widens=required)
    yield Fact(f"{kind}-property-removed", way_, at, before=was, note=note + more, spared=spared)
    yield from inner


def others(walk: Walk, old: Node, new: Node, path: Path) -> Iterator[Fact]:
    """Members without a known name."""
    if "object" not in old.types & new.types:
        return
    yield from _beyond(walk, old.additional, new.additional, (*path, "additionalProperties"))
    for pattern in dict.fromkeys((*old.patterned, *new.patterned)):
        mine, yours = (node.patterned.get(pattern, node.additional) for node in (old, new))
        yield from _beyond(walk, mine, yours, (*path, "patternProperties", pattern))
        yield from _doubtful(walk, old, new, pattern, (*path, "patternProperties", pattern))
    mine, yours = (together({"type": "string"}, node.names) for node in (old, new))
    for fact in walk.compare(mine, yours, (*path, "propertyNames")):
        narrower, wider = fact.way in ("narrower", "other"), fact.way in ("wider", "other")
        unheard = narrower and not (old.is_closed and takes_names(walk.new_node(yours), old.properties))
        heard = wider and not (new.is_closed and takes_names(walk.old_node(mine), new.properties))
        if unheard or heard or not (narrower or wider):
            yield fact


def _doubtful(walk: Walk, old: Node, new: Node, pattern: str, path: Path) -> Iterator[Fact]:
    """A pattern that is not tried may match members with known names."""
    if (old.tries(pattern) and new.tries(pattern)) or not (old.declared or new.declared):
        return
    before, after = (node.patterned.get(pattern, ABSENT) for node in (old, new))
    if before is ABSENT or after is ABSENT or not walk.same(before, after):
        yield Fact("changed", "other", path, before, after, "the names that match this pattern cannot be determined")


def _beyond(walk: Walk, old: Schema, new: Schema, path: Path) -> Iterator[Fact]:
    facts = walk.whole(old, new, path)
    if all(fact.way == "words" for fact in facts):
        return
    if new is False or is_open(old):
        note = "other properties are refused" if new is False else "other properties must fit a schema"
        yield Fact("closed", "narrower", path, _written(old), new, note)
    elif old is False or is_open(new):
        yield Fact("opened", "wider", path, old, _written(new), "other properties are allowed")
    else:
        yield from facts


def _written(schema: Schema) -> Schema:
    return ABSENT if schema is True else schema


def dependencies(walk: Walk, old: Node, new: Node, path: Path) -> Iterator[Fact]:
    """Members that are required or constrained if another member is present."""
    if "object" not in old.types & new.types:
        return
    for name in dict.fromkeys((*old.dependent, *new.dependent)):
        mine, yours = (node.dependent.get(name, frozenset()) for node in (old, new))
        at = (*path, "dependentRequired", name)
        settled = old.required | new.required  # always required: depends on nothing
        for needed in sorted(yours - mine - settled):
            yield Fact("dependency-added", "narrower", at, after=needed, note=f"{name} needs {needed}")
        for needed in sorted(mine - yours - settled):
            yield Fact("dependency-removed", "wider", at, before=needed, note=f"{name} does not need {needed}")
    for name in dict.fromkeys((*old.dependents, *new.dependents)):
        before, after = (node.dependents.get(name, True) for node in (old, new))
        yield from walk.compare(before, after, (*path, "dependentSchemas", name))


def items(walk: Walk, old: Node, new: Node, path: Path) -> Iterator[Fact]:
    """Items of arrays, with those of `prefixItems` first."""
    if "array" not in old.types & new.types:
        return
    for index in range(max(len(old.prefix), len(new.prefix))):
        yield from walk.compare(old.item(index), new.item(index), (*path, "prefixItems", index))
    yield from walk.compare(old.items, new.items, (*path, "items"))
