"""mcp-tape export"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing

import click

from ..cassette import Cassette
from ..formats import jsonl, raw
from ..frames import Frame
from .options import cassette_argument, session_option


@click.command(
    "export",
    epilog="\b\nExamples:\n"
    "  mcp-tape export tape.db --format jsonl\n"
    "  mcp-tape export tape.db --format raw --side server > stdout.bin",
)
@cassette_argument
@session_option
@click.option("--format", "form", type=click.Choice(["jsonl", "raw"]), default="jsonl", show_default=True,
              help="jsonl: one frame a line. raw: one side's byte stream.")  # fmt: skip
@click.option("--side", type=click.Choice(["client", "server"]), help="Only what this side sent. raw needs it.")
def command(file: str, session: int | None, form: str, side: str | None) -> None:
    """Write a session to stdout, in full.

    jsonl: one JSON object per frame, the text verbatim in a JSON string (base64 where it is not UTF-8).
    raw: the bytes that one side wrote to stdin or stdout, exactly, unless something in them was redacted.
    """
    if form == "raw" and side is None:
        raise click.UsageError("raw is one side's stream: add --side client or --side server")
    if form == "raw" and sys.stdout.isatty():
        raise click.UsageError("raw bytes can upset a terminal: send them to a file, e.g. > stream.bin")
    out = sys.stdout.buffer
    with Cassette(file) as cassette, closing(_frames(cassette, session, side)) as frames:
        if form == "raw":
            raw.dump(frames, out)
        else:
            jsonl.dump(frames, out)
        out.flush()


def _frames(cassette: Cassette, session: int | None, side: str | None) -> Generator[Frame, None, None]:
    for frame in cassette.frames(cassette.session(session).id):
        if side in (None, frame.sender):
            yield frame
