"""mcp-tape mcp"""

from __future__ import annotations

import click

from ...errors import quote_path
from ..click_options import files, read_places


@click.command(
    "mcp",
    epilog="\b\nExamples:\n"
    "  mcp-tape mcp\n"
    "  mcp-tape mcp cassettes/\n"
    "  claude mcp add tapes -- mcp-tape mcp cassettes/",
)
@click.argument("places", metavar="[CASSETTE]...", nargs=-1, shell_complete=files, callback=read_places)
def command(places: tuple[str, ...]) -> None:
    """Let agents read recordings: run an MCP server on stdio, with read-only tools.

    A coding agent can then find out by itself why a call failed. The tools list_cassettes, list_sessions,
    show_session, show_exchange, search, stats, why, diff and query work like the commands, and each session
    is a resource. Long answers come in parts.

    The server reads the given cassettes, and those below the given directories, and no other file. The default is
    the cassettes below the current directory, as mcp-tape ls lists them; outside of a project, those in your data
    directory. It starts no program, and redacted values stay redacted.

    It needs the MCP SDK: pip install 'mcp-tape[mcp]'
    """
    from ...agent.places import ReadableCassettes, readable_cassettes
    from ...fleet.cassette_paths import expand_places
    from ...start.cassette_names import default_directory

    try:
        from ...agent.sdk_server import run
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
            raise
        install = f"pip install {quote_path('mcp-tape[mcp]')}"
        raise click.UsageError(f"this command needs the MCP SDK, 2.2 or newer ({error}); try: {install}") from None
    run(readable_cassettes(expand_places(places)) if places else ReadableCassettes([default_directory()]))
