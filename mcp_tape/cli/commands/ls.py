"""mcp-tape ls"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import click

from ...cassette.query.exchanges import Counts
from ...cassette.query.inventory import cassettes_in, facts, server
from ...cassette.query.parts import Links, links
from ...cassette.reader import Cassette, EmptyError, Session
from ...console import say
from ...console.terminal import columns, echo, echo_json, echo_one_of_many, fit, pad, wrap, writable_text
from ...errors import CassetteError, count
from ...formats.row_lines import duration
from ...start.cassette_names import data_cassettes
from ..click_options import files, json_option, read_places

_WIDTH_OF_A_PIPE = 400  # a note may be long


@click.command(
    "ls",
    epilog="\b\nExamples:\n  mcp-tape ls\n  mcp-tape ls cassettes/\n  mcp-tape ls cassettes/mcp-server-time.db --json",
)
@click.argument("places", metavar="[CASSETTE]...", nargs=-1, shell_complete=files, callback=read_places)
@json_option
@click.pass_context
def command(ctx: click.Context, places: tuple[str, ...], as_json: bool) -> None:
    """List the sessions on a cassette: date, server, size, duration, and whether each is complete.

    CASSETTE can be a file, a quoted pattern, a directory (all cassettes in it and below, except in hidden
    directories) or a prefix in a bucket that ends in a /: s3://team/tapes/. The default is the current directory or,
    if it has no cassettes, your data directory, where clients record. Files that are not cassettes are skipped. If a
    cassette cannot be read, stderr has the reason and the exit code is 3.

    A session is one client's conversation: on stdio from the server's start to its end, over HTTP one
    Mcp-Session-Id; clients without one share a session per recording.
    """
    from ...fleet.cassette_paths import cassettes

    if not places:
        here = next(cassettes_in("."), None)
        places = ("." if here or not os.path.isdir(data_cassettes()) else data_cassettes(),)
    codes = []
    for place in places:
        paths = cassettes_in(place) if os.path.isdir(place) else cassettes([place])
        if paths == [place] and not places[1:]:
            _list(place, as_json)
        else:
            codes.append(_list_all(place, paths, as_json))
    ctx.exit(max(codes, default=0))


def _list_all(directory: str, paths: Iterable[str], as_json: bool) -> int:
    """List every cassette below a directory or a prefix. Return the exit code."""
    found = failed = 0
    for path in paths:
        found += 1
        try:
            _list(path, as_json, heading=True)
        except EmptyError:
            found -= 1  # an empty file need not be a cassette
        except CassetteError as error:
            failed += 1
            say(str(error))
    if not found:
        say(f"there are no cassettes in {directory}; record one with: mcp-tape record -o FILE -- SERVER")
    return CassetteError.exit_code if failed else 0


def _list(path: str, as_json: bool, heading: bool = False) -> None:
    with Cassette(path) as cassette:
        if heading and not as_json:
            echo(writable_text(fit(path, columns())), bold=True)
        found = False
        for block in cassette.session_blocks():
            found = True
            counts = cassette.counts_of(block[0].id, block[-1].id)
            for session in block:
                _print(path, session, counts.get(session.id, Counts()), links(cassette, session.id), as_json)
        sys.stdout.flush()
    if not found:
        say(f"{path} holds no session yet")


def _print(path: str, session: Session, counts: Counts, beside: Links, as_json: bool) -> None:
    if as_json:
        echo_json(facts(path, session, counts) | beside._asdict())
    else:
        echo_one_of_many(writable_text(_line(session, counts, beside)), fg="red" if session.incomplete else None)


def _line(session: Session, counts: Counts, beside: Links) -> str:
    parts = [
        f"{session.id:>3}",
        str(session.started_at)[:19].replace("T", " "),
        pad(fit(f"{session.label}: {server(session)}" if session.label else server(session), 40), 24),
        session.protocol_version or "-",
        session.transport,
        count(counts.frames, "frame"),
        count(counts.exchanges, "exchange"),
        f"{counts.open} open" if counts.open else "",
        count(counts.errors, "error") if counts.errors else "",
        duration(counts.microseconds),
        f"INCOMPLETE: {session.incomplete}" if session.incomplete else "complete",
        f"extends {session.extends}" if session.extends else "",
        f"continues {beside.continues}" if beside.continues else "",
        f"continued in {beside.continued}" if beside.continued else "",
        fit(session.note or "", 60),
    ]
    width = columns() if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
    return wrap([part for part in parts if part], width, indent=5)
