"""JSON lines with a direction: mcp-rec 0.1 (PyPI), npm's mcp-tape 1 (not this project), and mcpsnoop."""

from __future__ import annotations

from collections.abc import Iterator

from ...wire import protocol
from ...wire.channels import STDERR
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
    cut_off_loss,
    line,
)

_SENDERS: dict[str, Side] = {"client->server": "client", "server->client": "server", "in": "client", "out": "server"}
_ENVELOPED: dict[str, Side] = {"c2s": "client", "s2c": "server", "stderr": "server"}
_DROPPED = "frames dropped: their numbers have gaps"


def _is_rec(source: SourceFile) -> bool:
    return {"ts", "dir", "msg"} <= source.first.keys()


def _rec(source: SourceFile) -> Iterator[Item]:
    """A file may hold several runs, one after another; each begins with a handshake."""
    clock: Clock | None = None
    yield Loss(RESERIALISED)
    for row in source.rows():
        if isinstance(row, Loss):
            yield row
            continue
        sender = _SENDERS.get(str(row.get("dir")))
        if sender is None:
            continue
        if clock is None or row.get("msg", "method") == protocol.INITIALIZE:
            clock = Clock(row.get("ts"))
            yield SessionStart(clock.started_at)
        is_raw = bool(row.get("msg", "_unparsed"))
        yield row.sent_bytes(clock.at(row.get("ts")), sender, "msg", *(["_raw"] if is_raw else []))


def _is_npm_tape(source: SourceFile) -> bool:
    first = source.first
    return first.get("type") == "meta" and "v" in first and ("startedAt" in first or "mcpTapVersion" in first)


def _npm_tape(source: SourceFile) -> Iterator[Item]:
    clock, label = Clock(source.first.get("startedAt")), source.first.get("label")
    end = None
    for row in source.rows():
        end = row if isinstance(row, JsonRow) and row.get("type") == "end" else end
    code = end.get("exitCode") if end else None
    more = {"exit_code": code if type(code) is int else None, "note": label if isinstance(label, str) else None}
    yield SessionStart(clock.started_at, command(source.first.get("command")), more)
    yield Loss(RESERIALISED)
    if end is None:
        yield cut_off_loss("it has no end, or goes on in another part")
    for row in source.rows():
        if isinstance(row, Loss):
            yield row
        elif sender := _SENDERS.get(str(row.get("dir"))):
            yield row.sent_bytes(clock.at(row.get("t")), sender, "raw")


def _is_snoop(source: SourceFile) -> bool:
    return {"session_id", "direction", "transport"} <= source.first.keys() and ("seq" in source.first)


def _snoop(source: SourceFile) -> Iterator[Item]:
    """Envelopes of several sessions, including stderr; each message is unchanged except for white space."""
    sessions: dict[str, list[JsonRow]] = {}
    for row in source.rows():
        if isinstance(row, Loss):
            yield row
        else:
            sessions.setdefault(str(row.get("session_id")), []).append(row)
    for rows in sessions.values():
        yield from _snoop_session(rows)


def _snoop_session(rows: list[JsonRow]) -> Iterator[Item]:
    clock, label = Clock(rows[0].get("ts")), rows[0].get("server_label")
    yield SessionStart(clock.started_at, command(), {"label": label if isinstance(label, str) and label else None})
    yield Loss("white space within messages")
    numbers = [number for row in rows if type(number := row.get("seq")) is int]
    if numbers and max(numbers) - min(numbers) + 1 > len(set(numbers)):
        yield Loss(_DROPPED, is_damage=True)
    for row in rows:
        sender, text = _ENVELOPED.get(str(row.get("direction"))), row.get("text")
        if sender is None:
            continue
        if row.get("truncated"):
            yield cut_off_loss()
        at, channel = clock.at(row.get("ts")), (STDERR,) if row.get("direction") == STDERR else ()
        if row.get("raw") is not None:
            yield row.sent_bytes(at, sender, "raw")
        elif isinstance(text, str):
            yield SentBytes(at, sender, line(text), *channel)


READERS = (
    Reader("mcpsnoop", _is_snoop, _snoop),
    Reader("mcp-rec", _is_rec, _rec),
    Reader("npm mcp-tape", _is_npm_tape, _npm_tape),
)
