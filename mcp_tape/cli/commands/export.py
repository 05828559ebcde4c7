"""mcp-tape export"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import closing

import click

from ...cassette.derive import hidden_keys
from ...cassette.query import filters
from ...cassette.query.filters import Filter
from ...cassette.reader import Cassette, Session
from ...formats import jsonl, raw
from ...wire.channels import STDIO
from ...wire.frames import Frame
from .. import say
from ..click_options import cassette_argument
from ..filter import filter_option

_FORMATS = click.Choice(["jsonl", "raw", "md"])


def _which(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "all":
        return value
    if not value.isdecimal():
        raise click.BadParameter(f"{value!r} is neither all nor a session's number")
    return int(value)


@click.command(
    "export",
    epilog="\b\nExamples:\n"
    "  mcp-tape export tape.db --session all > tape.jsonl\n"
    "  mcp-tape export tape.db --format md --filter 'status:error' > errors.md\n"
    "  mcp-tape export tape.db --format raw --side server > stdout.bin",
)
@cassette_argument
@click.option("--session", metavar="N|all", callback=_which, help="Which session, or all; default: the newest.")
@click.option("--format", "form", type=_FORMATS, default="jsonl", show_default=True,
              help="jsonl: one frame a line. raw: one side's byte stream. md: for people.")  # fmt: skip
@click.option("--json", "form", flag_value="jsonl", help="The same as --format jsonl.")
@click.option("--side", type=click.Choice(["client", "server"]), help="Only what this side sent. raw needs it.")
@filter_option
def command(file: str, session: int | str | None, form: str, side: str | None, kept: Filter) -> None:
    """Write a session to stdout, in full.

    jsonl: a JSON object for the session and one per frame, the text verbatim in a JSON string (base64 where it
    is not UTF-8). mcp-tape load makes a cassette of them again. With --side only frames.

    raw: the bytes that one side wrote to stdin or stdout, exactly, unless something in them was redacted.
    HTTP has no such stream: there each body and each event's data comes with a newline behind it.

    md: Markdown for a pull request or an issue, a heading for each exchange.
    """
    if form == "raw" and side is None:
        raise click.UsageError("raw is one side's stream: add --side client or --side server")
    if form == "raw" and sys.stdout.isatty():
        raise click.UsageError("raw bytes can upset a terminal: send them to a file, e.g. > stream.bin")
    if form == "md" and side is not None:
        raise click.UsageError(f"--side goes with jsonl and raw; for md try: --filter from:{side}")
    with Cassette(file) as cassette:
        for one in _sessions(cassette, session, kept):
            with closing(_frames(cassette, one.id, side, kept)) as frames:
                _write(cassette, one, frames, form, whole=side is None)
    sys.stdout.flush()


def _sessions(cassette: Cassette, which: int | str | None, kept: Filter) -> list[Session]:
    if which == "all":
        return cassette.sessions()
    wanted = filters.sessions(cassette, kept, which if isinstance(which, int) else None)
    return [session for session in cassette.sessions() if session.id in wanted]


def _frames(cassette: Cassette, session: int, side: str | None, kept: Filter) -> Generator[Frame, None, None]:
    for frame in filters.frames(cassette, session, kept):
        if side in (None, frame.sender):
            yield frame


def _write(cassette: Cassette, session: Session, frames: Iterable[Frame], form: str, whole: bool) -> None:
    out = sys.stdout.buffer
    if form == "md":
        from ...formats import markdown

        for text in markdown.dump(cassette, session, frames):
            out.write(text.encode("utf-8", "replace"))
    elif form == "raw":
        raw.dump(frames, out)
        if session.transport != STDIO:
            say(f"session {session.id} was recorded over HTTP: its bodies and events, with a newline behind each")
    else:
        if whole:
            out.write(jsonl.header(session))
        jsonl.dump(frames, out, hidden_keys(cassette, session.id))
