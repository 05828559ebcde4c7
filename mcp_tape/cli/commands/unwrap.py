"""mcp-tape unwrap"""

from __future__ import annotations

import click

from ...clients import config as files
from ...console import say
from ..wrapping import change, found, is_yaml, meant, options, say_restart


@click.command(
    "unwrap",
    epilog="\b\nExamples:\n"
    "  mcp-tape unwrap github\n"
    "  mcp-tape unwrap --all\n"
    "  mcp-tape unwrap --all --client cursor --dry-run",
)
@options
@click.pass_context
def command(
    ctx: click.Context,
    names: tuple[str, ...],
    client: str | None,
    scope: str | None,
    file: str | None,
    everything: bool,
    dry_run: bool,
) -> None:
    """Take the tape out of the clients again.

    Only what mcp-tape wrap added is removed: the file has the same bytes as before, and your own changes
    since then stay. The recordings stay where they are.
    """
    there = found(client, scope, file)
    chosen = meant(there, names, everything, "unwrap", lambda choice: choice.server.is_wrapped)
    if everything and not names:
        chosen = [choice for choice in chosen if choice.server.is_wrapped]
    changed, refused = change([choice for choice in chosen if not is_yaml(choice)], files.unwrap, dry_run=dry_run)
    for choice in chosen:
        title = choice.found.place.client.title
        if not choice.server.is_wrapped:
            say(f"{choice.server.name} of {title} is not wrapped")
        elif choice in changed and not dry_run:
            say(f"{choice.server.name} of {title} is as it was")
    if not dry_run:
        say_restart(changed)
    ctx.exit(int(refused > 0 or any(one.problem for one in there)))
