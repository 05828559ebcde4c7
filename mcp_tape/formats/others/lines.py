"""JSON lines with a direction: mcp-rec 0.1 (PyPI), and mcp-tape 1 of npm, which is not this one."""

from __future__ import annotations

from collections.abc import Iterator

from ...wire import protocol
from ...wire.frames import Side
from .stream import RESERIALISED, Begin, Clock, Item, Lost, Reader, Source, command, cut_off

_SENDERS: dict[str, Side] = {"client->server": "client", "server->client": "server", "in": "client", "out": "server"}


def _is_rec(source: Source) -> bool:
    return {"ts", "dir", "msg"} <= source.first.keys()


def _rec(source: Source) -> Iterator[Item]:
    """A file may hold several runs, one behind the other: each begins with a handshake."""
    clock: Clock | None = None
    yield Lost(RESERIALISED)
    for row in source.rows():
        if isinstance(row, Lost):
            yield row
            continue
        sender = _SENDERS.get(str(row.get("dir")))
        if sender is None:
            continue
        if clock is None or row.get("msg", "method") == protocol.INITIALIZE:
            clock = Clock(row.get("ts"))
            yield Begin(clock.started_at)
        is_raw = bool(row.get("msg", "_unparsed"))
        yield row.said(clock.at(row.get("ts")), sender, "msg", *(["_raw"] if is_raw else []))


def _is_npm_tape(source: Source) -> bool:
    first = source.first
    return first.get("type") == "meta" and "v" in first and ("startedAt" in first or "mcpTapVersion" in first)


def _npm_tape(source: Source) -> Iterator[Item]:
    clock, label = Clock(source.first.get("startedAt")), source.first.get("label")
    end = next((row for row in reversed(source.lines) if row and row.get("type") == "end"), None)
    code = end.get("exitCode") if end else None
    more = {"exit_code": code if type(code) is int else None, "note": label if isinstance(label, str) else None}
    yield Begin(clock.started_at, command(source.first.get("command")), more)
    yield Lost(RESERIALISED)
    if end is None:
        yield cut_off("it has no end, or goes on in another part")
    for row in source.rows():
        if isinstance(row, Lost):
            yield row
        elif sender := _SENDERS.get(str(row.get("dir"))):
            yield row.said(clock.at(row.get("t")), sender, "raw")


READERS = (Reader("mcp-rec", _is_rec, _rec), Reader("npm mcp-tape", _is_npm_tape, _npm_tape))
