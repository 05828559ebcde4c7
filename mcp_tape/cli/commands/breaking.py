"""mcp-tape breaking"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...errors import count
from ...options import REDACT, UPSTREAM
from ...start.outcome import say
from ..click_options import files, given_as
from ..compare import AfterDashes, is_text, judging_options, project_from, show
from ..output import clip, echo
from .diff import _TIMEOUT, page, references, shown_new, versions

if TYPE_CHECKING:
    from ...compare.judging import Comparison
    from ...compare.project import Project


_LONGEST = 200
_FINE = "It breaks no client"


@click.command(
    "breaking",
    cls=AfterDashes,
    epilog="\b\nExamples:\n"
    "  mcp-tape breaking old.db new.db\n"
    "  mcp-tape breaking --base origin/main tapes/ --format github\n"
    "  mcp-tape breaking time.db -- uvx mcp-server-time",
)
@click.argument(
    "places", metavar="OLD [NEW] | PATH...", nargs=-1, required=True, shell_complete=files, callback=references
)
@click.option(
    "--base", metavar="REVISION", help="Compare every cassette at PATH with what it was at a revision of git."
)
@click.option("--allow-gone", is_flag=True, help="With --base: cassettes that are no longer there are no failure.")
@judging_options
@given_as(*UPSTREAM, *REDACT)
@_TIMEOUT
@click.pass_context
def command(ctx: click.Context, /, places: tuple[str, ...], **given: Any) -> None:
    """The gate for CI: exit with 1 if NEW can break a client of OLD.

    As mcp-tape diff, surface and calls, but it always fails at errors, whatever fail-on the project has set, and what
    cannot be known does not pass either: without a list of tools on both sides nothing is called compatible.

    With --base, each PATH is a cassette or a directory of cassettes. Those that are new or renamed are named; one that
    is gone fails, as does a run that compared nothing.
    """
    from ...compare.versions import compare

    project = project_from(given)._replace(fail_on="error")
    if given["base"] is not None:
        if given["command"]:
            raise click.UsageError(
                "--base compares cassettes with each other; a live server is compared with one: OLD -- CMD"
            )
        comparisons = _with_base(given["base"], places, given, project)
        show(comparisons, project, given, verdict=_verdict)
        if is_text(given) and len(comparisons) > 1:
            echo(f"\n{_in_all(comparisons)}")
        ctx.exit(int(any(_breaks(one, project) for one in comparisons) or not any(one.compared for one in comparisons)))
    if len(places) > 2:
        raise click.UsageError(
            f"{count(len(places), 'argument')}, and OLD and NEW are two; for many cassettes: --base REVISION"
        )
    given["new"] = places[1] if len(places) > 1 else None
    with versions(places[0], given, project) as (before, after):
        comparison = compare(before, after, project.settings())
        show(comparison, project, given, shown_new(given), _verdict, partial(page, before, after))
    ctx.exit(int(_breaks(comparison, project)))


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


def _with_base(revision: str, paths: tuple[str, ...], given: dict[str, Any], project: Project) -> list[Comparison]:
    """Every cassette against what it was at a revision."""
    from ...compare import base
    from ...compare.judging import Comparison, Unknown
    from ...compare.versions import compare

    found = base.find(revision, paths)
    for name in found.new:
        say(f"new, so it breaks nobody: {name}")
    comparisons = []
    for before, after in found.pairs:
        if before != after:
            say(f"renamed: {before} → {after}")
        with versions(base.reference(revision, before), given | {"new": after}, project) as pair:
            comparisons.append(compare(*pair, project.settings())._replace(cassette=after))
    for name in found.gone:
        why = f"NEW: it is gone, and was there at {revision}"
        why += ", as --allow-gone allows" if given["allow_gone"] else "; if that is meant: --allow-gone"
        unknown = Unknown("the cassette", why, not given["allow_gone"])
        comparisons.append(
            Comparison(base.reference(revision, name), "gone", project.category, (), (unknown,), cassette=name)
        )
    if not any(one.compared for one in comparisons):
        say(f"nothing was compared: no cassette here was there at {revision}")
    return comparisons
