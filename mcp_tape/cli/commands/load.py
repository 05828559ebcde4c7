"""mcp-tape load"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timezone
from itertools import islice

import click

from ... import __version__
from ...cassette import build, replace
from ...cassette.schema import is_remote
from ...cassette.text import losses, opening, read
from ...console import say
from ...console.terminal import echo_json
from ...errors import CassetteError, count
from ...transports.signals import tidied_up
from ..click_options import changed_place, files, read_places


@click.command(
    "load",
    epilog="\b\nExamples:\n"
    "  mcp-tape export tape.db --session all > tape.jsonl\n"
    "  mcp-tape load tape.jsonl -o changed.db\n"
    "  mcp-tape load session.har -o session.db\n"
    "  mcp-tape export tape.db | sed s/sunny/rainy/ | mcp-tape load - -o rainy.db",
)
@click.argument("file", metavar="FILE", shell_complete=files, callback=read_places)
@click.option("-o", "--output", metavar="FILE", required=True, shell_complete=files, callback=changed_place,
              help="The cassette to make.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the output if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Say what was made as a JSON object.")
def command(file: str, output: str, force: bool, as_json: bool) -> None:
    """Make a cassette of JSON lines, as mcp-tape export writes them, or of another tool's recording.

    `-` reads JSON lines from stdin; the recording of another tool is read from its file.

    Frames come back byte for byte; what follows from them (which answer belongs to which request, what a
    request is matched by) is worked out anew, so an edited text counts. A line made by hand needs a sender
    and a text only. If a line is wrong, nothing is written.

    Of other tools: HAR, mcpsnoop, mcp-cassette of PyPI and npm, mcp-tape of npm, mcp-rec, mcp-recorder, mcp-vcr,
    mcp-time-travel (its recording.jsonl), mcp-flight-recorder, agent-vcr, the Inspector's exports, and the logs of
    Claude Desktop and VS Code. Secrets in them are hidden, and what they have lost is kept with each session. Every
    command that reads a cassette reads these files, too.
    """
    opening.expect_cassette(output)  # --force replaces cassettes, and nothing else
    replace.expect_room(output, force)
    if not os.path.isdir(os.path.dirname(output) or "."):
        raise CassetteError(f"cannot write {output}: there is no directory {os.path.dirname(output)}")
    click.get_current_context().with_resource(tidied_up())
    with opening.fetched(file) if is_remote(file) else nullcontext((file, file)) as (_, copy):
        loaded = load(copy, output)
    for session, extends in loaded.sessions.items():
        if extends is not None and extends not in loaded.sessions:
            say(f"session {session} extends session {extends}, which is not here; to replay it: --session {session}")
    if as_json:
        echo_json({"file": output, "sessions": list(loaded.sessions), "frames": loaded.frames})
    else:
        say(f"{output}: {count(len(loaded.sessions), 'session')}, {count(loaded.frames, 'frame')}")


def load(file: str, output: str) -> read.Loaded:
    """Write beside the cassette, and replace it only once the new one is whole."""
    if file != "-" and _is_foreign(file):
        return _import(file, output)
    now = datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
    defaults = {"started_at": now, "target": {"command": []}, "recorder": f"mcp-tape {__version__}"}
    try:
        with replace.beside(output) as part:
            with _lines(file) as lines, build.building(part.file, part.path) as builder:
                loaded = read.load(lines, "stdin" if file == "-" else file, builder, defaults)
            part.put()
    except OSError as error:
        raise CassetteError(f"cannot write {output}: {error.strerror}") from None
    return loaded


def _is_foreign(file: str) -> bool:
    """True for the recording of another tool. All else is for the reader of lines to read or refuse."""
    with _lines(file) as data:
        if read.is_ours(b"".join(islice(data, 1))):
            return False
    return opening.is_foreign(file)


def _import(file: str, output: str) -> read.Loaded:
    try:
        with replace.beside(output) as part:
            with build.building(part.file, part.path) as builder:
                losses.report(file, opening.load(file, builder, CassetteError(f"{file} holds no frame")))
                loaded = read.Loaded(builder.frames, dict(builder.sessions))
            part.put()
    except OSError as error:
        raise CassetteError(f"cannot write {output}: {error.strerror}") from None
    return loaded


def _lines(file: str) -> AbstractContextManager[Iterable[bytes]]:
    try:
        return nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb")
    except OSError as error:
        hint = "give a file that mcp-tape export wrote, or - for stdin"
        raise CassetteError(f"cannot read {file}: {error.strerror}; {hint}") from None
