"""Python functions that answer instead of the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import jsontext, protocol, rewrite
from .calls import Call
from .playback import Send, said

Function = Callable[..., Any]
_INTERNAL_ERROR = -32603


class _StandIn(NamedTuple):
    method: str
    name: str | None
    function: Function


class StandIns:
    """The newest that fits a call answers it."""

    def __init__(self) -> None:
        self._all: list[_StandIn] = []

    def add(self, method: str, name: str | None, function: Function) -> None:
        self._all.insert(0, _StandIn(method, name, function))

    def answer(self, call: Call) -> Send | None:
        """What to say to a call, if there is somebody to say it."""
        message = call.message
        for method, name, function in self._all:
            if method == message.method and name in (None, message.name):
                return _answered(call, function)
        return None


def _answered(call: Call, function: Function) -> Send:
    params = call.message.body.get("params")
    is_tool = call.message.method == protocol.CALL
    try:
        given: Any = (protocol.member(params, "arguments") or {}) if is_tool else params
        result = function(**given) if is_tool else function(given)
    except Exception as error:  # whatever it raises is what the client is to see
        if is_tool:
            return said(call, "result", rewrite.tool_error(str(error) or type(error).__name__))
        return said(call, "error", rewrite.error(_INTERNAL_ERROR, str(error) or type(error).__name__))
    if is_tool and not (isinstance(result, dict) and "content" in result):
        text = result if isinstance(result, str) else jsontext.dumps(result)
        result = {"content": [{"type": "text", "text": text}]}
    if isinstance(result, dict) and protocol.is_modern(call.message.body):
        result = {"resultType": "complete"} | result
    return said(call, "result", jsontext.dumps(result))
