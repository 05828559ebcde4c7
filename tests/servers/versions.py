"""Version 1 or 2 of a small server, for each family of changes: python -m tests.servers.versions FAMILY 1|2

The differences are next to each other: `_(1, 2)` is 1 in version 1 and 2 in version 2.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import orjson

Body = dict[str, Any]
Choose = Callable[[Any, Any], Any]
GONE: Any = object()  # absent in a version
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}


def _tool(name: str, *, takes: Body | None = None, **members: Any) -> Body:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": takes or {"type": "object"}} | members


def _object(required: str = "", **properties: Any) -> Body:
    return {"type": "object", "properties": properties, "required": required.split()}


# The offer ------------------------------------------------------------------------------------------------


def _server(_: Choose) -> Body:
    extensions = {
        "com.example/charts": {"sizes": _([1, 2], [1])},
        "com.example/maps": _({}, GONE),
        "com.example/tables": _(GONE, {}),
    }
    return {
        "protocolVersion": _("2025-11-25", "2025-06-18"),
        "serverInfo": {"name": _("weather", "weather-service"), "version": "1.4.0"},
        "instructions": _("Ask for one city at a time.", "Ask for up to five cities.\nNever guess a city."),
        "capabilities": {
            "tools": {"listChanged": _(True, GONE)},
            "resources": {"subscribe": _(True, False), "listChanged": True},
            "logging": _({}, GONE),
            "completions": _(GONE, {}),
            "extensions": extensions,
        },
        "tools": [],
    }


def _tools(_: Choose) -> Body:
    span = _object("city from to", city=_TEXT, **{"from": _TEXT, "to": _TEXT})
    current, history, alerts = _tool("current"), _tool("history", takes=span), _tool("alerts")
    archive, radar, tides = _tool("archive", takes=span), _tool("radar"), _tool("tides", takes=_object(port=_TEXT))
    listed = _([current, history, alerts, tides], [tides, current, archive, radar])
    return {"tools": listed, "is unsteady": _(False, True)}


def _input(_: Choose) -> Body:
    properties = {
        "city": _TEXT | {"description": _("A city.", "A city, with its country.")},
        "country": _(GONE, _TEXT),
        "days": _NUMBER | {"maximum": _(14, 7)},
        "hours": _NUMBER | {"minimum": _(GONE, 1)},
        "order": _TEXT | {"default": _("up", "down")},
        "units": _TEXT | {"enum": _(["metric", "imperial", "kelvin"], ["metric", "imperial", "si"])},
        "language": _(_TEXT, _TEXT | {"enum": ["de", "en"]}),
        "station": _({"type": ["string", "integer"]}, _TEXT),
        "near": _({"type": ["string", "null"]}, _TEXT),
        "limit": {"type": _("integer", ["integer", "string"])},
        "zip": _TEXT | {"pattern": _(GONE, "^[0-9]{5}$")},
        "when": {"type": _("string", "integer")},
        "old": _(_TEXT, GONE),
        "new": _(GONE, _TEXT),
        "where": {"anyOf": _([_TEXT, {"$ref": "#/$defs/point"}], [{"$ref": "#/$defs/point"}])},
        "mode": _(_TEXT, {"const": "fast"}),
        "region": _TEXT | {"x-mcp-header": _("Region", "Area")},
    }
    schema = _object(_("city", "city country days"), **properties)
    point = {"type": "object", "properties": {"lat": {"type": "number", "minimum": _(-90, 0)}}}
    more = {"$defs": {"point": point}, "additionalProperties": _(GONE, False)}
    return {"tools": [_tool("forecast", takes=schema | more)]}


def _output(_: Choose) -> Body:
    properties = {
        "city": _TEXT,
        "degrees": {"type": _("number", ["number", "string"])},
        "wind": _({"type": "number"}, GONE),
        "gusts": _({"type": "number"}, GONE),
        "humidity": _NUMBER | {"maximum": _(100, GONE)},
        "sky": _TEXT | {"enum": _(["clear", "cloudy"], ["clear", "cloudy", "fog"])},
        "station": {"type": _("string", ["string", "null"])},
        "source": {"type": _(["string", "null"], "string")},
        "seen": {"type": _("string", "integer")},
        "pressure": _(GONE, {"type": "number"}),
        "place": {"anyOf": _([_TEXT], [_TEXT, _NUMBER])},
    }
    required = _("city degrees wind humidity station seen", "degrees humidity station seen")
    return {
        "tools": [
            _tool("current", outputSchema=_object(required, **properties)),
            _tool("history", outputSchema=_(_object(days=_NUMBER), GONE)),
            _tool("alerts", outputSchema=_(GONE, _object(count=_NUMBER))),
        ]
    }


def _metadata(_: Choose) -> Body:
    def hints(name: str, **annotations: Any) -> Body:
        return _tool(name, annotations={"readOnlyHint": False} | annotations)

    note = _tool(
        "note",
        title=_("Note", "Notes"),
        icons=[{"src": _("a.png", "b.png")}],
        _meta={"com.example/cost": _(1, 2)},
        execution={"taskSupport": _("optional", "required")},
    )
    words = _("Writes a note.", "Writes a note.\nAlways call find first.")
    return {
        "tools": [
            note | {"description": words},
            hints("find", readOnlyHint=_(True, GONE)),
            hints("put", destructiveHint=_(False, True), idempotentHint=_(True, GONE), openWorldHint=_(False, GONE)),
            hints("count", readOnlyHint=_(False, True)),
        ]
    }


def _offers(_: Choose) -> Body:
    def argument(name: str, **members: Any) -> Body:
        return {"name": name} | members

    arguments = [
        argument("city", required=True, description=_("Where.", "In which city.")),
        argument("days", required=_(False, True)),
        *_([argument("tone")], [argument("style", required=True)]),
    ]
    read = {"contents": [{"uri": "city://bern", "mimeType": _("text/plain", "text/markdown"), "text": "Bern"}]}
    said = {"role": "user", "content": {"type": "text", "text": _("Plan a day in Bern.", "Plan three days in Bern.")}}
    gone, come = {"uri": "city://thun", "name": "thun"}, {"uri": "city://basel", "name": "basel"}
    bern = {"uri": "city://bern", "name": "bern", "mimeType": _("text/plain", "text/markdown")}
    return {
        "resources": [bern, _(gone, come)],
        "resourceTemplates": [
            {"uriTemplate": _("map://{city}", "map://{city}/{scale}"), "name": "map"},
            _({"uriTemplate": "photo://{city}", "name": "photo"}, GONE),
        ],
        "prompts": [
            {"name": "trip", "description": _("Plans a trip.", "Plans a trip by train."), "arguments": arguments},
            _({"name": "pack"}, {"name": "dress"}),
        ],
        "answers": {"resources/read": {"result": read}, "prompts/get": {"result": {"messages": [said]}}},
    }


# The calls ------------------------------------------------------------------------------------------------


def _calls(_: Choose) -> Body:
    now = datetime.now(timezone.utc).isoformat()
    made = {"id": str(uuid.uuid4()), "made_at": now}
    shape = _({"city": "Bern", "degrees": 21, "wind": 3}, {"city": "Bern", "degrees": "21", "rain": 0})
    refused = {"error": {"code": _(-32000, -32001), "message": _("No such city", "No such city: Atlantis")}}
    cached = {"contents": [], "ttlMs": _(1000, 5000), "cacheScope": _("private", "public")}
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    progress = [{"method": "notifications/progress", "params": {"progressToken": 7, "progress": n}} for n in (1, 2, 3)]
    logged = {"method": "notifications/message", "params": {"level": "info", "data": "nearly"}}
    asks = {"id": 1, "method": _("roots/list", "sampling/createMessage"), "params": {}}
    waiting = {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}
    return {
        "tools": [_tool("alarm"), _tool("typed", outputSchema=_object("degrees", degrees={"type": "number"}))],
        "a page": _(GONE, 1),
        "answers": {
            "create": _result(f"Made {made['id']} at {now}.", made),
            "read": _result("A note, as it was made."),
            "alarm": _(_result("It rings."), _result("No battery.") | {"isError": True}),
            "repair": _(_result("No tools.") | {"isError": True}, _result("It works.")),
            "lookup": refused,
            "weather": _result(orjson.dumps(shape).decode(), shape),
            "typed": _result("", _({"degrees": 21}, {"sky": "clear"})),
            "joke": _result(_("Why did the cloud stay home?", "Why did the storm stay home?")),
            "chart": _(_result("a chart"), {"content": [picture]}),
            "walk": _result("there") | {"before": _(progress, [progress[0], logged, progress[2]])},
            "ask": _result("asked") | {"asks": asks},
            "think": _(_result("a thought"), waiting),
            "resources/read": {"result": cached},
            "last": _(_result("bye"), None),
        },
    }


def _result(text: str, structured: Any = GONE) -> Body:
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured}


FAMILIES: dict[str, Callable[[Choose], Body]] = {
    "server": _server,
    "tools": _tools,
    "input": _input,
    "output": _output,
    "metadata": _metadata,
    "offers": _offers,
    "calls": _calls,
}


# The server ---------------------------------------------------------------------------------------------


def main(family: str, version: str) -> None:
    lines = (orjson.loads(line) for line in sys.stdin.buffer)
    world = _there(FAMILIES[family](lambda one, other: one if version == "1" else other))
    info = {"name": f"{family}-server", "version": f"1.{int(version) - 1}.0"}
    capabilities: Body = {"tools": {}} if "tools" in world else {"resources": {}, "prompts": {}}
    known = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    world = known | world
    for message in lines:
        if "id" in message:
            for said in _answers(message["method"], message.get("params", {}), world, lines):
                _send(said if "method" in said else {"id": message["id"]} | said)


def _there(value: Any) -> Any:
    """The value without absent parts."""
    if isinstance(value, dict):
        return {key: _there(item) for key, item in value.items() if item is not GONE}
    return [_there(item) for item in value if item is not GONE] if isinstance(value, list) else value


def _answers(method: str, params: Body, world: Body, lines: Iterator[Body]) -> Iterator[Body]:
    member = {"resources/templates/list": "resourceTemplates"}.get(method, method.split("/")[0])
    if method == "initialize":
        greeting = ("protocolVersion", "capabilities", "serverInfo", "instructions")
        yield {"result": {name: world[name] for name in greeting if name in world}}
    elif method.endswith("/list"):
        yield {"result": _page(member, world, int(params.get("cursor", 0)))}
    else:
        yield from _called(world["answers"].get(params.get("name"), world["answers"].get(method)), lines)


def _page(member: str, world: Body, start: int) -> Body:
    items = world.get(member, [])
    end = start + (world.get("a page") or len(items))
    page = {member: items[start:end]} | ({"nextCursor": str(end)} if end < len(items) else {})
    if world.get("is unsteady"):
        world[member] = [*items[:-2], items[-1], items[-2]]
    return page


def _called(answer: Body | None, lines: Iterator[Body]) -> Iterator[Body]:
    if answer is None:
        sys.exit(1)  # in the middle of a call
    yield from answer.get("before", [])
    if "asks" in answer:
        yield answer["asks"]
        next(lines)
    plain = {key: value for key, value in answer.items() if key not in ("before", "asks")}
    yield plain if "error" in plain or "result" in plain else {"result": plain}


def _send(message: Body) -> None:
    sys.stdout.buffer.write(orjson.dumps({"jsonrpc": "2.0"} | message, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
