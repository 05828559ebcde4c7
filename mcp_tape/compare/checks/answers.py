"""Checks of the two answers of a pair: success or failure, kind of result, content."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ...wire import jsontext, protocol
from ...wire.jsontext import Path
from ...wire.match import differences
from ..changes import ABSENT, Difference, Subject, SubjectDifference, attach_subject
from ..minted.binding import generalize, mask_made_up
from ..minted.uses import match_inputs
from ..rule_table import Level
from .app_pages import compare_pages
from .json_values import SameTest, compare_meta, compare_shapes, compare_values, kind_of, restore_old_names
from .skills import compare_skill
from .tools import compare_member

_BESIDE = "call-meta-changed"
_MADE_UP = ("string", "number")
_NOT_FOUND = (protocol.RESOURCE_NOT_FOUND, protocol.INVALID_PARAMS)  # for a resource, in the two eras
_RENUMBERED = [_NOT_FOUND, _NOT_FOUND[::-1]]
_HOLDS = {protocol.CALL: "content", protocol.READ: "contents", protocol.GET_PROMPT: "messages"}  # a list per result
_NOT_COMPARED = {"_meta", "ttlMs", "cacheScope", "resultType", "nextCursor", "isError", "content", "structuredContent"}


def compare_answers(method: str, name: str | None, old: Any, new: Any, same: SameTest) -> Iterator[SubjectDifference]:
    call = Subject("call", protocol.call_title(method, name))
    failed, fails = _failure(old), _failure(new)
    if failed is not None or fails is not None:
        yield from attach_subject(call, _compare_failures(failed, fails, same))
        return
    before, after = (_result(body) for body in (old, new))
    kinds = list(_kinds_of_result(before, after))
    if kinds:
        yield from attach_subject(call, kinds)
        return  # an input request or a task is not like the result it replaces
    yield from attach_subject(call, compare_caching(old, new))
    wrong = list(_report_malformed(method, before, after))
    yield from attach_subject(call, wrong or _compare_content(before, after, same))
    yield from attach_subject(call, _compare_metadata(before, after, same))
    if method == protocol.GET_PROMPT:
        messages = before.get("messages"), after.get("messages")
        found = compare_values(*messages, ("result", "messages"), same, "prompt-messages-changed")
        yield from attach_subject(Subject("prompt", name or ""), found)
        described = compare_member("prompt-description-changed", before, after, "description", ("result",))
        yield from attach_subject(Subject("prompt", name or ""), described)
        yield from attach_subject(
            call, _compare_other_members(before, after, same, frozenset({"messages", "description"}))
        )
    elif method == protocol.SKILL:
        entries = (entry if isinstance(entry := result.get("skill"), dict) else {} for result in (before, after))
        yield from attach_subject(Subject("skill", name or ""), compare_skill(*entries))
    elif method == protocol.READ:
        yield from _compare_read_result(call, Subject("resource", name or ""), before, after, same)
        yield from attach_subject(call, _compare_other_members(before, after, same, frozenset({"contents"})))
    else:
        yield from attach_subject(call, _compare_structured(before, after, same))
        yield from attach_subject(call, _compare_other_members(before, after, same))


def compare_envelopes(old: Any, new: Any) -> Iterator[Difference]:
    """Report an answer that lost its JSON-RPC marker: https://www.jsonrpc.org/specification#response_object"""
    before, after = (body.get("jsonrpc", ABSENT) if isinstance(body, dict) else ABSENT for body in (old, new))
    if before == "2.0" != after:
        yield Difference("call-answer-malformed", ("jsonrpc",), before, after, 'an answer must have "jsonrpc": "2.0"')


def _result(body: Any) -> dict[str, Any]:
    result = protocol.member(body, "result")
    # Some servers send null for an empty result.
    return result if isinstance(result, dict) else {} if result is None else {"structuredContent": result}


# -- success and failure


