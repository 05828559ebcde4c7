"""HTTP archives of browsers and proxies: http://www.softwareishard.com/blog/har-12-spec/

Finds sessions of Streamable HTTP and of HTTP+SSE among other traffic. An archive has no times for events.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from ...wire.framing import is_event_stream
from ..foreign import Clock, Item, Reader, SessionStart, SourceFile, WrongError, cut_off_loss, milliseconds, moment
from . import http
from .http import Request


def _fits(source: SourceFile) -> bool:
    return source.document is not None and isinstance(source.document.get("log", "entries"), list)


def _read(source: SourceFile) -> Iterator[Item]:
    assert source.document is not None
    entries = [entry for entry in source.document.get("log", "entries") if isinstance(entry, dict)]
    found: dict[str, list[dict[str, Any]]] = {}
    halves: set[str] = set()
    for entry in entries:
        request = _request(entry, Clock())
        if request is not None and http.is_mcp(request):
            found.setdefault(request.origin, []).append(entry)
        elif request is not None and http.is_half(request):
            halves.add(request.origin)
    # A lone event stream is not evidence of MCP: other pages have them too.
    found = {origin: ours for origin, ours in found.items() if any("postData" in _request_of(entry) for entry in ours)}
    if not found:
        raise WrongError(f"{source.path} is an HTTP archive, but none of its {len(entries)} entries is MCP traffic")
    for origin, ours in found.items():
        yield from _session(ours)
        if origin in halves:
            yield cut_off_loss(http.END)


def _session(entries: list[dict[str, Any]]) -> Iterator[Item]:
    clock = Clock(min((str(entry.get("startedDateTime")) for entry in entries), key=lambda text: moment(text) or 0))
    requests = sorted((one for entry in entries if (one := _request(entry, clock))), key=lambda one: one.at)
    yield SessionStart(clock.started_at, {"url": next(one.url for one in requests if one.verb == "POST")})
    yield from http.losses(requests)
    if any(_is_filled(_object(_object(entry.get("response")).get("content"))) for entry in entries):
        yield cut_off_loss(http.END)
    yield from http.items(requests)


def _request_of(entry: dict[str, Any]) -> dict[str, Any]:
    return _object(entry.get("request"))


def _request(entry: dict[str, Any], clock: Clock) -> Request | None:
    request, response, timings = (_object(entry.get(name)) for name in ("request", "response", "timings"))
    verb, url = request.get("method"), request.get("url")
    if not isinstance(verb, str) or not isinstance(url, str) or verb not in ("POST", "GET", "DELETE"):
        return None
    body, status = _object(request.get("postData")).get("text"), response.get("status")
    content = _object(response.get("content"))
    at, took = clock.at(entry.get("startedDateTime")), milliseconds(timings.get("receive"))
    waited = max(milliseconds(entry.get("time")) - took, 0)
    headers, answered = _headers(request), _headers(response)
    mime = content.get("mimeType")
    if isinstance(mime, str) and mime and not response.get("headers"):  # browsers invent one if there is none
        answered.setdefault("content-type", mime)
    answer, is_filled = _text(content), _is_filled(content)
    if answer and is_filled:
        answer = answer.rstrip("\0") if is_event_stream(answered.get("content-type")) else None
    ended = not is_filled and entry.get("timings") != {}  # Firefox leaves timings empty while a response is open
    return Request(
        verb, url, headers, body if isinstance(body, str) else "", status if type(status) is int else 0, answered,
        answer, at, waited, took, ended,
    )  # fmt: skip


def _is_filled(content: dict[str, Any]) -> bool:
    """True for a long body in Firefox: its beginning, then one NUL for each byte that is missing."""
    text = content.get("text")
    return isinstance(text, str) and text.endswith("\0")


def _text(content: dict[str, Any]) -> str | None:
    text = content.get("text")
    if not isinstance(text, str):
        return None
    if content.get("encoding") != "base64":
        return _as_utf_8(text)
    try:
        return b64decode(text).decode("utf-8", "replace")
    except ValueError:
        return None


def _as_utf_8(text: str) -> str:
    """Restore UTF-8 text that was decoded as Latin-1 or its Windows variant.

    mitmproxy and Playwright decode event streams that way. JSON and event streams are UTF-8, whatever their header
    says:
    https://html.spec.whatwg.org/#parsing-an-event-stream
    """
    if text.isascii():
        return text
    try:
        return b"".join(map(_byte, text)).decode()
    except UnicodeError:
        return text


def _byte(letter: str) -> bytes:
    try:
        return letter.encode("latin-1")
    except UnicodeError:
        return letter.encode("cp1252")


def _headers(message: dict[str, Any]) -> dict[str, str]:
    headers = message.get("headers")
    listed = [_object(header) for header in headers] if isinstance(headers, list) else []
    return http.kept_headers((header.get("name"), header.get("value")) for header in listed)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


READERS = (Reader("HAR", _fits, _read),)
