"""The words of MCP: methods, revisions, headers, list kinds, what identifies a call, what stays opaque.

No method has to be known: messages are classified by shape alone (frames.py).

https://modelcontextprotocol.io/specification/2025-11-25 is the last revision of the legacy era.
"""

from __future__ import annotations

from ..light import NamedTuple
from .jsontext import Path

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


# Requests, by subject.
INITIALIZE, DISCOVER, PING = "initialize", "server/discover", "ping"
TOOLS, CALL = "tools/list", "tools/call"
PROMPTS, GET_PROMPT = "prompts/list", "prompts/get"
RESOURCES, TEMPLATES, READ = "resources/list", "resources/templates/list", "resources/read"
SUBSCRIBE, UNSUBSCRIBE, LISTEN = "resources/subscribe", "resources/unsubscribe", "subscriptions/listen"
SET_LEVEL, COMPLETE = "logging/setLevel", "completion/complete"
TASK_PREFIX, TASKS, TASK, TASK_RESULT = "tasks/", "tasks/list", "tasks/get", "tasks/result"
TASK_CANCEL, TASK_UPDATE = "tasks/cancel", "tasks/update"
SKILLS, SKILL, DIRECTORY = "skills/list", "skills/get", "resources/directory/read"
ROOTS, SAMPLE, ELICIT = "roots/list", "sampling/createMessage", "elicitation/create"  # sent by servers

# Notifications.
NOTIFICATION_PREFIX = "notifications/"
INITIALIZED, BARE_INITIALIZED = "notifications/initialized", "initialized"  # some clients send the bare name
INITIALIZED_NAMES = (INITIALIZED, BARE_INITIALIZED)
CANCELLED, PROGRESS, LOGGED = "notifications/cancelled", "notifications/progress", "notifications/message"
TOOLS_CHANGED, PROMPTS_CHANGED = "notifications/tools/list_changed", "notifications/prompts/list_changed"
RESOURCES_CHANGED, RESOURCE_UPDATED = "notifications/resources/list_changed", "notifications/resources/updated"
ROOTS_CHANGED, ACKNOWLEDGED = "notifications/roots/list_changed", "notifications/subscriptions/acknowledged"
TASK_STATUS, ELICITED = "notifications/tasks/status", "notifications/elicitation/complete"

