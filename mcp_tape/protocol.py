"""The only file that knows MCP: which params name a call, what identifies it, what must stay as it is.

Messages are told apart by their shape alone; no method is ever required to be known.
"""

from __future__ import annotations

from typing import Any

from .jsontext import Path

# The parameter that names what a request is about.
_NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "tasks/get": "taskId",
    "tasks/result": "taskId",
    "tasks/cancel": "taskId",
}

_META = "io.modelcontextprotocol/"

# Values that the protocol itself needs, by their path without list indexes. A redaction here would
# break the replay: clients echo them, and routing depends on them.
UNTOUCHED: frozenset[Path] = frozenset(
    [
        ("jsonrpc",),
        ("id",),
        ("method",),
        ("params", "name"),
        ("params", "cursor"),
        ("params", "taskId"),
        ("params", "requestState"),
        ("params", "requestId"),
        ("params", "progressToken"),
        ("params", "_meta", "progressToken"),
        ("params", "_meta", _META + "subscriptionId"),
        ("params", "_meta", _META + "related-task", "taskId"),
        ("result", "_meta", _META + "subscriptionId"),
        ("result", "_meta", _META + "related-task", "taskId"),
        ("result", "nextCursor"),
        ("result", "requestState"),
        ("result", "taskId"),
        ("result", "task", "taskId"),
        ("result", "tasks", "taskId"),
        ("result", "tools", "name"),
        ("result", "prompts", "name"),
    ]
)

# Below these keys stands a JSON Schema: its property names are words, not secrets.
SCHEMA_KEYS = frozenset({"inputSchema", "outputSchema", "requestedSchema"})

# Parameters of the handshake that describe the client and not the request.
_CLIENT_FACTS = frozenset({"clientInfo", "capabilities", "protocolVersion"})
# Where absent, null and {} mean the same.
_EMPTY_IS_ABSENT = ("arguments", "cursor")


def call_name(method: str, params: Any) -> str | None:
    """The tool, prompt, resource or task that a request is about."""
    name = params.get(_NAMED_BY.get(method)) if isinstance(params, dict) else None
    return name if isinstance(name, str) else None


def identifying(method: str, params: Any) -> Any:
    """What of the params tells one request from another."""
    if params is None or params == {}:
        return {}
    if not isinstance(params, dict):
        return params
    left_out = _CLIENT_FACTS if method == "initialize" else frozenset()
    kept = {k: v for k, v in params.items() if k != "_meta" and k not in left_out}
    for key in _EMPTY_IS_ABSENT:
        if key in kept and kept[key] in (None, {}):
            del kept[key]
    if isinstance(kept.get("inputResponses"), dict):
        kept["inputResponses"] = dict.fromkeys(kept["inputResponses"])
    return kept


def result_status(result: Any) -> str:
    """How a result ended: ok, tool-error (the call was made and failed) or input-required."""
    if isinstance(result, dict):
        if result.get("isError") is True:
            return "tool-error"
        if result.get("resultType") == "input_required":
            return "input-required"
    return "ok"


def session_facts(method: str | None, body: dict[str, Any]) -> dict[str, str]:
    """What a message tells about its session: versions and names of both sides.

    `method` is the message's own or, for a response, that of the request it answers.
    """
    facts: dict[str, Any] = {}
    params, result = body.get("params"), body.get("result")
    if isinstance(params, dict):
        meta = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        modern = meta.get(_META + "clientInfo")
        info = params.get("clientInfo") if method == "initialize" else modern
        facts |= _named("client", info)
        facts["protocol_version"] = meta.get(_META + "protocolVersion")
    if isinstance(result, dict) and method in ("initialize", "server/discover"):
        facts |= _named("server", result.get("serverInfo"))
        meta = result.get("_meta")
        if isinstance(meta, dict):
            facts |= _named("server", meta.get(_META + "serverInfo"))
        facts["protocol_version"] = result.get("protocolVersion")
    return {k: v for k, v in facts.items() if isinstance(v, str)}


def _named(side: str, info: Any) -> dict[str, Any]:
    if not isinstance(info, dict):
        return {}
    return {f"{side}_name": info.get("name"), f"{side}_version": info.get("version")}
