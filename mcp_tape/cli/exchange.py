"""`show FILE SEQ`: one exchange with its messages, pretty-printed, and what happened meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice

from ..cassette.query.rows import Row, end_of_exchange, exchange_rows, frame_row, frame_rows, rows_around, whole_text
from ..cassette.reader import Cassette
from ..errors import CassetteError, harmless, pasted
from ..formats import pretty
from ..wire import protocol
from ..wire.channels import STDIO
from . import say
from .lines import echo_line, line_of
from .output import columns, echo_json, writable

_MEANWHILE = 1_000  # lines of stderr
_MARGIN = "    "
_BEFORE = 10  # frames: the HTTP request comes before what it carries


def show_whole(file: str, session: int | None, seq: int, as_json: bool) -> None:
    """Print the exchanges that a frame belongs to."""
    with Cassette(file) as cassette:
        number = cassette.session(session).id
        rows = frame_rows(cassette, number, seq)
        if not rows:
            raise CassetteError(f"session {number} of {file} has no frame {seq}; see: mcp-tape show {pasted(file)}")
        width = columns()
        for row in _belonging(cassette, rows):
            if as_json:
                echo_json(line_of(cassette, row, full=True).as_json() | {"text": whole_text(cassette, row)})
            else:
                _echo(cassette, row, width)
        sys.stdout.flush()


def _belonging(cassette: Cassette, rows: list[Row]) -> Iterator[Row]:
    """Rows of the exchanges of a frame, in order; the frame alone if it belongs to none."""
    for root in dict.fromkeys(map(_root_of, rows)):
        if root is None:
            yield from (row for row in rows if _root_of(row) is None)
        else:
            yield from _exchange(cassette, rows[0].session, root)


def _root_of(row: Row) -> int | None:
    """The request that opened the exchange of a message."""
    if not row.is_message:
        return None
    if row.exchange is not None:
        return row.exchange
    return row.seq if row.kind == "request" else row.answers


def _exchange(cassette: Cassette, session: int, root: int) -> Iterator[Row]:
    opened = frame_row(cassette, session, root)
    channel = opened.channel if opened else STDIO
    messages = exchange_rows(cassette, session, root)
    # Without an answer, whatever follows may be the reason.
    last = end_of_exchange(cassette, session, root, opened.sender if opened else "client")
    meanwhile = _at_most(_MEANWHILE, rows_around(cassette, session, root, last, channel))
    yield from _before(cassette, session, root, channel)
    yield from merge(messages, meanwhile, key=lambda row: row.seq)


def _at_most(number: int, rows: Iterator[Row]) -> Iterator[Row]:
    yield from islice(rows, number)
    if next(rows, None) is not None:
        say("there is more on stderr; see it with: --filter kind:stderr")


def _before(cassette: Cassette, session: int, root: int, channel: str) -> Iterator[Row]:
    """The HTTP request that brought a message."""
    found = rows_around(cassette, session, root - _BEFORE, root - 1, channel)
    return (row for row in found if row.frame_kind == "control" and row.seq < root)


def _echo(cassette: Cassette, row: Row, width: int) -> None:
    line = line_of(cassette, row)
    if row.frame_kind == "control" or row.method == protocol.PROGRESS:  # of which there may be thousands
        return echo_line(line, width)
    echo_line(line._replace(detail=""), width, bold=True)
    text = whole_text(cassette, row)
    if row.is_message and row.frame_kind != "noise":
        _write(pretty.pieces(text))
    elif text:
        _write(pretty.in_pieces(f"\n{line}" if number else line for number, line in enumerate(text.splitlines())))
    return None


def _write(pieces: Iterable[str]) -> None:
    """Print behind a margin, without a flush for each line: there may be millions."""
    sys.stdout.write(_MARGIN)
    for piece in pieces:
        sys.stdout.write(writable(f"\n{_MARGIN}".join(map(harmless, piece.split("\n")))))
    sys.stdout.write("\n")
    sys.stdout.flush()  # lines for a terminal take another way there
