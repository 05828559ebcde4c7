"""Requests with their answers, as plain Python values: replay starts without them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...wire import jsontext
from ...wire.frames import Exchange
from .. import schema
from ..functions import answer_of, text_of

if TYPE_CHECKING:
    from ..pages import Values

    Cassette = Any  # of `reader`, which loads this

_SQL = f"""SELECT q.session, q.seq, q.sender, q.method, q.name, q.rpc_id,
    af.elapsed - qf.elapsed, {text_of("qf", "q.part")}, q.part, {text_of("af", "a.part")}, a.part,
    q.id FROM messages q JOIN facts qf ON qf.id = q.frame
    {answer_of("q")} LEFT JOIN facts af ON af.id = a.frame
    WHERE q.id BETWEEN ? AND ? AND q.kind = 'request'"""
_NONE = type(None)
_TYPES = (
    *((int,), (int,), (str,), (str, _NONE), (str, _NONE), (str, _NONE), (int, _NONE)),
    *((str, bytes, _NONE), (int,), (str, bytes, _NONE), (int, _NONE), (int,)),
)


def exchanges(cassette: Cassette, session: int) -> Iterator[Exchange]:
    """Every request of a session, of either side, with its answer; some megabytes at a time."""
    answer, key = len(_TYPES) - 3, {"q.id": len(_TYPES) - 1}
    for page in cassette.pages(_SQL, schema.row_ids(session), key, tuple, text=answer):
        yield from map(_exchange, cassette.expected(page, _TYPES))


def _exchange(row: Values) -> Exchange:
    *known, took, asked, part, answer, of, _ = row
    outcome = _member(answer, of, "result"), _member(answer, of, "error")
    return Exchange._make((*known, _member(asked, part, "params"), *outcome, took, None))


def _member(text: Any, part: int, name: str) -> Any:
    """A member of a message as plain Python values; None where there is none."""
    try:
        body = jsontext.loads(text)
        message = body[part] if isinstance(body, list) else body
    except (ValueError, RecursionError, TypeError, IndexError):
        return None
    return message.get(name) if isinstance(message, dict) else None