# Revisions. A legacy session begins with a handshake; the modern era has neither handshakes nor HTTP sessions.
LEGACY_VERSIONS = ("2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LAST_LEGACY_VERSION, MODERN_VERSION = LEGACY_VERSIONS[-1], "2026-07-28"

# Keys of `_meta`.
META = "io.modelcontextprotocol/"
META_VERSION, META_SUBSCRIPTION, META_TASK = META + "protocolVersion", META + "subscriptionId", META + "related-task"
META_CLIENT, META_SERVER = META + "clientInfo", META + "serverInfo"
META_CAPABILITIES = META + "clientCapabilities"
SKILLS_EXTENSION = META + "skills"  # below `extensions` of the capabilities

# Error codes of JSON-RPC (https://www.jsonrpc.org/specification#error_object), then those of MCP and its SDKs.
NOT_JSON, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32601, -32602, -32603
SERVER_ERROR, NO_SESSION, RESOURCE_NOT_FOUND = -32000, -32001, -32002
REJECTED = -1  # by the user: https://modelcontextprotocol.io/specification/2025-11-25/client/sampling#error-handling
ERROR_STATUSES = {METHOD_NOT_FOUND: 404, -32020: 400, -32021: 400, -32022: 400}  # over HTTP, in the modern era


class Kind(NamedTuple):
    """A kind of thing that servers list."""

    what: str  # plural, for people
    subject: str  # singular
    method: str
    member: str  # of the result
    key: str  # of an item
    capability: str  # or the extension that declares it
    changed: str | None  # the notification of a changed list


KINDS = (
    Kind("tools", "tool", TOOLS, "tools", "name", "tools", TOOLS_CHANGED),
    Kind("resources", "resource", RESOURCES, "resources", "uri", "resources", RESOURCES_CHANGED),
    Kind("resource templates", "template", TEMPLATES, "resourceTemplates", "uriTemplate", "resources",
         RESOURCES_CHANGED),
    Kind("prompts", "prompt", PROMPTS, "prompts", "name", "prompts", PROMPTS_CHANGED),
    # https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
    Kind("skills", "skill", SKILLS, "skills", "uri", SKILLS_EXTENSION, None),
)  # fmt: skip
# Requests worth repeating, and the notification after which to repeat them.
CHANGED_BY = {kind.method: kind.changed for kind in KINDS if kind.changed} | {READ: RESOURCE_UPDATED}
CHANGES = frozenset(CHANGED_BY.values())
# Requests by which a client probes a server: never a miss, and not a conversation.
PROBES = (DISCOVER, PING)
INTRODUCTIONS = (INITIALIZE, DISCOVER)  # the answer to these identifies the server
_HOUSEKEEPING = frozenset({PING, INITIALIZE, DISCOVER, SET_LEVEL, COMPLETE, READ, SKILL, DIRECTORY})
# The parameter that names the subject of a request.
_NAMED_BY = dict.fromkeys((CALL, GET_PROMPT), "name") | dict.fromkeys(
    (TASK, TASK_RESULT, TASK_CANCEL, TASK_UPDATE), "taskId"
)
_NAMED_BY |= dict.fromkeys((READ, DIRECTORY, SUBSCRIBE, UNSUBSCRIBE, SKILL), "uri")

# Where a message refers to a request, by its id or its progress token: objects, and their members.
NAMING: tuple[tuple[Path, tuple[str, ...]], ...] = (
    (("params",), ("requestId", "progressToken")),
    (("params", "_meta"), ("progressToken", META_SUBSCRIPTION)),
    (("result", "_meta"), (META_SUBSCRIPTION,)),
)

# HTTP. Headers that matter to the conversation are kept on the tape. Others may hold anything, including secrets.
# https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
SESSION_HEADER, VERSION_HEADER = "mcp-session-id", "mcp-protocol-version"
METHOD_HEADER, NAME_HEADER = "mcp-method", "mcp-name"
RESUME_HEADER = "last-event-id"
PARAM_HEADER = "mcp-param-"  # followed by the name of a parameter
PATH, SSE_PATH = "/mcp", "/sse"  # customary paths: Streamable HTTP, HTTP+SSE
_KEPT_HEADERS = frozenset(
    "accept accept-encoding allow authorization cache-control content-encoding content-length content-type cookie "
    "last-event-id location origin retry-after set-cookie user-agent www-authenticate".split()
)
# Statuses that ask the client to try again, elsewhere, later or with credentials: not an answer yet.
RETRY_STATUSES = frozenset({301, 302, 303, 307, 308, 401, 407, 408, 425, 429, 503})

# Paths, without list indexes, of values that the protocol itself needs. Redacting one would break the replay: clients
# echo them, and routing depends on them.
UNTOUCHED: frozenset[Path] = frozenset(
    [
        ("jsonrpc",), ("id",), ("method",),
        *[("params", name) for name in "name cursor taskId requestState requestId progressToken".split()],
        ("params", "_meta", "progressToken"),
        *[(at, "_meta", *key) for at in ("params", "result") for key in ((META_SUBSCRIPTION,), (META_TASK, "taskId"))],
        *[("result", name) for name in "nextCursor requestState taskId".split()],
        ("result", "task", "taskId"), ("result", "tasks", "taskId"), ("result", "tools", "name"),
        ("result", "prompts", "name"),
        *[("headers", name) for name in (SESSION_HEADER, VERSION_HEADER, METHOD_HEADER, NAME_HEADER, RESUME_HEADER)],
    ]
)  # fmt: skip

# The value of these keys is a JSON Schema: its property names are words, not secrets.
SCHEMA_KEYS = frozenset({"inputSchema", "outputSchema", "requestedSchema"})

# Parameters of the handshake that describe the client, not the request.
_CLIENT_FACTS = frozenset({"clientInfo", "capabilities", "protocolVersion"})
# Absent, null and {} mean the same here.
_EMPTY_IS_ABSENT = ("arguments", "cursor")


def call_name(method: str, params: Any) -> str | None:
    """Return the tool, prompt, resource, skill or task that a request names."""
    name = params.get(_NAMED_BY.get(method)) if type(params) is dict else None
    return name if type(name) is str else None


def call_title(method: str, name: str | None) -> str:
    """Return a request's method and the name in it."""
    return f"{method} {name or ''}".rstrip()


def is_addressed(method: str) -> bool:
    """True for requests to one of several tools or prompts: the answer of another one does not count."""
    return _NAMED_BY.get(method) == "name"


def without_meta(params: Any) -> Any:
    return {k: v for k, v in params.items() if k != "_meta"} if isinstance(params, dict) else params


def is_housekeeping(method: str) -> bool:
    """True for requests that clients repeat at will: when all recorded answers are used, the last is repeated."""
    return method in _HOUSEKEEPING or method.endswith("/list")


def notification_names(method: str) -> tuple[str, ...]:
    """Names under which a notification may be recorded: some clients send a bare `initialized`."""
    return INITIALIZED_NAMES if method in INITIALIZED_NAMES else (method,)


def identifying_params(method: str, params: Any) -> Any:
    """The part of the params that distinguishes one request from another."""
    if params is None:
        return {}
    if not isinstance(params, dict):
        return params
    left_out = method == INITIALIZE or "_meta" in params or "inputResponses" in params
    if not left_out and params.get("arguments", True) and params.get("cursor", True):
        return params
    facts = _CLIENT_FACTS if method == INITIALIZE else frozenset()
    kept = params.copy()
    for key in ("_meta", *facts):
        kept.pop(key, None)
    for key in _EMPTY_IS_ABSENT:
        if key in kept and kept[key] in (None, {}):
            del kept[key]
    if isinstance(kept.get("inputResponses"), dict):
        kept["inputResponses"] = dict.fromkeys(kept["inputResponses"])
    return kept


def member(value: Any, name: str) -> Any:
    """Return a member of a value that may not be an object."""
    return value.get(name) if isinstance(value, dict) else None


def requested_progress_token(body: dict[str, Any]) -> Any:
    """The progress token of a request.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
    """
    params = body.get("params")
    return member(params["_meta"], "progressToken") if isinstance(params, dict) and "_meta" in params else None


def subscription_id(body: dict[str, Any]) -> Any:
    """The id of the listen request that a message of the modern era belongs to."""
    return member(member(body.get("params"), "_meta"), META_SUBSCRIPTION)


def result_status(result: Any) -> str:
    """The status of a result: ok, tool-error (the call ran and failed) or input-required."""
    if isinstance(result, dict):
        if result.get("isError") is True:
            return "tool-error"
        if result.get("resultType") == "input_required":
            return "input-required"
    return "ok"


def modern_result(result: Any) -> str | None:
    """Return the kind of a result that legacy clients cannot read, such as a request for input; None for any other."""
    kind = member(result, "resultType")
    return None if kind in (None, "complete") else str(kind)


def is_kept_header(name: str) -> bool:
    """Return whether an HTTP header belongs on the tape."""
    from .secret_names import is_hidden_key  # their values are redacted there, and wherever they recur

    return name in _KEPT_HEADERS or name.startswith("mcp-") or is_hidden_key(name)


def meant_status(status: int, headers: Any) -> int:
    """Return 401 for a 403 that asks for credentials of a wider scope; any other status as it is.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#scope-challenge-handling
    """
    asks = status == 403 and "insufficient_scope" in str(member(headers, "www-authenticate"))
    return 401 if asks else status


def stated_version(body: dict[str, Any]) -> Any:
    """The protocol version that a request states: in `_meta`, or as the offer of `initialize`."""
    params = body.get("params")
    if not isinstance(params, dict):
        return None
    meta = params.get("_meta")
    stated = meta.get(META_VERSION) if isinstance(meta, dict) else None
    return params.get("protocolVersion") if stated is None and body.get("method") == INITIALIZE else stated


def is_modern(body: dict[str, Any], version: str | None = None) -> bool:
    """Return whether a request without a session is of the modern era.

    It is if it carries its protocol version, or if the version header names a revision without sessions.
    """
    stated = member(member(body.get("params"), "_meta"), META_VERSION)
    return stated is not None or (version is not None and version not in LEGACY_VERSIONS)


def legacy_capabilities(modern: Any, knows: Callable[[str], bool]) -> dict[str, Any]:
    """The capabilities to declare in a handshake: those of `server/discover` for which the tape knows the methods."""
    uses = [(kind.capability, kind.method) for kind in KINDS]
    uses += [("tools", CALL), ("prompts", GET_PROMPT), ("resources", READ)]
    found = {name: member(modern, name) for name, method in uses if knows(method)}
    declared = {name: value if isinstance(value, dict) else {} for name, value in found.items()}
    if "resources" in declared:
        declared["resources"] = declared["resources"] | {"subscribe": False}
    return declared | ({"completions": {}} if knows(COMPLETE) else {})


def tools_that_read(body: dict[str, Any]) -> Iterator[str]:
    """Yield the names of listed tools annotated as read-only. Without the annotation a tool may change things."""
    tools = member(body.get("result"), "tools")
    for tool in tools if isinstance(tools, list) else []:
        name = member(tool, "name")
        if isinstance(name, str) and member(member(tool, "annotations"), "readOnlyHint") is True:
            yield name


def tool_defaults(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each listed tool, and the defaults of its arguments."""
    tools = member(body.get("result"), "tools")
    for tool in tools if isinstance(tools, list) else []:
        name, properties = member(tool, "name"), member(member(tool, "inputSchema"), "properties")
        if isinstance(name, str) and isinstance(properties, dict):
            schemas = ((key, schema) for key, schema in properties.items() if isinstance(schema, dict))
            yield name, {key: schema["default"] for key, schema in schemas if "default" in schema}


def declares(capabilities: Any, kind: Kind) -> bool:
    """Return whether a server's capabilities, or their extensions, declare a kind of list."""
    return any(
        isinstance(at, dict) and kind.capability in at for at in (capabilities, member(capabilities, "extensions"))
    )


def client_meta(version: str, info: dict[str, Any], capabilities: dict[str, Any]) -> dict[str, Any]:
    """The `_meta` with which each modern request describes its client."""
    return {"_meta": {META_VERSION: version, META_CLIENT: info, META_CAPABILITIES: capabilities}}


def client_capabilities(method: str, params: Any) -> dict[str, Any] | None:
    """The capabilities that a client declares in a greeting; None if it declares none."""
    holder, name = (params, "capabilities") if method == INITIALIZE else (member(params, "_meta"), META_CAPABILITIES)
    given = member(holder, name)
    return given if isinstance(given, dict) else None


def unattended_answer(method: str | None, capabilities: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The answer of an unattended client to a server's request: a member of the response, and its value.

    Requests that the client's capabilities cover are declined in the form that the specification gives.
    https://modelcontextprotocol.io/specification/2025-11-25/client
    """
    own: dict[str | None, tuple[str, str, dict[str, Any]]] = {
        ROOTS: ("roots", "result", {"roots": []}),
        ELICIT: ("elicitation", "result", {"action": "decline"}),
        SAMPLE: ("sampling", "error", {"code": REJECTED, "message": "User rejected sampling request"}),
    }
    capability, kind, value = own.get(method, ("", "", {}))
    if method == PING:
        return "result", {}
    if capability in capabilities:
        return kind, value
    return "error", {"code": METHOD_NOT_FOUND, "message": "not here"}


def own_meta(result: Any) -> dict[str, Any]:
    """The `_meta` of a result without the protocol's own members."""
    meta = member(result, "_meta")
    return {name: value for name, value in meta.items() if not name.startswith(META)} if isinstance(meta, dict) else {}


def session_facts(method: str | None, body: dict[str, Any]) -> dict[str, str]:
    """Versions and names of both sides, where a message states them.

    `method` is the message's own or, for a response, that of the request it answers.
    """
    facts: dict[str, Any] = {}
    params, result = body.get("params"), body.get("result")
    if isinstance(params, dict):
        modern = member(params.get("_meta"), META_CLIENT)
        facts |= _name_and_version("client", params.get("clientInfo") if method == INITIALIZE else modern)
        facts["protocol_version"] = member(params.get("_meta"), META_VERSION)
    if isinstance(result, dict) and method is not None:
        if method in INTRODUCTIONS:
            facts |= _name_and_version("server", result.get("serverInfo"))
            facts["protocol_version"] = result.get("protocolVersion")
        # In the modern era any result may name its server.
        facts |= _name_and_version("server", member(result.get("_meta"), META_SERVER))
    return {k: v for k, v in facts.items() if isinstance(v, str)}


def _name_and_version(side: str, info: Any) -> dict[str, Any]:
    if not isinstance(info, dict):
        return {}
    return {f"{side}_name": info.get("name"), f"{side}_version": info.get("version")}
