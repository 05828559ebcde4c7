"""Calls on a timeline, as a trace for https://ui.perfetto.dev and Chrome's own viewer.

Calls overlap, so each is an asynchronous slice of its own:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..cassette.query import filters
from ..cassette.query.filters import Filter
from ..cassette.reader import Cassette, Session
from ..wire import frames
from .timed_calls import calls, start_time, text

_THREADS = {"client": 1, "server": 2}


def dump(cassette: Cassette, sessions: Iterable[Session], kept: Filter) -> Iterator[str]:
    """Yield the trace in pieces: a process for each session, a track for the requests of each side."""
    yield '{"displayTimeUnit":"ms","traceEvents":[\n'
    separator = ""
    for session in sessions:
        for event in _events(cassette, session, kept):
            yield separator + text(event)
            separator = ",\n"
    yield "\n]}\n"


def _events(cassette: Cassette, session: Session, kept: Filter) -> Iterator[dict[str, Any]]:
    zero = start_time(session)
    title = " ".join(filter(None, (session.server_name, session.server_version))) or "server"
    yield _name_event("process_name", session.id, 0, f"session {session.id}: {title}")
    for side, thread in _THREADS.items():
        yield _name_event("thread_name", session.id, thread, f"sent by the {side}")
    for call in calls(cassette, session.id, kept):
        exchange, thread = call.exchange, _THREADS.get(call.exchange.sender, 0)
        name = " ".join(filter(None, (exchange.method, exchange.name)))
        slice_ = {
            "cat": exchange.method,
            "name": name,
            "id2": {"local": f"{session.id}.{exchange.seq}"},  # unique within this process only
            "pid": session.id,
            "tid": thread,
        }
        args = {"seq": exchange.seq, "id": exchange.id, "status": call.status, "params": exchange.params}
        yield {"ph": "b", "ts": zero + call.at, **slice_, "args": args}
        outcome = {"result": exchange.result} if exchange.error is None else {"error": exchange.error}
        if call.took is not None:
            yield {"ph": "e", "ts": zero + call.at + call.took, **slice_, "args": outcome}
    for frame in filters.frames(cassette, session.id, kept):
        for message in frames.parse(frame.text)[1] if frame.kind in ("message", "batch") else ():
            if message.kind == "notification":
                place = {"pid": session.id, "tid": _THREADS.get(frame.sender, 0), "s": "t"}
                args = {"seq": frame.seq, "params": message.body.get("params")}
                yield {
                    "ph": "i",
                    "ts": zero + frame.at,
                    "cat": "notification",
                    "name": message.method,
                    **place,
                    "args": args,
                }


def _name_event(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
