"""JSON lines with a direction: mcp-rec 0.1 (PyPI), npm's mcp-tape 1 (not this project), and mcpsnoop."""

from __future__ import annotations

from collections.abc import Iterator

from ...wire import protocol
from ...wire.channels import STDERR
from ...wire.frames import Side
from ..foreign import RESERIALISED, Begin, Clock, Item, Lost, Reader, Row, Said, Source, command, cut_off, line

_SENDERS: dict[str, Side] = {"client->server": "client", "server->client": "server", "in": "client", "out": "server"}
_ENVELOPED: dict[str, Side] = {"c2s": "client", "s2c": "server", "stderr": "server"}
_DROPPED = "frames dropped: their numbers have gaps"


def _is_rec(source: Source) -> bool:
    return {"ts", "dir", "msg"} <= source.first.keys()


def _rec(source: Source) -> Iterator[Item]:
    """A file may hold several runs, one after another; each begins with a handshake."""
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
    end = None
    for row in source.rows():
        end = row if isinstance(row, Row) and row.get("type") == "end" else end
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


def _is_snoop(source: Source) -> bool:
    return {"session_id", "direction", "transport"} <= source.first.keys() and ("seq" in source.first)


def _snoop(source: Source) -> Iterator[Item]:
    """Envelopes of several sessions, including stderr; each message is unchanged except for white space."""
    sessions: dict[str, list[Row]] = {}
    for row in source.rows():
        if isinstance(row, Lost):
            yield row
        else:
            sessions.setdefault(str(row.get("session_id")), []).append(row)
    for rows in sessions.values():
        yield from _snooped(rows)


def _snooped(rows: list[Row]) -> Iterator[Item]:
    clock, label = Clock(rows[0].get("ts")), rows[0].get("server_label")
    yield Begin(clock.started_at, command(), {"label": label if isinstance(label, str) and label else None})
    yield Lost("white space within messages")
    numbers = [number for row in rows if type(number := row.get("seq")) is int]
    if numbers and max(numbers) - min(numbers) + 1 > len(set(numbers)):
        yield Lost(_DROPPED, is_damage=True)
    for row in rows:
        sender, text = _ENVELOPED.get(str(row.get("direction"))), row.get("text")
        if sender is None:
            continue
        if row.get("truncated"):
            yield cut_off()
        at, channel = clock.at(row.get("ts")), (STDERR,) if row.get("direction") == STDERR else ()
        if row.get("raw") is not None:
            yield row.said(at, sender, "raw")
        elif isinstance(text, str):
            yield Said(at, sender, line(text), *channel)


READERS = (
    Reader("mcpsnoop", _is_snoop, _snoop),
    Reader("mcp-rec", _is_rec, _rec),
    Reader("npm mcp-tape", _is_npm_tape, _npm_tape),
)
