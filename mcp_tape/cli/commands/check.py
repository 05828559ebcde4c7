"""mcp-tape check"""

from __future__ import annotations

from functools import partial

import click

from ...console import say
from ...console.terminal import echo, writable_text
from ...contracts.terms import CallLimit, ContractTerm, Terms, limit, term
from ...errors import replace_control_characters
from ...fleet.many.checking import CheckTask, Contract, check_cassette
from ...fleet.many.results import Result
from ...fleet.shards import Shard
from ...options import REDACT, SECRET_SOURCES, OptionValues
from ...start.server_values import rules_from
from ...transports.signals import exit_on_signal
from ...values import check_session, parse_duration, parse_size
from ..click_options import cassettes_argument, format_option, many_options, option_reader, table_options
from ..filter import each
from ..running import CommandRun, report


def _session(text: str) -> str:
    check_session(text)
    return text


@click.command(
    "check",
    epilog="\b\nExamples:\n"
    "  mcp-tape check cassettes/ --jobs 4\n"
    "  mcp-tape check tape.db --redact-value 'C-[0-9]+'\n"
    "  mcp-tape check tape.db --expect tool:search --forbid 'tool:delete_*'\n"
    "  mcp-tape check tape.db --max 'tools/call<=20' --max-duration 2s\n"
    "  mcp-tape check tape.db --audit --json",
)
@cassettes_argument
@click.option(
    "--expect",
    metavar="FILTER",
    multiple=True,
    callback=each(term),
    help="At least one message must match this. May be repeated.",
)
@click.option(
    "--forbid", metavar="FILTER", multiple=True, callback=each(term), help="No message may match this. May be repeated."
)
@click.option(
    "--max",
    "limits",
    metavar="'FILTER<=N'",
    multiple=True,
    callback=each(limit),
    help="At most N calls of the client may match FILTER. May be repeated.",
)
@click.option(
    "--max-duration",
    "duration",
    metavar="TIME",
    callback=option_reader(parse_duration),
    help="The time limit for each call: 500ms, 2s.",
)
@click.option(
    "--max-definition-bytes",
    "definitions",
    metavar="SIZE",
    callback=option_reader(parse_size),
    help="The size limit for the definitions of all tools together: 40k.",
)
@click.option("--audit", "audited", is_flag=True, help="Also find server text that tries to steer a model.")
@click.option(
    "--session",
    metavar="N|latest|all",
    callback=option_reader(_session),
    help="Apply the contract and --audit to these sessions. Default: all, as one run.",
)
@table_options(*REDACT, *SECRET_SOURCES)
@format_option
@many_options
def command(
    paths: list[str],
    expect: tuple[ContractTerm, ...],
    forbid: tuple[ContractTerm, ...],
    limits: tuple[CallLimit, ...],
    duration: int | None,
    definitions: int | None,
    audited: bool,
    session: str | None,
    jobs: int,
    shard: Shard | None,
    form: str,
    as_json: bool,
    values: OptionValues,
) -> None:
    """Check cassettes for damage and secrets: one line for each finding, and exit code 1 if there is any.

    Findings are: a damaged or truncated file, a schema with missing or extra parts, sessions that are open or
    incomplete, messages that do not match their frames, and values that look like secrets by the rules of recording
    and the values in this environment. The report gives the place of a secret, never its value. Facts that another
    tool's recording lacks are listed, but are no findings.

    A contract sets the limits of a run: --expect, --forbid, --max, --max-duration, --max-definition-bytes. A breach
    is a finding. Filters are those of mcp-tape show; a bare word with a slash is a method.

    --audit searches the server's text for the model, in descriptions and results, for orders (ignore your
    instructions, do not tell the user), invisible characters, names that look like other names, and links that
    carry data out.

    CASSETTE can be a file, a directory, a quoted pattern or a URL. A cassette that cannot be read does not stop the
    others. --json prints a row for each cassette.

    Exit code 3: a file is not a cassette, or cannot be read.
    """
    terms = Terms(expect, forbid, limits, duration, definitions)
    if session is not None and terms == Terms() and not audited:
        raise click.UsageError("--session needs a contract or --audit; other checks are of the whole file")
    contract = _contract_of(terms)._replace(audited=audited, session=session or "all")
    task = CheckTask(contract, rules_from(values)._replace(environ={}))  # every process has its own
    form = "json" if as_json else form
    run = CommandRun("check", "checking", jobs, shard, quiet=form == "json")
    with exit_on_signal():
        results = run.results(partial(check_cassette, task=task, watch=run.watch), paths, str, lambda path: [path])
        code = report(results, form, _show)
    if form == "text" and len(paths) == 1 and not (code or shard):
        say(f"{paths[0]}: no problems were found")
    raise SystemExit(code)


def _contract_of(terms: Terms) -> Contract:
    """Return terms as text, for other processes."""
    limits = tuple((limit.term.text, limit.most) for limit in terms.limits)
    duration = None if terms.duration is None else terms.duration / 1e6
    expect, forbid = (tuple(term.text for term in several) for several in (terms.expect, terms.forbid))
    return Contract(expect, forbid, limits, duration, terms.definitions)


def _show(result: Result) -> None:
    """Print the findings of one cassette, a line each."""
    for finding in result.findings:
        place = "".join((
            "" if finding.session is None else f" session {finding.session}",
            "" if finding.seq is None else f" #{finding.seq}",
            "" if finding.path is None else f" {finding.path}",
        ))  # fmt: skip
        colour = {"audit": "yellow", "import": None}.get(finding.what, "red")
        where = f"{result.cassette}:{place}: " if place else f"{result.cassette}: "
        if not place and finding.message.startswith(f"{result.cassette} "):
            where = ""  # the message names it
        for line in f"{where}{finding.message}".splitlines():
            echo(writable_text(replace_control_characters(line)), fg=colour)
