"""Checks of MCP Apps: the visibility of tools, the limits and permissions of a page, and its content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...model.pages import is_page, read_page
from ...wire import apps
from ...wire.jsontext import Path
from ..changes import ABSENT, Difference

_UI: Path = ("_meta", "ui")


def compare_visibility(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    """Compare whether the model and the server's pages see a tool."""
    before, after = (apps.visibility_of(tool) for tool in (old, new))
    path, values = (*_UI, "visibility"), (sorted(before), sorted(after))
    if apps.MODEL in before - after:
        yield Difference("tool-hidden-from-model", path, *values)
    elif before - after:
        yield Difference("tool-hidden-from-page", path, *values)
    if after - before:
        yield Difference("tool-visibility-widened", path, *values)


def without_visibility(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool without the member that `compare_visibility` compares."""
    ui = {name: value for name, value in apps.ui_of(tool).items() if name != "visibility"}
    if "visibility" not in apps.ui_of(tool):
        return tool
    meta = {name: value for name, value in tool["_meta"].items() if name != "ui"} | ({"ui": ui} if ui else {})
    return {name: value for name, value in tool.items() if name != "_meta"} | ({"_meta": meta} if meta else {})


def compare_limits(old: Any, new: Any, path: Path = ()) -> Iterator[Difference]:
    """Compare the origins that a page may load from and connect to, and the permissions that it asks for."""
    before, after = apps.ui_of(old), apps.ui_of(new)
    were, are = apps.domains_of(before), apps.domains_of(after)
    for name in dict.fromkeys([*were, *are]):
        had, has = were.get(name, frozenset()), are.get(name, frozenset())
        yield from _compare_sets("page-origin-allowed", (*path, *_UI, "csp", name), had, has)
    asked = apps.permissions_of(before), apps.permissions_of(after)
    yield from _compare_sets("page-permission-added", (*path, *_UI, "permissions"), *asked)


def compare_pages(old: Any, new: Any, path: Path) -> Iterator[Difference]:
    """Compare two contents of a resource, if they are pages."""
    if not is_page(new):
        return
    yield from compare_limits(old, new, path)
    before, after = read_page(old["text"] if is_page(old) else ""), read_page(new["text"])
    for rule, had, has in (
        ("page-script-added", before.scripts, after.scripts),
        ("page-form-added", before.forms, after.forms),
        ("page-origin-added", before.origins, after.origins),
    ):
        for one in sorted(has - had):
            yield Difference(rule, (*path, "text"), ABSENT, one)


def _compare_sets(rule: str, path: Path, old: frozenset[str], new: frozenset[str]) -> Iterator[Difference]:
    if new - old:
        yield Difference(rule, path, sorted(old), sorted(new), f"new: {', '.join(sorted(new - old))}")
    elif old - new:
        yield Difference("page-restricted", path, sorted(old), sorted(new))
