"""`show FILE SEQ`: one exchange with its messages, pretty-printed, and what happened meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ..cassette.query.exchange import belonging
from ..cassette.query.rows import Row, whole_text
from ..cassette.reader import Cassette
from ..console import say
from ..console.terminal import columns, echo_json, writable
from ..errors import harmless
from ..formats import pretty
from ..formats.lines import line_of
from ..wire import protocol
from .lines import echo_line

_MARGIN = "    "


def show_whole(file: str, session: int | None, seq: int, as_json: bool) -> None:
    """Print the exchanges that a frame belongs to."""
    with Cassette(file) as cassette:
        found = belonging(cassette, cassette.session(session).id, seq, _say_more)
        width = columns()
        for row in found:
            if as_json:
                echo_json(line_of(cassette, row, full=True).as_json() | {"text": whole_text(cassette, row)})
            else:
                _echo(cassette, row, width)
        sys.stdout.flush()


def _say_more() -> None:
    say("there is more on stderr; see it with: --filter kind:stderr")


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
