"""HTTP requests and responses as items of a stream, with the facts that a recorder keeps of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...wire import frames, protocol
from ...wire.channels import http_channel
from ...wire.framing import Events, encode, is_event_stream
from ..foreign import HttpEvent, Loss, SentBytes, cut_off_loss

_Posted = dict[tuple[str, "str | None", str], int]
END = "the end of a body is not in the file"
_DECODED = ("content-encoding", "content-length")  # of bodies that the file stores as plain text


class Request(NamedTuple):
    """A request and its response. `at`: its start; `waited`: from there to the start of the response.

    `took`: from there to its end; 0 if unknown.
    """

    verb: str
    url: str
    headers: Mapping[str, str]
    body: str
    status: int
    answered: Mapping[str, str]
    answer: str | None  # None: not in the file
    at: int
    waited: int
    took: int
    ended: bool = True  # in the file

    @property
    def streams(self) -> bool:
        return is_event_stream(self.answered.get("content-type"))

    @property
    def origin(self) -> str:
        return self.url.partition("://")[0] + "://" + _parts(self.url)[0]


def is_mcp(request: Request) -> bool:
    """True for MCP among other traffic: a posted message, a stream, the end of a session."""
    if request.verb == "POST":
        return frames.parse(request.body.encode("utf-8", "replace"))[0] in ("message", "batch")
    return request.streams if request.verb == "GET" else protocol.SESSION_HEADER in request.headers


def is_half(request: Request) -> bool:
    """True for an incomplete message: Firefox keeps only the first MiB of a posted body."""
    is_ours = protocol.SESSION_HEADER in request.headers or '"jsonrpc"' in request.body
    return request.verb == "POST" and is_ours and request.body.rstrip()[-1:] not in ("", "}", "]")


def kept_headers(headers: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    """Headers that matter to the conversation."""
    named = [(name.lower(), value) for name, value in headers if isinstance(name, str) and isinstance(value, str)]
    return {name: value for name, value in named if protocol.is_kept_header(name) and name not in _DECODED}


def losses(requests: list[Request]) -> Iterator[Loss]:
    """Yield the losses of these requests."""
    if any(one.streams for one in requests):
        yield Loss("times of events invented")
    without = {one.verb for one in requests if one.answer is None and (one.streams or one.status == 200)}
    if "GET" in without:
        yield Loss("streams that were open")
    if "POST" in without:
        yield cut_off_loss("the body of a response is not in the file")
    if any(one.verb == "POST" and not one.ended for one in requests):
        yield cut_off_loss(END)


def items(requests: list[Request]) -> list[SentBytes | HttpEvent]:
    """All messages and events of requests and responses, by time."""
    posted = _posting_times(requests)
    found: list[SentBytes | HttpEvent] = []
    for number, request in enumerate(requests, 1):
        found += _items(http_channel(request.verb, number), request, posted)
    return sorted(found, key=lambda item: item.at)


def _posting_times(requests: list[Request]) -> _Posted:
    """When each request, answer and progress token was posted: no event may precede the message it belongs to."""
    found: dict[tuple[str, str | None, str], int] = {}
    for request in requests:
        for message in frames.parse(request.body.encode("utf-8", "replace"))[1] if request.verb == "POST" else ():
            for kind, name in ((message.kind, message.rpc_id), ("token", frames.requested_token(message))):
                if name is not None:
                    found.setdefault((kind, _session(request), name), request.at)
    return found


def _items(channel: str, request: Request, posted: _Posted) -> Iterator[SentBytes | HttpEvent]:
    facts = {"event": "request", "verb": request.verb, "path": _parts(request.url)[1], "headers": dict(request.headers)}
    yield HttpEvent(request.at, "client", channel, facts)
    if request.verb == "POST":
        yield SentBytes(request.at, "client", request.body.encode("utf-8", "replace"), channel)
        yield SentBytes(request.at, "client", b"", channel)
    body, began = (request.answer or "").encode("utf-8", "replace"), request.at + request.waited
    pieces = list(_events(body, request.ended)) if request.streams else [body] if body else []
    times = _times(pieces, request, posted)
    answered = {"event": "response", "status": request.status, "headers": dict(request.answered)}
    yield HttpEvent(min([began, *times]), "server", channel, answered)
    for at, piece in zip(times, pieces, strict=True):
        yield SentBytes(at, "server", piece, channel)
    end = max([began + request.took, *times])
    if request.streams and (request.answer is None or not request.ended):
        yield HttpEvent(end, "server", channel, {"event": "open"})
    else:
        yield SentBytes(end, "server", b"", channel)


def _times(pieces: list[bytes], request: Request, posted: _Posted) -> list[int]:
    """Times of events: spread over the response time, or as early as possible if that is unknown.

    No question comes after the client's answer to it, whatever the file says.
    """
    began, told = request.at + request.waited, [_answer_time(piece, request, posted) for piece in pieces]
    if request.verb != "GET" and request.took:
        times = [began + request.took * number // len(pieces) for number in range(1, len(pieces) + 1)]
    else:
        times = []
        for number, piece in enumerate(pieces):  # an event after a question has probably waited for its answer
            began = max(began, _earliest_time(piece, request, posted), told[number - 1] + 1 if number else 0)
            times.append(began)
    latest = sys.maxsize
    for number in reversed(range(len(pieces))):
        latest = min(latest, told[number] - 1) if told[number] else latest
        times[number] = min(times[number], latest)
    return times


def _answer_time(piece: bytes, request: Request, posted: _Posted) -> int:
    """When the client answered a server request in an event; 0 without one."""
    asked = [one.rpc_id or "" for one in _messages_in(piece) if one.kind == "request"] if request.streams else []
    found = (posted.get(("response", _session(request), name), 0) for name in asked)
    return max((at for at in found if at > request.at), default=0)


def _earliest_time(piece: bytes, request: Request, posted: _Posted) -> int:
    """The earliest time of an event: after the message it belongs to.

    On a GET stream, a question comes just before its answer.
    """
    earliest, session = 0, _session(request)
    for message in _messages_in(piece) if request.streams else ():
        if message.kind == "response":
            earliest = max(earliest, posted.get(("request", session, message.rpc_id or ""), 0) + 1)
        elif token := frames.progress_token(message):
            earliest = max(earliest, posted.get(("token", session, token), 0) + 1)
    return max(earliest, _answer_time(piece, request, posted) - 1 if request.verb == "GET" else 0)


def _events(body: bytes, ended: bool) -> Iterator[bytes]:
    """Yield events as they were sent; a partial one only if the stream ended with it."""
    framing = Events()
    for event in [*framing.feed(body), *(framing.close() if ended else ())]:
        yield event.head + event.eol if event.text is None else encode(event.head, event.text, event.eol or b"\n")


def _messages_in(piece: bytes) -> Iterator[frames.Message]:
    for event in Events().feed(piece):
        yield from frames.parse(event.text or b"")[1]


def _session(request: Request) -> str | None:
    """The session that a request names, if any."""
    return request.headers.get(protocol.SESSION_HEADER) or request.answered.get(protocol.SESSION_HEADER)


def _parts(url: str) -> tuple[str, str]:
    """Host, and path with query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", "/"
    return parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
