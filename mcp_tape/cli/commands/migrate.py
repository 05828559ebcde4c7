"""mcp-tape migrate"""

from __future__ import annotations

import click

from ...start.outcome import say
from ...transports.signals import tidied_up
from ..click_options import changed_cassette_argument, json_option
from ..output import echo_json


@click.command("migrate", epilog="\b\nExamples:\n  mcp-tape migrate tape.db\n  mcp-tape migrate tape.db --json")
@changed_cassette_argument
@json_option
def command(file: str, as_json: bool) -> None:
    """Bring a cassette that an older mcp-tape has made up to date.

    A cassette that is up to date stays as it is. Otherwise a changed copy takes its place in one step. An
    older mcp-tape can no longer read it.
    """
    from ...cassette.change.migrate import migrate

    click.get_current_context().with_resource(tidied_up())
    versions = migrate(file)
    if as_json:
        echo_json({"file": file, "from": versions[0], "to": versions[-1]})
    elif len(versions) == 1:
        say(f"{file} is up to date: schema {versions[0]}")
    else:
        say(f"{file} is brought from schema {versions[0]} to {versions[-1]}")
