"""mcp-tape convert"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256

import click

from ... import __version__
from ...cassette import replace
from ...cassette.change.reformat import STDIN, ConversionCounts, ConvertError, build, convert, count_converted
from ...cassette.query import filters
from ...cassette.query.filters import Filter
from ...cassette.query.inventory import may_be_cassette
from ...cassette.reader import Cassette, Session
from ...cassette.schema import expect_local, is_remote
from ...cassette.text.recognize import is_database
from ...console import say
from ...console.terminal import echo_json
from ...errors import CassetteError, count
from ...fleet.cassette_paths import cassettes
from ...options import FORMATS
from ...transports.signals import exit_on_signal
from ...values import check_session
from ..click_options import files, option_reader, read_place
from ..filter import filter_option
from ..forms import FORMS, OF_FRAMES, OF_MANY, OF_ONE, Extract, form_of, page, pieces, send

_STREAM = "-"  # stdin or stdout


def _session(text: str) -> str:
    check_session(text)
    return text


@click.command(
    "convert",
    epilog="\b\nExamples:\n"
    "  mcp-tape convert tape.db tape.jsonl\n"
    "  mcp-tape convert session.har session.db\n"
    "  mcp-tape convert tape.db tape.html\n"
    "  mcp-tape convert client.db server.db both.html\n"
    "  mcp-tape convert tape.db test_server.py\n"
    "  mcp-tape convert tape.db --to md --filter status:error > errors.md\n"
    "  mcp-tape convert tape.db --to raw --side server > stdout.bin\n"
    "  mcp-tape convert tape.db | sed s/sunny/rainy/ | mcp-tape convert - rainy.db\n"
    "  mcp-tape convert tape.db http://127.0.0.1:4318",
)
@click.argument("paths", metavar="IN... [OUT]", nargs=-1, required=True, shell_complete=files)
@click.option("--to", "form", type=click.Choice(FORMS), help="The format of OUT. Default: by its suffix; jsonl "
              "for stdout.")  # fmt: skip
@click.option("--session", metavar="N|latest|all", callback=option_reader(_session),
              help="Convert these sessions. Default: all; the newest for raw, pytest and vitest.")  # fmt: skip
@filter_option
@click.option(
    "--side", type=click.Choice(["client", "server"]), help="Convert only the messages of this side. raw needs it."
)
@click.option("--times", is_flag=True, help="txt: add times, in milliseconds since the session's start.")
@click.option("--with-content", "content", is_flag=True, help="otlp: add the arguments and results of tools.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--textconv", is_flag=True, hidden=True, help="For git: report a file that cannot be read, but exit "
              "with 0.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Report the new file as a JSON object.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    form: str | None,
    session: str | None,
    kept: Filter,
    side: str | None,
    times: bool,
    content: bool,
    force: bool,
    textconv: bool,
    as_json: bool,
) -> None:
    """Convert recordings between SQLite and JSON lines, from other tools, and for other tools.

    IN is anything that mcp-tape reads: a cassette, JSON lines, or another tool's recording; - is stdin. OUT is a new
    file; the default, or -, is stdout. A file is written whole or not at all, and replaced only with --force.

    \b
    db (.db)                      a cassette in SQLite
    jsonl (.jsonl)                a cassette as JSON lines, to edit and review
    txt (.txt)                    the messages, sorted, without times: for diffs
    md (.md)                      Markdown, a heading for each exchange
    html (.html)                  one offline page; of several IN, merged by time
    raw                           the bytes of one side, as they were sent
    har (.har)                    an HTTP archive; stdio is mapped to requests
    otlp (.otlp.json)             OpenTelemetry spans; or OUT is a collector
    perfetto (.perfetto.json)     a time line for ui.perfetto.dev
    pytest (test_*.py)            a test for each tool call, replayed
    vitest (.test.ts, .test.mjs)  the same for vitest

    Cassettes are converted byte for byte, and convert back unchanged. Derived values, such as which answer belongs to
    which request, are computed again, so you can edit lines. A line that you write needs only a sender and a text.
    In another tool's recording, secrets are hidden; the facts that it lacks are noted with each session.
    """
    form, sources, output = _read(paths, form)
    _check(form, sources, output, side, content, times, as_json)
    if output is not None and not _is_collector(output):
        _expect_place(output)
        replace.expect_room(output, force)
    ctx.with_resource(exit_on_signal())
    whole = session is None and side is None and not kept.terms
    try:
        with ExitStack() as stack:
            if form == "db" and whole and sources == [_STREAM] and output is not None:
                made = build(sys.stdin.buffer, STDIN, output, overwrite=force)  # while the lines come
                _warn_of_lone(made.lone)
            elif form in FORMATS and whole and output is not None:
                made = convert(stack.enter_context(_source(sources[0])), output, as_text=form == "jsonl",
                               overwrite=force)  # fmt: skip
            else:
                opened = [stack.enter_context(_source(source)) for source in sources]
                chosen = [_open_extract(stack, place, form, session, kept) for place in opened]
                chosen = [one._replace(content=content, output=output, side=side, times=times) for one in chosen]
                made = _write(chosen, form, kept, output, force)
    except CassetteError as error:
        if not textconv:
            raise
        why = str(error).replace(paths[0], "the file").replace("\n", " ")
        _print(
            [f"mcp-tape {__version__} cannot show this: {why}\n{_file_state(paths[0])}\n".encode("utf-8", "replace")]
        )
        return
    if output is not None and as_json:
        echo_json({"file": output, "format": form, "sessions": made.sessions, "frames": made.frames})
    elif output is not None and not _is_collector(output):
        say(f"{output}: {count(made.sessions, 'session')}, {count(made.frames, 'frame')}")


def _read(paths: Sequence[str], form: str | None) -> tuple[str, list[str], str | None]:
    """Return the form, the sources and the output; None is stdout."""
    *sources, last = paths if len(paths) > 1 else (*paths, _STREAM)
    output = None if last == _STREAM else last
    if output is None:
        form = form or "jsonl"
    elif _is_collector(output):
        form = form or "otlp"
    else:
        form = form or form_of(output)
    if form is None:
        _expect_place(output or "")
        raise click.UsageError(
            f"the name {output} does not tell the format: end it in .db, .jsonl or .html, or add --to FORMAT"
        )
    read = [source if source == _STREAM else read_place(source) for source in sources]
    return form, cassettes(read) if form in OF_MANY else read, output


def _is_collector(output: str) -> bool:
    return output.startswith(("http://", "https://"))


def _check(
    form: str, sources: list[str], output: str | None, side: str | None, content: bool, times: bool, as_json: bool
) -> None:
    """Refuse options that do not go together."""
    on_terminal = output is None and sys.stdout.isatty()
    if len(sources) > 1 and form not in OF_MANY:
        several = f"{len(sources)} files are one page (--to html), or one cassette with mcp-tape merge"
        raise click.UsageError(f"{form} is made of one file: IN OUT; {several}")
    if form == "db" and output is None:
        raise click.UsageError("a database needs a file: mcp-tape convert IN OUT.db")
    if form == "raw" and side is None:
        raise click.UsageError("raw is one side's stream: add --side client or --side server")
    if form == "raw" and on_terminal:
        raise click.UsageError("raw bytes can upset a terminal: send them to a file, e.g. > stream.bin")
    if form == "html" and on_terminal:
        raise click.UsageError("a page is for a browser: name a file, e.g. tape.html")
    if side is not None and form not in OF_FRAMES:
        raise click.UsageError(f"--side goes with {', '.join(OF_FRAMES)}; for {form} try: --filter from:{side}")
    if content and form != "otlp":
        raise click.UsageError(f"--with-content goes with --to otlp, and this is {form}")
    if times and form != "txt":
        raise click.UsageError(f"--times goes with --to txt, and this is {form}")
    if output is not None and _is_collector(output) and form != "otlp":
        raise click.UsageError(f"{output} is a collector of spans: --to otlp; {form} goes into a file")
    if as_json and output is None and form != "jsonl":
        raise click.UsageError("--json reports on OUT, and stdout has the recording itself: name a file")


def _expect_place(output: str) -> None:
    """Refuse a place where no file can be made."""
    expect_local(output)
    if os.path.isdir(output):
        raise click.UsageError(
            f"OUT, {output}, is a directory; name the file in it, e.g. {os.path.join(output, 'tape.db')}"
        )
    if not os.path.isdir(os.path.dirname(output) or "."):
        raise CassetteError(f"cannot write {output}: there is no directory {os.path.dirname(output)}; make it first")


@contextmanager
def _source(source: str) -> Iterator[str]:
    """Yield a recording as a file; stdin is copied into one."""
    if source != _STREAM:
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="mcp-tape-") as directory:
        copy = os.path.join(directory, "stdin.jsonl")
        with open(copy, "xb") as file:
            while block := sys.stdin.buffer.read(1 << 20):
                file.write(block)
            if not file.tell():
                raise CassetteError(f"{STDIN} holds no recording: it is empty")
        try:
            yield copy
        except CassetteError as error:
            raise type(error)(str(error).replace(copy, STDIN)) from None


def _open_extract(stack: ExitStack, place: str, form: str, session: str | None, kept: Filter) -> Extract:
    """Open a cassette, and choose its sessions."""
    cassette = stack.enter_context(Cassette(place))
    session = session or ("latest" if form in OF_ONE or kept.names_sessions else "all")
    return Extract(cassette, _sessions(cassette, session, kept), kept)


def _sessions(cassette: Cassette, which: str, kept: Filter) -> list[Session]:
    if which == "all":
        return cassette.sessions()
    wanted = filters.sessions(cassette, kept, int(which) if which.isdecimal() else None)
    return [session for session in cassette.sessions() if session.id in wanted]


def _write(chosen: list[Extract], form: str, kept: Filter, output: str | None, force: bool) -> ConversionCounts:
    """Write the chosen sessions, and count them."""
    made = ConversionCounts(0, 0)
    for one in chosen:
        some = count_converted(one.cassette, [session.id for session in one.sessions])
        made = ConversionCounts(made.sessions + some.sessions, made.frames + some.frames)
    if form == "html":
        write_out(page(chosen, kept), output)
    elif output is not None and _is_collector(output):
        send(chosen[0], output)
    elif form == "db" and output is not None:
        made = build(pieces("jsonl", chosen[0]), chosen[0].cassette.path, output, overwrite=force)
        _warn_of_lone(made.lone)
    else:
        if output is not None and os.path.exists(output):
            _expect_other(chosen[0].cassette.path, output, form)
        write_out(pieces(form, chosen[0]), output)
    return made


def _warn_of_lone(lone: Iterable[tuple[int, int]]) -> None:
    for session, extends in lone:
        say(f"session {session} extends session {extends}, which is not here; to replay it: --session {session}")


def _expect_other(path: str, output: str, form: str) -> None:
    if not is_remote(path) and os.path.samefile(path, output):
        raise ConvertError(f"{output} is the recording itself, and {form} does not hold all of it; choose another name")


def write_out(data: Iterable[bytes], output: str | None) -> None:
    """Write to stdout, or to a file that appears once it is whole."""
    if output is None:
        _print(data)
        return
    if os.path.isfile(output) and is_database(output) and may_be_cassette(output):
        raise CassetteError(f"{output} is a cassette, and stays one; name another file")
    try:
        if os.path.exists(output) and not os.path.isfile(output):  # a pipe or a terminal
            with open(output, "wb") as out:
                out.writelines(data)
            return
        with replace.beside(output) as part:
            with open(part.file, "wb") as out:
                out.writelines(data)
            part.put()
    except OSError as error:
        raise CassetteError(f"cannot write {output}: {error.strerror}") from None


def _print(data: Iterable[bytes]) -> None:
    """Print UTF-8, whatever the locale is: programs read bytes."""
    sys.stdout.buffer.writelines(data)
    sys.stdout.flush()


def _file_state(file: str) -> str:
    """Return a value that changes when the file does."""
    digest = sha256()
    try:
        with open(file, "rb") as data:
            while block := data.read(1 << 20):
                digest.update(block)
        return f"{os.path.getsize(file)} bytes, sha256 {digest.hexdigest()}"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
