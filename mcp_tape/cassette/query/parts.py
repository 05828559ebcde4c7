"""Sessions that continue in another cassette: the beginning of the next part, and a part's links to its neighbours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...wire import frames, protocol
from ...wire.channels import CONTINUED, CONTINUES, TAPE
from ...wire.frames import Frame
from ...wire.jsontext import dumps
from .. import schema
from ..functions import answer_of, of_method
from ..reader import FRAME_COLUMNS, OF_SESSION, Cassette, frame_of

_FRAME = f"SELECT {FRAME_COLUMNS} FROM frames WHERE id = ?"
_INTRODUCTIONS = f"""SELECT q.frame, a.frame FROM messages q {answer_of("q")} WHERE q.{OF_SESSION} AND q.%s
    ORDER BY a.frame IS NULL, q.id DESC LIMIT 1"""
_KNOWN = f"""SELECT {FRAME_COLUMNS} FROM frames WHERE {OF_SESSION} AND kind = 'control'
    AND channel IN (SELECT value FROM json_each(?))"""


def in_force(db: sqlite3.Connection, session: int, requests: Iterable[int], channels: Iterable[str]) -> list[Frame]:
    """Return the frames that a reader needs to understand the next part.

    These are the newest handshakes with their answers, `requests` (by number), and the control frames of their channels
    and of `channels`.
    """
    span = schema.row_ids(session)
    sql = "SELECT frame FROM messages WHERE id = ?"
    found = {row[0] for number in requests for row in db.execute(sql, (schema.row_id(session, number),))}
    for method in (*protocol.INTRODUCTIONS, *protocol.INITIALIZED_NAMES):
        for row in db.execute(_INTRODUCTIONS % of_method(method).replace("AND ", "AND q."), (*span, method)):
            found.update(frame for frame in row if frame is not None)
    wanted = {frame.seq: frame for frame in (frame_of(db.execute(_FRAME, (row,)).fetchone()) for row in found)}
    open_ = {*channels, *(frame.channel for frame in wanted.values())}
    known = map(frame_of, db.execute(_KNOWN, (*span, dumps(sorted(open_)))))
    return [frame for _, frame in sorted((wanted | {frame.seq: frame for frame in known}).items())]


class Links(NamedTuple):
    """The neighbouring parts, by the names of their cassettes."""

    continues: str | None = None
    continued: str | None = None


def links(cassette: Cassette, session: int) -> Links:
    """Return the cassettes that a session continues from, and in."""
    sql = f"SELECT {FRAME_COLUMNS} FROM frames WHERE {OF_SESSION} ORDER BY id {{}} LIMIT 1"
    ends = (cassette.rows(sql.format(order), schema.row_ids(session), frame_of) for order in ("", "DESC"))
    first, last = (_note(found[0]) if found else {} for found in ends)
    return Links(_name(first, CONTINUES), _name(last, CONTINUED))


def _note(frame: Frame) -> dict[str, Any]:
    return frames.facts(frame.text) if frame.kind == "control" and frame.channel == TAPE else {}


def _name(facts: dict[str, Any], event: str) -> str | None:
    name = facts.get("cassette")
    return name if facts.get("event") == event and isinstance(name, str) else None
