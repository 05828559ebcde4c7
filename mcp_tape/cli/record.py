"""mcp-tape record"""

from __future__ import annotations

import re

import click

from .. import api
from ..recorder import Options, Summary
from . import say
from .naming import default_path


def _patterns(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        try:
            re.compile(value)
        except re.error as error:
            raise click.BadParameter(f"{value!r} is not a regular expression: {error}") from None
    return values


def _paths(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        from ..jsonpath import compile_path

        try:
            compile_path(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return values


@click.command(
    "record",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog="\b\nExamples:\n"
    "  mcp-tape record -- uvx mcp-server-time\n"
    "  mcp-tape record -o git.db --note 'before 2.0' -- uvx mcp-server-git --repository .\n"
    "\n\b\n"
    "In a client's configuration put mcp-tape in front of the server's command:\n"
    '  "command": "mcp-tape", "args": ["record", "--", "npx", "-y", "@scope/server-x"]',
)
@click.option("-o", "--output", metavar="FILE", help="The cassette. Default: cassettes/NAME.db in a project, "
              "else in your data directory; NAME is made from the command.")  # fmt: skip
@click.option("--note", metavar="TEXT", help="A remark, kept with the session.")
@click.option("--redact-key", "redact_keys", metavar="KEY", multiple=True, help="Hide strings under this key too.")
@click.option("--redact-path", "redact_paths", metavar="JSONPATH", multiple=True, callback=_paths,
              help="Hide what stands at this place, e.g. '$.params.arguments.pin'.")  # fmt: skip
@click.option("--redact-value", "redact_values", metavar="REGEX", multiple=True, callback=_patterns,
              help="Hide text that this regular expression finds.")  # fmt: skip
@click.option("--no-redact", is_flag=True, help="Keep secrets. The cassette is then one itself.")
@click.option("--run", metavar="ID", hidden=True, help="An id that a test finds this session by.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing unless something is wrong.")
@click.argument("command", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED, required=True)
@click.pass_context
def command(
    ctx: click.Context,
    output: str | None,
    note: str | None,
    redact_keys: tuple[str, ...],
    redact_paths: tuple[str, ...],
    redact_values: tuple[str, ...],
    no_redact: bool,
    run: str | None,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Record a stdio server: stand between it and its client.

    Bytes pass untouched both ways, and every message, with its time, is on the cassette before the
    other side sees it. stdin, stdout, stderr, signals and the exit code are the server's own. An
    existing cassette gets one more session.
    """
    path = output or default_path(command)
    options = Options(
        target={"command": list(command)},
        note=note,
        run=run,
        redact=not no_redact,
        redact_keys=redact_keys,
        redact_paths=redact_paths,
        redact_values=redact_values,
    )
    if not quiet:
        say(f"recording to {path}")
    code, summary = api.record(command, path, options, warn=say)
    if summary.incomplete:
        say(f"INCOMPLETE: {summary.incomplete}")
    if not quiet or summary.incomplete:
        say(_line(summary, path))
    ctx.exit(code)


def _line(summary: Summary, path: str) -> str:
    session = "no session" if summary.session is None else f"session {summary.session}"
    return (
        f"{summary.frames} frames, {summary.exchanges} exchanges, {summary.still_open} still open, "
        f"{summary.redactions} redacted: {path} ({session})"
    )