def _failure(body: Any) -> tuple[Any, str] | None:
    """Code and message of a failure; a tool's failure has no code.

    https://modelcontextprotocol.io/specification/2025-11-25/server/tools#error-handling
    """
    error = protocol.member(body, "error")
    if error is not None:
        return protocol.member(error, "code"), str(protocol.member(error, "message") or "")
    result = protocol.member(body, "result")
    if protocol.member(result, "isError") is True:
        return "isError", _words(protocol.member(result, "content"))
    return None


def _words(content: Any) -> str:
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(protocol.member(block, "text") or "") for block in blocks)


def _compare_failures(old: tuple[Any, str] | None, new: tuple[Any, str] | None, same: SameTest) -> Iterator[Difference]:
    if old is None and new is not None:
        yield Difference("call-ok-to-error", _place(new), "ok", new[0], new[1])
    elif new is None and old is not None:
        yield Difference("call-error-to-ok", _place(old), old[0], "ok", old[1])
    elif old is not None and new is not None:
        if old[0] != new[0]:
            level: Level | None = "info" if (old[0], new[0]) in _RENUMBERED else None
            yield Difference("call-error-code-changed", _place(new), old[0], new[0], level=level)
        path = ("result", "content") if new[0] == "isError" else ("error", "message")
        if old[1] != new[1] and not same(path, old[1], new[1]):
            yield Difference("call-error-message-changed", path, old[1], new[1])


def _place(failure: tuple[Any, str]) -> Path:
    return ("result", "isError") if failure[0] == "isError" else ("error", "code")


# -- results


