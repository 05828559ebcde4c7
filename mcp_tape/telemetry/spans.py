"""Calls as OpenTelemetry spans, in JSON: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding

Names follow the conventions for MCP: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/
Arguments and results are content, which is left out by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from .. import __version__
from ..cassette.query.filters import Filter
from ..cassette.reader import Cassette, Session
from ..formats.timed_calls import TimedCall, calls, server_url, start_time, text
from ..wire import frames, protocol
from ..wire.channels import STDIO

Json = dict[str, Any]
_CLIENT, _ERROR = 3, 2  # SpanKind, StatusCode
_TRACE_PARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_ADDRESSED = (protocol.READ, protocol.SUBSCRIBE, protocol.UNSUBSCRIBE)
_SCOPE: Json = {"scope": {"name": "mcp-tape", "version": __version__}}
AT_ONCE = 500  # spans in one document to send


def documents(cassette: Cassette, sessions: Iterable[Session], kept: Filter, content: bool) -> Iterator[Json]:
    """Yield the spans of sessions in documents of at most AT_ONCE spans."""
    for session in sessions:
        spans = _spans(cassette, session, kept, content)
        while block := list(islice(spans, AT_ONCE)):
            yield document(session, block)


def document(session: Session, spans: list[Json]) -> Json:
    """A document with spans of one session, to send."""
    return {"resourceSpans": [_resource(session) | {"scopeSpans": [_SCOPE | {"spans": spans}]}]}


def dump(cassette: Cassette, sessions: Iterable[Session], kept: Filter, content: bool) -> Iterator[str]:
    """Yield one document with all spans, in pieces."""
    yield '{"resourceSpans":['
    begun = ""
    for session in sessions:
        separator = begun + f'{text(_resource(session))[:-1]},"scopeSpans":[{text(_SCOPE)[:-1]},"spans":['
        for span in _spans(cassette, session, kept, content):
            yield separator + text(span)
            separator, begun = ",", ","
        if separator == ",":
            yield "]}]}"
    yield "]}\n"


def _resource(session: Session) -> Json:
    return {"resource": {"attributes": _session_attributes(session)}}


def _spans(cassette: Cassette, session: Session, kept: Filter, content: bool) -> Iterator[Json]:
    end, common = 0, shared_attributes(session) | _id(cassette, session)
    if counts := cassette.counts_of(session.id, session.id).get(session.id):
        end = counts.microseconds or 0
    for call in calls(cassette, session.id, kept):
        until = call.at + call.took if call.took is not None else max(end, call.at)
        yield span(session, call, common | (_content(call) if content else {}), until, content)


def span(session: Session, call: TimedCall, common: Json, until: int, content: bool = False) -> Json:
    """Return the span of a call that ended `until` microseconds after its session began."""
    zero = start_time(session)
    exchange = call.exchange
    trace, number, parent = ids(session, exchange.seq, exchange.id, exchange.params)
    made = {
        "traceId": trace, "spanId": number,
        **({"parentSpanId": parent} if parent else {}),
        "name": _name(call), "kind": _CLIENT,
        "startTimeUnixNano": str((zero + call.at) * 1000), "endTimeUnixNano": str((zero + until) * 1000),
        "attributes": _attributes(common | _call_attributes(call)),
    }  # fmt: skip
    if call.status not in ("ok", "input-required"):
        message = protocol.member(exchange.error, "message")
        made["status"] = {"code": _ERROR} | ({"message": message} if isinstance(message, str) and content else {})
    return made


def _name(call: TimedCall) -> str:
    """`tools/call search`: the method, and the tool or prompt; never a URI, which would make too many names."""
    exchange = call.exchange
    named = exchange.name if exchange.method in (protocol.CALL, protocol.GET_PROMPT) else None
    return " ".join(filter(None, (exchange.method, named)))


def ids(session: Session, seq: int | None, request: str | None, params: Any) -> tuple[str, str, str | None]:
    """Trace, span and parent of a call: those that the call names, or its session's trace and no parent.

    The requests of a batch share a number, and differ by their ids.

    https://www.w3.org/TR/trace-context/
    """
    given = protocol.member(protocol.member(params, "_meta"), "traceparent")
    found = _TRACE_PARENT.fullmatch(given) if isinstance(given, str) else None
    trace, parent = (found[1], found[2]) if found else (_digest(session)[:32], None)
    return trace, _digest(session, str(seq), request or "")[:16], parent


def _digest(session: Session, *parts: str) -> str:
    """An id that is the same in every export."""
    return sha256("\0".join((session.started_at, str(session.id), session.target, *parts)).encode()).hexdigest()


def _session_attributes(session: Session) -> list[Json]:
    name = {"service.name": session.client_name or "mcp-client", "service.version": session.client_version}
    return _attributes(name)


def shared_attributes(session: Session) -> Json:
    """The attributes that all spans of a session share."""
    version: Json = {"mcp.protocol.version": session.protocol_version}
    return _network(session) | version


def _network(session: Session) -> Json:
    url = server_url(session)
    if session.transport == STDIO:
        return {"network.transport": "pipe"}
    known = {"network.transport": "tcp", "network.protocol.name": "http"}
    try:
        parts = urlsplit(url or "")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # untrusted: a recording may contain anything
        return known
    return known | ({"server.address": parts.hostname, "server.port": port} if parts.hostname else {})


def _id(cassette: Cassette, session: Session) -> Json:
    if session.transport != STDIO:
        for frame in cassette.frames(session.id):
            headers = frames.facts(frame.text).get("headers") if frame.kind == "control" else None
            if number := protocol.member(headers, protocol.SESSION_HEADER):
                return {"mcp.session.id": number}
    return {}


def _call_attributes(call: TimedCall) -> Json:
    exchange = call.exchange
    code = protocol.member(exchange.error, "code")
    rpc_id = None if exchange.id is None else exchange.id.strip('"')
    found = {"mcp.method.name": exchange.method, "jsonrpc.request.id": rpc_id, "error.type": _error(call)}
    if code is not None:
        found["rpc.response.status_code"] = str(code)
    if exchange.method == protocol.CALL:
        found |= {"gen_ai.tool.name": exchange.name, "gen_ai.operation.name": "execute_tool"}
    elif exchange.method == protocol.GET_PROMPT:
        found["gen_ai.prompt.name"] = exchange.name
    elif exchange.method in _ADDRESSED:
        found["mcp.resource.uri"] = exchange.name
    return found


def _error(call: TimedCall) -> str | None:
    """One of a few values: the error code, `tool_error` as the conventions require, or `no_response`."""
    named = {"tool-error": "tool_error", "unanswered": "no_response", "error": "_OTHER"}.get(call.status)
    code = protocol.member(call.exchange.error, "code")
    return named if code is None else str(code)


def _content(call: TimedCall) -> Json:
    if call.exchange.method != protocol.CALL:
        return {}
    arguments = protocol.member(call.exchange.params, "arguments")
    asked = {} if arguments is None else {"gen_ai.tool.call.arguments": text(arguments)}
    result = call.exchange.result
    return asked | ({} if result is None else {"gen_ai.tool.call.result": text(result)})


def _attributes(values: Json) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> Json:
    return {"intValue": str(value)} if type(value) is int else {"stringValue": str(value)}
