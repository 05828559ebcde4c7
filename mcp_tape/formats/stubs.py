"""Stubs: calls with their answers, written by hand, one JSON object per line. They become a session like any recording.

A first line `{"lock": "mcp.lock"}` names a lock beside the file, and `with_lock` one elsewhere. A lock gives the
handshake, the lists and the schemas, which arguments and answers are checked against. Without one, the replay makes
these up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..compare.versions import Version
from ..diff.locking import open_lock
from ..diff.sources import parse
from ..errors import CassetteError
from ..replay.matching.partial import misfit
from ..replay.stage import STUBS
from ..wire import jsontext, protocol
from .foreign import Item, JsonRow, Loss, Reader, SessionStart, SourceFile, sent_value

_KINDS = {"tool": protocol.CALL, "prompt": protocol.GET_PROMPT, "resource": protocol.READ, "method": None}
_LISTS = {"tool": protocol.TOOLS, "prompt": protocol.PROMPTS, "resource": protocol.RESOURCES}
_ANSWERS = ("result", "error")
_MEMBERS = {*_KINDS, *_ANSWERS, "arguments", "params"}
_lock: ContextVar[str | None] = ContextVar("lock", default=None)


@contextmanager
def with_lock(path: str) -> Iterator[None]:
    """Use a lock for the stubs that are opened within the block, in this thread."""
    token = _lock.set(os.path.abspath(path))
    try:
        yield
    finally:
        _lock.reset(token)


def is_stubs(path: str) -> bool:
    """Return whether a file holds stubs. Raises CassetteError if it can't be read."""
    try:
        return _fits(SourceFile(path))
    except OSError as error:
        raise CassetteError(f"cannot read the stubs in {path}: {error.strerror or error}") from None


def lines_of(stubs: str | Iterable[Mapping[str, Any]], lock: str | os.PathLike[str] | None) -> Iterator[str]:
    """The lines of a stubs file, made from another such file or from values; with another lock, if one is given."""
    rows: list[Mapping[str, Any]] = []
    if isinstance(stubs, str):
        rows = [
            row.value for row in SourceFile(stubs).rows() if isinstance(row, JsonRow) and row.value.keys() != {"lock"}
        ]
    else:
        rows = list(stubs)
    yield from map(jsontext.dumps, [{"lock": os.path.abspath(lock)}, *rows] if lock else rows)


def _fits(source: SourceFile) -> bool:
    """Return whether the first line names a lock, or is a stub, perhaps with a mistake."""
    first = source.first.keys()
    kinds = first & _KINDS.keys()
    is_almost = bool(kinds - {"method"}) and len(first - _MEMBERS) <= 1
    return first == {"lock"} or is_almost or (len(kinds) == 1 and bool(first & set(_ANSWERS)) and first <= _MEMBERS)


def _read(source: SourceFile) -> Iterator[Item]:
    stubs = list(source.rows())
    named = source.first.get("lock")
    lock = _lock.get()
    if named is not None:
        stubs = stubs[1:]
        lock = lock or os.path.join(os.path.dirname(source.path), str(named))
    place = parse(lock) if lock else None
    version = open_lock(place.path).version(place.label) if place else None
    yield SessionStart(target={"stubs": os.path.basename(source.path)})
    said = [*_offer(version), *_calls(source.path, stubs, version)]
    for asked, (method, params, answer) in enumerate(said, 1):
        yield sent_value(asked, "client", {"jsonrpc": "2.0", "id": asked, "method": method, "params": params})
        yield sent_value(asked, "server", {"jsonrpc": "2.0", "id": asked, **answer})
        if method == protocol.INITIALIZE:
            yield sent_value(asked, "client", {"jsonrpc": "2.0", "method": protocol.INITIALIZED})


