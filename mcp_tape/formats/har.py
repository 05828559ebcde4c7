"""A session as an HTTP archive: http://www.softwareishard.com/blog/har-12-spec/

HTTP requests become entries as they were. Each call recorded on stdio is mapped to an entry that is marked as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote, urljoin

from .. import __version__
from ..cassette.query import filters
from ..cassette.query.filters import Filter
from ..cassette.reader import Cassette, Session
from ..wire import channels, frames, framing
from ..wire.frames import Frame
from .timed_calls import TimedCall, calls, server_url, start_time, text

Json = dict[str, Any]
_JSON = "application/json"
_MAPPED = "mapped: recorded on stdio"
_UNKNOWN = {"httpVersion": "HTTP/1.1", "cookies": [], "headersSize": -1, "bodySize": -1}


def dump(cassette: Cassette, sessions: Iterable[Session], kept: Filter) -> Iterator[str]:
    """Yield the archive in pieces: an entry for each request, in the order in which they ended."""
    creator = {"name": "mcp-tape", "version": __version__}
    yield f'{{"log":{{"version":"1.2","creator":{text(creator)},"pages":[],"entries":['
    separator = ""
    for session in sessions:
        for entry in _entries(cassette, session, kept):
            yield separator + text(entry)
            separator = ","
    yield "]}}\n"


def _entries(cassette: Cassette, session: Session, kept: Filter) -> Iterator[Json]:
    if session.transport == channels.STDIO:
        for call in calls(cassette, session.id, kept):
            yield _map_call(session, call)
        return
    wanted = {frame.channel for frame in filters.frames(cassette, session.id, kept)}
    found: dict[str, list[Frame]] = {}  # of requests that have not ended
    for frame in cassette.frames(session.id):
        if frame.channel in wanted and channels.is_http(frame.channel):
            found.setdefault(frame.channel, []).append(frame)
            if frame.kind == "control" and _ends(frame):
                yield from _entry(session, found.pop(frame.channel))
    for ours in found.values():
        yield from _entry(session, ours)


def _ends(frame: Frame) -> bool:
    """Return whether a request is over, answered or not."""
    event = frames.facts(frame.text).get("event")
    return event in ("abort", "failed", "open") or (event == "close" and frame.sender == "server")


def _entry(session: Session, ours: list[Frame]) -> Iterator[Json]:
    """Yield the request and response of a channel; nothing without a request."""
    facts = [(frame, frames.facts(frame.text)) for frame in ours if frame.kind == "control"]
    asked = next(((frame, fact) for frame, fact in facts if fact.get("event") == "request"), None)
    if asked is None:
        return
    begun, request = asked
    answered, response = next(
        ((frame, fact) for frame, fact in facts if fact.get("event") == "response"), (ours[-1], {})
    )
    sent = b"".join(frame.text + frame.eol for frame in ours if frame.sender == "client" and frame.kind != "control")
    url = _url(session, str(request.get("path")))
    made = _request(str(request.get("verb")), url, request.get("headers"), sent)
    got = _response(response.get("status", 0), response.get("headers"), b"".join(_response_body(ours)))
    yield _build_entry(session, begun.at, answered.at - begun.at, ours[-1].at - answered.at, made, got)


def _url(session: Session, path: str) -> str:
    try:
        return urljoin(server_url(session) or "http://localhost", path)
    except ValueError:  # untrusted: a recording may contain anything
        return path


def _response_body(ours: list[Frame]) -> Iterator[bytes]:
    """Yield the body of a response, with events as they were except for the form of their fields."""
    for frame in ours:
        if frame.sender != "server":
            continue
        if frame.kind == "control":
            fact = frames.facts(frame.text)
            if fact.get("event") == "endpoint":
                yield framing.encode(b"event: endpoint\n", str(fact.get("data")).encode(), b"\n")
        elif frame.head is None:
            yield frame.text + frame.eol
        else:
            yield framing.encode(frame.head, frame.text, frame.eol)


def _map_call(session: Session, call: TimedCall) -> Json:
    """A call on stdio as if it had been posted."""
    exchange = call.exchange
    rpc_id = frames.facts(f'{{"id":{exchange.id or "null"}}}').get("id")
    asked: Json = {"jsonrpc": "2.0", "id": rpc_id, "method": exchange.method}
    if exchange.params is not None:
        asked["params"] = exchange.params
    outcome = {"result": exchange.result} if exchange.error is None else {"error": exchange.error}
    url = f"mcp://{quote(session.server_name or 'server', safe='')}/{quote(exchange.method)}"
    answer = text({"jsonrpc": "2.0", "id": rpc_id} | outcome).encode() if call.took is not None else b""
    request = _request("POST", url, {"content-type": _JSON}, text(asked).encode())
    response = _response(200 if answer else 0, {"content-type": _JSON}, answer)
    return _build_entry(session, call.at, call.took or 0, 0, request, response) | {"comment": _MAPPED}


def _request(verb: str, url: str, headers: Any, body: bytes) -> Json:
    posted = {"postData": {"mimeType": _JSON, "text": body.decode("utf-8", "replace")}} if body else {}
    return {"method": verb, "url": url, "headers": _headers(headers), "queryString": [], **posted, **_UNKNOWN}


def _response(status: Any, headers: Any, body: bytes) -> Json:
    kept = headers if isinstance(headers, dict) else {}
    content = {"size": len(body), "mimeType": kept.get("content-type", ""), "text": body.decode("utf-8", "replace")}
    known = {"status": status, "statusText": "", "redirectURL": kept.get("location", "")}
    return {**known, "headers": _headers(headers), "content": content, **_UNKNOWN}


def _headers(headers: Any) -> list[Json]:
    return [{"name": name, "value": str(value)} for name, value in headers.items()] if isinstance(headers, dict) else []


def _build_entry(session: Session, at: int, waited: int, took: int, request: Json, response: Json) -> Json:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=start_time(session) + at)
    waited, took = max(waited, 0), max(took, 0)
    return {
        "startedDateTime": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "time": (waited + took) / 1000, "request": request, "response": response, "cache": {},
        "timings": {"send": 0, "wait": waited / 1000, "receive": took / 1000},
    }  # fmt: skip
