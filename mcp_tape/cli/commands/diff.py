"""mcp-tape diff"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...options import REDACT, UPSTREAM
from ...start.values import rules_from
from ..click_options import files, given_as
from ..compare import AfterDashes, diff_options, finite, project_from, show

if TYPE_CHECKING:
    from ...compare.judging import Comparison
    from ...compare.project import Project
    from ...compare.versions import Part, Version

_URLS = ("http://", "https://")
_TIMEOUT = click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=30.0, show_default=True,
                        metavar="SECONDS", callback=finite,
                        help="How long to wait for each answer of a live server.")  # fmt: skip


def compared(old: str, given: dict[str, Any], project: Project, parts: Sequence[Part]) -> Comparison:
    """OLD against NEW, whatever NEW is."""
    from ...compare.versions import compare

    with versions(old, given, project) as (before, after):
        return compare(before, after, project.settings(given.get("slower_than")), parts)


@contextmanager
def versions(old: str, given: dict[str, Any], project: Project) -> Iterator[tuple[Version, Version]]:
    """OLD and NEW, as long as they can be read."""
    from ...compare import sources
    from ...redaction.diagnostics import hidden
    from ...transports.signals import tidied_up

    new, command = given["new"], given["command"]
    if old.startswith(_URLS):
        shown = hidden(old)
        raise click.UsageError(f"OLD is a recording, and a URL can only be NEW: mcp-tape diff CASSETTE {shown}")
    rules = rules_from(given)
    if bool(new) == bool(command):
        raise click.UsageError("give what to compare with: another cassette, a URL, or -- and a server's command")
    settings = project.settings(given.get("slower_than"))
    with tidied_up(), ExitStack() as stack:
        before = stack.enter_context(sources.opened(old, settings.ignore_paths))
        if command:
            after = sources.surveyed(before, given["timeout"], command=command, rules=rules)
        elif new.startswith(_URLS):
            web = {"url": new, "headers": given["headers"], "cacert": given["cacert"]}
            after = sources.surveyed(before, given["timeout"], **web, rules=rules)
        else:
            after = stack.enter_context(sources.opened(new, settings.ignore_paths))
        yield before, after


def shown_new(given: dict[str, Any]) -> str | None:
    """NEW as it is shown: a URL may hold a password."""
    from ...redaction.diagnostics import Discreet

    new: str | None = given["new"]
    return Discreet(rules_from(given)).text(new) if new and new.startswith(_URLS) else new


@click.command(
    "diff",
    cls=AfterDashes,
    epilog="\b\nExamples:\n"
    "  mcp-tape diff old.db new.db\n"
    "  mcp-tape diff tapes.db#1 tapes.db#2 --calls\n"
    "  mcp-tape diff git:main:tapes/time.db tapes/time.db --format markdown\n"
    "  mcp-tape diff time.db -- uvx mcp-server-time\n"
    "  mcp-tape diff remote.db https://example.com/mcp --surface",
)
@click.argument("old", metavar="OLD", shell_complete=files)
@click.argument("new", metavar="[NEW]", required=False, shell_complete=files)
@click.option("--surface", is_flag=True, help="Only what the server says it offers.")
@click.option("--calls", is_flag=True, help="Only what the recorded calls came to.")
@diff_options
@given_as(*UPSTREAM, *REDACT)
@_TIMEOUT
@click.pass_context
def command(ctx: click.Context, /, old: str, surface: bool, calls: bool, **given: Any) -> None:
    """What changed between two recordings of a server, and what of it breaks clients.

    OLD and NEW are cassettes; with #N one of their sessions, with git:REVISION: before the path as it was then. NEW can
    be a live server, too: a URL, or -- and a command. It is only asked what it offers, and is not recorded; to play
    the recorded calls at it, see mcp-tape verify.
    """
    from ...compare.versions import PARTS, compare

    project = project_from(given)
    parts = [part for part, chosen in zip(PARTS, (surface, calls), strict=True) if chosen] or PARTS
    with versions(old, given, project) as (before, after):
        comparison = compare(before, after, project.settings(given.get("slower_than")), parts)
        show(comparison, project, given, shown_new(given), page=partial(_page, before, after))
    ctx.exit(int(project.fails(comparison)))


def _page(before: Version, after: Version, comparison: Comparison, ignore_file: str) -> bytes:
    """The report, and both recordings to look through."""
    from ...compare.report.wording import View
    from ...viewer.page import compared

    return b"".join(compared(comparison, before, after, View(ignore_file=ignore_file)))
