"""Checks of resources, resource templates and prompts."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from ...model.characters import escape_disguised
from ..changes import ABSENT, NOTHING, Difference, Subject, SubjectDifference, attach_subject, comparable_bytes
from ..renames import renames, spelling
from ..rule_table import Level
from .app_pages import compare_limits
from .tools import compare_member, declared_members

Item = dict[str, Any]
Items = dict[str, Item]
ItemComparison = Callable[[Item, Item], Iterable[Difference]]
_WITH_RULES = {"mimeType", "arguments"}
_VARIABLE = re.compile(r"\{[+#./;?&]?([^{}]*)\}")
_QUERY = re.compile(r"\{[?&][^{}]*\}")


def compare_resources(old: Items, new: Items) -> Iterator[SubjectDifference]:
    return compare_items("resource", ("resource-removed", "resource-added"), old, new, _resource)


def compare_templates(old: Items, new: Items) -> Iterator[SubjectDifference]:
    """Compare templates by their URI, or by their name if the URI changed."""
    moved = {uri: other for uri in old if uri not in new for other in new if _is_moved(old[uri], new[other], old)}
    return compare_items(
        "template", ("resource-template-removed", "resource-template-added"), old, new, _template, moved
    )


def compare_prompts(old: Items, new: Items) -> Iterator[SubjectDifference]:
    return compare_items("prompt", ("prompt-removed", "prompt-added"), old, new, _prompt)


def compare_items(
    kind: str,
    rules: tuple[str, str],
    old: Items,
    new: Items,
    differences: ItemComparison,
    moved: Mapping[str, str] = {},
) -> Iterator[SubjectDifference]:
    """Compare two lists, item by item. `moved`: old keys, by the new keys of items whose key changed."""
    before = {key: item for key, item in old.items() if key not in moved}
    after = {key: item for key, item in new.items() if key not in moved.values()}
    likely = renames(before, after, (spelling, _content))
    for key, item in old.items():
        other = key if key in new else moved.get(key)
        if other is None:
            note = f"probably {escape_disguised(likely[key])} now" if key in likely else ""
            yield Subject(kind, key), Difference(rules[0], (), declared_members(item), note=note, marks=NOTHING)
        else:
            yield from attach_subject(Subject(kind, key), differences(item, new[other]))
    for key in new:
        if key not in old and key not in moved.values():
            yield Subject(kind, key), Difference(rules[1], (), ABSENT, declared_members(new[key]))


def _content(key: str, item: Item) -> Hashable:
    """The content of an item, to recognize it by; None if many items could have the same."""
    said = declared_members(item)
    return comparable_bytes(said) if said.get("description") else None


def _resource(old: Item, new: Item) -> Iterator[Difference]:
    yield from compare_member("resource-mime-type-changed", old, new, "mimeType")
    yield from compare_limits(old, new)
    yield from _texts("resource-description-changed", old, new)


def _template(old: Item, new: Item) -> Iterator[Difference]:
    yield from _variables(old["uriTemplate"], new["uriTemplate"])
    yield from _resource(old, new)


def _prompt(old: Item, new: Item) -> Iterator[Difference]:
    yield from _arguments(_arguments_by_name(old), _arguments_by_name(new))
    yield from _texts("prompt-description-changed", old, new)


def _is_moved(old: Item, new: Item, others: Items) -> bool:
    return old.get("name") is not None and old.get("name") == new.get("name") and new["uriTemplate"] not in others


def _variables(old: str, new: str) -> Iterator[Difference]:
    if old == new:
        return
    before, after = (set(_names(template)) for template in (old, new))
    # The variables of a query are optional, and undefined ones expand to nothing, so the old ones still give the same
    # URIs: https://www.rfc-editor.org/rfc/rfc6570#section-3.2.1
    left_out = before <= after and _QUERY.sub("", old) == _QUERY.sub("", new)
    level: Level | None = "info" if left_out else None
    for name in sorted(after - before):
        yield Difference("template-variable-added", ("uriTemplate",), old, new, f"new variable {name}", level)
    if not after - before:
        yield Difference("resource-template-removed", ("uriTemplate",), old, new, "it makes other URIs")


def _names(template: str) -> Iterator[str]:
    for group in _VARIABLE.findall(template):
        for name in group.split(","):
            yield re.sub(r"[*]$|:\d+$", "", name.strip())


def _arguments_by_name(prompt: Item) -> Items:
    arguments = prompt.get("arguments")
    found = [one for one in arguments if isinstance(one, dict)] if isinstance(arguments, list) else []
    return {one["name"]: one for one in found if isinstance(one.get("name"), str)}


def _arguments(old: Items, new: Items) -> Iterator[Difference]:
    likely = renames(old, new, (spelling, lambda name, argument: _content(name, {**argument, "name": ""})))
    for name in dict.fromkeys([*old, *new]):
        path = ("arguments", name)
        if name not in new:
            note = f"probably {escape_disguised(likely[name])} now" if name in likely else ""
            yield Difference("prompt-argument-removed", path, old[name], ABSENT, note)
        elif name not in old:
            rule = "prompt-argument-required-added" if new[name].get("required") else "prompt-argument-relaxed"
            yield Difference(rule, path, ABSENT, new[name], "new argument")
        else:
            yield from _argument(old[name], new[name], path)


def _argument(old: Item, new: Item, path: tuple[str, str]) -> Iterator[Difference]:
    before, after = bool(old.get("required")), bool(new.get("required"))
    if before != after:
        rule = "prompt-argument-became-required" if after else "prompt-argument-relaxed"
        yield Difference(rule, (*path, "required"), before, after, requirement_note(after))
    for member in dict.fromkeys([*old, *new]):
        if member not in ("name", "required"):
            yield from compare_member("prompt-description-changed", old, new, member, path)


def requirement_note(required: bool) -> str:
    return "optional → required" if required else "required → optional"


def _texts(rule: str, old: Item, new: Item) -> Iterator[Difference]:
    before, after = declared_members(old), declared_members(new)
    for member in dict.fromkeys([*before, *after]):
        if member not in _WITH_RULES:
            yield from compare_member(rule, before, after, member)