def _offer(version: Version | None) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The handshake and the lists of a lock."""
    if version is None:
        return
    surface = version.surface
    spoken = [one for one in surface.versions if one in protocol.LEGACY_VERSIONS]
    hello = {
        "protocolVersion": spoken[0] if spoken else protocol.LAST_LEGACY_VERSION,
        "capabilities": surface.capabilities or {},
        "serverInfo": {"name": surface.name or "server", "version": surface.version or "0", **surface.info},
    } | ({"instructions": surface.instructions} if surface.instructions else {})
    info = {"name": "mcp-tape", "version": "0"}
    params = {"protocolVersion": hello["protocolVersion"], "capabilities": {}, "clientInfo": info}
    yield protocol.INITIALIZE, params, {"result": hello}
    for kind in protocol.KINDS:
        listed = surface.lists[kind.method]
        if not listed.why and protocol.declares(surface.capabilities, kind):
            items = [one for key, item in listed.items.items() for one in (item, *listed.again.get(key, ()))]
            yield kind.method, {}, {"result": {kind.member: items}}


def _calls(
    path: str, stubs: list[JsonRow | Loss], version: Version | None
) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    for number, row in enumerate(stubs, 1):
        where = f"{path}, stub {number}"
        if isinstance(row, Loss):
            raise CassetteError(f"{where} is not a JSON object")
        yield _call(row.value, where, version)


def _call(stub: dict[str, Any], where: str, version: Version | None) -> tuple[str, Any, dict[str, Any]]:
    kinds, answers = stub.keys() & _KINDS.keys(), stub.keys() & set(_ANSWERS)
    if unknown := stub.keys() - _MEMBERS:
        raise CassetteError(f"{where} has {', '.join(sorted(unknown))}; a stub has {', '.join(sorted(_MEMBERS))}")
    if len(kinds) != 1 or len(answers) != 1:
        raise CassetteError(f"{where} needs one of {', '.join(_KINDS)}, and one of {', '.join(_ANSWERS)}")
    (kind,), (answer,) = kinds, answers
    name, arguments = stub[kind], stub.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict) or not isinstance(stub.get("params", {}), dict):
        raise CassetteError(f"{where}: {kind} is a text, arguments and params are objects")
    if kind == "method":
        return name, stub.get("params", {}), {answer: _error(stub[answer]) if answer == "error" else stub[answer]}
    definition = _definition(kind, name, where, version)
    if kind == "resource":
        return protocol.READ, {"uri": name}, _plain_answer(stub[answer], answer, _contents, name)
    params = {"name": name, "arguments": arguments}
    if kind == "prompt":
        return protocol.GET_PROMPT, params, _plain_answer(stub[answer], answer, _messages, name)
    _check_arguments(name, arguments, definition, where)
    return protocol.CALL, params, _tool_answer(stub, answer, definition, where)


def _plain_answer(value: Any, answer: str, form: Callable[[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    """The answer of a prompt or resource. A whole result has the member that `form` makes of a text."""
    if answer == "error":
        return {"error": _error(value)}
    result = form(name, value if isinstance(value, str) else jsontext.dumps(value))
    return {"result": value if isinstance(value, dict) and result.keys() <= value.keys() else result}


def _error(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"code": protocol.INTERNAL_ERROR, "message": str(value)}


def _contents(uri: str, text: str) -> dict[str, Any]:
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


def _messages(_: str, text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


def _definition(kind: str, name: str, where: str, version: Version | None) -> dict[str, Any]:
    """The definition of a tool, prompt or resource in the lock. Raises CassetteError if it is missing."""
    if version is None:
        return {}
    lists = version.surface.lists
    listed = lists[_LISTS[kind]]
    if name in listed.items:
        return listed.items[name]
    if listed.why or (kind == "resource" and lists[protocol.TEMPLATES].items):
        return {}  # the server may have it all the same
    raise CassetteError(f"{where}: the lock has no {kind} {name}; it has: {', '.join(listed.items) or 'none'}")


def _check_arguments(name: str, arguments: dict[str, Any], tool: dict[str, Any], where: str) -> None:
    """Raise CassetteError if a tool does not take these arguments, whatever others there may be."""
    if why := misfit(tool.get("inputSchema"), arguments, is_partial=True):
        raise CassetteError(f"{where}: the arguments do not fit the input schema of {name}: {why}")


def _tool_answer(stub: dict[str, Any], answer: str, tool: dict[str, Any], where: str) -> dict[str, Any]:
    value = stub[answer]
    if answer == "error":
        if isinstance(value, dict):
            return {"error": value}
        return {"result": {"content": [{"type": "text", "text": str(value)}], "isError": True}}
    if isinstance(value, dict) and "content" in value:
        result = value
    else:
        text = value if isinstance(value, str) else jsontext.dumps(value)
        result = {"content": [{"type": "text", "text": text}]}
        schema = tool.get("outputSchema")
        if isinstance(value, dict):
            result["structuredContent"] = value
        elif schema is not None and set(protocol.member(schema, "properties") or ()) == {"result"}:
            result["structuredContent"] = {"result": value}
    if (schema := tool.get("outputSchema")) is not None and not result.get("isError"):
        why = misfit(schema, result["structuredContent"]) if "structuredContent" in result else "no structuredContent"
        if why:
            raise CassetteError(f"{where}: the result does not fit the output schema of {stub['tool']}: {why}")
    return {"result": result}


READER = Reader(STUBS, _fits, _read, is_redacted=False)
