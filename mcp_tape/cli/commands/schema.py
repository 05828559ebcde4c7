"""mcp-tape schema"""

from __future__ import annotations

import json

import click
from click.shell_completion import CompletionItem

from ...schemas import read_schema, schema_names


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in schema_names() if name.startswith(incomplete)]


@click.command(
    "schema",
    epilog="\b\nExamples:\n  mcp-tape schema\n  mcp-tape schema row > row.schema.json",
)
@click.argument("name", required=False, shell_complete=_complete)
def command(name: str | None) -> None:
    """Print the JSON Schema of a shape: JSON that commands print, report lines, locks, stubs, text cassettes.

    Without NAME, list the names.
    """
    names = schema_names()
    if name is None:
        width = max(map(len, names))
        for each in names:
            click.echo(f"{each:<{width}}  {read_schema(each)['title']}")
        return
    if name not in names:
        raise click.UsageError(f"there is no schema {name!r}; there are: {', '.join(names)}")
    click.echo(json.dumps(read_schema(name), indent=2, ensure_ascii=False))
