"""Checks of tools: the list, their schemas, hints and texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...errors import count
from ...model.characters import escape_disguised
from ...wire import jsontext, protocol
from ..changes import ABSENT, NOTHING, SERVER, Difference, Subject, SubjectDifference, attach_subject, comparable_bytes
from ..renames import renames, spelling
from ..rule_table import Level
from ..schemas import compare_input, compare_output
from .app_pages import compare_visibility, without_visibility
from .model_texts import compare_texts

Tools = dict[str, dict[str, Any]]
# The defaults of the hints, which are the worse values, and the rules for a change to them:
# https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations
_HINTS = {
    "readOnlyHint": (False, "tool-lost-read-only"),
    "destructiveHint": (True, "tool-became-destructive"),
    "idempotentHint": (False, "tool-lost-idempotent"),
    "openWorldHint": (True, "tool-became-open-world"),
}
_KEYS = ("uri", "uriTemplate", "name")  # an item's identity is the first that it has
_WITH_RULES = {"name", "description", "title", "icons", "inputSchema", "outputSchema", "annotations", "execution"}


def compare_tools(old: Tools, new: Tools) -> Iterator[SubjectDifference]:
    """Compare two lists. Changes by the library that writes all schemas are reported once, for the server."""
    common: dict[tuple[Any, ...], list[Difference]] = {}
    for subject, one in _compare_each(old, new):
        if one.common:
            key = one.rule, one.path[-1], comparable_bytes(one.before), comparable_bytes(one.after)
            common.setdefault(key, []).append(one)
        else:
            yield subject, one
    for (_, keyword, *_), (first, *more) in common.items():
        places = count(1 + len(more), "place")
        yield SERVER, first._replace(path=("tools", keyword), note=f"{first.note}, in {places}")


def _compare_each(old: Tools, new: Tools) -> Iterator[SubjectDifference]:
    renamed = renames(old, new, (spelling, _schemas))
    for name, tool in old.items():
        subject = Subject("tool", name)
        if name in new:
            yield from attach_subject(subject, _compare(tool, new[name]))
        elif name in renamed:
            yield (
                subject,
                Difference("tool-renamed", (), name, renamed[name], f"probably {escape_disguised(renamed[name])} now"),
            )
            yield from attach_subject(subject, _compare(tool, new[renamed[name]]))
        else:
            yield subject, Difference("tool-removed", (), declared_members(tool), marks=NOTHING)
    for name in new:
        if name not in old and name not in renamed.values():
            yield Subject("tool", name), Difference("tool-added", (), ABSENT, declared_members(new[name]))


def compare_order(old: Tools, new: Tools) -> Iterator[SubjectDifference]:
    """Compare the order of the tools that are in both lists."""
    before, after = ([name for name in tools if name in old and name in new] for tools in (old, new))
    if before != after:
        yield SERVER, Difference("tool-order-changed", ("tools",), before, after)


def _schemas(name: str, tool: dict[str, Any]) -> bytes:
    schemas = [tool.get("inputSchema"), tool.get("outputSchema")]
    # Many tools take nothing, or one text. Such tools match only by their descriptions.
    properties = protocol.member(tool.get("inputSchema"), "properties") or {}
    return jsontext.canonical_bytes([*schemas, tool.get("description") if len(properties) < 2 else None])


def _compare(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    yield from _texts(old, new)
    yield from _hints(old.get("annotations"), new.get("annotations"))
    yield from _task_support(old, new)
    found = list(compare_input(*(_arguments(tool.get("inputSchema")) for tool in (old, new))))
    yield from _prefix_paths("inputSchema", found)
    yield from _prefix_paths("inputSchema", compare_texts(old.get("inputSchema"), new.get("inputSchema"), found))
    yield from _output(old.get("outputSchema"), new.get("outputSchema"))


def _arguments(schema: Any) -> Any:
    """A schema of arguments. These are always an object, even if the schema does not say so."""
    return {"type": "object"} | (schema or {}) if schema is None or isinstance(schema, dict) else schema


def _texts(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    yield from compare_member("tool-description-changed", old, new, "description")
    own = old.get("title") or new.get("title")
    yield from compare_member(
        "tool-title-changed", _effective_title(old), _effective_title(new), "title", () if own else ("annotations",)
    )
    yield from compare_member("tool-icons-changed", old, new, "icons")
    yield from compare_visibility(old, new)
    before, after = without_visibility(old), without_visibility(new)
    for name in dict.fromkeys([*before, *after]):
        if name not in _WITH_RULES:
            yield from compare_member("tool-meta-changed", before, after, name)
    # A title in the annotations counts if the tool has no other.
    second = {"title"} if old.get("title") and new.get("title") else set()
    for member, known in (("annotations", {*_HINTS, "title"} - second), ("execution", {"taskSupport"})):
        before, after = (_object(tool.get(member)) for tool in (old, new))
        for name in dict.fromkeys([*before, *after]):
            if name not in known:
                yield from compare_member("tool-meta-changed", before, after, name, (member,))


def declared_members(item: dict[str, Any]) -> dict[str, Any]:
    """The declared members of an item, except its key and the size and time of its content, which are data."""
    key = next((key for key in _KEYS if key in item), "")
    told = {member: value for member, value in item.items() if member not in (key, "size")}
    annotations = _object(told.pop("annotations", None))
    annotations = {member: value for member, value in annotations.items() if member != "lastModified"}
    return told | ({"annotations": annotations} if annotations else {})


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _effective_title(tool: dict[str, Any]) -> dict[str, Any]:
    title = tool.get("title") or protocol.member(tool.get("annotations"), "title")
    return {"title": title} if title else {}


def compare_member(
    rule: str, old: dict[str, Any], new: dict[str, Any], member: str, path: tuple[str, ...] = ()
) -> Iterator[Difference]:
    """Report a member that differs. Absent, null and empty are equal."""
    before, after = old.get(member, ABSENT), new.get(member, ABSENT)
    if before != after and not (before in (ABSENT, None, "") and after in (ABSENT, None, "")):
        yield Difference(rule, (*path, member), before, after)


def _hints(old: Any, new: Any) -> Iterator[Difference]:
    before, after = ({name: _hint(value, name) for name in _HINTS} for value in (old, new))
    for name, (bad, worse) in _HINTS.items():
        # A read-only tool cannot destroy anything, and repeating it has no effect.
        moot = after["readOnlyHint"] and name in ("destructiveHint", "idempotentHint")
        if before[name] != after[name] and not moot:
            rule = worse if after[name] is bad else "tool-hint-relaxed"
            yield Difference(rule, ("annotations", name), before[name], after[name])


def _hint(annotations: Any, name: str) -> bool:
    given = protocol.member(annotations, name)
    return given if isinstance(given, bool) else _HINTS[name][0]


def _task_support(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    before, after = (protocol.member(tool.get("execution"), "taskSupport") or "forbidden" for tool in (old, new))
    if before != after:
        level: Level | None = "info" if after == "optional" else None  # it works both ways
        yield Difference("tool-task-support-changed", ("execution", "taskSupport"), before, after, level=level)


def _output(old: Any, new: Any) -> Iterator[Difference]:
    if old is None and new is not None:
        yield Difference("output-schema-added", ("outputSchema",), ABSENT, new)
    elif old is not None and new is None:
        yield Difference("output-schema-removed", ("outputSchema",), old, ABSENT)
    elif old is not None:
        found = list(compare_output(old, new))
        yield from _prefix_paths("outputSchema", found)
        yield from _prefix_paths("outputSchema", compare_texts(old, new, found))


def _prefix_paths(member: str, found: Iterable[Difference]) -> Iterator[Difference]:
    return (difference._replace(path=(member, *difference.path)) for difference in found)
