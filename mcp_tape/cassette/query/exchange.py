"""One exchange with all that belongs to it, for `show FILE SEQ` and agents: messages, HTTP around them, stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice

from ...errors import CassetteError, pasted
from ...wire.channels import STDIO
from .. import schema
from ..reader import Cassette
from .rows import Row, end_of_exchange, exchange_rows, frame_row, frame_rows, rows_around

_MEANWHILE = 1_000  # lines of stderr
_BEFORE = 10  # frames; an HTTP request comes before its messages


def belonging(cassette: Cassette, session: int, seq: int, on_more: Callable[[], None]) -> Iterator[Row]:
    """Rows of the exchanges of a frame, in order; the frame alone if it belongs to none.

    `on_more` is called if stderr has more lines than are read.
    """
    rows = frame_rows(cassette, session, seq) if 0 <= seq <= schema.MOST else []
    if not rows:
        path = cassette.path
        raise CassetteError(f"session {session} of {path} has no frame {seq}", f"; see: mcp-tape show {pasted(path)}")
    return _belonging(cassette, rows, on_more)


def _belonging(cassette: Cassette, rows: list[Row], on_more: Callable[[], None]) -> Iterator[Row]:
    for root in dict.fromkeys(map(_root_of, rows)):
        if root is None:
            yield from (row for row in rows if _root_of(row) is None)
        else:
            yield from _exchange(cassette, rows[0].session, root, on_more)


def _root_of(row: Row) -> int | None:
    """The request that opened the exchange of a message."""
    if not row.is_message:
        return None
    if row.exchange is not None:
        return row.exchange
    return row.seq if row.kind == "request" else row.answers


def _exchange(cassette: Cassette, session: int, root: int, on_more: Callable[[], None]) -> Iterator[Row]:
    opened = frame_row(cassette, session, root)
    channel = opened.channel if opened else STDIO
    messages = exchange_rows(cassette, session, root)
    # Without an answer, anything that follows may be the reason.
    last = end_of_exchange(cassette, session, root, opened.sender if opened else "client")
    meanwhile = _at_most(_MEANWHILE, rows_around(cassette, session, root, last, channel), on_more)
    yield from _before(cassette, session, root, channel)
    yield from merge(messages, meanwhile, key=lambda row: row.seq)


def _at_most(number: int, rows: Iterator[Row], on_more: Callable[[], None]) -> Iterator[Row]:
    yield from islice(rows, number)
    if next(rows, None) is not None:
        on_more()


def _before(cassette: Cassette, session: int, root: int, channel: str) -> Iterator[Row]:
    """The HTTP request that carried a message."""
    found = rows_around(cassette, session, root - _BEFORE, root - 1, channel)
    return (row for row in found if row.frame_kind == "control" and row.seq < root)
