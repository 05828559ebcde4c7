"""Requests with their answers as plain Python values, and their counts. Not loaded at the start of a replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ...wire import jsontext
from ...wire.frames import Exchange
from .. import schema
from ..functions import answer_of, text_of

if TYPE_CHECKING:
    from ..pages import Values

    Cassette = Any  # of `reader`, which loads this module

FAILED = ("error", "tool-error", "refused")  # statuses of an answer
_SQL = f"""SELECT q.session, q.seq, q.sender, q.method, q.name, q.rpc_id,
    af.elapsed - qf.elapsed, {text_of("qf", "q.part")}, q.part, {text_of("af", "a.part")}, a.part,
    q.id FROM messages q JOIN facts qf ON qf.id = q.frame
    {answer_of("q")} LEFT JOIN facts af ON af.id = a.frame
    WHERE q.kind = 'request'"""
_NONE = type(None)
_TYPES = (
    *((int,), (int,), (str,), (str, _NONE), (str, _NONE), (str, _NONE), (int, _NONE)),
    *((str, bytes, _NONE), (int,), (str, bytes, _NONE), (int, _NONE), (int,)),
)

# A repeated request has no key and does not count, whatever its answer.
_COUNTS = f"""WITH again AS (SELECT id FROM derived
        WHERE id BETWEEN :first AND :last AND status = 'retry')
    SELECT session, count(CASE WHEN kind = 'request' AND key IS NOT NULL THEN 1 END),
    count(CASE WHEN kind = 'response' AND answers IS NOT NULL
        AND (session << {schema.BITS}) + answers NOT IN again THEN 1 END),
    count(CASE WHEN status IN {FAILED} THEN 1 END)
    FROM messages WHERE id BETWEEN :first AND :last GROUP BY session"""
# `elapsed` comes from the row with the maximum: https://www.sqlite.org/lang_select.html#bareagg
_SIZES = """SELECT session, count(*), max(id), elapsed FROM frames
    WHERE id BETWEEN :first AND :last GROUP BY session"""


class Counts(NamedTuple):
    """The size of a session, and the time of its last frame."""

    frames: int = 0
    exchanges: int = 0
    open: int = 0
    errors: int = 0
    microseconds: int | None = None


def exchanges(cassette: Cassette, session: int) -> Iterator[Exchange]:
    """Yield every request of a session, of either side, with its answer; reads some megabytes at a time."""
    answer, key = len(_TYPES) - 3, {"q.id": len(_TYPES) - 1}
    for page in cassette.pages(_SQL, (), key, tuple, within=schema.row_ids(session), text=answer):
        yield from map(_exchange, cassette.expect_types(page, _TYPES))


def _exchange(row: Values) -> Exchange:
    *known, took, asked, part, answer, of, _ = row
    outcome = _member(answer, of, "result"), _member(answer, of, "error")
    return Exchange._make((*known, _member(asked, part, "params"), *outcome, took, None))


def _member(text: Any, part: int, name: str) -> Any:
    """A member of a message as plain Python values; None without one."""
    try:
        body = jsontext.loads(text)
        message = body[part] if isinstance(body, list) else body
    except (ValueError, RecursionError, TypeError, IndexError):
        return None
    return message.get(name) if isinstance(message, dict) else None


def counts(cassette: Cassette, session: int) -> dict[str, int]:
    """Frames, exchanges, open requests and errors of a session."""
    *found, _ = counts_of(cassette, session, session).get(session, Counts())
    return dict(zip(Counts._fields, found, strict=False))


def counts_of(cassette: Cassette, first: int, last: int) -> dict[int, Counts]:
    """Counts of the sessions in a range, except empty ones."""
    span = {"first": schema.row_ids(first)[0], "last": schema.row_ids(last)[1]}
    found = {
        session: Counts(frames, microseconds=at if isinstance(at, int) else None)
        for session, frames, _, at in cassette.rows(_SIZES, span)
    }
    for session, requests, exchanges, errors in cassette.rows(_COUNTS, span):
        counts = found.get(session, Counts())
        found[session] = counts._replace(exchanges=exchanges, open=requests - exchanges, errors=errors)
    return found
