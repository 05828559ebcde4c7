"""Tools that list: the cassettes, and the sessions on one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..cassette.query.exchanges import Counts
from ..cassette.query.sessions import facts, server
from ..cassette.reader import Cassette, Session
from ..errors import TapeError, count
from ..formats.lines import duration
from .answers import Answer, Item, brief, number, page, short, words_of
from .places import HOW_TO_RECORD, Call

_OF_SESSION = (
    "id started_at ended_at exit_code protocol_version transport exchanges open errors label incomplete note".split()
)


def list_cassettes(call: Call, cursor: str | None = None) -> Answer:
    """List the readable cassettes with a summary of each, or the reason why one cannot be read."""
    items = _cassettes(call, number(cursor))
    return page("cassettes", items, "file · sessions · newest", f"There are no cassettes. {HOW_TO_RECORD}")


def _cassettes(call: Call, skipped: int) -> Iterator[Item]:
    for place, path in enumerate(islice(call.places.cassettes(), skipped, None), skipped + 1):
        call.check()
        size = os.path.getsize(path) if os.path.exists(path) else 0  # remote cassettes have no size yet
        value: dict[str, Any] = {"file": path, "bytes": size, "sessions": 0, "newest": None}
        try:
            with call.opened(path) as cassette:
                value |= _summary(cassette) | {"bytes": os.path.getsize(cassette.local)}
            problem = None
        except TapeError as error:
            problem = short(words_of(error))
        said = f"cannot be read: {problem}" if problem else f"{count(value['sessions'], 'session')} · {value['newest']}"
        yield Item(f"{path} · {said}", value | {"problem": problem}, str(place))


def _summary(cassette: Cassette) -> dict[str, Any]:
    sessions, newest = 0, None
    for newest in cassette.each_session():  # noqa: B007 - used below
        sessions += 1
    return {"sessions": sessions, "newest": f"{short(server(newest), 80)}, {newest.started_at}" if newest else None}


def list_sessions(call: Call, file: str | None = None, cursor: str | None = None) -> Answer:
    """List the sessions on a cassette in recorded order: server, client, size and number of errors."""
    with call.opened(file) as cassette:
        items = _sessions(cassette, number(cursor))
        head = f"{cassette.path}: session · started · server · protocol · size"
        return page("sessions", items, head, "There is no session on it yet.")


def _sessions(cassette: Cassette, after: int) -> Iterator[Item]:
    for block in cassette.session_blocks(after or None):
        counts = cassette.counts_of(block[0].id, block[-1].id)
        for session in block:
            yield _session(cassette.path, session, counts.get(session.id, Counts()))


def _session(path: str, session: Session, counts: Counts) -> Item:
    found = facts(path, session, counts)
    client = " ".join(filter(None, (session.client_name, session.client_version)))
    named = {"server": server(session), "client": client}
    seconds = None if counts.microseconds is None else counts.microseconds / 1e6
    value = brief({name: found[name] for name in _OF_SESSION} | named | {"seconds": seconds})
    parts = [
        f"{session.id}",
        value["started_at"],
        value["server"],
        f"label {value['label']}" if session.label else "",
        value["protocol_version"] or "-",
        count(counts.exchanges, "exchange"),
        f"{counts.open} without an answer" if counts.open else "",
        count(counts.errors, "error") if counts.errors else "",
        duration(counts.microseconds),
        f"exit code {session.exit_code}" if session.exit_code else "",
        "" if session.ended_at else "not ended: it is being recorded, or its recorder was killed",
        f"INCOMPLETE: {value['incomplete']}" if value["incomplete"] else "",
        value["note"] or "",
    ]
    return Item(" · ".join(filter(None, parts)), value, str(session.id))