def _kinds_of_result(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    before, after = (_result_type(result) for result in (old, new))
    if before != after:
        level: Level | None = "info" if after == "complete" else None
        yield Difference("call-result-type-changed", ("result", "resultType"), before, after, level=level)


def _result_type(result: dict[str, Any]) -> str:
    given = result.get("resultType")
    # In the legacy era, only its member distinguishes a task from the result that it replaces.
    return str(given) if given else "task" if isinstance(result.get("task"), dict) else "complete"


def _report_malformed(method: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    """Report a result that newly breaks the protocol: clients refuse it."""
    member = _HOLDS.get(method, "")
    if not member or _result_type(new) != "complete" or not _is_right(member, old) or _is_right(member, new):
        return
    one, other = (_kind_of_list(result[member]) if member in result else ABSENT for result in (old, new))
    yield Difference("call-answer-malformed", ("result", member), one, other, f"{member} must be a list of objects")


def _is_right(member: str, result: dict[str, Any]) -> bool:
    items = result.get(member)
    typed = member != "content" or all(isinstance(protocol.member(item, "type"), str) for item in _blocks(items))
    return isinstance(items, list) and all(isinstance(item, dict) for item in items) and typed


def _kind_of_list(value: Any) -> Any:
    return [*dict.fromkeys(map(kind_of, value))] if isinstance(value, list) else kind_of(value)


def compare_caching(old: Any, new: Any) -> Iterator[Difference]:
    """Compare how long, and for whom, two results may be cached."""
    before, after = _result(old), _result(new)
    if before.get("cacheScope") == "private" and after.get("cacheScope") == "public":
        yield Difference("cache-scope-widened", ("result", "cacheScope"), "private", "public")
    if "ttlMs" in before and "ttlMs" in after and before["ttlMs"] != after["ttlMs"]:
        yield Difference("cache-ttl-changed", ("result", "ttlMs"), before["ttlMs"], after["ttlMs"])


def _compare_metadata(old: dict[str, Any], new: dict[str, Any], same: SameTest) -> Iterator[Difference]:
    """Compare the metadata of a result: the annotations of each part, and `_meta`."""
    before, after = (protocol.own_meta(result) for result in (old, new))
    yield from compare_meta(_BESIDE, before, after, ("result", "_meta"), same)
    for member in ("content", "contents"):
        pairs = zip(*(_blocks(result.get(member)) for result in (old, new)), strict=False)
        for at, (one, other) in enumerate(pairs):
            yield from compare_meta(
                _BESIDE, _part_annotations(one), _part_annotations(other), ("result", member, at), same
            )


def _part_annotations(block: Any) -> dict[str, Any]:
    """The annotations of a part of a result. Without an audience it is for both roles:
    https://modelcontextprotocol.io/specification/2025-11-25/schema#annotations
    """
    given = protocol.member(block, "annotations")
    annotations: dict[str, Any] = {"audience": ["assistant", "user"]} | (given if isinstance(given, dict) else {})
    annotations.pop("lastModified", None)  # data
    if isinstance(annotations["audience"], list):
        annotations["audience"] = ", ".join(sorted(map(str, annotations["audience"])))
    return {"_meta": protocol.own_meta(block), "annotations": annotations}


def _compare_structured(old: dict[str, Any], new: dict[str, Any], same: SameTest) -> Iterator[Difference]:
    path = ("result", "structuredContent")
    before, after = (result.get("structuredContent", ABSENT) for result in (old, new))
    if before is ABSENT and after is ABSENT:
        return
    if before is ABSENT or after is ABSENT:
        level: Level | None = "info" if before is ABSENT else None
        one, other = (value if value is ABSENT else kind_of(value) for value in (before, after))
        note = f"new: {other}" if before is ABSENT else f"{one} is gone"
        yield Difference("call-structured-shape-changed", path, one, other, note, level)
        return
    yield from _compare_shape_and_values(before, after, path, same)


def _compare_other_members(
    old: dict[str, Any], new: dict[str, Any], same: SameTest, but: frozenset[str] = frozenset()
) -> Iterator[Difference]:
    """Compare the members without a rule of their own."""
    before, after = ({k: v for k, v in result.items() if k not in _NOT_COMPARED | but} for result in (old, new))
    yield from _compare_shape_and_values(before, _restore_input_names(before, after), ("result",), same)


def _restore_input_names(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Rename the requests for input to their old names. A server names them freely, so they are paired by method."""
    asked, asks = old.get("inputRequests"), new.get("inputRequests")
    if not isinstance(asked, dict) or not isinstance(asks, dict):
        return new
    names = {now: then for then, now in match_inputs(asked, asks).items()}
    return new | {"inputRequests": {names.get(name, name): request for name, request in asks.items()}}


def _compare_shape_and_values(old: Any, new: Any, path: Path, same: SameTest) -> Iterator[Difference]:
    new = restore_old_names(old, new)
    if jsontext.canonical_bytes(old) == jsontext.canonical_bytes(new) or _is_only_made_up(old, new, path, same):
        return
    shapes = list(compare_shapes(old, new, path))
    reported = {generalize(found.path) for found in shapes}
    yield from shapes
    for found in compare_values(old, new, path, same):
        if not any(generalize(found.path)[:length] in reported for length in range(len(found.path) + 1)):
            yield found


def _is_only_made_up(old: Any, new: Any, path: Path, same: SameTest) -> bool:
    """True if the only differences are made-up values, each in its place: a quick test for the common case."""
    leaves = list(differences(old, new, path))
    if any(kind_of(before) != kind_of(after) or kind_of(before) not in _MADE_UP for _, before, after in leaves):
        return False
    befores, afters = ({leaf[side] for leaf in leaves} for side in (1, 2))
    return befores.isdisjoint(afters) and all(same(*leaf) for leaf in leaves)  # a value on both sides was moved


def _compare_content(old: dict[str, Any], new: dict[str, Any], same: SameTest) -> Iterator[Difference]:
    before, after = (_blocks(result.get("content")) for result in (old, new))
    path = ("result", "content")
    kinds, others = (_kinds_of_blocks(blocks) for blocks in (before, after))
    if kinds != others:
        yield Difference("call-content-type-changed", path, kinds, others)
    elif len(before) != len(after):
        text, another = (_words(blocks) for blocks in (before, after))
        if not same(path, text, another):
            note, marks = f"{len(before)} → {len(after)} blocks", mask_made_up(text, another)
            yield Difference("call-text-changed", path, text, another, note, marks=marks)
    else:
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            if one != other and not (_repeats(one, old) and _repeats(other, new)):
                yield from _compare_block(one, other, (*path, at), same)


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [] if content is None else [content]


def _kinds_of_blocks(blocks: list[Any]) -> list[str]:
    """The kinds of blocks in order, with repeats merged: their number is data."""
    return [kind for kind, _ in groupby(map(_kind_of_block, blocks))]


def _kind_of_block(block: Any) -> str:
    kind, media = (protocol.member(block, name) for name in ("type", "mimeType"))
    return f"{kind} {media}" if media else str(kind)


def _repeats(block: Any, result: dict[str, Any]) -> bool:
    """True if a block repeats the structured content as text, which the specification asks for:
    https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content
    """
    text = protocol.member(block, "text")
    if not isinstance(text, str) or "structuredContent" not in result:
        return False
    try:
        return bool(jsontext.loads(text) == result["structuredContent"])
    except (ValueError, RecursionError):
        return False


def _compare_block(old: Any, new: Any, path: Path, same: SameTest) -> Iterator[Difference]:
    one, other = (protocol.member(block, "text") for block in (old, new))
    if isinstance(one, str) and isinstance(other, str):
        if one != other and not _texts_match((*path, "text"), one, other, same):
            yield Difference("call-text-changed", (*path, "text"), one, other, marks=mask_made_up(one, other))
    elif old != new:
        yield from compare_values(_replace_data(old), _replace_data(new), path, same)


def _texts_match(path: Path, old: str, new: str, same: SameTest) -> bool:
    """True if two texts differ only in made-up values. If both are JSON, their values are compared one by one."""
    if same(path, old, new):
        return True
    try:
        before, after = jsontext.loads(old), jsontext.loads(new)
    except (ValueError, RecursionError):
        return False
    after = restore_old_names(before, after)
    if not isinstance(before, (dict, list)) or not isinstance(after, (dict, list)):
        return False
    return not any(compare_shapes(before, after, path)) and not any(compare_values(before, after, path, same))


def _replace_data(block: Any) -> Any:
    """A block with a digest instead of image or sound data."""
    if not isinstance(block, dict):
        return block
    beside = ("_meta", "annotations")
    return {k: _summary(v) if k in ("data", "blob") else v for k, v in block.items() if k not in beside}


def _summary(data: Any) -> Any:
    import hashlib

    if not isinstance(data, str):
        return data
    digest = hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()
    # In pieces: a whole digest would look like a made-up id.
    return f"{len(data)} characters, sha256 {digest[:4]} {digest[4:8]} {digest[8:12]}"


def _compare_read_result(
    call: Subject, resource: Subject, old: dict[str, Any], new: dict[str, Any], same: SameTest
) -> Iterator[SubjectDifference]:
    before, after = (_blocks(result.get("contents")) for result in (old, new))
    path: Path = ("result", "contents")
    if len(before) != len(after):
        kinds, others = ([_kind_of_block(block) for block in blocks] for blocks in (before, after))
        yield call, Difference("call-content-type-changed", path, kinds, others)
        return
    for at, (one, other) in enumerate(zip(before, after, strict=True)):
        media, another = (protocol.member(block, "mimeType") for block in (one, other))
        if media != another:
            yield resource, Difference("resource-mime-type-changed", (*path, at, "mimeType"), media, another)
        yield from attach_subject(resource, compare_pages(one, other, (*path, at)))
        for found in _compare_block(one, other, (*path, at), same):
            if found.path[-1] != "mimeType":
                is_text = found.rule == "call-text-changed"
                yield from [(resource, found._replace(rule="resource-text-changed"))] if is_text else [(call, found)]
