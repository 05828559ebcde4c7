"""mcp-tape breaking"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from ...console import say
from ...console.terminal import clip, echo
from ...errors import count
from ...fleet.cassette_paths import is_directory
from ...fleet.many.results import comparisons_of
from ...options import REDACT, UPSTREAM, OptionValues
from ...start.server_values import rules_from
from ..click_options import files, many_options, table_options
from ..compare import AfterDashes, ComparisonOptions, judging_options, report
from ..running import CommandRun, worst_exit_code
from .diff import _TIMEOUT, PairPage, new_side, redact_new, references

if TYPE_CHECKING:
    from ...compare.judging import Comparison
    from ...fleet.many.diffing import CassettePair
    from ...fleet.many.results import Result
    from ...fleet.shards import Shard


_LONGEST = 200
_FINE = "It breaks no client"


@click.command(
    "breaking",
    cls=AfterDashes,
    epilog="\b\nExamples:\n"
    "  mcp-tape breaking old.db new.db\n"
    "  mcp-tape breaking --base origin/main tapes/ --format github\n"
    "  mcp-tape breaking tapes-of-v1 tapes-of-v2\n"
    "  mcp-tape breaking time.db -- uvx mcp-server-time",
)
@click.argument(
    "places", metavar="OLD [NEW] | PATH...", nargs=-1, required=True, shell_complete=files, callback=references
)
@click.option(
    "--base", metavar="REVISION", help="Compare every cassette at PATH with its version at this git revision."
)
@click.option("--allow-gone", is_flag=True, help="Do not fail if a cassette is gone.")
@judging_options
@table_options(*UPSTREAM, *REDACT)
@_TIMEOUT
@many_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    places: tuple[str, ...],
    base: str | None,
    allow_gone: bool,
    command: tuple[str, ...],
    timeout: float,
    jobs: int,
    shard: Shard | None,
    options: ComparisonOptions,
    values: OptionValues,
) -> None:
    """Fail if NEW can break a client of OLD: the gate for CI, with exit code 1.

    Works like mcp-tape diff, but always fails at errors, whatever fail-on the project has set. It also fails if it
    cannot know: without a list of tools on both sides, nothing is called compatible.

    With --base, each PATH is a cassette or a directory of cassettes. OLD and NEW can also be directories: cassettes of
    the same name are compared. New and renamed cassettes are listed; a cassette that is gone is a failure, and so is a
    run that compares nothing. A cassette that cannot be read does not stop the others. The exit code is the highest
    of all.
    """
    from ...fleet.many.diffing import DiffTask, compare_pair, files_of, name_of, pairs
    from ...transports.signals import exit_on_signal

    judging = options.judging()._replace(fail_on="error")
    project = judging.project()
    if base is not None and command:
        raise click.UsageError(
            "--base compares cassettes with each other; a live server is compared with one: OLD -- CMD"
        )
    if base is None and len(places) > 2:
        raise click.UsageError(
            f"{count(len(places), 'argument')}, and OLD and NEW are two; for many cassettes: --base REVISION"
        )
    new = places[1] if len(places) > 1 else None
    found = (
        _pairs_at(base, places)
        if base is not None
        else pairs(places[0], new_side(places[0], new, command, timeout, values))
    )
    alone = base is None and not is_directory(places[0])
    rules = rules_from(values)._replace(environ={})  # every process has its own
    task = DiffTask(judging, rules=rules, allows_gone=allow_gone, command="breaking")
    page = PairPage(project, options)
    work = partial(compare_pair, task=task, look=page.render) if alone else partial(compare_pair, task=task)
    run = CommandRun("breaking", "comparing", 1 if alone else jobs, shard, quiet=options.format != "text")
    with exit_on_signal():
        results = run.results(work, found, name_of, files_of)
        file = redact_new(new, values) if alone else None
        done = report(
            results,
            project,
            options,
            alone=alone,
            names=not alone,
            file=file,
            verdict=give_verdict,
            page=lambda: page.html,
        )
    if options.format == "text" and len(done) > 1 and (failed := list(_failing_verdicts(done))):
        echo("\n" + "\n".join(failed))
    if not any(None not in pair[:2] for pair in found):
        say("nothing was compared: no cassette is on both sides")
        ctx.exit(worst_exit_code(done) or 1)
    ctx.exit(worst_exit_code(done))


def _pairs_at(revision: str, places: tuple[str, ...]) -> list[CassettePair]:
    """Pair cassettes with their versions at a revision."""
    from ...diff import base
    from ...fleet.many.diffing import pairs_with_revision

    found = base.find(revision, places)
    for name in found.new:
        say(f"new, so it breaks no client: {name}")
    for before, after in found.pairs:
        if before != after:
            say(f"renamed: {before} → {after}")
    return pairs_with_revision(revision, found)


def give_verdict(comparison: Comparison) -> str:
    if errors := comparison.count("error"):
        return f"It can break clients: {count(errors, 'error')}"
    if any(entry.grave for entry in comparison.unknown):
        return "Whether it breaks clients cannot be known"
    return _FINE


def _failing_verdicts(results: list[Result]) -> Iterator[str]:
    """Print the verdicts on the cassettes that failed."""
    for one in (one for result in results for one in comparisons_of(result)):
        if (verdict := give_verdict(one)) != _FINE:
            yield f"{clip(one.cassette, _LONGEST)}: {verdict}"
