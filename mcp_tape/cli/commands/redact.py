"""mcp-tape redact"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import click

from ...console import say
from ...errors import replace_control_characters
from ...fleet.many.redacting import RedactTask, redact_cassette
from ...fleet.many.results import Result
from ...fleet.shards import Shard
from ...options import REDACT, SECRET_SOURCES, OptionValues
from ...start.server_values import rules_from
from ...transports.signals import exit_on_signal
from ...wire.secret_names import placeholder
from ..click_options import cassettes_argument, format_option, many_options, table_options
from ..running import CommandRun, report


@click.command(
    "redact",
    epilog="\b\nExamples:\n"
    "  mcp-tape redact tape.db --dry-run\n"
    "  mcp-tape redact tape.db --redact-key pin --redact-value 'C-[0-9]+'\n"
    "  mcp-tape redact tape.db --env-file .env\n"
    "  mcp-tape redact tapes/ --jobs 4\n"
    "  mcp-tape check tape.db",
)
@cassettes_argument
@table_options(*REDACT, *SECRET_SOURCES)
@click.option("--dry-run", is_flag=True, help="Report the secrets, and change nothing.")
@format_option
@many_options
def command(
    paths: list[str],
    dry_run: bool,
    jobs: int,
    shard: Shard | None,
    form: str,
    as_json: bool,
    values: OptionValues,
) -> None:
    """Hide secrets in an existing cassette, such as one recorded with --no-redact or fewer rules.

    Uses the rules of recording, the options, and the values in this environment. A value found under a secret key
    is hidden everywhere in the cassette, also in earlier messages. Placeholders are those of recording, and requests
    still match. The file is rewritten, so no page of it holds a hidden value; backups, copies and git's history
    still do. If the cassette is being recorded, the recorder applies its own rules to new messages: run redact again
    at the end.

    CASSETTE can be a file, a directory or a quoted pattern. A cassette that cannot be read does not stop the others;
    the exit code is then 3. --json prints a row for each cassette.
    """
    click.get_current_context().with_resource(exit_on_signal())
    form = "json" if as_json else form
    task = RedactTask(rules_from(values)._replace(environ={}), dry_run)  # every process has its own
    run = CommandRun("redact", "redacting", jobs, shard, quiet=form == "json")
    results = run.results(partial(redact_cassette, task=task, watch=run.watch), paths, str, lambda path: [path])
    raise SystemExit(report(results, form, _show))


def _show(result: Result) -> None:
    """Print the number of hidden values of one cassette, by kind."""
    hidden: Mapping[str, int] = result.details.get("hidden", {})
    for kind, number in sorted(hidden.items()):
        click.echo(f"{number:>7}  {placeholder(replace_control_characters(kind))}")
    for note in result.notes:
        say(note)
