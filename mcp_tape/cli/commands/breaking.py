"""mcp-tape breaking"""

from __future__ import annotations

from typing import Any

import click

from ...options import REDACT, UPSTREAM
from ..click_options import files, given_as
from ..compare import AfterDashes, fails, judging_options, project_from, show
from .diff import _TIMEOUT, compared, shown_new


@click.command(
    "breaking",
    cls=AfterDashes,
    epilog="\b\nExamples:\n"
    "  mcp-tape breaking old.db new.db\n"
    "  mcp-tape breaking git:main:tapes/time.db tapes/time.db --format github\n"
    "  mcp-tape breaking time.db -- uvx mcp-server-time",
)
@click.argument("old", metavar="OLD", shell_complete=files)
@click.argument("new", metavar="[NEW]", required=False, shell_complete=files)
@judging_options
@given_as(*UPSTREAM, *REDACT)
@_TIMEOUT
@click.pass_context
def command(ctx: click.Context, /, old: str, **given: Any) -> None:
    """The gate for CI: exit with 1 if NEW can break a client of OLD.

    As mcp-tape diff, surface and calls, but it always fails at errors, whatever fail-on the project has set, and what
    cannot be known does not pass either: without a list of tools on both sides nothing is called compatible.
    """
    from ...compare.versions import PARTS

    project = project_from(given)._replace(fail_on="error")
    comparison = compared(old, given, project, PARTS)
    show(comparison, project, given, shown_new(given))
    ctx.exit(int(fails(comparison, project) or any(entry.grave for entry in comparison.unknown)))
