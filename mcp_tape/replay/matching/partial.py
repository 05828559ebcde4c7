"""Recordings written by hand: stubs, and lines without a handshake. Missing parts are made up or not compared.

The arguments of a stub may be partial: it answers each call that has at least these. Of several stubs, the one with the
most arguments answers, then the first. A call whose arguments do not fit the tool's input schema gets an error, as from
a server. A missing handshake and missing lists are made from the recorded calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...wire import jsontext, protocol, rewrite
from ..finder import FoundRequest
from ..sends import ClientCall, Send, make_answer
from .ladder import Choose, Ladder

if TYPE_CHECKING:
    from ...cassette.lookup.messages import RecordedMessage
    from ...wire.frames import Message
    from ..selection import Selection

StandIn = Callable[[ClientCall], Send | None]
# Keywords of a schema about members that may be missing from a part of a value.
_OF_WHOLE = ("required", "minProperties", "dependentRequired", "dependencies", "contains", "if", "not")


class PartialLadder(Ladder):
    """A ladder whose first rung matches a recording to calls with at least its arguments."""

    def find(self, message: Message, params: Any, choose: Choose) -> FoundRequest | None:
        method = message.method or ""
        if protocol.is_addressed(method):
            found = choose(method, self._fullest(method, message.name, _arguments(params)))
            if found.recorded is not None:
                return found  # intended, so not reported as inexact
        return super().find(message, params, choose)

    def _fullest(self, method: str, name: str | None, live: Any) -> list[RecordedMessage]:
        """The fitting recordings with the most arguments: the first, and those equal to it."""
        best: list[RecordedMessage] = []
        most, same = -1, b""
        for row in self._candidates(method, name):
            recorded = _arguments(self._params(row)[0])
            size, form = sum(1 for _ in _leaves(recorded)), jsontext.canonical_bytes(recorded)
            if size > most and contains(live, recorded):
                best, most, same = [row], size, form
            elif size == most and form == same:
                best.append(row)
        return best


def _arguments(params: Any) -> Any:
    return protocol.member(params, "arguments") or {}


def _leaves(value: Any) -> Iterator[Any]:
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _leaves(inner)
    if not isinstance(value, dict | list):
        yield value


def contains(live: Any, recorded: Any) -> bool:
    """Return whether a live value has at least the members of a recorded one, at any depth."""
    if isinstance(recorded, dict) and isinstance(live, dict):
        return all(name in live and contains(live[name], value) for name, value in recorded.items())
    if isinstance(recorded, list) and isinstance(live, list) and len(recorded) == len(live):
        return all(map(contains, live, recorded))
    return bool(live == recorded) and isinstance(live, bool) == isinstance(recorded, bool)


class HandWritten:
    """Answers requests that a hand-written recording leaves out. `stand_in` is asked first."""

    def __init__(self, selection: Selection, note: Callable[[str], None], stand_in: StandIn | None) -> None:
        self._selection = selection
        self._note = note
        self._stand_in = stand_in

    def answer(self, call: ClientCall) -> Send | None:
        if self._stand_in is not None and (send := self._stand_in(call)) is not None:
            return send
        method = call.message.method or ""
        if method == protocol.CALL:
            return self._refusal(call)
        if not self._capabilities or self._selection.has_method(method):
            return None
        if method == protocol.INITIALIZE:
            return make_answer(call, "result", jsontext.dumps(self._greeting(call.message.body.get("params"))))
        kind = next((kind for kind in protocol.KINDS if kind.method == method), None)
        if kind is None or not protocol.declares(self._capabilities, kind):
            return None
        return make_answer(call, "result", jsontext.dumps({kind.member: list(self._items(kind))}))

    @cached_property
    def _capabilities(self) -> dict[str, Any]:
        """The capabilities that the recorded calls imply; empty if a handshake was recorded."""
        if any(map(self._selection.has_method, protocol.INTRODUCTIONS)):
            return {}
        return protocol.legacy_capabilities(None, self._selection.has_method)

    def _greeting(self, params: Any) -> dict[str, Any]:
        offered = protocol.member(params, "protocolVersion")
        version = offered if offered in protocol.LEGACY_VERSIONS else protocol.LAST_LEGACY_VERSION
        name = os.path.basename(self._selection.path).partition(".")[0]
        return {
            "protocolVersion": version,
            "capabilities": self._capabilities,
            "serverInfo": {"name": name, "version": "0"},
        }

    def _items(self, kind: protocol.Kind) -> Iterator[dict[str, Any]]:
        """The items of a list, made from the recorded requests for them."""
        uses = {protocol.TOOLS: protocol.CALL, protocol.PROMPTS: protocol.GET_PROMPT, protocol.RESOURCES: protocol.READ}
        rows = self._selection.requests(uses[kind.method]) if kind.method in uses else []
        given: dict[str, list[Any]] = {}
        for row in rows:
            if row.name is not None:
                given.setdefault(row.name, []).append(_arguments(self._selection.message(row).body.get("params")))
        for name, several in given.items():
            if kind.method == protocol.TOOLS:
                yield {"name": name, "inputSchema": {"type": "object", "properties": _examples(several)}}
            elif kind.method == protocol.PROMPTS:
                yield {"name": name, "arguments": [{"name": each} for each in _examples(several)]}
            else:
                yield {"uri": name, "name": name}

    # -- invalid arguments

    def _refusal(self, call: ClientCall) -> Send | None:
        """The answer to a call whose arguments do not fit the input schema; None if they fit."""
        schema = self._schemas.get(call.message.name or "")
        why = misfit(schema, _arguments(call.message.body.get("params"))) if schema is not None else ""
        if not why:
            return None
        self._note(f"{protocol.CALL} {call.message.name}: the arguments do not fit the input schema: {why}")
        text = rewrite.tool_error(f"Input validation error: {why}", call.message.body)
        return make_answer(call, "result", text)

    @cached_property
    def _schemas(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for answer in filter(None, map(self._selection.answer, self._selection.requests(protocol.TOOLS))):
            tools = protocol.member(self._selection.message(answer).body.get("result"), "tools")
            for tool in tools if isinstance(tools, list) else ():
                found[str(protocol.member(tool, "name"))] = protocol.member(tool, "inputSchema")
        return found


def _examples(several: Iterable[Any]) -> dict[str, Any]:
    """The properties of a schema, with the recorded values as examples."""
    found: dict[str, dict[str, list[Any]]] = {}
    for arguments in several:
        for name, value in arguments.items() if isinstance(arguments, dict) else ():
            values = found.setdefault(name, {"examples": []})["examples"]
            if value not in values:
                values.append(value)
    return found


def _allow(*_: Any) -> Iterable[Any]:
    """A keyword of a schema that forbids nothing."""
    return ()


def misfit(schema: Any, value: Any, *, is_partial: bool = False) -> str:
    """Return why a value does not fit a JSON Schema; nothing if it does, or if the schema cannot be used.

    `is_partial`: members of the value may be missing, at any depth.
    """
    from jsonschema import exceptions, validators  # slow to import
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        kind = validators.validator_for(schema, default=validators.Draft202012Validator)
        kind.check_schema(schema)
        if is_partial:
            kind = validators.extend(
                kind, dict.fromkeys(_OF_WHOLE, _allow) | {"oneOf": kind.VALIDATORS.get("anyOf", _allow)}
            )
        errors = kind(schema, registry=Registry()).iter_errors(value)
        errors = sorted(errors, key=lambda error: list(map(str, error.path)))
    except (exceptions.SchemaError, Unresolvable, RecursionError, TypeError, ValueError):
        return ""
    return f"{errors[0].json_path}: {errors[0].message[:200]}" if errors else ""
