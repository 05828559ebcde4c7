"""mcp-tape diff"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...fleet.finding import is_directory
from ...options import REDACT, UPSTREAM
from ...start.values import rules_from
from ..click_options import files, given_as, many_options, read_place
from ..compare import AfterDashes, diff_options, finite, is_json, judging_from, project_from, show
from ..many.comparing import report
from ..many.running import Run, is_asked, worst

if TYPE_CHECKING:
    from ...compare.judging import Comparison
    from ...compare.project import Project
    from ...compare.sources import Live
    from ...compare.versions import Part, Version
    from ...fleet.many.results import Result
    from ...fleet.shards import Shard

_TIMEOUT = click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=30.0, show_default=True,
                        metavar="SECONDS", callback=finite,
                        help="How long to wait for each answer of a live server.")  # fmt: skip


def references(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """A callback of recordings and live servers: the former get the names by which they are shown."""
    from ...compare.sources import is_live

    if isinstance(value, tuple):
        return tuple(references(ctx, param, one) for one in value)
    return value if value is None or is_live(value) else read_place(value)


@contextmanager
def versions(old: str, given: dict[str, Any], project: Project) -> Iterator[tuple[Version, Version]]:
    """OLD and NEW, as long as they can be read."""
    from ...compare import sources
    from ...transports.signals import tidied_up

    new = new_of(old, given)
    with tidied_up(), sources.both(old, new, rules_from(given), project.ignore_paths) as found:
        yield found


def new_of(old: str, given: dict[str, Any]) -> str | Live:
    """NEW: another cassette, or a live server."""
    from ...compare.sources import Live, is_live
    from ...redaction.diagnostics import hidden

    new, command = given["new"], given["command"]
    if is_live(old):
        hint = f"mcp-tape diff CASSETTE {hidden(old)}; the URL of a cassette ends in .db or .jsonl"
        raise click.UsageError(f"OLD is a recording, and a URL can only be NEW: {hint}")
    if bool(new) == bool(command):
        raise click.UsageError("give what to compare with: another cassette, a URL, or -- and a server's command")
    if command:
        return Live(tuple(command), timeout=given["timeout"])
    if is_live(new):
        return Live(url=new, headers=given["headers"], cacert=given["cacert"], timeout=given["timeout"])
    return str(new)


def shown_new(given: dict[str, Any]) -> str | None:
    """NEW as it is shown: a URL may hold a password."""
    from ...compare.sources import is_live
    from ...redaction.diagnostics import Discreet

    new: str | None = given["new"]
    return Discreet(rules_from(given)).text(new) if new and is_live(new) else new


@click.command(
    "diff",
    cls=AfterDashes,
    epilog="\b\nExamples:\n"
    "  mcp-tape diff old.db new.db\n"
    "  mcp-tape diff tapes.db#1 tapes.db#2 --calls\n"
    "  mcp-tape diff git:main:tapes/time.db tapes/time.db --format markdown\n"
    "  mcp-tape diff time.db -- uvx mcp-server-time\n"
    "  mcp-tape diff tapes-of-v1 tapes-of-v2 --jobs 4\n"
    "  mcp-tape diff remote.db https://example.com/mcp --surface",
)
@click.argument("old", metavar="OLD", shell_complete=files, callback=references)
@click.argument("new", metavar="[NEW]", required=False, shell_complete=files, callback=references)
@click.option("--surface", is_flag=True, help="Only what the server says it offers.")
@click.option("--calls", is_flag=True, help="Only what the recorded calls came to.")
@diff_options
@given_as(*UPSTREAM, *REDACT)
@_TIMEOUT
@many_options
@click.pass_context
def command(
    ctx: click.Context, /, old: str, surface: bool, calls: bool, jobs: int, shard: Shard | None, **given: Any
) -> None:
    """What changed between two recordings of a server, and what of it breaks clients.

    OLD and NEW are cassettes; with #N one of their sessions, with git:REVISION: before the path as it was then. NEW can
    be a live server, too: a URL that does not end in .db or .jsonl, or -- and a command. It is only asked what it
    offers, and is not recorded; to play the recorded calls at it, see mcp-tape verify.

    OLD and NEW can be directories: cassettes of the same name are compared, and one that is only in OLD is a finding. A
    directory can be compared with a live server, too. The exit code is the highest of all. With --jobs or --shard,
    --json is one row a cassette, for mcp-tape merge-reports.
    """
    from ...compare.versions import PARTS, compare

    project = project_from(given)
    parts = [part for part, chosen in zip(PARTS, (surface, calls), strict=True) if chosen] or PARTS
    if is_asked() or is_directory(old):
        ctx.exit(worst(_many(old, given, project, parts, Run("diff", "comparing", jobs, shard, is_json(given)))))
    with versions(old, given, project) as (before, after):
        comparison = compare(before, after, project.settings(given.get("slower_than")), parts)
        show(comparison, project, given, shown_new(given), page=partial(page, before, after))
    ctx.exit(int(project.fails(comparison)))


def _many(old: str, given: dict[str, Any], project: Project, parts: Sequence[Part], run: Run) -> list[Result]:
    """Compare the cassettes of a directory, or two of them, with results that can be merged."""
    from ...fleet.many.comparing import Task, compared, files_of, name_of, pairs
    from ...transports.signals import tidied_up

    found = pairs(old, new_of(old, given))
    rules = rules_from(given)._replace(environ={})  # every process has its own
    work = partial(compared, task=Task(judging_from(given), tuple(parts), rules))
    with tidied_up():
        if is_asked():
            return report(run.results(work, found, name_of, files_of), len(found), project, given)
        return report(((work(pair), {}) for pair in found), len(found), project, given)


def page(before: Version, after: Version, comparison: Comparison, ignore_file: str) -> bytes:
    """The report, and both recordings to look through."""
    from ...compare.report.wording import View
    from ...viewer.page import compared

    return b"".join(compared(comparison, before, after, View(ignore_file=ignore_file)))
