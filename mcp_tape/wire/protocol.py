"""The only file that knows MCP: which params name a call, what identifies it, what must stay as it is.

Messages are told apart by their shape alone; no method is ever required to be known.
"""

from __future__ import annotations

from collections.abc import Iterator
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

LISTEN = "subscriptions/listen"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
INITIALIZE = "initialize"
DISCOVER = "server/discover"
PING = "ping"
CALL = "tools/call"
TOOLS = "tools/list"
INITIALIZED = "notifications/initialized"
_INITIALIZED = (INITIALIZED, "initialized")
# What a client sends to find out whom it talks to: never a miss, and no conversation.
PROBES = (DISCOVER, PING)
_HOUSEKEEPING = frozenset({PING, INITIALIZE, DISCOVER, "logging/setLevel", "completion/complete", "resources/read"})
# What may be asked again, and the notification that says when that is worth while.
CHANGED_BY = {
    "tools/list": "notifications/tools/list_changed",
    "prompts/list": "notifications/prompts/list_changed",
    "resources/list": "notifications/resources/list_changed",
    "resources/templates/list": "notifications/resources/list_changed",
    "resources/read": "notifications/resources/updated",
}
CHANGES = frozenset(CHANGED_BY.values())
_META = "io.modelcontextprotocol/"

# Where a message names a request, by its id or the token that it gave.
NAMING: tuple[Path, ...] = (
    ("params", "requestId"),
    ("params", "progressToken"),
    ("params", "_meta", "progressToken"),
    ("params", "_meta", _META + "subscriptionId"),
    ("result", "_meta", _META + "subscriptionId"),
)

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
        *[("headers", f"mcp-{what}") for what in ("session-id", "protocol-version", "method", "name")],
        ("headers", "last-event-id"),
    ]
)

# HTTP. Headers are kept on the tape where they matter to what is said; others may be anything, secrets too.
SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
RESUME_HEADER = "last-event-id"
PARAM_HEADER = "mcp-param-"  # and the name of a parameter
_KEPT_HEADERS = frozenset(
    "accept accept-encoding allow authorization cache-control content-encoding content-length content-type cookie "
    "last-event-id location origin retry-after set-cookie user-agent www-authenticate".split()
)
_LEGACY_VERSIONS = frozenset({"2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
# The client is to try again, elsewhere, later or with credentials: it has no answer yet.
RETRY_STATUSES = frozenset({301, 302, 303, 307, 308, 401, 407, 408, 425, 429, 503})

# Below these keys stands a JSON Schema: its property names are words, not secrets.
SCHEMA_KEYS = frozenset({"inputSchema", "outputSchema", "requestedSchema"})

# Parameters of the handshake that describe the client and not the request.
_CLIENT_FACTS = frozenset({"clientInfo", "capabilities", "protocolVersion"})
# Where absent, null and {} mean the same.
_EMPTY_IS_ABSENT = ("arguments", "cursor")
_OFTEN_LEFT_OUT = frozenset({"_meta", "inputResponses"})


def call_name(method: str, params: Any) -> str | None:
    """The tool, prompt, resource or task that a request is about."""
    name = params.get(_NAMED_BY.get(method)) if isinstance(params, dict) else None
    return name if isinstance(name, str) else None


def is_housekeeping(method: str) -> bool:
    """Asked as often as a client likes: when its answers are played out, the last one is repeated."""
    return method in _HOUSEKEEPING or method.endswith("/list")


def notification_names(method: str) -> tuple[str, ...]:
    """The names under which a notification may have been recorded: some clients just say `initialized`."""
    return _INITIALIZED if method in _INITIALIZED else (method,)


def identifying(method: str, params: Any) -> Any:
    """What of the params tells one request from another."""
    if params is None or params == {}:
        return {}
    if not isinstance(params, dict):
        return params
    if method != INITIALIZE and _OFTEN_LEFT_OUT.isdisjoint(params) and all(map(params.get, _EMPTY_IS_ABSENT, "xx")):
        return params
    left_out = _CLIENT_FACTS if method == INITIALIZE else frozenset()
    kept = {k: v for k, v in params.items() if k != "_meta" and k not in left_out}
    for key in _EMPTY_IS_ABSENT:
        if key in kept and kept[key] in (None, {}):
            del kept[key]
    if isinstance(kept.get("inputResponses"), dict):
        kept["inputResponses"] = dict.fromkeys(kept["inputResponses"])
    return kept


def member(value: Any, name: str) -> Any:
    """A member of what may be an object."""
    return value.get(name) if isinstance(value, dict) else None


def progress_token_asked(body: dict[str, Any]) -> Any:
    """The token under which a request wants to hear of progress."""
    return member(member(body.get("params"), "_meta"), "progressToken")


def subscription_id(body: dict[str, Any]) -> Any:
    """The listen request that a message of the modern era belongs to."""
    return member(member(body.get("params"), "_meta"), _META + "subscriptionId")


def result_status(result: Any) -> str:
    """How a result ended: ok, tool-error (the call was made and failed) or input-required."""
    if isinstance(result, dict):
        if result.get("isError") is True:
            return "tool-error"
        if result.get("resultType") == "input_required":
            return "input-required"
    return "ok"


def kept_header(name: str) -> bool:
    """Whether an HTTP header belongs on the tape."""
    return name in _KEPT_HEADERS or name.startswith("mcp-")


def is_modern(body: dict[str, Any], version: str | None = None) -> bool:
    """Whether a request without a session is of the modern era: it tells its protocol version itself, or its header
    names one that has no sessions."""
    named = member(member(body.get("params"), "_meta"), _META + "protocolVersion")
    return named is not None or (version is not None and version not in _LEGACY_VERSIONS)


def tools_that_read(body: dict[str, Any]) -> Iterator[str]:
    """The tools of a list that are said to change nothing. One that says nothing may."""
    tools = member(body.get("result"), "tools")
    for tool in tools if isinstance(tools, list) else []:
        name = member(tool, "name")
        if isinstance(name, str) and member(member(tool, "annotations"), "readOnlyHint") is True:
            yield name


def client_meta(version: str, info: dict[str, Any]) -> dict[str, Any]:
    """What every request of the modern era tells about its client."""
    told = {"protocolVersion": version, "clientInfo": info, "clientCapabilities": {}}
    return {"_meta": {_META + name: value for name, value in told.items()}}


def session_facts(method: str | None, body: dict[str, Any]) -> dict[str, str]:
    """What a message tells about its session: versions and names of both sides.

    `method` is the message's own or, for a response, that of the request it answers.
    """
    facts: dict[str, Any] = {}
    params, result = body.get("params"), body.get("result")
    if isinstance(params, dict):
        modern = member(params.get("_meta"), _META + "clientInfo")
        facts |= _named("client", params.get("clientInfo") if method == "initialize" else modern)
        facts["protocol_version"] = member(params.get("_meta"), _META + "protocolVersion")
    if isinstance(result, dict) and method is not None:
        if method in ("initialize", "server/discover"):
            facts |= _named("server", result.get("serverInfo"))
            facts["protocol_version"] = result.get("protocolVersion")
        # In the modern era every result may say whose it is.
        facts |= _named("server", member(result.get("_meta"), _META + "serverInfo"))
    return {k: v for k, v in facts.items() if isinstance(v, str)}


def _named(side: str, info: Any) -> dict[str, Any]:
    if not isinstance(info, dict):
        return {}
    return {f"{side}_name": info.get("name"), f"{side}_version": info.get("version")}
