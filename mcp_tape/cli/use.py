"""mcp-tape use"""

from __future__ import annotations

from typing import Any, get_args

import click

from ..modes import Mode, use
from . import say
from .options import common_options, record_from, recording_options, replay_from, replaying_options
from .record import tell, tell_summary
from .replay import tell_played


@click.command(
    "use",
    epilog="\b\nExamples:\n"
    "  mcp-tape use time.db -- uvx mcp-server-time\n"
    "  mcp-tape use time.db --mode new_episodes -- uvx mcp-server-time\n"
    "\n\b\n"
    "In a client's configuration:\n"
    '  "command": "mcp-tape", "args": ["use", "time.db", "--", "uvx", "mcp-server-time"]',
)
@click.argument("file", metavar="FILE")
@click.option("--mode", type=click.Choice(get_args(Mode)), default="once", show_default=True,
              help="none: only replay. once: record if there is nothing to play. new_episodes: record what misses. "
              "all: always record. rewrite: record anew, and replace the cassette if that ends well.")  # fmt: skip
@replaying_options
@recording_options
@common_options
@click.argument("command", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, file: str, mode: Mode, quiet: bool, command: tuple[str, ...], **given: Any) -> None:
    """The VCR in one command: replay a cassette, record it, or both.

    Put it into a client's configuration once; the mode decides what happens.
    """
    if not command and mode != "none":
        raise click.UsageError(f"mode {mode} may need the live server: add -- and its command")
    replaying = replay_from(given)
    if not quiet:
        say(f"mode {mode}: {file}")
    outcome = use(file, command, mode, replaying, record_from(command, given), tell)
    if outcome.played is not None:
        tell_played(outcome.played, replaying, file, quiet)
    if outcome.recorded is not None:
        tell_summary(outcome.recorded, file, quiet)
    elif outcome.played is None:
        say(f"nothing was recorded: {file}")
    ctx.exit(outcome.code)
