"""mcp-tape export"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import BinaryIO

import click

from ...cassette import replace
from ...cassette.change.derive import hidden_keys
from ...cassette.query import filters
from ...cassette.query.filters import Filter
from ...cassette.query.sessions import may_be_cassette
from ...cassette.reader import Cassette, Session
from ...cassette.text import write
from ...cassette.text.names import is_database
from ...console import say
from ...errors import CassetteError
from ...formats import raw
from ...wire.channels import STDIO
from ...wire.frames import Frame
from ..click_options import cassette_argument, files, read_places
from ..exporting import FOR_PEOPLE, FORMS, Asked, send
from ..filter import filter_option

_FORMATS = click.Choice(["jsonl", "raw", *FOR_PEOPLE, *FORMS])


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
    "  mcp-tape export tape.db --format html -o tape.html\n"
    "  mcp-tape export client.db server.db --format html -o both.html\n"
    "  mcp-tape export tape.db --format raw --side server > stdout.bin\n"
    "  mcp-tape export tape.db --format pytest -o test_server.py\n"
    "  mcp-tape export tape.db --format lock -o mcp.lock\n"
    "  mcp-tape export tape.db --format otlp --to http://127.0.0.1:4318",
)
@cassette_argument
@click.argument("more", metavar="[FILE]...", nargs=-1, shell_complete=files, callback=read_places)
@click.option(
    "--session", metavar="N|all", callback=_which, help="Which session, or all; default: the newest; for html, all."
)
@click.option("--format", "form", type=_FORMATS, default="jsonl", show_default=True,
              help="jsonl: one frame a line. raw: one side's byte stream. md, html: for people. otlp, har, perfetto: "
              "for other tools. pytest, vitest: tests. lock: what the server offers.")  # fmt: skip
@click.option("--json", "form", flag_value="jsonl", help="The same as --format jsonl.")
@click.option("--side", type=click.Choice(["client", "server"]), help="Only what this side sent. raw needs it.")
@click.option("-o", "--output", metavar="FILE", shell_complete=files, help="Write to this file, not to stdout.")
@click.option("--force", is_flag=True, help="Replace the output if it is there.")
@click.option("--with-content", "content", is_flag=True, help="otlp: with the arguments and results of tools.")
@click.option("--to", metavar="URL", help="otlp: send it to a collector, such as http://127.0.0.1:4318.")
@filter_option
def command(
    file: str,
    more: tuple[str, ...],
    session: int | str | None,
    form: str,
    side: str | None,
    output: str | None,
    force: bool,
    content: bool,
    to: str | None,
    kept: Filter,
) -> None:
    """Write a session to stdout or a file, in full.

    jsonl: a JSON object for the session and one per frame, the text verbatim in a JSON string (base64 where it
    is not UTF-8). mcp-tape load makes a cassette of them again. With --side only frames.

    raw: the bytes that one side wrote to stdin or stdout, exactly, unless something in them was redacted.
    HTTP has no such stream: there each body and each event's data comes with a newline behind it.

    md: Markdown for a pull request or an issue, a heading for each exchange.

    html: a page that shows all sessions in a browser, to look through, filter and pass on. It is one file, opens
    from disk, and loads nothing. Several cassettes are one page, merged by time.

    otlp: a span of OpenTelemetry for each call, in OTLP's JSON, by the conventions for MCP. Arguments and results only
    with --with-content. --to sends them.

    har: an HTTP archive; calls on stdio are mapped to requests, and say so. perfetto: calls on a time line, for
    ui.perfetto.dev and chrome://tracing.

    pytest, vitest: a test for each tool call, which plays the cassette and expects what was recorded.

    lock: what the server offers, without calls, as text that stays the same while it does. mcp-tape breaking takes it
    as OLD.

    With these, --filter chooses among requests.
    """
    if more and form != "html":
        raise click.UsageError(f"several cassettes are for a page: --format html; {form} takes one at a time")
    _check(form, side, output, content, to)
    if output is not None:
        replace.expect_room(output, force)
    if form == "html":
        _write_page((file, *more), session, kept, output)
        return
    if to is not None:
        with Cassette(file) as cassette:
            send(Asked(cassette, _sessions(cassette, session, kept), kept, content), to)
        return
    with Cassette(file) as cassette, _opened(output) as out:
        if form in FORMS:
            asked = Asked(cassette, _sessions(cassette, session, kept), kept, content, output)
            out.writelines(text.encode("utf-8", "replace") for text in FORMS[form](asked))
            return
        for one in _sessions(cassette, session, kept):
            with closing(_frames(cassette, one.id, side, kept)) as frames:
                _write(out, cassette, one, frames, form, whole=side is None)


def _write_page(paths: Sequence[str], session: int | str | None, kept: Filter, output: str | None) -> None:
    from ...viewer.page import exported
    from ...viewer.tapes import Tape

    with ExitStack() as stack:
        tapes = []
        for path in paths:
            cassette = stack.enter_context(Cassette(path))
            wanted = [one.id for one in _sessions(cassette, session or "all", kept)]
            tapes.append(Tape(cassette, wanted, os.path.basename(path)))
        stack.enter_context(_opened(output)).writelines(exported(tapes, kept))


def _check(form: str, side: str | None, output: str | None, content: bool, to: str | None) -> None:
    """Refuse options that do not go together."""
    if form == "raw" and side is None:
        raise click.UsageError("raw is one side's stream: add --side client or --side server")
    if form == "raw" and output is None and sys.stdout.isatty():
        raise click.UsageError("raw bytes can upset a terminal: send them to a file, e.g. > stream.bin")
    if form not in ("jsonl", "raw") and side is not None:
        raise click.UsageError(f"--side goes with jsonl and raw; for {form} try: --filter from:{side}")
    if form == "html" and output is None and sys.stdout.isatty():
        raise click.UsageError("a page is for a browser: send it to a file, e.g. -o tape.html")
    if form != "otlp" and (content or to is not None):
        raise click.UsageError(f"--{'to' if to is not None else 'with-content'} goes with --format otlp")
    if to is not None and (output is not None or not to.startswith(("http://", "https://"))):
        raise click.UsageError("--to takes a URL such as http://127.0.0.1:4318, and leaves nothing for -o")


@contextmanager
def _opened(output: str | None) -> Iterator[BinaryIO]:
    """Stdout, or a file that is whole once it is there."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if os.path.isfile(output) and is_database(output) and may_be_cassette(output):
        raise CassetteError(f"{output} is a cassette, and stays one; name another file with -o")
    try:
        if os.path.exists(output) and not os.path.isfile(output):  # a pipe or a terminal
            with open(output, "wb") as out:
                yield out
            return
        with replace.beside(output) as part:
            with open(part.file, "wb") as out:
                yield out
            part.put()
    except OSError as error:
        raise CassetteError(f"cannot write {output}: {error.strerror}") from None


def _sessions(cassette: Cassette, which: int | str | None, kept: Filter) -> list[Session]:
    if which == "all":
        return cassette.sessions()
    wanted = filters.sessions(cassette, kept, which if isinstance(which, int) else None)
    return [session for session in cassette.sessions() if session.id in wanted]


def _frames(cassette: Cassette, session: int, side: str | None, kept: Filter) -> Generator[Frame, None, None]:
    for frame in filters.frames(cassette, session, kept):
        if side in (None, frame.sender):
            yield frame


def _write(
    out: BinaryIO, cassette: Cassette, session: Session, frames: Iterable[Frame], form: str, whole: bool
) -> None:
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
            out.write(write.header(session))
        write.dump(frames, out, hidden_keys(cassette, session.id))
