"""mcp-tape record"""

from __future__ import annotations

from typing import Any

import click

from .. import api
from ..recorder import Summary
from . import say
from .naming import default_path
from .options import common_options, record_from, recording_options


@click.command(
    "record",
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExamples:\n"
    "  mcp-tape record -- uvx mcp-server-time\n"
    "  mcp-tape record -o git.db --note 'before 2.0' -- uvx mcp-server-git --repository .\n"
    "\n\b\n"
    "In a client's configuration put mcp-tape in front of the server's command:\n"
    '  "command": "mcp-tape", "args": ["record", "--", "npx", "-y", "@scope/server-x"]',
)
@click.option("-o", "--output", metavar="FILE", help="The cassette. Default: cassettes/NAME.db in a project, "
              "else in your data directory; NAME is made from the command.")  # fmt: skip
@recording_options
@common_options
@click.argument("command", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED, required=True)
@click.pass_context
def command(ctx: click.Context, /, output: str | None, quiet: bool, command: tuple[str, ...], **given: Any) -> None:
    """Record a stdio server: stand between it and its client.

    Bytes pass untouched both ways, and every message, with its time, is on the cassette before the
    other side sees it. stdin, stdout, stderr, signals and the exit code are the server's own. An
    existing cassette gets one more session.
    """
    path = output or default_path(command)
    if not quiet:
        tell(f"recording to {path}")
    code, summary = api.record(command, path, record_from(command, given), warn=tell)
    tell_summary(summary, path, quiet)
    ctx.exit(code)


def tell(text: str) -> None:
    """Say it, unless our stderr is full because the client never reads it: that must not stop the traffic."""
    from ..transports.stdio import has_room

    if has_room(2):
        say(text)


def tell_summary(summary: Summary, path: str, quiet: bool) -> None:
    """What was recorded, in one line; loud if it is not whole."""
    if summary.incomplete:
        tell(f"INCOMPLETE: {summary.incomplete}")
    if not quiet or summary.incomplete:
        session = "no session" if summary.session is None else f"session {summary.session}"
        tell(
            f"{summary.frames} frames, {summary.exchanges} exchanges, {summary.still_open} still open, "
            f"{summary.redactions} redacted: {path} ({session})"
        )
