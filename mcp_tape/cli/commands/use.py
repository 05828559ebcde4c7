"""mcp-tape use"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...api import replay_options
from ...errors import TapeError, count
from ...modes import Command, Mode, Url, use
from ...options import USE
from .. import say
from ..click_options import cassette_argument, check_faults, given_as, record_from, rules_from, web_from
from .record import check_server, report, report_stripped, report_summary
from .replay import report_played

if TYPE_CHECKING:
    from ...replay.stage import Played, Replay


@click.command(
    "use",
    epilog="\b\nExamples:\n"
    "  mcp-tape use time.db -- uvx mcp-server-time\n"
    "  mcp-tape use time.db --mode new_episodes -- uvx mcp-server-time\n"
    "  mcp-tape use remote.db --url https://example.com/mcp --listen 127.0.0.1:8000\n"
    "\n\b\n"
    "In a client's configuration:\n"
    '  "command": "mcp-tape",\n'
    '  "args": ["use", "time.db", "--", "uvx", "mcp-server-time"]',
)
@cassette_argument
@given_as(*USE)
@click.argument("command", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, file: str, mode: Mode, quiet: bool, command: tuple[str, ...], **given: Any) -> None:
    """The VCR in one command: replay a cassette, record it, or both.

    Put it into a client's configuration once; the mode decides what happens. With --url clients come
    to an address of ours, the only line on stdout, until Ctrl-C.
    """
    by_web = bool(given["url"] or given["listen"])
    if mode != "none":
        check_server(command, given)
    replaying = replay_options(given)
    check_faults(replaying, by_web)
    server = Url(web_from(given), click.echo) if by_web else Command(command)
    if not quiet:
        say(f"mode {mode}: {file}")
    recording = record_from(command, given)
    try:
        outcome = use(file, server, mode, replaying, recording, report)
    except TapeError as error:
        _report(error, replaying, given)
        raise
    name = replaying.in_place_of or file
    if outcome.played is not None:
        report_played(outcome.played, replaying, name, quiet)
    if outcome.recorded is not None:
        report_summary(outcome.recorded, name, quiet)
        report_stripped(recording, quiet)
        if outcome.goes_on and not quiet:
            report("this run records: its sessions play in this order from the next run on, or with --mode none")
        if outcome.played is not None and (outcome.played.stale or not quiet):
            report(_grown(name, outcome.played))
    elif outcome.played is None:
        say(f"nothing was recorded: {name}")
    ctx.exit(outcome.code)


def _grown(name: str, played: Played) -> str:
    """Describe how a cassette grew, and how many answers may be older than that."""
    grown = f"{name} grew by {count(played.grew, 'call')}"
    if not played.stale:
        return grown
    answers = "1 answer after a live call is" if played.stale == 1 else f"{played.stale} answers after a live call are"
    return f"{grown}; {answers} from the old tape; to record all anew: --mode rewrite"


def _report(error: TapeError, replaying: Replay, given: dict[str, Any]) -> None:
    """Add an error to the report that a test reads."""
    from ...redaction.diagnostics import Discreet  # only where something went wrong
    from ...replay.report import Reporter

    Reporter(say, replaying.report, replaying.run, Discreet(rules_from(given))).fail(str(error))
