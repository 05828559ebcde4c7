"""The HTTP headers that repeat a modern message, made from the message itself.

https://modelcontextprotocol.io/specification/draft/basic/transports
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from ..wire import protocol
from ..wire.jsontext import Path

_NAMED = (protocol.CALL, protocol.GET_PROMPT, protocol.READ)  # requests with a name header


def headers_of_message(body: dict[str, Any], params: Mapping[Path, str]) -> dict[str, str]:
    """The headers that repeat a modern message: version, method, name, and the arguments that have a header."""
    if not protocol.is_modern(body):
        return {}
    method, asked = str(body.get("method")), body.get("params")
    name = protocol.call_name(method, asked)
    headers = {
        protocol.VERSION_HEADER: str(protocol.member(protocol.member(asked, "_meta"), protocol.META_VERSION)),
        protocol.METHOD_HEADER: _encode(method),
    }
    if name is not None and (method in _NAMED or method.startswith(protocol.TASK_PREFIX)):
        headers[protocol.NAME_HEADER] = _encode(name)
    return headers | _argument_headers(protocol.member(asked, "arguments"), params)


def tool_headers(body: dict[str, Any]) -> dict[str, dict[Path, str]]:
    """The arguments that have a header, by tool, from a `tools/list` response."""
    tools = protocol.member(body.get("result"), "tools")
    found = {}
    for tool in tools if isinstance(tools, list) else ():
        name, schema = protocol.member(tool, "name"), protocol.member(tool, "inputSchema")
        if isinstance(name, str):
            found[name] = dict(_find_marked(schema, ()))
    return found


def _encode(value: str) -> str:
    """Encode the value of a header, unless it is plain and can't be mistaken for an encoded one."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode()}?="


def _find_marked(schema: Any, path: Path) -> Iterator[tuple[Path, str]]:
    properties = protocol.member(schema, "properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        token = protocol.member(inner, "x-mcp-header")
        if isinstance(token, str):
            yield (*path, name), token
        elif len(path) < 10:
            yield from _find_marked(inner, (*path, name))


def _argument_headers(arguments: Any, params: Mapping[Path, str]) -> dict[str, str]:
    headers = {}
    for path, token in params.items():
        value = arguments
        for step in path:
            value = protocol.member(value, str(step))
        if isinstance(value, (str, int, float)):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            headers[protocol.PARAM_HEADER + token.lower()] = _encode(text)
    return headers
