"""mcp-tape record"""

from __future__ import annotations

import os
from typing import Any

import click

from ... import api
from ...errors import count
from ...options import RECORD, USE
from ...record.recorder import Options, Summary
from ...transports.runs import named
from .. import say
from ..click_options import given_as, record_from, web_from
from ..names import default_path, default_path_of


@click.command(
    "record",
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExamples:\n"
    "  mcp-tape record -- uvx mcp-server-time\n"
    "  mcp-tape record -o git.db --note 'before 2.0' -- uvx mcp-server-git -r .\n"
    "  mcp-tape record --url https://example.com/mcp -o example.db\n"
    "\n\b\n"
    "In a client's configuration put mcp-tape in front of the server's command:\n"
    '  "command": "mcp-tape", "args": ["record", "--", "uvx", "mcp-server-time"]\n'
    "or, with --url, the URL that mcp-tape prints in place of the server's.",
)
@given_as(*RECORD)
@click.argument("command", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, output: str | None, quiet: bool, command: tuple[str, ...], **given: Any) -> None:
    """Record a server: stand between it and its client.

    Bytes pass untouched both ways, and every message, with its time, is on the cassette before the
    other side sees it. An existing cassette gets more sessions.

    With a command, stdin, stdout, stderr, signals and the exit code are the server's own. With --url,
    mcp-tape is a proxy: give its URL, the only line on stdout, to the client, and stop it with Ctrl-C.
    """
    url = given["url"]
    check_server(command, given)
    path = output or (default_path_of(url) if url else default_path(command))
    web = web_from(given)
    if not quiet:
        report(f"recording to {path}")
    options = record_from(command, given)
    options = options._replace(run=named(options.run) or None)
    if url:
        code, summary = api.record_url(web, path, options, warn=report, started=click.echo)
    else:
        code, summary = api.record(command, path, options, warn=report)
    report_summary(summary, path, quiet)
    report_stripped(options, quiet)
    ctx.exit(code)


def check_server(command: tuple[str, ...], given: dict[str, Any]) -> None:
    """Refuse all but one server, and options of a URL without one."""
    url = given["url"]
    if not command and not url:
        raise click.UsageError("what is to be recorded? Add -- and the server's command, or --url URL")
    if command and url:
        from ...redaction.diagnostics import hidden

        raise click.UsageError(f"either --url {hidden(url)} or the command {command[0]}, not both")
    for row in USE:
        if command and row.counts and given.get(row.name):
            raise click.UsageError(f"{row.flag} goes with --url; a command talks on stdin and stdout")


def report(text: str) -> None:
    """Print a line unless stderr is full, as its reader never reads it: that must not stop the traffic."""
    from ...transports.stdio.relay import has_room

    if has_room(2):
        say(text)


def report_summary(summary: Summary, path: str, quiet: bool) -> None:
    """Report what was recorded, in one line; even when quiet, if it is incomplete."""
    if summary.incomplete:
        report(f"INCOMPLETE: {summary.incomplete}")
    if not quiet or summary.incomplete:
        if summary.incomplete and not summary.sessions:
            report(f"nothing was recorded: {path}")
            return
        recorded = f"{count(summary.frames, 'frame')}, {count(summary.exchanges, 'exchange')}"
        more = f"{summary.still_open} still open, {summary.redactions} redacted"
        report(f"{recorded}, {more}: {path} ({_sessions(summary.sessions)})")


def report_stripped(options: Options, quiet: bool) -> None:
    """Report that the client kept its environment, and so its secrets, from us."""
    from ...redaction.environment import looks_stripped

    if not quiet and options.redact and not options.known and looks_stripped(os.environ):
        names = ", ".join(sorted(os.environ)) or "no variables"
        report(
            f"the client has passed on {names}: secrets of its other variables were not known, so they are not hidden"
        )
        report("to hide them: --redact-env-from parents, or --env-file FILE")


def _sessions(numbers: list[int]) -> str:
    if not numbers:
        return "no session: no client came"
    return f"session {numbers[0]}" if len(numbers) == 1 else f"sessions {numbers[0]} to {numbers[-1]}"
