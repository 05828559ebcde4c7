"""Exports of MCP Inspector 2: its messages, pairs of a request and its response, or its HTTP requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...wire.frames import Side
from ..foreign import (
    RESERIALISED,
    Clock,
    Item,
    JsonRow,
    Loss,
    Reader,
    SentBytes,
    SessionStart,
    SourceFile,
    WrongError,
    milliseconds,
    moment,
)
from . import http
from .http import Request


def _is_messages(source: SourceFile) -> bool:
    return bool(source.array) and {"direction", "message", "timestamp"} <= source.array[0].value.keys()


def _messages(source: SourceFile) -> Iterator[Item]:
    rows = source.array
    if (moment(rows[0].get("timestamp")) or 0) > (moment(rows[-1].get("timestamp")) or 0):
        rows = rows[::-1]  # newest first
    clock = Clock(rows[0].get("timestamp"))
    yield SessionStart(clock.started_at)
    yield Loss(RESERIALISED)
    entries = [_Entry(row, _sender(row), clock.at(row.get("timestamp"))) for row in rows]
    said: list[
        tuple[float, int, int, SentBytes]
    ] = []  # sorted by place, then time; of several questions the later first
    for number, entry in enumerate(entries):
        said.append((number, 0, 0, entry.row.sent_bytes(entry.at, entry.sender, "message")))
        if isinstance(entry.row.get("response"), dict):
            at = entry.at + milliseconds(entry.row.get("duration"))
            other: Side = "server" if entry.sender == "client" else "client"
            said.append((_place(entries, number, at), at, -number, entry.row.sent_bytes(at, other, "response")))
    yield from (one for *_, one in sorted(said, key=lambda placed: placed[:3]))


class _Entry(NamedTuple):
    row: JsonRow
    sender: Side
    at: int


def _sender(row: JsonRow) -> Side:
    """The sender. If the row does not name it, requests are the client's."""
    origin = row.get("origin") or ("client" if row.get("direction") == "request" else "server")
    return "client" if origin == "client" else "server"


def _place(entries: list[_Entry], number: int, at: int) -> float:
    """The place of a response among the entries: within its millisecond, before the next entry of the same sender."""
    for later in range(number + 1, len(entries)):
        if entries[later].at > at or (entries[later].at == at and entries[later].sender == entries[number].sender):
            return later - 0.5
    return len(entries)


def _is_network(source: SourceFile) -> bool:
    return bool(source.array) and {"method", "url", "requestHeaders"} <= source.array[0].value.keys()


def _network(source: SourceFile) -> Iterator[Item]:
    clock = Clock(source.array[0].get("timestamp"))
    requests = [request for row in source.array if http.is_mcp(request := _request(row, clock))]
    if not requests:
        raise WrongError(f"{source.path} is an export of the Inspector, but holds no message of MCP")
    yield SessionStart(clock.started_at, {"url": requests[0].url})
    if any(one.answer and not one.streams for one in requests):
        yield Loss("JSON bodies re-serialised")
    yield from http.losses(requests)
    yield from http.items(requests)


def _request(row: JsonRow, clock: Clock) -> Request:
    verb, url, body, answer = (row.get(name) for name in ("method", "url", "requestBody", "responseBody"))
    status, waited = row.get("responseStatus"), milliseconds(row.get("duration"))  # of a stream: until it began
    return Request(
        verb if verb in ("POST", "GET", "DELETE") else "", url if isinstance(url, str) else "",
        _headers(row.get("requestHeaders")), body if isinstance(body, str) else "",
        status if type(status) is int else 0, _headers(row.get("responseHeaders")),
        answer if isinstance(answer, str) else None, clock.at(row.get("timestamp")), waited, 0,
    )  # fmt: skip


def _headers(value: object) -> dict[str, str]:
    return http.kept_headers(value.items() if isinstance(value, dict) else ())


READERS = (
    Reader("the Inspector's messages", _is_messages, _messages),
    Reader("the Inspector's network log", _is_network, _network),
)
