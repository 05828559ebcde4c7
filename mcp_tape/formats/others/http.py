"""Requests and responses of HTTP as items of a stream, by the facts that a recorder keeps of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...wire import frames, protocol
from ...wire.channels import http_channel
from ...wire.framing import Events, encode, is_event_stream
from .stream import Happened, Said

_DECODED = ("content-encoding", "content-length")  # of bodies that the file has as plain text


class Request(NamedTuple):
    """A request and its response. `at`: when it began; `waited` and `took`: until the response began and ended."""

    verb: str
    url: str
    headers: Mapping[str, str]
    body: str
    status: int
    answered: Mapping[str, str]
    answer: str | None  # None: the file does not have it
    at: int
    waited: int
    took: int

    @property
    def streams(self) -> bool:
        return is_event_stream(self.answered.get("content-type"))

    @property
    def origin(self) -> str:
        return self.url.partition("://")[0] + "://" + _parts(self.url)[0]


def is_mcp(request: Request) -> bool:
    """True for what belongs to MCP among other traffic: a message posted, a stream, the end of a session."""
    if request.verb == "POST":
        return frames.parse(request.body.encode("utf-8", "replace"))[0] in ("message", "batch")
    return request.streams if request.verb == "GET" else protocol.SESSION_HEADER in request.headers


def kept(headers: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    """Headers with a meaning for the conversation."""
    named = [(name.lower(), value) for name, value in headers if isinstance(name, str) and isinstance(value, str)]
    return {name: value for name, value in named if protocol.kept_header(name) and name not in _DECODED}


def items(requests: list[Request]) -> list[Said | Happened]:
    """All that requests and responses say, by time."""
    asked = {rpc_id: request.at + 1 for request in requests for rpc_id in _asked(request)}
    found: list[Said | Happened] = []
    for number, request in enumerate(requests, 1):
        found += _items(http_channel(request.verb, number), request, asked)
    return sorted(found, key=lambda item: item.at)


def _items(channel: str, request: Request, asked: Mapping[str, int]) -> Iterator[Said | Happened]:
    at = request.at
    facts = {"event": "request", "verb": request.verb, "path": _parts(request.url)[1], "headers": dict(request.headers)}
    yield Happened(at, "client", channel, facts)
    if request.verb == "POST":
        yield Said(at, "client", request.body.encode("utf-8", "replace"), channel)
        yield Said(at, "client", b"", channel)
    at += request.waited
    yield Happened(
        at, "server", channel, {"event": "response", "status": request.status, "headers": dict(request.answered)}
    )
    body, end = (request.answer or "").encode("utf-8", "replace"), at + request.took
    pieces = list(_events(body)) if request.streams else [body] if body else []
    for number, piece in enumerate(pieces, 1):
        if request.verb == "GET":  # as early as it can be: answers behind what they answer
            at = max([at, *(asked[rpc_id] for rpc_id in _answered(piece) if rpc_id in asked)])
            yield Said(at, "server", piece, channel)
        else:
            yield Said(at + request.took * number // len(pieces), "server", piece, channel)
    if request.answer is None and request.streams:
        yield Happened(max(at, end), "server", channel, {"event": "open"})
    else:
        yield Said(max(at, end), "server", b"", channel)


def _events(body: bytes) -> Iterator[bytes]:
    framing = Events()
    for event in [*framing.feed(body), *framing.close()]:
        yield event.head + event.eol if event.text is None else encode(event.head, event.text, event.eol or b"\n")


def _asked(request: Request) -> Iterator[str]:
    for message in frames.parse(request.body.encode("utf-8", "replace"))[1]:
        if message.kind == "request" and message.rpc_id:
            yield message.rpc_id


def _answered(piece: bytes) -> Iterator[str]:
    for event in Events().feed(piece):
        for message in frames.parse(event.text or b"")[1]:
            if message.kind == "response" and message.rpc_id:
                yield message.rpc_id


def _parts(url: str) -> tuple[str, str]:
    """Host, and path with query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", "/"
    return parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
