"""mcp-tape show"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import closing

import click

from ...cassette.query import filters
from ...cassette.query.filters import EVERYTHING, Filter
from ...cassette.query.timeline import TimelineRow, related_rows, session_rows, whole_text
from ...cassette.reader import Cassette
from ...console import say
from ...console.terminal import columns, echo, echo_json, writable_text
from ...errors import replace_control_characters
from ...formats import pretty
from ...formats.row_lines import is_left_out_by_default, line_of
from ...wire import protocol
from ..click_options import WholeNumber, json_option, session_option
from ..filter import filter_option
from ..message_lines import echo_line, is_narrow
from ..newest import cassette_or_newest_argument

_MARGIN = "    "


@click.command(
    "show",
    epilog="\b\nExamples:\n"
    "  mcp-tape show\n"
    "  mcp-tape show tape.db\n"
    "  mcp-tape show tape.db 12\n"
    "  mcp-tape show tape.db -f\n"
    "  mcp-tape show tape.db --filter 'tool:search status:error -id:7 dur:>50'\n"
    "  mcp-tape show tape.db --session 2 --json\n\n"
    "\b\nFilters: a message must match every word; - before a word excludes.\n"
    "  method:tools/* tool:search    method; tool, prompt or resource; * is any\n"
    "  status:error                  error, ok, tool-error, rpc-error, refused,\n"
    "                                input-required, retry, cancelled, unanswered\n"
    "  dur:>50 dur:1s.. size:1k..2M  time taken, in ms; size in bytes\n"
    "  from:server kind:response     the sender; request, response, notification,\n"
    "                                message, batch, noise, stderr, control\n"
    "  id:7 session:2                the id of the call; the session\n"
    '  Bern "no such"                the text itself, in any case',
)
@cassette_or_newest_argument
@click.argument("seq", required=False, type=WholeNumber(min=0))
@session_option
@filter_option
@click.option("-f", "--follow", is_flag=True, help="Keep printing while the session is being recorded.")
@click.option("--all", "everything", is_flag=True, help="Also show the HTTP requests and responses around messages.")
@json_option
def command(
    file: str, seq: int | None, session: int | None, kept: Filter, follow: bool, everything: bool, as_json: bool
) -> None:
    """Show a session, one line per message; or one exchange in full.

    A line has the number, seconds since the start, direction (→ from the client, ← from the server), id, method and
    name, size in bytes, and content. An answer also has its outcome and the time it took. A ! marks lines that need
    attention: errors, calls without an answer, noise, stderr. Lines are cut to the width of the terminal; --json and
    mcp-tape convert have everything.

    Without a file, choose from the newest cassettes below this directory and of your clients. If there is only one,
    it is shown.

    SEQ is the number of a line. show then prints that exchange in full: the request, its answer, and the messages
    between; or the one frame, if it belongs to no exchange.
    """
    if seq is not None:
        if follow or kept.terms:
            raise click.UsageError("SEQ shows one exchange: leave out --filter and -f")
        show_whole(file, session, seq, as_json)
    elif follow:
        from ..follow import follow as show_following

        show_following(file, session, kept, everything, as_json)
    else:
        show(file, session, as_json, kept, everything)


def show(file: str, session: int | None, as_json: bool, kept: Filter = EVERYTHING, everything: bool = False) -> None:
    """Print a session, one line a message."""
    with Cassette(file) as cassette, closing(_rows(cassette, session, kept)) as rows:
        width, last, several = columns(), None, kept.names_sessions and session is None
        fitting = shown = 0
        for fitting, row in enumerate(rows, 1):  # noqa: B007 - used below
            if as_json:
                echo_json(line_of(cassette, row, full=True).as_json())
                continue
            if row.session != last:
                label = cassette.session(row.session).label
                if several or label:
                    echo(
                        f"session {row.session}"
                        + (f": {writable_text(replace_control_characters(label))}" if label else ""),
                        bold=True,
                    )
            last = row.session
            if everything or not is_left_out_by_default(row):
                echo_line(line_of(cassette, row, brief=is_narrow(width)), width)
                shown += 1
        sys.stdout.flush()
    if kept.terms and not fitting:
        say(f"nothing in {file if several else f'this session of {file}'} matches the filter")
    elif kept.terms and not shown and not as_json:
        say("the matching lines are hidden by default; to see them, add --all")


def _rows(cassette: Cassette, session: int | None, kept: Filter) -> Generator[TimelineRow, None, None]:
    for number in filters.sessions(cassette, kept, session):
        yield from session_rows(cassette, number, kept)


def show_whole(file: str, session: int | None, seq: int, as_json: bool) -> None:
    """Print the exchanges that a frame belongs to."""
    with Cassette(file) as cassette:
        found = related_rows(cassette, cassette.session(session).id, seq, _hint_at_stderr)
        width = columns()
        for row in found:
            if as_json:
                echo_json(line_of(cassette, row, full=True).as_json() | {"text": whole_text(cassette, row)})
            else:
                _echo_whole(cassette, row, width)
        sys.stdout.flush()


def _hint_at_stderr() -> None:
    say("there is more on stderr; see it with: --filter kind:stderr")


def _echo_whole(cassette: Cassette, row: TimelineRow, width: int) -> None:
    line = line_of(cassette, row)
    if row.frame_kind == "control" or row.method == protocol.PROGRESS:  # there may be thousands
        return echo_line(line, width)
    echo_line(line._replace(detail=""), width, bold=True)
    text = whole_text(cassette, row)
    if row.is_message and row.frame_kind != "noise":
        _write(pretty.pieces(text))
    elif text:
        _write(pretty.join_pieces(f"\n{line}" if number else line for number, line in enumerate(text.splitlines())))
    return None


def _write(pieces: Iterable[str]) -> None:
    """Print behind a margin, without a flush for each line: there may be millions."""
    sys.stdout.write(_MARGIN)
    for piece in pieces:
        sys.stdout.write(writable_text(f"\n{_MARGIN}".join(map(replace_control_characters, piece.split("\n")))))
    sys.stdout.write("\n")
    sys.stdout.flush()  # click writes lines for a terminal to another stream
