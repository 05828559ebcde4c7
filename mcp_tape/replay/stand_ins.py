"""Python functions that answer instead of the tape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..errors import TapeError
from ..wire import jsontext, protocol, rewrite
from .calls import Call
from .sends import Send, said

Function = Callable[..., Any]
LIST = "tools/list"
_INTERNAL_ERROR = -32603


class _StandIn(NamedTuple):
    method: str
    name: str | None
    function: Function


class StandIns:
    """The newest that fits a call answers it. `schemas` gives what tools promise to return, by their names."""

    def __init__(self, schemas: Callable[[], dict[str, Any]] = dict) -> None:
        self._all: list[_StandIn] = []
        self._find_schemas = schemas
        self._schemas: dict[str, Any] | None = None

    def add(self, method: str, name: str | None, function: Function) -> None:
        import inspect  # only now: most replays have none

        if inspect.iscoroutinefunction(function):
            raise TapeError(f"{function!r} is asynchronous: only a plain function can answer for the tape")
        self._all.insert(0, _StandIn(method, name, function))

    def answer(self, call: Call) -> Send | None:
        """What to say to a call, if there is somebody to say it."""
        message = call.message
        for method, name, function in self._all:
            if method == message.method and name in (None, message.name):
                return self._answered(call, function)
        return None

    def _answered(self, call: Call, function: Function) -> Send:
        params = call.message.body.get("params")
        is_tool = call.message.method == protocol.CALL
        try:
            if is_tool:
                returned = function(**(protocol.member(params, "arguments") or {}))
                return _said(call, _tool_result(returned, self._schema(call.message.name)))
            return _said(call, function(params))
        except Exception as error:  # whatever it raises is what the client is to see
            why = str(error) or type(error).__name__
        if is_tool:
            return _said(call, _text(why) | {"isError": True})
        return said(call, "error", rewrite.error(_INTERNAL_ERROR, why))

    def _schema(self, tool: str | None) -> Any:
        if self._schemas is None:
            self._schemas = self._find_schemas()
        return self._schemas.get(tool or "")


def _said(call: Call, result: Any) -> Send:
    if isinstance(result, dict) and protocol.is_modern(call.message.body):
        result = {"resultType": "complete"} | result
    return said(call, "result", jsontext.dumps(result))


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def _tool_result(returned: Any, schema: Any) -> dict[str, Any]:
    """A whole result, made from a text or a value; clients insist on the structure that a tool has promised."""
    if isinstance(returned, dict) and "content" in returned:
        return returned
    result = _text(returned if isinstance(returned, str) else jsontext.dumps(returned))
    if schema is None:
        return result
    # Servers whose tools return no object promise one with the single member "result".
    is_wrapped = set(protocol.member(schema, "properties") or ()) == {"result"}
    if is_wrapped and not (isinstance(returned, dict) and "result" in returned):
        return result | {"structuredContent": {"result": returned}}
    return result | ({"structuredContent": returned} if isinstance(returned, dict) else {})


def output_schemas(lists: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What tools promise to return, by their names, from answers that list them."""
    found: dict[str, Any] = {}
    for answer in lists:
        tools = protocol.member(answer.get("result"), "tools")
        for tool in tools if isinstance(tools, list) else ():
            name, schema = protocol.member(tool, "name"), protocol.member(tool, "outputSchema")
            if isinstance(name, str) and schema is not None:
                found[name] = schema
    return found
