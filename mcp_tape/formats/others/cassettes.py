"""Cassettes of the two tools named mcp-cassette: JSON from PyPI's, JSON lines from npm's."""

from __future__ import annotations

from collections.abc import Iterator

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
    command,
    milliseconds,
    rows_at,
    sort_by_time,
)
from .hidden import HiddenValues

_SENDERS: dict[str, Side] = {"c2s": "client", "s2c": "server"}


def _is_python(source: SourceFile) -> bool:
    document = source.document
    return document is not None and "format_version" in document.value and isinstance(document.get("messages"), list)


def _python(source: SourceFile) -> Iterator[Item]:
    document = source.document
    assert document is not None
    url = document.get("server_url")
    yield SessionStart(
        Clock(document.get("recorded_at")).started_at, {"url": url} if isinstance(url, str) else command()
    )
    yield Loss(RESERIALISED)
    hidden = HiddenValues("REDACTED")
    for row in rows_at(document, "messages"):
        sender = row.get("sender")
        if sender not in ("client", "server"):
            continue
        yield from hidden.restore(row.sent_bytes(milliseconds(row.get("t_offset_ms")), sender, "payload"))


def _is_npm(source: SourceFile) -> bool:
    return source.first.get("type") == "header" and "cassetteVersion" in source.first


def _npm(source: SourceFile) -> Iterator[Item]:
    url = source.first.get("url")
    target = {"url": url} if isinstance(url, str) else command(source.first.get("command"))
    yield SessionStart(Clock(source.first.get("startedAt")).started_at, target)
    yield Loss(RESERIALISED)
    said: list[SentBytes] = []
    for row in source.rows():
        if isinstance(row, Loss):
            yield row
        else:
            said += _frames(row)
    yield from sort_by_time(said)


def _frames(row: JsonRow) -> Iterator[SentBytes]:
    sender = _SENDERS.get(str(row.get("dir")))
    if sender is None:
        return
    at = milliseconds(row.get("t"))
    if row.get("type") in ("frame", "raw"):
        yield row.sent_bytes(at, sender, "frame" if row.get("type") == "frame" else "data")
    elif row.get("type") == "chunks":
        for chunk in rows_at(row, "chunks"):
            yield chunk.sent_bytes(milliseconds(chunk.get("t")), sender, "frame")


READERS = (Reader("PyPI mcp-cassette", _is_python, _python), Reader("npm mcp-cassette", _is_npm, _npm))
