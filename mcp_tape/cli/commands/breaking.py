"""mcp-tape breaking"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...console import say
from ...console.terminal import clip, echo
from ...errors import count
from ...fleet.finding import is_directory
from ...options import REDACT, UPSTREAM
from ...start.values import rules_from
from ..click_options import files, given_as
from ..compare import AfterDashes, is_text, judging_from, judging_options, project_from, show
from .diff import _TIMEOUT, PairPage, new_of, references, shown_new, unnamed

if TYPE_CHECKING:
    from ...compare.judging import Comparison
    from ...diff.project import Project
    from ...fleet.many.comparing import Pair
    from ...fleet.many.results import Result


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
    "--base", metavar="REVISION", help="Compare every cassette at PATH with what it was at a revision of git."
)
@click.option("--allow-gone", is_flag=True, help="Cassettes that are no longer there are no failure.")
@judging_options
@given_as(*UPSTREAM, *REDACT)
@_TIMEOUT
@click.pass_context
def command(ctx: click.Context, /, places: tuple[str, ...], **given: Any) -> None:
    """The gate for CI: exit with 1 if NEW can break a client of OLD.

    As mcp-tape diff, surface and calls, but it always fails at errors, whatever fail-on the project has set, and what
    cannot be known does not pass either: without a list of tools on both sides nothing is called compatible.

    With --base, each PATH is a cassette or a directory of cassettes. OLD and NEW can be directories, too: cassettes of
    the same name are compared. Those that are new or renamed are named; one that is gone fails, as does a run that
    compared nothing. One that cannot be read does not stop the others; the exit code is the highest of all.
    """
    project = project_from(given)._replace(fail_on="error")
    if given["base"] is not None and given["command"]:
        raise click.UsageError(
            "--base compares cassettes with each other; a live server is compared with one: OLD -- CMD"
        )
    if given["base"] is None and len(places) > 2:
        raise click.UsageError(
            f"{count(len(places), 'argument')}, and OLD and NEW are two; for many cassettes: --base REVISION"
        )
    given["new"] = places[1] if len(places) > 1 else None
    ctx.exit(_compared(_pairs(places, given), given["base"] is None and not is_directory(places[0]), project, given))


def _pairs(places: tuple[str, ...], given: dict[str, Any]) -> list[Pair]:
    """What to compare: cassettes and what they were at a revision, or those of two directories."""
    from ...diff import base
    from ...fleet.many.comparing import based, pairs

    if given["base"] is None:
        return pairs(places[0], new_of(places[0], given))
    found = base.find(given["base"], places)
    for name in found.new:
        say(f"new, so it breaks no client: {name}")
    for before, after in found.pairs:
        if before != after:
            say(f"renamed: {before} → {after}")
    return based(given["base"], found)


def _compared(pairs: list[Pair], alone: bool, project: Project, given: dict[str, Any]) -> int:
    """Compare pairs, report all of them together, and return the exit code. One that cannot be read stops no other.

    `alone`: there is one pair, of two cassettes that were named.
    """
    from ...fleet.many.comparing import Task, compared
    from ...fleet.many.results import comparisons_of
    from ...transports.signals import tidied_up

    task = Task(judging_from(given), rules=rules_from(given)._replace(environ={}), allows_gone=given["allow_gone"])
    page = PairPage(project, given)
    with tidied_up():
        results = [compared(pair, task, page.look if alone else None) for pair in pairs]
    results = list(map(unnamed, results)) if alone else results
    for result in results:
        for note in result.notes:
            if note not in [finding.message for finding in result.findings]:
                say(note)
    comparisons = [comparison for result in results for comparison in comparisons_of(result)]
    show(comparisons, project, given, shown_new(given) if alone else None, _verdict, page.html)
    if is_text(given) and len(comparisons) > 1:
        echo(f"\n{_in_all(comparisons)}")
    codes = [int(any(_breaks(one, project) for one in result.comparisons)) or _unread(result) for result in results]
    if any(None not in pair[:2] for pair in pairs):
        return max(codes)
    say("nothing was compared: no cassette is on both sides")
    return max(codes, default=0) or 1


def _unread(result: Result) -> int:
    return 0 if result.comparisons else result.code


def _breaks(comparison: Comparison, project: Project) -> bool:
    return project.fails(comparison) or any(entry.grave for entry in comparison.unknown)


def _verdict(comparison: Comparison) -> str:
    if errors := comparison.count("error"):
        return f"It can break clients: {count(errors, 'error')}"
    if any(entry.grave for entry in comparison.unknown):
        return "Whether it breaks clients cannot be known"
    return _FINE


def _in_all(comparisons: list[Comparison]) -> str:
    """The verdict on several cassettes, which must not end with that on the last."""
    bad = [f"{clip(one.cassette, _LONGEST)}: {said}" for one in comparisons if (said := _verdict(one)) != _FINE]
    return "\n".join([*bad, f"Of {count(len(comparisons), 'cassette')} {len(bad) or 'none'} failed"])
