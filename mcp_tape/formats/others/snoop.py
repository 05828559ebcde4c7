"""Envelopes of mcpsnoop, one a line: of several sessions, with stderr, each message as it was but for white space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...wire.channels import STDERR
from ...wire.frames import Side
from .stream import Begin, Clock, Item, Lost, Reader, Row, Said, Source, command, cut_off, line

_SENDERS: dict[str, Side] = {"c2s": "client", "s2c": "server", "stderr": "server"}
_DROPPED = "frames dropped: their numbers have gaps"


def _fits(source: Source) -> bool:
    return {"session_id", "direction", "transport"} <= source.first.keys() and ("seq" in source.first)


def _read(source: Source) -> Iterator[Item]:
    sessions: dict[Any, list[Row]] = {}
    for row in source.rows():
        if isinstance(row, Lost):
            yield row
        else:
            sessions.setdefault(str(row.get("session_id")), []).append(row)
    for rows in sessions.values():
        yield from _session(rows)


def _session(rows: list[Row]) -> Iterator[Item]:
    clock, label = Clock(rows[0].get("ts")), rows[0].get("server_label")
    yield Begin(clock.started_at, command(), {"label": label if isinstance(label, str) and label else None})
    yield Lost("white space within messages")
    numbers = [number for row in rows if type(number := row.get("seq")) is int]
    if numbers and max(numbers) - min(numbers) + 1 > len(set(numbers)):
        yield Lost(_DROPPED, is_damage=True)
    for row in rows:
        sender, text = _SENDERS.get(str(row.get("direction"))), row.get("text")
        if sender is None:
            continue
        if row.get("truncated"):
            yield cut_off()
        at, channel = clock.at(row.get("ts")), (STDERR,) if row.get("direction") == STDERR else ()
        if row.get("raw") is not None:
            yield row.said(at, sender, "raw")
        elif isinstance(text, str):
            yield Said(at, sender, line(text), *channel)


READERS = (Reader("mcpsnoop", _fits, _read),)
