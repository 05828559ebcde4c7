"""mcp-tape export"""

from __future__ import annotations

import sys

import click

from ..cassette import Cassette
from ..formats import jsonl, raw
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
              help="jsonl: one frame a line. raw: one side's byte stream, exactly as it was.")  # fmt: skip
@click.option("--side", type=click.Choice(["client", "server"]), help="Only what this side sent. raw needs it.")
def command(file: str, session: int | None, form: str, side: str | None) -> None:
    """Write a session out, to stdout."""
    if form == "raw" and side is None:
        raise click.UsageError("raw is one side's stream: add --side client or --side server")
    out = sys.stdout.buffer
    with Cassette(file) as cassette:
        frames = cassette.frames(cassette.session(session).id)
        if form == "raw":
            raw.dump((f for f in frames if f.sender == side), out)
        else:
            jsonl.dump((f for f in frames if side in (None, f.sender)), out)
        out.flush()
