"""mcp-tape ls"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from ...cassette import schema
from ...cassette.reader import Cassette, Counts, EmptyError, Session
from ...errors import CassetteError, count
from ...wire import jsontext
from .. import say
from ..click_options import files, json_option
from ..lines import duration
from ..output import columns, echo, echo_json, echo_one_of_many, fit, pad, wrap, writable

_WIDTH_OF_A_PIPE = 400  # a note may be long


@click.command(
    "ls",
    epilog="\b\nExamples:\n  mcp-tape ls\n  mcp-tape ls cassettes/\n  mcp-tape ls cassettes/mcp-server-time.db --json",
)
@click.argument("file", metavar="[FILE|DIR]", default=".", shell_complete=files)
@json_option
@click.pass_context
def command(ctx: click.Context, file: str, as_json: bool) -> None:
    """List the sessions on a cassette: when, what, how much, how long, and whether it is whole.

    Of a directory (default: the current one), the sessions on all cassettes in it and below, except in
    hidden directories. Files that are no cassettes are passed over; cassettes that cannot be read are
    told on stderr, and the exit code is 3.

    A session is one client's conversation: on stdio from the server's start to its end, over HTTP one
    Mcp-Session-Id, and one session a recording for all clients that have none.
    """
    if os.path.isdir(file):
        ctx.exit(_list_all(file, as_json))
    _list(file, as_json)


def _list_all(directory: str, as_json: bool) -> int:
    """List every cassette below a directory. Return the exit code."""
    found = failed = 0
    for path in cassettes_in(directory):
        found += 1
        try:
            _list(path, as_json, heading=True)
        except EmptyError:
            found -= 1  # an empty file may be anybody's
        except CassetteError as error:
            failed += 1
            say(str(error))
    if not found:
        say(f"there are no cassettes in {directory}; record one with: mcp-tape record -o FILE -- SERVER")
    return CassetteError.exit_code if failed else 0


def cassettes_in(directory: str) -> Iterator[str]:
    """The cassettes in a directory and below, in the order of their names; also those that cannot be read."""
    for place, inner, names in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            path = os.path.normpath(os.path.join(place, name))
            if os.path.isfile(path) and _may_be_cassette(path):
                yield path


def _may_be_cassette(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            head = file.read(100)
    except OSError:
        return path.endswith(".db")  # it may be one, as its name says
    return head.startswith(b"SQLite format 3\0") and int.from_bytes(head[68:72], "big") == schema.APPLICATION_ID


def _list(path: str, as_json: bool, heading: bool = False) -> None:
    with Cassette(path) as cassette:
        if heading and not as_json:
            echo(writable(fit(path, columns())), bold=True)
        found = False
        for block in cassette.session_blocks():
            found = True
            counts = cassette.counts_of(block[0].id, block[-1].id)
            for session in block:
                _print(path, session, counts.get(session.id, Counts()), as_json)
        sys.stdout.flush()
    if not found:
        say(f"{path} holds no session yet")


def _print(path: str, session: Session, counts: Counts, as_json: bool) -> None:
    if as_json:
        echo_json({"file": path} | session._asdict() | {"target": _target(session)} | counts._asdict())
    else:
        echo_one_of_many(writable(_line(session, counts)), fg="red" if session.incomplete else None)


def _line(session: Session, counts: Counts) -> str:
    server = " ".join(filter(None, (session.server_name, session.server_version))) or _command(session)
    parts = [
        f"{session.id:>3}",
        str(session.started_at)[:19].replace("T", " "),
        pad(fit(server, 40), 24),
        session.protocol_version or "-",
        session.transport,
        count(counts.frames, "frame"),
        count(counts.exchanges, "exchange"),
        f"{counts.open} open" if counts.open else "",
        count(counts.errors, "error") if counts.errors else "",
        duration(counts.microseconds),
        f"INCOMPLETE: {session.incomplete}" if session.incomplete else "complete",
        f"extends {session.extends}" if session.extends else "",
        fit(session.note or "", 60),
    ]
    width = columns() if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
    return wrap([part for part in parts if part], width, indent=5)


def _target(session: Session) -> Any:
    try:
        return jsontext.loads(session.target)
    except (ValueError, RecursionError):
        return session.target  # not ours, but somebody's


def _command(session: Session) -> str:
    target = _target(session)
    if not isinstance(target, dict):
        return str(session.target)
    words = target.get("command")
    return " ".join(map(str, words)) if isinstance(words, list) else str(target.get("url", session.target))
