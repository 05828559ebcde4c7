"""mcp-tape merge"""

from __future__ import annotations

import click

from ...console import say
from ...console.terminal import echo_json
from ...errors import count, replace_control_characters
from ...transports.signals import exit_on_signal
from ..click_options import cassettes_argument, changed_place, files, json_option


@click.command(
    "merge",
    epilog="\b\nExamples:\n  mcp-tape merge monday.db tuesday.db -o week.db\n"
    "  mcp-tape merge *.db -o all.db --force --json",
)
@cassettes_argument
@click.option("-o", "--output", metavar="FILE", required=True, shell_complete=files, callback=changed_place,
              help="The new cassette.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@json_option
def command(paths: list[str], output: str, force: bool, as_json: bool) -> None:
    """Combine the sessions of several cassettes into one, in the order in which they were recorded.

    Sessions get new numbers; a session that extends another still does. A session that is in several cassettes,
    because one is a copy of another, is taken once. CASSETTE can be a file, a directory, a quoted pattern or a URL.
    The input cassettes are not changed.
    """
    from ...cassette.change.merge_sessions import merge

    click.get_current_context().with_resource(exit_on_signal())
    merged = merge(paths, output, overwrite=force)
    for entry in merged:
        if as_json:
            echo_json(entry._asdict())
        else:
            click.echo(f"{entry.session:>3}  {replace_control_characters(entry.file)} session {entry.was}")
    if not as_json:
        say(f"{count(len(merged), 'session')} in {output}")
