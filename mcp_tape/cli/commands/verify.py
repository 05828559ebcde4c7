"""mcp-tape verify"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from ...cassette.schema import expect_local
from ...options import RECORDING, WEB, OptionValues, words_for
from ...redaction.diagnostics import hide_secrets
from ...values import check_session
from ..click_options import SECRETS, cassettes_argument, many_options, table_options
from ..compare import AfterDashes, ComparisonOptions, diff_options, report
from ..running import CommandRun, worst_exit_code
from .diff import _TIMEOUT

if TYPE_CHECKING:
    from ...fleet.many.results import Result
    from ...fleet.many.verifying import VerifyTask
    from ...fleet.shards import Shard
    from ...verify.plan import VerifyOptions, VerifyTarget

# Read here only to refuse invalid values: the recorder gets the words.
_RECORDING = tuple(row._replace(check=row.parse or row.check, parse=None) for row in RECORDING)


@click.command(
    "verify",
    cls=AfterDashes,
    sections={
        "Most used": "--url --allow-writes --skip-writes --update --fail-on",
        "The server": "--header --cacert --timeout",
        "What is compared": "--session --category --only --ignore-path --slower-than",
        "The report": "--format --json --also --level --full --quiet",
        "The new recording": "--no-keep --note",
        "Secrets": SECRETS,
        "Many cassettes": "--jobs --shard",
    },
    epilog="\b\nExamples:\n"
    "  mcp-tape verify time.db -- uvx mcp-server-time\n"
    "  mcp-tape verify tapes/*.db --skip-writes -- python server.py\n"
    "  mcp-tape verify remote.db --url https://example.com/mcp --header 'X-Key: …'\n"
    "  mcp-tape verify time.db --update -- uvx mcp-server-time",
)
@cassettes_argument
@click.option("--session", default="latest", show_default=True, metavar="N",
              help="latest, all or a number. latest: the newest session that is not a probe, and those that extend "
              "it.")  # fmt: skip
@click.option("--allow-writes", is_flag=True, help="Also call tools that are not annotated as read-only.")
@click.option("--skip-writes", is_flag=True, help="Skip those tools, and list them.")
@click.option("--update", is_flag=True, help="Show the changes, then replace the recording with the new one.")
@click.option(
    "--no-keep", is_flag=True, help="Leave no CASSETTE.new for mcp-tape review. This is the default if $CI is set."
)
@_TIMEOUT
@table_options(*WEB)
@diff_options
@table_options(*_RECORDING)
@click.option("-q", "--quiet", is_flag=True, help="Show only changes, unless something goes wrong.")
@many_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: list[str],
    command: tuple[str, ...],
    session: str,
    allow_writes: bool,
    skip_writes: bool,
    update: bool,
    no_keep: bool,
    timeout: float,
    quiet: bool,
    jobs: int,
    shard: Shard | None,
    options: ComparisonOptions,
    values: OptionValues,
) -> None:
    """Play the recorded client against a live server, and report what changed.

    The server's own requests get the recorded answers. Generated values, such as cursors and ids, are sent back
    as a client would; secrets that the recording hides are taken from the environment. The run is recorded, and
    compared as by mcp-tape diff.

    CASSETTE can be a file, a directory, a quoted pattern or a URL. Each gets its own server. A cassette that cannot
    be read or verified does not stop the others. The exit code is the highest of all. --json prints a row for each
    cassette, with a comparison for each session.
    """
    from ...fleet.many.verifying import VerifyTask, by_file, verify_cassette
    from ...transports.signals import exit_on_signal

    server = _server(command, values)
    playing = _options(session, allow_writes, skip_writes, timeout)
    playing = playing._replace(recording=tuple(words_for(_RECORDING, values)))
    for file in paths if update else ():
        expect_local(file)
    judging = options.judging()
    groups = by_file(paths)
    keeps = not (no_keep or os.environ.get("CI"))
    task = VerifyTask(server, playing, judging, update, keeps, quiet, announces=not quiet)
    ctx.with_resource(exit_on_signal())
    run = CommandRun("verify", "verifying", jobs, shard, quiet or options.format == "json")
    work = partial(verify_cassette, task=task) if jobs > 1 else partial(_verify_group, task=task)
    found = run.results(work, groups, _name, lambda group: [_place(group)])
    ctx.exit(worst_exit_code(report(found, judging.project(), options, alone=len(groups) == 1)))


def _name(group: Sequence[str]) -> str:
    return group[0]


def _place(group: Sequence[str]) -> str:
    from ...diff.sources import parse

    return parse(group[0]).path


def _verify_group(group: tuple[str, ...], task: VerifyTask) -> Result:
    """Verify in this process, with progress."""
    from ...fleet.many.verifying import verify_cassette

    shows = sys.stderr.isatty()

    def show_progress(path: str, done: int, of: int) -> None:
        if shows:
            click.echo(f"\rverifying {os.path.basename(path)}: {done}/{of} calls", nl=False, err=True)

    try:
        return verify_cassette(group, task, show_progress)
    finally:
        if shows:
            click.echo("\r\033[K", nl=False, err=True)


def _server(command: tuple[str, ...], values: OptionValues) -> VerifyTarget:
    from ...verify.plan import VerifyTarget

    if command and values.url:
        raise click.UsageError(f"either --url {hide_secrets(values.url)} or the command {command[0]}, not both")
    if not command and not values.url:
        raise click.UsageError("which server should be verified? Add -- and the server's command, or --url URL")
    if command and (values.headers or values.cacert):
        raise click.UsageError("--header and --cacert go with --url; a command talks on stdin and stdout")
    return VerifyTarget(command, values.url or "", values.headers, values.cacert)


def _options(session: str, allow_writes: bool, skip_writes: bool, timeout: float) -> VerifyOptions:
    from ...verify.plan import VerifyOptions

    if allow_writes and skip_writes:
        raise click.UsageError("either --allow-writes or --skip-writes, not both")
    try:
        check_session(session)
    except ValueError as error:
        raise click.UsageError(f"--session: {error}") from None
    return VerifyOptions(session, "allow" if allow_writes else "skip" if skip_writes else "refuse", timeout)
