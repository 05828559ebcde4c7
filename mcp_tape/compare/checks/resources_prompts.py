"""Checks of resources, resource templates and prompts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..changes import ABSENT, Difference, Found, Subject
from ..rules import Level
from .tools import differing

Items = dict[str, dict[str, Any]]
_VARIABLE = re.compile(r"\{[+#./;?&]?([^{}]*)\}")
_QUERY = re.compile(r"\{[?&][^{}]*\}")
_TEXTS = ("name", "title", "description")


def compare_resources(old: Items, new: Items) -> Iterator[Found]:
    for uri, resource in old.items():
        subject = Subject("resource", uri)
        if uri not in new:
            yield subject, Difference("resource-removed")
            continue
        yield from _named(subject, differing("resource-mime-type-changed", resource, new[uri], "mimeType"))
        yield from _texts(subject, "resource-description-changed", resource, new[uri])
    for uri in new:
        if uri not in old:
            yield Subject("resource", uri), Difference("resource-added")


def compare_templates(old: Items, new: Items) -> Iterator[Found]:
    """Compare templates by their URI; one whose URI changed is known by its name."""
    moved = {uri: other for uri in old if uri not in new for other in new if _is_moved(old[uri], new[other], old)}
    for uri, template in old.items():
        subject = Subject("template", uri)
        other = uri if uri in new else moved.get(uri)
        if other is None:
            yield subject, Difference("resource-template-removed")
            continue
        yield from _named(subject, _variables(uri, other))
        yield from _named(subject, differing("resource-mime-type-changed", template, new[other], "mimeType"))
        yield from _texts(subject, "resource-description-changed", template, new[other])
    for uri in new:
        if uri not in old and uri not in moved.values():
            yield Subject("template", uri), Difference("resource-template-added")


def _is_moved(old: dict[str, Any], new: dict[str, Any], others: Items) -> bool:
    return old.get("name") is not None and old.get("name") == new.get("name") and new["uriTemplate"] not in others


def _variables(old: str, new: str) -> Iterator[Difference]:
    if old == new:
        return
    before, after = (set(_names(template)) for template in (old, new))
    # Variables of a query are commonly left undefined, and then expand to nothing, so the old ones make the same URIs:
    # https://www.rfc-editor.org/rfc/rfc6570#section-3.2.1
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


def compare_prompts(old: Items, new: Items) -> Iterator[Found]:
    for name, prompt in old.items():
        subject = Subject("prompt", name)
        if name not in new:
            yield subject, Difference("prompt-removed")
            continue
        yield from _named(subject, _arguments(_by_name(prompt), _by_name(new[name])))
        yield from _texts(subject, "prompt-description-changed", prompt, new[name])
    for name in new:
        if name not in old:
            yield Subject("prompt", name), Difference("prompt-added")


def _by_name(prompt: dict[str, Any]) -> Items:
    arguments = prompt.get("arguments")
    found = [one for one in arguments if isinstance(one, dict)] if isinstance(arguments, list) else []
    return {one["name"]: one for one in found if isinstance(one.get("name"), str)}


def _arguments(old: Items, new: Items) -> Iterator[Difference]:
    for name in dict.fromkeys([*old, *new]):
        path = ("arguments", name)
        if name not in new:
            yield Difference("prompt-argument-removed", path, old[name], ABSENT)
        elif name not in old:
            rule = "prompt-argument-required-added" if new[name].get("required") else "prompt-argument-relaxed"
            yield Difference(rule, path, ABSENT, new[name], "new argument")
        else:
            yield from _argument(old[name], new[name], path)


def _argument(old: dict[str, Any], new: dict[str, Any], path: tuple[str, str]) -> Iterator[Difference]:
    before, after = bool(old.get("required")), bool(new.get("required"))
    if before != after:
        rule = "prompt-argument-became-required" if after else "prompt-argument-relaxed"
        yield Difference(rule, (*path, "required"), before, after)
    for member in ("title", "description"):
        yield from differing("prompt-description-changed", old, new, member, path)


def _texts(subject: Subject, rule: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Found]:
    for member in _TEXTS:
        yield from _named(subject, differing(rule, old, new, member))


def _named(subject: Subject, found: Iterator[Difference]) -> Iterator[Found]:
    return ((subject, difference) for difference in found)
