"""Cassettes of the two tools named mcp-cassette: JSON from PyPI's, JSON lines from npm's."""

from __future__ import annotations

from collections.abc import Iterator

from ...wire.frames import Side
from ..foreign import (
    RESERIALISED,
    Begin,
    Clock,
    Item,
    Lost,
    Reader,
    Row,
    Said,
    Source,
    command,
    in_order,
    milliseconds,
    rows_at,
)
from .hidden import Hidden

_SENDERS: dict[str, Side] = {"c2s": "client", "s2c": "server"}


def _is_python(source: Source) -> bool:
    document = source.document
    return document is not None and "format_version" in document.value and isinstance(document.get("messages"), list)


def _python(source: Source) -> Iterator[Item]:
    document = source.document
    assert document is not None
    url = document.get("server_url")
    yield Begin(Clock(document.get("recorded_at")).started_at, {"url": url} if isinstance(url, str) else command())
    yield Lost(RESERIALISED)
    hidden = Hidden("REDACTED")
    for row in rows_at(document, "messages"):
        sender = row.get("sender")
        if sender not in ("client", "server"):
            continue
        yield from hidden.restored(row.said(milliseconds(row.get("t_offset_ms")), sender, "payload"))


def _is_npm(source: Source) -> bool:
    return source.first.get("type") == "header" and "cassetteVersion" in source.first


def _npm(source: Source) -> Iterator[Item]:
    url = source.first.get("url")
    target = {"url": url} if isinstance(url, str) else command(source.first.get("command"))
    yield Begin(Clock(source.first.get("startedAt")).started_at, target)
    yield Lost(RESERIALISED)
    said: list[Said] = []
    for row in source.rows():
        if isinstance(row, Lost):
            yield row
        else:
            said += _frames(row)
    yield from in_order(said)


def _frames(row: Row) -> Iterator[Said]:
    sender = _SENDERS.get(str(row.get("dir")))
    if sender is None:
        return
    at = milliseconds(row.get("t"))
    if row.get("type") in ("frame", "raw"):
        yield row.said(at, sender, "frame" if row.get("type") == "frame" else "data")
    elif row.get("type") == "chunks":
        for chunk in rows_at(row, "chunks"):
            yield chunk.said(milliseconds(chunk.get("t")), sender, "frame")


READERS = (Reader("PyPI mcp-cassette", _is_python, _python), Reader("npm mcp-cassette", _is_npm, _npm))
